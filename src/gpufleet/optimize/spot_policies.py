"""Where a job with a deadline runs next: published policies, ours by slack, and the safety net under all of them."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.spot import ON_DEMAND, ON_SPOT, WAITING, DeadlineJob, SlackRules
from gpufleet.records import dataclass
from gpufleet.simulate.spot_jobs import NO_WORK_S, Sight, SpotPolicy


@dataclass(frozen=True)
class AlwaysOnDemand:
    """A machine that nobody takes away, from the start."""

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """On demand."""
        return np.full(len(sight.work_s), ON_DEMAND)


@dataclass(frozen=True)
class Greedy:
    """Spot wherever there is one, and else wait; the safety net alone takes machines on demand."""

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """Spot, or wait."""
        return np.where(sight.is_available, ON_SPOT, WAITING)


@dataclass(frozen=True)
class UniformProgress:
    """Work done keeps up with a straight line to the deadline: spot where there is one, on demand when behind.

    A job on demand goes on there while there is no spot; with `waits_ahead` it goes back to spot only when it is ahead
    of the line by two starts.

    Source: Wu et al., Can't Be Late (NSDI 2024), section 4.
    """

    waits_ahead: bool = True

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """By the line."""
        pace = job.work_s / job.deadline_s
        done = job.work_s - sight.work_s
        is_on_demand = sight.running == ON_DEMAND
        without = np.where((done < sight.elapsed_s * pace) | is_on_demand, ON_DEMAND, WAITING)
        is_ahead = done > (sight.elapsed_s + 2 * job.restart_s) * pace
        stays = is_on_demand & ~is_ahead if self.waits_ahead else np.zeros_like(is_on_demand)
        return np.where(sight.is_available & ~stays, ON_SPOT, np.where(sight.is_available, ON_DEMAND, without))


@dataclass(frozen=True, eq=False)
class BySlack:
    """On demand below the slack that the rules name; above it spot, or wait."""

    rules: SlackRules

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """By slack, time left, what runs now, and how long the market has been as it is."""
        hazards = self.rules.hazards
        state = hazards.age_of(sight.age_s) + np.where(sight.is_available, hazards.ages, 0)
        short = slack_s(sight) < self.rules.threshold_s(sight.running, state, sight.left_s)
        return np.where(short, ON_DEMAND, np.where(sight.is_available, ON_SPOT, WAITING))


@dataclass(frozen=True, eq=False)
class NeverLate:
    """Another policy, but on demand while a machine there is still in time after the worst that may happen in a tick.

    Waiting, or spot, is taken until the next look only where

        work left + lost + start + tick <= time left;   lost: `loss_s` of who runs on spot already, else 0

    Then who looks once a tick, and so sees a loss up to a tick after it, is in time on any market. At a look, work left
    + start <= time left holds if it did at the one before. Who waits or runs on spot may have done nothing in the tick:
    the machine may have gone at its begin, with what was not saved then, which is at most `loss_s` of who ran before
    and nothing of who began, so that a tick later work left has grown by no more than `lost`. Who is on demand does
    each second of work and start as it comes. As it holds at the begin, on demand from the first tick that may not be
    afforded ends by the deadline. Who looks more often, or at the moment of a loss, has more time left.

    `worst` has the high ends of start and loss. On demand itself must be had at once.
    """

    policy: SpotPolicy
    worst: DeadlineJob
    tick_s: float

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """What the policy chooses, where it can be afforded."""
        chosen = self.policy.choose(job, sight)
        lost_s = np.where((chosen == ON_SPOT) & (sight.running == ON_SPOT), self.worst.loss_s, 0.0)
        needed_s = sight.work_s + lost_s + self.worst.restart_s + self.tick_s
        return np.where((chosen == ON_DEMAND) | (needed_s <= sight.left_s + NO_WORK_S), chosen, ON_DEMAND)


def slack_s(sight: Sight) -> FloatArray:
    """Time left beyond what the work takes where it runs now   [s]."""
    return np.asarray(sight.left_s - sight.work_s - sight.starting_s)
