"""Patterns that quantisers list modules by: names, globs and regular expressions, for all layers or some."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gpufleet.architecture.module_names import Matrix
from gpufleet.domain.precision import Precision
from gpufleet.errors import UsageError, shorten
from gpufleet.records import dataclass

MOST_CHARACTERS, MOST_REPEATS = 300, 5
WRAPPERS = ("model.", "model.language_model.", "language_model.model.", "backbone.")
_SPECIAL = re.compile(r"[\\^$()\[\]{}|+]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEATS = re.compile(r"(?<!\\)[*+{]")
_OF_ALL_LAYERS = re.compile(r"experts(?:\.|\\\.)0")
_NUMBERS = re.compile(r"(?<![A-Za-z_\d])\d|\\d|\[")
_LAYER = re.compile(r"layers(?:\.|\\\.|\[\.\])(\d+)(?![\d*+?{|])")


Fits = Callable[[str], bool]


@dataclass(frozen=True)
class Rule:
    """Modules by a pattern, and the format that they are stored in.

    `layer` is the only one that it names; `is_numbered` where it may tell layers apart.
    """

    patterns: tuple[Fits, ...]
    precision: Precision
    wrappers: tuple[str, ...]
    layer: int | None
    is_numbered: bool

    def matches(self, module: str) -> bool:
        """Whether it names a module, given without wrapper, or a part of the tree above it."""
        return any(fits(wrapper + module) for wrapper in self.wrappers for fits in self.patterns)


def is_regular(text: str) -> bool:
    """Whether a pattern without a mark is a regular expression: globs and names have none of its signs."""
    return _SPECIAL.search(text) is not None


def rule(text: str, precision: Precision, name: str, *, is_regex: bool = False) -> Rule:
    """The rule of one pattern: 're:...' and what `is_regular` are regular expressions, else a name or a glob.

    >>> from gpufleet.domain.precision import BF16
    >>> rule("re:.*self_attn.*", BF16, "m").matches("layers.3.self_attn.q_proj")
    True
    >>> rule("model.layers.7.mlp", BF16, "m").layer
    7
    """
    is_regex = is_regex or text.startswith("re:") or is_regular(text)
    plain = text.removeprefix("re:")
    if len(plain) > MOST_CHARACTERS:
        raise _unread(text, name, f"at most {MOST_CHARACTERS} characters")
    plain = re.sub(r"experts(\.|\\\.)\d+(?=\.|\\\.|$)", r"experts\g<1>0", plain)
    numbers = _LAYER.findall(plain)
    layer = int(numbers[0]) if len(numbers) == 1 and "|" not in plain else None
    is_numbered = layer is None and _NUMBERS.search(_OF_ALL_LAYERS.sub("", plain)) is not None
    if not is_regex:
        return Rule(_names(plain), precision, ("",), layer, is_numbered)
    wrappers = WRAPPERS[:1] if plain.startswith(".*") else WRAPPERS
    return Rule((_regex(plain, name),), precision, wrappers, layer, is_numbered)


def _regex(text: str, name: str) -> Fits:
    """A regular expression; one of stars alone as a glob, which takes no longer the more it has."""
    starred = text.replace(r"\.", ".").replace(".*", "*").removeprefix("^")
    if not _SPECIAL.search(starred.removesuffix("$")) and "?" not in starred:
        return _glob(starred[:-1] if starred.endswith("$") else f"{starred}*")
    if _REPEATED_GROUP.search(text) or len(_REPEATS.findall(text)) > MOST_REPEATS:
        raise _unread(text, name, f"at most {MOST_REPEATS} repetitions, none of a group")
    try:
        found = re.compile(text)
    except (re.error, OverflowError, RecursionError):
        raise _unread(text, name, "a regular expression") from None
    return lambda module: found.match(module) is not None


def _names(text: str) -> tuple[Fits, ...]:
    """A name or glob with what wraps it taken off: of a module, of the tree above it, or of the end of its path."""
    plain = re.sub(r"^(?:model\.|language_model\.|transformer\.|backbone\.)+", "", text.strip().rstrip("."))
    if "*" not in plain:
        return (partial(_is_part, f".{plain}."),)
    return tuple(_glob(f"{before}{plain}{after}") for before in ("", "*.") for after in ("", ".*"))


def _is_part(name: str, module: str) -> bool:
    """Whether a name between dots is part of the path of a module.

    >>> _is_part(".mlp.", "layers.0.mlp"), _is_part(".mlp.", "layers.0.mlp_gate")
    (True, False)
    """
    return name in f".{module}."


def _glob(text: str) -> Fits:
    first, *rest = text.split("*")
    return partial(_glob_fits, first, tuple(rest)) if rest else text.__eq__


def _glob_fits(first: str, rest: tuple[str, ...], module: str) -> bool:
    """Whether a text is what a glob says, whose stars stand for any text: each part is sought after the last.

    >>> _glob_fits("layers.", (".mlp.", "_proj"), "layers.0.mlp.up_proj"), _glob_fits("a", ("a",), "a")
    (True, False)
    """
    if not module.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        at = module.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(module) - len(rest[-1]) >= at and module.endswith(rest[-1])


def _unread(text: str, name: str, expected: str) -> UsageError:
    return UsageError(f"{name}: a pattern of modules that cannot be read", found=shorten(text), expected=expected)


def shares(matrix: Matrix, rules: Sequence[Rule], rest: Precision, num_layers: int) -> dict[Precision, float]:
    """Layers of a matrix by the format that they are stored in: the first rule that names one holds, else `rest`."""
    of_all = [(n, r) for n, r in enumerate(rules) if r.layer is None]
    usual = _first([r for _, r in of_all if not r.is_numbered], matrix, "#", rest)
    of_layer: dict[int, list[tuple[int, Rule]]] = {}
    for n, r in enumerate(rules):
        if r.layer is not None:
            of_layer.setdefault(r.layer, []).append((n, r))
    looked_at = range(num_layers) if any(r.is_numbered for _, r in of_all) else of_layer
    unlike: Counter[Precision] = Counter()
    for layer in looked_at:
        if layer < num_layers and layer in matrix.layers:
            own = sorted([*of_all, *of_layer.get(layer, ())], key=lambda row: row[0])
            unlike[_first([r for _, r in own], matrix, str(layer), rest)] += 1
    del unlike[usual]
    counted = sum(unlike.values())
    fits = min(1.0, matrix.num_layers / counted) if counted else 1.0
    held = {precision: number * fits for precision, number in unlike.items()}
    left = matrix.num_layers - counted * fits
    return {usual: left, **held} if left > 0 else held


def _first(rules: Iterable[Rule], matrix: Matrix, layer: str, rest: Precision) -> Precision:
    modules = [f"layers.{layer}.{name}" for name in matrix.names]
    return next((r.precision for r in rules if any(r.matches(module) for module in modules)), rest)
