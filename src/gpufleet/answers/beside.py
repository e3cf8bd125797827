"""A `KeptBeside` from what the core found of a copy, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gpufleet.answers.figures import spread_figure
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.memory.adapters import EXPERTS, adapted_parts
from gpufleet.optimize.beside import BesideCopy
from gpufleet.provenance import Grade
from gpufleet.report.numbers import count, duration, gib, ranged_duration
from gpufleet.results.answer import Answer
from gpufleet.results.base import Figure, Result
from gpufleet.results.beside import KeptBeside

A = TypeVar("A", bound=Answer)
D = TypeVar("D", bound=Result)
MEASURED, ROOFLINE = Grade.MEASURED.label, Grade.ROOFLINE.label


def kept_beside(found: BesideCopy | None) -> KeptBeside | None:
    """What a copy keeps beside its model, as users get it: bytes counted, seconds by the rate of a link."""
    if found is None:
        return None
    seconds = ("adapter_load_s", "offload_read_s", "context_load_s")
    figures = {name: spread_figure(getattr(found, name), "s", ROOFLINE) for name in seconds}
    slots = spread_figure(found.slots_bytes_per_gpu, "bytes", MEASURED)
    return KeptBeside.made_of(found, slots_bytes_per_gpu=slots, **figures)


def with_beside(answer: A, found: BesideCopy | None) -> A:
    """An answer about one copy with what that keeps beside its model."""
    kept = kept_beside(found)
    if kept is None:
        return answer
    return answer.model_copy(update={"beside": kept, "notes": [*notes_of_copy(kept), *answer.notes]})


def kept_by(rows: Sequence[D], found: Sequence[BesideCopy | None]) -> list[D]:
    """Rows of copies with what each keeps beside its model."""
    kept = zip(rows, map(kept_beside, found), strict=True)
    return [row if each is None else row.model_copy(update={"beside": each}) for row, each in kept]


def ranged(time: Figure) -> str:
    """A time with its range."""
    return ranged_duration(time.value, time.low, time.high)


def notes_of_copy(kept: KeptBeside | None) -> list[str]:
    """What is kept beside the model, what that takes, and how long it takes to come."""
    if kept is None:
        return []
    notes = []
    if kept.adapters is not None:
        notes.append(
            f"Adapters {kept.adapters}: {gib(kept.adapter_bytes)} each, slots of {gib(kept.slots_bytes_per_gpu.value)} "
            f"on each GPU; one comes from host memory in {ranged(kept.adapter_load_s)}"
        )
    if kept.offloaded_bytes_per_gpu:
        notes.append(
            f"{gib(kept.offloaded_bytes_per_gpu)} of the weights of each GPU lie in host memory and are read in every "
            f"step, which takes {ranged(kept.offload_read_s)} that nothing hides"
        )
    if kept.kv_bytes:
        again = "" if kept.context_prefill_s is None else f", not {duration(kept.context_prefill_s)} of prefill"
        notes.append(
            f"{gib(kept.kv_bytes)} of KV cache in host memory hold {count(kept.kv_contexts)} contexts of "
            f"{count(kept.context_tokens)} tokens; one comes back in {ranged(kept.context_load_s)}{again}. How "
            "many requests find theirs is not modelled: --prefix-cache states it"
        )
    return [*notes, f"A copy takes {gib(kept.host_bytes)} of host memory"]


def notes_on_adapters(arch: Architecture, engines: Sequence[EngineProfile]) -> list[str]:
    """What figures with adapters leave out: their pace where nobody said it, and experts that are not adapted."""
    asked = [(engine, engine.adapters) for engine in engines if engine.beside.adapters and engine.adapters]
    paces = [
        f"Speed with adapters is not modelled: times are those of the base model, at the slow end of their ranges up "
        f"to {rules.slowdown_ratio:g} times as long, as in published runs (--lora-slowdown 0.15 states yours)"
        for engine, rules in asked
        if engine.beside.has_unknown_pace
    ]
    experts = [
        f"Adapters are counted on attention, dense layers and shared experts: {engine.title} as asked adapts no routed "
        "experts"
        for engine, rules in asked
        if arch.is_moe
        and engine.beside.adapters
        and EXPERTS not in adapted_parts(engine.beside.adapters, rules)
        and "mlp" in engine.beside.adapters.parts
    ]
    return list(dict.fromkeys([*paces, *experts]))
