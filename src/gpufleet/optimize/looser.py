"""What a limit costs: the cheapest plan under a looser one, beside what a lone request needs at least."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.slo import Limit
from gpufleet.optimize.certainty import cheapest
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.flips import Winner
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import at_limit
from gpufleet.records import dataclass

LEAST_SAVING_RATIO = 0.25
LITTLE_LOOSER, MUCH_LOOSER = 4 / 3, 2.0


@dataclass(frozen=True)
class LooserLimit:
    """A limit, what a lone request needs on the answer's machines, and the cheapest plan at a looser limit."""

    limit: Limit
    lone_s: float
    looser_s: float
    winner: Winner
    saved_ratio: float


def looser_limits(question: AnyQuestion, solution: AnySolution, contest: Contest) -> list[LooserLimit]:
    """For each limit the looser value, by a third or else twice as much, that saves a quarter of the cost."""
    found = []
    for limit in question.demand.workload.slo.limits:
        tried = (cheaper_at(question, solution, contest, limit, ratio) for ratio in (MUCH_LOOSER, LITTLE_LOOSER))
        much = next(tried)
        if much is not None:
            found.append(next(tried) or much)
    return found


def cheaper_at(
    question: AnyQuestion, solution: AnySolution, contest: Contest, limit: Limit, ratio: float
) -> LooserLimit | None:
    """The same question with one limit loosened, where it saves enough: capacities and machines are found anew."""
    looser_s = round_figure(limit.limit_s * ratio)
    winner = cheapest(contest, at_limit(solution.found, limit, looser_s), question.demand)
    if winner is None:
        return None
    answer = solution.ranked[0]
    saved_ratio = 1 - winner.usd_per_hour / answer.usd_per_hour
    lone_s = float(np.min(solution.found.planned_s(limit.label)[answer.placement.row]))
    return LooserLimit(limit, lone_s, looser_s, winner, saved_ratio) if saved_ratio > LEAST_SAVING_RATIO else None


def round_figure(seconds: float, digits: int = 2) -> float:
    """A time in two digits, or more, rounded up.

    >>> round_figure(2.0000001), round_figure(0.5321), round_figure(12.24, 3)
    (2.0, 0.54, 12.3)
    """
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(seconds)))
    return math.ceil(round(seconds * scale, 3)) / scale
