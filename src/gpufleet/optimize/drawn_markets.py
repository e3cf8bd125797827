"""Markets of spot that are drawn once, and jobs that are played on them: whoever asks for the same job has the same.

The advisor of a cloud counts machines that were taken away. A start that is refused, and the time on demand that makes
up for it, show only where availability is drawn (`simulate.spot_availability`) and a job is played by its rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray
from gpufleet.domain.availability import AvailabilityFit
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import AgedHazards, HazardCounts, SpotMarket, mean_up_s, on_longer_ticks
from gpufleet.optimize.spot import (
    AGES_S,
    SpotDraws,
    SpotQuestion,
    drawn_luck,
    longer_by,
    played,
    programmed_rules,
    usual_interval_s,
)
from gpufleet.records import dataclass
from gpufleet.simulate.spot_jobs import SpotRuns
from gpufleet.simulate.spot_markets import ZoneDraw, drawn_nodes
from gpufleet.units import DAY

MOST_NODES = 10_000
DRAWS, MOST_TICKS = 100, 100
LEAST_DRAWN_TICKS, DRAWN_TICKS_RATIO = 1 << 10, 4
KEPT_LENGTHS, KEPT_MARKETS, KEPT_RUNS = 2, 64, 4096
"""What is kept for who asks next: draws by their length, markets of one job at all prices, and what jobs came to."""


@dataclass(frozen=True)
class GangWork:
    """Work on so many machines at once; `write_s` stops it for a checkpoint, None: as often as is best."""

    machines: int
    work_s: Spread
    startup_s: float
    write_s: float
    checkpoint_every_s: float | None


@dataclass(frozen=True, eq=False)
class DrawnMarkets:
    """Drawn markets of zones, [draw, zone, tick of the fit], and what jobs come to on them.

    A planned start takes `start_ratio` times as long. `dice` gives the same numbers to each who asks.
    """

    fit: AvailabilityFit
    start_ratio: Spread
    zones: ZoneDraw
    num_zones: int
    dice: Callable[[], np.random.Generator]

    @cached_property
    def runs(self) -> Callable[[GangWork, float, float, float], SpotRuns]:
        """What becomes of work that goes on demand in time to end at an aim, at a price of spot and one on demand."""
        return lru_cache(maxsize=KEPT_RUNS)(self._runs)

    def _runs(self, work: GangWork, aim_s: float, spot_usd: float, steady_usd: float) -> SpotRuns:
        question = self.question(work, aim_s)
        draws = self.draws(question, work.machines, spot_usd, steady_usd)
        return played(question, draws, programmed_rules(question, draws))

    @cached_property
    def least_machine_s(self) -> Callable[[Spread, float], float]:
        """The time of each machine that no play falls below in the mean: all its work, and one start."""
        return lru_cache(maxsize=KEPT_RUNS)(self._least_machine_s)

    def _least_machine_s(self, work_s: Spread, startup_s: float) -> float:
        question = SpotQuestion(work_s, self.restart_s(startup_s), math.inf, 0.0, work_s.high)
        luck = drawn_luck(self.dice(), question, DRAWS)
        return float((luck.work_s + luck.restart_s).mean())

    def nodes(self, num_ticks: int) -> AnyArray:
        """Machines that zones have, for so many ticks at least: the same draws for all jobs of about that length."""
        length = LEAST_DRAWN_TICKS
        while length < num_ticks:
            length *= DRAWN_TICKS_RATIO
        return self._nodes_of(length)

    @cached_property
    def _nodes_of(self) -> Callable[[int], AnyArray]:
        def drawn(length: int) -> AnyArray:
            return drawn_nodes(self.dice(), self.fit, self.zones, DRAWS, length, MOST_NODES).astype(np.int16)

        return lru_cache(maxsize=KEPT_LENGTHS)(drawn)

    def question(self, work: GangWork, deadline_s: float) -> SpotQuestion:
        """The job with starts as far off as planned ones may be, and checkpoints."""
        up_s = min(self._mean_up_s(work.machines), deadline_s)
        every_s = work.checkpoint_every_s or usual_interval_s(work.write_s, up_s, work.work_s.expected)
        restart_s = self.restart_s(work.startup_s + work.write_s)
        return SpotQuestion(work.work_s, restart_s, deadline_s, work.write_s, every_s)

    @cached_property
    def _mean_up_s(self) -> Callable[[int], float]:
        def of(machines: int) -> float:
            return mean_up_s(self.nodes(round(DAY / self.fit.tick_s)) >= machines, self.fit.tick_s)

        return lru_cache(maxsize=KEPT_RUNS)(of)

    def restart_s(self, start_s: float) -> Spread:
        """A planned start as far off as it may be."""
        ratio = self.start_ratio
        return Spread(ratio.low * start_s, ratio.expected * start_s, ratio.high * start_s)

    def draws(self, question: SpotQuestion, machines: int, spot_usd: float, steady_usd: float) -> SpotDraws:
        """Markets until the deadline at these prices, and what happens to each job."""
        unpriced, hazards = self._until(question.deadline_s, machines)
        market = SpotMarket(unpriced, hazards.tick_s, np.full(self.num_zones, spot_usd), steady_usd)
        first_tick = np.arange(DRAWS) * (market.ticks // DRAWS)
        return SpotDraws(market, first_tick, drawn_luck(self.dice(), question, DRAWS), hazards)

    @cached_property
    def _until(self) -> Callable[[float, int], tuple[BoolArray, AgedHazards]]:
        return lru_cache(maxsize=KEPT_MARKETS)(self._drawn_until)

    def _drawn_until(self, deadline_s: float, machines: int) -> tuple[BoolArray, AgedHazards]:
        """Markets until the deadline, on ticks that are few enough; then nothing but on demand until all is done."""
        every = longer_by(deadline_s, self.fit.tick_s, MOST_TICKS)
        tick_s = self.fit.tick_s * every
        ticks = math.ceil(deadline_s / tick_s)
        nodes = self.nodes(ticks * every)[:, :, : ticks * every]
        has_one, has_some = (joined(nodes >= number, every) for number in (1, machines))
        after = np.zeros((DRAWS, self.num_zones, ticks), dtype=bool)
        is_available = np.concatenate([by_draw(has_some, DRAWS), after], axis=2)
        hazards = AgedHazards.of_counts(HazardCounts.of(has_some, tick_s, AGES_S), one_tick_of(has_one, tick_s))
        return np.concatenate(list(is_available), axis=1), hazards


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
