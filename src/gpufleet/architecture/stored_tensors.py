"""Tensors of a checkpoint as their headers name them: which part of a model each belongs to, and what it takes.

A header says names, number formats and shapes. Packed weights hold several in one element, scales none: parameters are
counted as the model has them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.architecture.quantisation import first_group
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import Precision, WeightFormat
from gpufleet.errors import UsageError
from gpufleet.records import dataclass
from gpufleet.units import GB

PREDICTION, VISION, TEXT = "prediction layers", "vision and sound", "text model"
BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32}
BITS |= {"U64": 64, "I64": 64, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4}
BITS |= {"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6}
WIDE, NARROWED_BYTES = ("F32", "F64"), 2
BESIDE_TEXT = re.compile(
    r"(^|\.)(visual|vision_\w+|vit\w*|audio_\w+|sound_\w+|speech_\w+|image_newline|multi_modal_projector|mm_\w+|mlp1|"
    r"embed_vision|embed_audio|patch_merger|\w*vision_language_adapter|pre_mm_projector_norm)(\.|$)"
)
PREDICTS = re.compile(r"(^|\.)(mtp\w*|nextn\w*|mtp_layers)(\.|$)")
DECODER_LAYER = re.compile(r"^(?:model\.|language_model\.|transformer\.|backbone\.)*(?:layers|h)\.(\d+)\.")
HEAD = re.compile(r"(^|\.)(lm_head|output_layer|embed_out)\.")
SCALE = re.compile(
    r"[._](weight|input|output|act|activation|k|v|q|kv|prob|\w+_proj)_(global_)?scale(_inv|_2)?$|[._]blocks?_scales?$|"
    r"_scales$|\.scales$|[._](qzeros|g_idx|absmax|quant_map|weight_zero_point|weight_shape|weight_g_idx|SCB|"
    r"weight_format|weight_bias_correction)$|\.nested_\w+$|\.quant_state\.\S+$"
)
PACKED = re.compile(r"(^|\.)(qweight|weight_packed)$|_blocks$|_packed$")
BUFFER = re.compile(r"(rotary_emb\.inv_freq|\.masked_bias|position_ids)$")
RESCALED = re.compile(r"\.scale$")
AGREES_RATIO, FOREIGN_RATIO = 0.01, 2.0
PACKED_BITS = (4, 2, 3, 8)
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as a header describes it."""

    name: str
    number_format: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class StoredPart:
    """All tensors of one part of a model in one number format; `loaded_bytes` is what they take in an engine."""

    part: str
    number_format: str
    num_parameters: int
    stored_bytes: int
    loaded_bytes: int


def stored_parts(tensors: Iterable[StoredTensor], config: Mapping[str, object]) -> tuple[StoredPart, ...]:
    """What a checkpoint holds, by part and number format, the largest first.

    >>> head = StoredTensor("lm_head.weight", "BF16", (8, 4), 64)
    >>> stored_parts([head], {})[0].num_parameters
    32
    """
    listed = list(tensors)
    names = {t.name for t in listed}
    layers, tied, bits = _num_layers(config), _is_tied(config), _packed_bits(config)
    sums: dict[tuple[str, str], list[int]] = {}
    for tensor in listed:
        if BUFFER.search(tensor.name) or (tied and HEAD.search(tensor.name)):
            continue
        scale = SCALE.search(tensor.name) or _is_rescaled(tensor.name, names)
        held = 0 if scale else math.prod(tensor.shape) * _weights_per_element(tensor, bits, config)
        is_wide = tensor.number_format in WIDE and len(tensor.shape) > 1 and not scale
        taken = (held, tensor.size_bytes, NARROWED_BYTES * held if is_wide else tensor.size_bytes)
        kept = sums.setdefault((part_of(tensor.name, layers), tensor.number_format), [0, 0, 0])
        kept[:] = (so_far + more for so_far, more in zip(kept, taken, strict=True))
    parts = (StoredPart(part, of, *amounts) for (part, of), amounts in sums.items())
    return tuple(sorted(parts, key=lambda p: -p.stored_bytes))


