"""Errors of predictions: median, mean, bias, how often the range holds and how wide it is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from statistics import fmean, median

import numpy as np

from gpufleet.records import dataclass
from gpufleet.results.accuracy import GroupScores, ScoredFigure

NUM_DRAWS, SEED = 1000, 20_251_121
LOW_PERCENTILE, HIGH_PERCENTILE = 10, 90
FEWEST_PARTIES = 2


@dataclass(frozen=True)
class PartyCount:
    """Figures of one party (a source, a client on an engine and GPU) with a range, and how many ranges held."""

    num_figures: int
    num_held: int


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
    """Whether the measurement lies in the predicted range, which may have no upper end; None without a range."""
    if figure.measured is None or figure.low is None:
        return None
    return figure.low <= figure.measured and (figure.high is None or figure.measured <= figure.high)


def half_width_ratio(figure: ScoredFigure) -> float | None:
    """How far the ends of a range are from its middle: sqrt(high / low) - 1; None without two ends above zero.

    0.25 means that the middle may be 25 % too low, or too high by the same factor.
    """
    if figure.low is None or figure.high is None or figure.low <= 0:
        return None
    return math.sqrt(figure.high / figure.low) - 1


def party_counts(figures: Iterable[ScoredFigure], party: Callable[[ScoredFigure], str]) -> list[PartyCount]:
    """Held ranges by party: figures of one party err together, so that they are no independent trials."""
    held: dict[str, list[bool]] = defaultdict(list)
    for figure in figures:
        inside = is_held(figure)
        if inside is not None:
            held[party(figure)].append(inside)
    return [PartyCount(len(members), sum(members)) for members in held.values()]


def held_interval(parties: Sequence[PartyCount]) -> tuple[float, float] | None:
    """10th and 90th percentile of the share of held ranges over 1,000 draws of as many parties with replacement.

    None for a single party, which says nothing about the next one.

    >>> held_interval([PartyCount(10, 10), PartyCount(5, 5)])
    (1.0, 1.0)
    """
    if len(parties) < FEWEST_PARTIES:
        return None
    draws = np.random.default_rng(SEED).integers(len(parties), size=(NUM_DRAWS, len(parties)))
    num_held, num_figures = (
        np.array([getattr(party, name) for party in parties])[draws].sum(axis=1) for name in ("num_held", "num_figures")
    )
    low, high = np.percentile(num_held / num_figures, [LOW_PERCENTILE, HIGH_PERCENTILE])
    return float(low), float(high)


def group_scores(
    by: str,
    group: str,
    quantity: str,
    figures: Sequence[ScoredFigure],
    party: Callable[[ScoredFigure], str] = attrgetter("group"),
) -> GroupScores:
    """Scores of figures with a measurement; the denominator of coverage is all of them."""
    pairs = [(f.measured, f.predicted) for f in figures if f.measured is not None and f.predicted is not None]
    errors = [error_ratio(measured, predicted) for measured, predicted in pairs]
    held = [inside for inside in map(is_held, figures) if inside is not None]
    widths = [width for width in map(half_width_ratio, figures) if width is not None]
    parties = party_counts(figures, party)
    low, high = held_interval(parties) or (None, None)
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
        interval_coverage_low_ratio=low,
        interval_coverage_high_ratio=high,
        num_parties=len(parties),
        half_width_ratio=median(widths) if widths else None,
    )


def worst_first(figures: Sequence[ScoredFigure], count: int) -> list[ScoredFigure]:
    """The predicted figures that are furthest off, by ratio: twice and half count alike."""
    predicted = [f for f in figures if is_predicted(f)]
    return sorted(predicted, key=lambda f: -abs(log_ratio(f.measured or 1.0, f.predicted or 1.0)))[:count]
