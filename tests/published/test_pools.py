"""Prefill and decode on copies of their own, measured and published: InferenceX on DeepSeek-R1 and V3.

Rows of serving_points_disagg (aiconfigurator-core 0.12.0, Apache-2.0): means under a fixed number of clients, lengths
0.8 to 1 of those stated. No constant was fitted to them. TPOT within 35 %; TTFT, most of which is waiting, within a
factor of 2.
"""

from __future__ import annotations

import pytest

from gpufleet.api import estimate

TPOT_TOLERANCE = 0.35
TTFT_FACTOR = 2.0
MEAN_LENGTH_RATIO = 0.9


@pytest.mark.parametrize(
    ("engine", "precision", "prefill", "decode", "isl", "clients", "ttft_ms", "tpot_ms"),
    [
        ("tensorrt-llm", "fp8", "H200:8 TP8 EP8", "3x H200:8 TP8 EP8", 8192, 48, 1449, 21.4),
        ("tensorrt-llm", "fp8", "3x H200:8 DP8 EP8", "H200:8 DP8 EP8", 8192, 512, 4022, 58.3),
        ("tensorrt-llm", "fp8", "2x H200:8 DP8 EP8", "7x H200:8 DP8 EP8", 1024, 3584, 4742, 48.6),
        ("tensorrt-llm", "fp8", "B200:8 TP8", "B200:8 TP8", 8192, 1, 378, 7.29),
        ("tensorrt-llm", "fp8", "B200:8 DP8 EP8", "B200:8 DP8 EP8", 8192, 256, 3663, 33.7),
        ("tensorrt-llm", "nvfp4", "B200:4 DP4 EP4", "5x B200:8 TP8 EP8", 8192, 25, 946, 7.7),
        ("tensorrt-llm", "nvfp4", "B200:4 DP4 EP4", "B200:8 DP8 EP8", 1024, 4096, 5164, 44.9),
        ("sglang", "fp8+fp8_block", "B200:8 TP8 EP8", "B200:8 TP8 EP8", 8192, 4, 564, 10.2),
        ("sglang", "fp8+fp8_block", "H200:8 TP8", "H200:8 DP8 EP8", 8192, 64, 2026, 34.7),
        ("sglang", "nvfp4", "B200:4 TP4", "B200:8 TP8", 8192, 16, 696, 9.9),
    ],
    ids=str,
)
def test_means_of_measured_closed_loops(
    engine: str, precision: str, prefill: str, decode: str, isl: int, clients: int, ttft_ms: float, tpot_ms: float
) -> None:
    found = estimate(
        "deepseek-v3",
        prefill=prefill,
        decode=decode,
        input_tokens=MEAN_LENGTH_RATIO * isl,
        output_tokens=MEAN_LENGTH_RATIO * 1024,
        concurrency=clients,
        waves=10,
        precision=precision,
        kv_precision=None if engine == "sglang" else "fp8",
        engine=engine,
    )
    assert found.tpot_s.value * 1e3 == pytest.approx(tpot_ms, rel=TPOT_TOLERANCE)
    assert ttft_ms / TTFT_FACTOR < found.ttft_s.value * 1e3 < ttft_ms * TTFT_FACTOR
