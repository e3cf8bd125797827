"""What attention over chosen tokens takes: measured modules of whole layers less what their other operators take.

The other operators are timed by the shipped curves of the engine: fit those first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tools.calibrate.kernel_tables import ENGINES, GPUS, PROBES, in_16_bits, newest_rows

from gpufleet.architecture.sparse_attention import reach_tokens
from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture, Attention, Block, LatentAttention
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.mixers import NoFeedForward
from gpufleet.domain.precision import BF16
from gpufleet.performance.step import StepLoad, StepModel

Floats = NDArray[np.float64]
KEPT_TOKENS = 2048.0
RANKS = (1, 2, 4, 8)
SHAPE = ["num_heads", "batch_size", "isl", "step"]
CORE = ("latent decode", "latent prefill", "attention decode", "attention prefill")
BETWEEN_LAYERS = ("all-reduce after attention", "norms and residuals", "output head")
HOST_BOUND = 2.0
LEAST_SHARE = 0.05
EXPANDED = "dense_mha"
SLOW_BLOCKS = ["trtllm"]  # its block attention takes ten to a hundred times as long as that of others


@dataclass(frozen=True)
class Module:
    """A measured table: its model, the formats and heads that count, and kernels that are one with the core.

    Of `caches` the first that an engine measured counts.
    """

    family: str
    table: str
    model: str
    shipped: str
    weights: str
    caches: tuple[str, ...]
    heads: tuple[int, ...]
    with_core: Collection[str] = ()


SPARSE_PREFILL = Module(
    family="sparse_attention",
    table="dsa_context_module_perf",
    model="deepseek-ai/DeepSeek-V3.2",
    shipped="deepseek-v3.2",
    weights="fp8_block",
    caches=("bfloat16", "fp8"),
    heads=(16, 32, 64, 128),
)
BLOCK_PREFILL = Module(
    family="msa",
    table="msa_context_module_perf",
    model="MiniMaxAI/MiniMax-M3",
    shipped="minimax-m3",
    weights="bfloat16",
    caches=("bfloat16",),
    heads=(8, 16, 32, 64),
    with_core=("index prefill", "choice over prompts"),
)


def sparse_prefill_rows(gpu: Path) -> pd.DataFrame:
    """batch_size, num_heads, isl of DeepSeek-V3.2's attention over prompts without a prefix."""
    return core_rows(gpu, SPARSE_PREFILL)


def block_prefill_rows(gpu: Path) -> pd.DataFrame:
    """batch_size, num_heads, isl of MiniMax-M3's attention over prompts without a prefix, with its scores."""
    rows = core_rows(gpu, BLOCK_PREFILL)
    return rows if rows.empty else rows[~rows.engine.isin(SLOW_BLOCKS)]


def core_rows(gpu: Path, module: Module) -> pd.DataFrame:
    """Seconds of the core alone, of prompts that it has a share of and that do not wait for the host.

    A host takes about a millisecond to launch a module. Short prompts that an engine expands take what full attention
    takes.
    """
    rows = module_rows(gpu, module)
    if rows.empty:
        return rows
    others_s, full_core_s = seconds_of_parts(rows, gpu, module)
    is_full = rows.kernel_source.str.contains(EXPANDED)
    core_s = np.where(is_full, full_core_s, rows.latency_s - others_s)
    waits = rows.latency_s < HOST_BOUND * rows.groupby("engine").latency_s.transform("min")
    is_told = is_full | (~waits & (core_s > LEAST_SHARE * rows.latency_s))
    return in_16_bits(rows.assign(latency_s=core_s)[is_told])


def module_rows(gpu: Path, module: Module) -> pd.DataFrame:
    """The fastest kernel of each shape, prompts without a prefix, in the formats that count."""
    rows = newest_rows(gpu, module.family, module.table, [*SHAPE, "model", "gemm_type"], "kv_cache_dtype")
    if rows.empty:
        return rows
    rows = rows[(rows.model == module.model) & (rows.gemm_type == module.weights) & rows.num_heads.isin(module.heads)]
    rows = rows[rows.kv_cache_dtype.isin(module.caches) & (rows.step == 0)]
    preference = rows.kv_cache_dtype.map(module.caches.index)
    rows = rows[preference == preference.groupby(rows.engine).transform("min")]
    return rows.loc[rows.groupby(["engine", "version", *SHAPE]).latency_s.idxmin()]


def seconds_of_parts(rows: pd.DataFrame, gpu: Path, module: Module) -> tuple[Floats, Floats]:
    """Seconds of everything but the core, and of a core that reads the whole context, by the engine's curves."""
    others_s, core_s = np.zeros(len(rows)), np.zeros(len(rows))
    name = {**GPUS, **PROBES}[gpu.name]
    for engine in rows.engine.unique():
        is_own = (rows.engine == engine).to_numpy()
        step = model_of(name, ENGINES[engine], module.shipped)
        is_rank = rows.num_heads.to_numpy()[is_own, None] == step.arch.num_heads / np.array(RANKS)
        for operation in step.operations(load_of(rows[is_own])):
            seconds = (operation.seconds * is_rank).sum(axis=1)
            if operation.kernel in CORE:
                core_s[is_own] += seconds
            elif operation.kernel not in module.with_core and operation.name not in BETWEEN_LAYERS:
                others_s[is_own] += seconds
    return others_s, core_s


def load_of(rows: pd.DataFrame) -> StepLoad:
    """The steps that these rows are a layer of: [row, 1]."""
    prompts, tokens = (rows[name].to_numpy(dtype=np.float64)[:, None] for name in ("batch_size", "isl"))
    return StepLoad(np.zeros_like(prompts), 1.0, prompts, tokens)


@lru_cache(maxsize=1)
def measured() -> tuple[Mapping[str, Accelerator], Calibration]:
    """Accelerators with shipped curves."""
    accelerators = load_catalog().accelerators
    chosen = {name: accelerators[name] for name in (*GPUS.values(), *PROBES.values())}
    return chosen, load_calibration(tuple(chosen.values()))


@lru_cache(maxsize=32)
def model_of(gpu: str, engine: str, shipped: str) -> StepModel:
    """One layer on one GPU, with the heads that each of `RANKS` leaves it."""
    accelerators, calibration = measured()
    arch, zero = one_layer(shipped_architecture(shipped)), np.zeros(len(RANKS), dtype=np.int64)
    candidates = Candidates(
        Palette(tuple(accelerators.values()), (arch.weights,), (BF16,), (load_engine(engine),)),
        accelerator=zero + list(accelerators).index(gpu),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=np.array(RANKS),
        pp=zero + 1,
        ep=zero + 1,
        attention_dp=zero + 1,
        link_is_pcie=zero > 0,
        link_bytes_per_s=np.ones(len(RANKS)),
        through_host=zero > 0,
    )
    return StepModel.build(arch, candidates, calibration)


def one_layer(arch: Architecture) -> Architecture:
    """A layer that chooses, alone, reading all of its context: its core has curves before any of this was fitted."""
    mixer = next(block.mixer for block in arch.blocks if reach_tokens(block.mixer) < inf)
    if not isinstance(mixer, (Attention, LatentAttention)):
        raise TypeError(f"{arch.name}: no attention that chooses tokens")
    return replace(arch, blocks=(Block(1, replace(mixer, kept_tokens=inf), NoFeedForward()),))
