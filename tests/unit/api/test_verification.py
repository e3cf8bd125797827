"""A plan's promise beside a replay of its requests, and what it takes where the promise breaks."""

from __future__ import annotations

import numpy as np
import pytest

import gpufleet
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.demands import demand_of
from gpufleet.api.verification import SlowEnd, keeps, ways_to_arrive
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.requests import Requests
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.verification import verification_table
from gpufleet.simulate.generated import requests_of


@pytest.fixture(scope="module")
def plan() -> ServeAnswer:
    return gpufleet.plan_serve(
        "llama-3.1-8b", rate="40/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<400ms,tpot.p95<30ms",
        gpus=["H100", "L40S"], rows=3,
    )  # fmt: skip


def bursts(num: int, together: int) -> Requests:
    """Requests that come so many at a time."""
    times = np.repeat(np.arange(num // together) * together / 40.0, together)
    return requests_of(times, np.full(len(times), 1000), np.full(len(times), 200))


def test_a_plan_keeps_its_limits_under_the_arrivals_that_it_was_made_for(plan: ServeAnswer) -> None:
    found = plan.verify()
    assert found.is_kept
    assert {d.arrivals for d in found.deployments} == {"Poisson"}
    first = found.deployments[0]
    assert [objective.replayed.label for objective in first.objectives] == ["ttft.p95", "tpot.p95"]
    assert first.objectives[0].planned.value == plan.answer.latency["ttft.p95"].value


def test_bursts_break_it_and_the_fewest_replicas_that_keep_it_are_said(plan: ServeAnswer) -> None:
    found = plan.verify(bursts(4000, 200))
    broken = next(d for d in found.deployments if d.arrivals == "trace")
    assert not broken.is_kept
    assert not found.is_kept
    assert broken.needed_replicas is None or broken.needed_replicas > broken.replicas
    if broken.needed_usd_per_hour is not None:
        assert broken.needed_usd_per_hour > plan.answer.usd_per_hour
    words = " ".join(verification_table(found).notes)
    assert "keep every objective" in words


def test_both_figures_of_a_broken_limit_are_on_the_page(plan: ServeAnswer) -> None:
    table = verification_table(plan.verify(bursts(4000, 200)))
    rows = [row for row in table.rows if row["verdict"] == "broken"]
    assert rows
    assert all(row["planned"] != row["replayed"] for row in rows)


SURE = {"rate": "69/s", "input_tokens": 3888, "output_tokens": 121, "slo": "ttft.p95<485ms,tpot.p95<66ms"}


@pytest.mark.slow
def test_a_surer_plan_holds_in_more_draws_of_the_engines_speed_and_each_in_about_as_many_as_it_promises() -> None:
    kept = []
    for confidence in (0.5, 0.8, 0.95):
        found = gpufleet.plan_serve("qwen2.5-7b", confidence=confidence, gpus=["H100"], **SURE).verify().drawn
        assert found is not None
        assert (found.confidence, found.num_draws) == (confidence, 20)
        assert found.kept_draws >= (confidence - 0.2) * found.num_draws
        kept.append(found.kept_draws)
    assert kept == sorted(kept)
    assert kept[0] < 20


def test_fewer_machines_that_hold_as_surely_are_said_and_one_fewer_does_not() -> None:
    arch = shipped_architecture("llama-3.1-8b")
    asked = ServeRequest("llama-3.1-8b", 40.0, 1000, 200, "ttft.p95<1s,tpot.p95<50ms")
    lavish = gpufleet.plan_serve(
        "llama-3.1-8b", rate="40/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<1s,tpot.p95<50ms",
        gpus=["H100"], min_replicas=8, rows=1,
    )  # fmt: skip
    answer, demand = lavish.answer, demand_of(asked, arch)
    as_asked, drawn = lavish.verify().drawn, lavish.verify(promised=demand).drawn
    assert as_asked is not None
    assert as_asked.sufficient_instance_count is None, "so many replicas were asked for"
    assert drawn is not None
    assert drawn.sufficient_instance_count is not None
    assert drawn.sufficient_instance_count < answer.instance_count
    assert drawn.sufficient_usd_per_hour == pytest.approx(
        answer.price_per_instance_usd_per_hour * drawn.sufficient_instance_count
    )
    [how] = ways_to_arrive(arch, demand.workload, load_catalog(), None, None)
    slow, per_machine = SlowEnd.of(answer, how), answer.replicas // answer.instance_count
    sure, ahead = slow.dilated(how, 0.8, 1.0), slow.dilated(how, 0.5, 1.2)
    enough = drawn.sufficient_instance_count * per_machine
    assert all(keeps(answer, each, enough) for each in (sure, ahead))
    if enough > per_machine:
        assert not all(keeps(answer, each, enough - per_machine) for each in (sure, ahead))
