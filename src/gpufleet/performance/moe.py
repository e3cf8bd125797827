"""Routed experts on one device: grouped matrix products over the experts that got a token."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Curves, ExpertCurves
from gpufleet.performance.interpolation import curve_s, log2
from gpufleet.performance.roofline import RowRoofline, roofline_s
from gpufleet.records import dataclass

ACTIVATION_BYTES = 2.0
LEAST_EXPERTS = 1e-3


def active_experts(tokens: Floats, num_experts: Floats, top_k: Floats, popularity_shape: Floats) -> FloatArray:
    """Expected number of experts that at least one of `tokens` chooses, of which each chooses `top_k`.

    A = E - (E - k) (1 + (T - 1) k / (E s))^-s   [experts]

    Experts differ in how often they are chosen: their popularity is gamma distributed with shape s, so that tokens
    after the first one miss an expert as counts of a negative binomial are zero. s -> infinity: all alike.

    >>> round(float(active_experts(16, 256, 8, 1e6)), 1)
    100.8
    >>> round(float(active_experts(16, 256, 8, 0.7)), 1)
    82.8
    """
    others = (np.asarray(tokens, dtype=np.float64) - 1) * top_k / num_experts
    missed = np.exp(-popularity_shape * np.log1p(np.maximum(others, 0.0) / popularity_shape))
    return np.asarray(num_experts - (num_experts - np.asarray(top_k)) * missed)


def experts_flop(rows: Floats, hidden_size: Floats, width: Floats, num_products: Floats) -> Floats:
    """Operations of `rows` token-expert pairs through products of hidden_size x width (three when gated).

    >>> experts_flop(8, 4096, 1536, 3) / 1e6
    301.989888
    """
    return rows * (2 * num_products * hidden_size * width)


def experts_bytes(
    experts: Floats, rows: Floats, hidden_size: Floats, width: Floats, num_products: Floats, weight_bytes: Floats
) -> Floats:
    """Bytes moved: the weights of every active expert once, inputs and outputs of every row.

    >>> experts_bytes(8, 0, 4096, 1536, 3, 2.0) / 2**20
    288.0
    """
    weights = experts * (num_products * hidden_size * width * weight_bytes)
    return weights + rows * ((hidden_size + width) * (2 * ACTIVATION_BYTES))


@dataclass(frozen=True)
class RankLoad:
    """What one rank of an expert-parallel group works on: token-expert rows, and experts that got any."""

    rows: FloatArray
    experts: FloatArray


def busiest_rank(tokens: Floats, num_experts: Floats, top_k: Floats, ep: Floats, popularity_shape: Floats) -> RankLoad:
    """What a rank of `ep` gets of `tokens` that enter the whole group, whose experts differ in popularity."""
    return share_of_rank(tokens * np.asarray(top_k), active_experts(tokens, num_experts, top_k, popularity_shape), ep)


def share_of_rank(rows: Floats, experts: Floats, ep: Floats) -> RankLoad:
    """An even share of the rows and of the active experts; the grid's EP axis holds the excess of the busiest rank."""
    of_rank = np.maximum(experts / np.asarray(ep, dtype=np.float64), LEAST_EXPERTS)
    return RankLoad(rows=np.maximum(rows / np.asarray(ep, dtype=np.float64), of_rank), experts=of_rank)


def experts_coordinates(load: RankLoad, hidden_size: Floats, width: Floats, ep: Floats) -> tuple[FloatArray, ...]:
    """Where a grouped product stands in the grid: rows per active expert, active experts, hidden, width, EP.

    >>> [float(c) for c in experts_coordinates(RankLoad(np.array(256.0), np.array(32.0)), 4096, 1024, 8)]
    [3.0, 5.0, 12.0, 10.0, 3.0]
    """
    return log2(load.rows / load.experts), log2(load.experts), log2(hidden_size), log2(width), log2(ep)


def experts_roofline_s(
    curves: Curves, load: RankLoad, hidden_size: Floats, width: Floats, num_products: Floats
) -> FloatArray:
    """Least seconds of the grouped products of one rank."""
    size_bytes = experts_bytes(load.experts, load.rows, hidden_size, width, num_products, curves.bytes_per_element)
    flop = experts_flop(load.rows, hidden_size, width, num_products)
    return roofline_s(flop, curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def experts_rows(curves: Curves, hidden_size: Floats, width: Floats, num_products: Floats) -> RowRoofline:
    """The same roofline as what each row adds to reading the weights of its expert."""
    read_bytes = experts_bytes(1.0, 0.0, hidden_size, width, num_products, curves.bytes_per_element)
    moved_bytes = experts_bytes(0.0, 1.0, hidden_size, width, num_products, curves.bytes_per_element)
    return RowRoofline(
        compute_s=experts_flop(1.0, hidden_size, width, num_products) / curves.peak_flop_per_s,
        read_s=read_bytes / curves.bandwidth_bytes_per_s,
        moved_s=moved_bytes / curves.bandwidth_bytes_per_s,
    )


def experts_s(
    curves: ExpertCurves,
    load: RankLoad,
    hidden_size: Floats,
    expert_width: Floats,
    ep: Floats,
    moe_tp: Floats,
    gated: bool = True,
) -> FloatArray:
    """Seconds of one layer's routed experts on a rank of `ep` with this load.

    t = exp(grid) (max(2 g rows h i / peak, bytes of active experts / bandwidth) + 15 us)   [s]
    i = expert_width / moe_tp, g = 3 products when gated, 2 when not. Source: measured fused-MoE kernels,
    `data/calibration/kernels.csv`. Valid: 1-16,384 tokens, 8-896 experts, top-k 1-22, EP 1-256.
    """
    width = np.asarray(expert_width / np.asarray(moe_tp, dtype=np.float64))
    roofline = experts_roofline_s(curves, load, hidden_size, width, 3 if gated else 2)
    return curve_s(curves, roofline, experts_coordinates(load, hidden_size, width, ep))
