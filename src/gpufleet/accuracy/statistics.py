"""Errors of predictions: median, mean, bias and how often the range holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from gpufleet.results.accuracy import GroupScores, ScoredFigure


def error_ratio(measured: float, predicted: float) -> float:
    """|predicted / measured - 1|.

    >>> round(error_ratio(20.0, 23.0), 3)
    0.15
    """
    return abs(predicted / measured - 1)


def log_ratio(measured: float, predicted: float) -> float:
    """ln(predicted / measured): twice and half are equally far."""
    return math.log(predicted / measured)


def is_predicted(figure: ScoredFigure) -> bool:
    """Whether a figure has a measurement and a prediction to compare."""
    return figure.measured is not None and figure.predicted is not None


def is_held(figure: ScoredFigure) -> bool | None:
    """Whether the measurement lies in the predicted range; None without a range."""
    if figure.measured is None or figure.low is None or figure.high is None:
        return None
    return figure.low <= figure.measured <= figure.high


def group_scores(by: str, group: str, quantity: str, figures: Sequence[ScoredFigure]) -> GroupScores:
    """Scores of figures with a measurement; the denominator of coverage is all of them."""
    pairs = [(f.measured, f.predicted) for f in figures if f.measured is not None and f.predicted is not None]
    errors = [error_ratio(measured, predicted) for measured, predicted in pairs]
    held = [inside for inside in map(is_held, figures) if inside is not None]
    return GroupScores(
        by=by,
        group=group,
        quantity=quantity,
        num_figures=len(figures),
        num_predicted=len(pairs),
        coverage_ratio=len(pairs) / len(figures) if figures else 0.0,
        median_error_ratio=median(errors) if errors else None,
        mean_error_ratio=fmean(errors) if errors else None,
        bias_ratio=math.exp(median(log_ratio(m, p) for m, p in pairs)) - 1 if pairs else None,
        interval_coverage_ratio=sum(held) / len(held) if held else None,
    )


def worst_first(figures: Sequence[ScoredFigure], count: int) -> list[ScoredFigure]:
    """The predicted figures that are furthest off, by ratio: twice and half count alike."""
    predicted = [f for f in figures if is_predicted(f)]
    return sorted(predicted, key=lambda f: -abs(log_ratio(f.measured or 1.0, f.predicted or 1.0)))[:count]
