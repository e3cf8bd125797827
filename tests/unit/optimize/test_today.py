"""What to do with machines that run, against trying every number of them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.workload import Workload
from gpufleet.errors import UsageError
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.today import Held, Needs, PlanCost, Step, cheapest_kept, needed, serves, verdict

TYPES = st.builds(
    Held,
    count=st.integers(1, 5),
    requests_per_s=st.sampled_from([0.0, 0.7, 1.5, 4.0]),
    replicas=st.integers(1, 4),
    usd_per_hour=st.sampled_from([1.0, 2.5, 10.0]),
)


def demand(rate: float, headroom: float = 0.2, replicas: int = 1) -> Demand:
    return Demand(Workload(1000.0, 200.0, rate), headroom, replicas)


def usd(held: list[Held], counts: tuple[int, ...]) -> float:
    return sum(n * (h.usd_per_hour or 0.0) for n, h in zip(counts, held, strict=True))


def carries(held: list[Held], counts: tuple[int, ...], asked: Demand) -> bool:
    pairs = [(n, h) for n, h in zip(counts, held, strict=True) if h.requests_per_s]
    rate, copies = sum(n * h.requests_per_s for n, h in pairs), sum(n * h.replicas for n, h in pairs)
    return rate >= asked.planned_requests_per_s * (1 - 1e-9) and copies >= asked.min_replicas


@given(st.lists(TYPES, min_size=1, max_size=3), st.sampled_from([0.5, 2.0, 5.0, 9.0]), st.integers(1, 4))
def test_what_is_kept_is_the_cheapest_that_serves(held: list[Held], rate: float, replicas: int) -> None:
    asked = demand(rate, replicas=replicas)
    every = [c for c in itertools.product(*(range(h.count + 1) for h in held)) if carries(held, c, asked)]
    if not serves(held, asked) or not every:
        return
    kept = cheapest_kept(held, asked)
    assert kept in every
    assert usd(held, kept) == pytest.approx(min(usd(held, c) for c in every))


@given(st.lists(TYPES, min_size=1, max_size=3), st.sampled_from([2.0, 9.0, 40.0]))
def test_what_is_added_serves_and_one_less_does_not(held: list[Held], rate: float) -> None:
    asked = demand(rate)
    counts = needed(held, asked)
    if serves(held, asked) or counts is None:
        assert counts is not None or not any(h.requests_per_s for h in held)
        return
    more = [i for i, (n, h) in enumerate(zip(counts, held, strict=True)) if n > h.count]
    assert len(more) == 1
    assert carries(held, counts, asked)
    assert not carries(held, tuple(n - (i in more) for i, n in enumerate(counts)), asked)


def test_machines_beyond_a_quota_are_not_added() -> None:
    assert needed([Held(2, 1.0, 1, 5.0)], demand(3.0)) == (4,)
    assert needed([Held(2, 1.0, 1, 5.0, most=3)], demand(3.0)) is None


def test_very_many_machines_of_several_types_are_refused_not_weighed_for_ever() -> None:
    many = [Held(10_000, 1.0, 1, 1.0)] * 3
    with pytest.raises(UsageError, match="too many machines"):
        needed(many, demand(5.0))
    assert needed(many[:1], demand(5.0)) == (6,)


ALL_FIVE = (5,)


@pytest.mark.parametrize(
    ("asked", "fast", "slow", "own", "plan", "step", "is_close"),
    [
        ((5,), (4,), (6,), 50.0, None, Step.KEEP, False),
        ((3,), (2,), (4,), 30.0, None, Step.SHRINK, False),
        ((3,), (2,), (5,), 30.0, None, Step.SHRINK, True),
        ((3,), (2,), None, 30.0, None, Step.SHRINK, True),
        ((7,), (6,), (9,), 70.0, None, Step.GROW, False),
        ((7,), (5,), (9,), 70.0, None, Step.GROW, True),
        ((5,), (4,), (6,), 50.0, PlanCost(60.0, 80.0), Step.KEEP, False),
        ((5,), (4,), (6,), 50.0, PlanCost(45.0, 49.0), Step.REPLACE, False),
        ((5,), (4,), (6,), 50.0, PlanCost(45.0, 60.0), Step.KEEP, True),
        ((5,), (4,), (6,), 50.0, PlanCost(45.0, 60.0, runs_alike=True), Step.REPLACE, False),
        ((3,), (2,), (4,), 30.0, PlanCost(29.0, 45.0), Step.SHRINK, False),
        ((5,), (4,), (6,), None, PlanCost(1.0, 1.0), Step.KEEP, False),
        (None, None, None, None, PlanCost(1.0, math.inf), Step.REPLACE, False),
        (None, None, None, None, None, Step.NOTHING, False),
    ],
)  # fmt: skip
def test_a_step_is_close_where_an_end_of_the_range_does_not_ask_for_it(
    asked: tuple[int, ...] | None,
    fast: tuple[int, ...] | None,
    slow: tuple[int, ...] | None,
    own: float | None,
    plan: PlanCost | None,
    step: Step,
    is_close: bool,
) -> None:
    found = verdict(ALL_FIVE, Needs(asked, fast, slow), own, plan)
    assert (found.step, found.is_close) == (step, is_close)


def test_of_two_ways_that_cost_the_same_the_one_with_fewer_machines_is_kept() -> None:
    small, large = Held(4, 6.0, 1, 1.0), Held(1, 12.0, 1, 2.0)
    assert cheapest_kept([small, large], demand(10.0)) == (0, 1)
    assert cheapest_kept([large, small], demand(10.0)) == (1, 0)


@pytest.mark.parametrize("usd_per_hour", [0.07, 1.1, 37.0, 111.84, 9999.99])
def test_a_plan_that_costs_the_same_is_not_cheaper(usd_per_hour: float) -> None:
    """Nor one that costs less by a rounding of its sum; a cent in ten thousand dollars is money."""
    thirds = sum([usd_per_hour / 3] * 3)
    for plan, is_below in ((usd_per_hour, False), (thirds, False), (usd_per_hour * (1 - 1e-6), True)):
        assert PlanCost(plan, plan).is_below(usd_per_hour) is is_below
        assert PlanCost(plan, 2 * plan, runs_alike=True).is_surely_below(usd_per_hour) is is_below
