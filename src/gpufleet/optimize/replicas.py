"""Every replica worth looking at: accelerators and links on sale, sizes, layouts, formats and engines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.instance import Instance
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import Precision, WeightFormat
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.layout.enumerate import conceivable_layouts
from gpufleet.layout.feasible import refusal
from gpufleet.layout.support import architecture_refusal, beside_refusal, drafts_refusal, kv_refusal, weight_refusal
from gpufleet.memory.fit import Demand as MemoryDemand
from gpufleet.memory.fit import HeldBytes, MemoryBudget, budget_around, held_bytes
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.weights import ElementBytes
from gpufleet.optimize.own_pace import with_own_pace
from gpufleet.performance.serving import Lengths

TOO_LARGE, NO_CURVE, LINK_UNKNOWN = Reason("too_large"), Reason("no_curve"), Reason("link_unknown")


@dataclass
class Rejections:
    """How many candidates each reason rejected, and the one that came nearest (smallest shortfall)."""

    counts: dict[Reason, int] = field(default_factory=lambda: defaultdict(int))
    nearest: dict[Reason, Rejection] = field(default_factory=dict)

    def add(self, rejection: Rejection) -> None:
        """Count a rejection and keep the nearest miss."""
        reason, nearest = rejection.reason, self.nearest.get(rejection.reason)
        self.counts[reason] += rejection.count
        if nearest is None or rejection.shortfall < nearest.shortfall:
            self.nearest[reason] = rejection

    def rows(self) -> list[tuple[int, Rejection]]:
        """How many candidates each reason rejected, the commonest first, and the nearest miss of each."""
        order = sorted(self.counts, key=lambda reason: (-self.counts[reason], reason.code, str(reason.figures)))
        return [(self.counts[reason], self.nearest[reason]) for reason in order]


@dataclass
class EveryRejection(Rejections):
    """Rejections that are all kept, in their order."""

    kept: list[Rejection] = field(default_factory=list)

    def add(self, rejection: Rejection) -> None:
        """Count a rejection and keep it."""
        super().add(rejection)
        self.kept.append(rejection)


class Host(NamedTuple):
    """GPUs that a replica may span: an accelerator and the link between them."""

    accelerator: int
    link_is_pcie: bool
    is_through_host: bool
    link_bytes_per_s: float


@dataclass(frozen=True)
class Choices:
    """What the search may combine; `kv_of_format[engine][format]` is the position of the KV format of both."""

    palette: Palette
    kv_of_format: tuple[tuple[int, ...], ...]
    gpus_per_replica: tuple[int, ...] = (1, 2, 4, 8, 16)


class _Replica(NamedTuple):
    host: Host
    weight_format: int
    kv_precision: int
    engine: int
    layout: Layout


def replicas(arch: Architecture, choices: Choices, instances: Iterable[Instance], rejections: Rejections) -> Candidates:
    """Every replica that the rules allow on machine types, as candidates; the others are counted with their reason."""
    found = list(_replicas(arch, choices, hosts(choices.palette, instances, choices.gpus_per_replica), rejections))
    on = [r.host for r in found]
    layouts = [r.layout for r in found]
    alone = Candidates(
        choices.palette,
        accelerator=np.array([h.accelerator for h in on], dtype=np.int64),
        weight_format=np.array([r.weight_format for r in found], dtype=np.int64),
        kv_precision=np.array([r.kv_precision for r in found], dtype=np.int64),
        engine=np.array([r.engine for r in found], dtype=np.int64),
        tp=np.array([x.tp for x in layouts], dtype=np.int64),
        pp=np.array([x.pp for x in layouts], dtype=np.int64),
        ep=np.array([x.ep for x in layouts], dtype=np.int64),
        attention_dp=np.array([x.attention_dp for x in layouts], dtype=np.int64),
        link_is_pcie=np.array([h.link_is_pcie for h in on], dtype=np.bool_),
        through_host=np.array([h.is_through_host for h in on], dtype=np.bool_),
        link_bytes_per_s=np.array([h.link_bytes_per_s for h in on], dtype=np.float64),
    )
    return with_own_pace(alone, arch.name)


def hosts(palette: Palette, instances: Iterable[Instance], sizes: Sequence[int]) -> list[tuple[Host, int]]:
    """Distinct (host, GPUs of a replica) that the instances offer; one GPU needs no link."""
    index = {a.name: i for i, a in enumerate(palette.accelerators)}
    found: set[tuple[Host, int]] = set()
    for instance in instances:
        gpu = index[instance.accelerator]
        _, _, is_switched, is_through_host, link = instance.host
        linked = Host(gpu, not is_switched, is_through_host, link)
        for size in (s for s in sizes if s <= instance.gpu_count):
            found.add((Host(gpu, False, False, 0.0) if size == 1 else linked, size))
    return sorted(found)


def _replicas(
    arch: Architecture, choices: Choices, spans: Iterable[tuple[Host, int]], rejections: Rejections
) -> Iterator[_Replica]:
    palette, sizes = choices.palette, choices.gpus_per_replica
    layouts = {(n, by): conceivable_layouts(arch, n, by_layer=by) for n in sizes for by in (False, True)}
    refused = cache(lambda layout, index: refusal(arch, layout, palette.weight_formats[index]))
    formats = cache(partial(_formats, arch, choices))
    for host, size in spans:
        gpu = palette.accelerators[host.accelerator]
        if size > 1 and not host.link_bytes_per_s:
            cut = len(layouts[size, False])
            rejections.add(Rejection(LINK_UNKNOWN, f"{size}x {gpu.name}", count=cut))
            continue
        for engine_index, engine in enumerate(palette.engines):
            lacking = architecture_refusal(engine, arch) or beside_refusal(engine, arch)
            if lacking is not None:
                number = len(layouts[size, engine.splits_by_layer])
                rejections.add(Rejection(lacking, f"{size}x {gpu.name}", count=number))
                continue
            for format_index, kv_index in formats(engine_index, host.accelerator).counted(rejections):
                for layout in layouts[size, engine.splits_by_layer]:
                    own = drafts_refusal(engine, layout) or beside_refusal(engine, arch, layout)
                    reason = refused(layout, format_index) or own
                    if reason is None:
                        yield _Replica(host, format_index, kv_index, engine_index, layout)
                    else:
                        rejections.add(Rejection(reason, f"{size}x {gpu.name} {layout.label}"))


@dataclass
class _Formats:
    """Pairs of weight and KV format that an engine runs on an accelerator, and what it refuses."""

    run: list[tuple[int, int]] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)

    def counted(self, rejections: Rejections) -> list[tuple[int, int]]:
        """Those that run; the others are counted."""
        for rejection in self.refused:
            rejections.add(rejection)
        return self.run


def _formats(arch: Architecture, choices: Choices, engine_index: int, accelerator_index: int) -> _Formats:
    palette, found = choices.palette, _Formats()
    engine, gpu = palette.engines[engine_index], palette.accelerators[accelerator_index]
    for i, (weights, j) in enumerate(zip(palette.weight_formats, choices.kv_of_format[engine_index], strict=True)):
        kv = palette.kv_precisions[j]
        reason = weight_refusal(engine, gpu, weights, allow_fp16_twin=False) or kv_refusal(engine, gpu, kv, arch)
        if reason:
            found.refused.append(Rejection(reason.about(device=gpu.generation), f"{gpu.name} in {weights.name}"))
        else:
            found.run.append((i, j))
    return found


def with_fp16_twins(formats: Iterable[WeightFormat], fp16: Precision) -> tuple[WeightFormat, ...]:
    """The formats, and each bf16 part in fp16: what engines do on cards without bf16 arithmetic."""
    found = {w.name: w for w in formats}
    for weights in list(found.values()):
        twin = _in_half(weights, fp16)
        found.setdefault(twin.name, twin)
    return tuple(found.values())


def in_dtype(formats: Iterable[WeightFormat], half: Precision | None) -> tuple[WeightFormat, ...]:
    """The formats with their 16-bit parts in those that an engine is told to compute in; as they are where in none."""
    told = formats if half is None else [_in_half(weights, half) for weights in formats]
    return tuple({weights.name: weights for weights in told}.values())


def _in_half(weights: WeightFormat, half: Precision) -> WeightFormat:
    parts: dict[str, Precision] = {
        part: getattr(weights, part) for part in ("base", "attention", "mlp", "experts", "head")
    }
    other = {"bf16", "fp16"} - {half.name}
    changed: dict[str, Any] = {part: half for part, precision in parts.items() if precision.name in other}
    if not changed:
        return weights
    own = weights.name.partition(" over ")[0]
    return replace(weights, name=half.name if own in other else f"{own} over {half.name}", **changed)


@dataclass(frozen=True)
class Room:
    """Memory of every candidate: its budget and the most sequences that decode together."""

    budget: MemoryBudget
    largest_batch: FloatArray
    limited_by_engine: BoolArray


@dataclass(frozen=True, eq=False)
class MemoryModel:
    """One architecture on many candidates, with memory rules gathered and weights counted once."""

    arch: Architecture
    candidates: Candidates
    engine: EngineMemory
    held: HeldBytes
    kv_bytes_per_element: FloatArray

    @classmethod
    def build(cls, arch: Architecture, candidates: Candidates) -> MemoryModel:
        """Gather the rules of each candidate's engine, and the bytes per element of its formats."""
        c, palette = candidates, candidates.palette
        engine = EngineMemory.gather(palette.engines, palette.accelerators, c.engine, c.accelerator)
        sizes = ElementBytes.gather(palette.weight_formats, c.weight_format)
        kv_bytes = np.array([p.bytes_per_element for p in palette.kv_precisions])[c.kv_precision]
        layouts = MemoryDemand(kv_bytes, 0.0, c.tp, c.pp, c.ep, c.attention_dp)
        return cls(arch, candidates, engine, held_bytes(arch, sizes, engine, layouts), kv_bytes)

    def room(self, lengths: Lengths, context_tokens: Floats, taken_sequences: Floats = 0.0) -> Room:
        """Sequences of `context_tokens` that the KV pool holds beside the weights, at most what the engine admits.

        `taken_sequences` of that size are taken by what all sequences share.
        """
        c, kv_bytes = self.candidates, self.kv_bytes_per_element
        demand = MemoryDemand(
            kv_bytes, context_tokens, c.tp, c.pp, c.ep, c.attention_dp, prompt_tokens=lengths.input_tokens
        )
        budget = budget_around(self.arch, self.held, self.engine, demand)
        admitted = np.asarray(self.engine.max_batch * c.attention_dp, dtype=np.float64)
        free = budget.sequences_in(budget.kv_pool_bytes.expected) - taken_sequences
        held = np.where(budget.fits, np.maximum(free, 0.0), 0.0)
        return Room(budget, np.minimum(held, admitted), held > admitted)


