"""One function per rule: None where a layout is possible, else the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpufleet.domain.architecture import Architecture, Attention, DenseMlp, LatentAttention, MixtureOfExperts
from gpufleet.domain.layout import Layout
from gpufleet.domain.mixers import CompressedAttention
from gpufleet.domain.precision import Precision, WeightFormat
from gpufleet.domain.reason import Reason

VOCABULARY_PADDING = 64
DENSE_QUANTISATION_BLOCK = {"fp8_block": 128, "int4": 32, "mxfp4": 32, "nvfp4": 16}
EXPERT_QUANTISATION_BLOCK = {"fp8_block": 128, "int4": 32, "mxfp4": 8, "nvfp4": 16}

Rule = Callable[[Architecture, Layout, WeightFormat], "Reason | None"]


def heads_divide(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """Every tensor-parallel rank takes the same number of query heads."""
    for heads in sorted({block.mixer.num_heads for block in arch.blocks}):
        if heads % layout.tp:
            return Reason.of("heads_not_divisible", heads=heads, parts=layout.tp)
    return None


def kv_heads_divide_or_repeat(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """KV heads are dealt out evenly, or each is copied on the same number of ranks."""
    for kv_heads in sorted({b.mixer.num_kv_heads for b in arch.blocks if isinstance(b.mixer, Attention)}):
        if kv_heads % layout.tp and layout.tp % kv_heads:
            return Reason.of("kv_heads_not_divisible", kv_heads=kv_heads, parts=layout.tp)
    return None


def experts_divide(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """Every expert-parallel rank takes the same number of routed experts."""
    if layout.ep > 1 and not arch.is_moe:
        return Reason("no_experts")
    for experts in sorted({moe.num_experts for moe in _experts(arch)}):
        if experts % layout.ep:
            return Reason.of("experts_not_divisible", experts=experts, parts=layout.ep)
    return None


def widths_divide(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """Feed-forward parts are cut into equal pieces that hold whole quantisation blocks."""
    dense = {b.feed_forward.width for b in arch.blocks if isinstance(b.feed_forward, DenseMlp)}
    shared = {moe.shared_width for moe in _experts(arch) if moe.shared_width}
    for width in sorted(dense | shared):
        reason = _cut("width", width, layout.tp, weights.mlp, DENSE_QUANTISATION_BLOCK)
        if reason:
            return reason
    for width in sorted({moe.expert_width for moe in _experts(arch)}):
        reason = _cut("expert_width", width, layout.moe_tp, weights.experts, EXPERT_QUANTISATION_BLOCK)
        if reason:
            return reason
    return None


def _cut(what: str, width: int, parts: int, precision: Precision, blocks: dict[str, int]) -> Reason | None:
    if width % parts:
        return Reason.of(f"{what}_not_divisible", width=width, parts=parts)
    block = blocks.get(precision.name, 1)
    rest = width // parts
    if parts > 1 and rest % block:
        name = precision.name
        return Reason.of(f"{what}_breaks_block", width=width, parts=parts, rest=rest, precision=name, block=block)
    return None


def vocabulary_divides(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """The vocabulary, padded to 64 as engines do, is dealt out evenly."""
    padded = -(-arch.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
    if arch.vocab_size % layout.tp and padded % layout.tp:
        return Reason.of("vocabulary_not_divisible", vocabulary=arch.vocab_size, parts=layout.tp, padded=padded)
    return None


def stages_have_layers(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """A pipeline stage holds at least one layer."""
    if layout.pp > arch.num_layers:
        return Reason.of("too_few_layers", layers=arch.num_layers, stages=layout.pp)
    return None


def attention_dp_pays(arch: Architecture, layout: Layout, weights: WeightFormat) -> Reason | None:
    """Engines offer attention-DP to models whose experts or latent cache TP would leave copied."""
    latent = any(isinstance(block.mixer, (LatentAttention, CompressedAttention)) for block in arch.blocks)
    if layout.attention_dp > 1 and not (arch.is_moe or latent):
        return Reason("attention_dp_of_dense")
    return None


RULES: tuple[Rule, ...] = (
    stages_have_layers,
    heads_divide,
    kv_heads_divide_or_repeat,
    experts_divide,
    widths_divide,
    vocabulary_divides,
    attention_dp_pays,
)


def refusal(arch: Architecture, layout: Layout, weights: WeightFormat | None = None) -> Reason | None:
    """The first rule that a layout breaks; None where it is possible.

    >>> from gpufleet.domain.architecture import Block
    >>> llama = Architecture("llama-3.1-70b", "llama", 8192, 128256,
    ...     (Block(80, Attention(64, 8, 128), DenseMlp(28672, True)),), False, 131072)
    >>> refusal(llama, Layout(tp=3)).code
    'heads_not_divisible'
    """
    checkpoint = arch.weights if weights is None else weights
    return next((reason for rule in RULES if (reason := rule(arch, layout, checkpoint))), None)


def stage_beyond_one_machine(layout: Layout, gpus_per_machine: int | None) -> Reason | None:
    """The ranks of a pipeline stage exchange data in every layer: they share a machine. None: no machine is known.

    >>> stage_beyond_one_machine(Layout(tp=16), 8).code
    'stage_spans_machines'
    """
    if gpus_per_machine is None or layout.tp * layout.attention_dp <= gpus_per_machine:
        return None
    return Reason.of("stage_spans_machines", layout=layout.label, gpus=gpus_per_machine)


def _experts(arch: Architecture) -> Iterator[MixtureOfExperts]:
    return (b.feed_forward for b in arch.blocks if isinstance(b.feed_forward, MixtureOfExperts))
