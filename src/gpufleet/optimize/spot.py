"""A job with a deadline on a spot market that is drawn many times: what each policy makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import AgedHazards, DeadlineJob, HazardCounts, SlackRules, SpotMarket, on_longer_ticks
from gpufleet.optimize.slack_rules import greedy_rules, on_demand_rules, slack_rules, uniform_rules
from gpufleet.optimize.spot_policies import AlwaysOnDemand, BySlack, NeverLate
from gpufleet.performance.restarts import checkpoint_interval_s
from gpufleet.records import dataclass
from gpufleet.simulate.spot_jobs import Luck, SpotRuns, replay_jobs
from gpufleet.units import HOUR, MINUTE

OURS, GREEDY, UNIFORM, UNIFORM_BACK, ON_DEMAND = "slack", "greedy", "uniform", "uniform-back", "on-demand"
TITLES = {
    OURS: "by slack and age of the market",
    UNIFORM: "uniform progress",
    UNIFORM_BACK: "uniform progress, back at once",
    GREEDY: "spot or wait",
    ON_DEMAND: "on demand alone",
}
AGES_S = (10 * MINUTE, HOUR, 6 * HOUR)
TOWARDS_RATIOS = 0.25, 0.5, 0.75, 1.0
MOST_TICKS = 600
MOST_PLAYED_TICKS = 3000
SD_OF_TENTH, SLOW_WIDTHS = 1.2815515655446004, 2.0
LEAST_WORK_RATIO = 0.05
ROUNDING_RATIO = 1e-9


@dataclass(frozen=True)
class SpotQuestion:
    """Work on a gang of machines, as spreads, and what a checkpoint takes; `reserve_s` waits for on demand at worst."""

    work_s: Spread
    restart_s: Spread
    deadline_s: float
    checkpoint_write_s: float
    checkpoint_interval_s: float
    reserve_s: float = 0.0

    @property
    def stretch(self) -> float:
        """How much longer the work takes with its checkpoints; a write that takes no time costs none."""
        return 1 + self.checkpoint_write_s / self.checkpoint_interval_s if self.checkpoint_write_s else 1.0

    @property
    def expected(self) -> DeadlineJob:
        """The job as it is expected."""
        return self._job(self.work_s.expected, self.restart_s.expected)

    @property
    def alone(self) -> DeadlineJob:
        """On demand from start to end: nobody takes that machine away, so that no checkpoint is written."""
        return DeadlineJob(self.work_s.expected, self.deadline_s, self.restart_s.expected)

    def leaves_time_for_spot(self, tick_s: float) -> bool:
        """Whether the safety net lets the job wait, or begin on spot, at all: as `NeverLate` says."""
        return self.expected.work_s + self.worst.restart_s + tick_s <= self.deadline_s

    @property
    def worst(self) -> DeadlineJob:
        """What the safety net counts on: work at its high end, and a start that one in 200 is slower than."""
        restart = self.restart_s
        slow_s = restart.expected + SLOW_WIDTHS * (restart.high - restart.expected)
        return self._job(self.work_s.high, slow_s + self.reserve_s)

    def _job(self, work_s: float, restart_s: float) -> DeadlineJob:
        loss_s = min(self.checkpoint_interval_s + self.checkpoint_write_s, work_s * self.stretch)
        return DeadlineJob(work_s * self.stretch, self.deadline_s, restart_s, loss_s)


@dataclass(frozen=True)
class MovingMarket:
    """What a job may cost on a market that is stated, which moves on; at a ratio of 0 it stays as it is drawn   [USD].

    `least`: all of its work on spot. `most`: all slack on spot, and then all work on demand. Measured markets moved the
    end of a range by `moved_ratio` of what lies between.
    """

    least: float
    most: float
    moved_ratio: float

    def ends(self, mean: float, low: float, high: float) -> tuple[float, float]:
        """How far draws and the market's move reach together, which are independent; no further than is possible.

        >>> MovingMarket(10.0, 20.0, 0.4).ends(15.0, 12.0, 18.0)
        (10.0, 20.0)
        """
        moved = self.moved_ratio * max(self.most - self.least, 0.0)
        far_low, far_high = mean - math.hypot(mean - low, moved), mean + math.hypot(high - mean, moved)
        return min(low, max(far_low, self.least)), max(high, min(far_high, self.most))


@dataclass(frozen=True, eq=False)
class SpotDraws:
    """A market whose availability was drawn many times, one draw after the other, and what happens to each job."""

    market: SpotMarket
    first_tick: IntArray
    luck: Luck
    hazards: AgedHazards


def usual_interval_s(write_s: float, mean_up_s: float, work_s: float) -> float:
    """Work between two checkpoints by Young and Daly, at most all of it   [s]."""
    if math.isinf(mean_up_s):
        return work_s
    return min(float(checkpoint_interval_s(write_s, mean_up_s)), work_s)


def drawn_luck(rng: np.random.Generator, question: SpotQuestion, num_draws: int, refused_s: float = 0.0) -> Luck:
    """Work and starts of every draw: normal to either side, with low and high as 10th and 90th percentile."""
    work_s = np.maximum(drawn(rng, question.work_s, num_draws), LEAST_WORK_RATIO * question.work_s.expected)
    restart_s = np.maximum(drawn(rng, question.restart_s, num_draws), 0.0)
    return Luck(work_s * question.stretch, restart_s, np.full(num_draws, refused_s))


def drawn(rng: np.random.Generator, spread: Spread, num_draws: int) -> FloatArray:
    """Values whose 10th and 90th percentile are the ends of a spread, and whose median is the expected value."""
    z = rng.standard_normal(num_draws) / SD_OF_TENTH
    width = np.where(z > 0, spread.high - spread.expected, spread.expected - spread.low)
    return np.asarray(spread.expected + z * width)


def moving_market(
    job: DeadlineJob, spot_usd_per_hour: float, on_demand_usd_per_hour: float, moved_ratio: float
) -> MovingMarket:
    """What a job may cost at these prices of all its machines.

    least = spot (work + start)   most = on demand (work + start + loss) + spot (deadline - that)
    """
    needed_s = min(job.work_s + job.restart_s + job.loss_s, job.deadline_s)
    least = spot_usd_per_hour * (job.work_s + job.restart_s)
    most = on_demand_usd_per_hour * needed_s + spot_usd_per_hour * (job.deadline_s - needed_s)
    return MovingMarket(least / HOUR, most / HOUR, moved_ratio)


def hazards_of(market: SpotMarket, every: int, prior: HazardCounts) -> AgedHazards:
    """How a market ages, on ticks so many times as long, after what was believed of it on such ticks."""
    coarse = on_longer_ticks(market.is_available, every)
    return AgedHazards.of_counts(HazardCounts.of(coarse, market.tick_s * every, AGES_S), prior)


def longer_by(deadline_s: float, tick_s: float, most_ticks: int) -> int:
    """How many times as long a tick is, so that no more than so many lie before a deadline.

    >>> longer_by(6000.0, 600.0, 10), longer_by(6001.0, 600.0, 10)
    (1, 2)
    """
    return max(math.ceil(deadline_s / tick_s / most_ticks), 1)


def rules_of(question: SpotQuestion, draws: SpotDraws) -> SlackRules:
    """Thresholds of slack on a market, moved to the line of uniform progress as far as costs least on its draws.

    The programme knows how long a market has been as it is, but not what else its past says of the zones, which the
    line keeps up with: markets of zones that differ are played best between the two.
    """
    found = programmed_rules(question, draws)
    tick_s = draws.market.tick_s
    lines = [uniform_rules(question.expected, tick_s, waits_ahead=waits) for waits in (True, False)]
    tried = [found, *(found.towards(line, ratio) for ratio in TOWARDS_RATIOS for line in lines)]
    return min(tried, key=lambda rules: float(played(question, draws, rules).cost_usd.mean()))


def programmed_rules(question: SpotQuestion, draws: SpotDraws) -> SlackRules:
    """Thresholds of slack by the dynamic programme."""
    spot = float(draws.market.spot_usd_per_hour.min())
    worst, on_demand = question.worst, draws.market.on_demand_usd_per_hour
    job = replace(question.expected, work_s=worst.work_s)
    return slack_rules(job, draws.hazards, spot, on_demand, worst.restart_s)


def every_rules(question: SpotQuestion, tick_s: float, ours: SlackRules) -> Mapping[str, SlackRules]:
    """The thresholds of every policy by its name; ours first."""
    job = question.expected
    return {
        OURS: ours,
        UNIFORM: uniform_rules(job, tick_s, waits_ahead=True),
        UNIFORM_BACK: uniform_rules(job, tick_s, waits_ahead=False),
        GREEDY: greedy_rules(job, tick_s),
        ON_DEMAND: on_demand_rules(job, tick_s),
    }


def played_alone(question: SpotQuestion, draws: SpotDraws) -> SpotRuns:
    """All draws on demand from start to end, without checkpoints."""
    luck = draws.luck
    own = replace(luck, work_s=luck.work_s / question.stretch)
    return replay_jobs(question.alone, draws.market, draws.first_tick, AlwaysOnDemand(), own)


def played(question: SpotQuestion, draws: SpotDraws, rules: SlackRules) -> SpotRuns:
    """All draws under the thresholds of a policy with the safety net below it."""
    net = NeverLate(BySlack(rules), question.worst, draws.market.tick_s)
    return replay_jobs(question.expected, draws.market, draws.first_tick, net, draws.luck)


def late_ratio(runs: SpotRuns, deadline_s: float) -> float:
    """Share of draws that end after the deadline."""
    return float(np.mean(runs.elapsed_s > deadline_s * (1 + ROUNDING_RATIO)))


def most_usd_per_hour(runs: SpotRuns, usd_on_demand: float, on_demand_usd_per_hour: float) -> float:
    """The price of spot at which these runs cost what on demand alone does   [USD/h]."""
    spot_h = float(runs.spot_s.mean()) / HOUR
    on_demand_usd = float(runs.on_demand_s.mean()) / HOUR * on_demand_usd_per_hour
    return (usd_on_demand - on_demand_usd) / spot_h if spot_h > 0 else 0.0
