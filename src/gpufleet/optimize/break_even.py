"""From which rate on one's own machines cost no more than an API that charges by the token."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import JUST_BEYOND, at_rate
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.pricing.token_price import TokenPrice
from gpufleet.records import dataclass
from gpufleet.units import HOUR

MOST_REQUESTS_PER_S, LEAST_REQUESTS_PER_S, MOST_ROUNDS = 1e6, 1e-9, 100_000
SETTLED_WITHIN_RATIO = 100.0
CostOfRates = Callable[[Floats], FloatArray]


@dataclass(frozen=True)
class BreakEvenRates:
    """`first`: the least rate at which machines cost no more than the API; from `settled` on they never cost more.

    Both costs are means over all hours: rates are those at the peak, quiet hours stay as they are. Between both one
    machine more may make them dearer for a while. None: not below 1e6 requests/s, or not found.
    """

    first_requests_per_s: float | None
    settled_requests_per_s: float | None


def break_even_rates(question: AnyQuestion, solution: AnySolution, price: TokenPrice) -> BreakEvenRates:
    """Where the cheapest machines cost no more than the API, as the rate grows."""
    contest = Contest.of(replace(question, purse=replace(question.purse, most_usd_per_hour=math.inf)), solution)
    workload, demand = question.demand.workload, question.demand
    per_request = price.usd_per_request(workload.input_tokens, workload.output_tokens)

    def cheapest(rates: Floats) -> FloatArray:
        return np.asarray(contest.costs(solution.found.requests_per_s, demand, rates).min(axis=0))

    first = first_rate(demand, cheapest, per_request)
    if first is None:
        return BreakEvenRates(None, None)
    at_first = at_rate(demand, first)
    return BreakEvenRates(first, settled_rate(contest, solution, at_first, cheapest, per_request))


def first_rate(demand: Demand, cheapest: CostOfRates, usd_per_request: float) -> float | None:
    """The least rate r, from that of quiet hours on, with cost(r) <= mean rate(r) x 3600 x USD per request.

    r_n+1 is the rate at which the API costs what machines cost at r_n: the cost never falls as the rate grows, so that
    no solution is passed.
    """
    rate = LEAST_REQUESTS_PER_S if demand.quiet is None else demand.quiet.rate_requests_per_s
    for _ in range(MOST_ROUNDS):
        needed = float(demand.peak_requests_per_s(float(cheapest(rate)[0]) / (usd_per_request * HOUR)))
        if not needed <= MOST_REQUESTS_PER_S:
            return None
        if needed <= rate:
            return rate
        rate = needed
    return None


def settled_rate(
    contest: Contest, solution: AnySolution, demand: Demand, cheapest: CostOfRates, usd_per_request: float
) -> float | None:
    """The rate beyond which machines stay at or below the API's price; None where they pass it again to the end.

    The end is where no more machines can be had, or a hundred times the rate.
    """
    begin = demand.workload.rate_requests_per_s
    full = contest.thresholds(solution.found.requests_per_s, demand, begin * SETTLED_WITHIN_RATIO)
    rates = full.requests_per_s * (1 + JUST_BEYOND)
    dear = np.asarray(demand.peak_requests_per_s(cheapest(rates) / (usd_per_request * HOUR)))
    rates, dear = rates[np.isfinite(dear)], dear[np.isfinite(dear)]
    if not len(rates):
        return begin
    is_dear = np.flatnonzero(dear > rates)
    if not len(is_dear):
        return begin
    return None if is_dear[-1] == len(rates) - 1 else float(dear[is_dear[-1]])
