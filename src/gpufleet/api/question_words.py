"""The question of a plan's file as a request, each word of the form that its field says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date
from typing import Any

from gpufleet.api.requests import RequestKind, ServeRequest
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.results.plan import PlanBasis

UNREADABLE, LONGEST_INTEGER_BITS = "the question of the plan cannot be read", 64


def is_number(word: object) -> bool:
    """A number that some quantity has; true and false are none."""
    if isinstance(word, float):
        return math.isfinite(word)
    return isinstance(word, int) and not isinstance(word, bool) and word.bit_length() <= LONGEST_INTEGER_BITS


def is_list_of(is_item: Callable[[object], bool]) -> Callable[[object], bool]:
    """Whether a word is a list of such items."""
    return lambda word: isinstance(word, (list, tuple)) and all(map(is_item, word))


def is_text(word: object) -> bool:
    """Words."""
    return isinstance(word, str)


def is_mapping(word: object) -> bool:
    """The fields of something."""
    return isinstance(word, dict)


FORMS: Mapping[str, Callable[[object], bool]] = {
    "None": lambda word: word is None,
    "bool": lambda word: isinstance(word, bool),
    "int": lambda word: is_number(word) and isinstance(word, int),
    "float": is_number,
    "str": is_text,
    "date": is_text,
    "TokenCounts": is_mapping,
    "tuple[float, ...]": is_list_of(is_number),
    "Sequence[str]": is_list_of(is_text),
    "Collection[str]": is_list_of(is_text),
    "Sequence[RequestKind]": is_list_of(is_mapping),
}


def request_of(basis: PlanBasis) -> ServeRequest:
    """The request that a plan answers."""
    known = {f.name for f in fields(ServeRequest)}
    strange = sorted(set(basis.question) - known)
    missing = sorted({"model", "rate", "input_tokens", "output_tokens"} - set(basis.question))
    if strange or missing:
        found = f"{', '.join(strange) or 'nothing'} unknown, {', '.join(missing) or 'nothing'} missing"
        raise UsageError(UNREADABLE, found=found, hint="Plan again, with -o json.")
    refuse_other_forms(basis.question, ServeRequest)
    try:
        return ServeRequest(**read_words(basis.question))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{UNREADABLE}: {error}") from error


def refuse_other_forms(words: Mapping[str, Any], question: type) -> None:
    """Refuse words that are not of the form that their fields say, in what they hold too."""
    for field in fields(question):
        forms = [FORMS[name] for name in str(field.type).split(" | ") if name in FORMS]
        if field.name in words and not any(is_of(words[field.name]) for is_of in forms):
            found = words[field.name]
            raise UsageError(f"{UNREADABLE}: {field.name}", found=found, expected=str(field.type))
    for counts in filter(is_mapping, words.values()):
        refuse_other_forms(counts, TokenCounts)
    for kind in words.get("classes", ()):
        refuse_other_forms(kind, RequestKind)


def read_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request from `plan_basis.plain_words`."""
    read = {**words, **read_tokens(words)}
    if words.get("classes"):
        read["classes"] = tuple(RequestKind(**{**kind, **read_tokens(kind)}) for kind in words["classes"])
    if words.get("today"):
        read["today"] = date.fromisoformat(words["today"])
    return read


def read_tokens(kind: Mapping[str, Any]) -> dict[str, float | TokenCounts]:
    """Tokens of prompt and answer of one kind of requests."""
    return {name: counts_of(kind[name]) for name in ("input_tokens", "output_tokens")}


def counts_of(words: Any) -> float | TokenCounts:
    """A number of tokens, or the fields of numbers that differ from request to request."""
    if not isinstance(words, Mapping):
        return float(words)
    listed: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in words.items()}
    return TokenCounts(**listed)
