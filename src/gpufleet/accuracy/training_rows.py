"""What a row of training means: the run whose speed or peak memory it states, and what stands in where it is silent.

Speed (`run_of`). The assumptions are those of the time: before flash attention (mid 2022) training recomputed all
activations and overlapped little; software is dated by its release, or by what its source was published as. A
micro-batch that is not stated is one sequence in a pipeline, where it makes the bubble least; else the largest power of
two up to 16 that divides the batch of a rank and has room on the GPU, or the largest of all where none has room.

Memory (`conditions_of`). What a row leaves blank follows these rules:

- `precision` "bf16-true" and the like are words of Lightning Fabric: PyTorch without fused kernels, flash attention,
  losses in chunks, no recompute on one GPU; sharded over several it recomputes whole blocks, each one flat weight, and
  accumulates micro-batches. Adapters without columns are of rank 8 on q and v.
- Pre-training without FSDP is Megatron's: fused kernels, whole logits; before flash attention with dropout.
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

import numpy as np

from gpufleet.accuracy.models import SHAPE_FIELDS, ModelFinder
from gpufleet.accuracy.training_cells import (
    LEAST_CHUNKS,
    NO,
    Ranks,
    adapter_of,
    attention_of,
    base_of,
    formats_of,
    is_early,
    is_fine_tuning,
    is_lightning,
    is_megatron,
    is_on,
    is_sequence_parallel,
    method_of,
    network_of,
    notes_of,
    offloads_weights,
    optimizer_of,
    ranks_of,
    says_compiled,
    sharding_of,
    software_year,
    stack_of,
    stated_recompute,
)
from gpufleet.architecture.parameters import num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.network import network_of_gpu
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import (
    ADAMW_8BIT,
    Method,
    Recipe,
    Recompute,
    Sharding,
    TrainingLayouts,
    TrainingMachine,
)
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.memory.band import Band
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.optimize.training_machines import usual_training_machine
from gpufleet.records import dataclass
from gpufleet.units import GIB, GIGA

MICRO_BATCHES = re.compile(r"\bin (\d+) micro-batches\b")
LOCAL_BATCH = re.compile(r"\blocal batch (\d+)\b")
SIZE_IN_NAME = re.compile(r"\b(\d+) ?GB\b")
EARLY_STOP_YEAR = 2023.3
POWERS = (16, 8, 4, 2, 1)
PER_STAGE = 4
"""Micro-batches that a pipeline has for each of its stages where nobody states a batch: its bubble is a fifth then."""
HEAD, INNER, POSITIONS = 128, 4, 2048
"""Usual head, inner width over hidden size, and positions of a decoder that a row describes in part."""


@dataclass(frozen=True)
class StatedRun:
    """A run as a row states it, with what is assumed where it is silent."""

    arch: Architecture
    recipe: Recipe
    layouts: TrainingLayouts
    machine: TrainingMachine
    software_year: float | None


@dataclass(frozen=True)
class Conditions:
    """One way that a row can have been run."""

    recipe: Recipe
    layout: TrainingLayouts


def run_of(row: MeasurementRow, models: ModelFinder) -> StatedRun:
    """The run of a throughput row; raises what it does not say and nothing stands in for."""
    arch, machine = model_of(row, models), machine_of(row)
    recipe = timed_recipe(row)
    return StatedRun(arch, recipe, timed_layout(row, arch, recipe, machine), machine, software_year(row))


def model_of(row: MeasurementRow, models: ModelFinder) -> Architecture:
    """The model by its shape and number of parameters where they are stated, else by its name."""
    wanted = row.positive("params_b")
    shapes = [] if wanted is None else shapes_of(row)
    if wanted is None or not shapes:
        return models.of(row)
    return min(shapes, key=lambda arch: abs(num_parameters(arch) / GIGA - wanted))


def shapes_of(row: MeasurementRow) -> list[Architecture]:
    """Decoders of the row's shape: with a gated MLP and an untied head, or as GPT-2 is."""
    needed = [column for column in SHAPE_FIELDS if column not in ("heads", "ffn")]
    if not all(row.text(column) for column in needed) or row.text("num_experts") or row.text("model_id"):
        return []
    hidden, layers, vocab = row.whole("hidden") or 0, row.whole("layers"), row.whole("vocab")
    heads = row.whole("heads") or max(hidden // HEAD, 1)
    width, positions = row.whole("ffn") or INNER * hidden, row.whole("seq_len") or POSITIONS
    llama = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": width,
        "vocab_size": vocab,
        "num_key_value_heads": row.whole("kv_heads") or heads,
        "max_position_embeddings": positions,
    }
    gpt = {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": heads,
        "n_inner": width,
        "vocab_size": vocab,
        "n_positions": positions,
    }
    name = row.text("model") or "decoder"
    return [parse_architecture(llama, name), parse_architecture(gpt, name)]


