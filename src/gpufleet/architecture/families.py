"""Which function reads which `model_type`, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpufleet.architecture import dense_families as dense
from gpufleet.architecture import expert_families as experts
from gpufleet.architecture import hybrid_families as hybrid
from gpufleet.architecture import layer_norm_families as layer_norm
from gpufleet.architecture import normed_families as normed
from gpufleet.architecture import sparse_families as sparse
from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.cross_attention import mllama_text
from gpufleet.architecture.encoder_parse import encoder_family_of
from gpufleet.architecture.other_kinds import other_kind, refusal_of_kind
from gpufleet.architecture.spelling import named, near_key
from gpufleet.architecture.unknown_family import assumed_decoder, lacking, not_understood
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError, nearest_names, shorten

Builder = Callable[[ConfigFields, str], Architecture]

FAMILIES: Mapping[str, Builder] = {
    "apertus": normed.apertus,
    "arcee": normed.arcee,
    "bailing_moe": experts.dots1,
    "bloom": layer_norm.bloom,
    "cwm": dense.mistral,
    "deepseek_v2": experts.deepseek,
    "deepseek_v3": experts.deepseek,
    "deepseek_v32": sparse.deepseek_v32,
    "deepseek_v4": sparse.deepseek_v4,
    "dots1": experts.dots1,
    "ernie4_5": normed.ernie4_5,
    "ernie4_5_moe": experts.ernie4_5_moe,
    "exaone4": normed.exaone4,
    "falcon": layer_norm.falcon,
    "gemma": dense.gemma,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3_text,
    "gemma4_text": dense.gemma4_text,
    "glm": dense.glm,
    "glm4": dense.glm4,
    "glm4_moe": experts.glm4_moe,
    "glm4_moe_lite": experts.deepseek,
    "glm_moe_dsa": sparse.deepseek_v32,
    "gpt2": layer_norm.gpt2,
    "gpt_neox": layer_norm.gpt_neox,
    "gpt_oss": experts.gpt_oss,
    "gptj": layer_norm.gptj,
    "granite": dense.llama,
    "hunyuan_v1_dense": normed.hunyuan_dense,
    "hunyuan_v1_moe": experts.hunyuan_moe,
    "internlm2": dense.llama,
    "internlm3": dense.llama,
    "kimi_k2": experts.deepseek,
    "kimi_linear": hybrid.kimi_linear,
    "llama": dense.llama,
    "llama4_text": experts.llama4_text,
    "mamba": hybrid.mamba,
    "mamba2": hybrid.mamba2,
    "mimo": dense.qwen2,
    "mimo_v2_flash": experts.mimo_v2,
    "minimax_m2": experts.minimax_m2,
    "minimax_m3": sparse.minimax_m3,
    "mistral": dense.mistral,
    "mixtral": experts.mixtral,
    "mllama_text_model": mllama_text,
    "mpt": layer_norm.mpt,
    "nemotron-nas": dense.nemotron_nas,
    "nemotron_h": hybrid.nemotron_h,
    "olmo2": dense.olmo2,
    "olmo3": normed.olmo3,
    "olmoe": experts.olmoe,
    "opt": layer_norm.opt,
    "phi": layer_norm.phi,
    "phi3": dense.phi3,
    "phimoe": experts.phimoe,
    "qwen": dense.qwen1,
    "qwen2": dense.qwen2,
    "qwen2_moe": experts.qwen2_moe,
    "qwen3": dense.qwen3,
    "qwen3_5_moe_text": hybrid.qwen3_5_moe,
    "qwen3_5_text": hybrid.qwen3_5,
    "qwen3_moe": experts.qwen3_moe,
    "qwen3_next": hybrid.qwen3_5_moe,
    "seed_oss": dense.seed_oss,
    "smollm3": dense.tied_llama,
    "starcoder2": layer_norm.starcoder2,
    "step3p7": experts.step3,
}

SAME_SHAPE: Mapping[str, str] = {
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "bailing_moe_v2": "bailing_moe",
    "deepseek_ref": "deepseek_v4",
    "ministral3": "mistral",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "step3p5": "step3p7",
}

TEXT_MODEL_OF: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "internvl": "qwen2",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "llama4": "llama4_text",
    "llava": "llama",
    "minimax_m3_vl": "minimax_m3",
    "mistral3": "mistral",
    "mllama": "mllama_text_model",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}

FAMILY_OF_CLASS: Mapping[str, str] = {
    "BloomForCausalLM": "bloom",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "FalconForCausalLM": "falcon",
    "GPT2LMHeadModel": "gpt2",
    "GPTNeoXForCausalLM": "gpt_neox",
    "GPTJForCausalLM": "gptj",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "GemmaForCausalLM": "gemma",
    "Glm4ForCausalLM": "glm4",
    "Glm4MoeForCausalLM": "glm4_moe",
    "GlmForCausalLM": "glm",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "GptOssForCausalLM": "gpt_oss",
    "GraniteForCausalLM": "granite",
    "InternLM2ForCausalLM": "internlm2",
    "KimiLinearForCausalLM": "kimi_linear",
    "Llama4ForCausalLM": "llama4_text",
    "LlamaForCausalLM": "llama",
    "Mamba2ForCausalLM": "mamba2",
    "MambaForCausalLM": "mamba",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "NemotronHForCausalLM": "nemotron_h",
    "OPTForCausalLM": "opt",
    "Olmo2ForCausalLM": "olmo2",
    "Olmo3ForCausalLM": "olmo3",
    "OlmoeForCausalLM": "olmoe",
    "Phi3ForCausalLM": "phi3",
    "PhiForCausalLM": "phi",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "SeedOssForCausalLM": "seed_oss",
    "SmolLM3ForCausalLM": "smollm3",
    "Starcoder2ForCausalLM": "starcoder2",
}


def family_of(config: Mapping[str, object]) -> str:
    """The `model_type` of a config; without one, what its first architecture class stands for.

    >>> family_of({"architectures": ["LlamaForCausalLM"]})
    'llama'
    """
    classes = config.get("architectures")
    first = str(classes[0]) if isinstance(classes, list) and classes else ""
    named = config.get("model_type") or FAMILY_OF_CLASS.get(first) or config.get("_class_name") or first
    if not isinstance(named, str):
        raise UsageError("model_type is not a name", found=named, expected="a text such as 'llama'")
    return SAME_SHAPE.get(named, named)


def builder_of(family: str, fields: ConfigFields) -> Builder:
    """The function that reads a family; the usual shape for an unknown decoder of which every field is understood.

    Anything else is an error that names the nearest family, and the fields that are not understood; an encoder is one
    however few of its fields the config gives.
    """
    builder = FAMILIES.get(family)
    if builder is not None:
        return builder
    is_other = not family or other_kind(family) is not None or encoder_family_of({"model_type": family}) is not None
    if is_other or lacking(fields) or not_understood(fields):
        raise _unreadable(family, fields, is_other)
    return assumed_decoder


def _unreadable(family: str, fields: ConfigFields, is_other: bool) -> UsageError:
    name = fields.name
    if not family:
        return UsageError(
            f"{name}: no model_type and no architectures", expected="a Hugging Face config.json of a decoder"
        )
    if encoder_family_of({"model_type": family}):
        return UsageError(
            f"{name} is not a decoder (family {family})",
            expected="a model that writes token after token",
            hint=f"'gpufleet encode {name} --gpus NAME:N' says how fast it is, 'gpufleet plan' what it costs.",
        )
    kind = other_kind(family)
    if kind is not None:
        return refusal_of_kind(name, shorten(family), *kind)
    nearest = nearest_names(family, FAMILIES) or ["llama"]
    reasons = [] if is_other else _unclear(fields)
    known = f"Nearest family: {' or '.join(nearest)}; {len(FAMILIES)} are known."
    return UsageError(
        f"{name} is of family {shorten(family)}, which is not planned yet", hint=" ".join([*reasons, known])
    )


def _unclear(fields: ConfigFields) -> list[str]:
    """Why an unknown family is not read as a usual decoder: what it lacks, what is not understood."""
    lacks, strange = lacking(fields), not_understood(fields)
    meant = [(key, near) for key in lacks if (near := near_key(key, strange))]
    said = [f"A usual decoder has {named(lacks)} too."] if lacks else []
    said += [f"Did you mean {key} by {near}?" for key, near in meant]
    rest = [key for key in strange if key not in dict(meant).values()]
    return said + ([f"Fields that are not understood: {named(rest)}."] if rest else [])
