"""Parameters of a model and of its tensor- and expert-parallel ranks, and the bytes they take in a checkpoint.

Counts of a whole model are exact: those of its own class with tied weights once, without multi-token-prediction
modules and buffers.
"""

from __future__ import annotations

from dataclasses import fields

from gpufleet.architecture.recurrent import Recurrent, recurrent_params
from gpufleet.architecture.sharding import SplitParams, shard
from gpufleet.architecture.sparse_attention import compressed_attention_params, index_of, index_params
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    Block,
    DenseMlp,
    LatentAttention,
    Mixer,
    MixtureOfExperts,
)
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.domain.mixers import CompressedAttention, NoFeedForward, NoMixer
from gpufleet.domain.precision import WeightFormat
from gpufleet.records import dataclass


@dataclass(frozen=True)
class LayerParams:
    """Parameters of one layer, or what one rank holds of it; the parts are those of `ParameterParts`."""

    attention: Floats
    vectors: Floats
    dense_mlp: Floats = 0
    shared_experts: Floats = 0
    routed_experts: Floats = 0
    router: Floats = 0
    expert_vectors: Floats = 0
    expert_latents: Floats = 0


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


def mixer_params(mixer: Mixer, hidden_size: int, tp: Ints = 1) -> Floats:
    """Parameters of the matrices of one layer's token mixer, without its vectors; every rank copies its index.

    >>> mixer_params(Attention(num_heads=32, num_kv_heads=8, head_dim=128), hidden_size=4096)
    41943040
    """
    index = index_of(mixer)
    copied = index_params(index, hidden_size) if index else 0
    if isinstance(mixer, Attention):
        return copied + attention_params(mixer, hidden_size, tp)
    if isinstance(mixer, LatentAttention):
        return copied + latent_attention_params(mixer, hidden_size, tp)
    return copied + split_params(mixer, hidden_size).on_rank(tp)


def split_params(mixer: Recurrent | CompressedAttention | NoMixer, hidden_size: int) -> SplitParams:
    """Matrix parameters of mixers other than attention over single tokens, by how ranks hold them."""
    if isinstance(mixer, NoMixer):
        return SplitParams(0)
    if isinstance(mixer, CompressedAttention):
        return compressed_attention_params(mixer, hidden_size)
    return recurrent_params(mixer, hidden_size)


def attention_params(mixer: Attention, hidden_size: int, tp: Ints = 1) -> Floats:
    """Projection weights of one attention layer (MHA, GQA, MQA), or of one of its tensor-parallel ranks.

    h (d + d_v) ceil(heads / tp) + h (d + d_v) ceil(kv_heads / tp): Q and O, then K and V, whose heads are copied once
    TP exceeds them; a gate on the output is cut like Q.   [weights]

    >>> attention_params(Attention(64, 8, 128), 8192), attention_params(Attention(64, 8, 128), 8192, tp=16)
    (150994944, 10485760)
    """
    per_head = hidden_size * (mixer.head_dim + mixer.value_dim)
    per_kv_head = hidden_size * mixer.head_dim if mixer.keys_are_values else per_head
    gate = hidden_size * shard(mixer.gate_width, tp)
    return per_head * shard(mixer.num_heads, tp) + per_kv_head * shard(mixer.num_kv_heads, tp) + gate


