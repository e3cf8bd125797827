"""Layouts of a training run in arrays: every combination for a number of GPUs, and one rule a reason to drop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from gpufleet.domain.architecture import Architecture, Attention, MixtureOfExperts
from gpufleet.domain.arrays import BoolArray, IntArray
from gpufleet.domain.reason import Reason
from gpufleet.domain.training import Recipe, Recompute, Sharding, TrainingLayouts, TrainingMachine
from gpufleet.errors import UsageError
from gpufleet.records import dataclass

LONG_SEQUENCE_TOKENS, LEAST_PIECE_TOKENS = 8192, 4096
"""Sequences from which on context parallelism is tried, and the tokens of one that a rank keeps: judgement, as
frameworks advise it for sequences of 8k tokens and more; the ring was timed on two layouts alone."""


@dataclass(frozen=True)
class Grid:
    """What a search combines; empty `tensor_parallel`, `pipeline_parallel` and `data_parallel` take all that divide."""

    interleave: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
    micro_batch: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    recompute: tuple[Recompute, ...] = tuple(Recompute)
    sharding: tuple[Sharding, ...] = (Sharding.DDP, Sharding.ZERO_1, Sharding.ZERO_2, Sharding.ZERO_3, Sharding.HYBRID)
    context_parallel: tuple[int, ...] = (1, 2, 4, 8, 16)
    expert_parallel: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    tensor_parallel: tuple[int, ...] = (1, 2, 4, 8, 16)
    pipeline_parallel: tuple[int, ...] = ()
    data_parallel: tuple[int, ...] = ()


FINE = Grid()
COARSE = Grid(
    interleave=(1, 4, 16),
    micro_batch=(1, 2, 4, 8, 16),
    sharding=(Sharding.DDP, Sharding.ZERO_1, Sharding.ZERO_3),
    expert_parallel=(1, 8, 32),
)
"""What finds a machine type: the layouts on it are searched finely afterwards."""


def coarse(grid: Grid) -> Grid:
    """The coarse grid within a fine one."""
    return replace(COARSE, tensor_parallel=grid.tensor_parallel, pipeline_parallel=grid.pipeline_parallel)


@dataclass(frozen=True)
class Cluster:
    """So many GPUs of one kind of machine, of which a layout may leave some idle where `may_idle`."""

    device: int
    machine: TrainingMachine
    num_gpus: int
    may_idle: bool = False


@dataclass(frozen=True)
class Drop:
    """How many layouts a rule dropped."""

    reason: Reason
    count: int


def training_layouts(
    arch: Architecture, recipe: Recipe, cluster: Cluster, global_batch: int, grid: Grid = FINE
) -> tuple[TrainingLayouts, list[Drop]]:
    """Every layout of a cluster that the rules allow, and how many each rule dropped; memory is not asked yet."""
    layouts = combined(arch, recipe, cluster, global_batch, grid)
    drops, kept = [], np.ones(len(layouts), dtype=np.bool_)
    for code, rule in RULES.items():
        allowed = rule(arch, recipe, layouts, global_batch)
        if dropped := int((kept & ~allowed).sum()):
            drops.append(Drop(Reason(code), dropped))
        kept &= allowed
    return layouts.take(kept), drops


def combined(arch: Architecture, recipe: Recipe, cluster: Cluster, global_batch: int, grid: Grid) -> TrainingLayouts:
    """All combinations of a grid on a cluster, as arrays; a batch that no rank shares evenly is rounded down."""
    ranks = np.array(list(rank_splits(arch, recipe, cluster, global_batch, grid)), dtype=np.int64).reshape(-1, 5)
    others = np.array(
        list(product(interleaves(arch, grid), grid.sharding, grid.micro_batch, grid.recompute)), dtype=np.int64
    )
    tp, pp, cp, ep, dp = np.repeat(ranks, len(others), axis=0).T
    interleave, sharding, micro_batch, recompute = np.tile(others, (len(ranks), 1)).T
    return TrainingLayouts(
        device=np.full(len(tp), cluster.device, dtype=np.int64),
        tp=tp,
        pp=pp,
        interleave=interleave,
        cp=cp,
        ep=ep,
        dp=dp,
        sharding=sharding,
        micro_batch=micro_batch,
        num_micro_batches=np.maximum(global_batch // np.maximum(dp * micro_batch, 1), 1),
        recompute=recompute,
        sequence_parallel=tp > 1,
        ranks_per_node=np.full(len(tp), cluster.machine.num_gpus, dtype=np.int64),
    )


def rank_splits(
    arch: Architecture, recipe: Recipe, cluster: Cluster, global_batch: int, grid: Grid
) -> Iterator[tuple[int, int, int, int, int]]:
    """TP, PP, CP, EP and DP of every way to deal out the GPUs."""
    largest_tp = min(cluster.machine.num_gpus, cluster.num_gpus)
    tps = [tp for tp in grid.tensor_parallel if tp <= largest_tp]
    is_long = recipe.sequence_tokens >= LONG_SEQUENCE_TOKENS
    cps = grid.context_parallel if is_long or len(grid.context_parallel) == 1 else (1,)
    eps = grid.expert_parallel if arch.is_moe else (1,)
    for tp, cp in product(tps, cps):
        most = min(arch.num_layers, cluster.num_gpus // (tp * cp))
        for pp in grid.pipeline_parallel or range(1, most + 1):
            for dp in data_parallel(cluster, tp * cp * pp, global_batch, grid):
                for ep in eps:
                    yield tp, pp, cp, ep, dp


def data_parallel(cluster: Cluster, model_gpus: int, global_batch: int, grid: Grid) -> Sequence[int]:
    """How many copies of the model: those that use every GPU, or where some may idle all that share the batch."""
    most = cluster.num_gpus // model_gpus
    asked = grid.data_parallel
    if cluster.may_idle:
        shared = [dp for dp in range(1, min(most, global_batch) + 1) if global_batch % dp == 0]
        return [dp for dp in shared if not asked or dp in asked]
    return [most] if most and most * model_gpus == cluster.num_gpus and (not asked or most in asked) else []


def interleaves(arch: Architecture, grid: Grid) -> list[int]:
    """Chunks of layers a stage: no more than there are layers, and one where nothing is a pipeline."""
    if grid.pipeline_parallel == (1,):
        return [1]
    return [v for v in grid.interleave if v <= arch.num_layers]


Rule = Callable[[Architecture, Recipe, TrainingLayouts, int], BoolArray]


def heads_divide(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """Every tensor-parallel rank takes as many query heads, and KV heads divide or repeat."""
    allowed = np.ones(len(layouts), dtype=np.bool_)
    for block in arch.blocks:
        if block.mixer.num_heads:
            allowed &= block.mixer.num_heads % layouts.tp == 0
        if isinstance(block.mixer, Attention):
            kv = block.mixer.num_kv_heads
            allowed &= (kv % layouts.tp == 0) | (layouts.tp % kv == 0)
    return allowed


def batch_divides(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """The global batch is dealt out in whole micro-batches."""
    return np.asarray(global_batch % (layouts.dp * layouts.micro_batch) == 0)


def chunks_hold_layers(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """Every chunk of every stage holds a layer; stages may differ by one."""
    return np.asarray(layouts.pp * layouts.interleave <= arch.num_layers)


def interleaving_has_work(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """Interleaved stages pass micro-batches round in groups of as many as there are stages (Megatron-LM)."""
    alone = layouts.interleave == 1
    return np.asarray(alone | ((layouts.pp > 1) & (layouts.num_micro_batches % layouts.pp == 0)))


def weights_stay_with_a_pipeline(
    arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int
) -> BoolArray:
    """A pipeline keeps weights and gradients whole: gathering them for every micro-batch would undo it."""
    return np.asarray((layouts.pp == 1) | (layouts.sharding <= Sharding.ZERO_1))


def sharding_has_ranks(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """One copy of the model shares nothing; hybrid sharding needs copies in several machines."""
    ranks = layouts.dp * layouts.cp
    alone = (layouts.sharding == Sharding.DDP) | (ranks > 1)
    copies = (layouts.shard_ranks() < ranks) & (layouts.shard_ranks() > 1)
    return np.asarray(alone & ((layouts.sharding != Sharding.HYBRID) | copies))


def sequence_divides(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """Context parallelism cuts a sequence into two pieces a rank, an early and a late one, and not into crumbs."""
    whole = recipe.sequence_tokens % (2 * layouts.cp) == 0
    return np.asarray((layouts.cp == 1) | (whole & (recipe.sequence_tokens / layouts.cp >= LEAST_PIECE_TOKENS)))


def experts_divide(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """Experts are dealt out evenly over ranks of one stage."""
    stage = layouts.tp * layouts.cp * layouts.dp
    allowed = (layouts.ep <= stage) & (stage % layouts.ep == 0)
    for part in (b.feed_forward for b in arch.blocks if isinstance(b.feed_forward, MixtureOfExperts)):
        allowed &= part.num_experts % layouts.ep == 0
    return np.asarray(allowed)


def quantised_stay_whole(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """Frozen weights of 4 bits are not cut by tensor parallelism: no training stack does so."""
    is_narrow = recipe.is_frozen_base and recipe.base.mlp.bytes_per_element < 1
    return np.asarray((layouts.tp == 1) | (not is_narrow))


def steps_at_once(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, global_batch: int) -> BoolArray:
    """An optimizer that steps in the backward pass has no gradients to add up: one micro-batch a step."""
    return np.asarray((layouts.num_micro_batches == 1) | (not recipe.optimizer.in_backward))


RULES: dict[str, Rule] = {
    "training_heads": heads_divide,
    "training_batch": batch_divides,
    "training_chunks": chunks_hold_layers,
    "training_interleave": interleaving_has_work,
    "training_pipeline_sharding": weights_stay_with_a_pipeline,
    "training_sharding_alone": sharding_has_ranks,
    "training_sequence": sequence_divides,
    "training_experts": experts_divide,
    "training_in_backward": steps_at_once,
    "training_quantised": quantised_stay_whole,
}


def joined(parts: Sequence[TrainingLayouts]) -> TrainingLayouts:
    """Layouts of several clusters one after the other."""
    names = list(parts[0].columns())
    return TrainingLayouts(**{name: np.concatenate([getattr(each, name) for each in parts]) for name in names})


def rows_of(parts: Sequence[TrainingLayouts]) -> IntArray:
    """Which part each row of the joined layouts came from."""
    return np.repeat(np.arange(len(parts)), [len(each) for each in parts])


GRID_NAMES = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "dp": "data_parallel",
    "interleave": "interleave",
    "micro-batch": "micro_batch",
}


def grid_of(layout: Mapping[str, int], batch: int, *, tunes: bool = False) -> Grid:
    """The layouts that are searched: those with the parts that were said; who fine-tunes builds no pipeline unasked."""
    micro = layout.get("micro-batch")
    if micro is not None and micro > batch:
        raise UsageError("the micro-batch is larger than the global batch", found=micro, expected=f"at most {batch:,}")
    fixed: dict[str, tuple[int, ...]] = {GRID_NAMES[n]: (v,) for n, v in layout.items() if n in GRID_NAMES}
    if tunes and "pp" not in layout:
        fixed["pipeline_parallel"] = (1,)
    if "sharding" in layout:
        fixed["sharding"] = (Sharding(layout["sharding"]),)
    if "recompute" in layout:
        fixed["recompute"] = (Recompute(layout["recompute"]),)
    return replace(FINE, **fixed)  # type: ignore[arg-type]
