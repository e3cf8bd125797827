"""What differs between two records of the same command.

Exit codes and texts (pages, help, messages, CSV) are equal or they differ. JSON is compared by its structure: numbers
within `RELATIVE`, keys of before are all there, new ones may stand beside them; lists are as long as they were. The
digests of a seal follow from the fields that they seal, which are compared themselves.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.corpus.recording import Record

RELATIVE = 1e-12
SEAL = "seal"
NOTHING = object()


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was, in one line."""

    name: str
    line: str

    def __str__(self) -> str:
        return f"{self.name}  {self.line}"


@dataclass(frozen=True)
class Named:
    """A change that is meant: of the commands whose names are like `name`, all lines in which `form` is found.

    >>> Named.read("spot*  zones.*given").excuses(Difference("spot-zones", 'out $.zones: "default" is now "given"'))
    True
    """

    name: str
    form: re.Pattern[str]

    @classmethod
    def read(cls, line: str) -> Named:
        """From a line of a file: a name, or a form of names such as spot-*, and a regular expression."""
        name, form = line.split(None, 1)
        return cls(name, re.compile(form.strip()))

    def excuses(self, found: Difference) -> bool:
        """Whether this difference is meant."""
        return fnmatchcase(found.name, self.name) and self.form.search(found.line) is not None


def read_named(text: str) -> list[Named]:
    """The changes that a file names, one in a line."""
    return [Named.read(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def unnamed(found: Iterable[Difference], named: Collection[Named]) -> list[Difference]:
    """The differences that nobody named."""
    return [each for each in found if not any(of.excuses(each) for of in named)]


def differences(before: Mapping[str, Record], after: Mapping[str, Record]) -> Iterator[Difference]:
    """What differs between two recordings, command by command."""
    for name in before.keys() | after.keys():
        if name not in before or name not in after:
            yield Difference(name, "is not asked " + ("before" if name not in before else "any more"))
        else:
            yield from (Difference(name, line) for line in differing(before[name], after[name]))


def differing(before: Record, after: Record) -> Iterator[str]:
    """What differs between two records."""
    if before.said != after.said:
        yield f"words: {before.said} is now {after.said}"
    if before.code != after.code:
        yield f"code: {before.code} is now {after.code}"
    yield from texts_differ("out", before.out, after.out)
    yield from texts_differ("err", before.err, after.err)
    for file in sorted(before.files.keys() | after.files.keys()):
        if file not in before.files or file not in after.files:
            yield f"{file}: is {'not written any more' if file in before.files else 'written now'}"
        else:
            yield from texts_differ(file, before.files[file], after.files[file])


def texts_differ(where: str, before: str, after: str) -> Iterator[str]:
    """What differs between two texts; both may be JSON."""
    if before == after:
        return
    was, now = parsed(before), parsed(after)
    if was is NOTHING or now is NOTHING:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
        yield from (f"{where} {line}" for line in lines if not line.startswith(("---", "+++", "@@")))
    else:
        yield from values_differ(f"{where} $", was, now)


def parsed(text: str) -> Any:
    """An object or a list that is written as JSON; NOTHING where a text is none."""
    if text[:1] not in ("{", "["):
        return NOTHING
    try:
        return json.loads(text)
    except ValueError:
        return NOTHING


def values_differ(where: str, before: Any, after: Any) -> Iterator[str]:
    """What differs between two values of JSON."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from objects_differ(where, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} are now {len(after)}"
        for place, (was, now) in enumerate(zip(before, after, strict=False)):
            yield from values_differ(f"{where}[{place}]", was, now)
    elif not is_equal(before, after):
        yield f"{where}: {json.dumps(before)} is now {json.dumps(after)}"


def objects_differ(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Keys that were lost, and values that changed."""
    for key, was in before.items():
        if key not in after:
            yield f"{where}.{key}: is gone"
        elif key == SEAL and isinstance(was, dict) and isinstance(after[key], dict):
            yield from (f"{where}.{key}.{lost}: is gone" for lost in was.keys() - after[key].keys())
        else:
            yield from values_differ(f"{where}.{key}", was, after[key])


def is_equal(before: Any, after: Any) -> bool:
    """Whether two values are the same; 1 and 1.0 are, 1 and true are not."""
    kinds = (bool, int, float)
    if isinstance(before, kinds) and isinstance(after, kinds) and isinstance(before, bool) is isinstance(after, bool):
        return before == after or math.isclose(before, after, rel_tol=RELATIVE, abs_tol=0.0)
    return type(before) is type(after) and before == after
