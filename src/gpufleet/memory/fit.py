"""Whether a replica fits its devices, what is left for KV cache, and how many sequences that serves."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np

from gpufleet.architecture.kv_cache import state_bytes_per_sequence
from gpufleet.domain.architecture import Architecture, LatentAttention
from gpufleet.domain.arrays import AnyArray, Floats, Ints
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import Precision, WeightFormat
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.memory.activations import activation_bytes_per_device
from gpufleet.memory.adapters import SOURCE as ADAPTERS_SOURCE
from gpufleet.memory.adapters import slots_bytes_per_device
from gpufleet.memory.band import Band
from gpufleet.memory.drafts import draft_kv_bytes_per_sequence, draft_weights_bytes
from gpufleet.memory.graphs import after_pool_bytes, graph_bytes_per_device
from gpufleet.memory.kv import (
    kv_bytes_per_sequence_per_device,
    state_bytes_per_sequence_per_device,
    with_latents_as_heads,
    with_windows_of,
)
from gpufleet.memory.overhead import EngineMemory, driver_variation_bytes, overhead_bytes
from gpufleet.memory.pages import common_window, has_windows, paged_bytes_per_sequence, pages_of, shares_pages
from gpufleet.memory.weights import (
    AnyFormat,
    offloaded_bytes_per_device,
    padding_bytes_per_device,
    weights_bytes_per_device,
    weights_terms,
)
from gpufleet.provenance import Grade, Sourced, Term
from gpufleet.records import dataclass
from gpufleet.units import GIB, MIB

PAGES_SOURCE = "vLLM, v1/core/kv_cache_utils.py"
LEAST_WINDOW_TOKENS = 1.0
NONE = Band(0.0, 0.0, 0.0)
ROUNDING = 1e-9  # a pool of exactly n sequences holds n of them in floating point too


@dataclass(frozen=True)
class Demand:
    """What is asked of one replica: a layout, a KV format, a context, and optionally a number of sequences.

    `prompt_tokens` only matters to engines with static batches; None means that the context is all prompt.
    """

    kv_bytes_per_element: Floats
    context_tokens: Floats
    tp: Ints = 1
    pp: Ints = 1
    ep: Ints = 1
    attention_dp: Ints = 1
    batch: Floats | None = None
    prompt_tokens: Floats | None = None

    @property
    def num_devices(self) -> Ints:
        """GPUs of the replica."""
        return self.tp * self.pp * self.attention_dp

    @property
    def batch_per_group(self) -> Floats | None:
        """Sequences of one attention-DP group; None where no batch is stated."""
        return None if self.batch is None else cast(Floats, np.ceil(np.asarray(self.batch) / self.attention_dp)[()])


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes of the fullest device by part, and the KV pool; scalars, or one element per candidate.

    `weights_bytes` are counted from the checkpoint, `loaded_bytes` what they take in the engine without
    `offloaded_bytes`, which lie in host memory; `adapter_bytes` are slots of adapters beside them, `after_pool_bytes`
    what it takes once the pool is sized, and `left_beside_bytes` what a stated memory fraction then leaves of the card:
    unlimited where the fraction is chosen so that it holds. `kv_bytes_per_sequence` are held while a sequence decodes;
    the engine starts where its pool has `startup_kv_bytes`.
    """

    device_bytes: Floats
    memory_fraction: Floats
    weights_bytes: Floats
    loaded_bytes: Band
    activation_bytes: Band
    overhead_bytes: Band
    graph_bytes: Band
    after_pool_bytes: Band
    left_beside_bytes: Band
    kv_pool_bytes: Band
    kv_bytes_per_sequence: Floats
    startup_kv_bytes: Floats
    needed_kv_bytes: Floats
    attention_dp: Ints
    adapter_bytes: Band = NONE
    offloaded_bytes: Floats = 0.0

    @cached_property
    def total_bytes(self) -> Band:
        """What the asked-for sequences need: weights, adapters, their KV, activations, graphs and overhead."""
        held = self.loaded_bytes.plus(Band.exact(self.needed_kv_bytes)).plus(self.adapter_bytes)
        return held.plus(self.activation_bytes).plus(self.graph_bytes).plus(self.overhead_bytes)

    @cached_property
    def spare_bytes(self) -> Band:
        """KV pool beyond what is asked for, capped by the card and by what the engine takes beside the pool.

        Negative where it does not fit.
        """
        total = self.total_bytes
        of_card = Band(
            np.minimum(self.kv_pool_bytes.low - self.needed_kv_bytes, self.device_bytes - total.high),
            np.minimum(self.kv_pool_bytes.expected - self.needed_kv_bytes, self.device_bytes - total.expected),
            np.minimum(self.kv_pool_bytes.high - self.needed_kv_bytes, self.device_bytes - total.low),
        )
        return of_card.smaller_of(self.left_beside_bytes)

    @cached_property
    def fits(self) -> AnyArray:
        """Whether the expected amount fits (tight counts as fits)."""
        return np.asarray(self.spare_bytes.expected) >= 0

    @property
    def is_tight(self) -> AnyArray:
        """Whether it fits as expected but not at the high end of the range."""
        return self.fits & (np.asarray(self.spare_bytes.low) < 0)

    @property
    def verdict(self) -> AnyArray:
        """'fits', 'tight' or 'does not fit'."""
        return np.where(self.fits, np.where(self.is_tight, TIGHT, FITS), DOES_NOT_FIT)

    @property
    def start_decides(self) -> AnyArray:
        """Whether the engine asks for more before it starts than the asked sequences hold while they decode."""
        asks = np.asarray(self.startup_kv_bytes > self.kv_bytes_per_sequence)
        return np.asarray(asks & np.asarray(self.needed_kv_bytes <= self.startup_kv_bytes))

    @property
    def lacks_room_beside(self) -> AnyArray:
        """Whether the pool is large enough, but a stated memory fraction leaves too little for what comes after it."""
        holds = np.asarray(self.kv_pool_bytes.expected - self.needed_kv_bytes) >= 0
        return holds & (np.asarray(self.left_beside_bytes.expected) < 0)

    @property
    def short_by_bytes(self) -> Floats:
        """Bytes per device that are missing; 0 where it fits."""
        return cast(Floats, np.maximum(0.0, -np.asarray(self.spare_bytes.expected))[()])

    @property
    def max_sequences(self) -> Band:
        """Sequences of this context that the replica holds at once: whole ones per group, all groups."""
        return self.kv_pool_bytes.map(self.sequences_in)

    def sequences_in(self, pool_bytes: Floats) -> Floats:
        """Sequences that pools of this size hold; none where the engine does not start with so little."""
        whole = np.floor(np.maximum(pool_bytes, 0.0) / self.kv_bytes_per_sequence * (1 + ROUNDING))
        starts = np.asarray(pool_bytes) * (1 + ROUNDING) >= self.startup_kv_bytes
        return cast(Floats, np.where(starts, whole * self.attention_dp, 0.0)[()])

    def pool_tokens(self, kv_bytes_per_token: Floats) -> Band:
        """Tokens that the pool of one attention-DP group holds."""
        return self.kv_pool_bytes.map(lambda pool: np.maximum(pool, 0.0) / kv_bytes_per_token)


