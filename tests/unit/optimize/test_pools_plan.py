"""The cheapest pools that prefill and decode: whole copies on machines of one region that keep the same limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.api import ServeRequest, estimate, plan_serve
from gpufleet.optimize.pools_plan import machines_for_both
from gpufleet.report.plan import plan_page
from gpufleet.report.pools import pools_price_line
from gpufleet.report.text import page_as_text
from gpufleet.results.plan import ServePlan

TIGHT = "ttft.p95<2s,tpot.p95<18ms"


def plan(slo: str | None = TIGHT, **more: Any) -> ServePlan:
    said = {"clouds": ["aws"], "disagg": True, **more}
    return plan_serve(ServeRequest("llama-3.3-70b", 10.0, 4000.0, 500.0, slo, **said))


@given(
    gpus=st.sampled_from([1, 2, 4, 8]),
    copies=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    sizes=st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8])),
)
def test_machines_hold_both_pools_and_none_is_spare(gpus: int, copies: tuple[int, int], sizes: tuple[int, int]) -> None:
    gpus = max(gpus, *sizes)
    machines = machines_for_both(gpus, copies, sizes)
    apart = sum(-(-n // (gpus // size)) for n, size in zip(copies, sizes, strict=True))
    assert sum(n * size for n, size in zip(copies, sizes, strict=True)) <= machines * gpus
    assert machines <= apart


@pytest.mark.slow
def test_pools_stand_in_one_region_and_run_one_format_and_engine() -> None:
    pools = plan().pools
    assert pools is not None
    assert (pools.prefill.cloud, pools.prefill.region) == (pools.decode.cloud, pools.decode.region)
    assert pools.engine == "vllm"
    assert pools.weight_format == "bf16"


@pytest.mark.slow
def test_pools_keep_every_limit_and_carry_the_rate_with_its_headroom() -> None:
    pools = plan().pools
    assert pools.planned_s["ttft.p95"] <= 2.0
    assert pools.planned_s["tpot.p95"] <= 0.018
    assert min(pools.prefill.carried_requests_per_s, pools.decode.carried_requests_per_s) > 12.0


@pytest.mark.slow
def test_a_tight_limit_of_tpot_is_cheaper_apart() -> None:
    tight = plan()
    assert tight.pools.cost_ratio == pytest.approx(tight.pools.usd_per_hour / tight.deployments[0].usd_per_hour)
    assert tight.pools.cost_ratio < 1


@pytest.mark.slow
def test_a_looser_limit_is_never_dearer() -> None:
    prices = [plan(f"ttft.p95<2s,tpot.p95<{ms}ms").pools.usd_per_hour for ms in (18, 30, 60)]
    assert prices == sorted(prices, reverse=True)


@pytest.mark.slow
def test_what_a_plan_says_of_pools_estimate_says_too() -> None:
    """Expected values and no headroom: the planned figures are those of the pools at that rate."""
    pools = plan(confidence=0.5, headroom=0.0).pools
    asked = [f"{p.copies}x {p.gpu}:{p.num_gpus} {p.layout.replace('/', ' ')}" for p in (pools.prefill, pools.decode)]
    found = estimate(
        "llama-3.3-70b", prefill=asked[0], decode=asked[1], input_tokens=4000, output_tokens=500, rate=10.0
    )
    p95 = next(p for p in found.percentiles if p.quantile == 0.95)
    assert pools.planned_s["ttft.p95"] == pytest.approx(p95.ttft_s.value, rel=0.05)
    assert pools.planned_s["tpot.p95"] == pytest.approx(p95.tpot_s.value, rel=0.05)


def test_nothing_is_planned_apart_unless_asked() -> None:
    assert plan(disagg=False).pools is None


@pytest.mark.slow
def test_limits_that_no_pools_keep_are_said() -> None:
    none = plan("ttft.p95<10ms")
    assert none.pools is None
    assert any("no pools were found that keep every limit" in note for note in none.notes)


@pytest.mark.parametrize(
    ("more", "what"),
    [({"zones": 2}, "zones"), ({"spare_machines": 1}, "spare machines"), ({"prefix_cache": 0.5}, "a prefix cache")],
)
def test_what_pools_are_not_planned_with_is_said(more: dict[str, Any], what: str) -> None:
    found = plan(**more)
    assert found.pools is None
    assert f"Prefill and decode apart are not planned with {what}" in found.notes


@pytest.mark.slow
def test_a_plan_with_pools_is_read_back_from_its_json() -> None:
    found = plan()
    whole = ServePlan.model_validate_json(found.model_dump_json())
    assert whole.pools == found.pools
    ids = {source.id for source in whole.price_sources}
    assert {whole.pools.prefill.price_source, whole.pools.decode.price_source} <= ids


@pytest.mark.slow
def test_pools_over_the_budget_are_none() -> None:
    found = plan(budget_usd_per_hour=1.0)
    assert found.pools is None
    assert not found.deployments


@pytest.mark.slow
def test_pools_beside_no_answer_are_said_to_stand_alone() -> None:
    alone = plan().pools.model_copy(update={"cost_ratio": None})
    assert pools_price_line(alone).endswith("/h; nothing else serves this.")
    alike = alone.model_copy(update={"cost_ratio": 1.0})
    assert pools_price_line(alike).endswith("as much as copies that do both.")


@pytest.mark.slow
def test_the_page_says_machines_price_and_what_is_planned() -> None:
    page = page_as_text(plan_page(plan()), 100)
    assert "Prefill and decode apart" in page
    assert "less than copies that do both." in page
    assert "Planned: ttft.p95" in page
