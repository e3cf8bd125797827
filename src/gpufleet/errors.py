"""Errors that a user can act on.

GpufleetError
├── UsageError          exit 2   the question is malformed: a flag, a unit, a file
│   ├── UnknownName     exit 2   a name that is in no table; the nearest is offered
│   └── TooLarge        exit 2   a question whose answer this machine does not hold
├── Infeasible          exit 3   the question is clear and has no answer
│   └── OutOfMemory     exit 3   a model that its devices do not hold
├── PolicyViolation     exit 4   a threshold that the user set is broken
├── DataMissing         exit 5   a fact is not known or too old
└── OurBug              exit 1   whatever else happens

Every error says the problem, what was found, what was expected and a hint, in one breath.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SHORTEST_PART, FEW_NAMES, LONGEST_PROBLEM = 3, 8, 700


class GpufleetError(Exception):
    """Base of every error that is the user's to mend; never a traceback.

    `code` says its kind in a word, to a caller over HTTP and to an assistant.
    """

    exit_code, code = 2, "usage"

    def __init__(self, problem: str, *, found: object = None, expected: str | None = None, hint: str | None = None):
        super().__init__(problem)
        self.problem, self.found, self.expected, self.hint = problem, found, expected, hint

    def __str__(self) -> str:
        parts = [abridged(self.problem.rstrip("."))]
        if self.found is not None:
            parts.append(f"found {shorten(self.found)}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        sentence = "; ".join(parts) + "."
        return f"{sentence} {abridged(self.hint)}" if self.hint else sentence


class UsageError(GpufleetError):
    """The question is malformed."""


class UnknownName(UsageError):
    """A name that no table holds; where few are known and nothing else helps, all of them are named."""

    code = "unknown_name"

    def __init__(self, kind: str, name: object, known: Iterable[str], *, hint: str | None = None):
        names = list(known)
        nearest = nearest_names(str(name), names)
        if hint is None and 0 < len(names) <= FEW_NAMES:
            hint = f"Known: {', '.join(names)}."
        meant = f"Did you mean {' or '.join(nearest)}?" if nearest else None
        super().__init__(f"unknown {kind} {shorten(name)}", hint=" ".join(filter(None, [meant, hint])) or None)
        self.nearest = nearest


class TooLarge(UsageError):
    """A question whose answer this machine does not hold."""

    code = "too_large"


class Infeasible(GpufleetError):
    """A clear question that no candidate answers."""

    exit_code, code = 3, "infeasible"


class OutOfMemory(Infeasible):
    """A model that its devices do not hold as asked."""


class PolicyViolation(GpufleetError):
    """A threshold that the user set is broken."""

    exit_code, code = 4, "policy"


class DataMissing(GpufleetError):
    """A fact that is needed is not known, or is too old."""

    exit_code, code = 5, "data_missing"


class OurBug(GpufleetError):
    """What nobody foresaw: the one error that no user can mend."""

    exit_code, code = 1, "bug"

    def __init__(self, error: Exception):
        super().__init__(
            f"this is our bug: {type(error).__name__}: {error}", hint="GPUFLEET_DEBUG=1 shows where; please report it."
        )


@contextmanager
def named(name: object) -> Iterator[None]:
    """What is wrong with one of several is said with its name.

    >>> with named("llama-3.1-8b"):
    ...     raise UsageError("--out is missing")
    Traceback (most recent call last):
    gpufleet.errors.UsageError: llama-3.1-8b: --out is missing.
    """
    try:
        yield
    except GpufleetError as error:
        if str(name) not in error.problem:
            error.problem = f"{name}: {error.problem}"
        raise


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names most like `name`, ignoring case, best first."""
    by_folded = {k.casefold(): k for k in known}
    folded = name.casefold()[:200]
    close = difflib.get_close_matches(folded, by_folded, n=count, cutoff=0.5)
    if not close and len(folded) >= SHORTEST_PART:
        close = [k for k in by_folded if folded in k or k in folded][:count]
    return [by_folded[c] for c in close]


def abridged(text: str, limit: int = LONGEST_PROBLEM) -> str:
    """A sentence with a name of thousands of characters in it, without its middle."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def shorten(value: object, limit: int = 80) -> str:
    """A value as an error shows it: quoted, printable, on one line, never longer than `limit`."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        text = f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= limit else text[: limit - 1] + "…"
