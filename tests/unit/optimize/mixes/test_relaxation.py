"""Mixes of two machine types by hand: what no mix costs less than, which rows hold, how units share buckets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Loss, MachineLimit, MixProblem, Share
from gpufleet.optimize.mixes.balance import balanced, even_split, mix_of, with_all_busy
from gpufleet.optimize.mixes.greedy import keeps_all
from gpufleet.optimize.mixes.relaxation import (
    cheapest_units,
    ratio_rows,
    relaxation,
    share_rows,
    upper_rows,
)
from gpufleet.optimize.mixes.search import excess, with_tolerance
from gpufleet.optimize.mixes.survival import (
    Survival,
    carrying_worth,
    every_pair,
    failure,
    failures,
    lost_first,
    usd_per_unit,
)

LOAD: FloatArray = np.array([[6.0, 2.0], [math.inf, 3.0]])
"""Small machines carry short requests alone, large ones both."""
DOLLARS = np.array([1.0, 4.0])


def mixed(**words: object) -> MixProblem:
    return replace(MixProblem.of_types(LOAD, DOLLARS, np.full(2, np.inf)), **words)


# --- as if units could be cut ---


def test_each_bucket_is_at_its_cheapest_way_whatever_can_be_had() -> None:
    none_had = mixed(most_machines=np.zeros(2))
    assert cheapest_units(none_had).tolist() == [6.0, 3.0]
    dear = mixed(usd_per_hour=np.array([2.0, 4.0]))
    assert cheapest_units(dear).tolist() == [0.0, 5.0]


def test_units_of_which_a_machine_holds_two_cost_half_of_it() -> None:
    assert usd_per_unit(mixed(machines_per_unit=np.array([0.5, 2.0]))).tolist() == [0.5, 8.0]
    swapped = mixed(offer_of_way=np.array([1, 0]))
    assert usd_per_unit(swapped).tolist() == [4.0, 1.0]


def test_no_mix_costs_less_than_its_buckets_at_their_cheapest_ways_or_beside_a_quota() -> None:
    """Four small machines are had: the other third of the short requests takes two thirds of a large one."""
    found, short = relaxation(mixed()), relaxation(mixed(most_machines=np.array([4.0, np.inf])))
    assert found is not None
    assert short is not None
    assert (found.units.tolist(), found.usd_per_hour) == ([6.0, 3.0], pytest.approx(18.0))
    assert short.units == pytest.approx([4.0, 3 + 2 / 3])
    assert short.usd_per_hour == pytest.approx(4 + 4 * (3 + 2 / 3))


def test_there_is_no_mix_where_a_bucket_goes_nowhere_or_a_quota_is_too_small() -> None:
    assert relaxation(mixed(load_units=np.where(np.isinf(LOAD) | (LOAD == 3.0), np.inf, LOAD))) is None
    assert relaxation(mixed(most_machines=np.array([np.inf, 2.9]))) is None
    assert relaxation(mixed(most_machines=np.array([np.inf, 3.0]))) is not None


def test_limits_from_above_are_rows_of_units_and_others_are_ratios() -> None:
    above = MachineLimit("budget", np.array([1.0, 4.0]), 20.0)
    credit = MachineLimit("credit", np.array([1.0, -1.0]), 3.0, 1.0)
    below = MachineLimit("fill", np.array([1.0, 1.0]), least=2.0)
    problem = mixed(
        most_machines=np.array([np.inf, 7.0]), limits=(above, credit, below), machines_per_unit=np.array([0.5, 1.0])
    )
    rows, room = upper_rows(problem)
    assert (rows.tolist(), room.tolist()) == ([[0.0, 1.0], [0.5, 4.0]], [7.0, 20.0])
    assert [(row.tolist(), end) for row, end in ratio_rows(problem)] == [
        ([1.0, -1.0], 3.0), ([-1.0, 1.0], -1.0), ([-1.0, -1.0], -2.0)
    ]  # fmt: skip


def test_a_share_may_miss_by_its_tolerance_on_either_side() -> None:
    """A quarter of the cost, give or take a tenth of it: of $10 more than $3.5 or less than $1.5 is too much."""
    share = Share("first", np.array([True, False]), DOLLARS, 0.25, 0.1)
    more, less = share_rows(share)
    assert [float(more @ n) for n in np.array([[3.5, 1.625], [4.0, 1.5]])] == pytest.approx([0.0, 0.5])
    assert [float(less @ n) for n in np.array([[1.5, 2.125], [1.0, 2.25]])] == pytest.approx([0.0, 0.5])
    exact = share_rows(replace(share, tolerance_ratio=None))
    assert exact[0] == pytest.approx(-exact[1])
    wider = with_tolerance(mixed(shares=(share, replace(share, name="again"))), 0.5)
    assert [each.tolerance_ratio for each in wider.shares] == [0.5, 0.5]


def test_what_is_broken_is_told_by_name_and_by_how_much() -> None:
    problem = mixed(
        most_machines=np.array([2.0, np.inf]),
        limits=(MachineLimit("budget", DOLLARS, 10.0), MachineLimit("kept", DOLLARS, 99.0)),
        shares=(Share("first", np.array([True, False]), DOLLARS, 0.25, 0.1),),
    )
    assert excess(problem, np.array([3.0, 2.0])) == pytest.approx({"machines 0": 1.0, "budget": 1.0})
    assert excess(problem, np.array([2.0, 0.0])) == pytest.approx({"first": 2 * 0.75 - 0.2})
    assert excess(problem, np.array([2.0, 2.0])) == {}


# --- what carries all buckets ---


def test_carrying_is_worth_each_bucket_at_its_cheapest_way() -> None:
    assert carrying_worth(LOAD, np.array([1.0, 4.0])) == 6 + 12
    assert carrying_worth(LOAD, np.array([1.0, 2.0])) == 4 + 6


def test_units_of_the_highest_price_fail_first_as_many_as_there_are() -> None:
    units = np.array([3.0, 1.0, 5.0])
    assert lost_first(units, np.array([1.0, 3.0, 2.0]), 4).tolist() == [0.0, 1.0, 3.0]
    assert lost_first(units, np.array([2.0, 2.0, 1.0]), 2).tolist() == [2.0, 0.0, 0.0]
    assert lost_first(units, np.ones((1, 3)), 99).tolist() == [units.tolist()]
    two = lost_first(np.vstack([units, units * 0 + 1]), np.array([1.0, 3.0, 2.0]), 2)
    assert two.tolist() == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    each = lost_first(units, np.array([[1.0, 3.0, 2.0], [3.0, 2.0, 1.0]]), 2)
    assert each.tolist() == [[0.0, 1.0, 1.0], [2.0, 0.0, 0.0]]


def test_every_choice_of_failing_units_is_tried_and_none_of_what_is_not_there() -> None:
    lost = [loss.lost_units.tolist() for loss in failures(np.array([2.0, 0.0, 1.0]), 2)]
    assert lost == [[2.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    assert [x.lost_units.tolist() for x in failures(np.array([1.0, 0.0]), 2)] == [[1.0, 0.0]]
    assert list(failures(np.zeros(2), 2)) == list(failures(np.ones(2), 0)) == []
    assert failure(np.array([2.0, 0.0, 1.0])).name == "machines: 2 of 0, 1 of 2"


def test_a_service_looks_at_the_ways_that_carry_one_of_its_buckets() -> None:
    two = mixed(
        load_units=np.array([[6.0, 2.0, np.inf], [np.inf, np.inf, 3.0]]),
        service_of_bucket=np.array([0, 1]),
        service_of_way=np.array([0, 1, 1]),
        offer_of_way=np.array([0, 1, 1]),
        replicas_per_unit=np.ones(3),
        machines_per_unit=np.ones(3),
        least_replicas=np.zeros(2),
    )
    assert [Survival(two, [s]).ways.tolist() for s in (0, 1)] == [[0], [2]]
    assert Survival(two, [0]).is_plain
    assert not Survival(replace(two, spare_machines=1), [0]).is_plain
    assert not Survival(replace(two, losses=(Loss("half", np.full(3, 0.5), np.zeros(3)),)), [0]).is_plain


def test_what_units_miss_is_known_afterwards_with_and_without_losses() -> None:
    """Units as busy as 1.5 times all they can be are a third short; the worth that says so is found once."""
    test = Survival(mixed(), [0])
    worth = test.missed(np.array([4.0, 2.0]))
    assert worth is not None
    assert float(worth.price @ np.array([4.0, 2.0])) < worth.needed <= float(worth.price @ np.array([6.0, 3.0])) + 1e-9
    assert test.least_busy(np.array([4.0, 2.0])) == pytest.approx(1.5)
    assert len(test.needed) == 1
    assert test.missed(np.array([4.0, 2.0])) is not None
    assert len(test.needed) == 1
    assert test.missed(np.array([6.0, 3.0])) is None
    assert test.misses(np.array([[4.0, 2.0], [6.0, 3.0]])).tolist() == [True, False]
    assert test.misses(np.array([[4.0, 2.0]]), since=1).tolist() == [False]
    assert [loss.name for loss, _ in test.known_missed(np.array([4.0, 2.0]))] == ["nothing"]
    fearful = mixed(losses=(Loss("half", np.full(2, 0.5), np.zeros(2)),), spare_machines=1)
    feared = Survival(fearful, [0])
    feared.learn_from(test)
    names = [loss.name for loss, _ in feared.known_missed(np.array([7.0, 4.0]))]
    assert names == ["half"]
    assert feared.misses(np.array([[7.0, 4.0], [12.0, 6.0]])).tolist() == [True, False]
    assert [loss.name for loss, _ in feared.known_missed(np.array([12.0, 6.0]))] == []
    failing = Survival(mixed(spare_machines=1), [0])
    failing.learn_from(test)
    assert [loss.name for loss, _ in failing.known_missed(np.array([6.0, 3.0]))] == ["machines: 1 of 1"]
    assert [loss.name for loss, _ in failing.known_missed(np.array([6.0, 4.0]))] == []
    pairs = [loss.name for loss, _ in every_pair(fearful, [feared])]
    assert pairs == ["machines: ", "half", "machines: 1 of 0", "machines: 1 of 1"]


def test_of_known_worths_one_that_is_missed_is_told_and_the_one_that_is_missed_by_most() -> None:
    """Six of the first way and three of the second are needed."""
    test = Survival(mixed(), [0])
    test.price, test.needed = np.eye(2), np.array([6.0, 3.0])
    for left, way in (((6.0, 2.0), 1), ((5.0, 3.0), 0), ((5.0, 2.0), 1), ((3.0, 2.0), 0)):
        worth = test.missed(np.array(left))
        assert worth is not None
        assert worth.price.tolist() == np.eye(2)[way].tolist(), left


# --- how units share them ---


def test_units_share_buckets_so_that_the_busiest_is_least_busy() -> None:
    """Twice the units of the cheapest mix may all be half busy."""
    units = np.array([12.0, 6.0])
    share = even_split(Survival(mixed(), [0]), units)
    assert share == pytest.approx(np.array([[1.0, 0.0], [0.0, 1.0]]), abs=1e-3)
    busy = mixed().used_units(share) / units
    assert busy == pytest.approx([0.5, 0.5], abs=1e-3)
    leaving = mixed(machines_today=np.array([0.0, 8.0]), leaving_usd_per_hour=DOLLARS / 4)
    mix = mix_of(leaving, units, units, least_usd_per_hour=99.0)
    assert mix.usd_per_hour == mix.least_usd_per_hour == 12 + 24 + 2
    assert mix_of(leaving, units, units).least_usd_per_hour == 0, "nothing is proved"
    assert balanced(mixed(), replace(mix, units=np.array([0.0, 6.0]))).share.tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_a_way_that_was_sent_nothing_takes_a_part_of_the_largest_bucket_where_that_costs_no_more() -> None:
    share = np.array([[0.0, 1.0], [0.0, 1.0]])
    units = np.array([3.0, 6.0])
    assert with_all_busy(mixed(), units, share) == pytest.approx(np.array([[1 / 3, 2 / 3], [0.0, 1.0]]))
    dear = mixed(sending_usd_per_hour=np.array([[0.2, 0.1], [0.0, 0.0]]))
    assert with_all_busy(dear, units, share).tolist() == share.tolist()
    assert with_all_busy(mixed(), np.array([0.0, 6.0]), share).tolist() == share.tolist()
    alike = mixed(load_units=np.array([[6.0, 2.0], [6.0, 3.0]]))
    assert with_all_busy(alike, units, share)[:, 0] == pytest.approx([0.0, 1 / 3])


def test_units_keep_all_where_limits_hold_and_each_service_has_its_replicas() -> None:
    problem = mixed(replicas_per_unit=np.array([2.0, 1.0]), least_replicas=np.array([5.0]))
    assert keeps_all(problem, np.array([2.0, 1.0]))
    assert not keeps_all(problem, np.array([2.0, 0.0]))
    assert not keeps_all(replace(problem, most_machines=np.array([1.0, 1.0])), np.array([2.0, 1.0]))
