"""JSON of users' files: a key twice is refused at any depth, as YAML's are, not silently the last one taken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gpufleet.errors import UsageError, shorten
from gpufleet.files import read_text_file

LONGEST_NUMBER = 400  # digits


def parse_json(text: str, what: str, expected: str | None = None) -> object:
    """The value of a JSON text; `what` names it in errors, such as "a plan 'plan.json'".

    >>> parse_json('{"a": {"b": 1, "b": 2}}', "a plan")
    Traceback (most recent call last):
    gpufleet.errors.UsageError: a plan gives 'b' twice; expected each key once.
    """

    def unrepeated(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
            raise UsageError(f"{what} gives {shorten(twice)} twice", expected="each key once")
        return found

    try:
        return json.loads(text, object_pairs_hook=unrepeated, parse_int=_whole_number)
    except RecursionError:
        raise UsageError(f"{what} is not JSON: it is nested too deeply", expected=expected) from None
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}", expected=expected) from None


def _whole_number(digits: str) -> int:
    """An integer that some quantity could have; Python itself gives up on thousands of digits."""
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"it holds a number of {len(digits):,} digits")
    return int(digits)


def read_json(path: str | Path, what: str, most_bytes: float, expected: str) -> object:
    """The value of a JSON file."""
    return parse_json(read_text_file(path, what, most_bytes), f"{what} {str(path)!r}", expected)
