"""Number formats of a checkpoint, from `torch_dtype` and `quantization_config`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpufleet.architecture.module_names import (
    HEAD,
    PartNames,
    expert_names,
    mixer_names,
    mlp_names,
)
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import (
    BF16,
    FP8,
    FP8_BLOCK,
    FP16,
    FP32,
    GGUF_MIXES,
    INT4,
    INT8,
    INT8_WEIGHT_ONLY,
    MXFP4,
    NF4,
    NVFP4,
    PER_TENSOR,
    PER_TOKEN,
    STATIC,
    Precision,
    WeightFormat,
)
from gpufleet.domain.precision_labels import AWQ
from gpufleet.errors import UsageError

_DTYPES = {"bfloat16": BF16, "bf16": BF16, "float16": FP16, "fp16": FP16, "half": FP16, "float32": FP32, "float": FP32}
_GROUP_OF_INT4 = 128
_MAX_PATTERN_LENGTH = 200
_MAX_DISTINCT_PATTERNS = 500
_MODELOPT = {
    "FP8": FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8,
    "FP8_PB_WO": FP8_BLOCK,
    "INT4_AWQ": INT4,
    "W4A16_AWQ": INT4,
    "W4A8_AWQ": INT4,
    "W8A8_SQ_PER_CHANNEL": INT8,
    "INT8_SQ": INT8,
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_NVFP4": NVFP4,
    "MXFP4": MXFP4,
    "MXFP8": Precision(FP8_BLOCK.name, 1.0 + 1 / 32, FP8_BLOCK.arithmetic),  # one 8-bit exponent per 32
}
_MIXED = "MIXED_PRECISION"
_SCALED_AS_MET = ("FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "W8A8_SQ_PER_CHANNEL", "MXFP4", "MXFP8")
_MOST_BITS, _LEAST_PLAIN_BITS = 32, 15.5


def weight_format_of(config: Mapping[str, object], architecture: Architecture) -> WeightFormat:
    """The checkpoint's own formats; without a word in the config, bf16.

    >>> from gpufleet.architecture.parse import parse_architecture
    >>> shape = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "torch_dtype": "float16"}
    >>> parse_architecture(shape, "tiny").weights.name
    'fp16'
    """
    base = base_precision(config, architecture.name)
    quantization = config.get("quantization_config") or config.get("compression_config")
    if quantization is None:
        return loaded_in_16_bits(base)
    if not isinstance(quantization, Mapping):
        raise UsageError(f"{architecture.name}: quantization_config is not an object", found=quantization)
    base = base if base.bytes_per_element < FP32.bytes_per_element else BF16
    weights = _quantised_format(quantization, base, architecture)
    if str(config.get("expert_dtype")) == "fp4" and weights.experts.name == FP8_BLOCK.name:
        weights = replace(weights, name=MXFP4.name, experts=MXFP4)
    return replace(weights, kv=_kv_precision(quantization), activation_scales=_activation_scales(quantization))


def loaded_in_16_bits(base: Precision) -> WeightFormat:
    """The format of plain weights: engines load those of 32 bits in 16."""
    return WeightFormat.uniform(base) if base is not FP32 else replace(WeightFormat.uniform(BF16), is_narrowed=True)


def _quantised_format(quantization: Mapping[str, object], base: Precision, architecture: Architecture) -> WeightFormat:
    if quantization.get("quant_algo") == _MIXED:
        return _mixed_format(quantization, base, architecture)
    if quantization.get("quant_method") == "gguf":
        return gguf_format(quantization.get("file_type"), quantization.get("bits_per_weight"), architecture.name)
    precision = _quantized_precision(quantization, architecture.name)
    if precision is None:
        return WeightFormat.uniform(base)
    if str(quantization.get("quant_method")) == "mxfp4":
        return WeightFormat.experts_only(precision, base)
    kept = _without_excluded(precision, base, _excluded_patterns(quantization), architecture)
    return replace(kept, is_awq=str(quantization.get("quant_method")).lower() == AWQ)


def gguf_format(file_type: object, bits_per_weight: object, name: str) -> WeightFormat:
    """A file of llama.cpp: one format for every matrix, the embedding too, at the bits that its mix takes.

    Kernels of the mix that is nearest in bits are taken for it.
    """
    if not isinstance(bits_per_weight, (int, float)) or not 1 <= bits_per_weight <= _MOST_BITS:
        raise UsageError(f"{name}: bits_per_weight is not a size", found=bits_per_weight, expected="1 to 32")
    if bits_per_weight >= _LEAST_PLAIN_BITS:
        return replace(WeightFormat.uniform(BF16 if file_type == "bf16" else FP16), is_gguf=True)
    mix = min(GGUF_MIXES, key=lambda p: abs(p.bytes_per_element - bits_per_weight / 8))
    precision = Precision(mix.name, bits_per_weight / 8, mix.arithmetic)
    return WeightFormat(str(file_type), precision, precision, precision, precision, precision, is_gguf=True)


def _mixed_format(quantization: Mapping[str, object], base: Precision, architecture: Architecture) -> WeightFormat:
    """A format for each module; what the list leaves out is in the format that the rest of the config names, or plain.

    ModelOpt converts checkpoints that are fp8 already, and then lists what it converted (DeepSeek-V4-NVFP4).
    """
    listed = _listed_precisions(quantization, architecture.name)
    method = {key: value for key, value in quantization.items() if key in ("quant_method", "weight_block_size")}
    rest = _quantized_precision(method, architecture.name) if method.get("quant_method") == "fp8" else base

    def of(part: PartNames) -> Precision:
        named = (p for pattern, p in listed.items() if any(_matches(module, pattern) for module in part.modules))
        return next(named, rest or base)

    mixer, mlp, experts = of(mixer_names(architecture)), of(mlp_names(architecture)), of(expert_names(architecture))
    name = (experts if architecture.is_moe else mlp).name
    return WeightFormat(name, base, mixer, mlp, experts, next((p for m, p in listed.items() if m == HEAD), base))


def _listed_precisions(quantization: Mapping[str, object], name: str) -> dict[str, Precision]:
    layers = quantization.get("quantized_layers")
    if not isinstance(layers, Mapping):
        raise UsageError(f"{name}: mixed precision without quantized_layers", expected="a format for each module")
    listed: dict[str, Precision] = {}
    for module, format_ in layers.items():
        algorithm = format_.get("quant_algo") if isinstance(format_, Mapping) else None
        pattern = _general(next(iter(_globs(str(module)[:_MAX_PATTERN_LENGTH]))))
        if pattern not in listed and len(listed) < _MAX_DISTINCT_PATTERNS:
            listed[pattern] = _algorithm_precision(algorithm, name)
    return listed


def _algorithm_precision(algorithm: object, name: str) -> Precision:
    precision = _MODELOPT.get(str(algorithm).upper())
    if precision is None:
        expected = f"one of {', '.join(_MODELOPT)}"
        raise UsageError(f"{name}: a quantisation that is not planned yet", found=algorithm, expected=expected)
    return precision


def _kv_precision(quantization: Mapping[str, object]) -> Precision | None:
    """The cache format that a checkpoint brings scales for."""
    scheme = quantization.get("kv_cache_scheme")
    is_fp8 = isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 and scheme.get("type") == "float"
    return FP8 if is_fp8 or "FP8" in (scheme, quantization.get("kv_cache_quant_algo")) else None


def _activation_scales(quantization: Mapping[str, object]) -> str | None:
    """Where the scales of activations come from: the checkpoint's own, or found in what each token or tensor holds.

    ModelOpt calibrates them, unless the algorithm says per token. Weights in blocks have scales of each token's blocks.
    """
    algorithm, method = str(quantization.get("quant_algo") or "").upper(), quantization.get("quant_method")
    if algorithm:
        return PER_TOKEN if algorithm in _SCALED_AS_MET else STATIC
    if method == "fbgemm_fp8" or quantization.get("weight_block_size"):
        return PER_TOKEN
    if method == "fp8":
        return {"static": STATIC, "dynamic": PER_TENSOR}.get(str(quantization.get("activation_scheme")))
    return _compressed_scales(_first_group(quantization).get("input_activations"))


def _compressed_scales(activations: object) -> str | None:
    """The same of compressed-tensors; None where activations stay as they are."""
    if not isinstance(activations, Mapping):
        return None
    if activations.get("dynamic") is not True:
        return STATIC
    return PER_TENSOR if activations.get("strategy") == "tensor" else PER_TOKEN


def base_precision(config: Mapping[str, object], name: str) -> Precision:
    """What a checkpoint is stored in by its `torch_dtype`; bf16 where it does not say."""
    dtype = config.get("torch_dtype") or config.get("dtype") or "bfloat16"
    precision = _DTYPES.get(str(dtype).removeprefix("torch."))
    if precision is None:
        raise UsageError(f"{name}: a torch_dtype that is not known", found=dtype, expected=f"one of {sorted(_DTYPES)}")
    return precision


def _quantized_precision(quantization: Mapping[str, object], name: str) -> Precision | None:
    """Precision of quantised linear layers; None where the method stores plain weights."""
    method = str(quantization.get("quant_method") or "").lower()
    if quantization.get("quant_algo") is not None:
        found = _MODELOPT.get(str(quantization["quant_algo"]).upper())
    elif method in ("fp8", "fbgemm_fp8"):
        found = FP8_BLOCK if quantization.get("weight_block_size") else FP8
    elif method in ("awq", "gptq"):
        found = _integer_precision(quantization.get("bits", quantization.get("w_bit")), quantization)
    elif method == "bitsandbytes":
        found = INT8_WEIGHT_ONLY if quantization.get("load_in_8bit") else NF4
    elif method == "mxfp4":
        found = MXFP4
    else:
        found = _compressed_precision(quantization)
    if found is None:
        raise UsageError(
            f"{name}: a quantisation that is not planned yet",
            found=quantization.get("quant_algo") or method or sorted(map(str, quantization))[:6],
            expected="fp8, awq, gptq, compressed-tensors, bitsandbytes, mxfp4 or modelopt FP8 / NVFP4 / INT4",
        )
    return found


def _integer_precision(bits: object, weights: Mapping[str, object]) -> Precision | None:
    """Weight-only integers; a group carries a 16-bit scale and, unless symmetric, a 4-bit zero."""
    if bits == 8:
        return INT8_WEIGHT_ONLY
    if bits != 4:
        return None
    group = weights.get("group_size", weights.get("q_group_size", _GROUP_OF_INT4))
    symmetric = weights.get("symmetric") is True
    if not isinstance(group, int) or (group == _GROUP_OF_INT4 and not symmetric):
        return INT4
    scales_bytes = FP16.bytes_per_element if symmetric else FP16.bytes_per_element + 0.5
    return Precision(INT4.name, 0.5 + (scales_bytes / group if group > 0 else 0.0), INT4.arithmetic)


def _compressed_precision(quantization: Mapping[str, object]) -> Precision | None:
    """compressed-tensors: the weights of the first group of layers."""
    first = _first_group(quantization)
    weights = first.get("weights")
    if not isinstance(weights, Mapping):
        return None
    bits, is_float = weights.get("num_bits"), weights.get("type") == "float"
    if is_float:
        blocks = weights.get("strategy") == "block"
        return {8: FP8_BLOCK if blocks else FP8, 4: NVFP4 if weights.get("group_size") != 32 else MXFP4}.get(
            bits if isinstance(bits, int) else 0
        )
    if bits == 8 and first.get("input_activations"):
        return INT8
    return _integer_precision(bits, weights)


def _first_group(quantization: Mapping[str, object]) -> Mapping[str, object]:
    groups = quantization.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    return first if isinstance(first, Mapping) else {}


def _excluded_patterns(quantization: Mapping[str, object]) -> list[str]:
    lists = (quantization.get(key) for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"))
    names = [str(n) for group in lists if isinstance(group, list) for n in group]
    return [glob for n in names if len(n) <= _MAX_PATTERN_LENGTH for glob in _globs(n)]


def _globs(pattern: str) -> Iterable[str]:
    """A module name, glob or simple regular expression ('re:...') as globs without the wrapper's prefix."""
    if pattern.startswith("re:"):
        pattern = pattern[3:].replace("\\.", ".").replace(".*", "*").strip("^$")
    pattern = re.sub(r"^(?:model\.|language_model\.|transformer\.|backbone\.)+", "", pattern)
    choice = re.search(r"\(([^()]*)\)", pattern)
    options = choice.group(1).split("|") if choice else [""]
    for option in options:
        yield pattern[: choice.start()] + option + pattern[choice.end() :] if choice else pattern


