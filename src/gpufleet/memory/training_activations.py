"""Bytes that the forward pass of training keeps for the backward pass on one device, for many layouts at once.

What a layer keeps is counted tensor by tensor, as Korthikanti et al. 2022 (arXiv:2205.05198) do for LayerNorm, GELU and
dropout; what depends on the software is in `TrainingMemoryConstants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from gpufleet.architecture.parameters import head_params
from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp, LatentAttention, MixtureOfExperts
from gpufleet.domain.arrays import FloatArray, Floats, Ints
from gpufleet.domain.precision import BF16
from gpufleet.domain.training import Method, Recipe, TrainingLayouts
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.memory.weights import stage_share
from gpufleet.provenance import Sourced
from gpufleet.records import dataclass

SOURCE = "Korthikanti et al. 2022, arXiv:2205.05198, equations 1 to 6"
MASK_BYTES = 1.0
SCORE_TENSORS = 1.0
"""Of attention scores the softmax output alone is kept; with dropout its mask and output too (5 bytes of 2-byte
elements)."""


@dataclass(frozen=True)
class LayerActivations:
    """Bytes that one layer keeps per token.

    `whole` lies on every TP rank unless sequence parallelism cuts it, `cut` is divided by TP, and so are `scores`,
    which grow with the sequence. Of the first two `cheap_whole` and `cheap_cut` can be had again without a product of
    matrices.
    """

    whole: float
    cut: float
    scores: float = 0.0
    cheap_whole: float = 0.0
    cheap_cut: float = 0.0

    def plus(self, other: LayerActivations) -> LayerActivations:
        """Both together."""
        return LayerActivations(*(mine + its for mine, its in zip(self.amounts, other.amounts, strict=True)))

    @property
    def amounts(self) -> tuple[float, ...]:
        """The five amounts in their order."""
        return self.whole, self.cut, self.scores, self.cheap_whole, self.cheap_cut

    def on_rank(self, layouts: TrainingLayouts) -> FloatArray:
        """Bytes per token on one rank, scores included.

        >>> from gpufleet.domain.training import one_layout
        >>> float(LayerActivations(10.0, 24.0).on_rank(one_layout(tp=8))[0])
        13.0
        """
        return self.whole / norm_parts(layouts) + (self.cut + self.scores) / layouts.tp

    def cheap_on_rank(self, layouts: TrainingLayouts) -> FloatArray:
        """Bytes per token on one rank that selective recompute does not keep.

        Attention scores where they exist (arXiv:2205.05198, equation 6); under flash attention what lies between the
        products of matrices: outputs of norms, activations and gated products (selective checkpointing of PyTorch).
        """
        between = self.cheap_whole / norm_parts(layouts) + self.cheap_cut / layouts.tp
        return self.scores / layouts.tp if self.scores else between


def norm_parts(layouts: TrainingLayouts) -> FloatArray:
    """Ranks over which norms and what they put out are cut: those of TP with sequence parallelism, else one."""
    return np.where(layouts.sequence_parallel, layouts.tp, 1).astype(np.float64)


def layer_activations(
    block: Block, arch: Architecture, recipe: Recipe, constants: TrainingMemoryConstants
) -> LayerActivations:
    """Bytes that one layer keeps per token.

    Norms and residual stream, attention, feed-forward part, adapters. With LayerNorm, a plain MLP of 4 h, dropout and
    fused kernels: 34 h + 5 heads x sequence   [bytes/token]   Source: arXiv:2205.05198, equation 1.

    GPT-3 175B, h = 12,288, 96 heads, 2,048 tokens: 34 h + 80 h.

    >>> from gpufleet.catalog.training_constants import load_training_memory_constants
    >>> from gpufleet.domain.training import ADAMW, FP16_MIXED
    >>> layer = Block(96, Attention(96, 96, 128), DenseMlp(49152, False), 4 * 12288)
    >>> gpt_3 = Architecture("gpt-3", "gpt2", 12288, 51200, (layer,), True, 2048)
    >>> megatron = Recipe(Method.FULL, FP16_MIXED, ADAMW, 2048, flash=False, dropout=True)
    >>> kept = layer_activations(layer, gpt_3, megatron, load_training_memory_constants())
    >>> kept.whole / 12288, kept.cut / 12288, kept.scores / 12288
    (10.0, 24.0, 80.0)
    """
    return (
        _norms(block, arch, recipe, constants)
        .plus(_mixer(block, arch, recipe))
        .plus(_feed_forward(block, arch, recipe, constants))
        .plus(_adapters(block, arch, recipe, constants))
    )


def num_norms(block: Block, hidden: int) -> int:
    """Norms of one layer: vectors over the size of one; LayerNorm has a bias beside its weight."""
    each = hidden if is_rms(block) else 2 * hidden
    return max(round(block.vector_params / each), 1)


def is_rms(block: Block) -> bool:
    """Whether norms are RMSNorm: taken of gated MLPs and experts, with which it goes in nearly every family."""
    return bool(getattr(block.feed_forward, "gated", False))


def keeps_linear_inputs(recipe: Recipe) -> bool:
    """Whether matrices keep their input: where they learn, and under the 4-bit kernels of bitsandbytes.

    Fused QLoRA (torchtune, Unsloth) does not.
    """
    return not recipe.is_frozen_base or (recipe.method is Method.QLORA and not recipe.compiled)


def _norms(block: Block, arch: Architecture, recipe: Recipe, constants: TrainingMemoryConstants) -> LayerActivations:
    """What norms take in, and put out where a matrix keeps it; fp32 copies without fused kernels; dropout masks."""
    hidden, width = arch.hidden_size, recipe.formats.activation_bytes
    count = num_norms(block, hidden)
    is_cast = is_rms(block) and not recipe.compiled
    taken = constants.eager_norm_bytes.value if is_cast else width
    if is_cast and not recipe.is_frozen_base:
        taken += width
    is_read = keeps_linear_inputs(recipe) or recipe.compiled
    put_out = width if is_read else 0.0
    masks = 2 * MASK_BYTES if recipe.dropout else 0.0
    other = 0.0 if recipe.compiled else constants.eager_other_bytes.value
    cheap = count * (taken + put_out - width) + other
    return LayerActivations((count * (taken + put_out) + masks + other) * hidden, 0.0, cheap_whole=cheap * hidden)


def _mixer(block: Block, arch: Architecture, recipe: Recipe) -> LayerActivations:
    """Queries, keys, values and what comes out; without flash attention the scores as well.

    2 (q + k + v + out) + heads x sequence x (2, with dropout 5)   [bytes/token]
    Kernels without GQA of their own (eager) get keys and values for every query head.
    """
    mixer, width = block.mixer, recipe.formats.activation_bytes
    if isinstance(mixer, Attention):
        kv_heads = mixer.num_kv_heads if recipe.compiled else mixer.num_heads
        query = mixer.num_heads * (mixer.head_dim + mixer.value_dim)
        elements = query + kv_heads * (mixer.head_dim + mixer.value_dim) + mixer.gate_width
    elif isinstance(mixer, LatentAttention):
        key = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        latents = 2 * ((mixer.q_lora_rank or 0) + mixer.kv_lora_rank)
        elements = 2 * key + 2 * mixer.num_heads * mixer.v_head_dim + latents + mixer.gate_width
    else:
        elements = 4 * arch.hidden_size
    return LayerActivations(0.0, width * elements, _scores(block, recipe))


def _scores(block: Block, recipe: Recipe) -> float:
    if recipe.flash or not isinstance(block.mixer, Attention | LatentAttention):
        return 0.0
    tensors = 2 * SCORE_TENSORS if recipe.dropout else SCORE_TENSORS
    each = tensors * recipe.formats.activation_bytes + (MASK_BYTES if recipe.dropout else 0.0)
    reach = min(recipe.sequence_tokens, getattr(block.mixer, "window_tokens", recipe.sequence_tokens))
    return each * block.mixer.num_heads * reach


def _feed_forward(
    block: Block, arch: Architecture, recipe: Recipe, constants: TrainingMemoryConstants
) -> LayerActivations:
    """What an MLP keeps: of routed experts top_k times, with what is sent to them and comes back."""
    part = block.feed_forward
    if isinstance(part, DenseMlp):
        return _mlp(part.width, part.gated, recipe, constants)
    if not isinstance(part, MixtureOfExperts):
        return LayerActivations(0.0, 0.0)
    shared = _mlp(part.shared_width, part.gated, recipe, constants)
    sent = 2 * (part.latent_width or arch.hidden_size) * recipe.formats.activation_bytes
    one = LayerActivations(0.0, sent).plus(_mlp(part.expert_width, part.gated, recipe, constants))
    routed = part.top_k * constants.expert_imbalance.value
    return shared.plus(LayerActivations(*(routed * amount for amount in one.amounts)))


def _mlp(width: int, gated: bool, recipe: Recipe, constants: TrainingMemoryConstants) -> LayerActivations:
    """What an MLP keeps; the outputs of its first products are all that cannot be had cheaply."""
    kept = mlp_bytes(width, gated, recipe, constants)
    products = (1 + gated) * width * recipe.formats.activation_bytes
    return LayerActivations(0.0, kept, cheap_cut=max(kept - products, 0.0))


def mlp_bytes(width: int, gated: bool, recipe: Recipe, constants: TrainingMemoryConstants) -> float:
    """Bytes that an MLP of this width keeps per token.

    plain: input and output of its activation, 4 x width; frozen: its input alone. gated: gate, its activation, up, and
    their product, 8 x width, fewer where frozen   [bytes/token]
    """
    share = recipe.formats.activation_bytes / BF16.bytes_per_element
    keeps = keeps_linear_inputs(recipe)
    if not gated:
        return width * share * (4.0 if keeps or (recipe.compiled and _is_adapted(recipe, "down")) else 2.0)
    if keeps:
        return width * share * constants.gated_trained_bytes.value
    frozen = constants.gated_frozen_bytes if recipe.compiled else constants.gated_frozen_eager_bytes
    return width * share * frozen.value


def _is_adapted(recipe: Recipe, module: str) -> bool:
    return recipe.adapter is not None and module in recipe.adapter.modules


def _adapters(block: Block, arch: Architecture, recipe: Recipe, constants: TrainingMemoryConstants) -> LayerActivations:
    """Inputs that adapters keep of their own, after dropout, without fused kernels."""
    if recipe.adapter is None or recipe.compiled:
        return LayerActivations(0.0, 0.0)
    each = constants.adapter_input_bytes.value
    mlp = _mlp_width(block)
    heads = block.mixer.num_heads * getattr(block.mixer, "value_dim", getattr(block.mixer, "v_head_dim", 0))
    inputs = {"o": heads, "down": mlp}
    whole = sum(arch.hidden_size for module in recipe.adapter.modules if module not in inputs)
    return LayerActivations(each * whole, each * sum(inputs.get(module, 0) for module in recipe.adapter.modules))


def _mlp_width(block: Block) -> int:
    part = block.feed_forward
    if isinstance(part, MixtureOfExperts):
        return part.shared_width + part.top_k * part.expert_width
    return part.width if isinstance(part, DenseMlp) else 0


def microbatches_in_flight(layouts: TrainingLayouts) -> FloatArray:
    """Micro-batches of whose layers the first stage keeps activations at once.

    1F1B: min(pp, m). Interleaved in v chunks: min(pp + (pp - 1) / v, m)   [micro-batches]
    Source: arXiv:2205.05198, section 4.2.3.

    >>> from gpufleet.domain.training import one_layout
    >>> float(microbatches_in_flight(one_layout(pp=8, interleave=3, num_micro_batches=64))[0])
    10.333333333333334
    """
    interleaved = np.where(layouts.interleave > 1, (layouts.pp - 1) / layouts.interleave, 0.0)
    return np.minimum(layouts.pp + interleaved, layouts.num_micro_batches).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Activations:
    """Bytes on one device: what the first and the last stage keep, and what passes through.

    `kept` by the first stage, `kept_last` by the last one, `working`: what recomputed layers need while in use,
    `gathered`: what ranks of sequence parallelism put together for a product; `logits` of the last stage; `host`: what
    is offloaded.
    """

    kept: FloatArray
    kept_last: FloatArray
    working: FloatArray
    gathered: FloatArray
    logits: FloatArray
    host: FloatArray


def activations(
    arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, constants: TrainingMemoryConstants
) -> Activations:
    """Activations of each layout; full recompute never keeps more than none does."""
    tokens = layouts.tokens_per_micro_batch(recipe)
    layers = [layer_activations(block, arch, recipe, constants) for block in arch.blocks]
    per_stage = tokens * stage_activations(arch, layers, recipe, layouts, constants)
    one_layer = tokens * _largest([each.on_rank(layouts) for each in layers])
    cheap = one_layer - tokens * _largest([_selected(each, layouts, constants) for each in layers])
    in_flight = microbatches_in_flight(layouts)
    by_mode = [np.zeros(len(layouts)), cheap, one_layer]
    working = np.choose(layouts.recompute, by_mode) if recipe.keeps_activations else one_layer
    everything = tokens * _stage_of(arch, [each.on_rank(layouts) for each in layers], layouts)
    kept, working = _no_more_than(everything * in_flight, per_stage * in_flight, working, recipe)
    on_device = 1.0 if recipe.keeps_activations else 0.0
    return Activations(
        kept=kept * on_device,
        kept_last=np.minimum(kept, per_stage) * on_device,
        working=working,
        gathered=tokens * gathered_hidden_bytes(arch, recipe, layouts),
        logits=tokens * logit_bytes(arch, recipe, layouts, constants),
        host=kept * (1.0 - on_device),
    )


def gathered_hidden_bytes(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts) -> FloatArray:
    """Bytes per token of the whole sequence while a product of matrices reads it: its input and that input's gradient.

    2 h x bytes where sequence parallelism cuts the norms   [bytes/token]   Source: arXiv:2205.05198, section 4.2.2.
    """
    is_cut = layouts.sequence_parallel & (layouts.tp > 1)
    return np.where(is_cut, 2.0 * arch.hidden_size * recipe.formats.activation_bytes, 0.0)


def _no_more_than(
    everything: FloatArray, kept: FloatArray, working: FloatArray, recipe: Recipe
) -> tuple[FloatArray, FloatArray]:
    """Recomputing is not taken to keep more than keeping everything."""
    if not recipe.keeps_activations:
        return kept, np.minimum(working, everything)
    return np.minimum(kept, everything), np.minimum(working, np.maximum(everything - kept, 0.0))


def stage_activations(
    arch: Architecture,
    layers: Sequence[LayerActivations],
    recipe: Recipe,
    layouts: TrainingLayouts,
    constants: TrainingMemoryConstants,
) -> FloatArray:
    """Bytes per token that a stage keeps of one micro-batch, by what is recomputed.

    none: everything; selective: all but what is cheap to have again; full: the input of each layer, 2 h, cut over TP
    ranks with sequence parallelism   [bytes/token]   Source: arXiv:2205.05198, equations 1 to 6 and section 5.
    """
    everything = [each.on_rank(layouts) for each in layers]
    selected = [_selected(each, layouts, constants) for each in layers]
    edge = residual_bytes(recipe) * arch.hidden_size * arch.residual_streams / norm_parts(layouts)
    kept = [
        np.choose(layouts.recompute, [every, some, np.minimum(edge, some)])
        for every, some in zip(everything, selected, strict=True)
    ]
    return _stage_of(arch, kept, layouts)


def residual_bytes(recipe: Recipe) -> float:
    """Bytes of an element between layers: that of activations, or of frozen embeddings and norms that are wider.

    PEFT's prepare_model_for_kbit_training keeps what is not quantised in fp32, and so what passes through it.
    """
    if recipe.method is not Method.QLORA:
        return recipe.formats.activation_bytes
    return max(recipe.formats.activation_bytes, recipe.base.base.bytes_per_element)


def _selected(each: LayerActivations, layouts: TrainingLayouts, constants: TrainingMemoryConstants) -> FloatArray:
    """Bytes per token that one layer keeps under selective recompute; with flash attention a share of its products."""
    share = 1.0 if each.scores else constants.selective_kept_share.value
    return share * (each.on_rank(layouts) - each.cheap_on_rank(layouts))


def _stage_of(arch: Architecture, per_layer: Sequence[Floats], layouts: TrainingLayouts) -> FloatArray:
    return np.asarray(stage_share(arch, per_layer, cast(Ints, np.asarray(layouts.pp, dtype=np.float64))))


def _largest(amounts: Sequence[FloatArray]) -> FloatArray:
    largest = amounts[0]
    for amount in amounts[1:]:
        largest = np.maximum(largest, amount)
    return largest


def logit_bytes(
    arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, constants: TrainingMemoryConstants
) -> FloatArray:
    """Bytes of logits and loss per token, cut over the vocabulary.

    vocabulary / tp x bytes per logit: 16-bit logits, their fp32 copy, the softmax and its gradient; in chunks the
    16-bit logits and one chunk of the rest   [bytes/token]
    """
    logits = head_params(arch, cast(Ints, np.asarray(layouts.tp, dtype=np.float64)))
    width = arch.embedding_width or arch.hidden_size
    return np.asarray(logits / width * bytes_per_logit(recipe, constants).value)


def bytes_per_logit(recipe: Recipe, constants: TrainingMemoryConstants) -> Sourced:
    """The constant that this software's loss has."""
    if recipe.chunked_loss:
        return constants.logit_chunked_bytes if recipe.compiled else constants.logit_chunked_eager_bytes
    return constants.logit_fused_bytes if recipe.compiled and recipe.fused_loss else constants.logit_eager_bytes
