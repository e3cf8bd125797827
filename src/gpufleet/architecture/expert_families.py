"""Decoders with routed experts: one function per family, config fields to `Architecture`.

Defaults are those of the family's configuration class in Hugging Face transformers, for configs that leave a field out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.layers import (
    Biases,
    Layer,
    attention,
    attention_of,
    decoder,
    gated_mlp,
    normed_over_all_heads,
    qwen3_biases,
    qwen_mixers,
    two_norms,
    uniform,
)
from gpufleet.architecture.reach import EVERYTHING, chunked, layer_reaches, sliding
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    DenseMlp,
    LatentAttention,
    Mixer,
    MixtureOfExperts,
)


def mixtral(fields: ConfigFields, family: str) -> Architecture:
    """Mixtral: every layer routes to experts."""
    experts = gated_experts(fields, "intermediate_size", default_experts=8, default_top_k=2)
    mixer = attention(fields, Biases(), sliding(fields), default_kv_heads=8)
    return decoder(fields, family, uniform(fields, mixer, experts), tied=False, default_context=131072)


TOP_K_KEYS = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "top_k_experts")


def gated_experts(
    fields: ConfigFields,
    width_key: str,
    shared_width: int = 0,
    vector_params: int = 0,
    default_experts: int | None = None,
    default_top_k: int | None = None,
) -> MixtureOfExperts:
    """Gated routed experts; the keys of their number differ between families and versions."""
    return MixtureOfExperts(
        num_experts=fields.count("num_experts", "num_local_experts", "n_routed_experts", default=default_experts),
        top_k=fields.count(*TOP_K_KEYS, default=default_top_k),
        expert_width=fields.count(width_key),
        gated=True,
        shared_width=shared_width,
        vector_params=vector_params,
    )


def sparse_layers(fields: ConfigFields, mixers: Sequence[Mixer], experts: MixtureOfExperts) -> list[Layer]:
    """Qwen MoE: experts in every `decoder_sparse_step`-th layer but those of `mlp_only_layers`."""
    dense = fields.layer_numbers("mlp_only_layers") or frozenset()
    step = fields.count("decoder_sparse_step", default=1)
    routed = [layer not in dense and (layer + 1) % step == 0 for layer in range(len(mixers))]
    dense_mlp = None if all(routed) else gated_mlp(fields)
    parts = (experts if sparse or dense_mlp is None else dense_mlp for sparse in routed)
    return [Layer(mixer, part, two_norms(fields)) for mixer, part in zip(mixers, parts, strict=True)]


def qwen2_moe(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 1.5 and 2 MoE: a gated shared expert beside the routed ones."""
    hidden_size = fields.count("hidden_size")
    shared = fields.count("shared_expert_intermediate_size", default=5632)
    experts = gated_experts(fields, "moe_intermediate_size", shared_width=shared, vector_params=hidden_size)
    mixers = qwen_mixers(fields, Biases(query_key_value=fields.flag("qkv_bias", default=True)))
    return decoder(fields, family, sparse_layers(fields, mixers, experts), tied=False, default_context=32768)


def qwen3_moe(fields: ConfigFields, family: str) -> Architecture:
    """Qwen 3 MoE: norms over each head of q and k, no shared expert."""
    experts = gated_experts(fields, "moe_intermediate_size", default_experts=128, default_top_k=8)
    mixers = qwen_mixers(fields, qwen3_biases(fields))
    return decoder(fields, family, sparse_layers(fields, mixers, experts), tied=False, default_context=32768)


def olmoe(fields: ConfigFields, family: str) -> Architecture:
    """OLMoE: norms over the whole width of q and k, no shared expert."""
    biased = fields.flag("attention_bias", default=False)
    mixer = normed_over_all_heads(attention(fields, Biases(query_key_value=biased, output=biased)))
    experts = gated_experts(fields, "intermediate_size", default_experts=64, default_top_k=8)
    return decoder(fields, family, uniform(fields, mixer, experts), tied=False, default_context=4096)