def recipe_of(row: MeasurementRow) -> Recipe:
    """What the row trains and with what software, before savers that it does not state."""
    method = method_of(row)
    sequence = row.positive("seq_len")
    if sequence is None:
        raise UsageError("sequence length not stated")
    formats, megatron, early = formats_of(row, method), is_megatron(row), is_early(row)
    compiled = says_compiled(row)
    return Recipe(
        method=method,
        formats=formats,
        optimizer=optimizer_of(row, formats),
        sequence_tokens=sequence,
        adapter=None if method is Method.FULL else adapter_of(row),
        base=base_of(row, method),
        compiled=megatron if compiled is None else compiled,
        flash="flash" in notes_of(row) or not early,
        chunked_loss=is_on(row, "loss_chunked") or not (row.text("recompute") or megatron),
        offloads_activations=is_on(row, "activation_offload") or keeps_offload(row, method),
        dropout=megatron and early,
        flat_blocks=is_lightning(row),
        offloads_weights=offloads_weights(row),
        fused_loss=row.text("loss_compiled").casefold() not in NO,
    )


def timed_recipe(row: MeasurementRow) -> Recipe:
    """How a row trains whose speed is measured: with the software of its time."""
    year, early = software_year(row), is_early(row)
    return replace(
        recipe_of(row),
        compiled=is_compiled(row),
        flash=not early,
        attention=attention_of(row),
        overlapped=not early,
        stops_early=not row.text("release") and (year is None or year >= EARLY_STOP_YEAR),
    )


def is_compiled(row: MeasurementRow) -> bool:
    """Whether element-wise kernels are fused: as the row or its software says, else in fine-tuning today."""
    said, stack = says_compiled(row), stack_of(row)
    if said is not None:
        return said
    return is_fine_tuning(row) and not is_early(row) if stack is None else stack.is_compiled


def machine_of(row: MeasurementRow) -> TrainingMachine:
    """Machines as clouds usually offer this GPU, on the network that the row states.

    A blank `gpu_id` beside a name in `gpu` says that the name may mean several: speed is not guessed from it.
    """
    gpu = row.text("gpu_id") if "gpu_id" in row.cells else row.text("gpu")
    if not gpu:
        raise UsageError("GPU not stated for certain" if row.text("gpu") else "GPU not stated")
    tables = load_catalog()
    accelerator = resolve_gpu(tables, gpu).accelerator
    machine = usual_training_machine(accelerator, network_of_gpu(accelerator, tables.instances.values()))
    stated = network_of(row, machine.num_gpus)
    if stated is None:
        return machine
    return replace(machine, network_bytes_per_s=stated, network_is_assumed=False)


def timed_layout(row: MeasurementRow, arch: Architecture, recipe: Recipe, machine: TrainingMachine) -> TrainingLayouts:
    """The layout of a row whose speed is measured: its batch in micro-batches, what nobody says as `usual_layout`."""
    ranks, stated = ranks_of(row), row.positive("micro_batch")
    batch = row.positive("global_batch")
    of_rank = None if batch is None else max(batch / ranks.dp, 1.0)
    ranks = replace(ranks, interleave=usual_chunks(row, ranks, arch.num_layers))
    sizes = possible_micro_batches(of_rank, ranks.pp) if stated is None else [stated]
    tried = [
        in_micro_batches(array_layout(row, ranks, again, machine.num_gpus), float(size), of_rank)
        for again in possible_recomputes(row)
        for size in sizes
    ]
    if len(tried) == 1:
        return tried[0]
    room, constants = machine.accelerator.memory_bytes, load_training_memory_constants()
    fitting = (each for each in tried if may_fit(training_memory(arch, recipe, each, room, constants)))
    return next(fitting, tried[0] if stated is None else tried[-1])


def may_fit(memory: TrainingMemory) -> bool:
    """Whether a run that took place may have been this one: the low end of its memory has room."""
    return bool(np.asarray(memory.total.low <= memory.device_bytes)[0])


def usual_chunks(row: MeasurementRow, ranks: Ranks, layers: int) -> int:
    """Chunks of a stage where its step is timed: as stated; two where nobody says and layers allow it."""
    is_silent = ranks.pp > 1 and ranks.interleave == 1 and not row.text("vp")
    return LEAST_CHUNKS if is_silent and layers >= LEAST_CHUNKS * ranks.pp else ranks.interleave


