"""What runs have beside the range of their steps, learnt between publishers."""

from __future__ import annotations

import math

import pytest
from tools.calibrate.run_ranges import (
    BEYOND,
    NOMINAL,
    Seen,
    held_left_out,
    least_stretch,
    narrowest,
    share,
    stretched,
)

from gpufleet.catalog.run_ranges import RunRange

PLACES = [0.02, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6]


def figures(places: list[float], half_width: float = 0.1) -> list[Seen]:
    """One figure of each publisher, so far from what was predicted in logarithms."""
    return [Seen(f"publisher {i}", place, -half_width, half_width) for i, place in enumerate(places)]


def test_beside_the_range_of_steps_lies_what_leaves_a_tenth_beyond_either_end() -> None:
    beside = narrowest(figures(PLACES))
    assert (beside.low_log, beside.high_log) == (0.0, pytest.approx(math.sqrt(0.5**2 - 0.1**2), abs=0.002))
    assert share(figures(PLACES), lambda each: each.is_beyond(beside, above=True)) <= BEYOND


def test_a_range_of_steps_that_holds_enough_is_never_narrowed() -> None:
    assert narrowest(figures(PLACES, half_width=1.0)) == narrowest([]) == RunRange()


def test_the_range_of_steps_is_stretched_too_where_nothing_lies_beside_it() -> None:
    assert stretched(RunRange(0.1, 0.0), 1.5).end(math.exp(0.2)) == pytest.approx(math.exp(0.3))


def test_a_publisher_of_many_figures_counts_as_one_of_few() -> None:
    many = [Seen("many", 0.0, -0.1, 0.1)] * 500
    assert narrowest([*many, *figures(PLACES)]).high_log >= narrowest(figures(PLACES)).high_log - 0.1


def test_what_the_others_teach_is_stretched_until_it_holds_a_publisher_that_was_left_out() -> None:
    assert math.isnan(held_left_out(figures(PLACES[:1]), 1.0))
    apart = figures([0.0, 0.3, 0.42])
    assert held_left_out(apart, 1.0) < NOMINAL <= held_left_out(apart, least_stretch(apart))
    assert least_stretch(figures(PLACES, half_width=1.0)) == 1.0


def test_nothing_is_stretched_that_holds_no_more_for_it() -> None:
    one_far_off = [*figures([0.0, 0.0]), *[Seen("far off", 2.2, -0.1, 0.1)] * 9]
    assert held_left_out(one_far_off, 2.0) == pytest.approx(held_left_out(one_far_off, 1.0))
    assert least_stretch(one_far_off) == 1.0
