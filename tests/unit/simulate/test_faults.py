"""Machines on spot: when a replica is there, what it is told, and what becomes of its requests."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.domain.availability import Availability
from gpufleet.simulate.cluster import Change
from gpufleet.simulate.faults import SpotStart, preemptions, scaled
from gpufleet.simulate.state import DRAINING, OFF, READY, STARTING

MINUTE_S = 60.0


def zones(*nodes: list[int]) -> Availability:
    """A trace in minutes."""
    return Availability(MINUTE_S, tuple("abc"[: len(nodes)]), np.array(nodes))


def of(changes: list[Change], replica: int) -> list[tuple[float, int]]:
    """What befalls one replica."""
    return [(change.time_s, change.state) for change in changes if change.replica == replica]


def test_a_machine_is_drained_when_told_lost_when_taken_and_ready_a_start_after_it_is_back() -> None:
    found = preemptions(zones([1, 1, 0, 1, 1]), [0], 100.0, 100.0 + 4 * MINUTE_S, SpotStart(20.0, notice_s=15.0))
    assert of(found, 0) == [(205.0, DRAINING), (220.0, OFF), (280.0, STARTING), (300.0, READY)]


def test_a_machine_that_is_taken_before_it_is_ready_never_serves() -> None:
    found = preemptions(zones([0, 1, 0, 0]), [0], 0.0, 3 * MINUTE_S, SpotStart(90.0))
    assert of(found, 0) == [(0.0, OFF), (60.0, STARTING), (120.0, OFF)]
    slow = preemptions(zones([0, 1, 0, 0]), [0], 0.0, 3 * MINUTE_S, SpotStart(50.0, notice_s=30.0))
    assert of(slow, 0) == [(0.0, OFF), (60.0, STARTING), (120.0, OFF)]


def test_a_notice_longer_than_the_machine_was_there_leaves_it_no_request() -> None:
    found = preemptions(zones([1, 0, 0]), [0], 0.0, 2 * MINUTE_S, SpotStart(5.0, notice_s=300.0))
    assert of(found, 0) == [(0.0, DRAINING), (60.0, OFF)]
    later = preemptions(zones([0, 1, 0]), [0], 0.0, 2 * MINUTE_S, SpotStart(5.0, notice_s=300.0))
    assert of(later, 0) == [(0.0, OFF), (60.0, STARTING), (120.0, OFF)]


def test_a_cold_start_holds_for_machines_that_are_there_at_the_beginning() -> None:
    found = preemptions(zones([1, 1]), [3], 0.0, MINUTE_S, SpotStart(20.0, is_cold=True))
    assert of(found, 3) == [(0.0, STARTING), (20.0, READY)]


def test_replicas_fill_the_machines_of_their_zones_in_turn_and_the_trace_begins_anew() -> None:
    """Zone a has two machines and loses one of them, zone b has one throughout: the third replica is lost."""
    found = preemptions(zones([2, 1], [1, 1]), [0, 1, 2], 0.0, 3 * MINUTE_S, SpotStart(0.0))
    assert {change.replica for change in found} == {2}
    assert [state for _, state in of(found, 2)] == [OFF, STARTING, READY, OFF]
    assert [change.time_s for change in found] == sorted(change.time_s for change in found)


@pytest.mark.parametrize("notice_s", [0.0, 15.0])
def test_replicas_are_lost_where_their_zone_is_and_nowhere_else(notice_s: float) -> None:
    rng = np.random.default_rng(5)
    seen = Availability(MINUTE_S, ("a", "b"), rng.integers(0, 4, (2, 200)))
    found = preemptions(seen, range(6), 0.0, 199 * MINUTE_S, SpotStart(10.0, notice_s))
    for replica in range(6):
        there = seen.nodes[replica % 2] > replica // 2
        losses = [time_s for time_s, state in of(found, replica) if state == OFF and time_s > 0]
        assert losses == [(i + 1) * MINUTE_S for i in np.flatnonzero(there[:-1] & ~there[1:])]


def test_replicas_of_a_play_come_in_order_and_the_last_one_goes_first() -> None:
    found = scaled(np.array([1, 3, 3, 2, 0]), 15.0)
    assert [(c.time_s, c.replica, c.state) for c in found] == [
        (15.0, 1, READY), (15.0, 2, READY), (45.0, 2, DRAINING), (60.0, 0, DRAINING), (60.0, 1, DRAINING),
    ]  # fmt: skip
