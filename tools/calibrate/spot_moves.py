"""How far a market moves between the half of a trace that somebody states and the half that a job then meets.

Each half of every trace tells of the other: that markets got better or worse over the weeks that were measured says
nothing of those to come. Jobs run under uniform progress from every hour. The ratio of `MovingMarket` is the least at
which so many of them cost what the range of the other half said, over traces and jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import SpotMarket, mean_up_s
from gpufleet.optimize.slack_rules import uniform_rules
from gpufleet.optimize.spot import (
    AGES_S,
    MovingMarket,
    SpotDraws,
    SpotQuestion,
    hazards_of,
    moving_market,
    played,
)
from gpufleet.simulate.spot_jobs import Luck, every_start
from gpufleet.simulate.spot_markets import ZoneDraw, drawn_availability, usual_hazards
from gpufleet.units import HOUR

JOBS_H = ((48, 52, 0.2), (48, 70, 0.02), (24, 36, 0.2))
"""Work, deadline and a start."""
SPOT, ON_DEMAND = 0.9731, 3.06
NUM_DRAWS, LEAST_STARTS, SEED = 200, 12, 0
PROMISED, STEP, MOST = 0.8, 0.01, 1.0
ENDS = (10, 90)
ROUNDING_USD = 1e-9


class Said(NamedTuple):
    """What jobs cost on one half, and what a question that knows the other says: mean, low, high, what is possible."""

    usd: FloatArray
    mean: float
    low: float
    high: float
    moving: MovingMarket

    @classmethod
    def of(cls, question: SpotQuestion, usd: FloatArray, said: FloatArray, *others: FloatArray) -> Said:
        """Ends that reach as far as those of any."""
        ends = [np.percentile(each, ENDS) for each in (said, *others)]
        low, high, mean = min(e[0] for e in ends), max(e[1] for e in ends), float(said.mean())
        return cls(usd, mean, min(low, mean), max(high, mean), moving_market(question.expected, SPOT, ON_DEMAND, 0.0))

    def ends(self, moved_ratio: float) -> tuple[float, float]:
        """Of the range, where the market moves so far."""
        return replace(self.moving, moved_ratio=moved_ratio).ends(self.mean, self.low, self.high)

    def held(self, moved_ratio: float) -> float:
        """Share of jobs within the range."""
        low, high = self.ends(moved_ratio)
        return float(((self.usd >= low - ROUNDING_USD) & (self.usd <= high + ROUNDING_USD)).mean())


def zone_of(up: BoolArray, tick_s: float) -> SpotZone:
    """As somebody would state what was seen."""
    return SpotZone("zone", "region", float(up.mean()), mean_up_s(up, tick_s))


def questions() -> Iterator[SpotQuestion]:
    """The jobs."""
    for work_h, deadline_h, start_h in JOBS_H:
        work, start = (Spread(h * HOUR, h * HOUR, h * HOUR) for h in (work_h, start_h))
        yield SpotQuestion(work, start, deadline_h * HOUR, 60.0, 0.3 * HOUR)


def usd_of(question: SpotQuestion, fit: AvailabilityFit, up: BoolArray, starts: IntArray | None = None) -> FloatArray:
    """What the job costs from every hour, or from these ticks; nothing where too few of them fit   [USD]."""
    market = SpotMarket(up, fit.tick_s, np.full(len(up), SPOT), ON_DEMAND)
    first = every_start(question.expected, market) if starts is None else starts
    if len(first) < LEAST_STARTS:
        return np.zeros(0)
    hazards = hazards_of(market, 1, usual_hazards(np.random.default_rng(SEED), fit, AGES_S))
    draws = SpotDraws(market, first, Luck.none(question.expected, len(first)), hazards)
    return played(question, draws, uniform_rules(question.expected, fit.tick_s, waits_ahead=True)).cost_usd


def drawn_usd(question: SpotQuestion, fit: AvailabilityFit, zones: ZoneDraw) -> FloatArray:
    """On draws of zones."""
    ticks = round(question.deadline_s / fit.tick_s) + 2
    up = drawn_availability(np.random.default_rng(SEED), fit, zones, NUM_DRAWS, ticks, 1)
    return usd_of(question, fit, up, np.arange(NUM_DRAWS) * ticks)


def stated_usd(question: SpotQuestion, fit: AvailabilityFit, up: BoolArray) -> FloatArray:
    """On draws of a zone that is as this one was."""
    zones = [zone_of(up, fit.tick_s)]
    return drawn_usd(question, fit, lambda _: zones)


def halves_of(up: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The first and the second."""
    half = up.shape[1] // 2
    return up[:, :half], up[:, half:]


def said_of(up: BoolArray, fit: AvailabilityFit) -> Iterator[Said]:
    """Every job on each half of one trace, by who states the other."""
    first, second = halves_of(up)
    for question in questions():
        usd = [usd_of(question, fit, part) for part in (first, second)]
        if all(map(len, usd)):
            yield Said.of(question, usd[1], stated_usd(question, fit, first))
            yield Said.of(question, usd[0], stated_usd(question, fit, second))


def moved_ratio(said: Sequence[Said]) -> float:
    """The least ratio at which ranges hold what they promise."""
    tried = np.arange(0.0, MOST, STEP)
    return float(next((r for r in tried if np.mean([each.held(r) for each in said]) >= PROMISED), MOST))
