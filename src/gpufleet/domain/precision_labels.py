"""What a precision label means for a model: `fp8`, `int4`, `fp8+fp8_block`, or the checkpoint's own format."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.precision import BF16, FP16, PRECISIONS, Precision, WeightFormat
from gpufleet.errors import UnknownName

FAMILIES = {"fp4": ("mxfp4", "nvfp4"), "fp8": ("fp8", "fp8_block"), "16-bit": ("bf16", "fp16")}
LABELS = {
    "awq": "int4",
    "bfloat16": "bf16",
    "bnb-4bit": "nf4",
    "fp4": "nvfp4",
    "gguf": "q4_k_m",
    "gptq": "int4",
    "int4_wo": "int4",
    "half": "fp16",
    "w4a16": "int4",
    "w8a16": "int8_wo",
    "w8a8": "int8",
}
DTYPES = {
    **dict.fromkeys(("bfloat16", "bf16"), "bfloat16"),
    **dict.fromkeys(("float16", "fp16", "half"), "float16"),
    "auto": "auto",
}
KV_FORMATS = ("bf16", "fp16", "fp8", "int8")
OWN, AWQ = "own", "awq"
LOWER_FORMATS = ("fp8", "nvfp4", "int4")


def weight_format(arch: Architecture, label: str | None = None) -> WeightFormat:
    """The format that `label` names for this model.

    Nothing, or a label of the checkpoint's own family (fp8 for a block-fp8 checkpoint, fp4 for an MXFP4 one) means the
    checkpoint itself. `linear+experts` names two precisions. Engines run a bf16 checkpoint in fp16 where they must.
    """
    if label is None or label.lower() == OWN:
        return arch.weights
    linear_label, _, expert_label = label.lower().partition("+")
    linear = _precision(linear_label)
    experts = _precision(expert_label) if expert_label else linear
    if _is_own(arch, linear_label, experts):
        return arch.weights
    return replace(_converted(arch, linear, experts), is_awq=linear_label == AWQ)


def own_and_lower(arch: Architecture) -> list[WeightFormat]:
    """The checkpoint's own format, then lower ones, each once."""
    lower = (weight_format(arch, label) for label in LOWER_FORMATS)
    return list({w.name: w for w in (arch.weights, *lower)}.values())


def _precision(label: str) -> Precision:
    name = LABELS.get(label, label)
    if name not in PRECISIONS:
        raise UnknownName("precision", label, [*PRECISIONS, *LABELS, OWN], hint=f"Known: {', '.join(PRECISIONS)}.")
    return PRECISIONS[name]


def _is_own(arch: Architecture, linear_label: str, experts: Precision) -> bool:
    """Whether the label names the family that the checkpoint is already stored in."""
    own = arch.weights.experts.name if arch.is_moe else arch.weights.mlp.name
    if own == LABELS.get(linear_label, linear_label) == experts.name:
        return True
    quantised = ("fp4", "fp8")
    return any(own in FAMILIES[f] and experts.name in FAMILIES[f] and own != "fp8" for f in quantised)


def _converted(arch: Architecture, linear: Precision, experts: Precision) -> WeightFormat:
    """A conversion by the common tools: vectors, embedding and head keep 16 bits.

    NVFP4 conversions of models trained in block fp8 leave attention in bf16 (their published exclusion lists do).
    """
    if linear.name in FAMILIES["16-bit"] or linear.name == "fp32":
        return WeightFormat(linear.name, linear, linear, linear, experts, linear)
    base = FP16 if arch.weights.base is FP16 else BF16
    name = linear.name if experts is linear else f"{linear.name}+{experts.name}"
    converted = WeightFormat(name, base, linear, linear, experts, base)
    if linear.name == "nvfp4" and arch.weights.mlp.name == "fp8_block":
        return replace(converted, attention=base)
    return converted


def kv_format(label: str) -> Precision:
    """The KV-cache format of that name.

    >>> kv_format("FP8").bytes_per_element
    1.0
    """
    if label.lower() not in KV_FORMATS:
        raise UnknownName("KV precision", label, KV_FORMATS, hint=f"Known: {', '.join(KV_FORMATS)}.")
    return PRECISIONS[label.lower()]


def half_of(dtype: str | None) -> Precision | None:
    """The 16 bits that an engine told this dtype computes in; None where it takes those of the checkpoint.

    >>> half_of("float16").name, half_of("auto")
    ('fp16', None)
    """
    return None if dtype is None else {"bfloat16": BF16, "float16": FP16}.get(dtype)


def dtype_named(label: str | None) -> str | None:
    """The dtype of that name, as engines say it.

    >>> dtype_named("BF16"), dtype_named("half"), dtype_named(None)
    ('bfloat16', 'float16', None)
    """
    if label is None or label.lower() in DTYPES:
        return label and DTYPES[label.lower()]
    hint = f"Known: {', '.join(dict.fromkeys(DTYPES.values()))}; 32 bits are asked for by --precision fp32."
    raise UnknownName("dtype", label, DTYPES, hint=hint)


def kv_precision(weights: WeightFormat, engine: EngineProfile) -> Precision:
    """The KV-cache format that an engine chooses for a checkpoint: its own 16 bits, or the scales that it brings.

    Checkpoints that ModelOpt made (NVFP4 everywhere, fp8 under TensorRT-LLM) carry fp8 KV scales, and most say so.
    """
    if weights.kv is not None:
        return weights.kv
    if weights.mlp.name in engine.kv_of_weights:
        return PRECISIONS[engine.kv_of_weights[weights.mlp.name]]
    return weights.base if weights.base.name in FAMILIES["16-bit"] else BF16
