"""What a row of measured training memory means: the recipe and the layout that it ran with.

Read by columns. What a row leaves blank follows these rules:

- `precision` "bf16-true" and the like are words of Lightning Fabric: PyTorch without fused kernels, flash attention,
  losses in chunks, no recompute on one GPU; sharded over several it recomputes whole blocks, each one flat weight, and
  accumulates micro-batches. Adapters without columns are of rank 8 on q and v.
- "mixed" precision in full pre-training is Megatron: fused kernels, dropout, no flash attention unless the row says so.
- A row that states `recompute` itemises: what it leaves blank was off. A cumulative step that swaps full training for
  adapters keeps the offload of activations that the steps before it turned on.
- Any other row ran what its software does by itself: a chunked loss, 4-bit training with full recompute, and else the
  first of these that has room on its GPU: nothing recomputed; whole layers; for full training on one GPU 8-bit paged
  states with steps in the backward pass as well. Adapters without columns are of rank 8 on every matrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import BF16, FP32, NF4, Precision, WeightFormat
from gpufleet.domain.training import (
    ADAMW,
    ADAMW_8BIT,
    ALL_LINEAR,
    BF16_AUTOCAST,
    BF16_MIXED,
    BF16_PURE,
    FP16_MIXED,
    FP32_TRAINING,
    Adapter,
    Method,
    NumberFormats,
    Optimizer,
    Recipe,
    Recompute,
    Sharding,
    TrainingLayouts,
    one_layout,
)
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.memory.band import Band
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.records import dataclass
from gpufleet.units import GIB

NO = frozenset(("no", "false", "0", "n"))
YES = frozenset(("yes", "true", "1", "y"))
PEFT_RANK = 8
CHUNKS_OF = re.compile(r"interleave (\d+)")
MICRO_BATCHES = re.compile(r"\bin (\d+) micro-batches\b")
SIZE_IN_NAME = re.compile(r"\b(\d+) ?GB\b")
NF4_SINGLE = Precision("nf4", 0.5 + 4 / 64, "bf16")
"""One fp32 scale per 64 weights, not quantised again."""


@dataclass(frozen=True)
class Conditions:
    """One way that a row can have been run."""

    recipe: Recipe
    layout: TrainingLayouts


def recipe_of(row: MeasurementRow) -> Recipe:
    """What the row trains and with what software, before savers that it does not state."""
    method = method_of(row)
    sequence = row.positive("seq_len")
    if sequence is None:
        raise UsageError("sequence length not stated")
    return Recipe(
        method=method,
        formats=formats_of(row),
        optimizer=optimizer_of(row),
        sequence_tokens=sequence,
        adapter=None if method is Method.FULL else adapter_of(row),
        base=base_of(row, method),
        compiled=is_on(row, "compile") or is_megatron(row),
        flash="flash" in row.text("notes").lower() or not is_megatron(row),
        chunked_loss=is_on(row, "loss_chunked") or not (row.text("recompute") or is_megatron(row)),
        offloads_activations=is_on(row, "activation_offload") or keeps_offload(row, method),
        dropout=is_megatron(row),
        flat_blocks=is_lightning(row),
        offloads_weights=offloads_weights(row),
        fused_loss=row.text("loss_compiled").lower() not in NO,
    )


def layout_of(row: MeasurementRow) -> TrainingLayouts:
    """How the row lies over GPUs; DP is what remains after TP, PP and CP."""
    tp, pp, cp = (row.whole(column) or 1 for column in ("tp", "pp", "cp"))
    devices = row.whole("num_gpus") or tp * pp * cp
    dp = row.whole("dp") or max(devices // (tp * pp * cp), 1)
    chunks = CHUNKS_OF.search(row.text("sharding"))
    micro_batch = row.whole("micro_batch")
    if micro_batch is None:
        raise UsageError("micro-batch not stated")
    return one_layout(
        tp,
        pp,
        cp,
        dp,
        interleave=int(chunks.group(1)) if chunks else 1,
        sharding=sharding_of(row),
        micro_batch=micro_batch,
        num_micro_batches=num_micro_batches(row, pp),
        recompute=recompute_of(row),
        sequence_parallel=any(word in stated_layout(row) for word in ("sequence parallel", "seq-par +")),
    )


def conditions_of(
    row: MeasurementRow, arch: Architecture, device_bytes: float | None, constants: TrainingMemoryConstants
) -> Conditions:
    """Recipe and layout of a row; savers that it does not state are the fewest that have room on its GPU."""
    ways = list(possible_conditions(row))
    if device_bytes is None:
        return ways[0]
    for way in ways:
        memory = training_memory(arch, way.recipe, way.layout, device_bytes, constants)
        if bool(memory.fits[0]):
            return way
    return ways[-1]


def possible_conditions(row: MeasurementRow) -> Iterator[Conditions]:
    """Ways that the row can have been run, the one with the fewest savers first."""
    stated = Conditions(recipe_of(row), layout_of(row))
    if states_savers(row):
        yield stated
        return
    recomputed = Conditions(stated.recipe, _recomputing(stated.layout, Recompute.FULL))
    if stated.recipe.method is not Method.QLORA:
        yield stated
    yield recomputed
    may_save_states = not row.text("optimizer") and stated.layout.num_devices[0] == 1
    if stated.recipe.method is Method.FULL and may_save_states:
        paged = replace(stated.recipe, optimizer=replace(ADAMW_8BIT, in_backward=True, is_paged=True))
        yield Conditions(paged, stated.layout)
        yield Conditions(paged, recomputed.layout)


def device_bytes_of(row: MeasurementRow, catalog: Catalog) -> float | None:
    """Memory of the row's GPU: of the catalog, else the size in its name ('RTX-A6000-48GB' has 48 GiB)."""
    for name in filter(None, (row.text("gpu_id"), row.text("gpu"))):
        try:
            return resolve_gpu(catalog, name).accelerator.memory_bytes
        except UsageError:
            continue
    stated = SIZE_IN_NAME.search(row.text("gpu"))
    return float(stated.group(1)) * GIB if stated else None


