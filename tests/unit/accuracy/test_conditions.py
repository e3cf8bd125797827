"""What the row, the client and the engine say about a run."""

from __future__ import annotations

import pytest

from gpufleet.accuracy.conditions import EngineLabel, client_conditions, conditions_of, engine_of, layout_of
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow


@pytest.mark.parametrize(
    ("label", "name", "version"),
    [
        ("vLLM", "vllm", None),
        ("vLLM 0.11.0", "vllm", "0.11.0"),
        ("vLLM (main, 2024-12-14)", "vllm", None),
        ("TensorRT-LLM", "tensorrt-llm", None),
        ("HF transformers", "hf-transformers", None),
        ("trtllm", "trtllm", None),
    ],
)
def test_an_engine_label_holds_name_and_version(label: str, name: str, version: str | None) -> None:
    assert engine_of(label) == EngineLabel(name, version)


def test_streaming_is_a_condition_of_the_client_and_not_of_the_engine() -> None:
    assert client_conditions("inferencex", "trtllm").stream_interval_tokens == 20
    assert client_conditions("inferencex", "vllm").stream_interval_tokens == 1
    assert client_conditions("internal", "sglang").stream_interval_tokens == 1
    assert client_conditions("internal", "sglang").waves is None


def test_what_a_row_states_itself_comes_first() -> None:
    row = MeasurementRow(2, {"client": "inferencex", "waves": "4", "stream_interval_tokens": "5"})
    assert conditions_of(row, "sglang").waves == 4
    assert conditions_of(row, "sglang").stream_interval_tokens == 5


def test_gpus_without_tp_are_split_as_the_engine_splits() -> None:
    row = MeasurementRow(2, {"gpu_id": "A10G", "num_gpus": "4"})
    assert (layout_of(row, "llama.cpp").tp, layout_of(row, "llama.cpp").pp) == (1, 4)
    assert (layout_of(row, "vllm").tp, layout_of(row, "vllm").pp) == (4, 1)


def test_a_layout_uses_all_the_gpus_that_the_row_states() -> None:
    row = MeasurementRow(2, {"gpu_id": "B200", "num_gpus": "8", "tp": "1", "attention_dp": "8", "ep": "8"})
    assert layout_of(row, "sglang").num_gpus == 8
    with pytest.raises(UsageError, match="does not use the GPUs"):
        layout_of(MeasurementRow(2, {"gpu_id": "B200", "num_gpus": "8", "tp": "2"}), "vllm")


def test_a_row_without_gpu_says_so() -> None:
    with pytest.raises(UsageError, match="GPU not stated"):
        layout_of(MeasurementRow(2, {"tp": "2"}), "vllm")