def part_of(name: str, num_layers: float) -> str:
    """Whether a tensor is of the text model, of layers that predict more tokens, or of what reads images and sound.

    >>> part_of("model.layers.61.mlp.gate.weight", 61), part_of("visual.blocks.0.attn.qkv.weight", 61)
    ('prediction layers', 'vision and sound')
    """
    layer = DECODER_LAYER.match(name)
    if PREDICTS.search(name) or (layer is not None and int(layer[1]) >= num_layers):
        return PREDICTION
    return TEXT if layer is not None or not BESIDE_TEXT.search(name) else VISION


def _is_rescaled(name: str, names: set[str]) -> bool:
    return RESCALED.search(name) is not None and f"{name.removesuffix('scale')}weight" in names


def _weights_per_element(tensor: StoredTensor, bits: int, config: Mapping[str, object]) -> int:
    """Weights that lie in one element: integers of 32 bits hold eight of 4, bytes two."""
    if tensor.number_format in ("I32", "U32") and PACKED.search(tensor.name):
        return 32 // bits  # bits of an integer
    halves = tensor.number_format == "U8" or (tensor.number_format == "I8" and config.get("expert_dtype") == "fp4")
    return 2 if halves and len(tensor.shape) > 1 else 1


def _text(config: Mapping[str, object]) -> Mapping[str, object]:
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def _num_layers(config: Mapping[str, object]) -> float:
    counts = (of.get(key) for of in (_text(config), config) for key in LAYERS)
    return next((count for count in counts if isinstance(count, int)), math.inf)


def _is_tied(config: Mapping[str, object]) -> bool:
    said = (of.get("tie_word_embeddings") for of in (config, _text(config)))
    return next((tied for tied in said if isinstance(tied, bool)), False)


def _packed_bits(config: Mapping[str, object]) -> int:
    """Bits of a packed weight; 4 where the config does not say."""
    quantization = config.get("quantization_config") or _text(config).get("quantization_config")
    if not isinstance(quantization, Mapping):
        return PACKED_BITS[0]
    weights = first_group(quantization).get("weights")
    grouped = weights.get("num_bits") if isinstance(weights, Mapping) else None
    said = (quantization.get("bits"), quantization.get("w_bit"), grouped)
    return next((bits for bits in said if isinstance(bits, int) and bits in PACKED_BITS), PACKED_BITS[0])


def with_stored_bytes(arch: Architecture, parts: Iterable[StoredPart], of: str) -> Architecture:
    """The model at the bytes that its files hold; where its config says others, memory goes by the files.

    Layers that predict more tokens are not loaded unless they speculate. `of` names the checkpoint.
    """
    loaded = [part for part in parts if part.part != PREDICTION]
    held, said = sum(part.loaded_bytes for part in loaded), weights_bytes(arch, arch.weights)
    if not held:
        return arch
    counted, ratio = sum(part.num_parameters for part in loaded), held / said
    told = f"{of}: {counted:,} parameters in {held / GB:,.2f} GB"
    if abs(ratio - 1) <= AGREES_RATIO:
        return replace(arch, notes=(*arch.notes, told))
    by_config = f"its config says {num_parameters(arch):,} in {said / GB:,.2f} GB"
    if not 1 / FOREIGN_RATIO < ratio < FOREIGN_RATIO:
        raise UsageError(f"{told}, where {by_config}", expected="a config of those files")
    told = f"Warning: {told}, where {by_config} ({ratio - 1:+.1%}): memory goes by the files"
    return replace(arch, weights=_scaled(arch.weights, ratio), notes=(*arch.notes, told))


def _scaled(weights: WeightFormat, ratio: float) -> WeightFormat:
    """Every part at so many times its bytes; kernels are those of its format."""

    def sized(precision: Precision) -> Precision:
        return Precision(precision.name, precision.bytes_per_element * ratio, precision.arithmetic)

    return replace(
        weights,
        base=sized(weights.base),
        attention=sized(weights.attention),
        mlp=sized(weights.mlp),
        experts=sized(weights.experts),
        head=sized(weights.head),
    )