def reported_peak(row: MeasurementRow, memory: TrainingMemory) -> Band:
    """What the row's tool reports of a prediction: memory that was allocated; with fragmentation where 'reserved'."""
    is_reserved = "reserved" in row.text("notes").lower()
    return memory.peak.beside(memory.fragmentation) if is_reserved else memory.peak


def states_savers(row: MeasurementRow) -> bool:
    """Whether what a row leaves blank is known: it itemises, or its software has no other way."""
    return bool(row.text("recompute")) or is_lightning(row) or is_megatron(row)


def _recomputing(layout: TrainingLayouts, mode: Recompute) -> TrainingLayouts:
    return replace(layout, recompute=layout.recompute * 0 + int(mode))


def is_on(row: MeasurementRow, column: str) -> bool:
    """Whether a column says yes."""
    return row.text(column).lower() in YES


def is_lightning(row: MeasurementRow) -> bool:
    """Whether the precision is in the words of Lightning Fabric: 'bf16-true', '16-mixed'.

    >>> is_lightning(MeasurementRow(1, {"precision": "bf16-true+bnb.nf4"}))
    True
    """
    return re.search(r"\b(bf)?(16|32)-(true|mixed)\b", row.text("precision")) is not None


def is_megatron(row: MeasurementRow) -> bool:
    """Whether the row is of pre-training in the words of Megatron-LM."""
    return "pretrain" in row.text("method") and "mixed" in row.text("precision") and not is_lightning(row)


def method_of(row: MeasurementRow) -> Method:
    """Full training, LoRA or QLoRA; other methods are not modelled."""
    named = row.text("method").split(" ")[0].lower()
    if named not in {each.value for each in Method}:
        raise UsageError(f"training method {row.text('method')!r} is not modelled")
    method = Method(named)
    return Method.QLORA if method is Method.LORA and "nf4" in row.text("precision").lower() else method


