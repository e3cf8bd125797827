"""Which of two sets of machines costs less at which rate."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gpufleet.api.comparisons import solved_side
from gpufleet.api.setups import whole_question
from gpufleet.catalog.load import load_catalog
from gpufleet.optimize.crossover import EQUAL, FIRST, NEITHER, SECOND, cheaper_of, stretches
from gpufleet.questions.fields import ServeRequest

CHAT = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<100ms")


@pytest.mark.parametrize(("one", "other"), [("L4", "L40S"), ("L40S", "H100"), ("H100", "L4"), ("A10G", "L4")])
def test_at_every_rate_the_stretch_around_it_names_the_cheaper(one: str, other: str) -> None:
    """Against the costs themselves, at 500 rates over four orders of magnitude."""
    tables = load_catalog()
    first, second = (solved_side(CHAT, whole_question(CHAT, tables), tables, name).curve for name in (one, other))
    found = stretches(first, second)
    edges = [found[0].from_requests_per_s, *(stretch.to_requests_per_s for stretch in found)]
    assert edges[0] == pytest.approx(CHAT.rate / 100)
    assert [stretch.from_requests_per_s for stretch in found] == edges[:-1]
    assert all(a.cheaper != b.cheaper for a, b in pairwise(found))
    rates = np.geomspace(edges[0] * 1.001, edges[-1] * 0.999, 500)
    named = [found[int(i)].cheaper for i in np.searchsorted(edges, rates) - 1]
    assert named == cheaper_of(first.usd_per_hour(rates), second.usd_per_hour(rates)).tolist()
    assert {FIRST, SECOND} & set(named)


def test_where_steps_are_too_many_to_count_only_what_was_searched_is_told() -> None:
    """At 40,000 requests/s a step is a machine of thousands: beyond the nearest of them nothing is claimed."""
    tables, busy = load_catalog(), replace(CHAT, rate=40_000.0)
    first, second = (solved_side(busy, whole_question(busy, tables), tables, name).curve for name in ("L4", "H100"))
    found = stretches(first, second)
    begin, end = found[0].from_requests_per_s, found[-1].to_requests_per_s
    for curve in (first, second):
        assert curve.steps(begin).searched_to <= begin
        assert curve.steps(end).searched_to >= end
    assert busy.rate / 100 < begin < busy.rate < end < busy.rate * 100


def test_what_serves_costs_less_than_what_does_not() -> None:
    one, other = np.array([1.0, np.inf, np.inf, 2.0]), np.array([np.inf, 1.0, np.inf, 2.0])
    assert cheaper_of(one, other).tolist() == [FIRST, SECOND, NEITHER, EQUAL]


def test_who_is_asked_first_does_not_matter() -> None:
    tables = load_catalog()
    first, second = (solved_side(CHAT, whole_question(CHAT, tables), tables, name).curve for name in ("L4", "L40S"))
    swapped = {FIRST: SECOND, SECOND: FIRST}
    there, back = stretches(first, second), stretches(second, first)
    assert [s.cheaper for s in there] == [swapped.get(s.cheaper, s.cheaper) for s in back]
    assert [s.to_requests_per_s for s in there] == [s.to_requests_per_s for s in back]
