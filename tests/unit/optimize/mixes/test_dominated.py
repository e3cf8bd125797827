"""An offer that another beats in everything costs search time alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpufleet.domain.mix import Loss, MachineLimit, MixProblem, Share
from gpufleet.optimize.mixes.dominated import beaten_offers, without_beaten


def three_types() -> MixProblem:
    """Two buckets: the second type is the first at a higher price, the third carries one bucket cheaper."""
    load = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, math.inf]])
    return MixProblem.of_types(load, np.array([2.0, 3.0, 1.0]), np.full(3, math.inf))


def test_a_dearer_offer_that_carries_no_more_is_beaten_and_one_that_is_better_at_something_stays() -> None:
    assert list(beaten_offers(three_types())) == [False, True, False]
    assert not np.isfinite(without_beaten(three_types()).load_units[:, 1]).any()


def test_an_offer_of_which_only_some_can_be_had_beats_nothing() -> None:
    scarce = replace(three_types(), most_machines=np.array([5.0, math.inf, math.inf]))
    assert not beaten_offers(scarce).any()


def test_an_offer_that_takes_more_of_a_quota_beats_nothing() -> None:
    quota = MachineLimit("H100", np.array([8.0, 0.0, 0.0]), 16.0)
    assert not beaten_offers(replace(three_types(), limits=(quota,))).any()
    both = MachineLimit("H100", np.array([8.0, 8.0, 0.0]), 16.0)
    assert list(beaten_offers(replace(three_types(), limits=(both,)))) == [False, True, False]


def test_an_offer_in_a_region_of_its_own_is_needed_when_a_region_may_be_lost() -> None:
    lost = tuple(Loss(f"region {o}", np.eye(3)[o], np.zeros(3)) for o in range(3))
    assert not beaten_offers(replace(three_types(), losses=lost)).any()


def test_clouds_with_shares_may_need_what_is_dear() -> None:
    share = Share("aws", np.array([False, True, False]), np.ones(3), 0.5)
    assert not beaten_offers(replace(three_types(), shares=(share,))).any()


def test_a_machine_that_is_costly_to_leave_stays_in_the_search() -> None:
    today = replace(three_types(), machines_today=np.array([0.0, 2.0, 0.0]), leaving_usd_per_hour=np.ones(3))
    assert not beaten_offers(today).any()


def test_of_two_equal_offers_one_stays() -> None:
    load = np.ones((1, 2))
    twins = MixProblem.of_types(load, np.array([2.0, 2.0]), np.full(2, math.inf))
    assert beaten_offers(twins).sum() == 1


def offers_with_ways(*ways_of_second: list[float]) -> MixProblem:
    """Two buckets; the first offer has a way for each of them, the second costs less and has these: [way, bucket]."""
    ways = [[1.0, math.inf], [math.inf, 1.0], *ways_of_second]
    one, none = np.ones(len(ways)), np.zeros(2)
    return replace(
        MixProblem.of_types(np.array(ways).T, one, one),
        offer_of_way=np.array([0, 0] + [1] * len(ways_of_second)), usd_per_hour=np.array([2.0, 1.0]),
        most_machines=np.full(2, math.inf), machines_today=none, leaving_usd_per_hour=none,
    )  # fmt: skip


def test_every_way_of_an_offer_needs_one_of_the_other_that_carries_as_much() -> None:
    apart = [1.0, math.inf], [math.inf, 0.5]
    assert list(beaten_offers(offers_with_ways(*apart))) == [True, False]
    assert list(beaten_offers(offers_with_ways(*apart, [9.0, 9.0]))) == [True, False], "one more way does no harm"
    assert not beaten_offers(offers_with_ways(apart[0])).any()
    assert not beaten_offers(offers_with_ways(apart[0], [math.inf, 1.5])).any()


def test_a_way_of_one_service_stands_in_for_none_of_another() -> None:
    apart = replace(offers_with_ways([1.0, math.inf], [math.inf, 0.5]), service_of_bucket=np.array([0, 1]))
    both = replace(apart, service_of_way=np.array([0, 1, 0, 1]), least_replicas=np.zeros(2))
    assert list(beaten_offers(both)) == [True, False]
    swapped = replace(both, service_of_way=np.array([0, 0, 1, 1]))
    assert not beaten_offers(swapped).any()


def test_an_offer_beats_one_that_does_as_much_of_what_there_has_to_be_and_none_that_does_more() -> None:
    of_each = {1.0: [False, True, False], 2.0: [False, True, False], 0.5: [False, False, False]}
    for first, beaten in of_each.items():
        asked = MachineLimit("on demand", np.array([first, 1.0, 0.0]), least=3.0)
        assert list(beaten_offers(replace(three_types(), limits=(asked,)))) == beaten
    unasked = MachineLimit("anything", np.array([0.5, 1.0, 0.0]))
    assert list(beaten_offers(replace(three_types(), limits=(unasked,)))) == [False, True, False]


def test_an_offer_beats_one_that_is_lost_as_often_and_none_that_is_lost_less() -> None:
    for first, beaten in ((0.5, True), (0.25, True), (0.75, False)):
        often, none = np.array([first, 0.5, 0.5]), np.zeros(3)
        for lost in (Loss("a zone", often, none), Loss("machines", none, 4 * often)):
            assert beaten_offers(replace(three_types(), losses=(lost,)))[1] == beaten
