"""Does a model fit these GPUs: in which layout, for how many users, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.architecture.parameters import weights_bytes
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.offer import Offer
from gpufleet.domain.precision import BF16, FP8, Precision, WeightFormat
from gpufleet.domain.precision_labels import own_and_lower
from gpufleet.domain.reason import Reason
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.layout.enumerate import enumerate_layouts, refused_layouts
from gpufleet.layout.feasible import stage_beyond_one_machine
from gpufleet.layout.support import (
    architecture_refusal,
    beside_refusal,
    engine_refusal,
    kv_refusal,
    weight_refusal,
)
from gpufleet.memory.fit import Demand, MemoryBudget, memory_budget
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.weights import weights_read_bytes_per_device
from gpufleet.performance.host_link import host_bytes_per_s
from gpufleet.records import dataclass
from gpufleet.units import GIB

MACHINE_SIZES = (1, 2, 4, 8, 16)
SHORTEST_CONTEXT_TOKENS = 256
LEAST_STEP_TOKENS = 256
SHORT = Reason("short_of_memory")
DEFAULT_FRACTION, NATIVE_SAMPLER, PREFIX_STATES = "default_fraction", "native_sampler", "prefix_states"


@dataclass(frozen=True)
class FitQuestion:
    """One model on `num_gpus` of one accelerator as one replica; `batch` None asks how many users there is room for."""

    arch: Architecture
    accelerator: Accelerator
    num_gpus: int
    engine: EngineProfile
    weights: WeightFormat
    kv: Precision
    context_tokens: float
    batch: float | None = None
    gpus_per_machine: int | None = None


@dataclass(frozen=True)
class Placement:
    """A layout with its memory budget."""

    layout: Layout
    budget: MemoryBudget

    @property
    def fits(self) -> bool:
        """Whether it fits (tight counts)."""
        return bool(self.budget.fits)

    @property
    def users(self) -> float:
        """Sequences of the asked context that it holds."""
        return float(self.budget.max_sequences.expected) if self.fits else 0.0

    @property
    def short_by_bytes(self) -> float:
        """Bytes per GPU that are missing."""
        return float(self.budget.short_by_bytes)


@dataclass(frozen=True)
class PrecisionOption:
    """Users with one weight and KV format; `reason` says why there are none."""

    weights: WeightFormat
    kv: Precision
    placement: Placement | None
    reason: Reason | None


@dataclass(frozen=True)
class Change:
    """One change of the question that makes it fit; the price is that of the cheapest machine, None where unknown."""

    what: str
    num_gpus: int
    placement: Placement
    offer: Offer | None
    lowers_quality: bool = False


@dataclass(frozen=True)
class OtherSetting:
    """A usual setting of the engine that nobody ruled out, in which the chosen layout does not fit.

    `code` names what is assumed and what it is otherwise (`report.words`).
    """

    code: str
    budget: MemoryBudget


@dataclass(frozen=True)
class FitReport:
    """The answer to a `FitQuestion`; `otherwise` are usual settings that turn its verdict."""

    question: FitQuestion
    chosen: Placement | None
    refusal: Reason | None
    rejected: tuple[tuple[Layout, Reason, float | None], ...]
    options: tuple[PrecisionOption, ...]
    changes: tuple[Change, ...]
    tpot_floor_s: float | None
    binding_limit: str
    otherwise: tuple[OtherSetting, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the model fits as asked."""
        return self.chosen is not None and self.chosen.fits

    @property
    def verdict(self) -> str:
        """That of the chosen layout; tight where a usual setting that nobody ruled out does not fit."""
        verdict = DOES_NOT_FIT if self.chosen is None else str(self.chosen.budget.verdict)
        return TIGHT if verdict == FITS and self.otherwise else verdict


def other_settings(q: FitQuestion, chosen: Placement) -> Iterator[OtherSetting]:
    """Usual settings that take more than what is assumed, in the chosen layout, where it then does not fit."""
    demand, rules = _demand(q, chosen.layout), EngineMemory.of(q.engine, q.accelerator)
    tried = {
        DEFAULT_FRACTION: rules.at_its_default(),
        NATIVE_SAMPLER: EngineMemory.of(q.engine.with_native_sampler(), q.accelerator),
        PREFIX_STATES: rules.keeping_states_of_prefixes(q.engine),
    }
    for code, other in tried.items():
        budget = memory_budget(q.arch, q.weights, other, demand)
        if not budget.fits:
            yield OtherSetting(code, budget)


