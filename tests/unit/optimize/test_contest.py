"""What every offer costs at a rate, against the same question asked with other prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api.serve_questions import prepare
from gpufleet.api.setups import narrowed, parse_setup, whole_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.optimize.contest import Contest, key_of
from gpufleet.optimize.copies.decoder import LONGEST
from gpufleet.optimize.placement import place
from gpufleet.optimize.replicas import EveryRejection, describe
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import ServeRequest

MIXED = ServeRequest("llama-3.1-8b", 40.0, 1000, 200, "tpot.p95<100ms", clouds=["aws"], max_spot=0.5)


@pytest.mark.parametrize("ratio", [0.5, 1.7])
@pytest.mark.parametrize("asked", [MIXED, replace(MIXED, max_spot=None, clouds=None)])
def test_a_dearer_type_costs_what_it_costs_where_its_prices_are_listed_so(asked: ServeRequest, ratio: float) -> None:
    """On demand it also stands beside spot machines, of which only a share may be had; all others cost the same."""
    tables = load_catalog()
    question, _ = narrowed(asked, whole_question(asked, tables), tables, parse_setup("L40S", tables))
    solution = solve_serve(question, calibration_of(tables))
    rates, contest = np.array([5.0, 40.0, 333.0]), Contest.of(question, solution)
    for key in {key_of(offer) for offer in contest.offers}:
        offers = tuple(o.at_price_ratio(ratio) if key_of(o) == key else o for o in question.offers)
        listed = Contest.of(replace(question, offers=offers), solution)
        there, here = (
            {
                (key_of(offer), offer.region): usd
                for offer, usd in zip(x.offers, x.costs(solution.found, question.demand, rates), strict=True)
            }
            for x in (listed, contest.at_price_ratio(key, ratio))
        )
        common = there.keys() & here.keys()
        assert key in {k for k, _ in common}
        for where in common:
            np.testing.assert_allclose(here[where], there[where])


def test_machines_of_six_gpus_hold_one_replica_of_four_in_the_contest_as_in_the_ranking() -> None:
    asked, tables = ServeRequest("llama-3.3-70b", 3.0, 1000, 200, "tpot.p95<200ms"), load_catalog()
    question, _ = narrowed(asked, whole_question(asked, tables), tables, parse_setup("L40S", tables))
    wide = tuple(replace(i, gpu_count=6.0) for i in question.instances if i.gpu_count == 4)
    question = replace(question, instances=wide)
    solution = solve_serve(question, calibration_of(tables))
    assert {int(n) for n in solution.copies.candidates.num_devices} - {1, 2, 3, 6}
    contest = Contest.of(question, solution)
    counts = contest.counts(solution.found, question.demand, 3.0).machines[:, 0]
    for at, host in enumerate(contest.host):
        placed = place(contest.hosts.instances[host], solution.copies.candidates, solution.found, question.demand)
        assert placed is not None
        assert placed.instance_count == counts[at]


def test_only_layouts_that_drop_out_are_said_to_lack_room_for_the_longest_request() -> None:
    tables = load_catalog()
    question, _ = narrowed(MIXED, whole_question(MIXED, tables), tables, parse_setup("L4", tables))
    lengths = TokenCounts(1000.0, 4.0, longest=120_000.0)
    workload = Workload.of((RequestClass("long", 1.0, lengths, TokenCounts(200.0)),))
    asked, kept = replace(question, demand=replace(question.demand, workload=workload)), EveryRejection()
    candidates = solve_serve(asked, calibration_of(tables), kept).copies.candidates
    rejected = {r.subject for r in kept.kept if r.reason == LONGEST}
    assert rejected
    assert not rejected & {describe(candidates, row) for row in range(len(candidates))}


@pytest.mark.parametrize("hours", [{}, {"off_peak_rate": 5.0, "peak_hours": 10.0}], ids=["all day", "quiet hours"])
def test_spot_that_has_likely_risen_to_its_price_on_demand_ties_in_the_contest_as_in_the_ranking(
    hours: dict[str, float],
) -> None:
    asked = ServeRequest(
        "llama-3.1-8b", 20.0, 1000, 300, clouds=["aws", "gcp"], regions=["us-east-1"], gpus=["H100", "L40S"],
        pricing=["on_demand", "spot"], max_spot=0.5, min_replicas=2, spare_machines=1, **hours,
    )  # fmt: skip
    prepared = prepare(asked, load_catalog())
    question, solution = prepared.question, prepared.solution
    contest, rate = Contest.of(question, solution), asked.rate
    costs = contest.costs(solution.found, question.demand, rate)[:, 0]
    of_contest = {(key_of(o), o.region): cost for o, cost in zip(contest.offers, costs, strict=True)}
    ranked = {(key_of(p.offer), p.offer.region): p.counted_usd_per_hour for p in solution.ranked}
    assert {key: of_contest[key] for key in ranked} == ranked
    assert ranked[("aws", "g6e.xlarge", "spot"), "us-east-1"] == pytest.approx(
        ranked[("aws", "g6e.xlarge", "on_demand"), "us-east-1"]
    )
