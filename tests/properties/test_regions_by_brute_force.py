"""The programme against every subset of regions and every number of machines there, tried one by one.

Each region sells one machine type. Users are in one to three places; where a region is too far for some, it serves
none of them. Whether machines carry all users is told by Hall's condition: for each set of places, the regions that
serve any of them have room for all of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
import pytest

from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.mix import Loss, MixProblem
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.search import solve_mix

CASES, MOST_MACHINES, FULL = 100, 5, 1e-9


class Case(NamedTuple):
    """Requests of each place, what a machine of each region serves, who is near enough, prices, and how many there are.

    `demand`: [place]. `capacity`, `usd`, `sending_usd`, `most`: [region]. `is_near`: [place, region].
    """

    demand: FloatArray
    capacity: FloatArray
    is_near: BoolArray
    usd: FloatArray
    sending_usd: FloatArray
    most: FloatArray
    survives_region: bool


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    regions, places = int(rng.integers(3, 13)), int(rng.integers(2, 4))
    is_near = rng.random((places, regions)) < 0.6
    for place in range(places):
        is_near[place, rng.choice(regions, 2, replace=False)] = True
    return Case(
        rng.uniform(0.3, 1.0, places),
        rng.uniform(0.8, 2.5, regions),
        is_near,
        rng.uniform(1.0, 6.0, regions).round(2),
        np.zeros(regions),
        np.where(rng.random(regions) < 0.3, rng.integers(0, 3, regions), math.inf),
        seed % 2 == 1,
    )


def problem_of(case: Case) -> MixProblem:
    loads = np.where(case.is_near, case.demand[:, None] / case.capacity[None, :], math.inf)
    found = MixProblem.of_types(loads, case.usd, case.most)
    each, none = np.eye(len(case.usd)), np.zeros(len(case.usd))
    losses = tuple(Loss(f"region {r}", row, none) for r, row in enumerate(each)) if case.survives_region else ()
    sending = np.tile(case.sending_usd, (len(case.demand), 1)) if case.sending_usd.any() else None
    return replace(found, losses=losses, sending_usd_per_hour=sending)


def every_choice(regions: int) -> FloatArray:
    """Every number of machines in every subset of regions, up to so many in all, [choice, region]."""
    chosen = chain.from_iterable(combinations_with_replacement(range(regions), n) for n in range(1, MOST_MACHINES + 1))
    return np.array([np.bincount(choice, minlength=regions) for choice in chosen], dtype=np.float64)


def carries_all(case: Case, machines: FloatArray) -> BoolArray:
    """Whether machines carry the users of all places, by Hall's condition, [choice]."""
    places = range(len(case.demand))
    carried = np.ones(len(machines), dtype=np.bool_)
    for some in chain.from_iterable(combinations(places, n) for n in range(1, len(places) + 1)):
        room = machines @ (case.capacity * case.is_near[list(some)].any(axis=0))
        carried &= room >= case.demand[list(some)].sum() - FULL
    return carried


def brute_force_usd(case: Case) -> float:
    """What the cheapest choice costs an hour; infinite where none of so few machines does."""
    machines = every_choice(len(case.usd))
    holds = np.all(machines <= case.most, axis=1)
    if case.survives_region:
        for region in range(len(case.usd)):
            holds &= carries_all(case, np.where(np.arange(len(case.usd)) == region, 0.0, machines))
    else:
        holds &= carries_all(case, machines)
    return float(np.min(machines[holds] @ case.usd, initial=math.inf))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, 20))
def test_the_programme_finds_what_trying_everything_finds(first: int) -> None:
    for seed in range(first, first + 20):
        case = random_case(seed)
        mix, usd = solve_mix(problem_of(case), Effort()), brute_force_usd(case)
        found_usd = math.inf if mix is None else mix.usd_per_hour
        assert found_usd == pytest.approx(usd), seed
        assert mix is None or mix.gap_ratio < 1e-5, seed


@pytest.mark.parametrize("seed", range(20))
def test_with_a_price_of_sending_one_place_goes_where_all_together_is_least(seed: int) -> None:
    """One place: requests fill the machines from which sending is cheapest first."""
    rng = np.random.default_rng(seed)
    regions = int(rng.integers(3, 10))
    ones = np.ones((1, regions), dtype=np.bool_)
    case = Case(
        np.array([2.0]), rng.uniform(0.8, 2.5, regions), ones, rng.uniform(1.0, 6.0, regions),
        rng.uniform(0.0, 3.0, regions), np.full(regions, math.inf), False,
    )  # fmt: skip
    machines = every_choice(regions)
    machines = machines[carries_all(case, machines)]
    order = np.argsort(case.sending_usd)
    filled = np.minimum(np.cumsum((machines * case.capacity)[:, order], axis=1), case.demand[0])
    sent = np.diff(filled, axis=1, prepend=0.0) / case.demand[0] @ case.sending_usd[order]
    mix = solve_mix(problem_of(case), Effort())
    assert mix is not None
    assert mix.usd_per_hour == pytest.approx(float(np.min(machines @ case.usd + sent)), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_more_regions_a_longer_limit_and_cheaper_prices_never_cost_more(seed: int) -> None:
    case, rng = random_case(seed), np.random.default_rng(seed)
    before = solve_mix(problem_of(case), Effort())
    longer = case._replace(is_near=case.is_near | (rng.random(case.is_near.shape) < 0.3), capacity=case.capacity * 1.1)
    cheaper = case._replace(usd=case.usd * rng.uniform(0.7, 1.0, len(case.usd)))
    more = case._replace(
        **{name: np.append(getattr(case, name), end) for name, end in
           (("capacity", 2.0), ("usd", 1.5), ("sending_usd", 0.0), ("most", 1.0))},
        is_near=np.hstack([case.is_near, np.ones((len(case.demand), 1), dtype=np.bool_)]),
    )  # fmt: skip
    for changed in (longer, cheaper, more):
        after = solve_mix(problem_of(changed), Effort())
        if before is not None:
            assert after is not None
            assert after.usd_per_hour <= before.usd_per_hour * (1 + 1e-5)