def placements(q: FitQuestion) -> list[Placement]:
    """Every possible layout of the question's GPUs with its budget, best first.

    Fitting ones first, then fewest pipeline stages, then most users, of equals plain TP before attention-DP.
    """
    layouts = possible_layouts(q)
    engine = EngineMemory.of(q.engine, q.accelerator)
    found = [
        Placement(layout, memory_budget(q.arch, q.weights, engine, _demand(q, layout)))
        for layout in layouts
        if stage_beyond_one_machine(layout, q.gpus_per_machine) is None
    ]
    return sorted(found, key=_rank)


def possible_layouts(q: FitQuestion) -> list[Layout]:
    """The layouts that model and engine take on the question's GPUs."""
    columns = enumerate_layouts(q.arch, q.num_gpus, q.weights, by_layer=q.engine.splits_by_layer)
    layouts = (columns.row(index) for index in range(len(columns)))
    return [layout for layout in layouts if beside_refusal(q.engine, q.arch, layout) is None]


def candidate_of(q: FitQuestion, layout: Layout) -> Candidates:
    """One layout of a question as a candidate, its link unsaid."""
    one = np.ones(1, dtype=np.int64)
    return Candidates(
        Palette((q.accelerator,), (q.weights,), (q.kv,), (q.engine,)),
        **dict.fromkeys(("accelerator", "weight_format", "kv_precision", "engine"), 0 * one),
        tp=layout.tp * one,
        pp=layout.pp * one,
        ep=layout.ep * one,
        attention_dp=layout.attention_dp * one,
        link_is_pcie=one < 1,
        through_host=one < 1,
        link_bytes_per_s=np.zeros(1),
    )


def _demand(q: FitQuestion, layout: Layout) -> Demand:
    return Demand(
        kv_bytes_per_element=q.kv.bytes_per_element,
        context_tokens=q.context_tokens,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        attention_dp=layout.attention_dp,
        batch=q.batch,
    )


def _rank(placement: Placement) -> tuple[object, ...]:
    layout = placement.layout
    return (
        not placement.fits,
        round(placement.short_by_bytes / GIB),
        layout.pp,
        -placement.users,
        layout.attention_dp,
        layout.ep,
    )


def unsupported(q: FitQuestion) -> Reason | None:
    """Why the engine cannot run this model in these formats on this accelerator; None where it can."""
    return (
        architecture_refusal(q.engine, q.arch)
        or beside_refusal(q.engine, q.arch)
        or weight_refusal(q.engine, q.accelerator, q.weights)
        or kv_refusal(q.engine, q.accelerator, q.kv, q.arch)
    )


def best_placement(q: FitQuestion) -> Placement | None:
    """The layout to use; one that does not fit where none does, None where no layout is possible."""
    if unsupported(q):
        return None
    return next(iter(placements(q)), None)


def tpot_floor_s(q: FitQuestion, layout: Layout, budget: MemoryBudget) -> float:
    """Least seconds between two tokens of a user: what a step must read over the memory bandwidth.

    pp x (weights read + batch x KV of one sequence) / bandwidth / verified   [s]: a roofline bound, never reached.
    Weights in host memory come over its link, at least those of one token. verified: tokens that a step may yield, more
    than one where an engine drafts.
    """
    batch = 1.0 if q.batch is None else np.ceil(q.batch / layout.attention_dp)
    read = weights_read_bytes_per_device(q.arch, q.weights, layout, float(batch))
    cached = float(batch) * float(budget.kv_bytes_per_sequence)
    away = float(budget.offloaded_bytes) * min(read / float(budget.weights_bytes), 1.0)
    beyond_s = away * max(1 / host_bytes_per_s(q.accelerator) - 1 / q.accelerator.bandwidth_bytes_per_s, 0.0)
    step_s = layout.pp * ((read + cached) / q.accelerator.bandwidth_bytes_per_s + beyond_s)
    return step_s / q.engine.figure("verified_tokens", 1.0)


def precision_options(
    q: FitQuestion, formats: Sequence[WeightFormat], kv_precisions: Sequence[Precision]
) -> list[PrecisionOption]:
    """Users of the asked context by weight format and KV format."""
    found = []
    for weights in formats:
        for kv in kv_precisions:
            variant = replace(q, weights=weights, kv=kv)
            reason = unsupported(variant)
            found.append(PrecisionOption(weights, kv, None if reason else best_placement(variant), reason))
    return found