@dataclass(frozen=True)
class HeldBytes:
    """What the fullest device holds beside KV, whatever is asked: weights as counted and as they lie there, overhead.

    `offloaded_bytes`, which lie in host memory, are not among `loaded_bytes`. `step` is the engine's largest one; None
    where prompts or contexts decide how large that is.
    """

    weights_bytes: Floats
    loaded_bytes: Band
    overhead_bytes: Band
    graph_bytes: Band
    step: StepBytes | None
    adapter_bytes: Band = NONE
    offloaded_bytes: Floats = 0.0


@dataclass(frozen=True)
class Pools:
    """KV pools that an engine may open, whatever is asked of it.

    `usual` with the default memory fraction, `largest` with the highest that holds in practice, `leaving_room` for what
    comes after it; the pool may be smaller by `below`, larger by `above`.
    """

    usual: Floats
    largest: Floats
    leaving_room: Floats
    below: Floats
    above: Floats


@dataclass(frozen=True)
class StepBytes:
    """Activations of the largest step, what the engine takes off the device before it opens the KV pool, and after.

    `limits_pool`: whether what comes after has to find room beside a pool that does not give way.
    """

    activations: Band
    taken: Band
    after: Band
    pools: Pools
    limits_pool: AnyArray


def memory_budget(arch: Architecture, weights: AnyFormat, engine: EngineMemory, demand: Demand) -> MemoryBudget:
    """Bytes of the fullest device of a replica, part by part, with the KV pool that its engine would open."""
    return budget_around(arch, held_bytes(arch, weights, engine, demand), engine, demand)


