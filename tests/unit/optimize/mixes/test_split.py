"""Buckets split over units: what fits is split, and what does not is proved not to."""

from __future__ import annotations

import numpy as np
import pytest
from tests.properties.mix_checker import carries
from tests.properties.random_mixes import random_mix

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import MixProblem
from gpufleet.optimize.mixes.split import Split
from gpufleet.optimize.mixes.survival import carrying_worth, failures, lost_first

CHEAP_TYPE, DEAR_TYPE = 0, 1
LOAD = np.array([[1.0, 0.5], [2.0, 4.0], [1.0, 1.0]])


def split(load: FloatArray = LOAD) -> Split:
    return Split(load, np.ones(load.shape[1]), np.eye(load.shape[1]))


def test_every_bucket_goes_where_it_is_cheapest_while_there_is_room() -> None:
    plain = split()
    assert plain.fits(np.array([10.0, 10.0]))
    np.testing.assert_array_equal(np.argmax(plain.share(np.array([10.0, 10.0])), axis=1)[:2], [DEAR_TYPE, CHEAP_TYPE])


def test_what_has_no_room_moves_where_it_costs_least_more() -> None:
    """Two units of the second bucket fill the first type; the third bucket goes to the second type."""
    plain, room = split(), np.array([2.0, 1.5])
    assert plain.fits(room)
    np.testing.assert_allclose(plain.share(room), [[0, 1], [1, 0], [0, 1]], atol=1e-9)


def test_prices_prove_that_buckets_do_not_fit() -> None:
    plain, room = split(), np.array([2.0, 1.4])
    assert not plain.fits(room)
    assert plain.is_proved
    assert carrying_worth(LOAD, plain.price) > plain.price @ room


@pytest.mark.parametrize("seed", range(12))
def test_a_split_says_what_a_linear_programme_says(seed: int) -> None:
    """Room after room on the same split, which begins each where it stopped before."""
    problem, rng = random_mix(seed), np.random.default_rng(seed)
    plain = split(problem.load_units)
    plenty = np.sum(np.where(np.isfinite(problem.load_units), problem.load_units, 0.0), axis=0)
    for _ in range(12):
        room = plenty * rng.uniform(0.1, 0.9, problem.num_ways)
        assert plain.fits(room) == carries(problem, room.tolist())
        if plain.is_proved:
            assert carrying_worth(problem.load_units, plain.price) > plain.price @ room * (1 - 1e-9)
        else:
            share = plain.share(room)
            np.testing.assert_allclose(share.sum(axis=1), 1.0)
            assert np.all(problem.used_units(share) <= room + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_prices_of_room_say_what_a_split_costs(seed: int) -> None:
    """Strong duality, in rooms that hold little more: what buckets cost is their worth less that of the room."""
    rng = np.random.default_rng(seed)
    load, cost = rng.lognormal(0.0, 0.8, (30, 6)), rng.uniform(1.0, 5.0, 6)
    plain, num_held = Split(load, cost, np.eye(6)), 0
    for _ in range(6):
        room = load.sum(axis=0) * rng.uniform(0.02, 0.2, 6)
        if plain.fits(room):
            price, num_held = plain.prices(), num_held + 1
            worth = carrying_worth(load, cost + price) - float(price @ room)
            assert float(cost @ np.sum(load * plain.share(room), axis=0)) == pytest.approx(worth, rel=1e-5)
    assert num_held


def test_no_cheaper_way_is_given_up_than_has_to_be() -> None:
    """Types that are alike but for their price: the cheap one is full before the dear one is used."""
    load = np.repeat(np.array([[1.0], [0.7], [0.4]]), 2, axis=1)
    alike = Split(load, np.array([1.0, 3.0]), np.eye(2))
    room = np.array([1.5, 10.0])
    assert alike.fits(room)
    np.testing.assert_allclose(load[:, 0] @ alike.share(room), [1.5, 0.6])


def test_machines_that_fail_are_those_worth_most_and_no_more_than_there_are() -> None:
    price = np.array([1.0, 3.0, 2.0])
    np.testing.assert_array_equal(lost_first(np.array([[5.0, 1.0, 0.0]]), price, 2), [[1, 1, 0]])
    np.testing.assert_array_equal(lost_first(np.array([0.0, 1.0, 0.0]), np.array([price, -price]), 2), [[0, 1, 0]] * 2)


def test_a_fleet_of_fewer_machines_than_may_fail_loses_all() -> None:
    lost = [loss.lost_units.tolist() for loss in failures(np.array([1.0, 0.0]), 2)]
    assert lost == [[1.0, 0.0]]


def test_a_problem_of_the_literature_has_one_service_and_whole_machines() -> None:
    problem = MixProblem.of_types(LOAD, np.array([1.0, 2.0]), np.array([np.inf, 3.0]))
    assert (problem.num_buckets, problem.num_ways, problem.num_offers) == (3, 2, 2)
    np.testing.assert_array_equal(problem.machines_of(np.array([0.0, 2.0])), [0, 2])
