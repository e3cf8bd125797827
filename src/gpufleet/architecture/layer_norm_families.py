"""Decoders with layer norms and plain MLPs (GPT-2 to Phi-2): one function per family, config fields to `Architecture`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import Biases, Layer, attention, attention_of, blocks_of, head_dim, plain_mlp
from gpufleet.architecture.reach import sliding
from gpufleet.domain.architecture import Architecture


def _layer_norm_decoder(
    fields: ConfigFields,
    family: str,
    hidden_size: int,
    vocab_size: int,
    layers: list[Layer],
    max_context_tokens: int,
    tied: bool,
    embedding_params: int = 0,
    vector_params: int | None = None,
    embedding_width: int | None = None,
) -> Architecture:
    """A decoder that ends in one layer norm (scale and shift) unless `vector_params` says otherwise."""
    return Architecture(
        name=fields.name,
        family=family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        blocks=blocks_of(layers),
        tied_embeddings=fields.flag("tie_word_embeddings", default=tied),
        max_context_tokens=max_context_tokens,
        embedding_params=embedding_params,
        vector_params=2 * hidden_size if vector_params is None else vector_params,
        embedding_width=embedding_width,
    )


def gpt2(fields: ConfigFields, family: str) -> Architecture:
    """GPT-2: learned positions, biases everywhere, tied embedding."""
    hidden_size = fields.count("n_embd", "hidden_size")
    heads, positions = fields.count("n_head", "num_attention_heads"), fields.count("n_positions", "n_ctx", default=1024)
    width = head_dim(fields, hidden_size, heads)
    mixer = attention_of(heads, heads, width, hidden_size, Biases(query_key_value=True, output=True))
    mlp = plain_mlp(fields.optional_count("n_inner") or 4 * hidden_size, hidden_size, biased=True)
    layers = [Layer(mixer, mlp, 4 * hidden_size)] * fields.layers("n_layer", "num_hidden_layers")
    vocab_size = fields.count("vocab_size", default=50257)
    return _layer_norm_decoder(
        fields, family, hidden_size, vocab_size, layers, positions, True, embedding_params=positions * hidden_size
    )


def gptj(fields: ConfigFields, family: str) -> Architecture:
    """GPT-J: attention and MLP in parallel behind one norm, no attention bias, a bias on the head."""
    hidden_size, heads = fields.count("n_embd", "hidden_size"), fields.count("n_head", "num_attention_heads")
    mixer = attention_of(heads, heads, head_dim(fields, hidden_size, heads), hidden_size, Biases())
    mlp = plain_mlp(fields.optional_count("n_inner") or 4 * hidden_size, hidden_size, biased=True)
    layers = [Layer(mixer, mlp, 2 * hidden_size)] * fields.layers("n_layer", "num_hidden_layers")
    vocab_size = fields.count("vocab_size", default=50400)
    positions = fields.count("n_positions", "max_position_embeddings", default=2048)
    vectors = 2 * hidden_size + vocab_size
    return _layer_norm_decoder(fields, family, hidden_size, vocab_size, layers, positions, False, vector_params=vectors)


def opt(fields: ConfigFields, family: str) -> Architecture:
    """OPT: learned positions with an offset of two; the 350M model embeds in a narrower space."""
    hidden_size, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    biased = fields.flag("enable_bias", default=True)
    normed = fields.flag("layer_norm_elementwise_affine", default=True)
    biases = Biases(query_key_value=biased, output=biased)
    mixer = attention_of(heads, heads, head_dim(fields, hidden_size, heads), hidden_size, biases)
    mlp = plain_mlp(fields.count("ffn_dim"), hidden_size, biased)
    norm = 2 * hidden_size * normed
    layers = [Layer(mixer, mlp, 2 * norm)] * fields.layers("num_hidden_layers")
    positions = fields.count("max_position_embeddings", default=2048)
    narrow = fields.count("word_embed_proj_dim", default=hidden_size)
    projections = 2 * narrow * hidden_size if narrow != hidden_size else 0
    final_norm = fields.flag("do_layer_norm_before", default=True) and not fields.flag(
        "_remove_final_layer_norm", default=False
    )
    return _layer_norm_decoder(
        fields,
        family,
        hidden_size,
        fields.count("vocab_size", default=50272),
        layers,
        positions,
        tied=True,
        embedding_params=(positions + 2) * hidden_size + projections,
        vector_params=norm * final_norm,
        embedding_width=narrow,
    )


def bloom(fields: ConfigFields, family: str) -> Architecture:
    """BLOOM: ALiBi positions, a norm behind the embedding, tied embedding."""
    hidden_size = fields.count("hidden_size", "n_embed", "n_embd")
    heads = fields.count("n_head", "num_attention_heads")
    biases = Biases(query_key_value=True, output=True)
    mixer = attention_of(heads, heads, head_dim(fields, hidden_size, heads), hidden_size, biases)
    mlp = plain_mlp(4 * hidden_size, hidden_size, biased=True)
    layers = [Layer(mixer, mlp, 4 * hidden_size)] * fields.layers("n_layer", "num_hidden_layers")
    vocab_size, context = fields.count("vocab_size", default=250880), fields.count("seq_length", default=2048)
    return _layer_norm_decoder(
        fields, family, hidden_size, vocab_size, layers, context, True, embedding_params=2 * hidden_size
    )


def mpt(fields: ConfigFields, family: str) -> Architecture:
    """MPT: no biases, not even in the norms; ALiBi positions, tied embedding."""
    hidden_size, heads = fields.count("d_model", "hidden_size"), fields.count("n_heads", "num_attention_heads")
    mixer = attention_of(heads, heads, head_dim(fields, hidden_size, heads), hidden_size, Biases())
    mlp = plain_mlp(fields.count("expansion_ratio", default=4) * hidden_size, hidden_size, biased=False)
    layers = [Layer(mixer, mlp, 2 * hidden_size)] * fields.layers("n_layers", "num_hidden_layers")
    vocab_size, context = fields.count("vocab_size", default=50368), fields.count("max_seq_len", default=2048)
    return _layer_norm_decoder(
        fields, family, hidden_size, vocab_size, layers, context, True, vector_params=hidden_size
    )


def falcon(fields: ConfigFields, family: str) -> Architecture:
    """Falcon: one KV head (7B) or a few (40B, 180B); one or two norms; tied embedding."""
    hidden_size, heads = fields.count("hidden_size"), fields.count("num_attention_heads", "n_head")
    biased = fields.flag("bias", default=False)
    biases = Biases(query_key_value=biased, output=biased)
    width = head_dim(fields, hidden_size, heads)
    mixer = attention_of(heads, _falcon_kv_heads(fields, heads), width, hidden_size, biases)
    mlp = plain_mlp(fields.count("ffn_hidden_size", default=4 * hidden_size), hidden_size, biased)
    norms = 2 * hidden_size * _falcon_norms(fields)
    together = _new_falcon(fields) or fields.flag("parallel_attn", default=True)
    layers = [Layer(mixer, mlp, norms, summed_together=together)] * fields.layers("num_hidden_layers", "n_layer")
    vocab_size = fields.count("vocab_size", default=65024)
    context = fields.count("max_position_embeddings", default=2048)
    return _layer_norm_decoder(fields, family, hidden_size, vocab_size, layers, context, tied=True)


def _new_falcon(fields: ConfigFields) -> bool:
    return fields.flag("new_decoder_architecture", default=fields.values.get("model_type") == "RefinedWeb")


def _falcon_kv_heads(fields: ConfigFields, heads: int) -> int:
    """Multi-query means one KV head, except in the new decoder architecture, which names its number."""
    if fields.flag("multi_query", default=True) and not _new_falcon(fields):
        return 1
    return fields.count("num_kv_heads", "n_head_kv", default=heads)


def _falcon_norms(fields: ConfigFields) -> int:
    """Parallel attention shares one norm, unless the new architecture gives attention and MLP one each."""
    if _new_falcon(fields):
        return fields.count("num_ln_in_parallel_attn", default=2)
    return 1 if fields.flag("parallel_attn", default=True) else 2


def phi(fields: ConfigFields, family: str) -> Architecture:
    """Phi 1 to 2: attention and MLP in parallel behind one norm, biases everywhere, the head too."""
    hidden_size, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", default=heads)
    normed = fields.flag("qk_layernorm", default=False)
    biases = Biases(query_key_value=True, output=True, norms_per_head=4 * normed)
    mixer = attention_of(heads, kv_heads, head_dim(fields, hidden_size, heads), hidden_size, biases)
    mlp = plain_mlp(fields.count("intermediate_size"), hidden_size, biased=True)
    layers = [Layer(mixer, mlp, 2 * hidden_size)] * fields.layers("num_hidden_layers")
    vocab_size = fields.count("vocab_size", default=51200)
    context = fields.count("max_position_embeddings", default=2048)
    vectors = 2 * hidden_size + vocab_size
    return _layer_norm_decoder(fields, family, hidden_size, vocab_size, layers, context, False, vector_params=vectors)


def gpt_neox(fields: ConfigFields, family: str) -> Architecture:
    """GPT-NeoX and Pythia: rotary positions, biases everywhere but on the head, which is not tied."""
    hidden_size, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    biased = fields.flag("attention_bias", default=True)
    biases = Biases(query_key_value=biased, output=biased)
    mixer = attention_of(heads, heads, head_dim(fields, hidden_size, heads), hidden_size, biases)
    mlp = plain_mlp(fields.count("intermediate_size", default=4 * hidden_size), hidden_size, biased=True)
    layers = [Layer(mixer, mlp, 4 * hidden_size)] * fields.layers("num_hidden_layers")
    vocab_size = fields.count("vocab_size", default=50432)
    context = fields.count("max_position_embeddings", default=2048)
    return _layer_norm_decoder(fields, family, hidden_size, vocab_size, layers, context, False)


def starcoder2(fields: ConfigFields, family: str) -> Architecture:
    """StarCoder 2: grouped queries, a sliding window, biases everywhere, tied embedding."""
    hidden_size, biased = fields.count("hidden_size"), fields.flag("use_bias", default=True)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), sliding(fields), default_kv_heads=2)
    mlp = plain_mlp(fields.count("intermediate_size", default=4 * hidden_size), hidden_size, biased)
    layers = [Layer(mixer, mlp, 4 * hidden_size)] * fields.layers("num_hidden_layers")
    vocab_size = fields.count("vocab_size", default=49152)
    context = fields.count("max_position_embeddings", default=4096)
    return _layer_norm_decoder(fields, family, hidden_size, vocab_size, layers, context, True)