def formats_of(row: MeasurementRow) -> NumberFormats:
    """Number formats of what learns; '16 bits' alone means weights, gradients and states of 16 bits."""
    stated = row.text("precision").lower()
    if "fp16" in stated and "mixed" in stated and is_megatron(row):
        return FP16_MIXED
    if is_megatron(row):
        return BF16_MIXED
    if "mixed" in stated:
        return BF16_AUTOCAST
    return FP32_TRAINING if "32" in stated else BF16_PURE


def optimizer_of(row: MeasurementRow) -> Optimizer:
    """AdamW unless the row says 8 bits; its states are as wide as the weights where it steps them directly."""
    stated = row.text("optimizer").lower()
    in_backward = is_on(row, "optimizer_in_backward") or "in backward" in stated
    if "8bit" in stated or "8-bit" in stated:
        return replace(ADAMW_8BIT, in_backward=in_backward, is_paged="paged" in stated)
    return replace(ADAMW, follows_weights=not is_megatron(row), in_backward=in_backward, is_paged="paged" in stated)


def adapter_of(row: MeasurementRow) -> Adapter:
    """Rank and modules as stated; blank: rank 8, on q and v with Lightning, on every matrix else."""
    stated = row.text("lora_modules").replace(" ", "")
    default = ("q", "v") if is_lightning(row) else ALL_LINEAR
    modules = tuple(name for name in ALL_LINEAR if name in stated.split(",")) or default
    return Adapter(row.whole("lora_rank") or PEFT_RANK, ALL_LINEAR if stated == "all_linear" else modules)


def base_of(row: MeasurementRow, method: Method) -> WeightFormat:
    """Format of frozen weights: nf4 with its scales quantised again, unless the row names plain nf4."""
    if method is not Method.QLORA:
        return WeightFormat.uniform(FP32 if "32" in row.text("precision") else BF16)
    is_plain = row.text("precision").lower().endswith("nf4")
    return WeightFormat.uniform(NF4_SINGLE if is_plain else NF4)


def keeps_offload(row: MeasurementRow, method: Method) -> bool:
    """Whether a cumulative step of adapters carries on what the full steps before it offloaded."""
    return method is not Method.FULL and "cumulative step" in row.text("notes")


def offloads_weights(row: MeasurementRow) -> bool:
    """Whether sharded weights lie in host memory, in the columns or the notes ('no CPU offload' does not count)."""
    said = f"{row.text('sharding')} {row.text('notes')}".lower()
    return "cpu offload" in said and "no cpu offload" not in said


def stated_layout(row: MeasurementRow) -> str:
    """Columns that describe the layout in words."""
    return f"{row.text('sharding')} {row.text('recompute')}".lower()


def sharding_of(row: MeasurementRow) -> Sharding:
    """ZeRO stage in the words of a row; FSDP is stage 3.

    >>> sharding_of(MeasurementRow(1, {"sharding": "fsdp + cpu offload"})).label
    'ZeRO-3'
    """
    said = row.text("sharding").lower().replace("-", "").replace(" ", "").replace("_", "")
    words = {"hsdp": Sharding.HYBRID, "fsdp": Sharding.ZERO_3, "zero3": Sharding.ZERO_3, "zero2": Sharding.ZERO_2}
    words |= {"zero1": Sharding.ZERO_1, "distributedoptimizer": Sharding.ZERO_1}
    return next((stage for word, stage in words.items() if word in said), Sharding.DDP)


def recompute_of(row: MeasurementRow) -> Recompute:
    """Recompute as stated; blank: none, but whole blocks where Lightning shards weights."""
    stated = row.text("recompute").lower()
    if "selective" in stated:
        return Recompute.SELECTIVE
    if "full" in stated or stated in YES:
        return Recompute.FULL
    is_sharded = is_lightning(row) and sharding_of(row) >= Sharding.ZERO_3
    return Recompute.FULL if is_sharded and not stated else Recompute.NONE


def num_micro_batches(row: MeasurementRow, pp: int) -> int:
    """Micro-batches of a step: as many as fill a pipeline; Lightning accumulates; else one."""
    if pp > 1:
        stated = MICRO_BATCHES.search(row.text("notes"))
        return int(stated.group(1)) if stated else pp * pp
    return 2 if is_lightning(row) else 1