def phimoe(fields: ConfigFields, family: str) -> Architecture:
    """Phi 3.5 MoE: layer norms with shifts, biases on attention and head."""
    hidden_size = fields.count("hidden_size")
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), sliding(fields), default_kv_heads=8)
    experts = gated_experts(fields, "intermediate_size", default_experts=16, default_top_k=2)
    layers = [Layer(mixer, experts, 4 * hidden_size)] * fields.layers("num_hidden_layers")
    head_bias = fields.flag("lm_head_bias", default=False)
    plain = decoder(fields, family, layers, tied=False, default_context=131072, head_bias=head_bias)
    return replace(plain, vector_params=plain.vector_params + hidden_size)


def step3(fields: ConfigFields, family: str) -> Architecture:
    """Step 3.5 and 3.7: norms over each head of q and k, one gate per head, windows in three layers of four."""
    num_layers = fields.layers("num_hidden_layers")
    reaches = layer_reaches(fields, num_layers, sliding(fields, default=512), lambda layer: layer % 4 != 0)
    plain = [attention(fields, Biases(norms_per_head=2), reach) for reach in reaches]
    mixers = [replace(m, gate_width=m.num_heads) for m in plain]
    num_dense = fields.optional_count("first_k_dense_replace") or 0
    shared = fields.optional_count("share_expert_dim", "share_expert_dims") or 0
    experts = gated_experts(fields, "moe_intermediate_size", shared_width=shared)
    routed = [layer >= num_dense for layer in range(num_layers)]
    layers = with_feed_forwards(mixers, routed, experts, gated_mlp(fields), two_norms(fields))
    return decoder(fields, family, layers, tied=False, default_context=65536)


def mimo_v2(fields: ConfigFields, family: str) -> Architecture:
    """MiMo-V2: values narrower than keys; windows with sinks and more KV heads in five layers of six."""
    num_layers = fields.layers("num_hidden_layers")
    slides = [kind == 1 for kind in fields.items("hybrid_layer_pattern", num_layers) or [0] * num_layers]
    mixers = [_mimo_attention(fields, is_local) for is_local in slides]
    routed = [kind == 1 for kind in fields.items("moe_layer_freq", num_layers) or [1] * num_layers]
    dense = None if all(routed) else gated_mlp(fields)
    layers = with_feed_forwards(mixers, routed, deepseek_experts(fields), dense, two_norms(fields))
    return decoder(fields, family, layers, tied=False, default_context=262144)


def _mimo_attention(fields: ConfigFields, is_local: bool) -> Attention:
    heads, hidden_size, prefix = fields.count("num_attention_heads"), fields.count("hidden_size"), "swa_" * is_local
    own_heads = fields.count(f"{prefix}num_attention_heads", default=heads)
    kv_heads = fields.count(f"{prefix}num_key_value_heads", default=fields.count("num_key_value_heads"))
    width = fields.count(f"{prefix}head_dim", default=fields.count("head_dim"))
    sinks = fields.flag(f"add_{'swa' if is_local else 'full'}_attention_sink_bias", default=False)
    reach = sliding(fields, default=128) if is_local else EVERYTHING
    biased = fields.flag("attention_bias", default=False)
    plain = attention_of(own_heads, kv_heads, width, hidden_size, Biases(query_key_value=biased, sinks=sinks), reach)
    return replace(plain, value_head_dim=fields.count(f"{prefix}v_head_dim", default=width))


def minimax_m2(fields: ConfigFields, family: str) -> Architecture:
    """MiniMax M2: norms over the whole width of q and k; the multi-token modules are left out."""
    plain = attention(fields, Biases())
    mixer = normed_over_all_heads(plain) if fields.flag("use_qk_norm", default=True) else plain
    shared = fields.optional_count("shared_intermediate_size") or 0
    experts = replace(gated_experts(fields, "intermediate_size", shared_width=shared), routes_in_fp32=True)
    return decoder(fields, family, uniform(fields, mixer, experts), tied=False, default_context=196608)


def gpt_oss(fields: ConfigFields, family: str) -> Architecture:
    """gpt-oss: alternating windows, attention sinks, biases on everything."""
    hidden_size = fields.count("hidden_size")
    num_layers = fields.layers("num_hidden_layers")
    biased = fields.flag("attention_bias", default=True)
    biases = Biases(query_key_value=biased, output=biased, sinks=True)
    plain = gated_experts(fields, "intermediate_size", default_experts=128, default_top_k=4)
    experts = MixtureOfExperts(
        plain.num_experts,
        plain.top_k,
        plain.expert_width,
        gated=True,
        expert_vector_params=2 * plain.expert_width + hidden_size,
        vector_params=plain.num_experts,
    )
    reaches = layer_reaches(fields, num_layers, sliding(fields, default=128), lambda layer: layer % 2 == 0)
    layers = [
        Layer(attention(fields, biases, r, default_head_dim=64, default_kv_heads=8), experts, 2 * hidden_size)
        for r in reaches
    ]
    return decoder(fields, family, layers, tied=False, default_context=131072)