def longest_context_tokens(q: FitQuestion, layout: Layout) -> float | None:
    """The longest context, a power of two times 256 and shorter than asked, that fits this layout; None where none."""
    steps = int(max(0.0, np.ceil(np.log2(q.context_tokens / SHORTEST_CONTEXT_TOKENS))))
    contexts = np.asarray(SHORTEST_CONTEXT_TOKENS * 2.0 ** np.arange(steps), dtype=np.float64)
    if not len(contexts):
        return None
    demand = replace(_demand(q, layout), context_tokens=contexts)
    budget = memory_budget(q.arch, q.weights, EngineMemory.of(q.engine, q.accelerator), demand)
    fitting = contexts[budget.fits]
    return float(fitting.max()) if len(fitting) else None


def _more_gpus(q: FitQuestion, offers: Mapping[int, Offer]) -> list[Change]:
    """The fewest GPUs above the asked number that make it fit, in the sizes that machines come in."""
    for count in (size for size in MACHINE_SIZES if size > q.num_gpus):
        placement = best_placement(replace(q, num_gpus=count))
        if placement is not None and placement.fits:
            return [Change(f"{count}x {q.accelerator.name}", count, placement, offers.get(count))]
    return []


def _other_formats(q: FitQuestion, formats: Sequence[WeightFormat], offers: Mapping[int, Offer]) -> list[Change]:
    """The highest weight precision below the asked one that fits the same GPUs."""
    asked_bytes = weights_bytes(q.arch, q.weights)
    smaller = [w for w in formats if weights_bytes(q.arch, w) < asked_bytes]
    for weights in sorted(smaller, key=lambda w: -weights_bytes(q.arch, w)):
        placement = best_placement(replace(q, weights=weights))
        if placement is not None and placement.fits:
            offer = offers.get(q.num_gpus)
            return [Change(f"{weights.name} weights", q.num_gpus, placement, offer, True)]
    return []


def _other_kv(q: FitQuestion, offers: Mapping[int, Offer]) -> list[Change]:
    """A KV cache in fp8; the plain one too where the engine does not run the asked."""
    refused = kv_refusal(q.engine, q.accelerator, q.kv, q.arch) is not None
    found = []
    for kv in (BF16, FP8) if refused else (FP8,):
        placement = best_placement(replace(q, kv=kv))
        if placement is not None and placement.fits:
            offer = offers.get(q.num_gpus)
            found.append(Change(f"{kv.name} KV cache", q.num_gpus, placement, offer, kv is FP8))
    return found


def _shorter_context(q: FitQuestion, offers: Mapping[int, Offer]) -> list[Change]:
    """The longest context that any layout of the same GPUs still holds."""
    contexts = {p.layout: longest_context_tokens(q, p.layout) for p in placements(q)}
    longest = max((context for context in contexts.values() if context), default=None)
    if longest is None:
        return []
    placement = best_placement(replace(q, context_tokens=longest))
    if placement is None or not placement.fits:
        return []
    return [Change(f"a context of {longest:,.0f} tokens", q.num_gpus, placement, offers.get(q.num_gpus))]


def _smaller_steps(q: FitQuestion, offers: Mapping[int, Offer]) -> list[Change]:
    """The largest steps below the engine's own with which it starts, where its check before it starts decides."""
    asked = best_placement(q)
    if asked is None or not asked.budget.start_decides:
        return []
    tokens = int(EngineMemory.of(q.engine, q.accelerator).prefill_budget_tokens) // 2
    while tokens >= LEAST_STEP_TOKENS:
        placement = best_placement(
            replace(q, engine=q.engine.started_with(replace(q.engine.start, max_step_tokens=tokens)))
        )
        if placement is not None and placement.fits:
            what = f"steps of {tokens:,} tokens (--max-num-batched-tokens)"
            return [Change(what, q.num_gpus, placement, offers.get(q.num_gpus))]
        tokens //= 2
    return []


def _shorter_longest(q: FitQuestion, offers: Mapping[int, Offer]) -> list[Change]:
    """The longest request, a half of the told one and so on, with which the engine starts where its check decides."""
    asked, tokens = best_placement(q), (q.arch.max_model_len or 0) // 2
    if asked is None or not asked.budget.start_decides:
        return []
    while tokens >= q.context_tokens:
        placement = best_placement(replace(q, arch=replace(q.arch, max_model_len=tokens)))
        if placement is not None and placement.fits:
            what = f"requests of up to {tokens:,} tokens (--max-model-len)"
            return [Change(what, q.num_gpus, placement, offers.get(q.num_gpus))]
        tokens //= 2
    return []


