"""The number formats that measurement files name, in the words of the api."""

from __future__ import annotations

import re
from functools import cache

from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.precision import FP8, FP8_BLOCK, PRECISIONS
from gpufleet.domain.precision_labels import AWQ
from gpufleet.errors import UnknownName
from gpufleet.inputs.measurements import MeasurementRow

SAME_FORMAT = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "f32": "fp32",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "float8": "fp8",
    "int8": "int8_wo",
    "gptq_int8": "int8_wo",
    "w8a16": "int8_wo",
    "w8a8": "int8",
    "smoothquant": "int8",
    "awq_int4": "awq",
    "int4_awq": "awq",
    "int4_g32": "int4",
    "int4_wo": "int4",
    "gptq": "int4",
    "gptq_int4": "int4",
    "gptq_4_bit_g128": "int4",
    "w4a16": "int4",
    "bnb_4bit": "nf4",
    "bnb_nf4": "nf4",
}
KV_IN_NOTES = re.compile(r"\b(bf16|fp16|fp8|int8)(?:_e\dm\d)? KV\b|\bKV cache (bf16|fp16|fp8|int8)\b", re.IGNORECASE)


def precision_of(text: str) -> str | None:
    """The format that a label means; None where it says nothing, the label itself where no table holds it.

    >>> precision_of("GPTQ-Int4"), precision_of("BF16"), precision_of("int8"), precision_of("")
    ('int4', 'bf16', 'int8_wo', None)
    """
    folded = re.sub(r"[\s\-]+", "_", text.strip().casefold())
    if not folded:
        return None
    if folded in SAME_FORMAT:
        return SAME_FORMAT[folded]
    return folded if folded in (*PRECISIONS, AWQ) else text.strip()


def weight_precision_of(row: MeasurementRow) -> str | None:
    """Linear layers and, where they differ, routed experts: 'fp8+fp8_block'; None is the checkpoint's own format.

    fp8 of a checkpoint whose scales are of blocks means those.
    """
    linear = precision_of(row.text("gemm_precision", "precision_weights", "precision"))
    experts = precision_of(row.text("moe_precision"))
    if linear is None or experts is None or linear == experts:
        return FP8_BLOCK.name if linear == FP8.name and is_scaled_by_block(row.text("checkpoint")) else linear
    return f"{linear}+{experts}"


@cache
def is_scaled_by_block(checkpoint: str) -> bool:
    """Whether a shipped model of this name is stored in fp8 with scales of blocks.

    >>> is_scaled_by_block("Qwen/Qwen3-32B-FP8"), is_scaled_by_block("Qwen/Qwen3-32B")
    (True, False)
    """
    try:
        return shipped_architecture(checkpoint).weights.name == FP8_BLOCK.name
    except UnknownName:
        return False


def kv_precision_of(row: MeasurementRow) -> str | None:
    """The KV format that a row states in its column or its notes; None is the engine's default."""
    stated = precision_of(row.text("precision_kv", "kv_precision"))
    if stated is not None:
        return "int8" if stated == "int8_wo" else stated
    noted = KV_IN_NOTES.search(row.text("notes"))
    return None if noted is None else (noted.group(1) or noted.group(2)).lower()
