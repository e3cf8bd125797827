"""Decoders with recurrent layers: one function per family, config fields to `Architecture`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.expert_families import (
    deepseek_layers,
    gated_experts,
    latent_attention,
    sparse_layers,
)
from gpufleet.architecture.layers import (
    Biases,
    Layer,
    attention,
    decoder,
    gated_mlp,
    plain_mlp,
    qwen3_biases,
    two_norms,
)
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    Mixer,
    MixtureOfExperts,
)
from gpufleet.domain.mixers import GatedDeltaNet, NoFeedForward, NoMixer, StateSpace
from gpufleet.errors import UsageError

STATE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
RESIDUAL_VECTORS_PER_LAYER, RESIDUAL_VECTORS_AT_END = 4, 2


def qwen3_5(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 3.5 and 3.6: gated delta nets, and full attention with an output gate in every fourth layer."""
    layers = [Layer(mixer, gated_mlp(fields), two_norms(fields)) for mixer in _qwen_hybrid_mixers(fields)]
    return decoder(fields, family, layers, tied=False, default_context=32768)


def qwen3_5_moe(fields: ConfigFields, family: str) -> Architecture:
    """Qwen3-Next, Qwen 3.5 and 3.6 MoE: the same mixers, routed experts and a gated shared one."""
    experts = gated_experts(
        fields,
        "moe_intermediate_size",
        shared_width=fields.count("shared_expert_intermediate_size", default=512),
        vector_params=fields.count("hidden_size"),
    )
    layers = sparse_layers(fields, _qwen_hybrid_mixers(fields), experts)
    return decoder(fields, family, layers, tied=False, default_context=32768)


def _qwen_hybrid_mixers(fields: ConfigFields) -> list[Mixer]:
    num_layers, interval = fields.layers("num_hidden_layers"), fields.count("full_attention_interval", default=4)
    kinds = fields.items("layer_types", num_layers) or [
        "linear_attention" if (layer + 1) % interval else "full_attention" for layer in range(num_layers)
    ]
    by_kind: dict[str, Mixer] = {
        "linear_attention": _gated_delta_net(fields),
        "full_attention": _gated_attention(fields),
    }
    return [_mixer_of_kind(fields, by_kind, kind) for kind in kinds]


def _mixer_of_kind(fields: ConfigFields, by_kind: dict[str, Mixer], kind: object) -> Mixer:
    if str(kind) not in by_kind:
        expected = " or ".join(by_kind)
        raise UsageError(f"{fields.name}: a kind of layer that is not planned yet", found=kind, expected=expected)
    return by_kind[str(kind)]


def _gated_attention(fields: ConfigFields) -> Attention:
    plain = attention(fields, qwen3_biases(fields), default_head_dim=256)
    if not fields.flag("attn_output_gate", default=True):
        return plain
    gate_width = plain.num_heads * plain.head_dim
    biases = gate_width if fields.flag("attention_bias", default=False) else 0
    return replace(plain, gate_width=gate_width, vector_params=plain.vector_params + biases)


def _gated_delta_net(fields: ConfigFields) -> GatedDeltaNet:
    """One number per head decays; the state is kept in the type that the config names, else in the model's.

    Qwen3-Next names none: vLLM then keeps 16 bits (blocks of 544 tokens), SGLang 32 (`least_state_bytes`).
    """
    heads, head_dim = (
        fields.count("linear_num_value_heads", default=32),
        fields.count("linear_value_head_dim", default=128),
    )
    bare = GatedDeltaNet(
        num_key_heads=fields.count("linear_num_key_heads", default=16),
        num_value_heads=heads,
        key_head_dim=fields.count("linear_key_head_dim", default=128),
        value_head_dim=head_dim,
        conv_width=fields.count("linear_conv_kernel_dim", default=4),
        state_bytes_per_element=_state_bytes(fields, default="bfloat16"),
    )
    return replace(bare, vector_params=bare.conv_width * bare.convolved_width + 2 * heads + head_dim)


def _state_bytes(fields: ConfigFields, default: str) -> float:
    named = fields.values.get("mamba_ssm_cache_dtype") or fields.values.get("mamba_ssm_dtype") or default
    size = STATE_BYTES.get(str(named))
    if size is None:
        raise UsageError(
            f"{fields.name}: a type of state that is not known", found=named, expected=", ".join(STATE_BYTES)
        )
    return size


