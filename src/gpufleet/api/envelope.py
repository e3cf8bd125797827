"""What all answers say of themselves: hash, sources of prices, verdict, grade and exit code, by one rule for all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date
from functools import lru_cache
from importlib.metadata import version
from os import PathLike
from typing import Any, TypeVar

from pydantic import BaseModel

from gpufleet.answers.plan_parts import price_sources
from gpufleet.api.plan_basis import DIGEST_BYTES, plain_words
from gpufleet.catalog.calibration import kernel_digest
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import GpufleetError, Infeasible, PolicyViolation, UsageError
from gpufleet.files import is_file, read_start
from gpufleet.provenance import Grade
from gpufleet.questions.fields import PlanRequest
from gpufleet.questions.words import WRITTEN, Request, words_of
from gpufleet.results.answer import Answer, AskedWord, PriceSource
from gpufleet.results.base import Figure
from gpufleet.results.catalog import PriceRow
from gpufleet.results.rented import SpotPrice
from gpufleet.results.training import TrainingPlan
from gpufleet.units import MB

A = TypeVar("A", bound=Answer)
GRADES = [grade.label for grade in Grade]
HASH_DIGITS = 16
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
"""A day, in words about an undated copy too."""
LARGEST_FILE_BYTES = 200 * MB
MISSED: Mapping[str, tuple[str, type[GpufleetError]]] = {
    "fits": ("infeasible", Infeasible),
    "is_held": ("infeasible", Infeasible),
    "is_feasible": ("infeasible", Infeasible),
    "is_kept": ("missed", PolicyViolation),
    "is_unchanged": ("changed", PolicyViolation),
    "had_solver": ("unproven", UsageError),
}
"""What an answer may say of itself: the verdict where that is not so, and the kind of error that it is then."""


def in_full(answer: A, tables: Catalog, *asked: Request | Mapping[str, object]) -> A:
    """The answer with all that every answer says of itself; what it says already stays.

    `asked`: the requests, or words by their names where the question has none: None says nothing.
    """
    parts = list(models_in(answer))
    told: dict[str, Any] = {
        "question": [word for one in asked for word in words_asked(one)],
        "price_sources": answer.price_sources or sources_of(parts, tables),
        "verdict": answer.verdict or verdict_of(answer),
        "grade": answer.grade or grade_of(answer),
        "exit_code": exit_code_of(answer),
    }
    told["input_hash"] = answer.input_hash or hash_of(answer, told["question"], told["price_sources"], parts)
    return answer.model_copy(update=told)


def judged(answer: A) -> A:
    """The verdict and the exit code of what an answer has become since it was first told."""
    return answer.model_copy(update={"verdict": verdict_of(answer), "exit_code": exit_code_of(answer)})


def words_asked(asked: Request | Mapping[str, object]) -> list[AskedWord]:
    """The words of a question that somebody said or that have a value of their own, each with its origin."""
    if not isinstance(asked, Request):
        said = ((name, as_plain(value)) for name, value in asked.items() if value is not None)
        return [AskedWord(word=name, value=value, origin="given") for name, value in said]
    rows = [row for row in words_of(type(asked)).values() if row.field and row.heading != WRITTEN]
    subjects = [f.name for f in fields(asked) if not f.kw_only and f.name not in {row.field for row in rows}]
    named = [*((subject, subject, "") for subject in subjects), *((row.name, row.field, row.kind.unit) for row in rows)]
    return [
        AskedWord(word=word, value=as_plain(value), unit=unit, origin=origin_of(asked, field))
        for word, field, unit in named
        if (value := getattr(asked, field)) is not None and (value is not False or field in asked.said)
    ]


def origin_of(asked: Request, field: str) -> str:
    """Where a value came from: a file, a preference, the question itself, or nobody said it."""
    if isinstance(asked, PlanRequest):
        if field in asked.from_file:
            return "file"
        if field in asked.from_config:
            return "preference"
    return asked.origin(field)


def as_plain(value: object) -> object:
    """A value as JSON has it: a file by its name and a digest of what it holds, other things by their name or text.

    The folder of a model is told as the config.json in it is, by the folder's own name.
    """
    if isinstance(value, (str, PathLike)) and value:
        for path in (value, os.path.join(value, "config.json")):
            if is_file(path):
                return {"file": os.path.basename(os.path.normpath(value)), "digest": digest_of_file(path)}
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_plain(item) for item in value]
    plain = plain_words(value)
    return plain if isinstance(plain, (str, dict)) else str(getattr(value, "name", value))


def digest_of_file(path: str | PathLike[str]) -> str:
    """A digest of the content of a file."""
    content = read_start(os.fspath(path), "a file", LARGEST_FILE_BYTES)
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def models_in(value: object) -> Iterator[BaseModel]:
    """A model and all that are in it."""
    if isinstance(value, BaseModel):
        yield value
        for part in vars(value).values():
            yield from models_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from models_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from models_in(part)


def sources_of(parts: Sequence[BaseModel], tables: Catalog) -> list[PriceSource]:
    """Where the prices of all machines in an answer come from."""
    told = [vars(part) for part in parts]
    rented = [(each["price_source"], each.get("price_as_of")) for each in told if each.get("price_source")]
    spot = [(part.source, part.as_of) for part in parts if isinstance(part, SpotPrice | PriceRow)]
    stated = ((id_, DAY.search(str(day))) for id_, day in [*rented, *spot] if id_ in tables.sources)
    return price_sources([(id_, date.fromisoformat(day[0])) for id_, day in stated if day], tables.sources)


def grade_of(answer: Answer) -> str:
    """The grade of what is rented, else that of the figure of the answer's own that is least sure."""
    found = getattr(answer, "deployments", None)
    if found:
        return str(found[0].grade)
    own = [value for value in vars(answer).values() if isinstance(value, Figure)]
    figures = own or [part for part in models_in(answer) if isinstance(part, Figure)]
    return max((f.grade for f in figures if f.grade in GRADES), key=GRADES.index, default="")


