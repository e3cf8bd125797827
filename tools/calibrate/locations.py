"""Where measured kernels lie on the grid that holds them, and what the roofline is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tools.calibrate import modules

from gpufleet.architecture.recurrent import recurrence_flop_per_token, state_bytes_per_layer
from gpufleet.architecture.sparse_attention import index_flop_per_entry
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import ACTIVATION_BYTES, Axis, Curves, GemmCurves, Grids
from gpufleet.domain.mixers import GatedDeltaNet, TokenIndex
from gpufleet.domain.precision import PRECISIONS
from gpufleet.performance import (
    attention,
    collectives,
    delta_net,
    gemm,
    latent_attention,
    moe,
    sparse_attention,
    token_index,
)
from gpufleet.units import GIGA

Floats = NDArray[np.float64]
PCIE_BYTES_PER_S = {"L40S": 32 * GIGA, "RTX-PRO-6000-Server": 64 * GIGA}
MEASURED_DELTA_NET = (128, 128, 4)
POWER_LAW_BEND = 1.25
DEEPSEEK_V4_INDEX = TokenIndex(64, 128, 1536, 192, 132.0)
MINIMAX_M3_INDEX = TokenIndex(4, 128, 6144, 128, 256.0)
GLM_5_INDEX = TokenIndex(32, 128, 2048, 160, 132.0)


@dataclass(frozen=True)
class Located:
    """Shapes of one GPU and precision: their roofline and their place in the grid."""

    roofline_s: Floats
    coordinates: tuple[Floats, ...]


def bare(kind: type[Curves], accelerator: Accelerator, arithmetic: str, precision: str) -> Curves:
    """Curves that know the hardware but no table: for the roofline that the product uses too."""
    one = np.ones(1)
    fields = {
        "grids": Grids((Axis("none", 0, 1, 2),), np.zeros((1, 2)), 0.0),
        "table": np.zeros(1, dtype=np.int64),
        "peak_flop_per_s": one * accelerator.peak_flop_per_s[arithmetic],
        "bandwidth_bytes_per_s": one * accelerator.bandwidth_bytes_per_s,
        "bytes_per_element": one * PRECISIONS[precision].bytes_per_element,
        "log_slowdown": 0 * one,
        "lost_ratio": 0 * one,
        "grade": np.zeros(1, dtype=np.int64),
        "low_ratio": one,
        "high_ratio": one,
    }
    if kind is GemmCurves:
        fields["activation_bytes_per_element"] = one * ACTIVATION_BYTES.get(precision, 2.0)
    return kind(**fields)


def columns(frame: pd.DataFrame, *names: str) -> list[Floats]:
    return [frame[name].to_numpy(dtype=np.float64) for name in names]


def locate_gemm(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    m, n, k = columns(frame, "m", "n", "k")
    curves = bare(GemmCurves, accelerator, PRECISIONS[precision].arithmetic, precision)
    return Located(gemm.gemm_roofline_s(curves, m, n, k), gemm.gemm_coordinates(m, n, k))


def locate_decode(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("batch_size", "num_heads", "kv_heads", "head_dim", "isl", "step")
    batch, heads, kv_heads, head_dim, isl, step = columns(frame, *names)
    shape = (batch, heads, kv_heads, head_dim, isl + step)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    return Located(attention.decode_roofline_s(curves, *shape), attention.decode_coordinates(*shape))


def locate_window(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("batch_size", "kv_heads", "head_dim", "isl", "step", "window_size")
    batch, kv_heads, head_dim, isl, step, window = columns(frame, *names)
    return Located(np.ones(len(frame)), attention.window_coordinates(batch, kv_heads, head_dim, isl + step, window))


def locate_prefill(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("batch_size", "isl", "num_heads", "kv_heads", "head_dim")
    batch, tokens, heads, kv_heads, head_dim = columns(frame, *names)
    pairs = attention.causal_pairs(tokens, tokens)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = attention.prefill_roofline_s(curves, batch, tokens, tokens, pairs, heads, kv_heads, head_dim)
    return Located(roofline, attention.prefill_coordinates(batch, tokens, pairs, heads, kv_heads, head_dim))


def locate_latent_decode(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, heads, isl, step = columns(frame, "batch_size", "num_heads", "isl", "step")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    shape = (batch, heads, isl + step)
    roofline = latent_attention.latent_decode_roofline_s(curves, *shape)
    return Located(roofline, latent_attention.latent_decode_coordinates(*shape))


def locate_latent_prefill(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, heads, tokens = columns(frame, "batch_size", "num_heads", "isl")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    shape = (batch, tokens, attention.causal_pairs(tokens, tokens), heads)
    roofline = latent_attention.latent_prefill_roofline_s(curves, *shape)
    return Located(roofline, latent_attention.latent_prefill_coordinates(*shape))


def locate_absorb(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    tokens, heads = columns(frame, "num_tokens", "num_heads")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = latent_attention.absorb_roofline_s(curves, tokens, heads)
    return Located(roofline, latent_attention.absorb_coordinates(tokens, heads))


def locate_experts(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    names = ("num_tokens", "num_experts", "topk", "hidden_size", "inter_size", "moe_ep_size", "moe_tp_size")
    tokens, num_experts, top_k, hidden, inter, ep, moe_tp = columns(frame, *names)
    arithmetic = expert_arithmetic(accelerator, precision) or PRECISIONS[precision].arithmetic
    curves = bare(Curves, accelerator, arithmetic, precision)
    load = moe.share_of_rank(tokens * top_k, experts_of_power_law(tokens, num_experts, top_k), ep)
    roofline = moe.experts_roofline_s(curves, load, hidden, inter / moe_tp, frame.products.to_numpy(dtype=np.float64))
    return Located(roofline, moe.experts_coordinates(load, hidden, inter / moe_tp, ep))


def experts_of_power_law(tokens: Floats, num_experts: Floats, top_k: Floats) -> Floats:
    """Experts that get any of `tokens` where routing was drawn from a power law: E x (1 + x^p)^(-1/p), x = T k / E.

    p = 1.25: of experts in MXFP4 on H200 (128, four a token), rows of exponent 1.2 take as long as balanced rows with
    24, 36, 75 and 87 % of all experts at x = 0.25, 0.5, 2 and 4 (vLLM 0.24.0; read between its balanced rows by hand).
    """
    rows_per_expert = tokens * top_k / num_experts
    share = rows_per_expert * (1 + rows_per_expert**POWER_LAW_BEND) ** (-1 / POWER_LAW_BEND)
    return np.maximum(num_experts * share, top_k)


def expert_arithmetic(accelerator: Accelerator, precision: str) -> str | None:
    """MXFP4 experts multiply in fp8 where fp4 units exist (activations in MXFP8), else in 16 bit."""
    return "fp8" if precision == "mxfp4" and accelerator.computes("fp4") else None


def locate_collective(frame: pd.DataFrame, accelerator: Accelerator, collective: str) -> Located:
    size_bytes, ranks = columns(frame, "size_bytes", "num_gpus")
    link_bytes = collectives.exchanged_bytes(size_bytes, ranks) * (2 if collective == "all_reduce" else 1)
    link = PCIE_BYTES_PER_S.get(accelerator.name) or accelerator.nvlink_bytes_per_s
    return Located(link_bytes / link, collectives.collective_coordinates(size_bytes, ranks))


def work_of_heads(key_heads: Floats, heads: Floats) -> tuple[Floats, Floats, Floats]:
    """Bytes of a sequence's state, FLOP and bytes of a token, of gated delta nets with these heads on a device.

    All three are linear in both counts.
    """
    one, two = (GatedDeltaNet(1, n, *MEASURED_DELTA_NET) for n in (1, 2))

    def linear(figure: Callable[[GatedDeltaNet], float]) -> Floats:
        per_head = figure(two) - figure(one)
        return key_heads * (figure(one) - per_head) + heads * per_head

    kept = linear(lambda net: float(state_bytes_per_layer(net)))
    moved = linear(lambda net: 2.0 * (2 * net.convolved_width + net.value_width))
    return kept, linear(lambda net: float(recurrence_flop_per_token(net))), moved


def locate_update(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, key_heads, heads = columns(frame, "batch_size", "num_k_heads", "num_v_heads")
    state_bytes, _, _ = work_of_heads(key_heads, heads)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = delta_net.update_roofline_s(curves, batch, state_bytes)
    return Located(roofline, delta_net.update_coordinates(batch, heads))


def locate_chunks(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, tokens, key_heads, heads = columns(frame, "batch_size", "seq_len", "num_k_heads", "num_v_heads")
    state_bytes, flop, moved = work_of_heads(key_heads, heads)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    moved_bytes = batch * (tokens * moved + 2 * state_bytes)
    roofline = delta_net.chunks_roofline_s(curves, batch * tokens * flop, moved_bytes)
    return Located(roofline, delta_net.chunks_coordinates(batch, tokens, heads, heads / key_heads))


def locate_scoring(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, entries = columns(frame, "batch_size", "entries")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    flop, size = index_flop_per_entry(DEEPSEEK_V4_INDEX), DEEPSEEK_V4_INDEX.cache_bytes_per_entry
    roofline = token_index.entries_roofline_s(curves, batch, entries, flop, size)
    return Located(roofline, token_index.index_coordinates(batch, entries))


def locate_prompt_scoring(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    queries, entries = columns(frame, "queries", "entries")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = token_index.prompt_scores_roofline_s(curves, queries, entries, index_flop_per_entry(GLM_5_INDEX))
    return Located(roofline, token_index.index_coordinates(queries, entries))


def locate_choice(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    queries, entries = columns(frame, "queries", "entries")
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = token_index.choice_roofline_s(curves, queries, entries)
    return Located(roofline, token_index.index_coordinates(queries, entries))


def kept_of_prompts(tokens: Floats) -> Floats:
    """Tokens that a query of a prompt reads, in the mean."""
    return attention.causal_pairs(tokens, tokens, modules.KEPT_TOKENS) / tokens


def locate_sparse_prefill(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, heads, tokens = columns(frame, "batch_size", "num_heads", "isl")
    kept = kept_of_prompts(tokens)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    roofline = sparse_attention.sparse_prefill_roofline_s(curves, batch * tokens, kept, heads)
    return Located(roofline, sparse_attention.sparse_coordinates(batch * tokens, kept, heads))


def locate_block_prefill(frame: pd.DataFrame, accelerator: Accelerator, precision: str) -> Located:
    batch, heads, tokens = columns(frame, "batch_size", "num_heads", "isl")
    seen, kept = (tokens + 1) / 2, kept_of_prompts(tokens)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    flop = index_flop_per_entry(MINIMAX_M3_INDEX)
    roofline = sparse_attention.block_prefill_roofline_s(curves, batch * tokens, seen, kept, heads, flop)
    return Located(roofline, sparse_attention.sparse_coordinates(batch * tokens, seen, heads))


def powers(names: Sequence[str], coordinates: Sequence[Floats], **fixed: float) -> pd.DataFrame:
    """Shapes at these places of a grid whose axes are log2 of `names`."""
    return pd.DataFrame({name: 2.0**c for name, c in zip(names, coordinates, strict=True)}).assign(**fixed)


def gemm_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    return locate_gemm(powers(("m", "n", "k"), coordinates), accelerator, precision).roofline_s


def decode_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("batch_size", "isl", "num_heads", "head_dim"), coordinates, kv_heads=1, step=0)
    return locate_decode(frame, accelerator, precision).roofline_s


def prefill_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("rows", "mean_keys", "head_dim", "num_heads"), coordinates, kv_heads=1)
    tokens = 2 * frame.mean_keys - 1
    frame = frame.assign(isl=tokens, batch_size=frame.rows / (tokens * frame.num_heads))
    return locate_prefill(frame, accelerator, precision).roofline_s


def latent_decode_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("batch_size", "num_heads", "isl"), coordinates, step=0)
    return locate_latent_decode(frame, accelerator, precision).roofline_s


def latent_prefill_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("rows", "mean_keys"), coordinates, num_heads=1)
    tokens = 2 * frame.mean_keys - 1
    return locate_latent_prefill(
        frame.assign(isl=tokens, batch_size=frame.rows / tokens), accelerator, precision
    ).roofline_s


def absorb_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    return locate_absorb(powers(("num_tokens", "num_heads"), coordinates), accelerator, precision).roofline_s


def experts_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    rows_per_expert, experts, hidden, width, _ = (2.0**c for c in coordinates)
    arithmetic = expert_arithmetic(accelerator, precision) or PRECISIONS[precision].arithmetic
    curves = bare(Curves, accelerator, arithmetic, precision)
    load = moe.RankLoad(rows=rows_per_expert * experts, experts=experts)
    return moe.experts_roofline_s(curves, load, hidden, width, 3)


def collective_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, collective: str) -> Floats:
    return locate_collective(powers(("size_bytes", "num_gpus"), coordinates), accelerator, collective).roofline_s


def update_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("batch_size",), coordinates, num_k_heads=1, num_v_heads=1)
    return locate_update(frame, accelerator, precision).roofline_s


def chunks_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("states", "seq_len", "num_v_heads"), coordinates, num_k_heads=1)
    return locate_chunks(frame.assign(batch_size=frame.states / frame.num_v_heads), accelerator, precision).roofline_s


def scoring_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    return locate_scoring(powers(("batch_size", "entries"), coordinates), accelerator, precision).roofline_s


def prompt_scoring_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    return locate_prompt_scoring(powers(("queries", "entries"), coordinates), accelerator, precision).roofline_s


def choice_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    return locate_choice(powers(("queries", "entries"), coordinates), accelerator, precision).roofline_s


def sparse_prefill_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    queries, kept, heads = (2.0**c for c in coordinates)
    curves = bare(Curves, accelerator, PRECISIONS[precision].arithmetic, precision)
    return sparse_attention.sparse_prefill_roofline_s(curves, queries, kept, heads)


def block_prefill_roofline_at(coordinates: Sequence[Floats], accelerator: Accelerator, precision: str) -> Floats:
    frame = powers(("queries", "seen", "num_heads"), coordinates)
    frame = frame.assign(isl=2 * frame.seen - 1)
    frame = frame.assign(batch_size=frame.queries / frame.isl)
    return locate_block_prefill(frame, accelerator, precision).roofline_s
