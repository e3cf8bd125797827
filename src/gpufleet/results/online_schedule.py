"""Jobs replayed as they arrived, under one policy after the other."""

from __future__ import annotations

from datetime import datetime

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.schedule import ScheduledPiece


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