def _without_excluded(
    precision: Precision, base: Precision, patterns: Iterable[str], architecture: Architecture
) -> WeightFormat:
    """A part stays in `base` when the quantiser skipped it in at least half of the layers; the head always does."""
    layers_by_pattern: dict[str, set[str]] = {}
    for pattern in patterns:
        number = re.search(r"layers\.(\d+)", pattern)
        if len(layers_by_pattern) >= _MAX_DISTINCT_PATTERNS:
            break
        layers_by_pattern.setdefault(_general(pattern), set()).add(number.group(1) if number else "all")

    def kept(part: PartNames) -> Precision:
        return base if _is_excluded(part, layers_by_pattern) else precision

    mixer, mlp, experts = mixer_names(architecture), mlp_names(architecture), expert_names(architecture)
    return WeightFormat(precision.name, base, kept(mixer), kept(mlp), kept(experts), base)


def _general(pattern: str) -> str:
    """A pattern for all layers and experts alike."""
    return re.sub(r"experts\.\d+", "experts.0", re.sub(r"layers\.(\d+|\*)", "layers.#", pattern, count=1))


def _is_excluded(part: PartNames, layers_by_pattern: Mapping[str, set[str]]) -> bool:
    layers: set[str] = set()
    for pattern, excluded in layers_by_pattern.items():
        if any(_matches(module, pattern) for module in part.modules):
            layers |= excluded
    return "all" in layers or 2 * len(layers) >= max(part.num_layers, 1)


def _matches(module: str, pattern: str) -> bool:
    """Whether a pattern names the module, a part of the tree above it, or one of its path's components."""
    components = module.split(".")
    return fnmatch.fnmatchcase(module, pattern) or fnmatch.fnmatchcase(module, pattern + ".*") or pattern in components