def kimi_linear(fields: ConfigFields, family: str) -> Architecture:
    """Kimi Linear and Kimi K3: Kimi Delta Attention, latent attention in every fourth layer, dense first layers.

    Attention over the residuals of earlier layers (K3, arXiv:2603.15031) adds a norm and a query before each part.
    """
    num_layers, nested = fields.layers("num_hidden_layers"), _linear_fields(fields)
    full = nested.layer_numbers("full_attn_layers") or frozenset(range(4, num_layers + 1, 4))
    delta, latent = _kimi_delta_net(nested), _gated_latent(fields)
    mixers = [latent if layer + 1 in full else delta for layer in range(num_layers)]
    residual = fields.count("hidden_size") if fields.optional_count("attn_res_block_size") else 0
    layers = [
        Layer(x.mixer, _kimi_experts(fields, x.feed_forward), x.norm_params + RESIDUAL_VECTORS_PER_LAYER * residual)
        for x in deepseek_layers(fields, mixers)
    ]
    plain = decoder(fields, family, layers, tied=False, default_context=1048576)
    return replace(plain, vector_params=plain.vector_params + RESIDUAL_VECTORS_AT_END * residual)


def _linear_fields(fields: ConfigFields) -> ConfigFields:
    nested = fields.values.get("linear_attn_config")
    if not isinstance(nested, dict):
        raise UsageError(f"{fields.name}: the config lacks linear_attn_config", expected="heads and layers of KDA")
    return fields.part(nested)


def _kimi_delta_net(fields: ConfigFields) -> GatedDeltaNet:
    """One number per channel decays; the output gate has the rank of a head unless it is a full one."""
    heads, head_dim = fields.count("num_heads"), fields.count("head_dim")
    bare = GatedDeltaNet(
        num_key_heads=heads,
        num_value_heads=heads,
        key_head_dim=head_dim,
        value_head_dim=head_dim,
        conv_width=fields.count("short_conv_kernel_size", default=4),
        gate_rank=None if fields.flag("use_full_rank_gate", default=False) else head_dim,
        decay_rank=head_dim,
    )
    vectors = bare.conv_width * bare.convolved_width + bare.key_width + heads + head_dim
    return replace(bare, vector_params=vectors)


def _gated_latent(fields: ConfigFields) -> LatentAttention:
    plain = latent_attention(fields)
    gated = fields.flag("mla_use_output_gate", default=False)
    return replace(plain, gate_width=plain.num_heads * plain.v_head_dim if gated else 0)


def _kimi_experts(fields: ConfigFields, part: FeedForward) -> FeedForward:
    latent = fields.optional_count("routed_expert_hidden_size")
    if not isinstance(part, MixtureOfExperts) or latent is None:
        return part
    norm = latent if fields.flag("latent_moe_use_norm", default=False) else 0
    return replace(part, latent_width=latent, vector_params=part.vector_params + norm)


def nemotron_h(fields: ConfigFields, family: str) -> Architecture:
    """Nemotron-H and Nemotron 3: each layer is one part with one norm: Mamba-2, attention, MLP or experts."""
    kinds = _nemotron_kinds(fields)
    built = {kind: NEMOTRON_PARTS[kind](fields) for kind in sorted(set(kinds))}
    return decoder(fields, family, [built[kind] for kind in kinds], tied=False, default_context=4096)


def _nemotron_kinds(fields: ConfigFields) -> list[str]:
    """Kinds of all layers, from a list of words or a text of letters."""
    pattern = fields.values.get("hybrid_override_pattern")
    listed: Sequence[object] = fields.items("layers_block_type") or (pattern if isinstance(pattern, str) else ())
    kinds = [NEMOTRON_SPELLINGS.get(str(kind), str(kind)) for kind in listed]
    num_layers = fields.layers("num_hidden_layers", default=len(kinds) or None)
    if len(kinds) != num_layers or not set(kinds) <= set(NEMOTRON_PARTS):
        expected = f"{num_layers} layers of {', '.join(NEMOTRON_PARTS)}"
        raise UsageError(f"{fields.name}: the pattern of layers is missing or wrong", found=pattern, expected=expected)
    return kinds


