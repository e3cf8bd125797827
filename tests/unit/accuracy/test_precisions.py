"""Number formats as measurement files spell them."""

from __future__ import annotations

import pytest

from gpufleet.accuracy.precisions import kv_precision_of, precision_of, weight_precision_of
from gpufleet.inputs.measurements import MeasurementRow


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("", None),
        ("BF16", "bf16"),
        ("fp16", "fp16"),
        ("F16", "fp16"),
        ("FP8", "fp8"),
        ("fp8_block", "fp8_block"),
        ("nvfp4", "nvfp4"),
        ("int4-awq", "awq"),
        ("AWQ", "awq"),
        ("int4_wo", "int4"),
        ("GPTQ-Int4", "int4"),
        ("GPTQ 4-bit g128", "int4"),
        ("GPTQ-Int8", "int8_wo"),
        ("int8", "int8_wo"),
        ("w8a8", "int8"),
    ],
)
def test_a_label_means_one_format(label: str, name: str | None) -> None:
    assert precision_of(label) == name


def test_an_unknown_label_is_passed_on_for_the_api_to_refuse() -> None:
    assert precision_of("EXL2 3.0 bpw") == "EXL2 3.0 bpw"


def test_experts_are_named_where_they_differ() -> None:
    row = MeasurementRow(2, {"precision": "fp8", "gemm_precision": "fp8", "moe_precision": "fp8_block"})
    assert weight_precision_of(row) == "fp8+fp8_block"
    same = MeasurementRow(2, {"gemm_precision": "nvfp4", "moe_precision": "nvfp4"})
    assert weight_precision_of(same) == "nvfp4"


def test_fp8_of_a_checkpoint_scaled_by_block_means_blocks() -> None:
    row = {"precision": "fp8", "gemm_precision": "fp8", "moe_precision": "fp8"}
    assert weight_precision_of(MeasurementRow(2, {**row, "checkpoint": "Qwen/Qwen3-235B-A22B-FP8"})) == "fp8_block"
    assert weight_precision_of(MeasurementRow(2, {**row, "checkpoint": "Qwen/Qwen3-32B"})) == "fp8"
    assert weight_precision_of(MeasurementRow(2, {**row, "checkpoint": "my/own"})) == "fp8"


def test_kv_format_is_read_from_its_column_before_the_notes() -> None:
    noted = {"notes": "KV cache int8; batch 16"}
    assert kv_precision_of(MeasurementRow(2, noted)) == "int8"
    assert kv_precision_of(MeasurementRow(2, {**noted, "precision_kv": "fp8"})) == "fp8"
    assert kv_precision_of(MeasurementRow(2, {"notes": "fp8_e4m3 KV; 4.99 GiB per GPU"})) == "fp8"
    assert kv_precision_of(MeasurementRow(2, {"notes": "batch 1"})) is None