def latent_attention_params(mixer: LatentAttention, hidden_size: int, tp: Ints = 1) -> Floats:
    """Projection weights of one MLA layer, or of one rank: down-projections are copied, the rest is cut by heads.

    h (r_q + r_kv + d_rope) + ceil(heads / tp) (r_q (d_nope + d_rope) + r_kv (d_nope + d_v) + d_v h)   [weights]
    Without a query latent (DeepSeek-V2-Lite) the query projection is h (d_nope + d_rope) per head.

    >>> latent_attention_params(LatentAttention(128, 1536, 512, 128, 64, 128), 7168)
    187105280
    """
    query_rank = hidden_size if mixer.q_lora_rank is None else mixer.q_lora_rank
    copied_query = 0 if mixer.q_lora_rank is None else mixer.q_lora_rank
    copied = hidden_size * (copied_query + mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    per_head = (
        query_rank * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        + mixer.kv_lora_rank * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        + mixer.v_head_dim * hidden_size
    )
    return copied + per_head * shard(mixer.num_heads, tp) + hidden_size * shard(mixer.gate_width, tp)


def mlp_params(width: int, gated: bool, hidden_size: int, parts: Ints = 1) -> Floats:
    """Weights of an MLP (up, down, and gate where gated), or of one rank: (2 or 3) h ceil(width / parts).   [weights]

    >>> mlp_params(14336, gated=True, hidden_size=4096)
    176160768
    """
    return (2 + gated) * hidden_size * shard(width, parts)


def expert_params(experts: MixtureOfExperts, hidden_size: int, moe_tp: Ints = 1) -> Floats:
    """Weights of one routed expert, or of one of its ranks; it may work on a projection of the hidden state."""
    return mlp_params(experts.expert_width, experts.gated, experts.latent_width or hidden_size, moe_tp)


def latent_params(experts: MixtureOfExperts, hidden_size: int) -> int:
    """Parameters of the projections into and out of the space that experts work in; 0 where it is the hidden state."""
    return 2 * hidden_size * experts.latent_width if experts.latent_width else 0


def layer_params(block: Block, hidden_size: int, tp: Ints = 1, ep: Ints = 1, moe_tp: Ints = 1) -> LayerParams:
    """Parameters of one layer of `block`, or what its fullest rank holds: ceil(experts / ep) experts cut in `moe_tp`.

    Norms, biases, sinks, the router and projections into the space of experts are copied on every rank.

    >>> layer = Block(58, Attention(1, 1, 1), MixtureOfExperts(256, 8, 2048, gated=True))
    >>> layer_params(layer, 7168).routed_experts, layer_params(layer, 7168, ep=8).routed_experts
    (11274289152, 1409286144)
    """
    part, attention = block.feed_forward, mixer_params(block.mixer, hidden_size, tp)
    vectors = block.vector_params + block.mixer.vector_params + part.vector_params
    if isinstance(part, NoFeedForward):
        return LayerParams(attention, vectors)
    if isinstance(part, DenseMlp):
        return LayerParams(attention, vectors, dense_mlp=mlp_params(part.width, part.gated, hidden_size, tp))
    experts = shard(part.num_experts, ep)
    return LayerParams(
        attention,
        vectors,
        shared_experts=mlp_params(part.shared_width, part.gated, hidden_size, tp),
        routed_experts=experts * expert_params(part, hidden_size, moe_tp),
        router=part.num_experts * hidden_size,
        expert_vectors=experts * part.expert_vector_params,
        expert_latents=latent_params(part, hidden_size),
    )


def embedding_params(arch: Architecture, tp: Ints = 1) -> Floats:
    """Token embedding, cut over the vocabulary, with what every rank copies: positions, embedding norm, projections."""
    return head_params(arch, tp) + arch.embedding_params


def head_params(arch: Architecture, tp: Ints = 1) -> Floats:
    """The matrix that turns a hidden state into logits, cut over the vocabulary; the embedding where tied."""
    return (arch.embedding_width or arch.hidden_size) * shard(arch.vocab_size, tp)


def parameter_parts(arch: Architecture) -> ParameterParts:
    """Parameters of the whole model, by part."""
    layers = [(block.count, layer_params(block, arch.hidden_size)) for block in arch.blocks]
    of_layers = {f.name: sum(n * int(getattr(layer, f.name)) for n, layer in layers) for f in fields(LayerParams)}
    return ParameterParts(
        embedding=int(embedding_params(arch)),
        head=0 if arch.tied_embeddings else int(head_params(arch)),
        vision=arch.vision.params if arch.vision else 0,
        **of_layers | {"vectors": of_layers["vectors"] + arch.vector_params},
    )


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
    return idle * (int(expert_params(experts, hidden_size)) + experts.expert_vector_params)


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
