"""From which rate on one's own machines cost no more than an API that charges by the token."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.crossover import CostCurve
from gpufleet.optimize.flips import JUST_BEYOND, at_rate
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.pricing.token_price import TokenPrice
from gpufleet.records import dataclass
from gpufleet.units import HOUR

MOST_REQUESTS_PER_S, LEAST_REQUESTS_PER_S, MOST_ROUNDS = 1e6, 1e-9, 100_000
SETTLED_WITHIN_RATIO = 100.0


@dataclass(frozen=True)
class BreakEvenRates:
    """`first`: the least rate at which machines cost no more than the API; from `settled` on they never cost more.

    Both costs are means over all hours: rates are those at the peak, quiet hours stay as they are. Between both one
    machine more may make them dearer for a while. None: not below 1e6 requests/s, or not found.
    """

    first_requests_per_s: float | None
    settled_requests_per_s: float | None


def break_even_rates(question: AnyQuestion, solution: AnySolution, price: TokenPrice) -> BreakEvenRates:
    """Where the machines that are chosen cost no more than the API, as the rate grows.

    The cheapest of all never cost less as the rate grows, so that their first rate is found step by step; those that
    are chosen for holding more surely cost no less than they do, and are looked at from there on, machine by machine.
    """
    contest = Contest.of(replace(question, purse=replace(question.purse, most_usd_per_hour=math.inf)), solution)
    workload, demand = question.demand.workload, question.demand
    usd_per_rate = price.usd_per_request(workload.input_tokens, workload.output_tokens) * HOUR
    cheapest = CostCurve(contest, solution.found, replace(demand, steady_ratio=0.0))
    begin = first_rate(cheapest, usd_per_rate)
    if begin is None:
        return BreakEvenRates(None, None)
    return rates_from(CostCurve(contest, solution.found, at_rate(demand, begin)), usd_per_rate)


def first_rate(curve: CostCurve, usd_per_rate: float) -> float | None:
    """The least rate r, from that of quiet hours on, with cost(r) <= mean rate(r) x USD/hour of one request/s.

    r_n+1 is the rate at which the API costs what machines cost at r_n: where the cost never falls as the rate grows, no
    solution is passed.
    """
    quiet = curve.demand.quiet
    rate = LEAST_REQUESTS_PER_S if quiet is None else quiet.rate_requests_per_s
    for _ in range(MOST_ROUNDS):
        needed = float(needed_rates(curve, np.array([rate]), usd_per_rate)[0])
        if not needed <= MOST_REQUESTS_PER_S:
            return None
        if needed <= rate:
            return rate
        rate = needed
    return None


def rates_from(curve: CostCurve, usd_per_rate: float) -> BreakEvenRates:
    """The first and the settled rate from the asked one to a hundred times it, or to where no more can be had."""
    begin = curve.demand.workload.rate_requests_per_s
    full = curve.steps(begin * SETTLED_WITHIN_RATIO)
    begins = np.concatenate([[begin], full.requests_per_s * (1 + JUST_BEYOND)])
    needed = needed_rates(curve, begins, usd_per_rate)
    ends = np.append(begins[1:], full.searched_to)
    is_had = np.isfinite(needed)
    begins, needed, ends = begins[is_had], needed[is_had], ends[is_had]
    holds, is_dear = np.flatnonzero(needed < ends), np.flatnonzero(needed > begins)
    if not len(holds):
        return BreakEvenRates(None, None)
    first = float(max(begins[holds[0]], needed[holds[0]]))
    if not len(is_dear):
        return BreakEvenRates(first, first)
    last = is_dear[-1]
    return BreakEvenRates(first, None if last == len(begins) - 1 else max(float(min(needed[last], ends[last])), first))


def needed_rates(curve: CostCurve, rates: FloatArray, usd_per_rate: float) -> FloatArray:
    """The rate at which an API costs what the chosen machines count at each rate, by the age of their prices."""
    return np.asarray(curve.demand.peak_requests_per_s(curve.likely_usd_per_hour(rates) / usd_per_rate))
