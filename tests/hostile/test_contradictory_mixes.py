"""Mixes that cannot be, that have no time, or no solver: who has to give way, and what is there at once."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.properties.mix_checker import violations
from tests.properties.random_mixes import random_mix

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Loss, MachineLimit, MixProblem, Share
from gpufleet.optimize.mixes import program
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.greedy import greedy_mix
from gpufleet.optimize.mixes.search import least_relaxation, solve_mix

SMALL, LARGE = 0, 1


def mixed(**words: object) -> MixProblem:
    """Two types: small machines at $1 carry short requests, large ones at $4 carry both."""
    load: FloatArray = np.array([[6.0, 2.0], [math.inf, 3.0]])
    return replace(MixProblem.of_types(load, np.array([1.0, 4.0]), np.full(2, np.inf)), **words)


def budget(usd: float) -> MachineLimit:
    return MachineLimit("budget", np.array([1.0, 4.0]), usd)


def test_a_budget_that_is_too_small_is_named_with_what_is_missing() -> None:
    """The cheapest mix is six small and three large machines, 18 dollars an hour; large ones alone cost 20."""
    problem = mixed(limits=(budget(15.0),))
    assert solve_mix(problem, Effort()) is None
    assert greedy_mix(problem) is None
    relaxed = least_relaxation(problem, Effort())
    assert relaxed is not None
    assert relaxed.excess == pytest.approx({"budget": 3.0})


def test_of_a_budget_and_a_quota_that_contradict_the_nearer_gives_way() -> None:
    """Three large machines may be had, so half a dollar is missing; without a budget it is the quota."""
    problem = mixed(limits=(budget(17.5),), most_machines=np.array([np.inf, 3.0]))
    relaxed = least_relaxation(problem, Effort())
    assert relaxed is not None
    assert relaxed.excess == pytest.approx({"budget": 0.5})
    none_of_it = least_relaxation(mixed(most_machines=np.array([np.inf, 0.0])), Effort())
    assert none_of_it is not None
    assert none_of_it.excess == pytest.approx({f"machines {LARGE}": 3.0})


def test_what_has_to_give_way_for_a_mix_that_survives_is_enough_for_it() -> None:
    problem = mixed(most_machines=np.array([np.inf, 3.0]), spare_machines=1)
    relaxed = least_relaxation(problem, Effort())
    assert relaxed is not None
    assert relaxed.excess == pytest.approx({f"machines {LARGE}": 1.0})
    enough = replace(problem, most_machines=np.array([np.inf, 4.0]))
    assert violations(enough, relaxed.mix) == []
    assert solve_mix(enough, Effort()) is not None


def test_the_mix_of_a_relaxation_is_the_cheapest_of_those_that_give_way_so_little() -> None:
    relaxed = least_relaxation(mixed(most_machines=np.array([np.inf, 2.0])), Effort())
    assert relaxed is not None
    assert relaxed.mix.usd_per_hour == pytest.approx(18.0)


def test_requests_that_nobody_carries_are_no_fault_of_a_limit() -> None:
    problem = replace(mixed(), load_units=np.array([[1.0, 1.0], [math.inf, math.inf]]))
    assert solve_mix(problem, Effort()) is None
    assert greedy_mix(problem) is None
    assert least_relaxation(problem, Effort()) is None


@pytest.mark.parametrize("ratio", [-0.1, 1.2, math.nan])
def test_a_share_over_the_whole_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Share("a cloud", np.array([True, False]), np.ones(2), ratio)


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 8, 9])
def test_without_time_the_answer_is_that_at_once_with_a_bound(seed: int) -> None:
    problem = random_mix(seed)
    mix, at_once = solve_mix(problem, Effort.of_seconds(0.0, float)), greedy_mix(problem)
    assert mix is not None
    assert at_once is not None
    assert mix.usd_per_hour == at_once.usd_per_hour
    assert 0 < mix.least_usd_per_hour <= mix.usd_per_hour
    assert violations(problem, mix) == []


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 8, 9])
def test_without_the_solver_the_answer_is_that_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_mix(seed)
    best = solve_mix(problem, Effort())
    monkeypatch.setattr(
        program, "find_spec", lambda name: None if name == "ortools" else importlib.util.find_spec(name)
    )
    monkeypatch.delattr(program.Program, "__init__")
    mix = solve_mix(problem, Effort())
    assert best is not None
    assert mix is not None
    assert mix.is_greedy
    assert not best.is_greedy
    assert mix.usd_per_hour >= best.usd_per_hour - 1e-6
    assert mix.least_usd_per_hour <= best.usd_per_hour + 1e-6
    assert violations(problem, mix) == []


def test_a_loss_of_everything_leaves_no_mix() -> None:
    everything = Loss("all regions", np.ones(2), np.zeros(2))
    problem = mixed(losses=(everything,))
    assert solve_mix(problem, Effort()) is None
    assert greedy_mix(problem) is None


def test_more_machines_may_fail_than_are_needed() -> None:
    """Three large machines carry the long requests, so six are bought, and of the small ones none."""
    mix = solve_mix(mixed(spare_machines=3), Effort())
    assert mix is not None
    assert violations(mixed(spare_machines=3), mix) == []
    assert mix.machines[LARGE] >= 6


@pytest.mark.parametrize("less", ["a machine", "a share", "a dollar"])
def test_what_checks_mixes_finds_what_is_missing(less: str) -> None:
    problem = mixed()
    mix = solve_mix(problem, Effort())
    assert mix is not None
    assert violations(problem, mix) == []
    if less == "a machine":
        mix = replace(mix, machines=mix.machines - [0, 1], units=mix.units - [0, 1])
    elif less == "a share":
        mix = replace(mix, share=mix.share * 0.9)
    else:
        mix = replace(mix, usd_per_hour=mix.usd_per_hour - 1)
    assert violations(problem, mix)
