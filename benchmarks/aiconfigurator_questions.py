"""Measured rows in the words of aiconfigurator 0.12: checkpoint, formats, system, engine, layout, lengths and batch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.accuracy.conditions import StatedLayout, engine_of_row, layout_of
from gpufleet.accuracy.precisions import kv_precision_of, weight_precision_of
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.models import load_model_config, shipped_architecture
from gpufleet.domain.precision_labels import kv_precision, weight_format
from gpufleet.inputs.measurements import MeasurementRow

SYSTEMS = {
    "A100-SXM4-80GB": "a100_sxm",
    "L40S": "l40s",
    "H100-SXM": "h100_sxm",
    "H200-SXM": "h200_sxm",
    "B200": "b200_sxm",
}
BACKENDS = {"trtllm": "trtllm", "tensorrt-llm": "trtllm", "vllm": "vllm", "sglang": "sglang"}
FORMATS = {"fp16": "bfloat16", "bf16": "bfloat16"}
ANY_LATENCY_MS = 1e9
MXFP4_MODELS = ("gpt-oss-120b",)
BLACKWELL_MXFP4 = {"moe_quant_mode": "w4a8_mxfp4_mxfp8"}


@dataclass(frozen=True)
class Checkpoint:
    """A model that aiconfigurator ships; `has_formats`: its config states the formats of weights and KV."""

    name: str
    has_formats: bool = True


@dataclass(frozen=True)
class Choices:
    """What aiconfigurator is told beyond its defaults.

    `context_budget`: prompt tokens of one engine step (None: one prompt, its default). `stated_gemm`: the row's GEMM
    format instead of the checkpoint's.
    """

    context_budget: int | None = None
    stated_gemm: bool = False


CHECKPOINTS = {
    ("deepseek-v3", "fp8"): Checkpoint("deepseek-ai/DeepSeek-V3"),
    ("deepseek-v3", "fp4"): Checkpoint("nvidia/DeepSeek-V3.1-NVFP4"),
    ("gpt-oss-120b", "fp4"): Checkpoint("openai/gpt-oss-120b"),
    ("llama-3.1-8b", "fp8"): Checkpoint("meta-llama/Meta-Llama-3.1-8B", has_formats=False),
    ("minimax-m2.5", "fp8"): Checkpoint("MiniMaxAI/MiniMax-M2.5"),
    ("minimax-m2.5", "fp4"): Checkpoint("nvidia/MiniMax-M2.5-NVFP4"),
    ("qwen3-235b-a22b", "fp8"): Checkpoint("Qwen/Qwen3-235B-A22B-FP8"),
    ("qwen3-32b", "fp8"): Checkpoint("Qwen/Qwen3-32B", has_formats=False),
}


def backend_of(row: MeasurementRow) -> str:
    """aiconfigurator's name of a row's engine; empty where it has none."""
    return BACKENDS.get(engine_of_row(row).name, "")


def aiconfigurator_question(row: MeasurementRow, folder: Path, choices: Choices) -> dict[str, object]:
    """What a row asks, as `aiconfigurator_worker.py` reads it."""
    layout = layout_of(row, engine_of_row(row).name)
    ratio = row.number("mean_length_ratio") or 1.0
    arguments: dict[str, object] = {
        **model_arguments(row, folder, choices),
        "system_name": SYSTEMS[row.text("gpu_id")],
        "backend_name": backend_of(row),
        "backend_version": "current",
        "isl": round((row.number("isl") or 0.0) * ratio),
        "osl": round((row.number("osl") or 0.0) * ratio),
    }
    if row.text("scenario") == "max_throughput":
        return {"ask": "search", "arguments": arguments | search_arguments(row, layout)}
    arguments |= estimate_arguments(row, layout)
    if choices.context_budget and arguments["mode"] == "agg":
        arguments["ctx_tokens"] = step_tokens(arguments, choices.context_budget)
    return {"ask": "estimate", "arguments": arguments}


def estimate_arguments(row: MeasurementRow, layout: StatedLayout) -> dict[str, object]:
    """One batch in one layout; a batch counts the sequences of one attention-DP rank."""
    clients = row.number("concurrency") or row.number("batch_or_concurrency") or 1.0
    experts = {"moe_ep_size": layout.ep or 1, "moe_tp_size": expert_tp(layout)} if is_moe(row) else {}
    return {
        "mode": "static" if row.text("scenario") == "fixed_batch" else "agg",
        "batch_size": math.ceil(clients / layout.attention_dp),
        "tp_size": layout.tp,
        "pp_size": layout.pp,
        "attention_dp_size": layout.attention_dp,
        **experts,
    }


def step_tokens(arguments: Mapping[str, Any], context_budget: int) -> int:
    """The budget, where the other sequences of the batch have as many prompt tokens; at least one prompt."""
    isl, others = int(arguments["isl"]), int(arguments["batch_size"]) - 1
    return max(isl, min(context_budget, others * isl))


def search_arguments(row: MeasurementRow, layout: StatedLayout) -> dict[str, object]:
    """One layout and no limit on latency: the search is left the batch."""
    return {
        "serving_mode": "agg",
        "ttft": ANY_LATENCY_MS,
        "tpot": ANY_LATENCY_MS,
        "total_gpus": layout.num_gpus,
        "agg_num_gpu_candidates": [layout.num_gpus],
        "agg_tp_candidates": [layout.tp],
        "agg_pp_candidates": [layout.pp],
        "agg_dp_candidates": [layout.attention_dp],
        "agg_moe_tp_candidates": [expert_tp(layout) if is_moe(row) else 1],
        "agg_moe_ep_candidates": [layout.ep or 1],
    }


def expert_tp(layout: StatedLayout) -> int:
    """GPUs that share one expert."""
    return layout.tp * layout.attention_dp // (layout.ep or 1)


def is_moe(row: MeasurementRow) -> bool:
    return shipped_architecture(row.text("model_id")).is_moe


def model_arguments(row: MeasurementRow, folder: Path, choices: Choices) -> dict[str, object]:
    """The checkpoint that its package ships, else a folder with the model's config; formats that neither states.

    MXFP4 experts take activations in MXFP8 under TensorRT-LLM on Blackwell; the checkpoint alone does not say so.
    """
    model = row.text("model_id")
    checkpoint = CHECKPOINTS.get((model, row.text("precision"))) or Checkpoint(config_folder(model, folder), False)
    formats = {} if checkpoint.has_formats else format_arguments(row)
    if choices.stated_gemm and row.text("gemm_precision") and model not in MXFP4_MODELS:
        formats |= {"gemm_quant_mode": row.text("gemm_precision")}
    if model in MXFP4_MODELS and (backend_of(row), row.text("gpu_id")) == ("trtllm", "B200"):
        formats |= BLACKWELL_MXFP4
    return {"model_path": checkpoint.name, **formats}


def config_folder(model: str, folder: Path) -> str:
    """A folder with the `config.json` of a shipped model."""
    path = folder / model / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(load_model_config(model)), encoding="utf-8")
    return str(path.parent)


def format_arguments(row: MeasurementRow) -> dict[str, object]:
    """Formats that the row states; a KV format that it does not state is the one that gpufleet takes too."""
    stated = weight_precision_of(row)
    weights = (stated or "bf16").split("+")
    arch, engine = shipped_architecture(row.text("model_id")), find_engine(engine_of_row(row).name)
    kv = kv_precision_of(row) or kv_precision(weight_format(arch, stated), engine).name
    return {
        "gemm_quant_mode": FORMATS.get(weights[0], weights[0]),
        "kvcache_quant_mode": FORMATS.get(kv, kv),
        **({"moe_quant_mode": FORMATS.get(weights[-1], weights[-1])} if is_moe(row) else {}),
    }
