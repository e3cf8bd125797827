"""What certainty costs, as users get it."""

from __future__ import annotations

from gpufleet.answers.flips import winner_of
from gpufleet.optimize.certainty import copies_for_certainty, price_of_certainty
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.flips import Winner
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.results.levers import CertaintyPrice, CheapestThen, CopiesForCertainty


def certainty_of(question: AnyQuestion, solution: AnySolution, contest: Contest) -> list[CertaintyPrice]:
    """The cheapest plan at each of several confidences."""
    found = price_of_certainty(question, solution, contest)
    return [
        CertaintyPrice(confidence=x.confidence, winner=None if x.winner is None else cheapest_then(question, x.winner))
        for x in found
    ]


def many_more_copies(question: AnyQuestion, solution: AnySolution) -> CopiesForCertainty | None:
    """Copies that are rented for certainty alone, where they are many."""
    found = copies_for_certainty(question, solution)
    return None if found is None else CopiesForCertainty(**vars(found))


def cheapest_then(question: AnyQuestion, winner: Winner) -> CheapestThen:
    """Machines that win, with their GPUs."""
    sold = winner.offer.cloud, winner.offer.instance
    machine = next(i for i in question.instances if (i.cloud, i.name) == sold)
    gpus = machine.gpu_count * winner.instance_count
    return CheapestThen(**winner_of(winner).model_dump(), gpu=machine.accelerator, gpus=gpus)
