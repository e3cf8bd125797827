"""A plan's machine as it is scaled: the same closed forms, so the same rate within the same limits."""

from __future__ import annotations

import numpy as np
import pytest

import gpufleet
from gpufleet.api.scaled_plans import ScaledPlan, one_plan, scaled_plan
from gpufleet.catalog.load import load_catalog
from gpufleet.errors import UsageError
from gpufleet.optimize.scaled_replica import share_below
from gpufleet.simulate.scaling import Service


def planned(slo: str, confidence: float, **more: object) -> ScaledPlan:
    request = gpufleet.ServeRequest(
        model="llama-3.1-8b",
        rate=40.0,
        input_tokens=1000.0,
        output_tokens=200.0,
        slo=slo,
        clouds=("aws",),
        confidence=confidence,
        **more,  # type: ignore[arg-type]
    )
    return scaled_plan(one_plan(gpufleet.plan_serve(request), load_catalog()), load_catalog())


@pytest.mark.parametrize("slo", ["tpot.p95<50ms", "ttft.p95<300ms", "latency.p95<12s"])
def test_a_machine_is_good_for_the_rate_that_the_plan_gives_it(slo: str) -> None:
    held = planned(slo, 0.5)
    per_machine = held.answer.requests_per_s_capacity.value / held.answer.instance_count
    assert Service(held.replica, 60.0).planned_per_s == pytest.approx(per_machine, rel=0.03)


def test_a_surer_plan_gives_its_machine_less() -> None:
    rates = [Service(planned("tpot.p95<50ms", c, gpus=("H100",)).replica, 60.0).planned_per_s for c in (0.5, 0.8, 0.9)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[2]


def test_figures_of_a_machine_rise_with_its_rate() -> None:
    replica = planned("ttft.p95<1s,tpot.p95<50ms", 0.8).replica
    assert np.all(np.diff(replica.rate_per_s) > 0)
    assert np.all(np.diff(replica.batch) > 0)
    assert np.all(np.diff(replica.latency_s) >= 0)
    assert np.all(replica.waiting >= 0)
    kept = replica.share_within(replica.rate_per_s, np.zeros(len(replica.rate_per_s)))
    assert np.all((kept >= 0) & (kept <= 1))
    assert np.all(np.diff(kept) <= 2e-5)
    assert kept[0] > 0.99


def test_a_machine_of_several_replicas_does_as_much_as_all_of_them() -> None:
    held = planned("ttft.p95<1s", 0.8, gpus=("L40S",))
    assert held.copies == held.answer.replicas // held.answer.instance_count


def test_shares_pass_through_the_percentiles_and_go_on_beyond_them() -> None:
    known = np.array([[1.0], [2.0], [3.0], [5.0]])
    for limit_s, share in ((1.0, 0.50), (2.0, 0.90), (3.0, 0.95), (5.0, 0.99)):
        assert float(share_below(known, limit_s)[0]) == pytest.approx(share)
    shares = [float(share_below(known, limit)[0]) for limit in np.linspace(-1.0, 20.0, 200)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 0.999 < shares[-1] <= 1


def test_a_figure_that_all_requests_share_is_kept_by_all_or_none() -> None:
    known = np.full((4, 1), 2.0)
    assert [float(share_below(known, limit)[0]) for limit in (1.9, 2.0, 2.1)] == [0.0, 1.0, 1.0]


@pytest.mark.slow
def test_a_plan_of_several_models_is_not_scaled() -> None:
    request = gpufleet.ServeRequest(model="llama-3.1-8b", rate=4.0, input_tokens=500.0, output_tokens=100.0)
    with pytest.raises(UsageError, match="several models"):
        one_plan(gpufleet.plan_fleet([request, request]), load_catalog())
