"""Dense decoders with RMS norms and rotary positions: one function per family, config fields to `Architecture`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import (
    Biases,
    Layer,
    attention,
    attention_of,
    decoder,
    gated_mlp,
    head_dim,
    normed_over_all_heads,
    qwen3_biases,
    qwen_mixers,
    two_norms,
    uniform,
)
from gpufleet.architecture.reach import EVERYTHING, Reach, layer_reaches, sliding
from gpufleet.domain.architecture import Architecture, Attention, DenseMlp, MixtureOfExperts
from gpufleet.domain.mixers import NoFeedForward, NoMixer
from gpufleet.errors import UsageError

FFN_TILE = 256
MOST_FFN_MULT = 64


def llama(fields: ConfigFields, family: str) -> Architecture:
    """Llama 1 to 3, and the many models of the same shape."""
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased))
    mlp = gated_mlp(fields, biased=fields.flag("mlp_bias", default=False))
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=False)


def mistral(fields: ConfigFields, family: str) -> Architecture:
    """Mistral: every layer slides over a window where the config names one."""
    window = sliding(fields, default=4096)
    reaches = layer_reaches(fields, fields.layers("num_hidden_layers"), window, lambda _: True)
    mlp = gated_mlp(fields)
    layers = [Layer(attention(fields, Biases(), r, default_kv_heads=8), mlp, two_norms(fields)) for r in reaches]
    return decoder(fields, family, layers, tied=False, default_context=131072)


def _alike(fields: ConfigFields, mixers: Sequence[Attention], feed_forward: DenseMlp) -> list[Layer]:
    return [Layer(mixer, feed_forward, two_norms(fields)) for mixer in mixers]


def qwen2(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 1.5 to 2.5: biases on q, k and v."""
    mixers = qwen_mixers(fields, Biases(query_key_value=True))
    return decoder(fields, family, _alike(fields, mixers, gated_mlp(fields)), tied=False, default_context=32768)


def qwen3(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 3: norms over each head of q and k."""
    mixers = qwen_mixers(fields, qwen3_biases(fields), default_head_dim=128)
    return decoder(fields, family, _alike(fields, mixers, gated_mlp(fields)), tied=False, default_context=32768)


def gemma(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 1: tied embedding, heads of 256."""
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), default_head_dim=256)
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=True, default_context=8192)


