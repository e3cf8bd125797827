"""Decoders whose attention reads a choice of its context: one function per family, config fields to `Architecture`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.expert_families import (
    deepseek_experts,
    deepseek_layers,
    gated_experts,
    latent_attention,
    with_feed_forwards,
)
from gpufleet.architecture.layers import Biases, Layer, attention, decoder, gated_mlp, two_norms
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention
from gpufleet.domain.mixers import CompressedAttention, TokenIndex
from gpufleet.errors import UsageError

SCALE_BLOCK = 128
SCALE_BYTES = 4.0
BF16_BYTES = 2.0
FULL_INDEX, SHARED_INDEX = "full", "shared"
OVERLAPPED_RATIO = 4


def deepseek_v32(fields: ConfigFields, family: str) -> Architecture:
    """DeepSeek V3.2 and GLM-5: latent attention over the tokens that an index chooses; some layers share an index."""
    num_layers = fields.layers("num_hidden_layers")
    plain = latent_attention(fields)
    choosing = _with_index(fields, plain)
    following = replace(choosing, index=None, vector_params=plain.vector_params)
    mixers = [choosing if has_index else following for has_index in _has_index(fields, num_layers)]
    return decoder(fields, family, deepseek_layers(fields, mixers), tied=False, default_context=4096)


def _with_index(fields: ConfigFields, plain: LatentAttention) -> LatentAttention:
    heads, head_dim = fields.count("index_n_heads", default=64), fields.count("index_head_dim", default=128)
    index = TokenIndex(
        num_heads=heads,
        head_dim=head_dim,
        query_width=plain.q_lora_rank or fields.count("hidden_size"),
        projected_width=head_dim + heads,
        cache_bytes_per_entry=fp8_index_bytes(head_dim),
    )
    kept = fields.count("index_topk", default=2048)
    return replace(plain, index=index, kept_tokens=kept, vector_params=plain.vector_params + 2 * head_dim)


def fp8_index_bytes(head_dim: int) -> float:
    """Bytes of one index key in fp8 with an fp32 scale per 128.   DeepSeek-V3.2, head of 128:

    >>> fp8_index_bytes(128)
    132.0
    """
    return head_dim + SCALE_BYTES * head_dim / SCALE_BLOCK


def _has_index(fields: ConfigFields, num_layers: int) -> list[bool]:
    """Layers with an index of their own; the others read what the last such layer chose."""
    kinds = fields.items("indexer_types", num_layers) or [FULL_INDEX] * num_layers
    wrong = next((kind for kind in kinds if kind not in (FULL_INDEX, SHARED_INDEX)), None)
    if wrong is not None:
        expected = f"{FULL_INDEX} or {SHARED_INDEX}"
        raise UsageError(f"{fields.name}: a kind of index that is not planned yet", found=wrong, expected=expected)
    return [kind == FULL_INDEX for kind in kinds]


def minimax_m3(fields: ConfigFields, family: str) -> Architecture:
    """MiniMax M3: grouped-query attention over the blocks that a small index chooses, after three dense layers."""
    num_layers = fields.layers("num_hidden_layers")
    plain = attention(fields, Biases(norms_per_head=2 * fields.flag("use_qk_norm", default=True)))
    sparse = _nested(fields, "sparse_attention_config")
    chosen = sparse.items("sparse_attention_freq", num_layers) or [1] * num_layers
    blockwise = _blockwise(sparse, plain, fields.count("hidden_size"))
    mixers = [blockwise if choice else plain for choice in chosen]
    routed = [bool(kind) for kind in fields.items("moe_layer_freq", num_layers) or [1] * num_layers]
    shared = fields.count("n_shared_experts", default=1) * fields.count("shared_intermediate_size")
    experts = replace(gated_experts(fields, "intermediate_size", shared_width=shared), routes_in_fp32=True)
    dense = None if all(routed) else gated_mlp(fields, "dense_intermediate_size")
    layers = with_feed_forwards(mixers, routed, experts, dense, two_norms(fields))
    return decoder(fields, family, layers, tied=False, default_context=1048576)


def _blockwise(fields: ConfigFields, plain: Attention, hidden_size: int) -> Attention:
    heads, head_dim = fields.count("sparse_num_index_heads"), fields.count("sparse_index_dim")
    index = TokenIndex(heads, head_dim, hidden_size, head_dim, BF16_BYTES * head_dim)
    kept = fields.count("sparse_topk_blocks") * fields.count("sparse_block_size")
    return replace(plain, index=index, kept_tokens=kept, vector_params=plain.vector_params + 2 * head_dim)


def _nested(fields: ConfigFields, key: str) -> ConfigFields:
    nested = fields.values.get(key)
    if not isinstance(nested, Mapping):
        raise UsageError(f"{fields.name}: the config lacks {key}", expected="an object of sizes")
    return fields.part(nested)


def deepseek_v4(fields: ConfigFields, family: str) -> Architecture:
    """DeepSeek V4: compressed attention, with and without an index; hyper-connections of several residual streams."""
    num_layers, hidden_size = fields.layers("num_hidden_layers"), fields.count("hidden_size")
    ratios = fields.items("compress_ratios")
    if ratios is None or len(ratios) < num_layers:
        raise UsageError(f"{fields.name}: compress_ratios is missing or short", found=ratios, expected=f"{num_layers}")
    sizes = ConfigFields({str(i): ratio for i, ratio in enumerate(ratios)}, fields.name)
    mixers = [_compressed(fields, sizes.optional_count(str(layer)) or 0) for layer in range(num_layers)]
    experts, streams = deepseek_experts(fields), fields.count("hc_mult", default=4)
    mixing = (2 + streams) * streams
    connections = 2 * (mixing * (streams * hidden_size + 1) + 3)
    layers = [Layer(mixer, experts, two_norms(fields) + connections) for mixer in mixers]
    plain = decoder(fields, family, layers, tied=False, default_context=1048576)
    head = streams * (streams * hidden_size + 1) + 1
    return replace(plain, vector_params=plain.vector_params + head, residual_streams=streams)


def _compressed(fields: ConfigFields, ratio: int) -> CompressedAttention:
    """Groups of 4 tokens overlap and are chosen by an index; larger groups are all read."""
    heads, head_dim, rank = fields.count("num_attention_heads"), fields.count("head_dim"), fields.count("q_lora_rank")
    window = CompressedAttention(
        num_heads=heads,
        head_dim=head_dim,
        q_lora_rank=rank,
        output_groups=fields.count("o_groups"),
        output_rank=fields.count("o_lora_rank"),
        window_tokens=fields.count("sliding_window"),
        vector_params=heads + rank + head_dim,
        rope_head_dim=fields.count("qk_rope_head_dim", default=64),
    )
    if not ratio:
        return window
    overlap = 2 if ratio == OVERLAPPED_RATIO else 1
    vectors = window.vector_params + _compressor_vectors(ratio, overlap, head_dim)
    compressed = replace(window, tokens_per_entry=ratio, overlap=overlap, vector_params=vectors)
    return _with_entry_index(fields, compressed) if overlap > 1 else compressed


def _with_entry_index(fields: ConfigFields, mixer: CompressedAttention) -> CompressedAttention:
    heads, head_dim = fields.count("index_n_heads"), fields.count("index_head_dim")
    projected = 2 * mixer.overlap * head_dim + heads
    index = TokenIndex(heads, head_dim, mixer.q_lora_rank, projected, fp8_index_bytes(head_dim))
    vectors = mixer.vector_params + _compressor_vectors(mixer.tokens_per_entry, mixer.overlap, head_dim)
    return replace(mixer, index=index, kept_entries=fields.count("index_topk"), vector_params=vectors)


def _compressor_vectors(ratio: int, overlap: int, width: int) -> int:
    """Position biases within a group, and a norm."""
    return (ratio * overlap + 1) * width