def held_bytes(arch: Architecture, weights: AnyFormat, engine: EngineMemory, demand: Demand) -> HeldBytes:
    """What the layout and the batch of a demand decide, whatever its contexts are."""
    d = demand
    counted = weights_bytes_per_device(arch, weights, d.tp, d.pp, d.ep, d.attention_dp)
    loaded = loaded_weights_bytes(arch, weights, engine, d, counted)
    if arch.draft is not None:
        drafts = draft_weights_bytes(arch, weights, engine.draft_passes, d.tp, d.ep, d.attention_dp)
        counted, loaded = counted + drafts, loaded.plus(Band.exact(drafts))
    overhead = overhead_bytes(engine, d.num_devices)
    graphs = graph_bytes_per_device(engine, arch, d.tp, d.pp, d.attention_dp)
    held = with_beside(arch, weights, engine, d, HeldBytes(counted, loaded, overhead, graphs, None))
    return held if engine.steps_depend_on_lengths else replace(held, step=step_bytes(arch, engine, d, held))


def with_beside(
    arch: Architecture, weights: AnyFormat, engine: EngineMemory, demand: Demand, held: HeldBytes
) -> HeldBytes:
    """The same with slots of adapters, and without weights that lie in host memory."""
    layout = (demand.tp, demand.pp, demand.ep, demand.attention_dp)
    if engine.has_adapters:
        held = replace(held, adapter_bytes=slots_bytes_per_device(arch, engine, *layout))
    if not engine.offloads_weights:
        return held
    away = offloaded_bytes_per_device(arch, weights, engine.offloaded_bytes, *layout)
    return replace(held, loaded_bytes=held.loaded_bytes.map(lambda loaded: loaded - away), offloaded_bytes=away)


def step_bytes(arch: Architecture, engine: EngineMemory, demand: Demand, held: HeldBytes) -> StepBytes:
    """The largest step that a demand leads to: as much of it as the engine profiles counts, beside what lies there."""
    activations = activations_of(arch, engine, demand)
    profiled = activations.scaled(engine.profiled_share)
    seen = held.overhead_bytes.scaled(engine.seen_overhead).plus(held.graph_bytes.scaled(engine.graphs_in_fraction))
    variation = driver_variation_bytes(engine)
    loaded = held.loaded_bytes.plus(held.adapter_bytes)
    taken = profiled.beside(seen).beside(loaded).beside(variation)
    after = after_pool_bytes(engine, activations, held.graph_bytes)
    pools = pools_of(engine, taken, after, demand.num_devices)
    return StepBytes(activations, taken, after, pools, must_leave_room(engine, after))


def activations_of(arch: Architecture, engine: EngineMemory, demand: Demand) -> Band:
    """Peak of the largest step that a demand leads to."""
    d = demand
    prompt_tokens = d.context_tokens if d.prompt_tokens is None else d.prompt_tokens
    longest = np.maximum(d.context_tokens, arch.max_model_len or 0.0)
    return activation_bytes_per_device(
        engine, arch, d.batch_per_group, prompt_tokens, d.tp, d.ep, d.attention_dp, longest
    )


