"""One model in words and figures, from its architecture alone."""

from __future__ import annotations

import math

from gpufleet.architecture.flops import flop_per_token, prefill_flop
from gpufleet.architecture.kv_cache import (
    index_bytes_per_sequence,
    kv_bytes_per_sequence,
    kv_elements_per_token,
    state_bytes,
    state_bytes_per_sequence,
)
from gpufleet.architecture.parameters import num_active_parameters, num_parameters, parameter_parts, weights_bytes
from gpufleet.architecture.sparse_attention import index_of
from gpufleet.architecture.vision import image_tokens, patches_together, vision_flop
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    Block,
    DenseMlp,
    FeedForward,
    LatentAttention,
    Mixer,
)
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, NoFeedForward, NoMixer, StateSpace
from gpufleet.domain.precision import BF16
from gpufleet.results.model_explained import ModelContext, ModelExplained, ModelLayers, ModelPart, ModelVision
from gpufleet.units import GIB, MIB

CONTEXTS = (4096, 32_768, 131_072, 1_048_576)
IMAGE_PIXELS = 1024
PARTS = {
    "embedding": ("token embedding", "base"),
    "head": ("output head", "head"),
    "attention": ("token mixers", "attention"),
    "dense_mlp": ("dense MLPs", "mlp"),
    "shared_experts": ("shared experts", "mlp"),
    "expert_latents": ("projections around experts", "mlp"),
    "routed_experts": ("routed experts", "experts"),
    "router": ("routers", "base"),
    "vectors": ("norms, biases, taps", "base"),
    "expert_vectors": ("biases of experts", "base"),
    "vision": ("vision tower", "base"),
}


def explain_model(arch: Architecture) -> ModelExplained:
    """Parts, layers, costs by context, and what is special."""
    return ModelExplained(
        name=arch.name,
        family=arch.family,
        num_parameters=num_parameters(arch),
        num_active_parameters=num_active_parameters(arch),
        checkpoint_bytes=weights_bytes(arch, arch.weights),
        weight_format=arch.weights.name,
        max_context_tokens=arch.max_context_tokens,
        special=special(arch),
        parts=model_parts(arch),
        layers=[_layers(block) for block in arch.blocks],
        contexts=[_context(arch, tokens) for tokens in CONTEXTS if tokens <= max(arch.max_context_tokens, CONTEXTS[0])],
        vision=_vision(arch),
        notes=list(arch.notes),
    )


def model_parts(arch: Architecture) -> list[ModelPart]:
    """Parts that the model has, largest first."""
    counts, total = parameter_parts(arch), num_parameters(arch)
    parts = []
    for field, (words, kept_in) in PARTS.items():
        number, precision = getattr(counts, field), getattr(arch.weights, kept_in)
        size = number * precision.bytes_per_element
        part = ModelPart(
            part=words,
            num_parameters=number,
            share_ratio=number / total,
            checkpoint_bytes=size,
            precision=precision.name,
        )
        parts += [part] if number else []
    return sorted(parts, key=lambda part: -part.num_parameters)


def _layers(block: Block) -> ModelLayers:
    mixer = block.mixer
    entry_tokens = mixer.tokens_per_entry if isinstance(mixer, CompressedAttention) else 1
    grows = not isinstance(mixer, Attention) or math.isinf(mixer.window_tokens)
    elements = float(kv_elements_per_token(mixer)) / entry_tokens if grows and entry_tokens else 0.0
    index = index_of(mixer)
    per_token = elements * BF16.bytes_per_element + (index.cache_bytes_per_entry / entry_tokens if index else 0.0)
    return ModelLayers(
        count=block.count,
        mixer=mixer_in_words(mixer),
        feed_forward=feed_forward_in_words(block.feed_forward),
        kv_bytes_per_token=per_token,
        state_bytes=float(state_bytes(mixer)),
    )


def _context(arch: Architecture, tokens: int) -> ModelContext:
    return ModelContext(
        context_tokens=tokens,
        kv_bytes=float(kv_bytes_per_sequence(arch, BF16.bytes_per_element, tokens)),
        prefill_flop=float(prefill_flop(arch, tokens).total),
        decode_flop=float(flop_per_token(arch, tokens).total),
    )


def _vision(arch: Architecture) -> ModelVision | None:
    if arch.vision is None:
        return None
    tokens = image_tokens(arch.vision, IMAGE_PIXELS, IMAGE_PIXELS)
    flop = vision_flop(arch.vision, tokens, patches_together(arch.vision, tokens))
    return ModelVision(num_parameters=arch.vision.params, image_tokens=tokens, image_flop=float(flop))


