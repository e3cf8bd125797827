"""Number formats of a checkpoint, from `torch_dtype` and `quantization_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpufleet.architecture.module_names import ATTENTION, EXPERTS, HEAD, MLP, SHARED, Matrix, matrices
from gpufleet.architecture.module_patterns import shares
from gpufleet.architecture.quantisation import QUARK, StoredModules, first_group, quark_kv, stored_modules
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import (
    BF16,
    FP8,
    FP8_BLOCK,
    FP16,
    FP32,
    GGUF_MIXES,
    MXFP4,
    PER_TENSOR,
    PER_TOKEN,
    STATIC,
    Precision,
    WeightFormat,
)
from gpufleet.errors import UsageError

_DTYPES = {"bfloat16": BF16, "bf16": BF16, "float16": FP16, "fp16": FP16, "half": FP16, "float32": FP32, "float": FP32}
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
    if quantization.get("quant_method") == "gguf":
        return gguf_format(quantization.get("file_type"), quantization.get("bits_per_weight"), architecture.name)
    stored = stored_modules(quantization, base, architecture.name)
    if str(quantization.get("quant_method")) == "mxfp4":
        return WeightFormat.experts_only(stored.rest, base)
    return _by_part(stored, base, architecture)


def _by_part(stored: StoredModules, base: Precision, architecture: Architecture) -> WeightFormat:
    """The format of each part: that of the matrix that stands for it, with the bytes of all its matrices."""
    found = matrices(architecture)
    mlp = sorted([*found[SHARED], *found[MLP]], key=lambda m: not m.weights) if architecture.is_moe else found[MLP]
    of = {ATTENTION: found[ATTENTION], MLP: mlp, EXPERTS: found[EXPERTS]}
    layers = {
        part: [shares(m, stored.rules, stored.rest, architecture.num_layers) for m in listed]
        for part, listed in of.items()
    }
    parts = {part: _blended(of[part], layers[part]) for part in of}
    head = next((r.precision for r in stored.rules if r.matches(HEAD)), stored.head or base)
    name = stored.name or parts[EXPERTS if architecture.is_moe else MLP].name
    shown = {p.name for p in (*parts.values(), head, base)}
    held = (p for part in layers.values() for matrix in part for p in matrix)
    besides = {p.name: p for p in held if p.name not in shown}
    mixed = WeightFormat(name, base, parts[ATTENTION], parts[MLP], parts[EXPERTS], head)
    return replace(mixed, besides=tuple(besides.values()), is_awq=stored.is_awq)


def _blended(found: list[Matrix], layers: list[dict[Precision, float]]) -> Precision:
    """Kernels of the format that most layers of the first matrix are in, with the mean bytes of all matrices."""
    named = max(layers[0], key=lambda p: layers[0][p])
    weights = sum(m.all_weights for m in found)
    if not weights or {p for m, held in zip(found, layers, strict=True) if m.weights for p in held} == {named}:
        return named
    pairs = zip(found, layers, strict=True)
    size = sum(p.bytes_per_element * n * m.weights for m, held in pairs for p, n in held.items())
    return Precision(named.name, size / weights, named.arithmetic)


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


def _kv_precision(quantization: Mapping[str, object]) -> Precision | None:
    """The cache format that a checkpoint brings scales for."""
    scheme = quantization.get("kv_cache_scheme")
    is_fp8 = isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 and scheme.get("type") == "float"
    if is_fp8 or "FP8" in (scheme, quantization.get("kv_cache_quant_algo")):
        return FP8
    return quark_kv(quantization) if str(quantization.get("quant_method")).lower() == QUARK else None


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
    return _compressed_scales(first_group(quantization).get("input_activations"))


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
