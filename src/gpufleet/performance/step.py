"""Seconds of one engine step: every operator of every layer, on one GPU of a replica.

A step processes the tokens of `decoding` sequences (one each) and of `prefilling` prompts. Matrix products see all of
these tokens together, attention sees each kind on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.performance.draft_groups import Drafts
from gpufleet.performance.hardware import Hardware
from gpufleet.performance.kernel_groups import (
    COUNTED,
    HEAD_ROWS,
    PROMPT_TOKENS,
    STAGE_TOKENS,
    TOKENS,
    Part,
    StepGroup,
    StepTokens,
    as_met,
)
from gpufleet.performance.layer_operators import kernel_groups
from gpufleet.performance.operations import Operation
from gpufleet.records import dataclass


@dataclass(frozen=True)
class StepLoad:
    """What one step of a replica processes; counts are of the whole replica.

    decoding sequences at `decode_context_tokens`, and `prefilling` prompts of `prompt_tokens`.
    """

    decoding: FloatArray
    decode_context_tokens: Floats
    prefilling: Floats = 0.0
    prompt_tokens: Floats = 0.0

    @cached_property
    def has_prefill(self) -> bool:
        """Whether any candidate prefills in this step."""
        prompts = self.prefilling * self.prompt_tokens
        return bool(prompts.any()) if isinstance(prompts, np.ndarray) else prompts > 0


TOKENS_OF_A_DRAFT = 2.0
"""Tokens of a sequence in each of K passes of its draft, on average: K + 1 in the first, which catches up, then one.

