"""What a job did on spot, beside what its policy says it should have done."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.spot import ON_SPOT, WAITING, DeadlineJob, SlackRules, SpotLog, ages_of
from gpufleet.optimize.spot_policies import BySlack, NeverLate
from gpufleet.simulate.spot_jobs import Sight


def should_have_run(rules: SlackRules, worst: DeadlineJob, tick_s: float, log: SpotLog) -> IntArray:
    """What the policy chooses in each tick of a log, given what the job had done until then."""
    policy = NeverLate(BySlack(rules), worst, tick_s)
    [age] = ages_of(log.is_available[None])
    before = np.concatenate([[WAITING], log.ran[:-1]])
    running = np.where((before == ON_SPOT) & ~log.is_available, WAITING, before)
    age_s = age * tick_s
    sights = (sight_at(i, log, worst, running, age_s) for i in range(len(log.elapsed_s)))
    return np.concatenate([policy.choose(worst, sight) for sight in sights])


def sight_at(i: int, log: SpotLog, worst: DeadlineJob, running: IntArray, age_s: FloatArray) -> Sight:
    """What the job saw at the begin of a tick."""
    elapsed, at = float(log.elapsed_s[i]), slice(i, i + 1)
    left = worst.deadline_s - elapsed
    return Sight(elapsed, left, log.work_s[at], log.starting_s[at], running[at], log.is_available[at], age_s[at])