def budget_around(arch: Architecture, held: HeldBytes, engine: EngineMemory, demand: Demand) -> MemoryBudget:
    """The budget of a replica of which what it holds is known: for a demand of the same layout and batch."""
    d = demand
    step = held.step or step_bytes(arch, engine, d, held)
    taken, per_sequence = step.taken, pool_bytes_per_sequence(arch, engine, d)
    if arch.draft is not None:
        of_draft = draft_kv_bytes_per_sequence(arch, engine, d.kv_bytes_per_element, d.context_tokens, d.tp)
        per_sequence = per_sequence + of_draft
    startup = startup_bytes(arch, engine, d, per_sequence)
    needed = np.maximum((1.0 if d.batch_per_group is None else d.batch_per_group) * per_sequence, startup)
    pool = pool_for(step.pools, engine, needed)
    return MemoryBudget(
        device_bytes=engine.device_bytes,
        memory_fraction=(pool.expected / engine.free_fraction + taken.expected) / engine.device_bytes,
        weights_bytes=held.weights_bytes,
        loaded_bytes=held.loaded_bytes,
        activation_bytes=step.activations,
        overhead_bytes=held.overhead_bytes,
        graph_bytes=held.graph_bytes,
        after_pool_bytes=step.after,
        left_beside_bytes=left_beside_bytes(engine, step, pool),
        kv_pool_bytes=pool,
        kv_bytes_per_sequence=per_sequence,
        startup_kv_bytes=startup,
        needed_kv_bytes=needed,
        attention_dp=d.attention_dp,
        adapter_bytes=held.adapter_bytes,
        offloaded_bytes=held.offloaded_bytes,
    )


def pool_bytes_per_sequence(
    arch: Architecture, engine: EngineMemory, demand: Demand, step_tokens: Floats = 0.0
) -> Floats:
    """What one sequence of the demand's context takes of the KV pool of the fullest device.

    Layer by layer, or in whole pages where the engine lets layers of several kinds share a pool. With `step_tokens` it
    is prefilled in steps of so many, which a layer with a window keeps beside it.   [bytes]
    """
    d = demand
    if not shares_pages(arch):
        return cached_bytes_per_sequence(arch, engine, d, step_tokens)
    plain = cached_bytes_per_sequence(arch, engine, d)
    caches = plain - state_bytes_per_sequence_per_device(arch, d.tp, d.pp)
    states = state_bytes_per_sequence_per_device(arch, d.tp, d.pp, engine.least_state_bytes)
    apart = beside_states(caches, states, engine)
    pages = pages_of(arch, d.kv_bytes_per_element, d.tp, d.pp, engine.kv_block_tokens)
    paged = paged_bytes_per_sequence(pages, d.context_tokens, engine.states_per_sequence, step_tokens)
    return cast(Floats, np.where(np.asarray(engine.shared_pages) > 0, paged, apart)[()])


def startup_bytes(arch: Architecture, engine: EngineMemory, demand: Demand, held_bytes: Floats) -> Floats:
    """What the pool must have before an engine starts: one sequence of the whole context   [bytes].

    vLLM counts a layer with a window as it is while a prompt is prefilled: min(context, window - 1 + tokens of a step)
    in blocks, and one block more; `held_bytes`, what a sequence holds while it decodes, is less.
    What it was told to take at most (--max-model-len) has to find room though nobody asks for so much.
    Source: SlidingWindowSpec.max_memory_usage_bytes, v1/kv_cache_interface.py; check in v1/core/kv_cache_utils.py.
    """
    if arch.max_model_len is not None:
        longest = np.maximum(demand.context_tokens, arch.max_model_len * np.asarray(engine.admits_longest))
        demand = replace(demand, context_tokens=longest)
        held_bytes = pool_bytes_per_sequence(arch, engine, demand)
    checks = np.asarray(engine.admits_whole_steps) > 0
    if not (checks.any() and has_windows(arch)):
        return held_bytes
    admitted = pool_bytes_per_sequence(arch, engine, demand, engine.prefill_budget_tokens)
    return cast(Floats, np.where(checks, np.maximum(admitted, held_bytes), held_bytes)[()])


