"""Reads measured kernel tables (parquet, latency in ms) into one shape of frame per operator.

Columns: precision, engine, latency_s and the shape. Only the newest version of each engine counts, except for
collectives, where versions differ mainly by the host they ran on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from gpufleet.units import MILLISECOND

GPUS = {
    "a100_sxm": "A100-SXM4-80GB",
    "l40s": "L40S",
    "h100_sxm": "H100-SXM",
    "h200_sxm": "H200-SXM",
    "b200_sxm": "B200",
    "b300_sxm": "B300",
    "rtx_pro_6000_server": "RTX-PRO-6000-Server",
}
PROBES = {"gb200": "GB200", "gb300": "GB300"}
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
TILE_STEP, LARGEST_DECODE = 8, 256
WEIGHT_ONLY = ("int8_wo", "int4_wo")
SLOW_GEMM = {("vllm", "fp8_block"): "DeepGemm|FlashInfer"}
GEMM_PRECISIONS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_wo",
    "int4_wo": "int4",
    "sq": "int8",
}
EXPERT_PRECISIONS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
}
KV_PRECISIONS = {"bfloat16": "bf16", "fp8": "fp8"}
PROXY_KERNELS = "situ_as_silu|w4a4mxfp4moe_marlin"  # a stand-in for the model's activation, or for its arithmetic
UNTUNED_KERNELS = "trtllm_mxfp4_bf16"  # slower than published gpt-oss runs of vLLM on B200: taken to be MXFP8 there
MADE_FOR_BLACKWELL = "flashinfer_trtllm|min_latency"
GENERAL_KERNELS = ["moe_torch_flow_cutlass", "moe_torch_flow_nongated"]
MADE_FOR_ANY = {"vllm": "vllm_fused_moe", "trtllm": "moe_torch_flow_cutlass"}
SUPERSEDED_PRECISIONS = ["nvfp4"]  # of TensorRT-LLM's general kernels; in other formats its tables hold them
SUPERSEDED_ON = ("b200_sxm", "b300_sxm")
SLOW_INT4_VERSIONS = ["0.19.0"]  # vLLM: Marlin on Blackwell, three to seven times slower than later
PLAIN_TOP_K = 22  # Nemotron Super and Ultra: experts without a gate, which not every table says
PLAIN_SHAPE = (2688, 1856)  # Nemotron Nano
BMM_PRECISIONS = {"bfloat16": "bf16"}
ELEMENT_BYTES = {"bfloat16": 2, "half": 2, "float16": 2}
WHOLE_DELTA_KERNELS = "fused_kda_decode|kda_fused_decode"  # convolution and state update in one
FASTER_THAN_MEMORY = ["trtllm"]  # its updates beat the bandwidth for a state in fp32: it must be kept in less
SMALLEST_PROMPT = 64
INDEX_SHAPE = ["batch_size", "isl", "step"]
COLLECTIVE_NAMES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def version_key(name: str) -> tuple[int, ...]:
    """Sorts 1.3.0rc20 after 1.3.0rc10 and 0.24.0 after 0.5.14 within one engine."""
    return tuple(int(part) for part in re.findall(r"\d+", name))


def table_files(gpu: Path, family: str, table: str) -> Iterator[tuple[str, str, Path]]:
    """Engine, version and path of each table of this name."""
    for path in sorted(gpu.glob(f"{family}/*/*/{table}.parquet")):
        yield path.parts[-3], path.parts[-2], path


def newest_rows(
    gpu: Path, family: str, table: str, shape: list[str], label: str, kernels: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """All engines; of each engine the newest version that measured a shape, all its kernels.

    `kernels`: those that are asked for, by engine; other engines have none.
    """
    files = sorted(table_files(gpu, family, table), key=lambda item: version_key(item[1]))
    frames = [
        pd.read_parquet(path).assign(engine=engine, version=version, age=age)
        for age, (engine, version, path) in enumerate(files)
    ]
    if not frames:
        return pd.DataFrame()
    rows = pd.concat(frames, ignore_index=True)
    if kernels is not None:
        rows = rows[rows.kernel_source == rows.engine.map(kernels)]
    newest = rows.groupby([*shape, label, "engine"], dropna=False).age.transform("max")
    rows = rows[rows.age == newest]
    return rows.assign(latency_s=rows.latency * MILLISECOND)


def gemm_rows(gpu: Path) -> pd.DataFrame:
    """m, n, k."""
    rows = newest_rows(gpu, "gemm", "gemm_perf", ["m", "n", "k"], "gemm_dtype")
    for (engine, dtype), kernels in SLOW_GEMM.items():
        slow = (rows.engine == engine) & (rows.gemm_dtype == dtype) & ~rows.kernel_source.str.contains(kernels)
        rows = rows[~slow]
    return labelled(rows[is_served(rows.m, rows.gemm_dtype)], "gemm_dtype", GEMM_PRECISIONS)


def is_served(m: pd.Series, dtype: pd.Series) -> pd.Series:
    """Whether engines multiply so many tokens in this format.

    Decode batches are padded to captured sizes: in fp8, 257 tokens take twice as long as 256, and nobody decodes 257.
    Prompts have any length: counts that fill the last tile and counts that just begin one stand for those between.
    Weight-only products end at 256 tokens: beyond, engines unpack the weights and multiply in 16 bits.
    """
    is_decode = m <= LARGEST_DECODE
    return (m <= TILE_STEP) | np.where(is_decode, m % TILE_STEP == 0, ~dtype.isin(WEIGHT_ONLY))


def attention_rows(gpu: Path, phase: str) -> pd.DataFrame:
    """batch, heads, kv_heads, head_dim, isl, step without a window; phase is 'context' or 'generation'."""
    rows = every_attention_row(gpu, phase)
    return rows[rows.window_size == 0]


def windowed_rows(gpu: Path) -> pd.DataFrame:
    """Decode over more tokens than a sliding window shows: the shape of `attention_rows` and window_size."""
    rows = every_attention_row(gpu, "generation")
    return rows[(rows.window_size > 0) & (rows.isl + rows.step > rows.window_size)]


def every_attention_row(gpu: Path, phase: str) -> pd.DataFrame:
    """With or without a window (0 for none)."""
    shape = ["batch_size", "num_heads", "num_key_value_heads", "head_dim", "window_size", "isl", "step", "attn_dtype"]
    rows = newest_rows(gpu, "attention", f"{phase}_attention_perf", shape, "kv_cache_dtype")
    kv_heads = rows.num_key_value_heads.where(rows.num_key_value_heads > 0, rows.num_heads)
    rows = rows.assign(kv_heads=kv_heads, window_size=rows.window_size.fillna(0))
    return labelled(rows, "kv_cache_dtype", KV_PRECISIONS)


def latent_rows(gpu: Path, phase: str) -> pd.DataFrame:
    """num_heads, batch_size, isl, step of the attention core without projections."""
    rows = newest_rows(gpu, "mla", f"{phase}_mla_perf", ["num_heads", "batch_size", "isl", "step"], "kv_cache_dtype")
    return rows if rows.empty else labelled(rows, "kv_cache_dtype", KV_PRECISIONS)


def absorb_rows(gpu: Path) -> pd.DataFrame:
    """num_tokens, num_heads; the products before and after the decode core added up."""
    shape = ["op_name", "num_tokens", "num_heads"]
    rows = newest_rows(gpu, "mla_bmm", "mla_bmm_perf", shape, "bmm_dtype")
    if rows.empty:
        return rows
    rows = labelled(rows, "bmm_dtype", BMM_PRECISIONS)
    best = rows.groupby(
        ["precision", "engine", "version", "op_name", "num_tokens", "num_heads"], as_index=False
    ).latency_s.min()
    whole = best.groupby(["precision", "engine", "version", "num_tokens", "num_heads"], as_index=False)
    both = whole.agg(latency_s=("latency_s", "sum"), parts=("latency_s", "size"))
    return both[both.parts == 2].drop(columns="parts")


def expert_rows(gpu: Path) -> pd.DataFrame:
    """tokens, h, i, top_k, experts, moe_tp, ep, products (2 where a model has no gate) under power-law routing."""
    rows = routed_rows(gpu)
    rows = rows[~((rows.precision == "int4") & rows.version.isin(SLOW_INT4_VERSIONS))]
    rows = rows[~rows.kernel_source.str.contains(f"{PROXY_KERNELS}|{UNTUNED_KERNELS}")]
    return current_versions(with_products(without_superseded(rows)))


def general_expert_rows(gpu: Path) -> pd.DataFrame:
    """The same of kernels that are not made for the GPU, which engines ran before they took those that are."""
    rows = routed_rows(gpu, MADE_FOR_ANY)
    return with_products(rows[rows.precision.isin(SUPERSEDED_PRECISIONS) | (rows.engine == "vllm")])


def routed_rows(gpu: Path, kernels: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Routed experts under power-law routing, in formats that gpufleet knows."""
    shape = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"]
    rows = newest_rows(gpu, "moe", "moe_perf", [*shape, "distribution"], "moe_dtype", kernels)
    return labelled(rows[rows.distribution.str.startswith("power_law")], "moe_dtype", EXPERT_PRECISIONS)


