"""From the header of a GGUF file to the architecture that it holds, every weight at its own bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpufleet.architecture.parameters import num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import BF16, FP16, GGUF_MIXES, Precision, WeightFormat
from gpufleet.errors import UsageError, nearest_names, shorten
from gpufleet.inputs.gguf import GgufHeader, Listed, Tensor, read_gguf_header

SUFFIX = ".gguf"
FAMILIES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "phi3": "phi3",
    "olmo2": "olmo2",
    "starcoder2": "starcoder2",
    "gptneox": "gpt_neox",
    "gpt-neox": "gpt_neox",
    "granite": "granite",
    "smollm3": "smollm3",
    "glm4": "glm4",
    "internlm2": "internlm2",
    "seed_oss": "seed_oss",
    "mistral": "mistral",
}
SIZES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "sliding_window": "attention.sliding_window",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}
WITHOUT_PARAMETERS = re.compile(r"rope_(freqs|factors_\w+)\.weight$")
BESIDE = re.compile(r"^token_embd|^position_embd|norm|ffn_gate_inp")
EXPERTS = re.compile(r"_exps\.|ffn_\w+\.\d+\.weight$")
LARGEST_FAULT_RATIO = 0.001


def read_gguf_model(path: Path) -> Architecture:
    """The architecture of a file; its weights take the bytes of its tensors, part by part."""
    header = read_gguf_header(path)
    config = config_of(header, path)
    arch = parse_architecture(config, path.stem)
    tensors = [t for t in header.tensors if not WITHOUT_PARAMETERS.search(t.name)]
    _refuse_other_count(arch, tensors, path)
    return replace(arch, weights=weights_of(tensors), notes=(*arch.notes, noted(tensors)))


def config_of(header: GgufHeader, path: Path) -> dict[str, object]:
    """The header's metadata in the words of a config.json."""
    family = header.metadata.get("general.architecture")
    if not isinstance(family, str) or family not in FAMILIES:
        nearest = nearest_names(str(family), FAMILIES) or sorted(FAMILIES)
        expected = f"one of {', '.join(nearest)}"
        hint = "Name the model instead, such as qwen3-8b-q4_k_m."
        raise UsageError(f"{path.name} holds a model that is not read yet", found=family, expected=expected, hint=hint)
    if _whole(header.metadata.get("split.count"), 1) > 1:
        raise UsageError(
            f"{path.name} is one of several files of a model",
            expected="the whole model in one file",
            hint="Join them with 'llama-gguf-split --merge'.",
        )
    shapes = {t.name: t.shape for t in header.tensors}
    said = {ours: header.metadata.get(f"{family}.{theirs}") for ours, theirs in SIZES.items()}
    sizes = {ours: _alike(value) for ours, value in said.items()}
    mixes = family == "llama" and bool(sizes["num_experts"])
    return {
        "model_type": "mixtral" if mixes else FAMILIES[family],
        "vocab_size": shapes.get("token_embd.weight", (0, 0))[-1],
        "tie_word_embeddings": "output.weight" not in shapes,
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        **{key: value for key, value in sizes.items() if value},
    }


def weights_of(tensors: Iterable[Tensor]) -> WeightFormat:
    """Bytes of an element in each part; kernels are those of the mix that is nearest in bits."""
    parts: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        parts.setdefault(part_of(tensor), []).append(tensor)
    matrices = [t for part in ("attention", "mlp", "experts") for t in parts.get(part, ())]
    whole = _format_of(matrices)
    found = {part: _format_of(held) for part, held in parts.items()}
    return WeightFormat(
        name=most_of(matrices),
        base=found.get("base", whole),
        attention=found.get("attention", whole),
        mlp=found.get("mlp", whole),
        experts=found.get("experts", whole),
        head=found.get("head", found.get("base", whole)),
        is_gguf=True,
    )


def part_of(tensor: Tensor) -> str:
    """Which part of a model a tensor belongs to, by its name; vectors and routers are with the embedding."""
    if len(tensor.shape) == 1 or BESIDE.search(tensor.name):
        return "base"
    if tensor.name == "output.weight":
        return "head"
    if EXPERTS.search(tensor.name):
        return "experts"
    return "attention" if ".attn" in tensor.name else "mlp"


def most_of(tensors: Iterable[Tensor]) -> str:
    """The type that most bytes are in."""
    held: dict[str, int] = {}
    for tensor in tensors:
        held[tensor.kind] = held.get(tensor.kind, 0) + tensor.num_bytes
    return max(held, key=lambda kind: held[kind])


def noted(tensors: Iterable[Tensor]) -> str:
    """What the file weighs by type."""
    held: dict[str, int] = {}
    for tensor in tensors:
        held[tensor.kind] = held.get(tensor.kind, 0) + tensor.num_bytes
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(held.items(), key=lambda item: -item[1]))
    return f"GGUF: {sum(held.values()):,} bytes of weights ({kinds})"


def _format_of(tensors: list[Tensor]) -> Precision:
    bytes_per_element = sum(t.num_bytes for t in tensors) / sum(t.elements for t in tensors)
    plain = {"f16": FP16, "bf16": BF16}.get(most_of(tensors))
    if plain is not None:
        return replace(plain, bytes_per_element=bytes_per_element)
    mix = min(GGUF_MIXES, key=lambda p: abs(p.bytes_per_element - bytes_per_element))
    return replace(mix, bytes_per_element=min(bytes_per_element, 4.0))


def _refuse_other_count(arch: Architecture, tensors: list[Tensor], path: Path) -> None:
    """A file whose tensors are not those of the model that its metadata describe."""
    held, counted = sum(t.elements for t in tensors), float(num_parameters(arch))
    if abs(held / counted - 1) > LARGEST_FAULT_RATIO:
        raise UsageError(
            f"{path.name}: its tensors are not those of the model that it describes",
            found=f"{held:,} weights",
            expected=f"{counted:,.0f} of {shorten(arch.family)}",
            hint="Name the model instead, such as qwen3-8b-q4_k_m.",
        )


def _alike(value: object) -> object:
    """A number, or that of all layers."""
    if not isinstance(value, Listed):
        return value
    return value.values[0] if len(set(value.values)) == 1 else None


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
