"""Exact parameter counts, by part and by layer, and the bytes they take in a checkpoint.

Counts are those of the model's own class with tied weights once, without multi-token-prediction modules and buffers.
"""

from __future__ import annotations

from dataclasses import fields

from gpufleet.architecture.recurrent import Recurrent, SplitParams, recurrent_params
from gpufleet.architecture.sparse_attention import compressed_attention_params, index_of, index_params
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    Block,
    DenseMlp,
    FeedForward,
    LatentAttention,
    Mixer,
    MixtureOfExperts,
)
from gpufleet.domain.mixers import CompressedAttention, NoFeedForward, NoMixer
from gpufleet.domain.precision import WeightFormat
from gpufleet.records import dataclass


@dataclass(frozen=True)
class FeedForwardParts:
    """Parameters of one layer's feed-forward part."""

    dense_mlp: int = 0
    shared_experts: int = 0
    routed_experts: int = 0
    router: int = 0
    vectors: int = 0
    expert_vectors: int = 0
    expert_latents: int = 0


@dataclass(frozen=True)
class ParameterParts:
    """Parameters of the whole model; `head` is 0 where it is the embedding, `vectors` are norms, biases and sinks.

    `attention` holds the matrices of every token mixer; `expert_vectors` are the biases of all routed experts,
    `expert_latents` the projections into and out of the space that experts work in, `vision` a whole vision tower.
    """

    embedding: int
    head: int
    attention: int
    dense_mlp: int
    shared_experts: int
    routed_experts: int
    router: int
    vectors: int
    expert_vectors: int = 0
    expert_latents: int = 0
    vision: int = 0

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(getattr(self, part.name) for part in fields(self))


def mixer_params(mixer: Mixer, hidden_size: int) -> int:
    """Parameters of the matrices of one layer's token mixer, without its vectors.

    >>> mixer_params(Attention(num_heads=32, num_kv_heads=8, head_dim=128), hidden_size=4096)
    41943040
    """
    index = index_of(mixer)
    if isinstance(mixer, (Attention, LatentAttention)):
        core = attention_params(mixer, hidden_size)
    else:
        core = split_params(mixer, hidden_size).total
    return core + (index_params(index, hidden_size) if index else 0)


def split_params(mixer: Recurrent | CompressedAttention | NoMixer, hidden_size: int) -> SplitParams:
    """Matrix parameters of mixers other than attention over single tokens, by how ranks hold them."""
    if isinstance(mixer, NoMixer):
        return SplitParams(0)
    if isinstance(mixer, CompressedAttention):
        return compressed_attention_params(mixer, hidden_size)
    return recurrent_params(mixer, hidden_size)


def attention_params(mixer: Attention | LatentAttention, hidden_size: int) -> int:
    """Parameters of one layer's attention matrices, without its vectors and its index.

    MHA, GQA, MQA: hidden (heads + kv_heads) (head_dim + value_dim)   (q, k, v, output), and hidden * gate_width
    MLA: q (through q_lora_rank where there is one), hidden * (kv_lora_rank + rope_dim),
    kv_lora_rank * heads * (nope_dim + v_dim), heads * v_dim * hidden, and hidden * gate_width.

    >>> attention_params(Attention(num_heads=32, num_kv_heads=8, head_dim=128), hidden_size=4096)
    41943040
    """
    if isinstance(mixer, LatentAttention):
        return _latent_attention_params(mixer, hidden_size)
    values = 0 if mixer.keys_are_values else mixer.num_kv_heads * mixer.value_dim
    keys = mixer.num_kv_heads * mixer.head_dim
    return hidden_size * (mixer.num_heads * (mixer.head_dim + mixer.value_dim) + keys + values + mixer.gate_width)


