"""Jobs with deadlines on shared GPUs: when and where each runs, why, what is late; and jobs replayed as they came."""

from __future__ import annotations

from datetime import datetime

from gpufleet.results.answer import Answer
from gpufleet.results.base import Figure, Result


class ScheduleReason(Result):
    """Why something is so: a code, and what its sentence names, numbers in the base unit of their suffix."""

    code: str
    figures: dict[str, float | str | None] = {}


class ScheduledPiece(Result):
    """A stretch of a run without a pause, in seconds from the start of the schedule."""

    start_s: float
    end_s: float


class ScheduledOption(Result):
    """One way in which a job could run."""

    pool: str
    gpu: str
    kind: str
    gpus: float
    work_s: float


class ScheduledRun(Result):
    """One job: where it runs and when, why now and why there.

    Times are from the start of the schedule; `work` has the range of its duration where a model told it. `shared_gpu`
    numbers the GPU of a job that takes a share of one. `late_weighted_hours` is what the schedule is judged by.
    """

    job: str
    pool: str
    gpu: str
    kind: str
    gpus: float
    work: Figure
    pieces: list[ScheduledPiece]
    earliest_s: float
    deadline_s: float | None = None
    late_s: float
    priority: float
    late_weighted_hours: float
    after: list[str]
    can_pause: bool
    shared_gpu: int | None = None
    usd: float
    kwh: float
    why_now: ScheduleReason
    why_there: ScheduleReason
    options: list[ScheduledOption]
    command: str | None = None
    image: str | None = None

    @property
    def start_s(self) -> float:
        """When it begins."""
        return self.pieces[0].start_s

    @property
    def end_s(self) -> float:
        """When it is done."""
        return self.pieces[-1].end_s


class OneMoreGpu(Result):
    """What a further GPU of a pool saves, with the schedule searched again; nothing where none was found better.

    `is_sure`: both schedules are proven to be the best. Priced only where all lateness is proven to be needed
    (`SchedulePlan.is_late_for_sure`): a longer search might save as much with the same GPUs.
    """

    late_weighted_hours: float
    usd: float
    is_sure: bool


class ScheduledOutage(Result):
    """GPUs that are missing for a while."""

    start_s: float
    end_s: float
    gpus: int


class ScheduledPool(Result):
    """One pool: what it has, how much of it is used until the last job ends, and what one GPU more is worth."""

    pool: str
    gpu: str
    gpus: int
    kind: str
    outages: list[ScheduledOutage]
    power_cap_watts: float | None = None
    used_ratio: float
    usd: float
    kwh: float
    one_more: OneMoreGpu | None = None


class ScheduleRelaxation(Result):
    """The least that has to change before anything can be scheduled, as data."""

    why: ScheduleReason
    change: ScheduleReason


class SchedulePlan(Answer):
    """All jobs, placed; or, where that cannot be, the smallest changes with which it could (`relaxations`).

    `late_weighted_hours` is the sum of hours late by priority, no schedule has less than `least_late_weighted_hours`
    (within the horizon that was searched), and earliest deadline first alone comes to `edf_late_weighted_hours`.
    `found_by`: edf, search or solver. `is_optimal`: nothing is better in lateness, then money, then energy.
    `cut_after_s`: the time limit that ended the search before its work was done; None where it was not cut.
    """

    start: datetime | None = None
    slot_s: float
    runs: list[ScheduledRun]
    pools: list[ScheduledPool]
    late_weighted_hours: float = 0.0
    least_late_weighted_hours: float = 0.0
    edf_late_weighted_hours: float = 0.0
    late_jobs: int = 0
    edf_late_jobs: int = 0
    makespan_s: float = 0.0
    usd: float = 0.0
    budget_usd: float | None = None
    kwh: float = 0.0
    is_optimal: bool = False
    found_by: str = "edf"
    cut_after_s: float | None = None
    has_solver: bool = True
    is_searched: bool = True
    seed: int = 0
    relaxations: list[ScheduleRelaxation] = []

    @property
    def is_feasible(self) -> bool:
        """Whether every job has a place."""
        return not self.relaxations

    @property
    def is_late_for_sure(self) -> bool:
        """Whether no schedule is late by less."""
        return self.is_optimal or self.late_weighted_hours <= self.least_late_weighted_hours

    @property
    def gap_ratio(self) -> float:
        """How much of the lateness a better schedule might save: 0 is proven to be the best."""
        if self.late_weighted_hours <= 0:
            return 0.0
        return 1 - min(self.least_late_weighted_hours / self.late_weighted_hours, 1.0)


class OnlineRun(Result):
    """One job under one policy, in seconds from the start. `slowdown` is completion over what it takes alone."""

    job: str
    user: str = ""
    pool: str
    gpus: float
    arrival_s: float
    pieces: list[ScheduledPiece]
    completion_s: float
    late_s: float
    slowdown: float


class PolicyOutcome(Result):
    """What a policy comes to.

    Completion counts from the arrival. `used_ratio` is of one's own GPUs until the last job ends; None without any.
    `fairness` is Jain's index of the mean slowdown of users, or of jobs where nobody is named: 1 is equal.
    """

    policy: str
    mean_completion_s: float
    p95_completion_s: float
    late_weighted_hours: float
    late_jobs: int
    used_ratio: float | None
    fairness: float
    usd: float
    preemptions: int
    makespan_s: float
    runs: list[OnlineRun]


class OnlineSchedule(Answer):
    """All policies on the same jobs, and the best of them: by `best_by`, in which `runner_up` comes next."""

    start: datetime | None = None
    outcomes: list[PolicyOutcome]
    best: str
    best_by: str
    runner_up: str | None = None
    jobs: int
    users: int
    gpus_owned: int
    has_deadlines: bool
    can_pause: int
    spread: float

    def of(self, policy: str) -> PolicyOutcome:
        """What one of them comes to."""
        return next(outcome for outcome in self.outcomes if outcome.policy == policy)
