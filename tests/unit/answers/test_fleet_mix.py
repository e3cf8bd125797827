"""A solved mix as users get it: rows add up to what was asked, and lengths are whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpufleet.answers.fleet_mix import bought_offers, ends_of, goes_on, joined_rows, route_rows, used_ways
from gpufleet.api.mixes import MixRequest, plan_mix, understood_mix
from gpufleet.catalog.load import load_catalog
from gpufleet.optimize.mixes.cheapest import sound_mix
from gpufleet.optimize.mixes.corrected import Rated, on_one_type
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.question import posed_of
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.questions.fields import ServeRequest
from gpufleet.results.mix import FleetMix, RouteRow

CHAT = ServeRequest(
    "llama-3.1-8b", 60.0, 1000, 200, slo="ttft.p95<1s,tpot.p95<50ms", clouds=["aws"], gpus=["H100", "L40S"]
)


@pytest.fixture(scope="module")
def solved() -> tuple[Posed, Rated]:
    posed = posed_of(understood_mix(MixRequest(), [CHAT], None, load_catalog()), is_cut=True)
    found = sound_mix(posed, Effort(), on_one_type(posed))
    assert found is not None
    return posed, found


@pytest.fixture(scope="module")
def mix() -> FleetMix:
    return plan_mix(CHAT)


@pytest.mark.slow
def test_routes_carry_the_rate_that_was_asked_and_copies_get_it(mix: FleetMix) -> None:
    assert sum(r.requests_per_s for r in mix.routes) == pytest.approx(60.0)
    assert sum(c.requests_per_s for c in mix.copies) == pytest.approx(60.0)
    assert all(sum(r.copies.values()) == pytest.approx(1.0) for r in mix.routes)


def test_machines_hold_the_copies_and_cost_what_all_costs(mix: FleetMix) -> None:
    assert len(mix.machines) > 1
    for at, machines in enumerate(mix.machines):
        gpus = sum(c.deployment.replicas * c.deployment.gpus_per_replica for c in mix.copies if c.machines == at)
        assert 0 < gpus <= machines.instance_count * machines.gpus_per_instance
    assert sum(m.usd_per_hour for m in mix.machines) == pytest.approx(mix.usd_per_hour)


def test_each_row_of_copies_keeps_every_objective_at_what_it_gets(mix: FleetMix) -> None:
    for copies in mix.copies:
        assert copies.busy_ratio <= 1 + 1e-6
        for name, limit_s in mix.services[copies.service].objectives.items():
            assert copies.deployment.latency[name].value <= limit_s


def test_rows_of_routes_meet_at_whole_tokens_and_the_last_has_no_end(mix: FleetMix) -> None:
    ends = [(r.from_prompt_tokens, r.to_prompt_tokens) for r in mix.routes]
    assert ends[0][0] == 0
    assert ends[-1][1] is None
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert all(low == round(low) for low, _ in ends)


def test_what_is_bought_and_used_is_what_was_solved(solved: tuple[Posed, Rated]) -> None:
    posed, found = solved
    usd = [found.mix.machines[o] * found.problem.usd_per_hour[o] for o in bought_offers(found)]
    assert usd == sorted(usd, reverse=True)
    assert sum(usd) == pytest.approx(found.mix.usd_per_hour)
    assert {posed.ways[w].offer for w in used_ways(found)} <= set(bought_offers(found))
    assert sum(r.requests_per_s for r in route_rows(posed, found)) == pytest.approx(60.0)


def test_the_longest_bucket_ends_nowhere_and_each_other_where_the_next_begins() -> None:
    cut = [np.array([10.0, 99.6]), np.array([100.2, 500.0]), np.array([501.0, 900.0])]
    assert [ends_of(points, cut) for points in cut] == [(0.0, 100.0), (100.0, 500.0), (500.0, None)]


def test_rows_that_go_the_same_way_are_one_and_others_are_not() -> None:
    def row(low: float, high: float | None, copies: dict[int, float]) -> RouteRow:
        return RouteRow(
            service=0, request_class="", from_prompt_tokens=low, to_prompt_tokens=high, from_answer_tokens=None,
            to_answer_tokens=None, requests_per_s=5.0, copies=copies,
        )  # fmt: skip

    first, second = row(0.0, 100.0, {0: 1.0}), row(100.0, None, {0: 1.0})
    assert goes_on(first, second)
    assert not goes_on(first, row(100.0, None, {1: 1.0}))
    assert not goes_on(first, row(200.0, None, {0: 1.0}))
    both = joined_rows(first, second)
    assert (both.from_prompt_tokens, both.to_prompt_tokens, both.requests_per_s) == (0.0, None, 10.0)