def cached_bytes_per_sequence(
    arch: Architecture, engine: EngineMemory, demand: Demand, step_tokens: Floats = 0.0
) -> Floats:
    """Caches and states of one sequence layer by layer, on the fullest device, as the engine's version keeps them.

    Older engines keep the whole context in layers with windows, and heads where others keep a latent. Where windows
    have a pool of r times the tokens of the other layers', a token counts for other layers + r windows. A window that
    all layers have keeps `step_tokens` of a prefill beside it.   [bytes]
    """
    d, window = demand, common_window(arch)
    if np.asarray(step_tokens).any() and math.isfinite(window):
        arch = with_windows_of(arch, math.inf)
        beside = np.minimum(d.context_tokens, window - 1.0 + step_tokens) + engine.kv_block_tokens
        d = replace(d, context_tokens=beside)

    def kept(cached: Architecture) -> Floats:
        return kv_bytes_per_sequence_per_device(
            cached, d.kv_bytes_per_element, d.context_tokens, d.tp, d.pp, engine.kv_block_tokens
        )

    found, latent = kept(arch), np.asarray(engine.latent_head_elements)
    if latent.any():
        found = np.where(latent > 0, kept(with_latents_as_heads(arch, int(latent.max()))), found)[()]
    whole, ratio = np.asarray(engine.whole_windows) > 0, np.asarray(engine.window_pool_ratio)
    if (whole.any() or ratio.any()) and shares_pages(arch):
        seen, everything = (kept(with_windows_of(arch, tokens)) for tokens in (LEAST_WINDOW_TOKENS, math.inf))
        pooled = np.where(ratio > 0, seen + ratio * (everything - seen), found)
        found = np.where(whole, everything, pooled)[()]
    return found


def beside_states(cache_bytes: Floats, state_bytes: Floats, engine: EngineMemory) -> Floats:
    """What a sequence takes of a pool that the engine splits once between caches and states: the scarcer part counts.

    max(caches (1 + r), states_per_sequence x state (1 + r) / r), r = state_pool_ratio; unsplit, their sum   [bytes]
    SGLang gives states 0.9 / 1.9 of the pool and a sequence three of them (--mamba-full-memory-ratio; pull/11679,
    issues/25993: Qwen3.5-122B on four H100 has 15.9 GB and about 435 states).
    """
    ratio = np.asarray(engine.state_pool_ratio)
    splits = (ratio > 0) & (np.asarray(state_bytes) > 0)
    share = np.where(splits, ratio, 1.0)
    of_states = engine.states_per_sequence * state_bytes * (1.0 + share) / share
    scarcer = np.maximum(cache_bytes * (1.0 + share), of_states)
    return cast(Floats, np.where(splits, scarcer, cache_bytes + state_bytes)[()])


def loaded_weights_bytes(
    arch: Architecture, weights: AnyFormat, engine: EngineMemory, demand: Demand, weights_bytes: Floats
) -> Band:
    """Weights as they lie on the fullest device: counted, tiles padded, rotary tables and loading slack on top.

    (counted + padding) x loaded_ratio   [bytes]
    """
    d = demand
    padding = padding_bytes_per_device(arch, weights, engine.mxfp4_alignment, d.tp, d.pp, d.ep, d.attention_dp)
    ratio = engine.loaded_ratio
    return Band(
        ratio.low * (weights_bytes + padding.low),
        ratio.expected * (weights_bytes + padding.expected),
        ratio.high * (weights_bytes + padding.high),
    )


def kv_pool_bytes(engine: EngineMemory, taken: Band, after: Band, needed_bytes: Floats, num_devices: Ints) -> Band:
    """What the engine hands to KV once weights, profiled activations and overhead are taken; may be negative.

    free_fraction (fraction x device - taken), with the default fraction; a higher one, up to the largest that holds
    in practice, where KV would otherwise have less than is needed or than raised_pool_ratio of the card; where nobody
    states it, a lower one that leaves room for what comes after the pool.   [bytes]
    """
    return pool_for(pools_of(engine, taken, after, num_devices), engine, needed_bytes)


