"""What goes wrong, as application/problem+json: a code, the word concerned, what was found, expected, and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.cli.concerned import word_concerned
from gpufleet.cli.verb_words import Question
from gpufleet.errors import GpufleetError, abridged

STATUS = {
    "usage": 422,
    "unknown_name": 422,
    "infeasible": 422,
    "policy": 422,
    "data_missing": 422,
    "too_large": 422,
    "bug": 500,
    "took_too_long": 503,
    "too_many": 429,
    "no_token": 401,
    "foreign": 403,
    "not_found": 404,
    "no_method": 405,
    "no_format": 406,
    "slow_body": 408,
    "body_too_large": 413,
    "no_json": 415,
    "bad_body": 400,
    "canceled": 410,
}
"""HTTP status by code; the first seven are about the question itself, as exit codes are."""
TITLES = {
    "took_too_long": "the answer took too long",
    "too_many": "too many questions wait",
    "bug": "this is our bug",
}
PROBLEM_SCHEMA: dict[str, object] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail")},
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": list(STATUS)},
        "field": {"type": ["string", "null"]},
        "found": {},
        "expected": {"type": ["string", "null"]},
        "hint": {"type": ["string", "null"]},
    },
}


class Problem(Exception):
    """What is told in place of an answer."""

    def __init__(self, code: str, problem: str, *, field: str | None = None, **parts: Any):
        super().__init__(problem)
        self.code, self.problem, self.field, self.parts = code, problem, field, parts

    @property
    def status(self) -> int:
        """Of HTTP."""
        return STATUS[self.code]

    @property
    def document(self) -> dict[str, object]:
        """The problem as JSON."""
        return {
            "type": "about:blank",
            "title": TITLES.get(self.code, self.code.replace("_", " ")),
            "status": self.status,
            "detail": self.parts.get("text") or str(GpufleetError(self.problem, **self.said)),
            "code": self.code,
            "field": self.field,
            **self.said,
        }

    @property
    def said(self) -> dict[str, Any]:
        """What was found, expected, and the hint."""
        return {name: self.parts.get(name) for name in ("found", "expected", "hint")}


def told_error(error: GpufleetError) -> dict[str, Any]:
    """An error by its parts."""
    is_plain = error.found is None or isinstance(error.found, (bool, int, float))
    found = error.found if is_plain else abridged(str(error.found))
    parts = {"problem": error.problem, "found": found, "expected": error.expected, "hint": error.hint}
    return {"code": error.code, **parts, "text": str(error)}


def of_error(error: Mapping[str, Any], question: Question, said: Mapping[str, object]) -> Problem:
    """The problem that an error by its parts tells of."""
    field = field_of(question, said, str(error["problem"]), error["found"])
    parts = {name: error[name] for name in ("found", "expected", "hint", "text")}
    return Problem(error["code"], error["problem"], field=field, **parts)


def field_of(question: Question, said: Mapping[str, object], problem: str, found: object) -> str | None:
    """The word of a question that a problem is about."""
    return word_concerned(question.words, said, problem, found)
