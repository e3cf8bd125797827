"""Where a job on spot costs least: every policy at the market where ours does, by the thresholds made for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.spot import AgedHazards, SlackRules, SpotMarket
from gpufleet.optimize.spot import (
    ON_DEMAND,
    MovingMarket,
    SpotDraws,
    SpotQuestion,
    every_rules,
    late_ratio,
    moving_market,
    played,
    played_alone,
    rules_of,
)
from gpufleet.records import dataclass
from gpufleet.simulate.spot_jobs import Luck, SpotRuns
from gpufleet.units import HOUR

REFUSED_S = HOUR


class MarketRates(Protocol):
    """A place where a machine is sold on spot and on demand."""

    @property
    def spot_usd_per_hour(self) -> float:
        """Of one machine."""

    @property
    def on_demand_usd_per_hour(self) -> float:
        """Of one machine."""


P = TypeVar("P", bound=MarketRates)


@dataclass(frozen=True, eq=False)
class Windows:
    """A market, and the ticks at which jobs begin in it."""

    market: SpotMarket
    first_tick: IntArray


DrawnWindows = tuple[Windows, Luck]
"""Windows, and what befalls the job in each of them."""


@dataclass(frozen=True, eq=False)
class PlayedJob(Generic[P]):
    """Markets by what ours costs there; draws of the first, thresholds by policy, and what each makes of them.

    `alike`: what each makes of the draws that chose.
    """

    markets: Sequence[P]
    draws: SpotDraws
    rules: Mapping[str, SlackRules]
    runs: Mapping[str, SpotRuns]
    alike: Mapping[str, SpotRuns]


def priced(market: SpotMarket, price: MarketRates, machines: int) -> SpotMarket:
    """The same for the prices of all machines of the job."""
    spot = np.full(len(market.is_available), price.spot_usd_per_hour * machines)
    return replace(market, spot_usd_per_hour=spot, on_demand_usd_per_hour=price.on_demand_usd_per_hour * machines)


def at_cheapest(
    question: SpotQuestion,
    tells: DrawnWindows,
    chooses: DrawnWindows,
    hazards: AgedHazards,
    markets: Sequence[P],
    num_machines: int,
) -> PlayedJob[P]:
    """Every policy at the market where ours costs least, which its thresholds are made for."""

    def drawn_at(windows: DrawnWindows, market: P) -> SpotDraws:
        return SpotDraws(priced(windows[0].market, market, num_machines), windows[0].first_tick, windows[1], hazards)

    def ours_at(market: P) -> tuple[SpotDraws, SpotDraws, SlackRules]:
        choosing = drawn_at(chooses, market)
        return drawn_at(tells, market), choosing, rules_of(question, choosing)

    draws, alike_draws, ours = ours_at(markets[0])
    first = played(question, draws, ours)
    ranked = sorted(markets, key=lambda market: mean_usd(first, market))
    if ranked[0] is not markets[0]:
        draws, alike_draws, ours = ours_at(ranked[0])
    rules = every_rules(question, draws.market.tick_s, ours)
    has_time = question.leaves_time_for_spot(draws.market.tick_s)
    runs, alike = (runs_of(question, each, rules if has_time else {}) for each in (draws, alike_draws))
    return PlayedJob(ranked, draws, rules, runs, alike)


def runs_of(question: SpotQuestion, draws: SpotDraws, rules: Mapping[str, SlackRules]) -> Mapping[str, SpotRuns]:
    """What each policy makes of draws, and on demand alone."""
    runs = {name: played(question, draws, each) for name, each in rules.items() if name != ON_DEMAND}
    return {**runs, ON_DEMAND: played_alone(question, draws)}


def late_if_refused(question: SpotQuestion, told: PlayedJob[P], policy: str) -> float:
    """The share of draws that end late under a policy where on demand is refused for a while each time."""
    luck = told.draws.luck
    refused = replace(told.draws, luck=replace(luck, refused_s=np.full(len(luck.work_s), REFUSED_S)))
    is_alone = policy == ON_DEMAND
    runs = played_alone(question, refused) if is_alone else played(question, refused, told.rules[policy])
    return late_ratio(runs, question.deadline_s)


def usd_of(runs: SpotRuns, price: MarketRates) -> FloatArray:
    """What runs cost for one machine at these prices   [USD]."""
    return np.asarray((runs.spot_s * price.spot_usd_per_hour + runs.on_demand_s * price.on_demand_usd_per_hour) / HOUR)


def mean_usd(runs: SpotRuns, price: MarketRates) -> float:
    """The mean of that."""
    return float(usd_of(runs, price).mean())


def moving(
    question: SpotQuestion, moved_ratio: float, machines: int, price: MarketRates, policy: str
) -> MovingMarket | None:
    """How far a policy's cost moves with the market at these prices; on demand alone stays where it is."""
    prices = price.spot_usd_per_hour * machines, price.on_demand_usd_per_hour * machines
    return None if policy == ON_DEMAND else moving_market(question.expected, *prices, moved_ratio)