def possible_recomputes(row: MeasurementRow) -> list[Recompute]:
    """What may be computed again, the least first: as stated, or by the time; since flash attention as room demands."""
    said = stated_recompute(row)
    if said is not None:
        return [said]
    if is_early(row) or method_of(row) is Method.QLORA:
        return [Recompute.FULL]
    return list(Recompute)


def possible_micro_batches(of_rank: float | None, pp: int) -> list[int]:
    """Powers of two that divide the sequences of a rank, largest first; one sequence in a pipeline.

    >>> possible_micro_batches(8.0, 1), possible_micro_batches(48.0, 2), possible_micro_batches(1.5, 1)
    ([8, 4, 2, 1], [1], [1])
    """
    if pp > 1:
        return [1]
    return [size for size in POWERS if of_rank is None or size == 1 or of_rank % size == 0]


def in_micro_batches(layout: TrainingLayouts, size: float, of_rank: float | None) -> TrainingLayouts:
    """A layout with the sequences of a rank in micro-batches of this size; a pipeline of unknown batch is kept busy."""
    pp = int(layout.pp[0])
    unknown = float(PER_STAGE * pp) if pp > 1 else 1.0
    count = unknown if of_rank is None else max(of_rank / size, 1.0)
    return replace(layout, micro_batch=np.array([size]), num_micro_batches=np.array([count]))


def array_layout(row: MeasurementRow, ranks: Ranks, recompute: Recompute, gpus_of_machine: int) -> TrainingLayouts:
    """A layout with one sequence a step."""
    columns = {
        "device": 0,
        "tp": ranks.tp,
        "pp": ranks.pp,
        "interleave": ranks.interleave,
        "cp": ranks.cp,
        "ep": ranks.ep,
        "dp": ranks.dp,
        "sharding": sharding_of(row),
        "micro_batch": 1,
        "num_micro_batches": 1,
        "recompute": recompute,
        "sequence_parallel": is_sequence_parallel(row),
        "ranks_per_node": gpus_of_machine,
    }
    return TrainingLayouts(**{name: np.array([value]) for name, value in columns.items()})


def layout_of(row: MeasurementRow) -> TrainingLayouts:
    """How a row of memory lies over GPUs."""
    micro_batch = row.whole("micro_batch")
    if micro_batch is None:
        raise UsageError("micro-batch not stated")
    ranks = ranks_of(row)
    layout = array_layout(row, ranks, recompute_of(row), GPUS_OF_A_MACHINE)
    count = np.array([num_micro_batches(row, ranks, micro_batch)])
    return replace(layout, micro_batch=np.array([micro_batch]), num_micro_batches=count)


GPUS_OF_A_MACHINE = 8


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


def says_reserved(row: MeasurementRow) -> bool:
    """Whether a row's tool reports what the allocator holds, not what of it is in use."""
    kind = row.text("memory_kind").casefold()
    return kind == "reserved" if kind else "reserved" in notes_of(row)


def reported_peak(row: MeasurementRow, memory: TrainingMemory) -> Band:
    """What the row's tool reports of a prediction: memory that was allocated; with fragmentation where 'reserved'."""
    return memory.peak.beside(memory.fragmentation) if says_reserved(row) else memory.peak


def states_savers(row: MeasurementRow) -> bool:
    """Whether what a row leaves blank is known: it itemises, or its software has no other way."""
    return bool(row.text("recompute")) or is_lightning(row) or is_megatron(row)


def _recomputing(layout: TrainingLayouts, mode: Recompute) -> TrainingLayouts:
    return replace(layout, recompute=layout.recompute * 0 + int(mode))


def keeps_offload(row: MeasurementRow, method: Method) -> bool:
    """Whether a cumulative step of adapters carries on what the full steps before it offloaded."""
    return method is not Method.FULL and "cumulative step" in row.text("notes")


def recompute_of(row: MeasurementRow) -> Recompute:
    """Recompute of a row of memory; blank: none, but whole blocks where Lightning shards weights."""
    said = stated_recompute(row)
    if said is not None:
        return said
    return Recompute.FULL if is_lightning(row) and sharding_of(row) >= Sharding.ZERO_3 else Recompute.NONE


def num_micro_batches(row: MeasurementRow, ranks: Ranks, micro_batch: int) -> int:
    """Micro-batches of a step: as stated; as many as fill a pipeline; Lightning accumulates; else one."""
    stated, local = MICRO_BATCHES.search(row.text("notes")), LOCAL_BATCH.search(row.text("notes"))
    batch = float(local[1]) * ranks.dp if local else row.positive("global_batch")
    if stated or batch is not None:
        return int(stated[1]) if stated else max(int((batch or 0) // (ranks.dp * micro_batch)), 1)
    return ranks.pp**2 if ranks.pp > 1 else 2 if is_lightning(row) else 1