def llama4_text(fields: ConfigFields, family: str) -> Architecture:
    """Llama 4: chunked attention in three layers of four, routed and shared expert in every n-th layer."""
    num_layers = fields.layers("num_hidden_layers")
    no_rope = fields.items("no_rope_layers", num_layers)
    interval = fields.count("no_rope_layer_interval", default=4)
    chunk = chunked(fields)
    reaches = layer_reaches(
        fields, num_layers, chunk, lambda layer: bool(no_rope[layer]) if no_rope else (layer + 1) % interval != 0
    )
    biased = fields.flag("attention_bias", default=False)
    biases = Biases(query_key_value=biased, output=biased)
    mixers = {reach: attention(fields, biases, reach, default_kv_heads=8) for reach in set(reaches)}
    parts = _llama4_feed_forwards(fields, num_layers)
    layers = [Layer(mixers[r], part, two_norms(fields)) for r, part in zip(reaches, parts, strict=True)]
    return decoder(fields, family, layers, tied=False, default_context=131072)


def _llama4_feed_forwards(fields: ConfigFields, num_layers: int) -> list[DenseMlp | MixtureOfExperts]:
    """Experts in `moe_layers`, or in every `interleave_moe_layer_step`-th layer; dense layers have their own width."""
    step = fields.count("interleave_moe_layer_step", default=1)
    routed = fields.layer_numbers("moe_layers") or frozenset(range(step - 1, num_layers, step))
    experts = gated_experts(
        fields,
        "intermediate_size",
        shared_width=fields.count("intermediate_size"),
        default_experts=16,
        default_top_k=1,
    )
    dense = gated_mlp(fields, "intermediate_size_mlp") if len(routed) < num_layers else None
    return [experts if layer in routed or dense is None else dense for layer in range(num_layers)]


def deepseek(fields: ConfigFields, family: str) -> Architecture:
    """DeepSeek V2 and V3, Kimi K2: latent attention, dense first layers; the multi-token module is left out."""
    mixers = [latent_attention(fields)] * fields.layers("num_hidden_layers")
    return decoder(fields, family, deepseek_layers(fields, mixers), tied=False, default_context=4096)


def deepseek_layers(fields: ConfigFields, mixers: Sequence[Mixer]) -> list[Layer]:
    """Dense first layers, then every `moe_layer_freq`-th one routes to experts."""
    num_dense, every = fields.optional_count("first_k_dense_replace") or 0, fields.count("moe_layer_freq", default=1)
    routed = [layer >= num_dense and layer % every == 0 for layer in range(len(mixers))]
    experts = deepseek_experts(fields) if any(routed) else None
    dense = None if all(routed) else gated_mlp(fields)
    return with_feed_forwards(mixers, routed, experts, dense, two_norms(fields))


def with_feed_forwards(
    mixers: Sequence[Mixer],
    routed: Sequence[bool],
    experts: MixtureOfExperts | None,
    dense: DenseMlp | None,
    norm_params: int,
) -> list[Layer]:
    """Each mixer with experts where the layer routes, else with the dense part."""
    layers = []
    for mixer, sparse in zip(mixers, routed, strict=True):
        part = experts if sparse else dense
        assert part is not None
        layers.append(Layer(mixer, part, norm_params))
    return layers


def deepseek_experts(fields: ConfigFields) -> MixtureOfExperts:
    """Routed experts, and as many shared ones of the same width as the config says."""
    shared = fields.optional_count("n_shared_experts", "num_shared_experts") or 0
    return gated_experts(fields, "moe_intermediate_size", shared * fields.count("moe_intermediate_size"))


