"""Ranges of runs, learnt from where figures lie in the range of their steps."""

from __future__ import annotations

import math

import pytest
from tools.calibrate.run_ranges import NOMINAL, Seen, held_left_out, narrowest, share_held

from gpufleet.catalog.run_ranges import RunRange

PLACES = [0.02, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6]


def figures(places: list[float], half_width: float = 1.0) -> list[Seen]:
    """One figure of each group, so far from what was predicted in logarithms."""
    ends = (math.exp(-half_width), math.exp(half_width))
    return [Seen(f"group {i}", math.exp(place), *ends) for i, place in enumerate(places)]


def test_a_range_of_steps_that_holds_too_much_is_narrowed_to_what_holds_the_nominal_share() -> None:
    learnt = narrowest(figures(PLACES))
    assert learnt == RunRange(kept=pytest.approx(0.4, abs=0.002))
    assert share_held(figures(PLACES), learnt) == pytest.approx(NOMINAL)


def test_few_groups_narrow_nothing() -> None:
    assert narrowest(figures(PLACES[:4])) == RunRange()
    assert narrowest([]) == RunRange()


def test_a_range_of_steps_that_holds_too_little_is_widened_by_a_spread_in_squares() -> None:
    learnt = narrowest(figures(PLACES, half_width=0.1))
    assert (learnt.kept, learnt.log_spread) == (1.0, pytest.approx(math.sqrt(0.4**2 - 0.1**2), abs=0.002))
    assert share_held(figures(PLACES, half_width=0.1), learnt) == pytest.approx(NOMINAL)


def test_what_is_held_of_a_group_is_told_from_the_others() -> None:
    assert math.isnan(held_left_out(figures(PLACES[:1])))
    assert held_left_out(figures(PLACES)) == pytest.approx(NOMINAL, abs=0.1)
