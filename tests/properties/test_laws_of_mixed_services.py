"""Laws of the cheapest mix, on random services: more freedom never costs more, and the plain case is a plan."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.conftest import Tally

from gpufleet import FleetMix, ServeRequest, plan_mix, plan_serve

pytestmark = pytest.mark.usefixtures("rows_alone")

SAME = 1e-6
CASES = 4
GPUS = ("H100", "L40S", "L4", "A100-80GB")


def service(seed: int) -> ServeRequest:
    """A random service on AWS."""
    dice = random.Random(seed)
    return ServeRequest(
        dice.choice(("llama-3.1-8b", "qwen3-8b", "qwen3-4b")),
        dice.choice((3.0, 10.0, 25.0)),
        dice.choice((500, 1000, 2000)),
        dice.choice((100, 200)),
        slo=f"ttft.p95<{dice.choice((1, 2, 4))}s,tpot.p95<{dice.choice((40, 80))}ms",
        clouds=["aws"],
        gpus=dice.sample(GPUS, 3),
    )


def cost(found: FleetMix) -> float:
    """What a mix costs."""
    assert found.usd_per_hour is not None
    return found.usd_per_hour


def mixed(request: ServeRequest, **terms: object) -> FleetMix:
    return plan_mix(request, **terms)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CASES))
def test_a_mix_costs_no_more_than_one_type_and_keeps_every_objective_where_requests_go(seed: int) -> None:
    request = service(seed)
    found = mixed(request)
    assert cost(found) <= plan_serve(request).answer.usd_per_hour + SAME
    for copies in found.copies:
        for name, limit_s in found.services[0].objectives.items():
            assert copies.deployment.latency[name].value <= limit_s
        assert 0 < copies.busy_ratio <= 1 + SAME
    assert sum(r.requests_per_s for r in found.routes) == pytest.approx(request.rate)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CASES))
def test_requests_that_are_alike_on_one_type_are_a_plan(seed: int) -> None:
    request = replace(service(seed), gpus=["L40S"], slo="tpot.p95<80ms")
    alike = replace(request, input_tokens=fixed(request.input_tokens), output_tokens=fixed(request.output_tokens))
    assert cost(mixed(alike)) == pytest.approx(plan_serve(alike).answer.usd_per_hour, rel=SAME)


def fixed(tokens: object) -> object:
    """Counts that are all the same."""
    from gpufleet.domain.token_counts import TokenCounts

    return TokenCounts(float(tokens))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_all_of_one_cloud_is_that_cloud_and_no_spot_is_on_demand(seed: int) -> None:
    request = service(seed)
    assert cost(mixed(replace(request, clouds=["aws", "gcp"]), shares=["aws=100%"])) == pytest.approx(
        cost(mixed(request))
    )
    assert cost(mixed(replace(request, pricing=["on_demand", "spot"], max_spot=0.0))) == pytest.approx(
        cost(mixed(request))
    )


@pytest.mark.slow
def test_more_freedom_costs_no_more_and_where_corrections_broke_that_it_is_counted(tally: Tally) -> None:
    """Laws of proven optima at fixed loads; loads are corrected for each mix, which may break them by little."""
    for seed in range(2):
        request = service(seed)
        strict = cost(mixed(request))
        looser = replace(request, slo=str(request.slo).replace("ttft.p95<1s", "ttft.p95<2s").replace("<4s", "<8s"))
        for what, free in (
            ("a longer limit", looser),
            ("one GPU more", replace(request, gpus=[*request.gpus, "RTX-PRO-6000"])),  # type: ignore[misc]
        ):
            then = cost(mixed(free))
            held = "" if then <= strict * (1 + SAME) else " BROKEN"
            tally["mix: more freedom costs no more", f"{what}{held}"] += 1
            assert then <= strict * 1.05
