"""What the jobs of a plan cost on spot as drawn markets play them: until their deadline, with on demand as the net.

The advisor of a cloud counts machines that were taken away. A start that is refused, and the time on demand that makes
up for it, show only where availability is drawn (`simulate.spot_availability`) and a job is played by its rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.availability import AvailabilityFit
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import Offer
from gpufleet.domain.spot import AgedHazards, HazardCounts, SpotMarket, mean_up_s, on_longer_ticks
from gpufleet.optimize.market import effective_price, on_demand_beside
from gpufleet.optimize.spot import (
    AGES_S,
    SpotDraws,
    SpotQuestion,
    drawn_luck,
    late_ratio,
    longer_by,
    played,
    programmed_rules,
    usual_interval_s,
)
from gpufleet.records import dataclass
from gpufleet.simulate.spot_markets import ZoneDraw, drawn_nodes
from gpufleet.units import DAY, HOUR

MOST_NODES = 10_000
DRAWS, MOST_TICKS = 100, 100
LEAST_DRAWN_TICKS, DRAWN_TICKS_RATIO = 1 << 10, 4
LONGEST_RATIO, LONGEST_SLACK_S = 4.0, 7 * DAY
"""A deadline later than so many times the work and so many days after it changes nothing: nobody waits so long."""
AIM_RATIO, FAR_AIM_RATIO = 1.2, 2.0
"""Ends that a job may aim at lie so far apart, up to `LONGEST_RATIO` times the work and beyond it."""
WORSE_RATIO = 1.15
"""Sooner aims are not played once one costs so many times the least: they leave less time for spot."""


@dataclass(frozen=True)
class PlannedJob:
    """Work on so many machines of one offer at once; `write_s` stops it for a checkpoint, None: as often as is best."""

    offer: Offer
    machines: int
    work_s: Spread
    startup_s: float
    write_s: float = 0.0
    checkpoint_every_s: float | None = None


@dataclass(frozen=True, eq=False)
class SpotPlay:
    """What a job came to, one entry a draw: dollars, time of each machine, time from start to end; and in the mean.

    `losses` are stops of all machines together.
    """

    usd: FloatArray
    machine_s: FloatArray
    elapsed_s: FloatArray
    losses: float
    on_demand_ratio: float
    late_ratio: float
    num_zones: int

    @property
    def mean_usd(self) -> float:
        """What it costs in the mean."""
        return float(self.usd.mean())

    def is_late(self, confidence: float) -> bool:
        """Whether more draws end after the deadline than a promise of so much confidence leaves."""
        return self.late_ratio > 1 - confidence

    def end_s(self, confidence: float) -> float:
        """The time by which so large a share of draws ends."""
        return float(np.quantile(self.elapsed_s, confidence, method="inverted_cdf"))


@dataclass(frozen=True, eq=False)
class SpotPlays:
    """Plays of the jobs of one question, all on the same draws: [draw, zone, tick of the fit].

    A planned start takes `start_ratio` times as long. `steady` sells machines on demand, whatever else is asked about.
    `dice` gives the same numbers to each who asks.
    """

    fit: AvailabilityFit
    start_ratio: Spread
    zones: ZoneDraw
    num_zones: int
    deadline_s: float
    steady: Callable[[], Iterable[Offer]]
    dice: Callable[[], np.random.Generator]

    @cached_property
    def net(self) -> Mapping[tuple[str, str, str], Offer]:
        """What stands in, by cloud, machine type and region: at a dated price where there is one."""
        offers = list(self.steady())
        return on_demand_beside(offers) | on_demand_beside([offer for offer in offers if offer.is_dated])

    def beside(self, spot: Offer) -> Offer | None:
        """What stands in for an offer: in its own region, or else where it costs least."""
        own = self.net.get((spot.cloud, spot.instance, spot.region))
        others = (o for o in self.net.values() if (o.cloud, o.instance) == (spot.cloud, spot.instance))
        return own or min(others, key=effective_price, default=None)

    @cached_property
    def _drawn(self) -> dict[int, IntArray]:
        return {}

    def nodes(self, num_ticks: int) -> IntArray:
        """Machines that zones have, for so many ticks at least: the same draws for all jobs of about that length."""
        length = LEAST_DRAWN_TICKS
        while length < num_ticks:
            length *= DRAWN_TICKS_RATIO
        if length not in self._drawn:
            self._drawn[length] = drawn_nodes(self.dice(), self.fit, self.zones, DRAWS, length, MOST_NODES)
        return self._drawn[length]

    def play(self, job: PlannedJob, confidence: float) -> SpotPlay | None:
        """What becomes of a job that aims at the end that costs least; None where nothing stands in for spot.

        Its aims do not depend on the deadline, which only leaves out those beyond it: more time costs never more.
        """
        steady = self.beside(job.offer)
        if steady is None:
            return None
        best = self.aimed(job, steady, (aims := self.aims_s(job))[0])
        for aim_s in aims[1:]:
            found = self.aimed(job, steady, aim_s)
            best = min(best, found, key=lambda play: (play.is_late(confidence), play.mean_usd))
            if found.mean_usd > best.mean_usd * WORSE_RATIO:
                break
        return best

    def aims_s(self, job: PlannedJob) -> list[float]:
        """Ends that a job may aim at and that its deadline leaves, the last first; the soonest where it leaves none.

        From the work and a start on, each a fifth later, then each twice as late.
        """
        work_s, start_s = job.work_s, self.start_ratio.expected * (job.startup_s + job.write_s)
        latest_s = max(LONGEST_RATIO * work_s.high, work_s.high + LONGEST_SLACK_S)
        aims = [work_s.expected + start_s]
        while aims[-1] < latest_s:
            aims.append(aims[-1] * (AIM_RATIO if aims[-1] < LONGEST_RATIO * aims[0] else FAR_AIM_RATIO))
        return [aim for aim in reversed(aims) if aim <= self.deadline_s] or aims[:1]

    def least_usd(self, job: PlannedJob, steady: Offer) -> float:
        """What no play of a job costs less than: all its work and one start, at the lower of both prices."""
        question = SpotQuestion(job.work_s, self.restart_s(job.startup_s), self.deadline_s, 0.0, job.work_s.high)
        luck = drawn_luck(self.dice(), question, DRAWS)
        each = min(effective_price(job.offer), effective_price(steady))
        return float((luck.work_s + luck.restart_s).mean()) / HOUR * job.machines * each

    def aimed(self, job: PlannedJob, steady: Offer, aim_s: float) -> SpotPlay:
        """What becomes of a job that goes on demand in time to end then."""
        question = self.question(job, aim_s)
        prices = (job.machines * effective_price(each) for each in (job.offer, steady))
        draws = self.draws(question, job.machines, *prices)
        runs = played(question, draws, programmed_rules(question, draws))
        machine_s = runs.spot_s + runs.on_demand_s
        return SpotPlay(
            runs.cost_usd,
            machine_s,
            runs.elapsed_s,
            float(runs.losses.mean()),
            float(runs.on_demand_s.sum() / machine_s.sum()),
            late_ratio(runs, self.deadline_s),
            self.num_zones,
        )

    def question(self, job: PlannedJob, deadline_s: float) -> SpotQuestion:
        """The job with starts as far off as planned ones may be, and checkpoints."""
        has_some = self.nodes(round(DAY / self.fit.tick_s)) >= job.machines
        up_s = min(mean_up_s(has_some, self.fit.tick_s), deadline_s)
        every_s = job.checkpoint_every_s or usual_interval_s(job.write_s, up_s, job.work_s.expected)
        restart_s = self.restart_s(job.startup_s + job.write_s)
        return SpotQuestion(job.work_s, restart_s, deadline_s, job.write_s, every_s)

    def restart_s(self, start_s: float) -> Spread:
        """A planned start as far off as it may be."""
        ratio = self.start_ratio
        return Spread(ratio.low * start_s, ratio.expected * start_s, ratio.high * start_s)

    def draws(self, question: SpotQuestion, machines: int, spot_usd: float, steady_usd: float) -> SpotDraws:
        """Markets until the deadline, on ticks that are few enough; then nothing but on demand until all is done."""
        every = longer_by(question.deadline_s, self.fit.tick_s, MOST_TICKS)
        tick_s = self.fit.tick_s * every
        ticks = math.ceil(question.deadline_s / tick_s)
        nodes = self.nodes(ticks * every)[:, :, : ticks * every]
        has_one, has_some = (joined(nodes >= number, every) for number in (1, machines))
        after = np.zeros((DRAWS, self.num_zones, ticks), dtype=bool)
        is_available = np.concatenate([by_draw(has_some, DRAWS), after], axis=2)
        prices = np.full(self.num_zones, spot_usd), steady_usd
        market = SpotMarket(np.concatenate(list(is_available), axis=1), tick_s, *prices)
        hazards = AgedHazards.of_counts(HazardCounts.of(has_some, tick_s, AGES_S), one_tick_of(has_one, tick_s))
        luck = drawn_luck(self.dice(), question, DRAWS)
        return SpotDraws(market, np.arange(DRAWS) * (2 * ticks), luck, hazards)


def joined(has_some: BoolArray, every: int) -> BoolArray:
    """Draws one after the other along time, on longer ticks: [draw, zone, tick] -> [zone, draw x tick]."""
    return on_longer_ticks(np.concatenate(list(has_some), axis=1), every)


def by_draw(along: BoolArray, draws: int) -> BoolArray:
    """The reverse: [zone, draw x tick] -> [draw, zone, tick]."""
    return np.asarray(along.reshape(len(along), draws, -1).transpose(1, 0, 2))


def one_tick_of(is_available: BoolArray, tick_s: float) -> HazardCounts:
    """What zones with one machine say of those with several, worth a tick."""
    counts = HazardCounts.of(is_available, tick_s, AGES_S)
    worth = np.minimum(counts.ticks, 1.0)
    return HazardCounts(tick_s, AGES_S, counts.changes / np.maximum(counts.ticks, 1.0), worth)
