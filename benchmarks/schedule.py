"""Jobs with deadlines on one pool of GPUs: how much less late than earliest deadline first with holes filled.

    python benchmarks/schedule.py alibaba_gpu_2023_pods.csv      pods of the cluster trace (openb_pod_list_default.csv)
    python benchmarks/schedule.py --gavel jobs.csv THROUGHPUTS.json  steps over the throughputs of Gavel's repository
                                                   (scheduler/*_throughputs.json: V100s, jobs alone on them)
    python benchmarks/schedule.py                                 generated jobs stand in, which is said
    python benchmarks/schedule.py FILE --online                   the same jobs as they arrive, policy by policy
    --markdown                                                    as the table of docs/schedule.md

Jobs are drawn from those that ran for two days at most, without replacement, and keep the order and the burstiness of
their arrivals, which are pressed together so that they offer `load` times what the pool can do while they arrive.
All are known at the start, each with its arrival as its earliest start (offline). Slots of ten minutes, deadline =
arrival + duration x U(1.2, 4), weight = GPUs: tardiness is in GPU-slots. Shares of GPUs are rounded up, or packed. Work
is counted, as many steps as by default or `--steps`. Bars, median of five seeds: 200 jobs on 8 GPUs 0.30 of EDF, 500
on 12 0.40. Online, nobody knows what arrives next: late GPU-slots of each policy as a share of those of EDF, jobs that
cannot pause, and jobs that may for a restart of 12 minutes.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpufleet.api.online_schedule import makers, replayed
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.schedule import WHOLE_MILLI, Pool, ScheduledJob, Way
from gpufleet.inputs.job_trace import read_job_trace
from gpufleet.optimize.schedule.at_once import edf_schedule
from gpufleet.optimize.schedule.best import best_found
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import Grid, Placement
from gpufleet.optimize.schedule.online import EDF, POLICIES
from gpufleet.questions.schedule import STEPS_ONLINE, ScheduleRequest, usual_steps
from gpufleet.results.schedule import PolicyOutcome
from gpufleet.units import DAY, HOUR, MINUTE

SLOT_S, LONGEST_S, SLACK, SEEDS = 10 * MINUTE, 2 * DAY, (1.2, 4.0), range(5)
SIZES = ((200, 8, 0.30), (500, 12, 0.40))
LOADS = (1.0, 2.0, 4.0)
REPEATED_STEPS = 3000
HEADINGS = ("jobs, GPUs", "load", "shares of a GPU", "EDF, by seed", "ours, by seed", "of EDF", "nobody below", "bar")


@dataclass(frozen=True)
class Trace:
    """Jobs as they were: arrival and duration in seconds, thousandths of a GPU."""

    name: str
    arrival_s: FloatArray
    duration_s: FloatArray
    milli: FloatArray


def alibaba(path: str) -> Trace:
    """Pods that ask for a GPU and ran."""
    rows = [(j.arrival_s, j.duration_s, j.milli_gpus) for j in read_job_trace(path) if j.duration_s <= LONGEST_S]
    return Trace("Alibaba 2023", *np.array(rows, dtype=float).T)


def gavel(path: str, throughputs: str) -> Trace:
    """Jobs of Philly with Gavel's models: steps over steps per second on a V100 (the part `v100` of its JSON)."""
    with open(throughputs, encoding="utf-8") as stream:
        told = json.load(stream)["v100"]
    speeds = {tuple(key.strip("()").replace("'", "").rsplit(", ", 1)): value["null"] for key, value in told.items()}
    rows = []
    with open(path, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            speed = speeds.get((row["job_type"], row["num_gpus"]), 0.0)
            took = float(row["total_steps"]) / speed if speed else math.inf
            if 0 < took <= LONGEST_S:
                rows.append((float(row["arrival_s"]), took, int(row["num_gpus"]) * WHOLE_MILLI))
    return Trace("Gavel", *np.array(rows).T)


def generated() -> Trace:
    """Durations, gangs and shares about as in such traces, of nobody."""
    rng = np.random.default_rng(18)
    took = np.minimum(rng.lognormal(math.log(50 * MINUTE), 1.7, 4000), LONGEST_S)
    gangs = rng.choice([1, 2, 4, 8], 4000, p=[0.985, 0.003, 0.002, 0.010]) * float(WHOLE_MILLI)
    shares = rng.choice([250.0, 460.0, 500.0, 810.0], 4000)
    milli = np.where((gangs == WHOLE_MILLI) & (rng.random(4000) < 0.45), shares, gangs)
    return Trace("generated", np.cumsum(rng.exponential(1.0, 4000)), took, milli)


def drawn(trace: Trace, jobs: int, gpus: int, load: float, seed: int, *, packed: bool) -> Grid:
    """So many jobs on so many GPUs."""
    rng = np.random.default_rng(seed)
    fits = np.flatnonzero(trace.milli <= gpus * WHOLE_MILLI)
    chosen = np.sort(rng.choice(fits, jobs, replace=False))
    chosen = chosen[np.argsort(trace.arrival_s[chosen], kind="stable")]
    slots = np.maximum(np.ceil(trace.duration_s[chosen] / SLOT_S), 1)
    whole = np.ceil(trace.milli[chosen] / WHOLE_MILLI)
    span = float((slots * whole).sum()) / gpus / load
    since = trace.arrival_s[chosen] - trace.arrival_s[chosen[0]]
    arrival = np.ceil(since / since[-1] * span)
    deadline = arrival + np.ceil(slots * rng.uniform(*SLACK, jobs))
    milli = trace.milli[chosen] if packed else whole * WHOLE_MILLI
    asked = tuple(
        ScheduledJob(
            f"job-{n}",
            (Way("pool", int(milli[n]), float(slots[n]) * SLOT_S),),
            float(arrival[n]) * SLOT_S,
            float(deadline[n]) * SLOT_S,
            float(whole[n]),
        )
        for n in range(jobs)
    )
    return Grid((Pool("pool", "GPU", gpus),), asked, SLOT_S)


@dataclass(frozen=True)
class Outcome:
    """One question: late GPU-slots by EDF and by ours; the bound."""

    edf: int
    ours: int
    bound: int
    took_s: float

    @property
    def ratio(self) -> float:
        """Of EDF; none late is as good as can be."""
        return self.ours / self.edf if self.edf else 1.0


def outcome(grid: Grid, seed: int, steps: int | None) -> Outcome:
    """EDF, then ours."""
    began = time.process_time()
    edf = edf_schedule(grid) or []
    effort = Effort(usual_steps(len(grid.jobs)) if steps is None else steps, seed=seed)
    found = best_found(grid, edf, effort, np.random.default_rng(seed))
    late_edf, late_ours = (grid.score(placed).late for placed in (edf, found.placed))
    return Outcome(late_edf, late_ours, found.bound.late, time.process_time() - began)


@dataclass(frozen=True)
class Cell:
    """One size, load and way to count shares, with an outcome for each seed."""

    jobs: int
    gpus: int
    bar: float
    load: float
    packed: bool
    outcomes: Sequence[Outcome]

    @property
    def ratio(self) -> float:
        """Late GPU-slots as a share of those of EDF, median of the seeds."""
        return statistics.median(o.ratio for o in self.outcomes)

    @property
    def least(self) -> float:
        """What no schedule's share is below, median of the seeds."""
        return statistics.median(o.bound / max(o.edf, 1) for o in self.outcomes)

    @property
    def shares(self) -> str:
        """How shares of a GPU are counted."""
        return "packed" if self.packed else "rounded up"

    def line(self) -> str:
        """In words."""
        return (
            f"{self.jobs} on {self.gpus}, load {self.load:g}, {self.shares}: median {self.ratio:.3f} "
            f"(bar {self.bar:g}) of EDF, and nobody's is below {self.least:.3f}; "
            f"{', '.join(f'{o.edf}>{o.ours} (>={o.bound})' for o in self.outcomes)}; "
            f"{max(o.took_s for o in self.outcomes):.1f} s of processor"
        )

    def row(self) -> str:
        """As a row of a table in Markdown."""
        edf = ", ".join(f"{o.edf:,}" for o in self.outcomes)
        ours = ", ".join(f"{o.ours:,}" for o in self.outcomes)
        cells = (f"{self.jobs}, {self.gpus}", f"{self.load:g}", self.shares, edf, ours, f"{self.ratio:.3f}")
        return table_row(*cells, f"{self.least:.3f}", f"{self.bar:.2f}")


def table_row(*cells: str) -> str:
    """A row in Markdown."""
    return f"| {' | '.join(cells)} |"


def cells_of(trace: Trace, loads: Sequence[float], seeds: Sequence[int], steps: int | None) -> Iterator[Cell]:
    """Each size, load and, where jobs take shares of a GPU, way to count these."""
    has_shares = bool((trace.milli % WHOLE_MILLI).any())
    for (jobs, gpus, bar), load, packed in itertools.product(SIZES, loads, (False, True)[: 1 + has_shares]):
        found = [outcome(drawn(trace, jobs, gpus, load, seed, packed=packed), seed, steps) for seed in seeds]
        yield Cell(jobs, gpus, bar, load, packed, found)


def online_rows(trace: Trace, loads: Sequence[float], seeds: Sequence[int], steps: int) -> Iterator[str]:
    """A line for each size, load and whether jobs may pause; medians of the seeds."""
    for jobs, gpus, _ in SIZES:
        for load in loads:
            for can_pause in (False, True):
                grids = [drawn(trace, jobs, gpus, load, seed, packed=False) for seed in seeds]
                began = time.monotonic()
                found = [online_outcomes(grid, seed, steps, can_pause=can_pause) for seed, grid in enumerate(grids)]
                told = ", ".join(f"{name} {online_figures(name, found)}" for name in POLICIES)
                pauses = "may pause" if can_pause else "cannot pause"
                yield f"{jobs} on {gpus}, load {load:g}, {pauses}: {told}; {time.monotonic() - began:.0f} s"


def online_figures(name: str, found: Sequence[dict[str, PolicyOutcome]]) -> str:
    """How late as a share of earliest deadline first, and the mean time from arrival to end."""
    late = [o[name].late_weighted_hours / (o[EDF].late_weighted_hours or 1.0) for o in found]
    done = [o[name].mean_completion_s / HOUR for o in found]
    return f"{statistics.median(late):.3f} ({statistics.median(done):.2f} h)"


def online_outcomes(grid: Grid, seed: int, steps: int, *, can_pause: bool) -> dict[str, PolicyOutcome]:
    """What each policy comes to."""
    restart_s = load_job_habits().restart_s.expected
    jobs = [
        replace(job, can_pause=can_pause, ways=tuple(replace(way, restart_s=restart_s) for way in job.ways))
        for job in grid.asked
    ]
    asked = ScheduleRequest("", steps=steps, seed=seed)
    ratios = [1.0] * len(jobs)
    return {
        name: replayed(name, make(), asked, grid.pools, jobs, ratios)
        for name, make in makers(asked, grid.slot_s, jobs).items()
    }


def repeated(trace: Trace, steps: int) -> str:
    """Whether the same seed gives the same schedule."""

    def once() -> list[Placement]:
        grid = drawn(trace, 200, 8, 2.0, 0, packed=True)
        return list(best_found(grid, edf_schedule(grid) or [], Effort(steps), np.random.default_rng(0)).placed)

    return f"{steps} steps, twice: {'the same schedule' if once() == once() else 'NOT the same'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--gavel", nargs=2, metavar=("JOBS", "THROUGHPUTS"))
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--online", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    trace = gavel(*asked.gavel) if asked.gavel else alibaba(asked.trace) if asked.trace else generated()
    print(f"{trace.name}: {len(trace.milli):,} jobs" + ("" if asked.trace or asked.gavel else ", generated, of nobody"))
    if asked.online:
        steps = STEPS_ONLINE if asked.steps is None else asked.steps
        for row in online_rows(trace, asked.loads, range(asked.seeds), steps):
            print(row, flush=True)
        return
    if not asked.markdown:
        print(repeated(trace, REPEATED_STEPS if asked.steps is None else asked.steps), flush=True)
    if asked.markdown:
        print(table_row(*HEADINGS), table_row(*("---" for _ in HEADINGS)), sep="\n")
    for cell in cells_of(trace, asked.loads, range(asked.seeds), asked.steps):
        print(cell.row() if asked.markdown else cell.line(), flush=True)


if __name__ == "__main__":
    main()
