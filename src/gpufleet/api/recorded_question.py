"""The question that a plan was written for, read again: anybody may have edited the file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from gpufleet.api.requests import RequestKind, ServeRequest
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.results.plan import PlanBasis

CANNOT_BE_READ, PLAN_AGAIN = "the question of the plan cannot be read", "Plan again, with -o json."
Number = Annotated[float, Field(allow_inf_nan=False)]


class CountWords(TypedDict, total=False):
    """Numbers of tokens that differ from request to request."""

    mean: Number
    squared_variation: Number
    percentiles: list[Number]
    longest: Number
    octiles: list[Number]
    beyond_ratio: Number


class KindWords(TypedDict, total=False):
    """One class of requests."""

    name: str
    rate: Number
    input_tokens: Number | CountWords
    output_tokens: Number | CountWords
    slo: str | None
    prefix_cache: Number | None
    prefix_kv: Number | None


class QuestionWords(KindWords, total=False):
    """Fields of a `ServeRequest` as `plan_basis.plain_words` writes them."""

    model: str
    classes: list[KindWords]
    clouds: list[str] | None
    regions: list[str] | None
    pricing: list[str] | None
    gpus: list[str] | None
    precision: list[str] | None
    engine: str | None
    headroom: Number | None
    confidence: Number | None
    price_change: Number | None
    max_price_age_s: Number | None
    today: str | None
    rows: int
    notes: list[str]
    from_config: list[str]
    min_replicas: int | None
    spare_machines: int | None
    zones: int | None
    off_peak_rate: Number | None
    peak_hours: Number | None
    budget_usd_per_hour: Number | None
    max_spot: Number | None
    allow_lower_precision: bool
    kv_precision: str | None
    fractions: bool
    fleet_today: str | None


@lru_cache(maxsize=1)
def question_words() -> TypeAdapter[QuestionWords]:
    """What checks the words of a question."""
    return TypeAdapter(QuestionWords)


def request_of(basis: PlanBasis) -> ServeRequest:
    """The request that a plan answers."""
    known = QuestionWords.__annotations__
    strange = sorted(set(basis.question) - (set(known) - {"name"}))
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
