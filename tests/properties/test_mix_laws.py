"""Laws of the cheapest mix: it keeps everything, nothing is cheaper, and whoever may do more pays no more."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from tests.properties.mix_checker import cheapest_usd, violations
from tests.properties.random_mixes import random_mix

from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.mix import Loss, MachineLimit, Mix, MixProblem, Share
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.greedy import greedy_mix
from gpufleet.optimize.mixes.search import solve_mix

PROVED, MOST_UNITS = 3e-6, 7
GROUPS, GROUP = range(10), 12
WITH_A_MIX = (0, 1, 2, 5, 8, 9, 12, 15, 16, 17)
TINY = tuple(seed for seed in range(80) if random_mix(seed).num_ways <= 3)


def solved(problem: MixProblem) -> Mix | None:
    return solve_mix(problem, Effort())


def proved_usd(problem: MixProblem) -> float:
    """What the cheapest mix costs, proved; infinite where there is none."""
    mix = solved(problem)
    if mix is None:
        return math.inf
    assert mix.gap_ratio < PROVED
    return mix.usd_per_hour


def runs_something_everywhere(problem: MixProblem, mix: Mix) -> bool:
    """Whether every way that has units is sent requests and every offer that is rented holds units."""
    held = np.bincount(problem.offer_of_way, problem.machines_per_unit * mix.units, minlength=problem.num_offers)
    is_sent = mix.share.sum(axis=0) > 0
    return bool(np.all(is_sent[mix.units > 0]) and np.all(held[mix.machines > 0] > 0))


def is_no_dearer(problem: MixProblem, usd: float) -> bool:
    return proved_usd(problem) <= usd * (1 + PROVED)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_whatever_is_found_keeps_everything_and_is_proved(group: int) -> None:
    for seed in range(group * GROUP, (group + 1) * GROUP):
        problem = random_mix(seed)
        greedy, best = greedy_mix(problem), solved(problem)
        for mix in (greedy, best):
            assert mix is None or violations(problem, mix) == [], seed
        if best is None:
            assert greedy is None, seed
        else:
            assert best.gap_ratio < PROVED, seed
            assert runs_something_everywhere(problem, best), seed
            assert greedy is None or greedy.usd_per_hour >= best.usd_per_hour * (1 - PROVED), seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", TINY)
def test_nothing_is_cheaper_among_all_counts(seed: int) -> None:
    """Where a mix needs more units than are counted, it is cheaper than all that were."""
    problem = random_mix(seed)
    mix, counted = solved(problem), cheapest_usd(problem, MOST_UNITS)
    if mix is None:
        assert counted == math.inf
    elif np.all(mix.units <= MOST_UNITS):
        assert mix.usd_per_hour == pytest.approx(counted)
    else:
        assert mix.usd_per_hour < counted


@pytest.mark.slow
@pytest.mark.parametrize("seed", WITH_A_MIX)
def test_whoever_may_do_more_pays_no_more(seed: int) -> None:
    """Prices fall, a quota grows, a limit on latency is longer (loads are lower, and finite), a loss is not feared."""
    problem, rng = replace(random_mix(seed), shares=()), np.random.default_rng(seed)
    usd, way = proved_usd(problem), int(rng.integers(problem.num_ways))
    cheaper = problem.usd_per_hour * np.where(np.arange(problem.num_offers) == 0, 0.8, 1.0)
    own = problem.service_of_bucket == problem.service_of_way[way]
    load = problem.load_units.copy()
    load[own, way] = np.minimum(load[own, way] * 0.9, 1.1)
    assert is_no_dearer(replace(problem, usd_per_hour=cheaper), usd)
    assert is_no_dearer(replace(problem, most_machines=problem.most_machines + 1), usd)
    assert is_no_dearer(replace(problem, load_units=load), usd)
    assert is_no_dearer(replace(problem, losses=problem.losses[1:], spare_machines=0), usd)
    wider = tuple(replace(limit, most=limit.most + 1) for limit in problem.limits)
    assert is_no_dearer(replace(problem, limits=wider), usd)


@pytest.mark.slow
@pytest.mark.parametrize("seed", WITH_A_MIX[:6])
def test_an_offer_more_costs_no_more(seed: int) -> None:
    problem = replace(random_mix(seed), shares=(), limits=(), losses=())
    offers, ways = problem.num_offers, problem.num_ways
    dearer = replace(problem, most_machines=np.where(np.arange(offers) == 0, 0.0, problem.most_machines))
    assert ways > 1
    assert is_no_dearer(problem, proved_usd(dearer))


@pytest.mark.slow
@pytest.mark.parametrize("seed", WITH_A_MIX[:6])
def test_shares_of_a_hundred_and_none_are_one_cloud(seed: int) -> None:
    problem = replace(random_mix(seed), shares=())
    is_member = np.arange(problem.num_offers) == 0
    all_of_it = Share("a cloud", is_member, problem.usd_per_hour, 1.0, 0.0)
    none_of_it = Share("the rest", ~is_member, problem.usd_per_hour, 0.0, 0.0)
    alone = replace(problem, most_machines=np.where(is_member, problem.most_machines, 0.0))
    assert proved_usd(replace(problem, shares=(all_of_it, none_of_it))) == pytest.approx(proved_usd(alone))


@pytest.mark.parametrize("load", [0.02, 1.0, 3.0, 3.2, 41.7])
def test_one_bucket_and_one_type_are_so_many_machines_rounded_up(load: float) -> None:
    problem = MixProblem.of_types(np.array([[load]]), np.array([2.5]), np.array([np.inf]))
    for spare in (0, 2):
        mix = solved(replace(problem, spare_machines=spare))
        assert mix is not None
        assert mix.machines.tolist() == [math.ceil(load) + spare]


class Regions(NamedTuple):
    """Up to twelve offers of one machine each, of which an offer carries so much of all places that its region reaches.

    `is_in`: [region, offer]. `size`: [place]. `speed`: [offer]. `reaches`: [place, offer].
    """

    problem: MixProblem
    is_in: BoolArray
    size: FloatArray
    speed: FloatArray
    reaches: BoolArray


def in_regions(seed: int) -> Regions:
    """Up to four regions, any of which may be lost, and users in up to three places."""
    rng = np.random.default_rng([57, seed])
    offers, regions, places = int(rng.integers(5, 13)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    region = rng.permutation(np.arange(offers) % regions)
    reaches = (rng.random((places, regions)) < 0.8)[:, region]
    size, speed = rng.uniform(0.4, 1.8, places), rng.choice([1.0, 1.5, 2.0, 3.0], offers)
    load = np.where(reaches, size[:, None] / speed, np.inf)
    is_in = region == np.arange(regions)[:, None]
    losses = tuple(Loss(f"region {r}", row.astype(float), np.zeros(offers)) for r, row in enumerate(is_in))
    price = (speed * rng.uniform(0.8, 1.6, offers)).round(2)
    problem = replace(MixProblem.of_types(load, price, np.ones(offers)), losses=losses)
    return Regions(problem, is_in, size, speed, reaches)


def cheapest_subset(regions: Regions) -> float:
    """The cheapest of all subsets of offers that carries every place with any region lost.

    An offer's load differs from another's by its speed alone, so that all places are carried where every set of places
    is reached by enough (Hall's condition).
    """
    chosen: FloatArray = np.array(list(itertools.product([0.0, 1.0], repeat=len(regions.speed))))
    survives = np.ones(len(chosen), dtype=bool)
    for lost in regions.is_in:
        for places in range(1, 2 ** len(regions.size)):
            within = [b for b in range(len(regions.size)) if places >> b & 1]
            useful = regions.reaches[within].any(axis=0) & ~lost
            survives &= chosen @ (regions.speed * useful) >= regions.size[within].sum() * (1 - 1e-9)
    return float(np.min((chosen @ regions.problem.usd_per_hour)[survives], initial=np.inf))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(5))
def test_regions_are_chosen_as_by_trying_every_subset(group: int) -> None:
    usd = []
    for seed in range(group * 20, group * 20 + 20):
        regions = in_regions(seed)
        usd.append(cheapest_subset(regions))
        assert proved_usd(regions.problem) == pytest.approx(usd[-1]), seed
    assert np.isfinite(usd).sum() >= 5


def test_of_two_limits_the_one_that_binds_is_felt() -> None:
    problem = MixProblem.of_types(np.array([[4.0, 2.0]]), np.array([1.0, 3.0]), np.full(2, np.inf))
    at_most = MachineLimit("a quota", np.array([1.0, 0.0]), 2.0)
    assert proved_usd(problem) == pytest.approx(4.0)
    assert proved_usd(replace(problem, limits=(at_most,))) == pytest.approx(5.0)
