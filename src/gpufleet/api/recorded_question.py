"""The question that a plan was written for, read again: anybody may have edited the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from gpufleet.api.plan_basis import NOT_WRITTEN
from gpufleet.api.requests import RequestKind, ServeRequest
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.images import Images
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.questions.fields import NamedPath, parse_images
from gpufleet.results.plan import PlanBasis

CANNOT_BE_READ, PLAN_AGAIN = "the question of the plan cannot be read", "Plan again, with -o json."
WRITTEN = {
    float: Annotated[float, Field(allow_inf_nan=False)],
    **dict.fromkeys((date, Slo, Architecture, Images, NamedPath), str),
}
NAMED = {"Architecture": Architecture, "Slo": Slo, "TokenCounts": TokenCounts}
typed_words: Any = TypedDict


def as_written(hint: Any) -> Any:
    """What `plan_basis.plain_words` writes of a value of this type."""
    if hint in WRITTEN:
        return WRITTEN[hint]
    if is_dataclass(hint):
        return fields_as_written(hint)
    parts = tuple(as_written(part) for part in get_args(hint))
    if get_origin(hint) is Mapping:
        return dict.__class_getitem__(parts)
    if get_origin(hint) in (Union, UnionType):
        return Union[parts]  # noqa: UP007
    return list[parts[0]] if parts else hint  # type: ignore[valid-type]


def fields_as_written(record: Any) -> Any:
    """What is written of a record: a word for each of its fields."""
    hints = get_type_hints(record, localns=NAMED)
    return typed_words(record.__name__, {name: as_written(hints[name]) for name in names_written(record)}, total=False)


def names_written(record: Any) -> list[str]:
    """Fields that are written."""
    return [f.name for f in fields(record) if f.name not in NOT_WRITTEN]


@lru_cache(maxsize=1)
def question_words() -> TypeAdapter[Mapping[str, Any]]:
    """What checks the words of a question."""
    return TypeAdapter(fields_as_written(ServeRequest))


def request_of(basis: PlanBasis) -> ServeRequest:
    """The request that a plan answers."""
    strange = sorted(set(basis.question) - set(names_written(ServeRequest)))
    missing = sorted({"model", "rate", "input_tokens", "output_tokens"} - set(basis.question))
    if strange or missing:
        found = f"{', '.join(strange) or 'nothing'} unknown, {', '.join(missing) or 'nothing'} missing"
        raise UsageError(CANNOT_BE_READ, found=found, hint=PLAN_AGAIN)
    try:
        return ServeRequest(**read_words(question_words().validate_python(basis.question, strict=True)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{CANNOT_BE_READ}: {place}: {first['msg']}", hint=PLAN_AGAIN) from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{CANNOT_BE_READ}: {error}", hint=PLAN_AGAIN) from error


def read_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request from `plan_basis.plain_words`."""
    read = {**words, **read_tokens(words)}
    if words.get("classes"):
        read["classes"] = tuple(RequestKind(**{**kind, **read_tokens(kind)}) for kind in words["classes"])
    if words.get("images"):
        read["images"] = parse_images(words["images"])
    if words.get("today"):
        read["today"] = date.fromisoformat(words["today"])
    return read


def read_tokens(kind: Mapping[str, Any]) -> dict[str, float | TokenCounts]:
    """Tokens of prompt and answer of one kind of requests."""
    return {name: counts_of(kind[name]) for name in ("input_tokens", "output_tokens") if name in kind}


def counts_of(words: Any) -> float | TokenCounts:
    """A number of tokens, or the fields of numbers that differ from request to request."""
    if not isinstance(words, Mapping):
        return float(words)
    listed: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in words.items()}
    return TokenCounts(**listed)
