"""What copies keep beside their model: adapters, and weights and KV cache in host memory, with the time these take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.beside import NOTHING_BESIDE
from gpufleet.domain.calibration import Calibration, Formulas
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.instance import Instance
from gpufleet.memory.adapters import adapted_parts, adapter_bytes
from gpufleet.memory.band import Band
from gpufleet.memory.overhead import slots_of
from gpufleet.memory.weights import offloaded_bytes_per_device
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.performance.host_link import host_rates
from gpufleet.performance.serving import Lengths, prefill_step_s
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass
from gpufleet.units import GIB

if TYPE_CHECKING:
    from gpufleet.optimize.copies.decoder import WriterQuestion
    from gpufleet.optimize.market import PricedPlacement


@dataclass(frozen=True)
class BesideCopy:
    """What one copy keeps beside its model; bytes of its fullest GPU, seconds over the link to host memory.

    `adapter_bytes`: one adapter as it is stored; the slots for `adapters` take `slots_bytes_per_gpu`, and one comes
    from host memory in `adapter_load_s`. In host memory lie `offloaded_bytes_per_gpu` of weights, read in
    `offload_read_s` at most in each step, and `kv_bytes` of KV cache: `kv_contexts` of `context_tokens`, each of which
    comes back in `context_load_s`, where it is computed in `context_prefill_s` (None: nobody timed it). With its
    adapters the copy takes `host_bytes` of it.
    """

    adapters: str | None
    adapter_bytes: float
    slots_bytes_per_gpu: Band
    adapter_load_s: Band
    offloaded_bytes_per_gpu: float
    offload_read_s: Band
    kv_bytes: float
    kv_contexts: float
    context_tokens: float
    context_load_s: Band
    context_prefill_s: float | None
    host_bytes: float


def beside_copies(
    arch: Architecture,
    candidates: Candidates,
    context_tokens: float,
    formulas: Formulas,
    model: StepModel | None = None,
) -> list[BesideCopy | None]:
    """What copies keep beside a model for contexts of so many tokens; None of those that keep nothing."""
    palette = candidates.palette
    if all(engine.beside == NOTHING_BESIDE for engine in palette.engines):
        return [None] * len(candidates)
    lengths = Lengths(context_tokens, 1.0)
    budget = MemoryModel.build(arch, candidates).room(lengths, context_tokens).budget
    rates, prefill_s = host_rates(candidates), None
    if model is not None and any(engine.beside.kv_bytes for engine in palette.engines):
        prefill_s = prefill_step_s(model, np.ones(len(candidates)), lengths)

    def at(figure: object, row: int) -> float:
        return float(np.broadcast_to(np.asarray(figure, dtype=np.float64), len(candidates))[row])

    return [
        _beside_copy(
            arch,
            candidates,
            row,
            context_tokens,
            Band(*(at(end, row) for end in budget.adapter_bytes.ends().values())),
            at(budget.offloaded_bytes, row),
            at(budget.kv_bytes_per_sequence, row),
            link_seconds(formulas, rates[row]),
            None if prefill_s is None else float(prefill_s[row]),
        )
        for row in range(len(candidates))
    ]


def beside_placements(
    question: WriterQuestion, copies: Candidates, placements: Sequence[PricedPlacement], calibration: Calibration
) -> list[BesideCopy | None]:
    """What a copy of each of these placements keeps beside its model, for contexts of a mean prompt."""
    if all(engine.beside == NOTHING_BESIDE for engine in question.model.choices.palette.engines):
        return [None] * len(placements)
    arch, rows = question.model.arch, copies.take(np.array([p.placement.row for p in placements], dtype=np.int64))
    model, prompt = StepModel.build(arch, rows, calibration), float(question.demand.lengths.input_tokens)
    return beside_copies(arch, rows, prompt, calibration.formulas, model)


def link_seconds(formulas: Formulas, bytes_per_s: float) -> Band:
    """Seconds of a byte over a link to host memory: 1 / (ratio x rate)."""
    ratio = formulas.host_read.link_ratio
    ends = (ratio.high or ratio.value, ratio.value, ratio.low or ratio.value)
    return Band(*(1 / (end * bytes_per_s) for end in ends))


def _beside_copy(
    arch: Architecture,
    candidates: Candidates,
    row: int,
    context_tokens: float,
    slots: Band,
    away: float,
    context_bytes: float,
    byte_s: Band,
    prefill_s: float | None,
) -> BesideCopy | None:
    c, engine = candidates, candidates.palette.engines[candidates.engine[row]]
    beside, gpus = engine.beside, int(c.num_devices[row])
    if beside == NOTHING_BESIDE:
        return None
    stored = stored_bytes(arch, engine)
    of_one = 0.0
    if beside.adapters is not None:
        padded = beside.adapters.rank / slots_of(engine)["adapter_rank"]
        of_one = float(slots.expected) / beside.adapters.slots * padded
    ranks = int(c.tp[row] * c.pp[row])
    return BesideCopy(
        adapters=None if beside.adapters is None else str(beside.adapters),
        adapter_bytes=stored,
        slots_bytes_per_gpu=slots,
        adapter_load_s=byte_s.scaled(of_one),
        offloaded_bytes_per_gpu=away,
        offload_read_s=byte_s.scaled(away * int(c.pp[row])),
        kv_bytes=beside.kv_bytes,
        kv_contexts=float(np.floor(beside.kv_bytes / (context_bytes * ranks))) if beside.kv_bytes else 0.0,
        context_tokens=context_tokens,
        context_load_s=byte_s.scaled(context_bytes),
        context_prefill_s=prefill_s,
        host_bytes=host_bytes_of(arch, engine, gpus, away * gpus),
    )


def stored_bytes(arch: Architecture, engine: EngineProfile) -> float:
    """One adapter as it is stored, on what the engine adapts of what was asked; 0 without any."""
    asked, rules = engine.beside.adapters, engine.adapters
    return 0.0 if asked is None or rules is None else adapter_bytes(arch, asked.rank, adapted_parts(asked, rules))


def host_bytes_of(arch: Architecture, engine: EngineProfile, gpus: int, away: float) -> float:
    """Host memory of one copy: its weights there, its KV cache, and all adapters once for the process of each GPU."""
    adapters = engine.beside.adapters
    number = 0 if adapters is None else adapters.number
    return away + engine.beside.kv_bytes + gpus * number * stored_bytes(arch, engine)


def holding_beside(
    arch: Architecture, palette: Palette, instances: Iterable[Instance]
) -> tuple[tuple[Instance, ...], tuple[Instance, ...]]:
    """Machine types whose host memory holds what at least one copy over all of their GPUs keeps there, and the others.

    Of a type whose memory is not known nobody can say that it does not.
    """
    layers = min(float(offloaded_bytes_per_device(arch, weights, np.inf)) for weights in palette.weight_formats)
    kept: tuple[list[Instance], list[Instance]] = ([], [])
    for instance in instances:
        gpus, has = int(instance.gpu_count), (instance.memory_gib or np.inf) * GIB
        away = ((engine, min(gpus * engine.beside.offloaded_bytes, layers)) for engine in palette.engines)
        least = min(host_bytes_of(arch, engine, gpus, size) for engine, size in away)
        kept[least > has].append(instance)
    return tuple(kept[0]), tuple(kept[1])
