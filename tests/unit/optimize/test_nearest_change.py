"""The search for the nearest value at which a choice changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import at_rate, nearest_change, shown_value
from gpufleet.optimize.lengths import at_lengths
from gpufleet.questions.fields import ServeRequest

STEPS = st.sampled_from([1.03, 1.25])
CHAT = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<100ms")
TWO_KINDS = Workload.of(
    (
        RequestClass("chat", 4.0, TokenCounts(900.0, 0.5), TokenCounts(250.0)),
        RequestClass("search", 1.0, TokenCounts(5000.0), TokenCounts(30.0, 0.2)),
    )
)


def test_classes_keep_their_shares_where_lengths_or_the_rate_move() -> None:
    """What a service of the moved classes would be is what the moved service says that it is."""
    asked = Demand(TWO_KINDS, 0.2, 1)
    longer = at_lengths(asked, 3 * TWO_KINDS.input_tokens, TWO_KINDS.output_tokens / 2).workload
    busier = at_rate(asked, 50.0).workload
    for moved in (longer, busier):
        of_classes = Workload.of(moved.classes)
        assert of_classes.input_tokens == pytest.approx(moved.input_tokens)
        assert of_classes.output_tokens == pytest.approx(moved.output_tokens)
        assert of_classes.rate_requests_per_s == pytest.approx(moved.rate_requests_per_s)
    assert [c.input_tokens.mean for c in longer.classes] == [2700.0, 15000.0]
    assert [c.output_tokens.mean for c in longer.classes] == [125.0, 15.0]
    assert [c.rate_requests_per_s for c in busier.classes] == [40.0, 10.0]


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
    assert float(f"{shown:.4g}") == pytest.approx(shown, rel=1e-12)


def test_from_a_hundred_on_whole_numbers_are_shown_whole() -> None:
    assert shown_value(123.4, 100.0, lambda x: x >= 123.4) == 124.0
    assert shown_value(876.6, 1000.0, lambda x: x <= 876.6) == 876.0
    assert shown_value(123.44, 99.5, lambda x: x >= 123.44) == 123.5


@pytest.mark.parametrize("value", [0.50123, 501.23])
def test_a_value_behind_which_the_choice_changes_back_is_shown_as_it_is(value: float) -> None:
    """One percent nearer it has changed too: a rounded figure would not be the nearest."""
    assert shown_value(value, value / 5, lambda x: True) == value
