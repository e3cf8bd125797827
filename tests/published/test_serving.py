"""Speeds that engines' makers and users published, beside ours.

Serving points: measured closed loops in the Apache-2.0 package aiconfigurator-core 0.12.0 (rows by source file).
Maximum throughput: TensorRT-LLM 0.14.0, `docs/source/performance/perf-overview.md`, tokens/s of generated tokens.
Single stream: pytorch-labs/gpt-fast README at 32971d3129 (batch 1, A100-SXM4-80GB), prompt of 5 tokens.

The tolerance of each kind of row is what its own noise and ours allow: parties agree within 2-3 %, and engine versions
move a figure by 5-20 %. A measured time must also lie near the predicted range.
"""

from __future__ import annotations

from statistics import median

import pytest

from gpufleet.api import estimate

SERVING_TOLERANCE = 0.35
THROUGHPUT_TOLERANCE = 0.25
SINGLE_STREAM_TOLERANCE = 0.25
RANGE_SLACK = 1.25


@pytest.mark.parametrize(
    ("model", "gpus", "engine", "version", "precision", "layout", "lengths", "concurrency", "tpot_ms"),
    [
        ("llama-3.1-8b", "H100:1", "tensorrt-llm", "1.0.0rc3", None, {}, (2048, 512), 16, 9.70),
        ("llama-3.1-8b", "H100:2", "tensorrt-llm", "1.0.0rc3", None, {}, (1024, 512), 8, 4.83),
        ("qwen3-32b", "H100:4", "tensorrt-llm", "1.0.0rc3", "fp8", {}, (1024, 512), 32, 10.64),
        ("qwen3-32b", "H100:4", "vllm", "0.12.0", None, {}, (1024, 512), 32, 14.18),
        ("qwen3-32b", "H100:2", "vllm", "0.12.0", None, {}, (4096, 128), 8, 26.34),
        ("qwen3-32b", "H100:2", "sglang", "0.5.1.post1", None, {}, (1024, 512), 64, 23.57),
        ("qwen3-32b", "H100:8", "sglang", "0.5.1.post1", None, {}, (2048, 256), 16, 8.76),
        ("qwen3-235b-a22b", "H100:8", "tensorrt-llm", "1.0.0rc3", "fp8", {"ep": 8}, (512, 128), 4, 11.44),
        ("llama-3.1-8b", "H200:1", "vllm", "0.12.0", "fp8", {}, (4000, 2000), 128, 23.46),
    ],
    ids=str,
)
def test_time_per_token_of_measured_closed_loops(
    model, gpus, engine, version, precision, layout, lengths, concurrency, tpot_ms
) -> None:
    found = estimate(
        model, gpus, engine=engine, engine_version=version, precision=precision, concurrency=concurrency,
        input_tokens=lengths[0], output_tokens=lengths[1], length_spread=0.0, **layout,
    ).tpot_s  # fmt: skip
    assert found.value * 1e3 == pytest.approx(tpot_ms, rel=SERVING_TOLERANCE)
    assert found.low / RANGE_SLACK < tpot_ms / 1e3 < found.high * RANGE_SLACK


@pytest.mark.parametrize(
    ("model", "gpus", "engine", "version", "precision", "layout", "lengths", "concurrency", "tpot_ms"),
    [
        ("gpt-oss-120b", "B200:1", "vllm", "0.15.1", "fp4", {}, (1024, 1024), 32, 7.93),
        ("gpt-oss-120b", "H100:4", "vllm", "0.18.0", "fp4", {}, (1024, 1024), 4, 4.02),
        ("minimax-m2.5", "H200:8", "vllm", "0.18.0", "fp8", {"ep": 8}, (1024, 8192), 4, 7.96),
        ("deepseek-v3", "H200:8", "sglang", "0.5.9", "fp8", {}, (8192, 1024), 32, 31.97),
        ("deepseek-v3", "B200:8", "tensorrt-llm", "1.2.0rc6.post3", "fp4", {}, (1024, 1024), 128, 15.01),
    ],
    ids=str,
)
def test_time_per_token_of_public_benchmark_clients(
    model, gpus, engine, version, precision, layout, lengths, concurrency, tpot_ms
) -> None:
    """Ten prompts per client, lengths of 0.8-1.0 of the nominal: their mean is 0.9 of it."""
    found = estimate(
        model, gpus, engine=engine, engine_version=version, precision=precision, concurrency=concurrency,
        input_tokens=0.9 * lengths[0], output_tokens=0.9 * lengths[1],
        waves=10, length_spread=0.2, **layout,
    ).tpot_s  # fmt: skip
    assert found.value * 1e3 == pytest.approx(tpot_ms, rel=SERVING_TOLERANCE)
    assert found.low / RANGE_SLACK < tpot_ms / 1e3 < found.high * RANGE_SLACK


