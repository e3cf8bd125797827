"""A schedule as a shell script of sbatch lines, in the order in which jobs begin.

A pool is a partition, a dependency the id of the job before, a job of two machines two tasks of one job.
Options: slurm.schedmd.com/sbatch.html.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta

from gpufleet.deploy.skypilot_jobs import command_of, nodes_of
from gpufleet.domain.schedule import WHOLE_MILLI
from gpufleet.languages import MOST_OF_A_NAME, comment, distinct_names, partition_name, shell_command
from gpufleet.results.schedule import ScheduledRun, SchedulePlan
from gpufleet.units import DAY, HOUR, MINUTE

SHARDS_PER_GPU = 100
"""What gres.conf deals a GPU out into, for jobs that take a share: Name=shard Count=100 for each."""
HEADING = """#!/bin/sh
# A pool is a partition. Jobs begin when they are scheduled, or as soon after as their GPUs are free.
# A limit is the high end of a duration, but ends where a maintenance window begins that leaves too few GPUs.
# A job of several machines has one task on each, as srun starts them.
"""


def slurm_script(plan: SchedulePlan) -> str:
    """All jobs; one that waits for others is submitted after them."""
    runs = sorted(plan.runs, key=lambda run: (run.start_s, run.job))
    waited_for = {name for run in runs for name in run.after}
    shares = f"# Shares of a GPU are shards: {SHARDS_PER_GPU} for each GPU.\n" if any(r.gpus < 1 for r in runs) else ""
    partitions = distinct_names((pool.pool for pool in plan.pools), partition_name, MOST_OF_A_NAME)
    spelt = [comment(f"Pool {pool} is partition {name}.") + "\n" for pool, name in partitions.items() if name != pool]
    numbers = {run.job: f"id_{number}" for number, run in enumerate(runs, 1)}
    lines = [line(plan, run, partitions, numbers, is_waited_for=run.job in waited_for) for run in runs]
    return HEADING + shares + "".join(spelt) + "set -eu\n" + "\n".join(lines) + "\n"


def line(
    plan: SchedulePlan,
    run: ScheduledRun,
    partitions: Mapping[str, str],
    numbers: Mapping[str, str],
    *,
    is_waited_for: bool,
) -> str:
    """One job."""
    words = ["sbatch", "--parsable", *options(plan, run, partitions[run.pool]), f"--wrap={wrapped(run)}"]
    command = shell_command(words)
    if run.after:
        ids = ":".join("${%s}" % numbers[name] for name in run.after)  # noqa: UP031
        command = command.replace("sbatch --parsable", f'sbatch --parsable --dependency="afterok:{ids}"', 1)
    return f"{numbers[run.job]}=$({command})" if is_waited_for else command


def wrapped(run: ScheduledRun) -> str:
    """What runs: a script of sbatch runs on the first machine alone, srun runs a task on each."""
    command = command_of(run)
    return f"srun {shell_command(['sh', '-c', command])}" if nodes_of(run.gpus) > 1 else command


def options(plan: SchedulePlan, run: ScheduledRun, partition: str) -> list[str]:
    """The options of one job."""
    found = [f"--job-name={run.job}", f"--partition={partition}", *machines(run)]
    found += [f"--time={clock(limit_s(plan, run))}", f"--begin={begin(plan, run.start_s)}"]
    return [*found, "--requeue" if run.can_pause else "--no-requeue"]


def machines(run: ScheduledRun) -> list[str]:
    """How many machines, with one task on each, and what it has of GPUs there."""
    nodes = nodes_of(run.gpus)
    milli = round(run.gpus * WHOLE_MILLI) // nodes
    if milli < WHOLE_MILLI:
        gpus = f"--gres=shard:{math.ceil(milli * SHARDS_PER_GPU / WHOLE_MILLI)}"
    else:
        gpus = f"--gpus-per-node={milli // WHOLE_MILLI}"
    return [f"--nodes={nodes}", "--ntasks-per-node=1", gpus]


def limit_s(plan: SchedulePlan, run: ScheduledRun) -> float:
    """How long a job may run   [s]: the high end of its duration, up to the maintenance that would stop it.

    A job whose limit reaches into a reservation for maintenance would not begin.
    """
    if len(run.pieces) > 1:
        return run.end_s - run.start_s
    longest = run.work.high or run.work.value
    pool = next(pool for pool in plan.pools if pool.pool == run.pool)
    stops = [o.start_s for o in pool.outages if o.start_s >= run.end_s and pool.gpus - o.gpus < run.gpus]
    return min([longest, *(stop - run.start_s for stop in stops)])


def begin(plan: SchedulePlan, seconds: float) -> str:
    """A date where the schedule has one, else so long from when the script runs."""
    if plan.start is None:
        return f"now+{seconds:.0f}seconds"
    return (plan.start + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def clock(seconds: float) -> str:
    """A limit as days-hours:minutes:seconds, at least a minute.

    >>> clock(90_061.0)
    '1-01:02:00'
    """
    minutes = max(math.ceil(seconds / MINUTE), 1)
    days, rest = divmod(minutes, round(DAY / MINUTE))
    hours, minutes = divmod(rest, round(HOUR / MINUTE))
    return f"{days}-{hours:02}:{minutes:02}:00"