def changes_that_fit(
    q: FitQuestion, formats: Sequence[WeightFormat], offers: Mapping[int, Offer]
) -> tuple[Change, ...]:
    """Single changes after which the question fits, cheapest first; unknown prices last, fewest GPUs first.

    At the same price, what keeps the model's quality comes before a lower precision.
    """
    found = _more_gpus(q, offers) + _other_formats(q, formats, offers) + _other_kv(q, offers)
    if not unsupported(q):
        found += _smaller_steps(q, offers) + _shorter_longest(q, offers) + _shorter_context(q, offers)
    return tuple(sorted(found, key=_cost))


def _cost(change: Change) -> tuple[float, bool, int]:
    price = np.inf if change.offer is None else change.offer.price_per_instance_usd_per_hour
    return float(price), change.lowers_quality, change.num_gpus


def fit_report(
    q: FitQuestion,
    formats: Sequence[WeightFormat],
    kv_precisions: Sequence[Precision],
    offers: Mapping[int, Offer],
) -> FitReport:
    """Layout, users, alternatives and changes for one question; `offers` holds the cheapest machine by GPU count."""
    refusal = unsupported(q)
    found = [] if refusal else placements(q)
    chosen = found[0] if found else None
    short = [(p.layout, SHORT, p.short_by_bytes) for p in found if not p.fits]
    fits = chosen is not None and chosen.fits
    return FitReport(
        question=q,
        chosen=chosen,
        refusal=refusal,
        rejected=() if refusal else (*_excluded(q), *short),
        options=tuple(precision_options(q, formats, kv_precisions)),
        changes=() if fits else changes_that_fit(q, formats, offers),
        tpot_floor_s=tpot_floor_s(q, chosen.layout, chosen.budget) if fits and chosen else None,
        binding_limit=binding_limit(q, chosen, refusal),
        otherwise=tuple(other_settings(q, chosen)) if fits and chosen else (),
    )


def _excluded(q: FitQuestion) -> list[tuple[Layout, Reason, float | None]]:
    """Layouts that a rule of the model or of the machine excludes."""
    reasons = [(layout, stage_beyond_one_machine(layout, q.gpus_per_machine)) for layout in possible_layouts(q)]
    wide = [(layout, reason) for layout, reason in reasons if reason]
    refused = refused_layouts(q.arch, q.num_gpus, q.weights, by_layer=q.engine.splits_by_layer)
    return [(layout, reason, None) for layout, reason in (*refused, *wide)]


def binding_limit(q: FitQuestion, chosen: Placement | None, refusal: Reason | None) -> str:
    """What stops more users, or stops the model altogether."""
    if refusal:
        lacking = (
            architecture_refusal(q.engine, q.arch)
            or beside_refusal(q.engine, q.arch)
            or engine_refusal(q.engine, q.accelerator)
        )
        return "engine" if lacking else "number format"
    if chosen is None:
        return "layout"
    budget = chosen.budget
    if float(budget.weights_bytes - budget.offloaded_bytes) > float(budget.memory_fraction * budget.device_bytes):
        return "weights"
    if not chosen.fits and float(budget.kv_pool_bytes.expected) <= 0:
        return "activations and engine overhead"
    return "KV cache"


WORTHWHILE_RATIO = 0.9  # a format that saves less than a tenth of the checkpoint is no alternative


def formats_to_compare(question: FitQuestion) -> list[WeightFormat]:
    """The asked format, the checkpoint's own, and smaller ones that the engine runs on this accelerator."""
    arch, q = question.arch, question
    limit_bytes = WORTHWHILE_RATIO * weights_bytes(arch, arch.weights)
    smaller = [w for w in own_and_lower(arch) if weights_bytes(arch, w) < limit_bytes]
    runnable = [w for w in smaller if weight_refusal(q.engine, q.accelerator, w) is None]
    return list({w.name: w for w in (q.weights, arch.weights, *runnable)}.values())


def caches_to_compare(question: FitQuestion) -> list[Precision]:
    """The asked KV format, and those of 16 and 8 bits that the engine runs on this accelerator."""
    q = question
    runnable = [kv for kv in (BF16, FP8) if kv_refusal(q.engine, q.accelerator, kv, q.arch) is None]
    return list(dict.fromkeys((q.kv, *runnable)))


def copies_of(question: FitQuestion) -> Iterator[tuple[int, Placement]]:
    """Copies of a machine by the GPUs of each: powers of two, and all."""
    sizes = {2**n for n in range(question.num_gpus.bit_length())} | {question.num_gpus}
    for size in sorted(n for n in sizes if n <= question.num_gpus):
        placement = best_placement(replace(question, num_gpus=size))
        if placement is not None and placement.fits:
            yield question.num_gpus // size, placement