def gemma2(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 2: four norms a layer; every other layer slides, the first one first."""
    hidden_size, num_layers = fields.count("hidden_size"), fields.layers("num_hidden_layers")
    reaches = layer_reaches(fields, num_layers, sliding(fields, default=4096), lambda layer: layer % 2 == 0)
    mlp, biased = gated_mlp(fields), fields.flag("attention_bias", default=False)
    biases = Biases(query_key_value=biased, output=biased)
    layers = [Layer(attention(fields, biases, r, default_head_dim=256), mlp, 4 * hidden_size) for r in reaches]
    return decoder(fields, family, layers, tied=True, default_context=8192)


def gemma3_text(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 3: norms on q and k, four norms a layer, one global layer after every five local ones."""
    hidden_size, num_layers = fields.count("hidden_size"), fields.layers("num_hidden_layers")
    pattern = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    local = sliding(fields, default=4096)
    reaches = layer_reaches(fields, num_layers, local, lambda layer: (layer + 1) % pattern != 0)
    biased = fields.flag("attention_bias", default=False)
    biases = Biases(query_key_value=biased, output=biased, norms_per_head=2)
    mixers = {
        reach: attention(fields, biases, reach, default_head_dim=256, default_heads=8, default_kv_heads=4)
        for reach in set(reaches)
    }
    mlp = gated_mlp(fields)
    layers = [Layer(mixers[reach], mlp, 4 * hidden_size) for reach in reaches]
    return decoder(fields, family, layers, tied=True, default_context=131072, default_vocab=262208)


def gemma4_text(fields: ConfigFields, family: str) -> Architecture:
    """Gemma 4: wider heads without a value projection in global layers; experts beside the dense MLP where it has any.

    The dense MLP that stands beside experts is counted as a shared expert.
    """
    _refuse_per_layer_inputs(fields)
    num_layers = fields.layers("num_hidden_layers")
    reaches = layer_reaches(fields, num_layers, sliding(fields, default=1024), lambda layer: (layer + 1) % 6 != 0)
    mixers = [_gemma4_attention(fields, reach, _own_sizes(fields, layer)) for layer, reach in enumerate(reaches)]
    has_experts = fields.flag("enable_moe_block", default=False)
    part = _gemma4_experts(fields) if has_experts else gated_mlp(fields)
    norms = (7 if has_experts else 4) * fields.count("hidden_size")
    layers = [Layer(mixer, part, norms) for mixer in mixers]
    return decoder(fields, family, layers, tied=True, default_context=131072, default_vocab=262144)


def _refuse_per_layer_inputs(fields: ConfigFields) -> None:
    for key in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if fields.optional_count(key):
            raise UsageError(
                f"{fields.name}: {key} is not planned yet",
                found=fields.values[key],
                expected="0, as in the 26B and 31B",
            )


def _own_sizes(fields: ConfigFields, layer: int) -> ConfigFields:
    """What a config that transformers saved says of one layer alone: its number is written with leading zeros."""
    layers = fields.values.get("per_layer_config")
    by_number = {str(key).lstrip("0") or "0": own for key, own in layers.items()} if isinstance(layers, Mapping) else {}
    own = by_number.get(str(layer))
    return fields.part(own if isinstance(own, Mapping) else {})


def _gemma4_attention(fields: ConfigFields, reach: Reach, own: ConfigFields) -> Attention:
    """Local layers have heads of their own; global ones have KV heads of their own where keys serve as values."""
    heads, kv_heads = fields.count("num_attention_heads"), fields.count("num_key_value_heads")
    width, biased = fields.count("head_dim", default=256), fields.flag("attention_bias", default=False)
    is_global = reach == EVERYTHING
    shares = is_global and fields.flag("attention_k_eq_v", default=False)
    if shares:
        kv_heads = fields.optional_count("num_global_key_value_heads") or kv_heads
    if is_global:
        width = fields.optional_count("global_head_dim") or width
    kv_heads = own.optional_count("num_key_value_heads") or kv_heads
    width = own.optional_count("head_dim") or width
    biases = Biases(query_key_value=biased, output=biased, norms_per_head=2)
    mixer = attention_of(heads, kv_heads, width, fields.count("hidden_size"), biases, reach)
    unbiased = kv_heads * width if shares and biased else 0
    return replace(mixer, keys_are_values=shares, vector_params=mixer.vector_params - unbiased)


def _gemma4_experts(fields: ConfigFields) -> MixtureOfExperts:
    num_experts = fields.count("num_experts")
    return MixtureOfExperts(
        num_experts=num_experts,
        top_k=fields.count("top_k_experts"),
        expert_width=fields.count("moe_intermediate_size", "expert_intermediate_size"),
        gated=True,
        shared_width=fields.count("intermediate_size"),
        vector_params=num_experts + fields.count("hidden_size"),
    )


def phi3(fields: ConfigFields, family: str) -> Architecture:
    """Phi 3 and 4: Llama's shape with a window where the config names one."""
    mixer = attention(fields, Biases(), sliding(fields))
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=False, default_context=4096)


def glm(fields: ConfigFields, family: str) -> Architecture:
    """GLM 4 of 9B: biases on q, k and v where the config asks."""
    biases = Biases(query_key_value=fields.flag("attention_bias", default=True))
    mixer = attention(fields, biases, default_head_dim=128, default_kv_heads=2)
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=False, default_context=131072)


def glm4(fields: ConfigFields, family: str) -> Architecture:
    """GLM 4 of 32B: norms behind attention and MLP too."""
    biases = Biases(query_key_value=fields.flag("attention_bias", default=False))
    mixer = attention(fields, biases, default_head_dim=128, default_kv_heads=2)
    layer = Layer(mixer, gated_mlp(fields), 2 * two_norms(fields))
    return decoder(fields, family, [layer] * fields.layers("num_hidden_layers"), tied=False, default_context=32768)


def olmo2(fields: ConfigFields, family: str) -> Architecture:
    """OLMo 2: queries and keys normalised over all heads, norms behind attention and MLP."""
    biased = fields.flag("attention_bias", default=False)
    mixer = normed_over_all_heads(attention(fields, Biases(query_key_value=biased, output=biased)))
    return decoder(fields, family, uniform(fields, mixer, gated_mlp(fields)), tied=False, default_context=2048)


