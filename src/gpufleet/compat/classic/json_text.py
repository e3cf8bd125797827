"""JSON that remembers where everything stands, so that a fault is named by file, line and column.

Strict JSON, and `// comments` to the end of a line, which are counted so that they can be mentioned.
Keys are compared without regard to case.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from gpufleet.compat.classic.faults import OWN_FOLDER
from gpufleet.errors import UsageError

SPACE = re.compile(r"[ \t\n\r]*")
COMMENT = re.compile(r"//[^\n]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
WORD = re.compile(r"[A-Za-z_+-][A-Za-z0-9_.]*")
WORDS = {"true": True, "false": False, "null": None}
DEEPEST, LONGEST_NUMBER, SHOWN = 32, 40, 12


class Place(NamedTuple):
    """A position in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Value:
    """A JSON value with its place; `content` of an object maps lower-case keys to values, `key` keeps the spelling."""

    content: Any
    place: Place
    key: str = ""

    @property
    def is_object(self) -> bool:
        """Whether it is `{...}`."""
        return isinstance(self.content, dict)


@dataclass
class JsonText:
    """One file being read."""

    text: str
    file: str
    comment_lines: list[int] = field(default_factory=list)
    _position: int = 0

    def __post_init__(self) -> None:
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def read(self) -> Value:
        """The whole file as one value."""
        self._skip()
        value = self._value("", 0)
        if self._position < len(self.text):
            raise self._error("something follows the end of the JSON text", "one JSON object in a file", OWN_FOLDER)
        return value

    def place(self, position: int | None = None) -> Place:
        """Line and column of a position, of the current one where none is given."""
        at = self._position if position is None else position
        line = bisect_right(self._line_starts, at)
        return Place(self.file, line, at - self._line_starts[line - 1] + 1)

    def _value(self, key: str, depth: int) -> Value:
        if depth > DEEPEST:
            raise self._error(f"objects and lists nest deeper than {DEEPEST}")
        place = self.place()
        readers = {"{": self._object, "[": self._list, '"': self._string}
        start = self.text[self._position : self._position + 1]
        content = readers[start](depth) if start in readers else self._atom()
        self._skip()
        return Value(content, place, key)

    def _object(self, depth: int) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        self._take("{")
        while not self._closes("}", entries):
            entry = self._entry(depth)
            folded = entry.key.casefold()
            if folded in entries:
                raise UsageError(
                    f"{entry.place}: {entry.key!r} stands twice in one object",
                    found=f"first in line {entries[folded].place.line}",
                    expected="one value per name; capitals make no difference",
                )
            entries[folded] = entry
        return entries

    def _entry(self, depth: int) -> Value:
        if self.text[self._position : self._position + 1] != '"':
            raise self._error("a name in double quotes is missing here", expected='a name such as "workloads"')
        key = self._string(depth)
        self._skip()
        self._take(":")
        return self._value(key, depth + 1)

    def _list(self, depth: int) -> list[Value]:
        items: list[Value] = []
        self._take("[")
        while not self._closes("]", items):
            items.append(self._value("", depth + 1))
        return items

    def _closes(self, bracket: str, before: dict[str, Value] | list[Value]) -> bool:
        """Whether the object or list ends here; if not, the comma before its next part is taken."""
        if self.text.startswith(bracket, self._position):
            self._take(bracket)
            return True
        if before:
            self._take(",", f"a comma or {bracket!r}")
            if self.text.startswith(bracket, self._position):
                raise self._error("a comma before the closing bracket", expected="no comma after the last part")
        return False

    def _string(self, _depth: int) -> str:
        try:
            text, self._position = scanstring(self.text, self._position + 1, True)
        except JSONDecodeError as error:
            raise UsageError(f"{self.place(error.pos)}: not JSON: {error.msg}") from None
        return str(text)

    def _atom(self) -> bool | int | float | None:
        word = WORD.match(self.text, self._position)
        if word and word.group() in WORDS:
            self._position = word.end()
            return WORDS[word.group()]
        number = NUMBER.match(self.text, self._position)
        if number is None or number.end() - number.start() > LONGEST_NUMBER:
            raise self._error("no JSON value")
        self._position = number.end()
        return float(number.group()) if number.group(1) or number.group(2) else int(number.group())

    def _take(self, symbol: str, expected: str = "") -> None:
        if not self.text.startswith(symbol, self._position):
            raise self._error("not JSON", expected=expected or repr(symbol))
        self._position += len(symbol)
        self._skip()

    def _skip(self) -> None:
        """Over blanks and `//` comments."""
        self._position = SPACE.match(self.text, self._position).end()  # type: ignore[union-attr]
        while comment := COMMENT.match(self.text, self._position):
            self.comment_lines.append(self.place().line)
            self._position = SPACE.match(self.text, comment.end()).end()  # type: ignore[union-attr]

    def _error(self, problem: str, expected: str = "", hint: str | None = None) -> UsageError:
        rest = self.text[self._position : self._position + SHOWN].split("\n")[0]
        wanted = expected or "an object, a list, a text in double quotes, a number, true, false or null"
        found = rest or "the end of the file or line"
        return UsageError(f"{self.place()}: {problem}", found=found, expected=wanted, hint=hint)
