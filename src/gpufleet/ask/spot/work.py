"""What a job on spot is: the time that it takes, a restart, its checkpoints; from a plan, or as it is said."""

from __future__ import annotations

import math
from dataclasses import replace

from gpufleet.api.plan_files import notes_on_file
from gpufleet.ask.spot.words import SpotRequest
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.domain.interruption import Spread
from gpufleet.errors import Infeasible, UsageError
from gpufleet.inputs.plan_file import read_job_plan
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.encoders import EncoderBatchPlan
from gpufleet.results.job import BatchPlan, RentedJob
from gpufleet.results.training import TrainingDeployment, TrainingPlan
from gpufleet.units import HOUR, MINUTE, SECONDS


@dataclass(frozen=True)
class SpotWork:
    """A job as it was understood; `machines` may run it, so many of them at once."""

    title: str
    work_s: Spread
    restart_s: Spread
    deadline_s: float
    checkpoint_write_s: float
    checkpoint_every_s: float | None
    reserve_s: float
    machines: tuple[str, ...]
    num_machines: int
    grade: str
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


def work_of(asked: SpotRequest) -> SpotWork:
    """The job of a question."""
    work = stated_work(asked) if asked.job is None else planned_work(asked, read_job_plan(str(asked.job)))
    if not (work.work_s.low > 0 and work.work_s.high <= SECONDS.most and 0 < work.deadline_s <= SECONDS.most):
        raise UsageError("work and deadline are times", found=f"{work.work_s.expected:g} s, {work.deadline_s:g} s")
    return replace(work, inputs=inputs_of(asked, work))


def stated_work(asked: SpotRequest) -> SpotWork:
    """The job as it is said, with habits where nothing is."""
    if asked.work_s is None or asked.deadline_s is None:
        hint = "Or name the file of a plan: gpufleet plan finetune ... --out-file plan.json."
        raise UsageError("nothing says what the job is", expected="--work 48h --deadline 72h", hint=hint)
    habits = load_job_habits()
    write_s = habits.checkpoint_write_s.expected if asked.checkpoint_write_s is None else asked.checkpoint_write_s
    return SpotWork(
        title=f"a job of {asked.work_s.expected / HOUR:.4g} h",
        work_s=asked.work_s,
        restart_s=asked.restart_s or habits.restart_s,
        deadline_s=asked.deadline_s,
        checkpoint_write_s=write_s,
        checkpoint_every_s=asked.checkpoint_every_s,
        reserve_s=asked.reserve_s or 0.0,
        machines=tuple(asked.machine or ()),
        num_machines=asked.machines,
        grade="given",
        inputs=(),
        notes=same_time_notes(asked, asked.work_s),
    )


def same_time_notes(asked: SpotRequest, work_s: Spread) -> tuple[str, ...]:
    """What several machine types are taken to have in common."""
    if len(asked.machine or ()) < 2:
        return ()
    return (f"Warning: every machine type is taken to need the same {work_s.expected / HOUR:.4g} h.",)


def planned_work(asked: SpotRequest, plan: TrainingPlan | BatchPlan | EncoderBatchPlan) -> SpotWork:
    """The answer of a plan: its machines, its time without a stop, its checkpoints; what is said goes before it."""
    if not plan.is_feasible:
        raise Infeasible(f"the plan for {plan.model} has no machines: nothing gets the job done")
    answer = plan.answer
    refuse_other_machines(asked, answer)
    deadline = plan.deadline_s if asked.deadline_s is None else asked.deadline_s
    if not math.isfinite(deadline):
        raise UsageError("the plan has no deadline", expected="--deadline 72h beside it")
    write_s, every_s = checkpoints_of(answer) if isinstance(answer, TrainingDeployment) else (0.0, answer.wave_s)
    ratios = load_job_habits().planned_restart_ratio
    start_s = plan.startup_s + write_s
    restart = Spread(start_s * ratios.low, start_s * ratios.expected, start_s * ratios.high)
    low_ratio, high_ratio = answer.work_ratios
    planned = Spread(answer.work_s * low_ratio, answer.work_s, answer.work_s * high_ratio)
    machines = (f"{answer.cloud}:{answer.instance}",)
    return SpotWork(
        title=f"{plan.model}: {answer.instance_count}x {answer.instance}",
        work_s=asked.work_s or planned,
        restart_s=asked.restart_s or restart,
        deadline_s=deadline,
        checkpoint_write_s=write_s if asked.checkpoint_write_s is None else asked.checkpoint_write_s,
        checkpoint_every_s=asked.checkpoint_every_s or every_s,
        reserve_s=asked.reserve_s or 0.0,
        machines=tuple(asked.machine or machines),
        num_machines=answer.instance_count if asked.machines == 1 else asked.machines,
        grade=answer.finish_s.grade,
        inputs=(),
        notes=tuple(notes_on_file(plan)),
    )


def refuse_other_machines(asked: SpotRequest, answer: TrainingDeployment | RentedJob) -> None:
    """Refuse machines whose time for the work no plan says."""
    other = asked.machine is not None or asked.machines not in (1, answer.instance_count)
    if other and asked.work_s is None:
        own = f"{answer.instance_count}x {answer.cloud}:{answer.instance}"
        raise UsageError(
            "a plan says how long its own machines work",
            found=f"other machines than {own}",
            expected=f"{own}, or --work TIME of the others beside it",
            hint="Plan again for them: --gpus, --clouds.",
        )


def checkpoints_of(answer: TrainingDeployment) -> tuple[float, None]:
    """How long a checkpoint of training takes; how often follows from the market."""
    return answer.checkpoint_write_s, None


def inputs_of(asked: SpotRequest, work: SpotWork) -> tuple[Input, ...]:
    """What was understood, and where it came from."""
    beside = "default" if asked.job is None else "file"
    rows = [
        ("work", times(work.work_s, HOUR, "h"), asked.origin("work_s", beside)),
        ("deadline", f"{work.deadline_s / HOUR:.4g} h", asked.origin("deadline_s", beside)),
        ("restart", times(work.restart_s, MINUTE, "min"), asked.origin("restart_s", beside)),
        ("checkpoint write", f"{work.checkpoint_write_s:.4g} s", asked.origin("checkpoint_write_s", beside)),
        ("machines", str(work.num_machines), asked.origin("machines", beside)),
        ("zones", str(asked.zones), origin_of_zones(asked)),
        ("draws", str(asked.draws), asked.origin("draws")),
        ("seed", str(asked.seed), asked.origin("seed")),
    ]
    return tuple(Input(name=name, value=value, origin=origin) for name, value, origin in rows)


def origin_of_zones(asked: SpotRequest) -> str:
    """Who says how many zones there are: a trace has those that it has."""
    return asked.origin("zones") if asked.trace is None else "file"


def times(spread: Spread, unit_s: float, unit: str) -> str:
    """A spread in words.

    >>> times(Spread(60.0, 120.0, 180.0), 60.0, "min")
    '2 min (1 to 3)'
    """
    if spread.low == spread.high:
        return f"{spread.expected / unit_s:.4g} {unit}"
    return f"{spread.expected / unit_s:.4g} {unit} ({spread.low / unit_s:.4g} to {spread.high / unit_s:.4g})"