def verdict_of(answer: Answer) -> str:
    """In one word, where the answer has none of its own."""
    missed = missed_by(answer)
    if missed is not None:
        return missed[0]
    if isinstance(answer, TrainingPlan):
        return answer.memory_verdict
    found = getattr(answer, "deployments", None)
    return "tight" if found and found[0].is_tight else "holds"


def exit_code_of(answer: Answer) -> int:
    """The exit code of a command line with this answer."""
    missed = missed_by(answer)
    return 0 if missed is None else missed[1].exit_code


def missed_by(answer: Answer) -> tuple[str, type[GpufleetError]] | None:
    """What of all that an answer may say is not so."""
    return next((missed for name, missed in MISSED.items() if not getattr(answer, name, True)), None)


@lru_cache(maxsize=1)
def release() -> tuple[str, str]:
    """What is installed, and a digest of the tables that predict."""
    return version("gpu-fleet-optimizer"), kernel_digest()


def hash_of(answer: Answer, asked: list[AskedWord], sources: list[PriceSource], parts: Sequence[BaseModel]) -> str:
    """A hash of the question, of the release and its kernels, and of the prices that the answer rests on."""
    question = [[row.name, row.value] for row in answer.inputs] + [[word.word, word.value] for word in asked]
    prices = [*([source.id, str(source.as_of)] for source in sources), *sorted(set(prices_in(parts)))]
    rests_on = [type(answer).__name__, question, prices, *release()]
    return hashlib.sha256(json.dumps(rests_on).encode()).hexdigest()[:HASH_DIGITS]


def prices_in(parts: Sequence[BaseModel]) -> Iterator[str]:
    """What each thing in an answer costs that has a price of its own."""
    for part in parts:
        if isinstance(part, SpotPrice | PriceRow) or vars(part).get("price_source"):
            yield repr(sorted((name, value) for name, value in vars(part).items() if "usd" in name and value))
