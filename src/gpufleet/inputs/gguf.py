"""GGUF files: the header without the weights, and the architecture that it holds, every weight at its own bytes.

Format: ggml-org/ggml docs/gguf.md, versions 2 and 3, little-endian; sizes of types: ggml-org/llama.cpp ggml-common.h.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gpufleet.architecture.parameters import num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import BF16, FP16, GGUF_MIXES, Precision, WeightFormat
from gpufleet.errors import UsageError, nearest_names, shorten
from gpufleet.files import read_start
from gpufleet.records import dataclass
from gpufleet.units import MB

MAGIC, VERSIONS = b"GGUF", (2, 3)
MOST_HEADER_BYTES, MOST_ENTRIES, MOST_ITEMS, MOST_KEPT = 64 * MB, 100_000, 2_000_000, 4_096
MOST_DIMENSIONS, MOST_ELEMENTS, DEEPEST = 4, 2**48, 2
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
BLOCKS: Mapping[int, tuple[str, int, int]] = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    30: ("bf16", 1, 2),
    28: ("f64", 1, 8),
    24: ("i8", 1, 1),
    25: ("i16", 1, 2),
    26: ("i32", 1, 4),
    27: ("i64", 1, 8),
    2: ("q4_0", 32, 18),
    3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34),
    9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84),
    11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210),
    15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136),
    29: ("iq1_m", 256, 56),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
}
"""Name, elements of a block and bytes of a block, by the number of a type."""
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


@dataclass(frozen=True)
class Tensor:
    """One tensor: its name, type, elements and bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]
    num_bytes: int

    @property
    def elements(self) -> int:
        """Its weights."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Listed:
    """An array of metadata: how many items it has, and they where they are few numbers."""

    count: int
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class GgufHeader:
    """What stands before the weights."""

    metadata: Mapping[str, object]
    tensors: tuple[Tensor, ...]


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of a file; whatever is wrong with it is one sentence."""
    return _Reader(read_start(path, "a GGUF file", MOST_HEADER_BYTES), str(path)).header()


class _Reader:
    """Bytes that are read from the start on."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content, self.name, self.at = content, name, 0

    def header(self) -> GgufHeader:
        if self.content[:4] != MAGIC:
            raise self._broken("it does not begin with GGUF")
        self.at = len(MAGIC)
        version = self.number("I")
        if version not in VERSIONS:
            raise self._broken(f"its version is {version}", "version 2 or 3, little-endian")
        num_tensors, num_keys = self._entries("tensors"), self._entries("keys")
        metadata = dict(self._keyed() for _ in range(num_keys))
        tensors = tuple(self._tensor() for _ in range(num_tensors))
        if len({t.name for t in tensors}) != num_tensors:
            raise self._broken("a tensor stands there twice")
        return GgufHeader(metadata, tensors)

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.content):
            raise self._broken("it ends within its header")
        found, self.at = self.content[self.at : end], end
        return found

    def number(self, form: str) -> int:
        found: int = struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]
        return found

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", errors="replace")

    def _entries(self, what: str) -> int:
        count = self.number("Q")
        if count > MOST_ENTRIES:
            raise self._broken(f"it states {count:,} {what}", f"at most {MOST_ENTRIES:,}")
        return count

    def _keyed(self) -> tuple[str, object]:
        key = self.text()
        return key, self._value(self.number("I"), 0)

    def _value(self, kind: int, depth: int) -> object:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind == ARRAY and depth < DEEPEST:
            return self._array(depth + 1)
        raise self._broken(f"a value is of type {kind}" if kind != ARRAY else "its arrays are nested too deeply")

    def _array(self, depth: int) -> Listed:
        kind, count = self.number("I"), self.number("Q")
        if count > MOST_ITEMS:
            raise self._broken(f"an array states {count:,} items", f"at most {MOST_ITEMS:,}")
        if kind in SCALARS:
            packed = self.take(count * struct.calcsize(SCALARS[kind]))
            return Listed(count, struct.unpack(f"<{count}{SCALARS[kind]}", packed) if count <= MOST_KEPT else ())
        for _ in range(count):
            self._value(kind, depth)
        return Listed(count)

    def _tensor(self) -> Tensor:
        name, num_dimensions = self.text(), self.number("I")
        if not 1 <= num_dimensions <= MOST_DIMENSIONS:
            raise self._broken(f"a tensor has {num_dimensions} dimensions", f"1 to {MOST_DIMENSIONS}")
        shape = tuple(self.number("Q") for _ in range(num_dimensions))
        kind, _ = self.number("I"), self.number("Q")
        if not 1 <= math.prod(shape) <= MOST_ELEMENTS:
            raise self._broken("a tensor has an absurd size", f"1 to {MOST_ELEMENTS:,} elements")
        if kind not in BLOCKS:
            raise self._broken(f"a tensor is of type {kind}", ", ".join(sorted(n for n, _, _ in BLOCKS.values())))
        label, per_block, block_bytes = BLOCKS[kind]
        if shape[0] % per_block:
            raise self._broken(f"a row of {shape[0]:,} elements is no whole number of blocks of {label}")
        return Tensor(name, label, shape, math.prod(shape) // per_block * block_bytes)

    def _broken(self, why: str, expected: str | None = None) -> UsageError:
        problem = f"cannot read a GGUF file: {why}"
        return UsageError(problem, found=self.name, expected=expected, hint="Fetch the file again, or name the model.")


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
    return max((held := bytes_by_type(tensors)), key=lambda kind: held[kind])


def bytes_by_type(tensors: Iterable[Tensor]) -> Counter[str]:
    """The bytes of each type."""
    held: Counter[str] = Counter()
    for tensor in tensors:
        held[tensor.kind] += tensor.num_bytes
    return held


def noted(tensors: Iterable[Tensor]) -> str:
    """What the file weighs by type."""
    held = bytes_by_type(tensors)
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
