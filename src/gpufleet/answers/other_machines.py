"""Other machines beside the answer of a plan: why they are not it, and at which rates they cost less."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.answers.decoder_service import SERVICE
from gpufleet.answers.service_plan import Context, deployment
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.crossover import FIRST, NEITHER, SECOND, Stretch
from gpufleet.optimize.helping import Plight, at_twice_the_price, is_sensible, limits_together, with_limits_at
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.size import needed_together
from gpufleet.results.comparison import RateRange
from gpufleet.results.plan import Deployment

WORKABLE_RATIO = 1.5
"""A limit at what a lone request takes leaves no room for others: with half as much again machines can be loaded."""


def best_of(question: WriterQuestion, solution: WriterSolution) -> Deployment | None:
    """The cheapest that a question leads to."""
    return deployment(SERVICE, Context.of(question, solution), solution.ranked[0]) if solution.ranked else None


def needed_to_serve(question: WriterQuestion, solution: WriterSolution) -> tuple[dict[str, float], Deployment | None]:
    """Limits with which what serves nothing would serve under load, and the cheapest that does then.

    Where that takes more machines than anybody rents: the least limits that a plan of sensible size keeps.
    """
    limits = {
        limit.label: seconds * WORKABLE_RATIO
        for limit, seconds, _ in needed_together(solution.found, question.demand.workload.slo.limits)
    }
    if not limits:
        return {}, None
    then = with_limits_at(question, solution, limits)
    if is_sensible(question, then):
        return limits, best_of(question, then)
    for found in limits_together(Plight.of(question, solution)):
        asked = {limit.label: limit.limit_s for limit in question.demand.workload.slo.limits}
        limits = {label: asked[label] * ratio for label, ratio in found.by.items() if label in asked}
        then = with_limits_at(question, solution, limits)
        then = replace(then, ranked=[p for p in then.ranked if p.offer == found.offer])
    return limits, best_of(question, then)


def price_to_win(solution: WriterSolution, answer: Deployment | None) -> float | None:
    """The price of a machine of the cheapest row at which it counts as much as the answer; None where no price does.

    p = (cost of the answer - what is paid for other machines) / machine hours of this price   [USD/hour]
    The cost of the answer by the age of both prices, and by the doubt that both hold.
    """
    if not solution.ranked or answer is None:
        return None
    priced, price = solution.ranked[0], effective_price(solution.ranked[0].offer)
    machines = (at_twice_the_price(priced).usd_per_hour - priced.usd_per_hour) / price
    counted = answer.counted_usd_per_hour / priced.placement.doubt_ratio
    needed = price + (counted - priced.likely_usd_per_hour) / (machines * priced.offer.age_ratio)
    return needed if needed > 0 else None


def rate_ranges(found: list[Stretch], first: str, second: str) -> list[RateRange]:
    """The stretches with the names of who is cheaper."""
    return [
        RateRange.made_of(
            s,
            cheaper={FIRST: first, SECOND: second}.get(s.cheaper),
            is_served=s.cheaper != NEITHER,
        )
        for s in found
    ]