def pool_for(pools: Pools, engine: EngineMemory, needed_bytes: Floats) -> Band:
    """The pool that is opened where so much KV is needed; see `kv_pool_bytes`."""
    wanted = np.maximum(needed_bytes, engine.raised_pool_ratio * engine.device_bytes)
    raised = np.maximum(pools.usual, np.minimum(pools.largest, wanted))
    expected = np.minimum(raised, pools.leaving_room)
    return Band(expected - pools.below, expected, expected + pools.above)


def pools_of(engine: EngineMemory, taken: Band, after: Band, num_devices: Ints) -> Pools:
    """The pools that an engine may open once so much is taken, and before what comes after is."""

    def pool(fraction: Floats) -> Floats:
        return engine.free_fraction * (fraction * engine.device_bytes - taken.expected)

    default = cast(Floats, engine.memory_fraction - engine.fraction_per_device * num_devices)
    largest = cast(Floats, np.where(gives_way(engine), engine.largest_memory_fraction, default)[()])
    return Pools(
        usual=pool(default),
        largest=pool(largest),
        leaving_room=pool_that_leaves_room(engine, taken, after, pool(default)),
        below=engine.free_fraction * (taken.high - taken.expected),
        above=engine.free_fraction * (taken.expected - taken.low),
    )


def gives_way(engine: EngineMemory) -> AnyArray:
    """Whether nobody stated the memory fraction, so that it is raised or lowered as far as it must be."""
    return np.asarray(engine.largest_memory_fraction) > engine.memory_fraction


def is_sized_by_card(engine: EngineMemory) -> AnyArray:
    """Whether the engine chose its memory fraction by what its card needs beside the pool (SGLang, not told one)."""
    return np.asarray(engine.fraction_per_device) > 0


def pool_that_leaves_room(engine: EngineMemory, taken: Band, after: Band, default_pool: Floats) -> Floats:
    """The largest pool beside which the card holds what comes after it; unlimited where the fraction is stated.

    device - taken - after   [bytes]; at least the default pool where the engine sizes that by card (SGLang).
    """
    room = engine.device_bytes - taken.expected - after.expected
    found = np.where(is_sized_by_card(engine), np.maximum(room, default_pool), room)
    return cast(Floats, np.where(gives_way(engine), found, np.inf)[()])


def must_leave_room(engine: EngineMemory, after: Band) -> AnyArray:
    """Whether what comes after has to find room beside the pool.

    Not where the memory fraction gives way, was sized by card, or is a share of what is free (TensorRT-LLM: runs went
    on with 0.5 GiB left), or where nothing comes after.
    """
    is_chosen = gives_way(engine) | is_sized_by_card(engine)
    is_free = is_chosen | (np.asarray(engine.states_free_fraction) > 0) | (np.asarray(after.high) <= 0)
    return np.asarray(~is_free)


def left_beside_bytes(engine: EngineMemory, step: StepBytes, pool: Band) -> Band:
    """What a stated memory fraction leaves of the card once the engine has taken what comes after the pool.

    device - taken - pool - after   [bytes]; unlimited unless that has to find room there. The engine measures what it
    takes before, so that only what comes after is uncertain.
    """
    if not step.limits_pool.any():
        return Band.exact(np.inf)
    beside = engine.device_bytes - step.taken.expected - pool.expected

    def left(taken_after: Floats) -> Floats:
        return cast(Floats, np.where(step.limits_pool, beside - taken_after, np.inf)[()])

    return Band(left(step.after.high), left(step.after.expected), left(step.after.low))


def memory_terms(
    arch: Architecture,
    weights: WeightFormat,
    kv: Precision,
    engine: EngineProfile,
    layout: Layout,
    budget: MemoryBudget,
) -> list[Term]:
    """Every part of one replica's budget with its formula and the numbers put in."""
    return [
        *weights_terms(arch, weights, layout),
        *_draft_terms(arch, weights, engine, layout),
        *_loading_terms(engine, budget),
        *_beside_terms(engine, layout, budget),
        _activation_term(arch, engine, budget),
        _overhead_term(engine, layout, budget),
        _graph_term(engine, budget),
        _pool_term(engine, budget),
        _sequence_term(arch, kv, engine, layout, budget),
        *_startup_terms(engine, budget),
    ]


