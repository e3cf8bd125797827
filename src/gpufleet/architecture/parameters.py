"""Exact parameter counts, by part and by layer, and the bytes they take in a checkpoint.

Counts are those of the model's own class with tied weights once, without multi-token-prediction modules and buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp, LatentAttention, MixtureOfExperts
from gpufleet.domain.precision import WeightFormat


@dataclass(frozen=True)
class FeedForwardParts:
    """Parameters of one layer's feed-forward part."""

    dense_mlp: int = 0
    shared_experts: int = 0
    routed_experts: int = 0
    router: int = 0
    vectors: int = 0
    expert_vectors: int = 0


@dataclass(frozen=True)
class ParameterParts:
    """Parameters of the whole model; `head` is 0 where it is the embedding, `vectors` are norms, biases and sinks.

    `expert_vectors` are the biases of all routed experts.
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

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(getattr(self, part.name) for part in fields(self))


def attention_params(mixer: Attention | LatentAttention, hidden_size: int) -> int:
    """Parameters of one layer's attention matrices, without its vectors.

    MHA, GQA, MQA: hidden * head_dim * (2 heads + 2 kv_heads)   (q, k, v, output)
    MLA: q (through q_lora_rank where there is one), hidden * (kv_lora_rank + rope_dim),
    kv_lora_rank * heads * (nope_dim + v_dim), heads * v_dim * hidden.

    >>> attention_params(Attention(num_heads=32, num_kv_heads=8, head_dim=128), hidden_size=4096)
    41943040
    """
    if isinstance(mixer, LatentAttention):
        return _latent_attention_params(mixer, hidden_size)
    return hidden_size * mixer.head_dim * 2 * (mixer.num_heads + mixer.num_kv_heads)


def _latent_attention_params(mixer: LatentAttention, hidden_size: int) -> int:
    query_width = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
    query = hidden_size * query_width if mixer.q_lora_rank is None else mixer.q_lora_rank * (hidden_size + query_width)
    down = hidden_size * (mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    up = mixer.kv_lora_rank * mixer.num_heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    return query + down + up + mixer.num_heads * mixer.v_head_dim * hidden_size


def mlp_params(width: int, gated: bool, hidden_size: int) -> int:
    """Parameters of an MLP's matrices: up, down, and gate where gated.

    >>> mlp_params(14336, gated=True, hidden_size=4096)
    176160768
    """
    return (3 if gated else 2) * hidden_size * width


def feed_forward_params(feed_forward: DenseMlp | MixtureOfExperts, hidden_size: int) -> FeedForwardParts:
    """Parameters of one layer's feed-forward part.

    >>> feed_forward_params(MixtureOfExperts(8, 2, 14336, gated=True), 4096).routed_experts
    1409286144
    """
    if isinstance(feed_forward, DenseMlp):
        dense = mlp_params(feed_forward.width, feed_forward.gated, hidden_size)
        return FeedForwardParts(dense_mlp=dense, vectors=feed_forward.vector_params)
    return FeedForwardParts(
        shared_experts=mlp_params(feed_forward.shared_width, feed_forward.gated, hidden_size),
        routed_experts=feed_forward.num_experts * expert_params(feed_forward, hidden_size),
        router=feed_forward.num_experts * hidden_size,
        vectors=feed_forward.vector_params,
        expert_vectors=feed_forward.num_experts * feed_forward.expert_vector_params,
    )


def expert_params(experts: MixtureOfExperts, hidden_size: int) -> int:
    """Parameters of one routed expert's matrices."""
    return mlp_params(experts.expert_width, experts.gated, hidden_size)


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
        attention=block.count * attention_params(block.mixer, hidden_size),
        dense_mlp=block.count * feed_forward.dense_mlp,
        shared_experts=block.count * feed_forward.shared_experts,
        routed_experts=block.count * feed_forward.routed_experts,
        router=block.count * feed_forward.router,
        vectors=block.count * vectors,
        expert_vectors=block.count * feed_forward.expert_vectors,
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
    """Parameters that serve one token: all but the routed experts, plus top_k of those; embedding and head included."""
    return num_parameters(arch) - sum(block.count * _idle_params(block, arch.hidden_size) for block in arch.blocks)


def _idle_params(block: Block, hidden_size: int) -> int:
    experts = block.feed_forward
    if isinstance(experts, DenseMlp):
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
    """Bytes of counted parameters; vectors, router and embedding stay in the base precision."""
    return (
        (parts.embedding + parts.vectors + parts.router + parts.expert_vectors) * weight_format.base.bytes_per_element
        + parts.head * weight_format.head.bytes_per_element
        + parts.attention * weight_format.attention.bytes_per_element
        + (parts.dense_mlp + parts.shared_experts) * weight_format.mlp.bytes_per_element
        + parts.routed_experts * weight_format.experts.bytes_per_element
    )
