"""What a `quantization_config` says, of each tool that writes one: a format for most modules, others by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpufleet.architecture.module_patterns import Rule, is_regular, rule
from gpufleet.domain.precision import (
    FP8,
    FP8_BLOCK,
    FP16,
    INT4,
    INT8,
    INT8_WEIGHT_ONLY,
    MXFP4,
    NF4,
    NVFP4,
    Precision,
)
from gpufleet.domain.precision_labels import AWQ
from gpufleet.errors import UsageError
from gpufleet.records import dataclass

QUARK, AUTO_ROUND = "quark", ("auto-round", "auto_round", "intel/auto-round")
READ = "fp8, awq, gptq, auto-round, quark, compressed-tensors, bitsandbytes, mxfp4 or modelopt FP8 / NVFP4 / INT4"
EXCLUDED = (
    *("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "exclude", "llm_int8_skip_modules"),
)
MIXED = "MIXED_PRECISION"
_GROUP_OF_INT4 = 128
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


@dataclass(frozen=True)
class StoredModules:
    """Formats of a checkpoint's matrices: the first of `rules` that names one, else `rest`.

    `head` is the format of the output head where no rule names it, None for plain; `name` what the whole is called,
    None: what most of its weights are in.
    """

    rules: tuple[Rule, ...]
    rest: Precision
    name: str | None
    head: Precision | None = None
    is_awq: bool = False


def stored_modules(quantization: Mapping[str, object], base: Precision, name: str) -> StoredModules:
    """What a quantisation says of a checkpoint's matrices; what it leaves out is in `base`."""
    method = _method(quantization)
    if quantization.get("quant_algo") == MIXED:
        return _listed(quantization, base, name)
    kept = tuple(rule(pattern, base, name) for pattern in _excluded(quantization, name))
    if method == QUARK:
        return _quark(quantization, kept, base, name)
    if isinstance(quantization.get("config_groups"), Mapping) and quantization.get("quant_algo") is None:
        return _grouped(quantization, kept, base, name)
    rest = _precision(quantization, name)
    if method == "gptq":
        has_head = quantization.get("lm_head") is True
        rules = (*kept, *_dynamic(quantization, base, name))
        return StoredModules(rules, rest, rest.name, rest if has_head else None)
    if method in AUTO_ROUND:
        is_awq = "awq" in str(quantization.get("packing_format"))
        return StoredModules((*kept, *_extra(quantization, base, name)), rest, rest.name, is_awq=is_awq)
    return StoredModules(kept, rest, rest.name, is_awq=method == AWQ)


def _method(quantization: Mapping[str, object]) -> str:
    return str(quantization.get("quant_method") or "").lower()


def _excluded(quantization: Mapping[str, object], name: str) -> Iterator[str]:
    for key in EXCLUDED:
        listed = quantization.get(key)
        if listed is None or isinstance(listed, list):
            yield from dict.fromkeys(str(pattern) for pattern in listed or () if str(pattern).strip(". "))
        else:
            raise UsageError(f"{name}: {key} is not a list", found=listed, expected="names or patterns of modules")


def _listed(quantization: Mapping[str, object], base: Precision, name: str) -> StoredModules:
    """A format for each module; what the list leaves out is in the format that the rest of the config names, or plain.

    ModelOpt converts checkpoints that are fp8 already, and then lists what it converted (DeepSeek-V4-NVFP4).
    """
    layers = quantization.get("quantized_layers")
    if not isinstance(layers, Mapping):
        raise UsageError(f"{name}: mixed precision without quantized_layers", expected="a format for each module")
    method = {key: value for key, value in quantization.items() if key in ("quant_method", "weight_block_size")}
    rest = _precision(method, name) if method.get("quant_method") == "fp8" else base
    of = {re.sub(r"experts\.\d+", "experts.0", str(module)): format_ for module, format_ in layers.items()}
    rules = (rule(module, _listed_precision(format_, name), name) for module, format_ in of.items())
    return StoredModules(tuple(rules), rest, None)


def _listed_precision(format_: object, name: str) -> Precision:
    algorithm = format_.get("quant_algo") if isinstance(format_, Mapping) else None
    precision = _MODELOPT.get(str(algorithm).upper())
    if precision is None:
        raise not_planned(name, algorithm, f"one of {', '.join(_MODELOPT)}")
    return precision