def _beside_terms(engine: EngineProfile, layout: Layout, budget: MemoryBudget) -> list[Term]:
    """Slots of adapters, and what lies in host memory instead."""
    found, asked = [], engine.beside.adapters
    if asked is not None:
        low, value, high = (float(end) for end in budget.adapter_bytes.ends().values())
        formula = "slots x rank of a slot x 2 B x layers x sum over adapted weights of (n + k), what TP cuts cut"
        inputs = f"{asked.slots} slots, rank {asked.rank}, {layout.label}"
        found.append(Term("adapters", value, "bytes", formula, inputs, ADAPTERS_SOURCE, Grade.MEASURED, low, high))
    if engine.beside.offloaded_bytes:
        away, source = float(budget.offloaded_bytes), engine.host_memory.source if engine.host_memory else ""
        formula = "- min(asked, layers of the fullest stage)"
        found.append(Term("weights in host memory", -away, "bytes", formula, layout.label, source))
    return found


def _judged(name: str, band: Band, formula: str, inputs: str, engine: EngineProfile, figure: Sourced) -> Term:
    grade = Grade.MEASURED if engine.grade == "measured" and figure.points else Grade.TRANSFERRED
    low, value, high = float(band.low), float(band.expected), float(band.high)
    return Term(name, value, "bytes", formula, inputs, figure.source, grade, low, high)


def _activation_term(arch: Architecture, engine: EngineProfile, budget: MemoryBudget) -> Term:
    logit, hidden, mlp = (engine.constants[name] for name in ("logit_bytes", "hidden_copies", "mlp_copies"))
    formula = (
        "max(tokens x 2 B x (hidden_copies h + mlp_copies x MLP width), rows x vocabulary x logit_bytes)"
        " + expert buffers"
    )
    inputs = f"{hidden.value:g} hidden_copies, {mlp.value:g} mlp_copies, {logit.value:g} B a logit"
    if arch.vision and arch.vision.largest_image_tokens and "vision_hidden_copies" in engine.constants:
        formula += ", or the largest image: patches x 2 B x (3 patch elements + 2 MLP width / tp + copies h)"
        inputs += f", {arch.vision.largest_image_tokens * arch.vision.patches_per_token} patches"
    return _judged("activations", budget.activation_bytes, formula, inputs, engine, logit)


def _draft_terms(arch: Architecture, weights: WeightFormat, engine: EngineProfile, layout: Layout) -> list[Term]:
    """Weights of what drafts; nothing where no model does."""
    if arch.draft is None or arch.draft.model is None or engine.drafts is None:
        return []
    passes = engine.drafts.num_tokens
    size = float(draft_weights_bytes(arch, weights, passes, layout.tp, layout.ep, layout.attention_dp))
    formula = "parameters / tp x bytes, of the module alone where it shares the model's vocabulary"
    return [Term("draft weights", size, "bytes", formula, arch.draft.model.name, "", Grade.TRANSFERRED)]


def _loading_terms(engine: EngineProfile, budget: MemoryBudget) -> list[Term]:
    """What weights take beyond their count; nothing where the engine's profile does not know."""
    if "loaded_ratio" not in engine.constants:
        return []
    counted, ratio = float(budget.weights_bytes), engine.constants["loaded_ratio"]
    slack = budget.loaded_bytes.map(lambda loaded: loaded + budget.offloaded_bytes - counted)
    return [
        _judged("loading", slack, "(counted + padding) x loaded_ratio - counted", f"{ratio.value:g}", engine, ratio)
    ]


def _overhead_term(engine: EngineProfile, layout: Layout, budget: MemoryBudget) -> Term:
    formula = "context and libraries + communication buffers where GPUs > 1"
    inputs = f"{layout.num_devices} GPUs"
    return _judged("overhead", budget.overhead_bytes, formula, inputs, engine, engine.reserve_bytes)