MAXIMUM_THROUGHPUT = [
    ("H200:4", "fp8", 128, 128, 8829.1),
    ("H200:8", "fp8", 128, 2048, 19722.6),
    ("H200:8", "fp8", 5000, 500, 2725.1),
    ("H200:2", "fp8", 128, 4096, 5687.3),
    ("H100:4", "fp8", 1000, 1000, 6925.1),
    ("H100:8", "fp8", 1000, 1000, 10733.1),
    ("H100:8", "fp8", 128, 4096, 9279.1),
    ("H100:4", "fp16", 2048, 128, 670.7),
    ("H100:4", "fp16", 128, 4096, 3093.7),
    ("H100:8", "fp16", 128, 4096, 5001.3),
    ("A100:8", "fp16", 128, 4096, 2948.5),
    ("L40S:4", "fp8", 128, 4096, 1279.2),
    ("A100-PCIe-80GB:8", "fp16", 128, 4096, 1350.8),
]


def test_maximum_throughput_of_llama_3_70b() -> None:
    """Over all 147 rows of the table the median error is 8 %; eight H100 in fp16 with long answers are its worst."""
    ratios = [
        estimate(
            "llama-3-70b", gpus, engine="tensorrt-llm", engine_version="0.14.0", precision=precision,
            kv_precision="fp8" if precision == "fp8" else None, input_tokens=prompt, output_tokens=answer,
            full_queue=True,
        ).output_tokens_per_s.value / tokens_per_s
        for gpus, precision, prompt, answer, tokens_per_s in MAXIMUM_THROUGHPUT
    ]  # fmt: skip
    assert all(0.5 < ratio < 2 for ratio in ratios)
    assert median(abs(ratio - 1) for ratio in ratios) <= THROUGHPUT_TOLERANCE


@pytest.mark.parametrize(
    ("model", "gpus", "precision", "tokens_per_s"),
    [
        ("llama-2-7b", "A100:1", "bf16", 104.90),
        ("llama-2-7b", "A100:1", "int8_wo", 155.58),
        ("llama-2-7b", "A100:1", "int4", 196.80),
        ("llama-2-7b", "A100:8", "bf16", 328.43),
        ("llama-3.1-8b", "A100:4", "bf16", 217.21),
        ("llama-2-70b", "A100:2", "bf16", 21.32),
        ("llama-2-70b", "A100:8", "bf16", 62.50),
        ("llama-2-70b", "A100:8", "int8_wo", 80.44),
        ("mixtral-8x7b", "A100:4", "bf16", 155.35),
    ],
)
def test_single_stream_of_gpt_fast(model, gpus, precision, tokens_per_s) -> None:
    found = estimate(model, gpus, engine="gpt-fast", precision=precision, input_tokens=5, output_tokens=200, batch=1)
    assert 1 / found.tpot_s.value == pytest.approx(tokens_per_s, rel=SINGLE_STREAM_TOLERANCE)


def test_eight_gpus_of_gpt_fast_are_as_much_faster_than_one_as_published() -> None:
    """Llama-2-7B: 104.9 tokens/s on one A100, 328.43 on eight: 3.1 times, not eight."""
    one, eight = (
        estimate("llama-2-7b", f"A100:{n}", engine="gpt-fast", input_tokens=5, output_tokens=200, batch=1).tpot_s.value
        for n in (1, 8)
    )
    assert one / eight == pytest.approx(328.43 / 104.90, rel=0.2)


QWEN2_TOLERANCE = 0.08
GQA_RATIO = 1.1


@pytest.mark.parametrize(("prompt_tokens", "tokens_per_s"), [(63_488, 41.2), (129_024, 25.01)])
def test_long_contexts_of_grouped_queries_before_flash_attention_decoded_them(
    prompt_tokens: int, tokens_per_s: float
) -> None:
    """Qwen2-7B in bf16 on an A100 under vLLM 0.4.2: QwenLM/Qwen3 speed_benchmark.rst@4da996c, 2,048 tokens each."""
    version = {"engine": "vllm", "engine_version": "0.4.2", "precision": "bf16"}
    found = estimate("qwen2-7b", "A100:1", input_tokens=prompt_tokens, output_tokens=2048, batch=1, **version)
    assert found.output_tokens_per_s.value == pytest.approx(tokens_per_s, rel=QWEN2_TOLERANCE)


def test_each_query_head_reads_the_cache_before_flash_attention_decodes() -> None:
    """PagedAttention shares nothing in a group (until vllm pull/3648); heads that are not grouped lose nothing."""
    load = {"engine": "vllm", "input_tokens": 60_000, "output_tokens": 64, "batch": 1}
    grouped, single = (
        estimate(model, "A100:1", engine_version="0.4.2", **load).tpot_s.value
        / estimate(model, "A100:1", engine_version="0.5.5", **load).tpot_s.value
        for model in ("qwen2-7b", "llama-2-7b")
    )
    assert grouped > GQA_RATIO > single