def _grouped(quantization: Mapping[str, object], kept: tuple[Rule, ...], base: Precision, name: str) -> StoredModules:
    """compressed-tensors: each group names its modules, or all linear layers; a name goes before the class."""
    rules, classes = list(kept), []
    for group in _groups(quantization):
        if not isinstance(group.get("weights"), Mapping):
            continue
        precision = _compressed(group, name)
        for target in _targets(group, name):
            if _is_class(target):
                classes.append(precision)
            else:
                rules.append(rule(target, precision, name))
    if not classes and len(rules) == len(kept):
        raise not_planned(name, _method(quantization) or sorted(map(str, quantization))[:6])
    return StoredModules(tuple(rules), classes[0] if classes else base, classes[0].name if classes else None)


def _groups(quantization: Mapping[str, object]) -> list[Mapping[str, object]]:
    groups = quantization.get("config_groups")
    return [g for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []


def first_group(quantization: Mapping[str, object]) -> Mapping[str, object]:
    """The first group of layers whose weights compressed-tensors converted."""
    return next((g for g in _groups(quantization) if isinstance(g.get("weights"), Mapping)), {})


def _targets(group: Mapping[str, object], name: str) -> list[str]:
    targets = group.get("targets", ["Linear"])
    if not isinstance(targets, list) or not targets:
        raise UsageError(f"{name}: the targets of a config group are not a list", found=targets)
    for target in map(str, targets):
        if _is_class(target) and "Linear" not in target:
            raise UsageError(
                f"{name}: a config group of {target}, which is not planned yet", expected="Linear, or names of modules"
            )
    return [str(target) for target in targets]


def _is_class(target: str) -> bool:
    """Whether a target is a class of modules, not the name of one."""
    return re.fullmatch(r"[A-Z]\w*", target) is not None


def _compressed(group: Mapping[str, object], name: str) -> Precision:
    weights = group["weights"]
    assert isinstance(weights, Mapping)
    bits, found = weights.get("num_bits"), None
    if weights.get("type") == "float":
        if bits == 8:
            found = FP8_BLOCK if weights.get("strategy") == "block" else FP8
        elif bits == 4:
            found = MXFP4 if weights.get("group_size") == 32 else NVFP4
    else:
        found = INT8 if bits == 8 and group.get("input_activations") else _integers(bits, weights)
    if found is None:
        raise not_planned(name, f"{weights.get('type')} of {bits} bits")
    return found


def _dynamic(quantization: Mapping[str, object], base: Precision, name: str) -> Iterator[Rule]:
    """GPTQModel's exceptions, regular expressions in order: '-:' leaves modules plain, '+:' changes their settings."""
    dynamic = quantization.get("dynamic") or {}
    if not isinstance(dynamic, Mapping):
        raise UsageError(f"{name}: dynamic is not an object", found=dynamic, expected='{"-:pattern": {}}')
    for pattern, settings in dynamic.items():
        text = str(pattern)
        skips = text.startswith("-:")
        changed = {**quantization, **settings} if isinstance(settings, Mapping) else quantization
        yield rule(
            text.removeprefix("-:").removeprefix("+:"),
            base if skips else _precision(changed, name),
            name,
            is_regex=True,
        )


def _extra(quantization: Mapping[str, object], base: Precision, name: str) -> Iterator[Rule]:
    """Auto-round's exceptions by a module's name or a regular expression: 16 bits leave it plain."""
    extra = quantization.get("extra_config") or {}
    if not isinstance(extra, Mapping):
        raise UsageError(f"{name}: extra_config is not an object", found=extra, expected="settings by module")
    for module, settings in extra.items():
        own = settings if isinstance(settings, Mapping) else {}
        precision = base if own.get("bits", 0) in (16, 32) else _precision({**quantization, **own}, name)
        text = str(module)
        searched = f".*(?:{text})" if is_regular(text) and not text.startswith((".*", "^")) else text
        yield rule(searched, precision, name)


def _quark(quantization: Mapping[str, object], kept: tuple[Rule, ...], base: Precision, name: str) -> StoredModules:
    """AMD Quark: one setting for all layers, others by pattern."""
    by_pattern = quantization.get("layer_quant_config") or {}
    if quantization.get("layer_type_quant_config") or not isinstance(by_pattern, Mapping):
        raise not_planned(name, "quark with settings by type of layer", "quark with global_quant_config")
    caches = [str(pattern) for pattern in _cache_patterns(quantization)]
    own = {str(p): settings for p, settings in by_pattern.items() if str(p) not in caches}
    rules = (rule(pattern, _quark_precision(settings, base, name), name) for pattern, settings in own.items())
    rest = _quark_precision(quantization.get("global_quant_config"), base, name)
    return StoredModules((*kept, *rules), rest, rest.name)


def _quark_precision(settings: object, base: Precision, name: str) -> Precision:
    weight = settings.get("weight") if isinstance(settings, Mapping) else None
    if not isinstance(settings, Mapping) or weight is None:
        return base
    dtype = str(weight.get("dtype")) if isinstance(weight, Mapping) else "several scales"
    found: Precision | None = {
        "fp8_e4m3": FP8,
        "int8": INT8 if settings.get("input_tensors") else INT8_WEIGHT_ONLY,
        "int4": INT4,
        "uint4": INT4,
        "fp4": MXFP4,
    }.get(dtype)
    if found is INT4 and isinstance(weight, Mapping):
        found = _integers(4, weight)
    if found is None:
        raise not_planned(name, f"quark weights in {dtype}", "quark weights in fp8_e4m3, int8, int4 or fp4")
    return found


def _cache_patterns(quantization: Mapping[str, object]) -> list[object]:
    listed = quantization.get("kv_cache_group")
    return listed if isinstance(listed, list) else []


def quark_kv(quantization: Mapping[str, object]) -> Precision | None:
    """The cache format that Quark calibrated: that of the outputs of keys and values."""
    by_pattern = quantization.get("kv_cache_quant_config") or quantization.get("layer_quant_config")
    settings = by_pattern.values() if isinstance(by_pattern, Mapping) and _cache_patterns(quantization) else ()
    outputs = [s.get("output_tensors") for s in settings if isinstance(s, Mapping)]
    return FP8 if any(isinstance(o, Mapping) and o.get("dtype") == "fp8_e4m3" for o in outputs) else None


def _precision(quantization: Mapping[str, object], name: str) -> Precision:
    """Precision of quantised linear layers by the settings of one tool."""
    method, bits, found = _method(quantization), quantization.get("bits", quantization.get("w_bit")), None
    if quantization.get("quant_algo") is not None:
        found = _MODELOPT.get(str(quantization["quant_algo"]).upper())
    elif method in ("fp8", "fbgemm_fp8"):
        found = FP8_BLOCK if quantization.get("weight_block_size") else FP8
    elif method in (AWQ, "gptq"):
        found = _integers(bits, quantization)
    elif method in AUTO_ROUND:
        found = _rounded(bits, quantization)
    elif method == "bitsandbytes":
        found = INT8_WEIGHT_ONLY if quantization.get("load_in_8bit") else NF4
    elif method == "mxfp4":
        found = MXFP4
    if found is None:
        named = quantization.get("quant_algo") or method or sorted(map(str, quantization))[:6]
        raise not_planned(name, f"{named} of {bits} bits" if method and bits is not None else named)
    return found


def _rounded(bits: object, settings: Mapping[str, object]) -> Precision | None:
    """Auto-round: integers, or what its data_type begins with."""
    kind = str(settings.get("data_type") or "int")
    if kind.startswith(("mx_fp", "nv_fp", "fp")):
        found = {("mx", 4): MXFP4, ("nv", 4): NVFP4, ("fp", 8): FP8}
        return found.get((kind[:2], bits if isinstance(bits, int) else 0))
    if bits == 8 and settings.get("act_bits") == 8:
        return INT8
    return _integers(bits, settings) if kind.startswith("int") else None


def _integers(bits: object, weights: Mapping[str, object]) -> Precision | None:
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


def not_planned(name: str, found: object, expected: str = READ) -> UsageError:
    """A quantisation that nobody here reads."""
    hint = "Name the model without its format, and what runs by --precision."
    return UsageError(f"{name}: a quantisation that is not planned yet", found=found, expected=expected, hint=hint)