def _graph_term(engine: EngineProfile, budget: MemoryBudget) -> Term:
    figure = engine.constants.get("graph_layer_bytes")
    if figure is None:
        return _judged(
            "graphs", budget.graph_bytes, "captured decode batches", engine.title, engine, engine.graph_bytes
        )
    formula = "graphs x (layers x graph_layer_bytes + reductions by NCCL x graph_reduction_bytes)"
    return _judged("graphs", budget.graph_bytes, formula, engine.title, engine, figure)


def _pool_term(engine: EngineProfile, budget: MemoryBudget) -> Term:
    graphs = " - graphs" if "graphs_in_fraction" in engine.constants and engine.constant("graphs_in_fraction") else ""
    formula = f"free_fraction x (memory_fraction x device - weights - profiled activations - overhead{graphs})"
    inputs = (
        f"memory_fraction {float(budget.memory_fraction):.3g}, device {float(budget.device_bytes) / GIB:.1f} GiB, "
        f"free_fraction {engine.constant('free_fraction'):g}"
    )
    return _judged("KV pool", budget.kv_pool_bytes, formula, inputs, engine, engine.memory_fraction)


def _sequence_term(
    arch: Architecture, kv: Precision, engine: EngineProfile, layout: Layout, budget: MemoryBudget
) -> Term:
    formula, source = _sequence_formula(arch, engine)
    inputs = f"{kv.name} at {kv.bytes_per_element:g} B, {layout.label}, blocks of {engine.kv_block_tokens} tokens"
    if source == PAGES_SOURCE:
        pages = pages_of(arch, kv.bytes_per_element, layout.tp, layout.pp, engine.kv_block_tokens)
        kinds = zip(pages.groups, pages.block_tokens, strict=True)
        blocks = ", ".join(f"{n} x {'a state' if math.isinf(t) else f'{float(t):g} tokens'}" for n, t in kinds)
        inputs = f"{kv.name}, {layout.label}, blocks of {float(pages.block_bytes) / MIB:.1f} MiB: {blocks}"
    size = float(budget.kv_bytes_per_sequence)
    return Term("KV of one sequence", size, "bytes", formula, inputs, source)


def _startup_terms(engine: EngineProfile, budget: MemoryBudget) -> list[Term]:
    """What the engine asks of its pool before it starts, where that is more than a sequence holds."""
    size, held = float(budget.startup_kv_bytes), float(budget.kv_bytes_per_sequence)
    if size <= held:
        return []
    formula = "as KV of one sequence, windows with min(context, window - 1 + tokens of a step) in blocks, and one block"
    source = next(c.source for n in ("admits_whole_steps", "admits_longest") if (c := engine.constants.get(n)))
    return [Term("KV to start with", size, "bytes", formula, "one sequence of the longest context", source)]


def _sequence_formula(arch: Architecture, engine: EngineProfile) -> tuple[str, str]:
    """The formula of a sequence's share of the pool, and its source."""
    if shares_pages(arch) and "shared_pages" in engine.constants and engine.constant("shared_pages"):
        return "block x sum over kinds of layers of groups x blocks that the context needs", PAGES_SOURCE
    if shares_pages(arch) and "state_pool_ratio" in engine.constants and state_bytes_per_sequence(arch):
        return "max(caches (1 + r), states x state (1 + r) / r)", engine.constants["state_pool_ratio"].source
    pooled = engine.constants.get("window_pool_ratio")
    if shares_pages(arch) and pooled is not None and not engine.figure("whole_windows", 0.0):
        return f"bytes x context x (layers that see it + {pooled.value:g} x layers with windows)", pooled.source
    heads = engine.constants.get("latent_head_elements")
    if heads is not None and any(isinstance(block.mixer, LatentAttention) for block in arch.blocks):
        return f"layers x 2 ceil(heads/tp) x {heads.value:g} elements x bytes x context in blocks", heads.source
    formula = "layers x 2 ceil(kv_heads/tp) d x bytes x min(context, window) in blocks; MLA: one latent"
    return formula, "PagedAttention, arXiv:2309.06180"
