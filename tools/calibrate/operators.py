"""What is measured and how it is placed: one `Operator` per family of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from tools.calibrate import kernel_tables, locations, modules, quantisation
from tools.calibrate.grid_fit import SlopeLimits
from tools.calibrate.locations import Floats, Located

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import Axis
from gpufleet.units import MICROSECOND

SLICES = 4
ReadRows: TypeAlias = Callable[[Path], pd.DataFrame]
LocateRows: TypeAlias = Callable[[pd.DataFrame, Accelerator, str], Located]
RooflineAt: TypeAlias = Callable[[Sequence[Floats], Accelerator, str], Floats]


@dataclass(frozen=True)
class Operator:
    """One family of kernels: how to read it, where its points lie, and the grid that holds it.

    `tuned_formats`: engines choose their kernel at start, by trying; tables of their calls hold what comes untried.
    """

    name: str
    fixed_s: float
    axes: tuple[Axis, ...]
    shape: tuple[str, ...]
    read: ReadRows
    locate: LocateRows
    roofline_at: RooflineAt
    rising: tuple[int, ...] = ()
    proportional: tuple[int, ...] = ()
    drops_slow_engines: bool = False
    engines_cover_alike: bool = True
    streams_memory: bool = False
    tables_per_engine: bool = False
    slow_engines_are_served: bool = False
    tuned_formats: tuple[str, ...] = ()

    def slope_limits(self, accelerator: Accelerator, precision: str) -> list[SlopeLimits]:
        """Seconds must not fall along the axes `rising`, nor outgrow those of `proportional`.

        The roofline bends inside a cell where the grid is straight: what counts is its least and greatest slope there.
        """
        return [self._limit(axis, accelerator, precision) for axis in sorted({*self.rising, *self.proportional})]

    def _limit(self, which: int, accelerator: Accelerator, precision: str) -> SlopeLimits:
        axis = self.axes[which]
        places = [a.low + a.step * np.arange(a.count) for a in self.axes]
        places[which] = axis.low + axis.step / SLICES * np.arange((axis.count - 1) * SLICES + 1)
        mesh = np.meshgrid(*places, indexing="ij")
        base = np.log(self.roofline_at([m.ravel() for m in mesh], accelerator, precision) + self.fixed_s)
        slopes = np.moveaxis(np.diff(base.reshape(mesh[0].shape), axis=which), which, -1)
        by_cell = SLICES * slopes.reshape(*slopes.shape[:-1], axis.count - 1, SLICES)
        low, high = (np.moveaxis(edge, -1, which) for edge in (by_cell.min(-1), by_cell.max(-1)))
        return SlopeLimits(
            which,
            low=-low if which in self.rising else np.full_like(low, -np.inf),
            high=axis.step * np.log(2) - high if which in self.proportional else np.full_like(high, np.inf),
        )


def delta_decode(name: str, kernel: str) -> Operator:
    """Updates of the states of one kind of gated delta net."""
    return Operator(
        name,
        4 * MICROSECOND,
        (Axis("log2 states", 0, 1, 18),),
        ("batch_size", "num_k_heads", "num_v_heads"),
        lambda gpu: kernel_tables.delta_rows(gpu, kernel, "generation"),
        locations.locate_update,
        locations.update_roofline_at,
        rising=(0,),
        proportional=(0,),
        streams_memory=True,
    )


def delta_prefill(name: str, kernel: str, shared_keys: int) -> Operator:
    """Prompts of one kind of gated delta net; engines serve kernels that differ by a factor."""
    return Operator(
        name,
        20 * MICROSECOND,
        (
            Axis("log2 states", 0, 1.5, 12),
            Axis("log2 tokens", 0, 1.5, 11),
            Axis("log2 value heads / key heads", 0, 1, shared_keys),
        ),
        ("batch_size", "seq_len", "num_k_heads", "num_v_heads"),
        lambda gpu: kernel_tables.delta_rows(gpu, kernel, "context"),
        locations.locate_chunks,
        locations.chunks_roofline_at,
        rising=(0, 1),
        proportional=(0,),
        streams_memory=True,
        tables_per_engine=True,
        slow_engines_are_served=True,
    )


def chosen_prefill(
    name: str, attended: Axis, heads: Axis, read: ReadRows, locate: LocateRows, roofline_at: RooflineAt
) -> Operator:
    """Prompts of which each query attends to tokens that were chosen for it; engines serve kernels that differ."""
    return Operator(
        name,
        8 * MICROSECOND,
        (Axis("log2 queries", 8, 1.5, 7), attended, heads),
        ("batch_size", "num_heads", "isl"),
        read,
        locate,
        roofline_at,
        rising=(0, 1),
        proportional=(2,),
        tables_per_engine=True,
        engines_cover_alike=False,
        slow_engines_are_served=True,
    )


DECODE = Operator(
    "decode",
    5 * MICROSECOND,
    (
        Axis("log2 batch * kv heads", 0, 1.5, 12),
        Axis("log2 context", 1, 1.5, 12),
        Axis("log2 heads / kv heads", 0, 1.5, 4),
        Axis("log2 head_dim", 6, 1, 4),
    ),
    ("batch_size", "num_heads", "kv_heads", "head_dim", "isl", "step"),
    lambda gpu: kernel_tables.attention_rows(gpu, "generation"),
    locations.locate_decode,
    locations.decode_roofline_at,
    rising=(0, 1),
    proportional=(0,),
    tables_per_engine=True,
    drops_slow_engines=True,
    streams_memory=True,
)
WINDOW = Operator(
    "window",
    0.0,
    (
        Axis("log2 batch * kv heads", 0, 3, 6),
        Axis("log2 context / window", 0, 2, 6),
        Axis("log2 window", 7, 3, 3),
        Axis("log2 head_dim", 6, 1, 3),
    ),
    ("batch_size", "num_heads", "kv_heads", "head_dim", "isl", "step", "window_size"),
    kernel_tables.windowed_rows,
    locations.locate_window,
    lambda coordinates, accelerator, precision: np.ones_like(coordinates[0]),
    rising=(1,),
)
OPERATORS = (
    Operator(
        "gemm",
        2 * MICROSECOND,
        (Axis("log2 m", 0, 1, 15), Axis("log2 n", 5, 1, 12), Axis("log2 k", 5, 1, 12)),
        ("m", "n", "k"),
        quantisation.product_rows,
        locations.locate_gemm,
        locations.gemm_roofline_at,
        rising=(0,),
        proportional=(1, 2),
        tables_per_engine=True,
        streams_memory=True,
        tuned_formats=("nvfp4",),
    ),
    DECODE,
    Operator(
        "prefill",
        8 * MICROSECOND,
        (
            Axis("log2 query rows", 2, 2, 11),
            Axis("log2 mean keys", 0, 1.4, 11),
            Axis("log2 head_dim", 6, 1, 4),
            Axis("log2 heads / kv heads", 0, 2.5, 3),
        ),
        ("batch_size", "isl", "num_heads", "kv_heads", "head_dim"),
        lambda gpu: kernel_tables.attention_rows(gpu, "context"),
        locations.locate_prefill,
        locations.prefill_roofline_at,
        rising=(0,),
        proportional=(0,),
        tables_per_engine=True,
    ),
    Operator(
        "latent_decode",
        8 * MICROSECOND,
        (Axis("log2 batch", 0, 1, 11), Axis("log2 heads", 0, 1, 8), Axis("log2 context", 1, 2, 9)),
        ("num_heads", "batch_size", "isl", "step"),
        lambda gpu: kernel_tables.latent_rows(gpu, "generation"),
        locations.locate_latent_decode,
        locations.latent_decode_roofline_at,
        rising=(0, 1, 2),
        proportional=(1,),
        tables_per_engine=True,
        drops_slow_engines=True,
        streams_memory=True,
    ),
    Operator(
        "latent_prefill",
        8 * MICROSECOND,
        (Axis("log2 query rows", 0, 2, 13), Axis("log2 mean keys", 0, 1.4, 11)),
        ("num_heads", "batch_size", "isl"),
        lambda gpu: kernel_tables.latent_rows(gpu, "context"),
        locations.locate_latent_prefill,
        locations.latent_prefill_roofline_at,
        rising=(0,),
        proportional=(0,),
        tables_per_engine=True,
        drops_slow_engines=True,
    ),
    Operator(
        "latent_absorb",
        4 * MICROSECOND,
        (Axis("log2 tokens", 0, 1, 14), Axis("log2 heads", 0, 1, 8)),
        ("num_tokens", "num_heads"),
        kernel_tables.absorb_rows,
        locations.locate_absorb,
        locations.absorb_roofline_at,
        rising=(0, 1),
        proportional=(1,),
    ),
    Operator(
        "experts",
        15 * MICROSECOND,
        (
            Axis("log2 rows per active expert", 0, 1.5, 9),
            Axis("log2 active experts", -3, 1.75, 8),
            Axis("log2 hidden", 11, 1, 3),
            Axis("log2 width", 5, 1.8, 6),
            Axis("log2 ep", 0, 3, 3),
        ),
        ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "products"),
        kernel_tables.expert_rows,
        locations.locate_experts,
        locations.experts_roofline_at,
        rising=(0, 1),
        proportional=(1, 3),
        tables_per_engine=True,
        engines_cover_alike=False,
        streams_memory=True,
    ),
    Operator(
        "collectives",
        4 * MICROSECOND,
        (Axis("log2 bytes", 8, 1, 23), Axis("log2 ranks", 1, 1, 3)),
        ("size_bytes", "num_gpus"),
        kernel_tables.collective_rows,
        locations.locate_collective,
        locations.collective_roofline_at,
        rising=(0,),
        tables_per_engine=True,
    ),
    delta_decode("delta_decode", "gdn"),
    delta_prefill("delta_prefill", "gdn", shared_keys=3),
    delta_decode("kda_decode", "kda"),
    delta_prefill("kda_prefill", "kda", shared_keys=2),
    Operator(
        "index_decode",
        4 * MICROSECOND,
        (Axis("log2 sequences", 0, 2, 6), Axis("log2 entries", 0, 2, 10)),
        ("batch_size", "entries"),
        kernel_tables.scoring_rows,
        locations.locate_scoring,
        locations.scoring_roofline_at,
        rising=(0, 1),
        streams_memory=True,
    ),
    Operator(
        "index_prefill",
        5 * MICROSECOND,
        (Axis("log2 queries", 6, 1.5, 10), Axis("log2 entries", 4, 1.5, 11)),
        ("batch_size", "isl", "queries", "entries"),
        kernel_tables.prompt_scoring_rows,
        locations.locate_prompt_scoring,
        locations.prompt_scoring_roofline_at,
        rising=(0, 1),
    ),
    Operator(
        "index_choice",
        5 * MICROSECOND,
        (Axis("log2 queries", 0, 1.5, 13), Axis("log2 entries", 4, 1.5, 11)),
        ("batch_size", "isl", "queries", "entries"),
        kernel_tables.choice_rows,
        locations.locate_choice,
        locations.choice_roofline_at,
        rising=(0, 1),
    ),
    chosen_prefill(
        "sparse_prefill",
        Axis("log2 kept tokens", 4, 1, 8),
        Axis("log2 heads", 4, 1, 4),
        modules.sparse_prefill_rows,
        locations.locate_sparse_prefill,
        locations.sparse_prefill_roofline_at,
    ),
    chosen_prefill(
        "block_prefill",
        Axis("log2 seen tokens", 5, 1.5, 7),
        Axis("log2 heads", 3, 1, 4),
        modules.block_prefill_rows,
        locations.locate_block_prefill,
        locations.block_prefill_roofline_at,
    ),
)
