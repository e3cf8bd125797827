"""Policies of a service on spot: which are tried, which of them keeps a target for least, which are shown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpufleet.domain.spot_services import FOR_MISSING, FOR_UNREADY, NO_FALLBACK, ServicePolicy
from gpufleet.optimize.spot_services import (
    CALM_S,
    CAREFUL_S,
    Tried,
    cheapest_that_attains,
    fixed_policies,
    floors_for,
    is_on_frontier,
    most_nodes,
    policies_for,
    refined,
    shapes_for,
    tick_for,
)
from gpufleet.units import DAY, HOUR


def tried(*rows: tuple[float, float]) -> Tried:
    """Policies with so many spares as their place, each ready for a share of the time at a cost."""
    attained, usd = (np.array(column) for column in zip(*rows, strict=True))
    return Tried([ServicePolicy(spares=n) for n in range(len(rows))], attained, usd)


def places(policies: object) -> list[int]:
    return [policy.spares for policy in policies]  # type: ignore[attr-defined]


def test_floors_are_quarters_of_the_machines_short_of_all() -> None:
    assert [floors_for(n) for n in (1, 2, 8)] == [[0], [0, 1], [0, 2, 4, 6]]
    fixed = fixed_policies(2)
    assert fixed[:5] == [ServicePolicy(0, spares) for spares in range(5)]
    assert (len(fixed), fixed[-1]) == (11, ServicePolicy(2))
    assert all(policy.is_fixed for policy in fixed)


def test_all_that_are_tried_differ_and_no_policy_without_spares_looks_at_young_zones() -> None:
    every = policies_for(4)
    assert len(set(every)) == len(every)
    assert all(policy.spares or math.isinf(policy.young_s) for policy in every)
    assert {(p.fallback, p.hold_s) for p in every} == {
        (NO_FALLBACK, 0.0), (FOR_MISSING, 0.0), (FOR_MISSING, HOUR), (FOR_UNREADY, 0.0), (FOR_UNREADY, HOUR)
    }  # fmt: skip
    assert {p.spares for p in every if not p.is_fixed} == {0, 1, 2}
    assert {p.spares for p in policies_for(9) if not p.is_fixed} == {0, 1, 2, 3, 5}
    assert {p.calm_s for p in every} == {0.0, HOUR / 2, 2 * HOUR, 6 * HOUR, DAY}


def test_shapes_are_bold_or_careful_and_are_refined_by_all_their_times() -> None:
    shapes = shapes_for(4)
    assert set(shapes) <= set(policies_for(4))
    assert {p.calm_s for p in shapes} == {0.0, CAREFUL_S}
    assert all(math.isinf(p.young_s) for p in shapes if p.calm_s == 0.0)
    assert all(p.young_s == HOUR for p in shapes if p.calm_s and p.spares)
    assert {p.hold_s for p in shapes} == {0.0}
    assert set(refined(ServicePolicy(1, 0))) == {ServicePolicy(1, 0, calm_s=calm_s) for calm_s in CALM_S}
    assert len(set(refined(ServicePolicy(1, 2)))) == 2 * len(CALM_S)
    assert len(set(refined(ServicePolicy(1, 0, fallback=FOR_MISSING)))) == 2 * len(CALM_S)
    assert {p.fallback for p in refined(ServicePolicy(1, 2, fallback=FOR_MISSING))} == {FOR_MISSING}


def test_a_zone_may_hold_all_machines_and_all_spares() -> None:
    assert [most_nodes(n) for n in (1, 4, 20)] == [5, 8, 30]


@pytest.mark.parametrize(("target", "found"), [(0.9, 2), (0.95, 2), (0.96, 1), (0.99, 1), (0.5, 0)])
def test_the_cheapest_that_keeps_a_target_is_taken_or_of_those_that_come_nearest(target: float, found: int) -> None:
    attained, usd = np.array([0.8, 0.98, 0.95, 0.98]), np.array([1.0, 4.0, 3.0, 5.0])
    assert cheapest_that_attains(attained, usd, target) == found
    assert tried(*zip(attained, usd, strict=True)).cheapest(target).spares == found


def test_what_misses_a_target_by_a_fifth_of_what_it_leaves_is_near() -> None:
    every = tried((0.87, 1.0), (0.9 - 0.2 * (1 - 0.9), 4.0), (0.99, 3.0), (0.95, 2.0))
    assert places(every.nearest(0.9, 9)) == [3, 2, 1]
    assert places(every.nearest(0.9, 2)) == [3, 2]
    assert places(every.nearest(0.999, 9)) == [2]


def test_what_another_beats_in_both_is_not_shown_and_the_rest_lies_as_far_apart_as_may_be() -> None:
    rows = [(0.9, 2.0), (0.8, 1.0), (0.85, 3.0), (0.95, 2.0), (0.95, 2.5), (0.99, 9.0)]
    attained, usd = (np.array(column) for column in zip(*rows, strict=True))
    assert is_on_frontier(attained, usd).tolist() == [False, True, False, True, False, True]
    assert places(tried(*rows).frontier(9)) == [1, 3, 5]
    assert places(tried(*rows).frontier(2)) == [1, 5]


def test_policies_are_told_apart_by_whether_their_numbers_change_and_stand_beside_others() -> None:
    some = Tried([ServicePolicy(1), ServicePolicy(1, 2, HOUR)], np.array([0.5, 0.6]), np.array([1.0, 2.0]))
    assert some.fixed.policies == [ServicePolicy(1)]
    assert some.fixed.usd_per_hour.tolist() == [1.0]
    both = some.and_also(tried((0.7, 3.0)))
    assert both.policies == [*some.policies, ServicePolicy()]
    assert (both.attained_ratio.tolist(), both.usd_per_hour.tolist()) == ([0.5, 0.6, 0.7], [1.0, 2.0, 3.0])


def test_a_tick_is_a_part_of_the_time_that_availability_stands_in_which_a_start_ends_nearly() -> None:
    assert [tick_for(start_s, 600.0) for start_s in (600.0, 1200.0, 300.0, 50.0, 550.0)] == [600, 600, 300, 60, 600]
    assert tick_for(1.0, 600.0) == 60.0
