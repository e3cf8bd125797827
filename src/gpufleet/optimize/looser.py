"""What a limit costs: the cheapest plan under a looser one, beside what a lone request needs at least."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.slo import Limit
from gpufleet.optimize.market import PricedPlacement, best_of_each_type, rank, within_budget
from gpufleet.optimize.placement import place_all
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import at_limit
from gpufleet.records import dataclass

LEAST_SAVING_RATIO = 0.2
LITTLE_LOOSER, MUCH_LOOSER = 4 / 3, 2.0


@dataclass(frozen=True)
class LooserLimit:
    """A limit, what a lone request needs on the answer's machines, and the cheapest plan at a looser limit."""

    limit: Limit
    lone_s: float
    looser_s: float
    priced: PricedPlacement
    saved_ratio: float


def looser_limits(question: AnyQuestion, solution: AnySolution) -> list[LooserLimit]:
    """For each limit the looser value, by a third or else twice as much, that saves a fifth of the cost."""
    answer = solution.ranked[0]
    found = []
    for limit in question.demand.workload.slo.limits:
        lone_s = float(np.min(solution.found.planned_s(limit.label)[answer.placement.row]))
        much = cheaper_at(question, solution, limit, lone_s, MUCH_LOOSER)
        if much is not None and much.saved_ratio >= LEAST_SAVING_RATIO:
            little = cheaper_at(question, solution, limit, lone_s, LITTLE_LOOSER)
            found.append(little if little is not None and little.saved_ratio >= LEAST_SAVING_RATIO else much)
    return found


def cheaper_at(
    question: AnyQuestion, solution: AnySolution, limit: Limit, lone_s: float, ratio: float
) -> LooserLimit | None:
    """The same question with one limit loosened: curves stay, capacities, machines and ranking are found anew."""
    looser_s = round_figure(limit.limit_s * ratio)
    found = at_limit(solution.found, limit, looser_s)
    placements = place_all(question.instances, solution.copies, found, question.demand)
    priced = best_of_each_type(rank(placements, question.offers, question.purse.most_spot_ratio))
    paid = within_budget(priced, question.purse.most_usd_per_hour, Rejections())
    if not paid:
        return None
    saved_ratio = 1 - paid[0].usd_per_hour / solution.ranked[0].usd_per_hour
    return LooserLimit(limit, lone_s, looser_s, paid[0], saved_ratio)


def round_figure(seconds: float) -> float:
    """A time in two digits, rounded up.

    >>> round_figure(2.0000001), round_figure(0.5321)
    (2.0, 0.54)
    """
    scale = 10.0 ** (1 - math.floor(math.log10(seconds)))
    return math.ceil(round(seconds * scale, 3)) / scale
