"""Laws of serving estimates and plans: what more hardware, time, money or load must never do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import cases

from gpufleet.api import ServeRequest, estimate, plan_serve
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.errors import GpufleetError, Infeasible
from gpufleet.results.estimate import ServingEstimate
from gpufleet.results.plan import ServePlan

pytestmark = pytest.mark.usefixtures("rows_alone")

MACHINES = (
    ("aws", "g6.12xlarge"),
    ("aws", "g6e.xlarge"),
    ("aws", "g6e.12xlarge"),
    ("aws", "p4de.24xlarge"),
    ("azure", "Standard_ND96isr_H200_v5"),
    ("gcp", "a3-highgpu-8g"),
    ("nebius", "gpu-h100-sxm_1gpu-16vcpu-200gb"),
    ("nebius", "gpu-b200-sxm_8gpu-160vcpu-1792gb"),
)

few = settings(max_examples=settings().max_examples * cases(1, 10) // 10)  # a plan takes a while: 10, or 100
engines = st.sampled_from(["vllm", "sglang", "tensorrt-llm"])
replicas = st.sampled_from(
    [
        ("llama-3.1-8b", "H100-SXM", 1),
        ("llama-3.1-8b", "L40S", 2),
        ("llama-3.3-70b", "H100-SXM", 4),
        ("qwen3-30b-a3b", "H100-SXM", 2),
        ("deepseek-v3", "H200-SXM", 8),
    ]
)
input_lengths = st.sampled_from([16, 200, 1000, 8000])
output_lengths = st.sampled_from([4, 32, 300, 1500])
loads = st.one_of(
    st.sampled_from([1, 5, 32, 200]).map(lambda number: {"concurrency": number}),
    st.sampled_from([1, 16]).map(lambda number: {"batch": number}),
    st.just({"full_queue": True}),
)
indices = st.integers(0, 10**6)
rates = st.sampled_from([0.2, 2.0, 10.0, 40.0])
tpot_limits_ms = st.sampled_from([15, 30, 60, 200])
ttft_limits_ms = st.sampled_from([150, 400, 2000])


@lru_cache(maxsize=1)
def market() -> Catalog:
    """A few machine types of several sizes, and a few prices of each."""
    catalog = load_catalog()
    on_demand = [o for o in catalog.offers if o.price_kind == "on_demand" and catalog.is_open(o.cloud, o.region)]
    offers = [o for key in MACHINES for o in [o for o in on_demand if (o.cloud, o.instance) == key][:3]]
    return replace(catalog, instances={key: catalog.instances[key] for key in MACHINES}, offers=tuple(offers))


def test_the_small_market_has_prices_of_every_machine() -> None:
    assert {(o.cloud, o.instance) for o in market().offers} == set(MACHINES)


@lru_cache(maxsize=64)
def with_faster_memory(gpu: str, speed: float) -> Catalog:
    device = market().accelerators[gpu]
    faster = replace(device, bandwidth_bytes_per_s=speed * device.bandwidth_bytes_per_s)
    return replace(market(), accelerators={**market().accelerators, gpu: faster})


def serve(
    replica: tuple[str, str, int], engine: str, tokens: tuple[float, float], catalog: Catalog | None = None, **load
) -> ServingEstimate:
    model, gpu, number = replica
    return estimate(
        model, (gpu, number), input_tokens=tokens[0], output_tokens=tokens[1], engine=engine,
        catalog=catalog or market(), **load,
    )  # fmt: skip


def plan(
    rate: float = 5.0, model: str = "llama-3.1-8b", slo: str | None = "tpot.p95<60ms", catalog=None, **more
) -> ServePlan:
    words = {"input_tokens": 1000, "output_tokens": 200, "rows": 50, **more}
    return plan_serve(ServeRequest(model, rate, slo=slo, **words), catalog or market())


def cost(answer: ServePlan) -> float:
    return answer.answer.usd_per_hour if answer.is_feasible else float("inf")


@pytest.mark.slow
@few
@given(replicas, engines, input_lengths, output_lengths, loads, st.sampled_from([1.05, 1.3, 2.0]))
def test_faster_memory_never_slows_a_token_or_lowers_throughput(replica, engine, prompt, output, load, speed) -> None:
    """A queue that never empties takes the batch that serves most, which may be a larger one of slower tokens."""
    before = serve(replica, engine, (prompt, output), **load)
    after = serve(replica, engine, (prompt, output), with_faster_memory(replica[1], speed), **load)
    if not load.get("full_queue"):
        assert after.tpot_s.value <= before.tpot_s.value * (1 + 1e-9)
    assert after.output_tokens_per_s.value >= before.output_tokens_per_s.value * (1 - 1e-9)


@pytest.mark.slow
@few
@given(replicas, engines, input_lengths, output_lengths, st.sampled_from([1, 8, 64]))
def test_faster_memory_never_delays_the_first_token_of_a_batch_or_a_lone_user(
    replica, engine, prompt, output, batch
) -> None:
    """Of many clients in a closed loop the first tokens may come later: they return sooner, and queue together."""
    for load in ({"batch": batch}, {"full_queue": True}, {"concurrency": 1, "waves": 1.0}):
        before = serve(replica, engine, (prompt, output), **load)
        after = serve(replica, engine, (prompt, output), with_faster_memory(replica[1], 1.4), **load)
        assert after.ttft_s.value <= before.ttft_s.value * (1 + 1e-9)
        assert after.latency_s.value <= before.latency_s.value * (1 + 1e-9)


@pytest.mark.slow
@few
@given(replicas, engines, input_lengths, output_lengths)
def test_a_request_twice_as_long_never_finds_room_for_more_users(replica, engine, prompt, output) -> None:
    short, long = (serve(replica, engine, (k * prompt, k * output), full_queue=True) for k in (1, 2))
    assert long.largest_batch <= short.largest_batch


@few
@given(replicas, engines, input_lengths, output_lengths, st.sampled_from([1, 4, 16]))
def test_twice_the_prompt_never_answers_sooner(replica, engine, prompt, output, users) -> None:
    """Within 1 %: a measured product of 32 tokens may take as long as one of 16."""
    short, long = (serve(replica, engine, (k * prompt, output), concurrency=users) for k in (1, 2))
    assert long.ttft_s.value >= 0.99 * short.ttft_s.value
    if long.batch == users:
        assert long.tpot_s.value >= 0.99 * short.tpot_s.value


@few
@given(replicas, engines, input_lengths, output_lengths, st.sampled_from([1, 3, 10, 50, 150]))
def test_twice_the_users_never_shorten_the_time_per_token(replica, engine, prompt, output, users) -> None:
    some, twice = (serve(replica, engine, (prompt, output), concurrency=k * users) for k in (1, 2))
    assert twice.tpot_s.value >= some.tpot_s.value * (1 - 1e-9)


@few
@given(replicas, engines, input_lengths, output_lengths, st.floats(0.05, 1.0))
def test_a_full_queue_delivers_at_least_what_fewer_users_get(replica, engine, prompt, output, share) -> None:
    """Within 1 %: batches that are tried are 20 % apart, and measured prefill curves dip between sizes."""
    full = serve(replica, engine, (prompt, output), full_queue=True)
    users = max(1, int(share * full.batch))
    some = serve(replica, engine, (prompt, output), concurrency=users)
    assert some.output_tokens_per_s.value <= 1.01 * full.output_tokens_per_s.value


@few
@given(replicas, engines, input_lengths, output_lengths, loads)
def test_every_estimate_lies_within_its_range_and_its_parts_add_up(replica, engine, prompt, output, load) -> None:
    found = serve(replica, engine, (prompt, output), **load)
    for figure in (found.ttft_s, found.tpot_s, found.latency_s, found.requests_per_s, found.output_tokens_per_s):
        assert 0 < figure.low <= figure.value <= figure.high
    assert found.latency_s.value == pytest.approx(found.ttft_s.value + (output - 1) * found.tpot_s.value)
    assert found.output_tokens_per_s.value == pytest.approx(output * found.requests_per_s.value)


@pytest.mark.slow
@few
@given(engines, input_lengths, output_lengths, loads, st.sampled_from([2, 4]))
def test_half_the_pcie_width_is_never_faster(engine, prompt, output, load, number) -> None:
    def on(lanes_share: float) -> ServingEstimate:
        name = ("aws", "g6e.12xlarge")
        machine = market().instances[name]
        link = replace(machine.fabric, bytes_per_s=lanes_share * machine.fabric.bytes_per_s)
        catalog = replace(market(), instances={**market().instances, name: replace(machine, fabric=link)})
        return serve(("llama-3.1-8b", "L40S", number), engine, (prompt, output), catalog, instance=name[1], **load)

    wide, narrow = on(1.0), on(0.5)
    assert narrow.tpot_s.value >= wide.tpot_s.value * (1 - 1e-9)
    assert narrow.output_tokens_per_s.value <= wide.output_tokens_per_s.value * (1 + 1e-9)


@pytest.mark.slow
@few
@given(rates, tpot_limits_ms, ttft_limits_ms, st.sampled_from(["ttft.p95", "tpot.p95"]), st.floats(1.01, 5))
def test_relaxing_a_limit_never_loses_a_candidate(rate, tpot, ttft, relaxed, factor) -> None:
    asked = {"ttft.p95": ttft, "tpot.p95": tpot}
    eased = {label: limit * (factor if label == relaxed else 1) for label, limit in asked.items()}
    strict, loose = (plan(rate, slo=",".join(f"{k}<{v}ms" for k, v in s.items())) for s in (asked, eased))
    assert served_by(strict) <= served_by(loose)
    assert cost(loose) <= cost(strict)


def served_by(answer: ServePlan) -> set[tuple[str, str]]:
    return {(d.cloud, d.instance) for d in answer.deployments}


@pytest.mark.slow
@few
@given(st.floats(0.05, 60), st.floats(1, 20), tpot_limits_ms, st.sampled_from(["llama-3.1-8b", "llama-3.3-70b"]))
def test_a_higher_rate_never_costs_less(rate, factor, tpot, model) -> None:
    slo = f"tpot.p95<{tpot}ms"
    assert cost(plan(rate, model, slo)) <= cost(plan(rate * factor, model, slo))


@pytest.mark.slow
@few
@given(rates, st.floats(0, 1), st.floats(0, 3), tpot_limits_ms)
def test_more_headroom_never_costs_less(rate, headroom, more, tpot) -> None:
    slo = f"tpot.p95<{tpot}ms"
    assert cost(plan(rate, slo=slo, headroom=headroom)) <= cost(plan(rate, slo=slo, headroom=headroom + more))


@pytest.mark.slow
@few
@given(rates, indices, st.floats(1.001, 10))
def test_a_dearer_offer_is_never_chosen_for_it(rate, index, factor) -> None:
    offers = market().offers
    raised = offers[index % len(offers)]
    dearer = replace(raised, price_per_instance_usd_per_hour=factor * raised.price_per_instance_usd_per_hour)
    after = replace(market(), offers=tuple(dearer if o is raised else o for o in offers))
    chosen_before, chosen_after = (chosen(plan(rate, catalog=catalog)) for catalog in (market(), after))
    this = (raised.cloud, raised.region, raised.instance)
    assert chosen_after != this or chosen_before == this


def chosen(answer: ServePlan) -> tuple[str, str, str]:
    return answer.answer.cloud, answer.answer.region, answer.answer.instance


@pytest.mark.slow
@few
@given(rates, st.sets(indices, min_size=1, max_size=6))
def test_more_offers_never_make_the_plan_dearer(rate, kept) -> None:
    offers = market().offers
    places = sorted({index % len(offers) for index in kept})
    some = replace(market(), offers=tuple(offers[place] for place in places))
    assert cost(plan(rate)) <= cost(plan(rate, catalog=some))


@pytest.mark.slow
@few
@given(rates, st.sampled_from(["llama-3.1-8b", "llama-3.3-70b"]), st.sampled_from(["p50", "p90", "p95"]))
def test_a_stricter_percentile_never_costs_less(rate, model, statistic) -> None:
    eased, strict = (plan(rate, model, f"tpot.{s}<40ms,ttft.{s}<800ms") for s in (statistic, "p99"))
    assert cost(eased) <= cost(strict)


def deployments(model: str, rate: float, slo: str, **more) -> Iterator:
    try:
        yield from plan(rate, model, slo, **more).deployments
    except Infeasible:
        return


@pytest.mark.slow
@few
@given(
    st.floats(0.05, 80),
    st.sampled_from(["llama-3.1-8b", "llama-3.3-70b", "qwen3-30b-a3b"]),
    tpot_limits_ms,
    ttft_limits_ms,
    st.integers(1, 9),
    st.floats(0, 1),
)
def test_every_deployment_keeps_its_promises(rate, model, tpot, ttft, least, headroom) -> None:
    slo = f"tpot.p95<{tpot}ms,ttft.p95<{ttft}ms"
    for d in deployments(model, rate, slo, min_replicas=least, headroom=headroom):
        assert d.replicas >= least
        assert d.replicas * d.gpus_per_replica + d.idle_gpus == d.instance_count * d.gpus_per_instance
        assert d.latency["tpot.p95"].value <= tpot / 1000
        assert d.latency["ttft.p95"].value <= ttft / 1000
        assert d.requests_per_s_capacity.value >= rate * (1 + headroom) * (1 - 1e-9)
        assert d.headroom_ratio >= headroom - 1e-9
        assert 0 < d.load_ratio <= 0.95
        assert d.batch <= d.largest_batch


@few
@given(st.floats(0.05, 80), st.sampled_from(["llama-3.1-8b", "llama-3.3-70b"]))
def test_every_price_of_a_deployment_says_the_same(rate, model) -> None:
    for d in deployments(model, rate, "tpot.p95<80ms"):
        assert d.usd_per_hour == pytest.approx(d.instance_count * d.price_per_instance_usd_per_hour)
        assert d.usd_per_month == pytest.approx(730 * d.usd_per_hour)
        assert d.usd_per_request * rate * 3600 == pytest.approx(d.usd_per_hour)
        assert d.usd_per_million_output_tokens * rate * 200 * 3600 / 1e6 == pytest.approx(d.usd_per_hour)
        assert d.price_per_gpu_usd_per_hour * d.gpus_per_instance == pytest.approx(d.price_per_instance_usd_per_hour)
        for figure in (*d.latency.values(), d.requests_per_s_capacity):
            assert figure.low <= figure.value <= figure.high


@pytest.mark.slow
@few
@given(rates, tpot_limits_ms)
def test_deployments_come_cheapest_first_and_each_type_once(rate, tpot) -> None:
    found = plan(rate, slo=f"tpot.p95<{tpot}ms").deployments
    prices = [d.counted_usd_per_hour for d in found]
    assert prices == sorted(prices)
    assert len(served_by(plan(rate, slo=f"tpot.p95<{tpot}ms"))) == len(found)


@pytest.mark.slow
@few
@given(
    st.sampled_from(["0.5ms", "12ms", "30ms", "40ms"]),
    st.sampled_from(["20ms", "300ms", "3s"]),
    st.sets(indices, min_size=1, max_size=3),
)
def test_a_proposed_relaxation_makes_the_plan_feasible(tpot, ttft, priced) -> None:
    """Also where the machines that would meet the limits have no price."""
    offers = market().offers
    places = sorted({index % len(offers) for index in priced})
    some = replace(market(), offers=tuple(offers[place] for place in places))
    asked = {"tpot.p95": tpot, "ttft.p95": ttft}
    proposals = asks(some, asked).relaxations
    together = [r for r in proposals if r.together]
    proposals = [r for r in proposals if r.limit in {*asked, *WORDS}]
    for changes in [together] if together else [[r] for r in proposals]:
        eased = {r.limit: r.needed for r in changes}
        words = {word: float(eased.pop(name).removesuffix("/s")) for name, word in WORDS.items() if name in eased}
        assert asks(some, asked | eased, **words).is_feasible


WORDS = {"rate": "rate", "input tokens": "input_tokens", "output tokens": "output_tokens"}
"""Of what gives way and is no objective."""


def asks(catalog: Catalog, limits: dict[str, str], rate: float = 1.0, **words: float) -> ServePlan:
    slo = ",".join(f"{label}<{limit}" for label, limit in limits.items())
    return plan(rate, "llama-3.3-70b", slo, catalog, **words)


def test_an_impossible_limit_is_met_by_its_proposed_relaxation() -> None:
    refused = asks(market(), {"tpot.p95": "0.5ms", "ttft.p95": "20ms"})
    assert not refused.is_feasible
    assert {r.limit for r in refused.relaxations} == {"tpot.p95", "ttft.p95"}
    assert all(r.together for r in refused.relaxations)


def test_a_market_without_offers_is_missing_data_not_a_free_plan() -> None:
    with pytest.raises(GpufleetError, match="no offer has a known price"):
        plan(catalog=replace(market(), offers=()))
