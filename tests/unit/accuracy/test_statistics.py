"""Errors, bias and held ranges of hand-made figures."""

from __future__ import annotations

import pytest

from gpufleet.accuracy.grouping import groups_by
from gpufleet.accuracy.statistics import PartyCount, group_scores, half_width_ratio, held_interval, worst_first
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


def test_the_half_width_of_a_point_is_nothing_and_of_a_range_its_factor_from_the_middle() -> None:
    assert half_width_ratio(figure(10, 10, spread=0.0)) == 0.0
    four_times = figure(10, 10).model_copy(update={"low": 5.0, "high": 20.0})
    assert half_width_ratio(four_times) == pytest.approx(1.0)
    assert half_width_ratio(four_times.model_copy(update={"low": 0.0})) is None
    assert half_width_ratio(figure(10, None)) is None


def test_the_width_of_a_group_is_the_median_of_its_ranges() -> None:
    figures = [figure(10, 10, spread) for spread in (0.0, 0.1, 0.5)]
    scores = group_scores("all", "all", "tpot", figures)
    assert scores.half_width_ratio == pytest.approx((1.1 / 0.9) ** 0.5 - 1)
    assert group_scores("all", "all", "tpot", [figure(10, None)]).half_width_ratio is None


@pytest.mark.parametrize(("num_held", "share"), [(20, 1.0), (0, 0.0), (10, 0.5)])
def test_parties_that_agree_leave_nothing_to_chance(num_held: int, share: float) -> None:
    assert held_interval([PartyCount(20, num_held)] * 5) == (share, share)


def test_one_party_says_nothing_about_the_next() -> None:
    assert held_interval([PartyCount(1000, 800)]) is None
    scores = group_scores("all", "all", "tpot", [figure(10, 10)] * 9)
    assert (scores.num_parties, scores.interval_coverage_low_ratio) == (1, None)


def test_the_share_is_surer_with_more_parties_of_the_same_kind() -> None:
    few, many = ([PartyCount(10, 10), PartyCount(10, 5)] * count for count in (2, 50))
    (few_low, few_high), (many_low, many_high) = (held_interval(parties) or (0, 0) for parties in (few, many))
    assert few_low < many_low < 0.75 < many_high < few_high
    assert held_interval(few) == held_interval(few)


def test_figures_are_drawn_by_party_and_not_one_by_one() -> None:
    held, missed = [figure(10, 10, group="a")] * 50, [figure(10, 20, group="b")] * 50
    scores = group_scores("all", "all", "tpot", [*held, *missed])
    assert scores.interval_coverage_ratio == 0.5
    assert (scores.interval_coverage_low_ratio, scores.interval_coverage_high_ratio) == (0.0, 1.0)
    assert scores.num_parties == 2