def latent_attention(fields: ConfigFields) -> LatentAttention:
    """MLA with norms on both latents."""
    q_lora_rank, kv_lora_rank = fields.optional_count("q_lora_rank"), fields.count("kv_lora_rank")
    rope_dim = fields.count("qk_rope_head_dim", default=64)
    biased = fields.flag("attention_bias", default=False)
    biases = biased * ((q_lora_rank or 0) + kv_lora_rank + rope_dim + fields.count("hidden_size"))
    return LatentAttention(
        num_heads=fields.count("num_attention_heads"),
        q_lora_rank=q_lora_rank,
        kv_lora_rank=kv_lora_rank,
        qk_nope_head_dim=fields.count("qk_nope_head_dim", default=128),
        qk_rope_head_dim=rope_dim,
        v_head_dim=fields.count("v_head_dim", default=128),
        vector_params=(q_lora_rank or 0) + kv_lora_rank + biases,
    )


def glm4_moe(fields: ConfigFields, family: str) -> Architecture:
    """GLM 4.5 to 4.7: biases on q, k and v, norms over each head where the config asks; the routing of DeepSeek V3."""
    normed = fields.flag("use_qk_norm", default=False)
    biases = Biases(query_key_value=fields.flag("attention_bias", default=False), norms_per_head=2 * normed)
    mixers = [attention(fields, biases)] * fields.layers("num_hidden_layers")
    return decoder(fields, family, deepseek_layers(fields, mixers), tied=False, default_context=131072)


def dots1(fields: ConfigFields, family: str) -> Architecture:
    """dots.llm1 and Ling 2: norms over each head of q and k, dense first layers, shared experts."""
    normed = fields.flag("use_qk_norm", default=True)
    biased = fields.flag("attention_bias", "use_qkv_bias", default=False)
    biases = Biases(query_key_value=biased, norms_per_head=2 * normed)
    mixers = [attention(fields, biases)] * fields.layers("num_hidden_layers")
    return decoder(fields, family, deepseek_layers(fields, mixers), tied=False, default_context=2048)


def ernie4_5_moe(fields: ConfigFields, family: str) -> Architecture:
    """ERNIE 4.5: experts from one layer to another, and shared ones of the same width; keys of its own."""
    num_layers, width = fields.layers("num_hidden_layers"), fields.count("moe_intermediate_size", default=1536)
    last = fields.values.get("moe_layer_end_index")
    last = last if isinstance(last, int) and last >= 0 else num_layers - 1
    first, every = fields.optional_count("moe_layer_start_index") or 0, fields.count("moe_layer_interval", default=1)
    biased = fields.flag("use_bias", default=False)
    num_experts = fields.count("moe_num_experts", default=64)
    experts = MixtureOfExperts(
        num_experts=num_experts,
        top_k=fields.count("moe_k", default=6),
        expert_width=width,
        gated=True,
        shared_width=width * (fields.optional_count("moe_num_shared_experts") or 0),
        vector_params=num_experts,
    )
    mixer = attention(fields, Biases(query_key_value=biased, output=biased), default_kv_heads=4)
    routed = [first <= layer <= last and (layer + 1) % every == 0 for layer in range(num_layers)]
    dense = gated_mlp(fields, biased=biased)
    layers = with_feed_forwards([mixer] * num_layers, routed, experts, dense, two_norms(fields))
    return decoder(fields, family, layers, tied=True, default_context=131072)


def hunyuan_moe(fields: ConfigFields, family: str) -> Architecture:
    """Hunyuan A13B: every layer routes, beside a shared expert; sizes may be listed layer by layer, all alike."""
    listed = {key: _alike(fields.values.get(key)) for key in ("moe_intermediate_size", "moe_topk", "num_shared_expert")}
    alike = ConfigFields({**listed, "num_experts": fields.values.get("num_experts")}, fields.name)
    width = alike.optional_count("moe_intermediate_size") or fields.count("intermediate_size")
    experts = MixtureOfExperts(
        num_experts=alike.count("num_experts"),
        top_k=alike.count("moe_topk"),
        expert_width=width,
        gated=True,
        shared_width=width * (alike.optional_count("num_shared_expert") or 0),
    )
    normed = fields.flag("use_qk_norm", default=True)
    biased = fields.flag("attention_bias", default=False)
    mixer = attention(fields, Biases(query_key_value=biased, output=biased, norms_per_head=2 * normed))
    return decoder(fields, family, uniform(fields, mixer, experts), tied=False)


def _alike(value: object) -> object:
    """The one value of a list that repeats it."""
    return value[0] if isinstance(value, list) and value and all(each == value[0] for each in value) else value
