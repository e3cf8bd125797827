"""The header of a GGUF file: metadata and tensors, without their weights.

Format: ggml-org/ggml docs/gguf.md, versions 2 and 3, little-endian; sizes of types: ggml-org/llama.cpp ggml-common.h.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path

from gpufleet.errors import UsageError
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
