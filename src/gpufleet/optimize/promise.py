"""Limits are kept with the confidence that a question has, or else as expected where nobody asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gpufleet.domain.confidence import EXPECTED
from gpufleet.optimize.copies.protocol import Copies, Model
from gpufleet.optimize.dated import solved_on_dated
from gpufleet.optimize.helping import is_sensible
from gpufleet.optimize.service import AnySolution, ServeQuestion

M = TypeVar("M", bound=Model[Copies])
S = TypeVar("S", bound=AnySolution)


def solved_as_promised(
    question: ServeQuestion[M],
    solve: Callable[[ServeQuestion[M]], S],
    *,
    is_asked: bool,
    is_served: Callable[[ServeQuestion[M], S], bool] = lambda _, solution: bool(solution.ranked),
) -> tuple[ServeQuestion[M], S]:
    """The question that is kept, and its solution; a confidence that `is_asked` for does not give way.

    What is kept only by more machines than anybody rents gives way to a plan of sensible size. Where nothing serves
    even as expected the confidence stays: what would help is told for it.
    """
    asked, solution = solved_on_dated(question, solve)
    is_kept = is_served(asked, solution)
    if is_asked or asked.demand.confidence == EXPECTED or (is_kept and is_sensible(asked, solution)):
        return asked, solution
    gamble = solved_on_dated(replace(question, demand=replace(question.demand, confidence=EXPECTED)), solve)
    is_better = not is_sensible(*gamble) if is_kept else not is_served(*gamble)
    return (asked, solution) if is_better else gamble


def missed_confidence(asked: ServeQuestion[M], kept: ServeQuestion[M]) -> float | None:
    """The confidence of a question that gave way; None where it is kept."""
    return None if kept.demand.confidence == asked.demand.confidence else asked.demand.confidence
