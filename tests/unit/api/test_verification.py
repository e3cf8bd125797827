"""A plan's promise beside a replay of its requests, and what it takes where the promise breaks."""

from __future__ import annotations

import numpy as np
import pytest

import gpufleet
from gpufleet.api.answers import ServeAnswer
from gpufleet.domain.requests import Requests
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
