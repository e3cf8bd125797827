"""Prices that nobody dates, or that are likely another by now: told beside the answer that stands without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.offer import Offer
from gpufleet.domain.reason import Rejection
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.copies.protocol import Copies, Model
from gpufleet.optimize.market import PricedPlacement, rank
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.replicas import EveryRejection
from gpufleet.optimize.service import AnyQuestion, AnySolution, ServeQuestion, ServeSolution, solve_serve

M = TypeVar("M", bound=Model[Copies])
S = TypeVar("S", bound=AnySolution)


def solved_on_dated(question: ServeQuestion[M], solve: Callable[[ServeQuestion[M]], S]) -> tuple[ServeQuestion[M], S]:
    """A question with dated prices as its offers where they answer it, else with all; and its solution."""
    every = replace(question, offers=(*question.offers, *question.undated), undated=())
    asked = undated_apart(every)
    solution = solve(asked)
    return (asked, solution) if solution.ranked or not asked.undated else (every, solve(every))


def writer_with_rejections(
    question: WriterQuestion, calibration: Calibration
) -> tuple[WriterQuestion, WriterSolution, list[Rejection]]:
    """The same of a model that writes, with everything that was rejected."""
    kept = [EveryRejection()]

    def solve(asked: WriterQuestion) -> WriterSolution:
        kept[0] = EveryRejection()
        return solve_serve(asked, calibration, kept[0])

    asked, solution = solved_on_dated(question, solve)
    return asked, solution, kept[0].kept


def undated_apart(question: ServeQuestion[M]) -> ServeQuestion[M]:
    """The same with its undated prices beside its offers, where it has dated ones."""
    dated = dated_or_all(question.offers)
    apart = () if len(dated) == len(question.offers) else tuple(o for o in question.offers if not o.is_dated)
    return replace(question, offers=tuple(dated), undated=apart)


def dated_or_all(offers: Sequence[Offer]) -> Sequence[Offer]:
    """The dated prices; all, where there are none."""
    return [offer for offer in offers if offer.is_dated] or offers


def cheaper_if_true(question: AnyQuestion, solution: ServeSolution[Copies]) -> PricedPlacement | None:
    """The cheapest through an undated price, or through one that is likely more by now, below the answer's cost."""
    if not solution.ranked:
        return None
    answer = solution.ranked[0]
    undated = rank(solution.placements, question.undated, question.purse.most_spot_ratio)[:1]
    aged = (p for p in solution.ranked if counted_at_list(p) < counted_at_list(answer))
    found = min([*undated, *aged], key=lambda p: p.usd_per_hour, default=None)
    return found if found is not None and found.usd_per_hour < answer.usd_per_hour else None


def counted_at_list(p: PricedPlacement) -> float:
    """What it would count in a choice, were the price of its list still true."""
    return p.usd_per_hour * p.placement.doubt_ratio


def unpriced(question: AnyQuestion, solution: ServeSolution[Copies]) -> list[Placement]:
    """Placements on machine types without any price."""
    priced = {(o.cloud, o.instance) for o in (*question.offers, *question.undated)}
    return [p for p in solution.placements if (p.instance.cloud, p.instance.name) not in priced]