Of a tree, as many times that as it has branches: (tokens verified - 1) / K."""

Evaluated: TypeAlias = tuple[StepGroup, FloatArray]
Found = TypeVar("Found")


@dataclass(frozen=True)
class StepModel:
    """One architecture on many candidates, with the hardware figures of each candidate."""

    arch: Architecture
    candidates: Candidates
    hardware: Hardware

    @classmethod
    def build(cls, arch: Architecture, candidates: Candidates, calibration: Calibration) -> StepModel:
        """The curves of each candidate's accelerator, formats and link."""
        return cls(arch, candidates, Hardware(calibration, candidates))

    @cached_property
    def groups(self) -> tuple[StepGroup, ...]:
        """The operators of a step by kernel; what they look like does not depend on the load."""
        drafts = self.drafts
        return (*kernel_groups(self.arch, self.candidates, self.hardware), *(drafts.groups if drafts else ()))

    @cached_property
    def drafts(self) -> Drafts | None:
        """What the engines draft with; None where none does, or where what was there before is looked up."""
        return Drafts.of(self.arch.draft, self.candidates, self.hardware.calibration)

    def operations(self, load: StepLoad) -> list[Operation]:
        """What the step executes, in the order that a token meets it."""
        at = step_tokens(load, self.candidates)
        return as_met((group, group.operations(at)) for group in _run(self.groups, at))

    def terms(self, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator, summed over layers; the step is their sum.

        Pipeline stages work on `micro_batches` at once: a token passes all layers at batch / micro_batches.
        """
        evaluated = self.evaluated(load)
        loads = np.broadcast_shapes(*{seconds.shape[:-2] for _, seconds in evaluated})
        parts = self.parts_run(load)
        return parts.terms(parts.executed_s(evaluated, loads), load)

    def evaluated(self, load: StepLoad) -> list[Evaluated]:
        """Every group of operators that the step runs, with the seconds of one execution of each."""
        at = step_tokens(load, self.candidates)
        return [(group, group.seconds(at)) for group in _run(self.groups, at)]

    def parts_run(self, load: StepLoad) -> StepParts:
        """The operators that run in a step of this kind, side by side."""
        return self.once(_parts if load.has_prefill else _parts_without_prompts)

    @cached_property
    def is_supported(self) -> BoolArray:
        """Candidates whose device has a kernel curve for every operator in its precision."""
        supported = np.ones(len(self.candidates), dtype=np.bool_)
        for group in self.groups:
            supported &= group.is_supported
        return supported

    def once(self, figure: Callable[[StepModel], Found]) -> Found:
        """What a function of the model alone finds: computed once, however many loads are asked for."""
        if figure not in self._found:
            self._found[figure] = figure(self)
        found: Found = self._found[figure]
        return found

    @cached_property
    def _found(self) -> dict[Callable[[StepModel], Any], Any]:
        return {}

    @cached_property
    def num_kernels(self) -> FloatArray:
        """Kernels that a decode step launches."""
        return self._per_candidate(group.num_kernels for group in self._of_decoding)

    @cached_property
    def num_calls(self) -> FloatArray:
        """Calls by which the host launches them: that of a product also quantises its input."""
        return self._per_candidate(group.num_calls for group in self._of_decoding)

    @property
    def _of_decoding(self) -> Iterable[StepGroup]:
        nothing_to_prefill = step_tokens(StepLoad(np.ones(len(self.candidates)), 1.0), self.candidates)
        return _run(self.groups, nothing_to_prefill)

    def _per_candidate(self, counts: Iterable[FloatArray | float]) -> FloatArray:
        return np.asarray(sum(counts) + np.zeros(len(self.candidates)))

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step."""
        return total_s(self.evaluated(load))

    def prompt_attention_s(self, load: StepLoad) -> FloatArray:
        """Seconds of the operators that only prompts need: their attention to what came before."""
        return total_s((group, seconds) for group, seconds in self.evaluated(load) if group.is_of_prompts)


def total_s(evaluated: Iterable[Evaluated]) -> FloatArray:
    """Seconds of the whole step."""
    return np.asarray(sum(group.total_s(seconds) for group, seconds in evaluated), dtype=np.float64)


@dataclass(frozen=True)
class TermSums:
    """Which operators add up to which term: rows of all operators in `order`, a term from each of `starts`."""

    names: tuple[str, ...]
    order: IntArray
    starts: IntArray

    @classmethod
    def of(cls, rows: Mapping[int, Part]) -> TermSums:
        """Terms in the order that a token meets the first operator of each."""
        met = sorted(rows, key=lambda row: rows[row].place)
        names = tuple(dict.fromkeys(rows[row].name for row in met))
        of_term = [[row for row in met if rows[row].name == name] for name in names]
        starts = np.cumsum([0, *map(len, of_term[:-1])])
        return cls(names, np.array([row for together in of_term for row in together]), starts)

    def terms(self, executed_s: FloatArray) -> dict[str, FloatArray]:
        """Seconds by term, of seconds by operator."""
        sums = np.add.reduceat(executed_s[..., self.order, :], self.starts, axis=-2)
        return {name: sums[..., i, :] for i, name in enumerate(self.names)}


@dataclass(frozen=True)
class StepParts:
    """All operators of a step side by side, as rows of one array: group after group."""

    counts: FloatArray
    of_all: TermSums
    of_decoding: TermSums

    @classmethod
    def of(cls, groups: Sequence[StepGroup]) -> StepParts:
        """The operators of these groups; a step without prompts shows nothing of those that only prompts need."""
        parts = [(group, part) for group in groups for part in group.parts]
        return cls(
            counts=np.concatenate([group.counts for group in groups]),
            of_all=TermSums.of({row: part for row, (_, part) in enumerate(parts)}),
            of_decoding=TermSums.of({row: part for row, (g, part) in enumerate(parts) if not g.is_of_prompts}),
        )

    def executed_s(self, evaluated: Iterable[Evaluated], loads: tuple[int, ...]) -> FloatArray:
        """Seconds of all executions of each operator, [..., operator, candidate], over loads of this shape."""
        each = [s if s.shape[:-2] == loads else np.broadcast_to(s, (*loads, *s.shape[-2:])) for _, s in evaluated]
        return np.asarray(np.concatenate(each, axis=-2) * self.counts)

    def terms(self, executed_s: FloatArray, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator, summed over layers, of what runs in a step of this kind."""
        return (self.of_all if load.has_prefill else self.of_decoding).terms(executed_s)


def _parts(model: StepModel) -> StepParts:
    return StepParts.of(model.groups)


def _parts_without_prompts(model: StepModel) -> StepParts:
    return StepParts.of([group for group in model.groups if not group.is_of_prompts])


def _run(groups: tuple[StepGroup, ...], at: StepTokens) -> Iterator[StepGroup]:
    return (group for group in groups if at.has_prefill or not group.is_of_prompts)


def step_tokens(load: StepLoad, candidates: Candidates) -> StepTokens:
    """What each group of ranks sees of a load, and what each pass of a draft does; see `_tokens_of_pass`."""
    c = candidates
    at = _tokens_of_pass(load, c, c.verified_tokens)
    if not c.drafts_any:
        return at
    passes = np.maximum(c.draft_passes, 1.0)
    branches = np.maximum((c.verified_tokens - 1) / passes, 1.0)
    in_a_pass = replace(load, prompt_tokens=load.prompt_tokens / passes)
    drafting = _tokens_of_pass(in_a_pass, c, TOKENS_OF_A_DRAFT * branches)
    return replace(at, drafting=replace(drafting, prompt_tokens=at.prompt_tokens))


def _tokens_of_pass(load: StepLoad, candidates: Candidates, tokens_each: Floats) -> StepTokens:
    """What each group of ranks sees of a load where `tokens_each` of every sequence that decodes pass together.

    Pipeline stages work on `micro_batches` at once.
    """
    c = candidates
    decoding, prefilling = _per_group(load.decoding, c.num_groups), _per_group(load.prefilling, c.num_groups)
    prompt = np.asarray(load.prompt_tokens, dtype=np.float64)
    is_prefilling, of_prompts = prefilling > 0, prefilling * prompt
    *loads, rows = np.broadcast(decoding, of_prompts).shape
    counted = np.empty((*loads, len(COUNTED), rows))
    counted[..., PROMPT_TOKENS, :] = of_prompts
    queries = decoding * tokens_each
    counted[..., TOKENS, :] = queries + of_prompts
    counted[..., HEAD_ROWS, :] = queries + prefilling
    stage_tokens = load.decoding * tokens_each + np.asarray(load.prefilling) * prompt
    counted[..., STAGE_TOKENS, :] = stage_tokens / c.micro_batches
    return StepTokens(
        decoding=decoding[..., None, :],
        queries=queries[..., None, :],
        caches=(decoding * (c.caches_per_sequence if c.drafts_any else 1.0))[..., None, :],
        decode_context_tokens=_operator_axis(load.decode_context_tokens),
        prefilling=prefilling[..., None, :],
        prompt_tokens=_operator_axis(np.where(is_prefilling, prompt, 1.0)),
        counted=np.maximum(counted, 1.0),
        in_flight=_in_flight(load, c)[..., None, :],
        is_decoding=(decoding > 0)[..., None, :],
        is_prefilling=is_prefilling[..., None, :],
        has_prefill=load.has_prefill,
    )


def _in_flight(load: StepLoad, candidates: Candidates) -> FloatArray:
    """Micro-batches that hold a sequence: one at least, and no more than stages take at once."""
    sequences = (load.decoding + np.asarray(load.prefilling)) / candidates.attention_dp
    return np.asarray(np.clip(sequences, 1.0, candidates.micro_batches), dtype=np.float64)


def _operator_axis(figure: Floats) -> FloatArray:
    figure = np.asarray(figure, dtype=np.float64)
    return figure[..., None, :] if figure.ndim else figure


def _per_group(count: Floats, groups: FloatArray) -> FloatArray:
    """Sequences of the busiest group: at least one while there are any."""
    count = np.asarray(count, dtype=np.float64)
    return np.maximum(count / groups, np.sign(count))
