"""Answers that leave a region cost money: the programme counts it, and the split that it buys stays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.domain.mix import MixProblem
from gpufleet.optimize.mixes.dominated import beaten_offers
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.search import solve_mix
from gpufleet.optimize.mixes.sending import cheapest_split

ANY = np.array([math.inf, math.inf])


def problem(loads: list[list[float]], usd: list[float], sending: list[list[float]]) -> MixProblem:
    found = MixProblem.of_types(np.array(loads), np.array(usd), np.full(len(usd), math.inf))
    return replace(found, sending_usd_per_hour=np.array(sending))


def test_machines_that_are_dearer_win_where_sending_is_cheaper_by_more() -> None:
    cheap = problem([[1.0, 1.0]], [2.0, 2.5], [[0.4, 0.0]])
    dear = problem([[1.0, 1.0]], [2.0, 2.5], [[0.6, 0.0]])
    for asked, machines, usd in ((cheap, [1, 0], 2.4), (dear, [0, 1], 2.5)):
        mix = solve_mix(asked, Effort())
        assert mix is not None
        assert mix.machines.tolist() == machines
        assert mix.usd_per_hour == pytest.approx(usd)


def test_balancing_the_load_does_not_send_answers_the_dear_way() -> None:
    """Both ways have to be bought; the second has room for all of the bucket that is dear to send from the first."""
    asked = problem([[1.0, math.inf], [0.5, 0.5]], [1.0, 1.0], [[0.0, 0.0], [1.0, 0.0]])
    asked = replace(asked, load_units=np.array([[0.9, math.inf], [0.8, 0.8]]))
    mix = solve_mix(asked, Effort())
    assert mix is not None
    assert mix.share[1] == pytest.approx([0.0, 1.0], abs=1e-6)
    assert mix.usd_per_hour == pytest.approx(2.0)


def test_a_split_is_as_even_as_the_least_cost_of_sending_allows() -> None:
    asked = problem([[2.0, 2.0, 2.0]], [1.0, 1.0, 1.0], [[0.0, 0.0, 5.0]])
    share = cheapest_split(asked, np.array([2.0, 2.0, 2.0]))
    assert share is not None
    assert share[0] == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def test_units_that_carry_too_little_have_no_split() -> None:
    asked = problem([[2.0, math.inf]], [1.0, 1.0], [[0.0, 0.0]])
    assert cheapest_split(asked, np.array([1.0, 9.0])) is None
    assert cheapest_split(asked, np.array([0.0, 9.0])) is None


def test_an_offer_is_not_beaten_by_one_that_costs_more_to_send_from() -> None:
    loads, usd = [[1.0, 1.0]], [1.0, 1.0]
    assert sum(beaten_offers(problem(loads, usd, [[0.0, 0.0]]))) == 1
    assert beaten_offers(problem(loads, usd, [[0.0, 0.3]])).tolist() == [False, True]
    assert beaten_offers(problem(loads, usd, [[0.3, 0.0]])).tolist() == [True, False]
