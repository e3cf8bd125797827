"""What a plan rests on, written into the plan and read again from a file that anybody may have edited."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import date
from functools import lru_cache
from importlib.metadata import version
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from gpufleet.api.serve_questions import Prepared
from gpufleet.catalog.calibration import kernel_digest
from gpufleet.catalog.load import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.images import Images
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.domain.own_stack import OwnStack
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.optimize.contest import deciding_offers
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.market import effective_price
from gpufleet.questions.fields import NamedPath, RequestKind, ServeRequest, parse_images
from gpufleet.results.plan import ConsideredPrice, GpuBound, PlanBasis

WORDS_ABOUT_SOURCES = frozenset({"source", "evidence", "notes"})
DIGEST_BYTES = 6
NOT_WRITTEN = frozenset({"from_file", "said", "preferred"})
RELEASE, MODEL, ENGINE, KERNELS = "release", "model", "engine", "kernels"
Words = dict[str, Any]
CANNOT_BE_READ, PLAN_AGAIN = "the question of the plan cannot be read", "Plan again, with -o json."
WRITTEN = {
    float: Annotated[float, Field(allow_inf_nan=False)],
    **dict.fromkeys((date, Slo, Architecture, Images, NamedPath, OwnStack), str),
}
NAMED = {"Architecture": Architecture, "OwnStack": OwnStack, "Slo": Slo, "TokenCounts": TokenCounts}
typed_words: Any = TypedDict


def basis_of_plan(prepared: Prepared) -> PlanBasis:
    """What the plan of a question rests on."""
    return basis_of(request_words(prepared.request), prepared.question, prepared.tables)


def request_words(request: ServeRequest) -> Words:
    """A request as plain words, without what was left to defaults: enough to ask again."""
    model_and_work_first = sorted(fields(request), key=lambda f: f.kw_only is True)
    said = {f.name: getattr(request, f.name) for f in model_and_work_first if f.name not in NOT_WRITTEN}
    said["model"] = request.model.name if isinstance(request.model, Architecture) else str(request.model)
    defaults = {f.name: plain_words(f.default) for f in fields(request)}
    plain = {name: plain_words(value) for name, value in said.items()}
    return {name: value for name, value in plain.items() if value != defaults[name]}


def plain_words(value: object) -> object:
    """Objectives, images and days as text, counts and kinds of requests as their fields, sequences as lists."""
    if isinstance(value, Slo):
        return ",".join(f"{limit.label}<{limit.limit_s!r}s" for limit in value.limits) or None
    if isinstance(value, Images):
        return str(value)
    if isinstance(value, OwnStack):
        return None if value.of_rate else value.name
    if isinstance(value, (TokenCounts, RequestKind)):
        return {f.name: plain_words(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain_words(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return value.isoformat() if isinstance(value, date) else value


def basis_of(question_words: Words, question: WriterQuestion, tables: Catalog) -> PlanBasis:
    """The question, digests of what predicts, and the prices that decide."""
    return PlanBasis(
        question=question_words,
        digests={
            RELEASE: version("gpu-fleet-optimizer"),
            MODEL: digest(repr(question.model.arch)),
            ENGINE: digest(repr(question.model.choices.palette.engines)),
            KERNELS: kernel_digest(),
        },
        prices=[considered(offer, tables) for offer in deciding_offers(question)],
    )


def considered(offer: Offer, tables: Catalog) -> ConsideredPrice:
    """One price, with a digest of the machine that it buys."""
    return ConsideredPrice(
        cloud=offer.cloud,
        instance=offer.instance,
        price_kind=offer.price_kind.value,
        region=offer.region,
        usd_per_hour=effective_price(offer),
        as_of=offer.as_of,
        machine=machine_digest(tables, offer.cloud, offer.instance),
        age_ratio=offer.age_ratio,
        max_instances=offer.max_instances,
        gpu_quotas=[GpuBound(**asdict(quota)) for quota in offer.gpu_quotas],
    )


def machine_digest(tables: Catalog, cloud: str, name: str) -> str:
    """A digest of the figures of a machine type and its GPUs, whatever is said about their sources."""
    instance = tables.instances[cloud, name]
    return digest(figures_of(instance) + figures_of(tables.accelerators[instance.accelerator]))


def figures_of(noun: Instance | Accelerator) -> str:
    """All fields but the words about sources."""
    return repr([getattr(noun, f.name) for f in fields(noun) if f.name not in WORDS_ABOUT_SOURCES])


@lru_cache(maxsize=4096)
def digest(text: str) -> str:
    """A short digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


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