def mixer_in_words(mixer: Mixer) -> str:
    """What mixes tokens in a layer.

    >>> mixer_in_words(Attention(64, 8, 128, window_tokens=4096))
    'attention, 64 heads over 8 KV heads of 128, window of 4,096'
    """
    if isinstance(mixer, Attention):
        heads = f"{mixer.num_heads} heads over {mixer.num_kv_heads} KV heads of {mixer.head_dim}"
        return f"attention, {heads}{_reach(mixer)}"
    if isinstance(mixer, LatentAttention):
        latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
        return f"latent attention, {mixer.num_heads} heads over a latent of {latent}" + _choice(mixer.kept_tokens)
    if isinstance(mixer, CompressedAttention):
        entries = f" and entries of {mixer.tokens_per_entry} tokens" if mixer.tokens_per_entry else ""
        chosen = "" if math.isinf(mixer.kept_entries) else f", {mixer.kept_entries:,.0f} of them chosen"
        return f"compressed attention, {mixer.num_heads} heads, window of {mixer.window_tokens:,}{entries}{chosen}"
    if isinstance(mixer, GatedDeltaNet):
        shape = f"{mixer.key_head_dim} x {mixer.value_head_dim}"
        return f"gated delta net, {mixer.num_value_heads} states of {shape}"
    if isinstance(mixer, StateSpace):
        return f"state space, {mixer.inner_width:,} channels with {mixer.state_size} states each"
    return "none"


def _reach(mixer: Attention) -> str:
    kind = "chunks" if mixer.chunked else "window"
    window = "" if math.isinf(mixer.window_tokens) else f", {kind} of {mixer.window_tokens:,.0f}"
    return window + _choice(mixer.kept_tokens)


def _choice(kept_tokens: float) -> str:
    return "" if math.isinf(kept_tokens) else f", reads {kept_tokens:,.0f} chosen tokens"


def feed_forward_in_words(part: FeedForward) -> str:
    """What follows the mixer.

    >>> from gpufleet.domain.architecture import MixtureOfExperts
    >>> feed_forward_in_words(MixtureOfExperts(256, 8, 2048, True, shared_width=2048))
    '8 of 256 experts of 2,048, shared one of 2,048'
    """
    if isinstance(part, NoFeedForward):
        return "none"
    if isinstance(part, DenseMlp):
        return f"MLP of {part.width:,}"
    shared = f", shared one of {part.shared_width:,}" if part.shared_width else ""
    latent = f", in a space of {part.latent_width:,}" if part.latent_width else ""
    return f"{part.top_k} of {part.num_experts} experts of {part.expert_width:,}{shared}{latent}"


def special(arch: Architecture) -> list[str]:
    """What sets a model apart from a dense decoder with full attention, and what that means for serving it."""
    sayings = (_of_experts, _of_latent, _of_windows, _of_state, _of_choice, _of_entries, _of_rest)
    return [sentence for saying in sayings if (sentence := saying(arch))]


def _of_experts(arch: Architecture) -> str:
    if not arch.is_moe:
        return ""
    share = num_active_parameters(arch) / num_parameters(arch)
    return f"Experts: {share:.1%} of the parameters work for a token, all of them need memory."


def _of_latent(arch: Architecture) -> str:
    latent = _count(arch, LatentAttention)
    sentence = f"Latent cache in {latent} of {arch.num_layers} layers: small, but every TP rank keeps a copy."
    return sentence if latent else ""


def _of_windows(arch: Architecture) -> str:
    local = [b for b in arch.blocks if isinstance(b.mixer, Attention) and math.isfinite(b.mixer.window_tokens)]
    if not local:
        return ""
    window = max(b.mixer.window_tokens for b in local if isinstance(b.mixer, Attention))
    layers = sum(b.count for b in local)
    return f"Windows: {layers} of {arch.num_layers} layers keep at most {window:,.0f} tokens."


def _of_state(arch: Architecture) -> str:
    layers = _count(arch, GatedDeltaNet) + _count(arch, StateSpace)
    size = state_bytes_per_sequence(arch) / MIB
    kept = f"{size:,.0f} MiB a sequence, whatever its length"
    return f"Recurrent: {layers} of {arch.num_layers} layers keep a state: {kept}." if layers else ""


def _of_choice(arch: Architecture) -> str:
    layers = sum(b.count for b in arch.blocks if index_of(b.mixer) is not None)
    size = float(index_bytes_per_sequence(arch, CONTEXTS[1])) / GIB
    cache = f"its own cache of {size:.2g} GiB at {CONTEXTS[1]:,} tokens, on every TP rank"
    sentence = f"Sparse: {layers} of {arch.num_layers} layers choose what to read by an index, with {cache}."
    return sentence if layers else ""


def _of_entries(arch: Architecture) -> str:
    layers = sum(b.count for b in arch.blocks if isinstance(b.mixer, CompressedAttention) and b.mixer.tokens_per_entry)
    return f"Compressed: {layers} of {arch.num_layers} layers keep one vector for a group of tokens." if layers else ""


def _of_rest(arch: Architecture) -> str:
    without = _count(arch, NoMixer)
    words = [
        f"{without} of {arch.num_layers} layers mix no tokens" if without else "",
        f"{arch.residual_streams} residual streams side by side" if arch.residual_streams > 1 else "",
        "embedding and head are one matrix" if arch.tied_embeddings else "",
        "a vision tower reads images" if arch.vision else "",
    ]
    said = "; ".join(filter(None, words))
    return f"Also: {said}." if said else ""


def _count(arch: Architecture, kind: type) -> int:
    return sum(block.count for block in arch.blocks if isinstance(block.mixer, kind))
