"""Plain values as text of HCL (Terraform), laid out as `terraform fmt` leaves it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Union

from gpufleet.languages import comment, hcl_string
from gpufleet.records import dataclass

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
WORDS_OF_HCL = frozenset({"for", "if", "in", "null", "true", "false", "else", "endif", "endfor"})
INDENT, LINE_CHARACTERS = "  ", 100


@dataclass(frozen=True)
class Code:
    """An expression as it stands: a reference, a condition."""

    text: str


@dataclass(frozen=True)
class Call:
    """A function of Terraform and what it is given."""

    function: str
    given: Value


@dataclass(frozen=True)
class Block:
    """A block by its kind and labels: attributes first, blocks of its own behind them."""

    kind: str
    labels: Sequence[str]
    attributes: Mapping[str, Value]
    blocks: Sequence[Block] = ()


Value = Union[None, bool, int, str, Code, Call, Mapping[str, "Value"], Sequence["Value"]]  # noqa: UP007

Values = Mapping[str, Value]


def resource_name(name: str) -> str:
    """What a resource is called in Terraform, of a name of letters, digits and dashes.

    >>> resource_name("llama-3-1-8b"), resource_name("01-ai")
    ('llama_3_1_8b', '_01_ai')
    """
    written = name.replace("-", "_")
    return written if written[:1].isalpha() else f"_{written}"


def inner(kind: str, attributes: Mapping[str, Value], *blocks: Block) -> Block:
    """A block inside another: it has no labels."""
    return Block(kind, (), attributes, blocks)


def text_of(*parts: str | Code) -> Code:
    """A string in which expressions stand among texts; a `$` in front of one would make it text.

    >>> text_of(Code("var.name"), "-a").text
    '"${var.name}-a"'
    """
    written = (f"${{{part.text}}}" if isinstance(part, Code) else literal(part) for part in parts)
    return Code(f'"{"".join(written)}"')


def literal(text: str) -> str:
    """A part of a string, its last character such that nothing behind it changes its meaning."""
    inside = hcl_string(text)[1:-1]
    return f"{inside[:-1]}\\u{ord(inside[-1]):04x}" if inside.endswith(("$", "%")) else inside


def hcl_document(blocks: Iterable[Block], *said: str) -> str:
    """Blocks as a file, below lines of comment.

    >>> print(hcl_document([Block("variable", ["a"], {"type": Code("string"), "default": "b"})]), end="")
    variable "a" {
      type    = string
      default = "b"
    }
    """
    head = ["\n".join(map(comment, said))] if said else []
    parts = [*head, *("\n".join(block_lines(block)) for block in blocks)]
    return "\n\n".join(parts) + "\n"


def block_lines(block: Block) -> Iterator[str]:
    """A block, what is inside it further in; blank lines around all that takes several."""
    labels = "".join(f" {hcl_string(label)}" for label in block.labels)
    parts = [*runs_of(block.attributes), *(list(block_lines(one)) for one in block.blocks)]
    if not parts:
        yield f"{block.kind}{labels} {{}}"
        return
    yield f"{block.kind}{labels} {{"
    for number, lines in enumerate(parts):
        yield from [""] if number else []
        yield from indented(lines)
    yield "}"


def runs_of(attributes: Mapping[str, Value]) -> Iterator[list[str]]:
    """Attributes of one line in a row below each other, each of several lines for itself."""
    written = [(key_of(key), value_lines(value)) for key, value in attributes.items()]
    for is_short, run in groupby(written, lambda one: len(one[1]) == 1):
        if is_short:
            yield aligned([(key, lines[0]) for key, lines in run])
        else:
            yield from ([f"{key} = {first}", *rest] for key, (first, *rest) in run)


def aligned(run: Sequence[tuple[str, str]]) -> list[str]:
    """`key = value` in each line, keys padded to one width."""
    width = max(len(key) for key, _ in run)
    return [f"{key:<{width}} = {value}" for key, value in run]


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Lines one step further in; an empty one stays empty."""
    return (f"{INDENT}{line}" if line else line for line in lines)


def key_of(key: str) -> str:
    """A key as it is, in quotes where HCL would take it for something else.

    >>> key_of("cpu"), key_of("a:b")
    ('cpu', '"a:b"')
    """
    return key if NAME.fullmatch(key) and key not in WORDS_OF_HCL else hcl_string(key)


def value_lines(value: Value) -> list[str]:
    """A value, in one line where it is short.

    >>> value_lines([1, "a", None, True])
    ['[1, "a", null, true]']
    """
    if isinstance(value, Mapping):
        return enclosed("{", object_lines(value), "}")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list_lines(value)
    if isinstance(value, Call):
        first, *rest = value_lines(value.given)
        lines = [f"{value.function}({first}", *rest]
        return [*lines[:-1], f"{lines[-1]})"]
    return [scalar(value)]


def scalar(value: Value) -> str:
    """What takes one line whatever it is."""
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return hcl_string(value)
    return "null" if value is None else str(value).lower()


def object_lines(value: Mapping[str, Value]) -> list[str]:
    """Keys and values of an object."""
    return [line for run in runs_of(value) for line in run]


def list_lines(values: Sequence[Value]) -> list[str]:
    """A list in one line where all of it is short, else a line for each."""
    written = [value_lines(value) for value in values]
    one = f"[{', '.join(lines[0] for lines in written)}]"
    if all(len(lines) == 1 for lines in written) and len(one) <= LINE_CHARACTERS:
        return [one]
    return enclosed("[", [line for lines in written for line in [*lines[:-1], f"{lines[-1]},"]], "]")


def enclosed(start: str, lines: Sequence[str], end: str) -> list[str]:
    """Lines between brackets, one step further in."""
    return [start, *indented(lines), end] if lines else [start + end]
