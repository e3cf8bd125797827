"""Errors, bias and held ranges of hand-made figures."""

from __future__ import annotations

import pytest

from gpufleet.accuracy.grouping import groups_by
from gpufleet.accuracy.statistics import group_scores, worst_first
from gpufleet.results.accuracy import ScoredFigure


def figure(measured: float, predicted: float | None, spread: float = 0.1, group: str = "a") -> ScoredFigure:
    low, high = (None, None) if predicted is None else (predicted * (1 - spread), predicted * (1 + spread))
    return ScoredFigure(
        file="f",
        row=2,
        quantity="tpot",
        unit="ms",
        measured=measured,
        predicted=predicted,
        low=low,
        high=high,
        group=group,
    )


def test_errors_of_three_figures_by_hand() -> None:
    scores = group_scores("all", "all", "tpot", [figure(10, 11), figure(10, 8), figure(10, 15), figure(10, None)])
    assert scores.num_figures == 4
    assert scores.num_predicted == 3
    assert scores.coverage_ratio == 0.75
    assert scores.median_error_ratio == pytest.approx(0.2)
    assert scores.mean_error_ratio == pytest.approx((0.1 + 0.2 + 0.5) / 3)
    assert scores.bias_ratio == pytest.approx(0.1)
    assert scores.interval_coverage_ratio == pytest.approx(1 / 3)


def test_twice_and_half_have_no_bias_together() -> None:
    assert group_scores("all", "all", "tpot", [figure(10, 20), figure(10, 5)]).bias_ratio == pytest.approx(0.0)


def test_half_is_as_far_off_as_twice_when_the_worst_are_listed() -> None:
    ranked = worst_first([figure(10, 14), figure(10, 5), figure(10, None), figure(10, 11)], count=2)
    assert [f.predicted for f in ranked] == [5, 14]


def test_a_group_that_nothing_predicts_comes_before_the_worst() -> None:
    figures = [figure(10, 10.5, group="good"), figure(10, 20, group="bad"), figure(10, None, group="missing")]
    groups = groups_by("group", lambda f: f.group, figures)
    assert [g.group for g in groups] == ["missing", "bad", "good"]
    assert groups[0].median_error_ratio is None