def seed_oss(fields: ConfigFields, family: str) -> Architecture:
    """Seed-OSS: biases on q, k and v, on the output where the config asks for them apart."""
    biases = Biases(
        query_key_value=fields.flag("attention_bias", default=True),
        output=fields.flag("attention_out_bias", default=False),
    )
    mixer = attention(fields, biases, default_head_dim=128)
    mlp = gated_mlp(fields, biased=fields.flag("mlp_bias", default=False))
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=False, default_context=524288)


def tied_llama(fields: ConfigFields, family: str) -> Architecture:
    """SmolLM 3: the shape of Llama with a tied embedding."""
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased))
    mlp = gated_mlp(fields, biased=fields.flag("mlp_bias", default=False))
    return decoder(fields, family, uniform(fields, mixer, mlp), tied=True, default_context=32768)


def qwen1(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 1: `intermediate_size` counts gate and up projection together; biases on q, k and v.

    Engines serve it up to `seq_length`, which is below the positions that its config allows.
    """
    heads, hidden_size = fields.count("num_attention_heads"), fields.count("hidden_size")
    width = fields.count("kv_channels", default=hidden_size // heads)
    mixer = attention_of(heads, heads, width, hidden_size, Biases(query_key_value=True))
    mlp = DenseMlp(fields.count("intermediate_size") // 2, gated=True)
    plain = decoder(fields, family, uniform(fields, mixer, mlp), tied=False, default_context=8192)
    served = fields.count("seq_length", default=plain.max_context_tokens)
    return replace(plain, max_context_tokens=min(plain.max_context_tokens, served))


def nemotron_nas(fields: ConfigFields, family: str) -> Architecture:
    """Nemotron-NAS: a search chose heads and width of every layer, and removed some parts with their norms."""
    num_layers = fields.layers("num_hidden_layers")
    blocks = fields.items("block_configs", num_layers)
    if blocks is None:
        raise UsageError(f"{fields.name}: the config lacks block_configs", expected=f"a list of {num_layers} layers")
    layers = [_searched_layer(fields, block) for block in blocks]
    return decoder(fields, family, layers, tied=False, default_context=131072)


def _searched_layer(fields: ConfigFields, block: object) -> Layer:
    parts = block if isinstance(block, Mapping) else {}
    mixer, feed_forward = _searched_attention(fields, parts), _searched_mlp(fields, parts)
    num_norms = (not isinstance(mixer, NoMixer)) + (not isinstance(feed_forward, NoFeedForward))
    return Layer(mixer, feed_forward, num_norms * fields.count("hidden_size"))


def _searched_attention(fields: ConfigFields, block: Mapping[str, object]) -> Attention | NoMixer:
    part = _searched_part(fields, block, "attention")
    if part.flag("no_op", default=False):
        return NoMixer()
    heads, hidden_size = fields.count("num_attention_heads"), fields.count("hidden_size")
    kv_heads = max(heads // part.count("n_heads_in_group"), 1)
    window = part.optional_count("window_length")
    reach = EVERYTHING if window is None else Reach(window)
    width = head_dim(fields, hidden_size, heads)
    return attention_of(heads, kv_heads, width, hidden_size, Biases(), reach)


def _searched_mlp(fields: ConfigFields, block: Mapping[str, object]) -> DenseMlp | NoFeedForward:
    part = _searched_part(fields, block, "ffn")
    if part.flag("no_op", default=False):
        return NoFeedForward()
    multiple = part.values.get("ffn_mult")
    if not isinstance(multiple, (int, float)) or isinstance(multiple, bool) or not 0 < multiple < MOST_FFN_MULT:
        raise UsageError(f"{fields.name}: ffn_mult is not a size", found=multiple, expected=f"0 to {MOST_FFN_MULT}")
    width = int(2 * multiple * fields.count("hidden_size") / 3)
    return DenseMlp(-(-width // FFN_TILE) * FFN_TILE, gated=True)


def _searched_part(fields: ConfigFields, block: Mapping[str, object], key: str) -> ConfigFields:
    part = block.get(key)
    if not isinstance(part, Mapping) or part.get("replace_with_linear"):
        found = "replace_with_linear" if isinstance(part, Mapping) else part
        raise UsageError(
            f"{fields.name}: a layer's {key} that is not planned yet",
            found=found,
            expected="attention and ffn, or no_op",
        )
    return fields.part(part)