def _latent_attention_params(mixer: LatentAttention, hidden_size: int) -> int:
    query_width = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
    query = hidden_size * query_width if mixer.q_lora_rank is None else mixer.q_lora_rank * (hidden_size + query_width)
    down = hidden_size * (mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    up = mixer.kv_lora_rank * mixer.num_heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    output = mixer.num_heads * mixer.v_head_dim + mixer.gate_width
    return query + down + up + output * hidden_size


def mlp_params(width: int, gated: bool, hidden_size: int) -> int:
    """Parameters of an MLP's matrices: up, down, and gate where gated.

    >>> mlp_params(14336, gated=True, hidden_size=4096)
    176160768
    """
    return (3 if gated else 2) * hidden_size * width


def feed_forward_params(feed_forward: FeedForward, hidden_size: int) -> FeedForwardParts:
    """Parameters of one layer's feed-forward part.

    >>> feed_forward_params(MixtureOfExperts(8, 2, 14336, gated=True), 4096).routed_experts
    1409286144
    """
    if isinstance(feed_forward, NoFeedForward):
        return FeedForwardParts(vectors=feed_forward.vector_params)
    if isinstance(feed_forward, DenseMlp):
        dense = mlp_params(feed_forward.width, feed_forward.gated, hidden_size)
        return FeedForwardParts(dense_mlp=dense, vectors=feed_forward.vector_params)
    return FeedForwardParts(
        shared_experts=mlp_params(feed_forward.shared_width, feed_forward.gated, hidden_size),
        routed_experts=feed_forward.num_experts * expert_params(feed_forward, hidden_size),
        router=feed_forward.num_experts * hidden_size,
        vectors=feed_forward.vector_params,
        expert_vectors=feed_forward.num_experts * feed_forward.expert_vector_params,
        expert_latents=latent_params(feed_forward, hidden_size),
    )


def expert_params(experts: MixtureOfExperts, hidden_size: int) -> int:
    """Parameters of one routed expert's matrices, which may work on a projection of the hidden state."""
    return mlp_params(experts.expert_width, experts.gated, experts.latent_width or hidden_size)


def latent_params(experts: MixtureOfExperts, hidden_size: int) -> int:
    """Parameters of the projections into and out of the space that experts work in; 0 where it is the hidden state."""
    return 2 * hidden_size * experts.latent_width if experts.latent_width else 0


def embedding_params(arch: Architecture) -> int:
    """Token embedding with what comes with it: learned positions, embedding norm, projections."""
    return head_params(arch) + arch.embedding_params


def head_params(arch: Architecture) -> int:
    """The matrix that turns a hidden state into logits; it is the embedding where weights are tied."""
    return arch.vocab_size * (arch.embedding_width or arch.hidden_size)


def block_parts(block: Block, hidden_size: int) -> ParameterParts:
    """Parameters of all layers of one block."""
    feed_forward = feed_forward_params(block.feed_forward, hidden_size)
    vectors = block.vector_params + block.mixer.vector_params + feed_forward.vectors
    return ParameterParts(
        embedding=0,
        head=0,
        attention=block.count * mixer_params(block.mixer, hidden_size),
        dense_mlp=block.count * feed_forward.dense_mlp,
        shared_experts=block.count * feed_forward.shared_experts,
        routed_experts=block.count * feed_forward.routed_experts,
        router=block.count * feed_forward.router,
        vectors=block.count * vectors,
        expert_vectors=block.count * feed_forward.expert_vectors,
        expert_latents=block.count * feed_forward.expert_latents,
    )


def parameter_parts(arch: Architecture) -> ParameterParts:
    """Parameters of the whole model, by part."""
    outside = ParameterParts(
        embedding=embedding_params(arch),
        head=0 if arch.tied_embeddings else head_params(arch),
        attention=0,
        dense_mlp=0,
        shared_experts=0,
        routed_experts=0,
        router=0,
        vectors=arch.vector_params,
        vision=arch.vision.params if arch.vision else 0,
    )
    parts = [outside, *(block_parts(block, arch.hidden_size) for block in arch.blocks)]
    return ParameterParts(**{f.name: sum(getattr(p, f.name) for p in parts) for f in fields(ParameterParts)})


def num_parameters(arch: Architecture) -> int:
    """All parameters, tied weights once.

    >>> from gpufleet.architecture.parse import parse_architecture
    >>> shape = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
    >>> num_parameters(parse_architecture(shape, "gpt2"))
    124439808
    """
    return parameter_parts(arch).total


def num_active_parameters(arch: Architecture) -> int:
    """Parameters that serve one token of text: all but the routed experts, plus top_k of those.

    Embedding and head included, the vision tower not.
    """
    idle = sum(block.count * _idle_params(block, arch.hidden_size) for block in arch.blocks)
    return num_text_parameters(arch) - idle


def num_text_parameters(arch: Architecture) -> int:
    """All parameters but those of the vision tower."""
    parts = parameter_parts(arch)
    return parts.total - parts.vision


def _idle_params(block: Block, hidden_size: int) -> int:
    experts = block.feed_forward
    if not isinstance(experts, MixtureOfExperts):
        return 0
    idle = experts.num_experts - experts.top_k
    return idle * (expert_params(experts, hidden_size) + experts.expert_vector_params)


def weights_bytes(arch: Architecture, weight_format: WeightFormat) -> float:
    """Bytes of the whole checkpoint: each part times the bytes per element of its precision, scales included.

    >>> from gpufleet.architecture.parse import parse_architecture
    >>> shape = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
    >>> gpt2 = parse_architecture(shape, "gpt2")
    >>> weights_bytes(gpt2, gpt2.weights)
    248879616.0
    """
    return weights_bytes_of(parameter_parts(arch), weight_format)


def weights_bytes_of(parts: ParameterParts, weight_format: WeightFormat) -> float:
    """Bytes of counted parameters; vectors, router, embedding and vision stay in the base precision."""
    return (
        (parts.embedding + parts.vectors + parts.router + parts.expert_vectors + parts.vision)
        * weight_format.base.bytes_per_element
        + parts.head * weight_format.head.bytes_per_element
        + parts.attention * weight_format.attention.bytes_per_element
        + (parts.dense_mlp + parts.shared_experts + parts.expert_latents) * weight_format.mlp.bytes_per_element
        + parts.routed_experts * weight_format.experts.bytes_per_element
    )
