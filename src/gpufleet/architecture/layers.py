"""Parts that families share: attention and feed-forward of one layer, and layers gathered into blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.reach import EVERYTHING, Reach, layer_reaches, sliding
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    Block,
    DenseMlp,
    FeedForward,
    Mixer,
    QueryKeyNorm,
)
from gpufleet.errors import UsageError
from gpufleet.records import dataclass

STRETCHED, MOST_STRETCHED = ("yarn", "linear", "dynamic"), 1000


@dataclass(frozen=True)
class Layer:
    """One layer; `norm_params` are its layer norms."""

    mixer: Mixer
    feed_forward: FeedForward
    norm_params: int
    summed_together: bool = False


@dataclass(frozen=True)
class Biases:
    """Which vectors an attention layer carries beside its four projections."""

    query_key_value: bool = False
    output: bool = False
    norms_per_head: int = 0
    sinks: bool = False


def blocks_of(layers: Iterable[Layer]) -> tuple[Block, ...]:
    """Equal layers gathered, in order of first appearance."""
    counts = Counter(layers)
    return tuple(
        Block(n, layer.mixer, layer.feed_forward, layer.norm_params, layer.summed_together)
        for layer, n in counts.items()
    )


def head_dim(fields: ConfigFields, hidden_size: int, num_heads: int, default: int | None = None) -> int:
    """`head_dim` where the config has one, else the family's default, else hidden size over heads."""
    given = fields.optional_count("head_dim") or default
    if given is None and hidden_size % num_heads:
        raise UsageError(
            f"{fields.name}: hidden size {hidden_size} is no multiple of {num_heads} heads",
            expected="a head_dim, or heads that divide the hidden size",
        )
    return given or hidden_size // num_heads


def attention(
    fields: ConfigFields,
    biases: Biases,
    reach: Reach = EVERYTHING,
    default_head_dim: int | None = None,
    default_heads: int | None = None,
    default_kv_heads: int | None = None,
) -> Attention:
    """Grouped-query attention from the usual keys; absent KV heads mean as many as query heads."""
    hidden_size = fields.count("hidden_size")
    heads = fields.count("num_attention_heads", default=default_heads)
    kv_heads = fields.count("num_key_value_heads", default=default_kv_heads or heads)
    width = head_dim(fields, hidden_size, heads, default_head_dim)
    return attention_of(heads, kv_heads, width, hidden_size, biases, reach)


def attention_of(
    heads: int, kv_heads: int, head_width: int, hidden_size: int, biases: Biases, reach: Reach = EVERYTHING
) -> Attention:
    """Attention with its vectors counted: biases of q, k, v and output, norms over one head's width, sinks."""
    vectors = (
        biases.query_key_value * (heads + 2 * kv_heads) * head_width
        + biases.output * hidden_size
        + biases.norms_per_head * head_width
        + biases.sinks * heads
    )
    norm = QueryKeyNorm.PER_HEAD if biases.norms_per_head else QueryKeyNorm.NONE
    return Attention(heads, kv_heads, head_width, reach.tokens, vectors, reach.chunked, norm)


def normed_over_all_heads(plain: Attention) -> Attention:
    """Attention whose queries and keys are normalised over the width of all heads."""
    vectors = (plain.num_heads + plain.num_kv_heads) * plain.head_dim
    return replace(plain, vector_params=plain.vector_params + vectors, query_key_norm=QueryKeyNorm.ALL_HEADS)


def gated_mlp(fields: ConfigFields, *keys: str, biased: bool = False) -> DenseMlp:
    """Gate, up and down projection."""
    width = fields.count(*(keys or ("intermediate_size",)))
    return DenseMlp(width, gated=True, vector_params=biased * (2 * width + fields.count("hidden_size")))


def plain_mlp(width: int, hidden_size: int, biased: bool) -> DenseMlp:
    """Up and down projection."""
    return DenseMlp(width, gated=False, vector_params=biased * (width + hidden_size))


def decoder(
    fields: ConfigFields,
    family: str,
    layers: Sequence[Layer],
    tied: bool,
    default_context: int = 2048,
    head_bias: bool = False,
    default_vocab: int | None = None,
) -> Architecture:
    """A decoder with RMS norms and rotary positions: one final norm, nothing beside the token embedding."""
    hidden_size, vocab_size = fields.count("hidden_size"), fields.count("vocab_size", default=default_vocab)
    return Architecture(
        name=fields.name,
        family=family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        blocks=blocks_of(layers),
        tied_embeddings=fields.flag("tie_word_embeddings", default=tied),
        max_context_tokens=context_limit(fields, default_context),
        vector_params=hidden_size + head_bias * vocab_size,
    )


def context_limit(fields: ConfigFields, default: int) -> int:
    """Tokens of the longest context that engines serve: the positions of a config, stretched by its rope scaling.

    YaRN: original positions x factor; linear and dynamic: positions x factor. Long-rope and Llama 3 say theirs whole.
    Source: vLLM, `_get_and_verify_max_len`, from which `--max-model-len` is bounded.
    """
    positions = fields.count("max_position_embeddings", "seq_length", default=default)
    scaling = fields.mapping("rope_scaling", "rope_parameters")
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor")
    if kind not in STRETCHED or not isinstance(factor, (int, float)) or not 1 <= factor <= MOST_STRETCHED:
        return positions
    original = fields.part(scaling).optional_count("original_max_position_embeddings") if kind == "yarn" else None
    return round((original or positions) * factor)


def two_norms(fields: ConfigFields) -> int:
    """RMS norms before attention and before the feed-forward part."""
    return 2 * fields.count("hidden_size")


def uniform(fields: ConfigFields, mixer: Mixer, feed_forward: FeedForward) -> list[Layer]:
    """As many equal layers as the config says."""
    return [Layer(mixer, feed_forward, two_norms(fields))] * fields.layers("num_hidden_layers")


def qwen_reaches(fields: ConfigFields) -> list[Reach]:
    """Qwen slides only when `use_sliding_window`, and then from layer `max_window_layers` up."""
    num_layers = fields.layers("num_hidden_layers")
    slides = fields.flag("use_sliding_window", default=False)
    first = fields.optional_count("max_window_layers") or 0
    local = sliding(fields, default=4096) if slides else EVERYTHING
    return layer_reaches(fields, num_layers, local, lambda layer: layer >= first)


def qwen_mixers(fields: ConfigFields, biases: Biases, default_head_dim: int | None = None) -> list[Attention]:
    """Attention of every Qwen layer."""
    return [attention(fields, biases, reach, default_head_dim) for reach in qwen_reaches(fields)]


def qwen3_biases(fields: ConfigFields) -> Biases:
    """Norms over each head of q and k; biases only where the config asks."""
    biased = fields.flag("attention_bias", default=False)
    return Biases(query_key_value=biased, output=biased, norms_per_head=2)
