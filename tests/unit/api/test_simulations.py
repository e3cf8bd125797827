"""gpufleet.simulate_serving: what arrives, who serves, what befalls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gpufleet
from gpufleet.domain.replay import Replay
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.results.simulation import Simulation

SMALL = {"input_tokens": 500, "output_tokens": 100, "requests": 400}


def replayed(**words: object) -> Simulation:
    return gpufleet.simulate_serving("llama-3.1-8b", "H100:1", **{"rate": 5.0, **SMALL, **words})  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_answer_and_another_does_not() -> None:
    first, again, other = replayed(), replayed(), replayed(seed=1)
    assert first == again
    assert first.latency["ttft.mean"] != other.latency["ttft.mean"]


def test_the_closed_form_stands_beside_a_steady_load() -> None:
    found = replayed(requests=4000, rate=8.0)
    assert found.load_ratio is not None
    assert 0.1 < found.load_ratio < 0.5
    assert found.latency["tpot.mean"].value == pytest.approx(found.closed_form["tpot.mean"].value, rel=0.1)


def test_above_capacity_the_queue_grows_and_no_closed_form_is_shown() -> None:
    found = replayed(rate=200.0, requests=4000)
    assert found.queue.is_growing
    assert found.load_ratio is not None
    assert found.load_ratio > 1
    assert not found.closed_form


def test_more_replicas_wait_less_and_cost_more() -> None:
    one, four = replayed(rate=20.0, requests=2000), replayed(rate=20.0, requests=2000, replicas=4)
    assert four.latency["ttft.p95"].value < one.latency["ttft.p95"].value
    assert one.cost is not None
    assert four.cost is not None
    assert four.cost.usd_per_hour == pytest.approx(4 * one.cost.usd_per_hour)


def test_a_response_cache_takes_its_share_off_the_replicas() -> None:
    kept: list[Replay] = []
    found = replayed(cache_hits=0.5, requests=2000, on_replay=kept.append)
    from_cache = found.fates["answered from the response cache"]
    assert from_cache == pytest.approx(1000, abs=100)
    assert np.count_nonzero(kept[0].ttft_s == 0) == from_cache


def test_a_small_model_gets_its_share_as_a_class_of_its_own() -> None:
    found = gpufleet.simulate_serving(
        "llama-3.3-70b", "H100:4", rate=4.0, **SMALL,
        small_model="llama-3.1-8b", small_gpus="L40S:1", small_replicas=2, small_share=0.6,
    )  # fmt: skip
    sizes = {one.name: one.num_requests for one in found.classes}
    assert sizes["small"] == pytest.approx(0.6 * sum(sizes.values()), rel=0.15)
    assert found.replicas == 1


def test_pools_hand_over_every_prompt_and_keep_decode_steps_even() -> None:
    words = {"rate": 2.0, "input_tokens": 2000, "output_tokens": 100, "requests": 500}
    apart = gpufleet.simulate_serving("llama-3.3-70b", prefill="1x H100:4", decode="1x H100:4", **words)
    together = gpufleet.simulate_serving("llama-3.3-70b", "H100:4", replicas=2, **words)
    assert apart.fates["answered"] == 500
    assert apart.latency["tpot.p99"].value < together.latency["tpot.p99"].value


def test_a_cold_start_is_waited_for_and_failures_send_requests_again() -> None:
    cold = replayed(cold_start_s=30.0)
    assert cold.latency["ttft.mean"].value > replayed().latency["ttft.mean"].value
    failing = replayed(replicas=2, mtbf_s=20.0, cold_start_s=5.0)
    assert failing.retries > 0
    assert failing.fates["answered"] == 400


def test_replicas_on_spot_are_lost_by_a_trace_and_those_on_demand_stay(tmp_path: Path) -> None:
    trace = tmp_path / "zones.csv"
    trace.write_text("t_s,a,b\n0,1,1\n5,0,1\n10,0,0\n15,1,1\n", encoding="utf-8")
    words = {"replicas": 3, "on_demand": 1, "spot_trace": trace, "cold_start_s": 1.0}
    lost = replayed(**words)
    assert lost.retries > 0
    assert lost.fates["answered"] == 400
    assert min(lost.timeline.ready) == 1
    told = replayed(notice_s=4.0, **words)
    assert told.retries < lost.retries
    assert replayed(**{**words, "on_demand": 3}).retries == 0


def test_a_trace_that_leaves_no_machines_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "none.csv"
    trace.write_text("t_s,a,b\n0,0,0\n5,0,0\n10,0,0\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"the trace .*none\.csv' leaves no machines"):
        replayed(replicas=2, spot_trace=trace, cold_start_s=1.0)


def test_a_saved_plan_is_replayed_with_its_replicas_and_its_requests(tmp_path: Path) -> None:
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="20/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<500ms", gpus=["L40S"]
    )
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json(), encoding="utf-8")
    found = gpufleet.simulate_serving(file, requests=2000)
    assert found.replicas == plan.answer.replicas
    assert found.gpu == "L40S"
    assert found.cost is not None
    assert found.cost.usd_per_hour == pytest.approx(plan.answer.usd_per_hour, rel=1e-3)
    assert [objective.label for objective in found.objectives] == ["ttft.p95"]


def test_a_trace_is_replayed_at_its_own_times(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp_s": t, "input_tokens": 100 + t, "output_tokens": 20} for t in range(60)]
    trace.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = gpufleet.simulate_serving("llama-3.1-8b", "H100:1", trace=trace)
    assert found.num_arrived == 60
    assert found.load.startswith("trace.jsonl")
    half = gpufleet.simulate_serving("llama-3.1-8b", "H100:1", trace=trace, stretch=2.0)
    assert half.simulated_s == pytest.approx(2 * found.simulated_s, rel=0.05)


def test_rates_over_time_say_when_requests_come(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("t_s,rate_rps\n0,1\n60,9\n120,1\n", encoding="utf-8")
    kept: list[Replay] = []
    lengths = {"input_tokens": 500, "output_tokens": 100}
    found = gpufleet.simulate_serving("llama-3.1-8b", "H100:1", rates=file, on_replay=kept.append, **lengths)
    arrivals = kept[0].requests.arrival_s
    assert found.num_arrived == pytest.approx(660, abs=90)
    assert np.count_nonzero((arrivals >= 60) & (arrivals < 120)) > 0.7 * len(arrivals)
    half = gpufleet.simulate_serving(
        "llama-3.1-8b", "H100:1", rates=file, rate=1.0, input_tokens=500, output_tokens=100
    )
    assert half.num_arrived == pytest.approx(180, abs=50)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"prefill": "1x H100:1"}, "prefill and decode come together"),
        ({"cache_hits": 1.5}, "the share of cached answers is out of range"),
        ({"small_model": "llama-3.1-8b"}, "a small model has its GPUs and its share"),
        ({"mtbf_s": -1.0}, "the time between failures is out of range"),
        ({"on_demand": 1}, "only spot machines are taken away"),
        ({"spot_trace": "zones.csv", "mtbf_s": "auto"}, "by a trace or at random"),
        ({"spot_trace": "zones.csv", "on_demand": -1}, "the number on demand is out of range"),
        ({"cold_start_s": "soon"}, "the cold start cannot be read"),
        ({"rates": "day.csv", "arrival": "burst"}, "rates over time say when requests come"),
        ({"rate": 0.0}, "the rate is out of range"),
        ({"input_tokens": 10_000_000}, "does not take contexts that long"),
        ({"replicas": 0}, "the number of replicas is out of range"),
        ({"requests": 1e9}, "the number of requests is out of range"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(words: dict[str, object], said: str) -> None:
    with pytest.raises(GpufleetError, match=said):
        replayed(**words)
