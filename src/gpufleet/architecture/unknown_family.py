"""Decoders of families that no function here reads: planned as the usual shape where every field is understood."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.expert_families import TOP_K_KEYS, deepseek_layers, gated_experts
from gpufleet.architecture.layers import Biases, Layer, attention, decoder, gated_mlp, uniform
from gpufleet.architecture.reach import EVERYTHING, layer_reaches, sliding
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import shorten

EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")
SIZES = frozenset(
    (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"),
        *("intermediate_size", "max_position_embeddings", "sliding_window", "layer_types", "first_k_dense_replace"),
        *("moe_intermediate_size", "n_shared_experts", "shared_expert_intermediate_size", "moe_layer_freq"),
        *(*EXPERT_KEYS, *TOP_K_KEYS),
    )
)
SWITCHES = frozenset(("attention_bias", "qkv_bias", "mlp_bias", "tie_word_embeddings", "use_qk_norm", "qk_norm"))
WITHOUT_WEIGHT = frozenset(
    (
        *("architectures", "auto_map", "rope_scaling", "rope_parameters", "rope_theta", "quantization_config"),
        *("pretraining_tp", "use_cache", "norm_topk_prob", "n_group", "topk_group", "num_nextn_predict_layers"),
        *("output_router_logits", "eos_token_id", "ep_size", "seq_aux", "max_window_layers", "compression_config"),
    )
)
NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


def not_understood(fields: ConfigFields) -> list[str]:
    """Fields of an unknown family's config that may shape the model, and that no usual shape has.

    >>> base = dict.fromkeys(NEEDED, 64)
    >>> not_understood(ConfigFields({**base, "ssm_state_size": 128, "hidden_act": "silu"}, "new"))
    ['ssm_state_size']
    """
    known = SIZES | SWITCHES | WITHOUT_WEIGHT
    return sorted(key for key, value in fields.values.items() if key not in known and _may_shape(key, value))


def lacking(fields: ConfigFields) -> list[str]:
    """Fields that every decoder has and this config does not."""
    return [key for key in NEEDED if fields.optional_count(key) is None]


def _may_shape(key: str, value: object) -> bool:
    """Sizes, lists, objects and switches that are on; neither names, rates and token ids nor what is off or empty."""
    is_off = not value or isinstance(value, (str, float))
    return not is_off and not key.endswith(("token_id", "token_index"))


def assumed_decoder(fields: ConfigFields, family: str) -> Architecture:
    """The shape of Llama, Mistral, Qwen-MoE or DeepSeek-MoE with grouped-query attention, as its fields say."""
    biased, normed = fields.flag("attention_bias", default=False), fields.flag("use_qk_norm", "qk_norm", default=False)
    biases = Biases(
        query_key_value=biased or fields.flag("qkv_bias", default=False), output=biased, norms_per_head=2 * normed
    )
    num_layers = fields.layers("num_hidden_layers")
    reaches = layer_reaches(fields, num_layers, sliding(fields), lambda _: sliding(fields) != EVERYTHING)
    mixers = [attention(fields, biases, reach) for reach in reaches]
    if any(fields.optional_count(key) for key in EXPERT_KEYS):
        layers = _routed(fields, deepseek_layers(_with_expert_width(fields), mixers))
    else:
        mlp = gated_mlp(fields, biased=fields.flag("mlp_bias", default=False))
        layers = [replace(layer, mixer=m) for layer, m in zip(uniform(fields, mixers[0], mlp), mixers, strict=True)]
    plain = decoder(fields, family, layers, tied=False)
    note = f"family {shorten(family)} is not known: read by its usual fields; norms, biases and gates may be missing"
    return replace(plain, is_assumed=True, notes=(note,))


def _with_expert_width(fields: ConfigFields) -> ConfigFields:
    width = fields.count("moe_intermediate_size", "intermediate_size")
    return ConfigFields({**fields.values, "moe_intermediate_size": width}, fields.name)


def _routed(fields: ConfigFields, layers: list[Layer]) -> list[Layer]:
    """Shared experts by their own width where the config names it."""
    width = fields.optional_count("shared_expert_intermediate_size")
    if width is None:
        return layers
    experts = gated_experts(_with_expert_width(fields), "moe_intermediate_size", shared_width=width)
    return [replace(x, feed_forward=experts) if type(x.feed_forward) is type(experts) else x for x in layers]