def with_products(rows: pd.DataFrame) -> pd.DataFrame:
    """With the products of an expert: two where a model has no gate."""
    plain = (rows.topk == PLAIN_TOP_K) | ((rows.hidden_size == PLAIN_SHAPE[0]) & (rows.inter_size == PLAIN_SHAPE[1]))
    return rows.assign(products=np.where(plain, 2, 3))


def without_superseded(rows: pd.DataFrame) -> pd.DataFrame:
    """Without NVFP4 experts on TensorRT-LLM's general path where there are kernels made for it (Blackwell with HBM)."""
    nvfp4 = rows[rows.precision == "nvfp4"]
    made_for_it = nvfp4[nvfp4.kernel_source.str.contains(MADE_FOR_BLACKWELL)]
    if made_for_it.empty:
        return rows
    superseded = nvfp4[nvfp4.kernel_source.isin(GENERAL_KERNELS)]
    lacking = nvfp4[~nvfp4.engine.isin(made_for_it.engine)]
    return rows.drop(superseded.index.union(lacking.index))


def current_versions(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each engine and precision the newest version that measured at least a quarter as much as any other."""
    count = rows.groupby(["precision", "engine", "age"]).size()
    most = count.groupby(["precision", "engine"]).transform("max")
    newest = count[count >= most / 4].reset_index().groupby(["precision", "engine"]).age.max().rename("newest")
    return rows.join(newest, on=["precision", "engine"]).query("age == newest")


def delta_rows(gpu: Path, kernel: str, phase: str) -> pd.DataFrame:
    """batch_size, seq_len, num_k_heads, num_v_heads; convolution and recurrence added up.

    `kernel` is 'gdn' or 'kda'; `phase` is 'context' or 'generation'.
    """
    family = {"gdn": "linear_attention", "kda": "kda"}[kernel]
    shape = ["phase", "batch_size", "seq_len", "num_k_heads", "num_v_heads"]
    rows = newest_rows(gpu, family, f"{kernel}_perf", shape, "kernel_source")
    if rows.empty:
        return rows
    rows = rows[rows.phase == phase]
    if phase == "generation":
        rows = rows[~rows.engine.isin(FASTER_THAN_MEMORY)]
    return in_16_bits(whole_delta_kernels(rows, ["engine", "version", *shape[1:]]))


def whole_delta_kernels(rows: pd.DataFrame, shape: list[str]) -> pd.DataFrame:
    """The faster of one kernel for all, and of convolution and recurrence one after the other."""
    source = rows.kernel_source
    whole = source.str.contains(WHOLE_DELTA_KERNELS)
    part = np.where(whole, "whole", np.where(source.str.contains("conv1d"), "convolution", "recurrence"))
    by_part = rows.assign(part=part).pivot_table(index=shape, columns="part", values="latency_s", aggfunc="min")
    by_part = by_part.reindex(columns=["whole", "convolution", "recurrence"])
    both = by_part.convolution + by_part.recurrence
    return by_part.whole.combine(both, np.fmin).dropna().rename("latency_s").reset_index()


def scoring_rows(gpu: Path) -> pd.DataFrame:
    """batch_size, entries: the paged index of DeepSeek-V4 scored for one new token of each sequence."""
    table, shape = "dsv4_paged_mqa_logits_module_perf", ["batch_size", "isl", "step", "compress_ratio"]
    rows = newest_rows(gpu, "sparse_attention", table, shape, "num_heads")
    if rows.empty:
        return rows
    rows = rows[rows.isl == 1]
    return in_16_bits(rows.assign(entries=np.maximum(rows.step // rows.compress_ratio, 1)))


def prompt_scoring_rows(gpu: Path) -> pd.DataFrame:
    """queries, entries (mean of each query): the index of GLM-5 over prompts; of single tokens engines page it."""
    rows = newest_rows(gpu, "sparse_attention", "glm5_mqa_logits_module_perf", INDEX_SHAPE, "num_heads")
    return rows if rows.empty else in_16_bits(queries_and_entries(rows[rows.isl >= SMALLEST_PROMPT]))


def choice_rows(gpu: Path) -> pd.DataFrame:
    """queries, entries: GLM-5's choice of 2,048; the geometric mean of even scores and of the best ones last."""
    rows = newest_rows(gpu, "sparse_attention", "glm5_topk_module_perf", [*INDEX_SHAPE, "score_mode"], "num_heads")
    if rows.empty:
        return rows
    rows = rows[rows.latency_s > 0]
    log_s = np.log(rows.latency_s).groupby([rows[c] for c in ["engine", "version", *INDEX_SHAPE]])
    return in_16_bits(queries_and_entries(np.exp(log_s.mean()).rename("latency_s").reset_index()))


def queries_and_entries(rows: pd.DataFrame) -> pd.DataFrame:
    """How many queries, and how many entries each of them meets in the mean: those before it and itself."""
    return rows.assign(queries=rows.batch_size * rows.isl, entries=rows.step + (rows.isl + 1) / 2)


def in_16_bits(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of kernels whose format does not depend on that of the weights or of the cache."""
    return rows.assign(precision="bf16")


def collective_rows(gpu: Path) -> pd.DataFrame:
    """collective, size_bytes, num_gpus; every version, best of NCCL and custom kernels later."""
    frames = []
    for table in ("nccl_perf", "custom_allreduce_perf"):
        for engine, version, path in table_files(gpu, "comm", table):
            frame = pd.read_parquet(path).assign(engine=engine, version=version)
            frames.append(frame.rename(columns={"nccl_dtype": "dtype", "allreduce_dtype": "dtype"}))
    rows = pd.concat(frames, ignore_index=True)
    rows["collective"] = rows.op_name.map(COLLECTIVE_NAMES).fillna("all_reduce")
    rows = rows[rows.dtype.isin(ELEMENT_BYTES)]
    size_bytes = rows.message_size * rows.dtype.map(ELEMENT_BYTES)
    return rows.assign(precision=rows.collective, size_bytes=size_bytes, latency_s=rows.latency * MILLISECOND)


def labelled(rows: pd.DataFrame, column: str, names: dict[str, str]) -> pd.DataFrame:
    """Rows of known number formats under the names that gpufleet uses."""
    rows = rows.assign(precision=rows[column].map(names))
    return rows[rows.precision.notna() & np.isfinite(rows.latency_s) & (rows.latency_s > 0)]
