"""How an engine is started, as words of every question: the longest request, blocks, whole prompts, graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import gpufleet
from gpufleet import ServeRequest
from gpufleet.api.configured import started_engine
from gpufleet.cli.answered import answered
from gpufleet.domain.engine_start import EngineStart
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.inputs.workload import parse_workload

LLAMA, QWEN = "llama-3.1-8b", "qwen3-0.6b"
LOAD: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 200}
SERVED = ServeRequest(LLAMA, 2.0, 1000, 200, slo="tpot.p95<80ms", gpus=["L4"], clouds=["gcp"])
EVERY = {"max_model_len": 4096, "block_size": 32, "enable_chunked_prefill": False, "enforce_eager": True}
TYPED = ["--max-model-len", "4096", "--block-size", "32", "--no-enable-chunked-prefill", "--enforce-eager"]


def estimated(model: str = LLAMA, gpus: str = "H100:1", **said: Any) -> gpufleet.ServingEstimate:
    """Clients of one copy."""
    return gpufleet.estimate(model, gpus, **{"concurrency": 64, **LOAD, **said})


def figures(found: gpufleet.ServingEstimate) -> tuple[object, ...]:
    """What an estimate comes to."""
    return found.tpot_s, found.ttft_s, found.output_tokens_per_s, found.largest_batch


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.19.1", {"max_model_len": 131072}),
        ("0.19.1", {"block_size": 16}),
        ("0.19.1", {"enable_chunked_prefill": True}),
        ("0.19.1", {"enforce_eager": False}),
        ("0.7.3", {"enable_chunked_prefill": False}),
    ],
    ids=str,
)
def test_what_is_said_as_it_is_by_default_changes_nothing(version: str, said: dict[str, Any]) -> None:
    assert figures(estimated(engine_version=version, **said)) == figures(estimated(engine_version=version))


@pytest.mark.parametrize(
    ("engine", "version", "words"),
    [
        ("vllm", "0.19.1", {"--max-model-len": "4096", "--block-size": "32", "--max-num-batched-tokens": "8192"}),
        ("sglang", "0.5.8", {"--context-length": "4096", "--page-size": "32", "--chunked-prefill-size": "-1"}),
        ("tensorrt-llm", "1.2", {"--max_seq_len": "4096"}),
    ],
)
def test_commands_have_the_words_of_their_engine(engine: str, version: str, words: dict[str, str]) -> None:
    found = estimated(engine=engine, engine_version=version, **EVERY).launch
    assert found is not None
    told = dict(zip(found.arguments, found.arguments[1:], strict=False))
    assert {flag: told[flag] for flag in words} == words
    switches = {
        "vllm": ["--no-enable-chunked-prefill", "--enforce-eager"], "sglang": ["--disable-cuda-graph"],
        "tensorrt-llm": [],
    }  # fmt: skip
    assert set(switches[engine]) <= set(found.arguments)
    if engine == "tensorrt-llm":
        assert "cuda_graph_config: null" in (found.options or "")
        assert "tokens_per_block: 32" in (found.options or "")
        assert "chunked" not in (found.options or "")


@pytest.mark.parametrize(
    "verb",
    [
        ["estimate", QWEN, "--gpus", "L4:1", "--in", "500", "--out", "100", "--concurrency", "4"],
        ["fit", QWEN, "--gpus", "L4:1"],
        ["plan", "serve", QWEN, "--rate", "2/s", "--in", "500", "--out", "100", "--gpus", "L4", "--clouds", "gcp"],
        ["plan", "batch", QWEN, "--requests", "1k", "--in", "500", "--out", "9", "--deadline", "24h", "--gpus", "L4"],
        ["regions", QWEN, "--rate", "2/s", "--in", "500", "--out", "100", "--gpus", "L4", "--clouds", "gcp"],
        ["mix", QWEN, "--rate", "2/s", "--in", "500", "--out", "100", "--gpus", "L4", "--clouds", "gcp"],
        ["compare", QWEN, LLAMA, "--rate", "2/s", "--in", "500", "--out", "100", "--gpus", "L4", "--clouds", "gcp"],
        ["simulate", QWEN, "--gpus", "L4:1", "--rate", "2/s", "--in", "500", "--out", "100", "--requests", "20"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_question_with_an_engine_takes_them(verb: list[str]) -> None:
    assert answered([*verb, *TYPED, "-o", "json"]).code == 0
    assert answered([*verb, "--max-model-len", "400" if verb[0] != "fit" else "0"]).code == 2


@pytest.mark.parametrize(
    ("said", "values"),
    [("max_model_len", (2048, 8192, 131072)), ("block_size", (512, 128, 16))],
)
def test_less_never_carries_more(said: str, values: tuple[int, ...]) -> None:
    plans = [gpufleet.plan_serve(SERVED, **{said: value}) for value in values]
    carried = [plan.answer.requests_per_s_capacity.value for plan in plans]
    assert carried == sorted(carried)
    assert [plan.answer.replicas for plan in plans] == sorted((p.answer.replicas for p in plans), reverse=True)


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("max_num_seqs", (8, 64, 256)),
        ("max_num_batched_tokens", (64, 512, 2048)),
        ("gpu_memory_utilization", (0.3, 0.5, 0.9)),
        ("max_model_len", (1200, 8192, 131072)),
        ("block_size", (512, 128, 16)),
    ],
)
def test_less_of_a_full_queue_is_never_done_faster(said: str, values: tuple[float, ...]) -> None:
    rates = [
        estimated(concurrency=None, full_queue=True, **{said: value}).output_tokens_per_s.value for value in values
    ]
    assert rates == sorted(rates)


def test_requests_that_are_longer_than_the_engine_takes_are_refused() -> None:
    for ask in (
        lambda: estimated(max_model_len=1199),
        lambda: estimated(concurrency=None, rate=1.0, max_model_len=1199),
        lambda: gpufleet.plan_serve(SERVED, max_model_len=1199),
        lambda: gpufleet.plan_serve(
            replace(SERVED, input_tokens=parse_token_counts("p50=500,p95=2000")), max_model_len=1500
        ),
        lambda: gpufleet.fit(LLAMA, "L4:1", 2000, max_model_len=1199),
        lambda: estimated(enable_chunked_prefill=False, max_num_batched_tokens=1199),
    ):
        with pytest.raises(UsageError):
            ask()
    assert estimated(max_model_len=1200).launch.arguments.count("1200") == 1  # type: ignore[union-attr]


def test_usual_lengths_beyond_it_are_told_of() -> None:
    plan = gpufleet.plan_serve(SERVED, max_model_len=2048)
    [note] = [note for note in plan.answer.launch.notes if "2,048" in note]  # type: ignore[union-attr]
    assert "refused" in note
    assert float(note.split("%")[0].split()[-1]) == pytest.approx(13.0, abs=4.0)


def test_an_engine_starts_only_with_room_for_its_longest_request() -> None:
    assert estimated(gpus="L4:1", concurrency=4, max_model_len=16384).largest_batch > 0
    with pytest.raises(GpufleetError):
        estimated(gpus="L4:1", concurrency=4, max_model_len=131072)
    assert estimated(gpus="L4:1", concurrency=4, max_model_len=131072, engine="sglang").largest_batch > 0
    assert not gpufleet.fit(LLAMA, "L4:1", 2000, max_model_len=131072).fits


def test_starts_of_a_published_log_are_judged_as_they_ended() -> None:
    """vllm-project/vllm issues/10517: a pool of 31,232 tokens takes 20,000, one of 23,648 does not take 29,000."""
    said = {"gpu_memory_utilization": 0.9, "engine_version": "0.6.4"}
    ran, failed = (gpufleet.fit(LLAMA, "RTX-3090:1", 1000, max_model_len=n, **said) for n in (20_000, 29_000))
    assert (ran.fits, failed.fits) == (True, False)
    assert [pool.value / 131072 for pool in (ran.kv_pool_bytes, failed.kv_pool_bytes) if pool] == pytest.approx(
        [31_232, 23_648], rel=0.02
    )
    assert any("--max-model-len" in change.what and change.verdict == "fits" for change in failed.changes)


def test_larger_blocks_lose_what_sequences_do_not_fill() -> None:
    small, large = (estimated(gpus="L4:1", concurrency=4, block_size=block).largest_batch for block in (16, 1024))
    assert large / small == pytest.approx(1104 / 2048, abs=0.04)


def test_without_graphs_steps_are_slower_and_memory_is_free() -> None:
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        was, now = (estimated(QWEN, "H100:1", concurrency=8, engine=engine, enforce_eager=e) for e in (None, True))
        assert now.tpot_s.value > 1.5 * was.tpot_s.value
        assert now.largest_batch >= was.largest_batch


def test_v0_with_chunks_decodes_beside_prompts() -> None:
    starts = [EngineStart(), EngineStart(chunks_prompts=True)]
    assert [started_engine("vllm", "0.7.3", start).figure("mixes_prompts", 1.0) for start in starts] == [0.0, 1.0]


def test_whole_prompts_take_steps_as_long_as_they_are() -> None:
    long = {"input_tokens": 12_000, "output_tokens": 100, "concurrency": 4}
    found = estimated(enable_chunked_prefill=False, **long).launch
    assert found is not None
    assert found.arguments[found.arguments.index("--max-num-batched-tokens") + 1] == "12100"
    crowded = {"input_tokens": 1900, "output_tokens": 400, "concurrency": 400, "max_num_batched_tokens": 2400}
    cut, whole = (estimated(QWEN, "H100:1", enable_chunked_prefill=c, **crowded) for c in (True, False))
    assert whole.output_tokens_per_s.value <= cut.output_tokens_per_s.value


def test_whole_prompts_wait_in_a_replay_until_a_step_has_room() -> None:
    load = {"input_tokens": "fixed=1500", "output_tokens": "fixed=200", "max_num_batched_tokens": 1700, "rate": "60/s"}
    cut, whole = (
        gpufleet.simulate_serving(QWEN, "H100:1", enable_chunked_prefill=c, requests=800, **load) for c in (True, False)
    )
    assert whole.num_requests == cut.num_requests
    assert whole.latency["latency.p95"].value > cut.latency["latency.p95"].value


@pytest.mark.parametrize(
    "said",
    [
        {"max_model_len": 200_000}, {"max_model_len": -1}, {"block_size": 0}, {"max_num_seqs": -5},
        {"block_size": 24, "engine_version": "0.11.2"}, {"enforce_eager": True, "engine": "llama.cpp"},
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048, "max_model_len": 4096},
        {"engine_version": "0.19.1 (V0)"}, {"engine_version": "0.5.4 (V1)"}, {"enforce_eager": "perhaps"},
    ],
    ids=str,
)  # fmt: skip
def test_what_no_engine_takes_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        estimated(**said)


def test_v0_of_a_newer_release_is_that_of_its_last_one() -> None:
    assert figures(estimated(engine_version="0.9.1 (V0)")) == figures(estimated(engine_version="0.7.3"))
    assert any("VLLM_USE_V1=0" in note for note in estimated(engine_version="0.9.1 (V0)").notes)


def test_a_file_says_them_too() -> None:
    said = parse_workload("max_model_len: 8k\nblock_size: 32\nenable_chunked_prefill: off\nenforce_eager: true").words
    assert {"max_model_len", "block_size", "enable_chunked_prefill", "enforce_eager"} == set(said)
