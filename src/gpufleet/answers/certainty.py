"""What certainty costs, as users get it."""

from __future__ import annotations

from gpufleet.answers.flips import winner_of
from gpufleet.optimize.certainty import price_of_certainty
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.flips import Winner
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.results.levers import CertaintyPrice


def certainty_of(question: AnyQuestion, solution: AnySolution, contest: Contest) -> list[CertaintyPrice]:
    """The cheapest plan at each of several confidences."""
    return [
        CertaintyPrice(
            confidence=priced.confidence,
            gpu="" if priced.winner is None else gpu_of(question, priced.winner),
            winner=None if priced.winner is None else winner_of(priced.winner),
        )
        for priced in price_of_certainty(question, solution, contest)
    ]


def gpu_of(question: AnyQuestion, winner: Winner) -> str:
    """The GPU of the machines that win."""
    sold = winner.offer.cloud, winner.offer.instance
    return next(i.accelerator for i in question.instances if (i.cloud, i.name) == sold)