def room(arch: Architecture, candidates: Candidates, lengths: Lengths, context_tokens: Floats) -> Room:
    """The room of candidates that are asked once."""
    return MemoryModel.build(arch, candidates).room(lengths, context_tokens)


def keep_fitting(candidates: Candidates, space: Room, rejections: Rejections) -> BoolArray:
    """Candidates that hold at least one sequence; the others are counted with how much is missing per GPU."""
    fits = space.largest_batch >= 1
    short = np.broadcast_to(np.asarray(space.budget.short_by_bytes, dtype=np.float64), fits.shape)
    for row in np.flatnonzero(~fits):
        missing = max(float(short[row]), 0.0)
        miss = Reason.of("short_by", missing_bytes=missing)
        rejections.add(Rejection(TOO_LARGE, describe(candidates, int(row)), miss, missing))
    return fits


def describe(candidates: Candidates, row: int) -> str:
    """A candidate in words: 4x L40S TP4 bf16, and what it drafts with."""
    c = candidates
    gpu, weights = c.palette.accelerators[c.accelerator[row]], c.palette.weight_formats[c.weight_format[row]]
    layout = Layout(int(c.tp[row]), int(c.pp[row]), int(c.ep[row]), int(c.attention_dp[row]))
    drafts = drafts_of(c, row)
    return f"{layout.num_devices}x {gpu.name} {layout.label} {weights.name}{f' {drafts}' if drafts else ''}"


def drafts_of(candidates: Candidates, row: int) -> str | None:
    """What drafts tokens for a candidate, and how many a step."""
    how = candidates.palette.engines[candidates.engine[row]].drafts
    return how.label if how else None
