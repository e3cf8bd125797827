"""Laws of encoders: what must hold for every model, GPU, length and batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.api import estimate_encoder
from gpufleet.architecture.encoder_flops import tower_flop
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.runtimes import find_runtime, load_runtimes
from gpufleet.layout.support import runtime_refusal

TEXT = ("bert-base-uncased", "bert-large-uncased", "minilm-l6", "distilbert-base-uncased", "xlm-roberta-large")
GPUS = ("T4", "L4", "A10", "A100-SXM4-80GB", "H100-SXM", "B200", "RTX-4090", "MI300X")
ENGINES = ("transformers", "torchscript", "tensorflow-xla", "text-embeddings-inference", "infinity")
NOISE = 1e-9
RUNS = [
    (gpu, engine)
    for gpu in GPUS
    for engine in ENGINES
    if runtime_refusal(find_runtime(engine), load_catalog().accelerators[gpu]) is None
]
models, gpus, runs = st.sampled_from(TEXT), st.sampled_from(GPUS), st.sampled_from(RUNS)
tokens, batches = st.integers(1, 512), st.integers(1, 512)


def seconds(model: str, gpu: str, engine: str, length: int, batch: int) -> float:
    return estimate_encoder(model, gpu, input_tokens=length, batch=batch, engine=engine).latency_s.value


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(models, runs, tokens, tokens, batches)
def test_longer_sequences_are_never_faster(model: str, run: tuple[str, str], one: int, other: int, batch: int) -> None:
    short, long = sorted((one, other))
    assert seconds(model, *run, short, batch) <= seconds(model, *run, long, batch) * (1 + NOISE)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(models, runs, tokens, batches, batches)
def test_a_larger_batch_never_lowers_throughput_by_more_than_three_percent(
    model: str, run: tuple[str, str], length: int, one: int, other: int
) -> None:
    small, large = sorted((one, other))
    rates = [batch / seconds(model, *run, length, batch) for batch in (small, large)]
    assert rates[1] >= 0.97 * rates[0]


@settings(max_examples=40, deadline=None)
@given(models, runs, tokens, batches)
def test_no_pass_beats_the_arithmetic_of_its_gpu(model: str, run: tuple[str, str], length: int, batch: int) -> None:
    found = estimate_encoder(model, run[0], input_tokens=length, batch=batch, engine=run[1])
    flop = float(tower_flop(shipped_encoder(model).towers[0], length).total)
    assert found.inputs_per_s.value * flop < 2.5e15
    assert found.flop_per_input == pytest.approx(flop)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(("whisper-tiny", "whisper-large-v3", "whisper-large-v3-turbo")), gpus, st.integers(2, 448))
def test_a_longer_answer_is_never_faster(model: str, gpu: str, answer: int) -> None:
    asked = {"engine": "transformers", "batch": 4}
    times = [estimate_encoder(model, gpu, output_tokens=n, **asked).latency_s.value for n in (answer - 1, answer)]
    assert times[0] <= times[1] * (1 + NOISE)


@settings(max_examples=30, deadline=None)
@given(models, gpus, tokens, batches)
def test_ranges_hold_the_expected_value_and_copies_add_up(model: str, gpu: str, length: int, batch: int) -> None:
    one, four = (estimate_encoder(model, (gpu, n), input_tokens=length, batch=batch) for n in (1, 4))
    assert one.latency_s == four.latency_s
    assert four.inputs_per_s.value == pytest.approx(4 * one.inputs_per_s.value)
    rate = one.inputs_per_s
    assert (rate.low or 0.0) <= rate.value <= (rate.high or 0.0)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(models, runs, tokens, batches)
def test_memory_rises_with_batch_and_length(model: str, run: tuple[str, str], length: int, batch: int) -> None:
    def needed(n: int, b: int) -> float:
        return estimate_encoder(model, run[0], input_tokens=n, batch=b, engine=run[1]).memory_bytes.value

    assert needed(length, batch) <= needed(length, batch + 1)
    assert needed(max(length - 1, 1), batch) <= needed(length, batch)


def test_every_runtime_says_where_its_constants_come_from() -> None:
    for runtime in load_runtimes().values():
        ranges = (runtime.passes_range, runtime.answers_range)
        for figure in (runtime.launch_s, runtime.reserve_bytes, *(end for r in ranges for end in (r.low, r.high))):
            assert figure.source
            assert figure.points is not None
        assert all(r.low.value <= 0 <= r.high.value for r in ranges)
        assert all(bool(r.measured.rows) == bool(r.measured.gpus) for r in ranges)
        if runtime.speech:
            assert runtime.speech.host_s_per_audio_s.source
            assert runtime.speech.new_audio_ratio.source
