"""The search for the nearest value at which a choice changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.optimize.flips import nearest_change, shown_value

STEPS = st.sampled_from([1.03, 1.25])


@given(st.floats(1e-3, 1e4), st.floats(1.001, 9.99), STEPS)
def test_a_choice_that_changes_once_is_found_where_it_does(now: float, ratio: float, step_ratio: float) -> None:
    """Of seconds as of tokens, above and below: never nearer than the change, and within 0.02 % of it."""
    above = nearest_change(lambda x: x >= now * ratio, now, now * 10, step_ratio)
    below = nearest_change(lambda x: x <= now / ratio, now, now / 10, step_ratio)
    assert above is not None
    assert below is not None
    assert ratio <= above / now <= ratio * 1.0002
    assert ratio <= now / below <= ratio * 1.0002


@given(st.floats(1e-3, 1e4), st.floats(1.001, 3.0), STEPS)
def test_a_change_beyond_the_farthest_is_not_searched_for(now: float, ratio: float, step_ratio: float) -> None:
    asked: list[float] = []

    def is_other(value: float) -> bool:
        asked.append(value)
        return False

    for farthest in (now * ratio, now / ratio):
        assert nearest_change(is_other, now, farthest, step_ratio) is None
        assert asked[-1] == farthest


@given(st.floats(1e-3, 1e6), st.floats(1.001, 9.99))
def test_a_value_is_shown_in_four_digits_at_which_the_choice_has_changed(now: float, ratio: float) -> None:
    edge = now * ratio
    shown = shown_value(edge, now, lambda x: x >= edge)
    assert edge <= shown < edge * 1.01
    assert shown == edge or float(f"{shown:.4g}") == pytest.approx(shown, rel=1e-12)
