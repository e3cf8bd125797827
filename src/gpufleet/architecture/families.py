"""Which function reads which `model_type`, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpufleet.architecture import dense_families as dense
from gpufleet.architecture import expert_families as experts
from gpufleet.architecture import layer_norm_families as layer_norm
from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.encoder_parse import encoder_family_of
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError, nearest_names, shorten

Builder = Callable[[ConfigFields, str], Architecture]

FAMILIES: Mapping[str, Builder] = {
    "bloom": layer_norm.bloom,
    "deepseek_v2": experts.deepseek,
    "deepseek_v3": experts.deepseek,
    "falcon": layer_norm.falcon,
    "gemma": dense.gemma,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3_text,
    "gpt2": layer_norm.gpt2,
    "gpt_oss": experts.gpt_oss,
    "gptj": layer_norm.gptj,
    "kimi_k2": experts.deepseek,
    "llama": dense.llama,
    "llama4_text": experts.llama4_text,
    "minimax_m2": experts.minimax_m2,
    "mistral": dense.mistral,
    "mixtral": experts.mixtral,
    "mpt": layer_norm.mpt,
    "opt": layer_norm.opt,
    "phi": layer_norm.phi,
    "phi3": dense.phi3,
    "qwen2": dense.qwen2,
    "qwen2_moe": experts.qwen2_moe,
    "qwen3": dense.qwen3,
    "qwen3_moe": experts.qwen3_moe,
}

SAME_SHAPE: Mapping[str, str] = {
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}

TEXT_MODEL_OF: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "kimi_k25": "kimi_k2",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}

FAMILY_OF_CLASS: Mapping[str, str] = {
    "BloomForCausalLM": "bloom",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "FalconForCausalLM": "falcon",
    "GPT2LMHeadModel": "gpt2",
    "GPTJForCausalLM": "gptj",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "GemmaForCausalLM": "gemma",
    "GptOssForCausalLM": "gpt_oss",
    "Llama4ForCausalLM": "llama4_text",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "OPTForCausalLM": "opt",
    "Phi3ForCausalLM": "phi3",
    "PhiForCausalLM": "phi",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
}

NOT_DECODERS: Mapping[str, str] = {
    "FluxTransformer2DModel": "an image generator",
    "UNet2DConditionModel": "an image generator",
    "mamba": "a state-space model",
    "speecht5": "a text-to-speech model",
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


def builder_of(family: str, name: str) -> Builder:
    """The function that reads a family, or an error that names the nearest family that can be read."""
    builder = FAMILIES.get(family)
    if builder is None:
        raise _unreadable(family, name)
    return builder


def _unreadable(family: str, name: str) -> UsageError:
    if not family:
        return UsageError(
            f"{name}: no model_type and no architectures", expected="a Hugging Face config.json of a decoder"
        )
    kind = NOT_DECODERS.get(family)
    if encoder_family_of({"model_type": family}):
        return UsageError(
            f"{name} is not a decoder (family {family})",
            expected="a model that writes token after token",
            hint=f"'gpufleet encode {name} --gpus NAME:N' says how fast it is.",
        )
    nearest = ["gpt2"] if kind else nearest_names(family, FAMILIES) or ["llama"]
    what = f"{kind} (family {family})" if kind else f"of family {shorten(family)}"
    return UsageError(
        f"{name} is {what}, which is not planned yet",
        expected=f"a decoder of {', '.join(FAMILIES)}",
        hint=f"Nearest family: {' or '.join(nearest)}.",
    )