def _nemotron_mamba(fields: ConfigFields) -> Layer:
    mixer = _mamba2_mixer(
        fields,
        heads=fields.count("mamba_num_heads"),
        head_dim=fields.count("mamba_head_dim"),
        state_size=fields.count("ssm_state_size"),
    )
    return Layer(mixer, NoFeedForward(), fields.count("hidden_size"))


def _nemotron_attention(fields: ConfigFields) -> Layer:
    head_dim = fields.optional_count("head_dim", "attention_head_dim") or 128
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), default_head_dim=head_dim)
    return Layer(mixer, NoFeedForward(), fields.count("hidden_size"))


def _nemotron_mlp(fields: ConfigFields) -> Layer:
    hidden_size = fields.count("hidden_size")
    mlp = plain_mlp(fields.count("intermediate_size"), hidden_size, fields.flag("mlp_bias", default=False))
    return Layer(NoMixer(), mlp, hidden_size)


def _nemotron_experts(fields: ConfigFields) -> Layer:
    shared = fields.count("n_shared_experts", default=1) * fields.count("moe_shared_expert_intermediate_size")
    experts = gated_experts(fields, "moe_intermediate_size", shared_width=shared)
    plain = replace(experts, gated=False, latent_width=fields.optional_count("moe_latent_size"))
    return Layer(NoMixer(), plain, fields.count("hidden_size"))


def _mamba2_mixer(fields: ConfigFields, heads: int, head_dim: int, state_size: int) -> StateSpace:
    bare = StateSpace(
        inner_width=heads * head_dim,
        state_size=state_size,
        conv_width=fields.count("conv_kernel", default=4),
        num_heads=heads,
        num_groups=fields.count("n_groups", default=8),
        state_bytes_per_element=_state_bytes(fields, default="bfloat16"),
    )
    taps = bare.conv_width + fields.flag("use_conv_bias", default=True)
    projected = bare.inner_width + bare.convolved_width + heads + fields.count("hidden_size")
    biases = projected if fields.flag("use_bias", default=False) else 0
    return replace(bare, vector_params=taps * bare.convolved_width + 3 * heads + bare.inner_width + biases)


def mamba2(fields: ConfigFields, family: str) -> Architecture:
    """Mamba-2: state-space layers alone."""
    heads = fields.count("num_heads", default=128)
    mixer = _mamba2_mixer(fields, heads, fields.count("head_dim", default=64), fields.count("state_size", default=128))
    return _state_space_decoder(fields, family, mixer)


def mamba(fields: ConfigFields, family: str) -> Architecture:
    """Mamba: state-space layers alone, whose inputs and time steps are projected from each channel."""
    hidden_size = fields.count("hidden_size")
    inner = fields.count("intermediate_size", default=fields.count("expand", default=2) * hidden_size)
    rank = fields.values.get("time_step_rank")
    bare = StateSpace(
        inner_width=inner,
        state_size=fields.count("state_size", default=16),
        conv_width=fields.count("conv_kernel", default=4),
        num_heads=inner,
        time_step_rank=-(-hidden_size // 16) if rank in (None, "auto") else fields.count("time_step_rank"),
    )
    taps = bare.conv_width + fields.flag("use_conv_bias", default=True)
    biases = 2 * inner + hidden_size if fields.flag("use_bias", default=False) else 0
    vectors = (taps + bare.state_size + 2) * inner + biases
    return _state_space_decoder(fields, family, replace(bare, vector_params=vectors))


def _state_space_decoder(fields: ConfigFields, family: str, mixer: StateSpace) -> Architecture:
    layers = [Layer(mixer, NoFeedForward(), fields.count("hidden_size"))] * fields.layers("num_hidden_layers")
    return decoder(fields, family, layers, tied=True, default_vocab=50280)


NEMOTRON_SPELLINGS = {
    "M": "mamba",
    "*": "attention",
    "-": "mlp",
    "E": "moe",
    "linear_attention": "mamba",
    "full_attention": "attention",
}
NEMOTRON_PARTS: Mapping[str, Callable[[ConfigFields], Layer]] = {
    "mamba": _nemotron_mamba,
    "attention": _nemotron_attention,
    "mlp": _nemotron_mlp,
    "moe": _nemotron_experts,
}
