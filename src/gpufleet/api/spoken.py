"""From words, said in Python as they are typed, to the request that they ask."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cache
from os import PathLike
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UnknownName, UsageError, named
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.questions.fields import NamedPath, ServeRequest
from gpufleet.questions.words import Request, Word, filled, words_of
from gpufleet.table import resolved

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture

R = TypeVar("R", bound=Request)
Services: TypeAlias = "ServeRequest | str | PathLike[str] | Architecture | Sequence[ServeRequest]"
LENGTHS = ("input_tokens", "output_tokens")
TYPES = {
    "Architecture": "domain.architecture",
    "EncoderModel": "domain.encoder",
    "FleetPlan": "results.fleet",
    "OwnStack": "domain.own_stack",
    "PoolRequest": "domain.pool_request",
    "RateCurve": "domain.rate_curve",
    "JobPlan": "results.job",
    "ServePlan": "results.plan",
    "Slo": "domain.slo",
    "TokenCounts": "domain.token_counts",
}
"""Types of fields that requests name for type checkers alone, and the modules of them."""


def spoken(kind: type[R], subject: object, said: Mapping[str, Any], *, is_typed: bool = False) -> R:
    """The request of a model and words, or a request with further words.

    A word is called as its field or as its option is (`budget_usd_per_hour`, `budget`); text is read as the option
    reads it ('10/s', '8k', '20%', 'aws,gcp'), anything else is taken as it is. What `is_typed` is told as its option.
    """
    values = values_of(kind, said, is_typed=is_typed)
    if isinstance(subject, kind):
        return filled(subject, **values)
    refuse_unsaid(kind, values)
    about = {} if subject_of(kind) is None else {subject_of(kind): subject}
    return kind(**about, **values)  # type: ignore[arg-type]


def spoken_of_services(
    kind: type[R], services: Services, terms: R | None, said: Mapping[str, Any]
) -> tuple[list[ServeRequest], R]:
    """Services, and what is asked of all of them together; words that are not of that are of the one service."""
    of_all = {name: value for name, value in said.items() if name in fields_called(kind)}
    of_one = {name: value for name, value in said.items() if name not in of_all}
    asked = filled(terms or kind(), **values_of(kind, of_all))
    if isinstance(services, str) or not isinstance(services, Sequence):
        return [spoken(ServeRequest, services, of_one)], asked
    if of_one:
        raise UnknownName("word of a question", next(iter(of_one)), fields_called(kind))
    return [*services], asked


def values_of(kind: type[Request], said: Mapping[str, Any], *, is_typed: bool = False) -> dict[str, Any]:
    """What words say, by the fields that they fill."""
    called, rows = fields_called(kind), rows_by_field(kind)
    values: dict[str, Any] = {}
    for name, value in said.items():
        if name not in called:
            raise UnknownName("word of a question", name, called)
        row = rows.get(called[name])
        with told_as(name, row if is_typed else None):
            values[called[name]] = read(kind, called[name], row, value, is_typed=is_typed)
    return values


def rows_by_field(kind: type[Request]) -> dict[str, Word[Any]]:
    """Words of a question by the fields that they fill, but for what it is about."""
    return rows_once((kind,))


@cache
def rows_once(kinds: tuple[type[Request]]) -> dict[str, Word[Any]]:
    """The same, read once."""
    [kind] = kinds
    subject = subject_of(kind)
    return {row.field: row for row in words_of(kind).values() if row.field and row.field != subject}


def fields_called(kind: type[Request]) -> dict[str, str]:
    """The fields of a question by all that they are called: as they are, and as their options."""
    return names_once((kind,))


@cache
def names_once(kinds: tuple[type[Request]]) -> dict[str, str]:
    """The same, read once."""
    [kind] = kinds
    return {name: name for name in field_names(kind)} | {row.name: field for field, row in rows_by_field(kind).items()}


def heard(kind: type[R], subject: object, **said: Any) -> R:
    """The same from the keywords of a function, where None says nothing."""
    return spoken(kind, subject, {name: value for name, value in said.items() if value is not None})


@contextmanager
def told_as(name: str, typed: Word[Any] | None) -> Iterator[None]:
    """What cannot be read is told with its name, or with the option that was typed and the hint of that."""
    try:
        with named(name if typed is None else typed.flag):
            yield
    except UsageError as error:
        if typed is not None and error.hint is None:
            error.hint = typed.hint
        raise


def read(kind: type[Request], field: str, row: Word[Any] | None, value: object, *, is_typed: bool = False) -> object:
    """A value of a field: text as it would be typed, anything else as it is if it is of the field's type."""
    if not isinstance(value, str) or row is None or (row.kind.takes is bool and not is_typed):
        refuse_another_type(kind, field, value)
        return value
    if field in LENGTHS:
        return lengths(kind, field, value)
    if row.kind.takes is list:
        return [name.strip() for name in value.split(",")]
    return row.value_of(value)


def subject_of(kind: type[Request]) -> str | None:
    """The field that a question is about, where it has one."""
    return next((f.name for f in fields(kind) if not f.kw_only), None)


def refuse_another_type(kind: type[Request], field: str, value: object) -> None:
    """Refuse what no value of a field can be."""
    hint = types_of(kind)[field]
    if not is_of(value, hint):
        expected = " or ".join(sorted({plain_type(part) for part in parts_of(hint)}))
        raise UsageError("not a value of that word", found=repr(value), expected=expected)


def types_of(kind: type[Request]) -> Mapping[str, Any]:
    """The types of all fields of a request."""
    return types_once((kind,))


@cache
def types_once(kinds: tuple[type[Request]]) -> Mapping[str, Any]:
    """The same, read once; loaded is what the request names."""
    named_there = " ".join(str(f.type) for f in fields(kinds[0]))
    held = {name: resolved(f"{home}:{name}") for name, home in TYPES.items() if name in named_there}
    return get_type_hints(kinds[0], localns=held)


def parts_of(hint: Any) -> tuple[Any, ...]:
    """The types of which a value may be any."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def is_of(value: object, hint: Any) -> bool:
    """Whether a value is of a type; a whole number is a number too, and a truth value is none."""
    if get_origin(hint) in (Union, UnionType):
        return any(is_of(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        items = get_args(hint)
        return isinstance(value, tuple) and len(value) == len(items) and all(map(is_of, value, items))
    if get_origin(hint) in (Sequence, Collection):
        [item] = get_args(hint)
        return isinstance(value, (list, tuple, set, frozenset)) and all(is_of(part, item) for part in value)
    if hint is NamedPath:
        return isinstance(value, PathLike)
    accepted = (int, float) if hint is float else hint
    return isinstance(value, accepted) and (hint is bool or not isinstance(value, bool))


def plain_type(hint: Any) -> str:
    """A type in a word.

    >>> plain_type(float), plain_type(type(None)), plain_type(Sequence[str])
    ('a number', 'None', 'a list')
    """
    if get_origin(hint) is tuple:
        return "a name with a number"
    if get_origin(hint) in (Sequence, Collection):
        return "a list"
    named_types = {float: "a number", int: "a whole number", str: "a text", bool: "True or False", NoneType: "None"}
    return named_types.get(hint, getattr(hint, "__name__", str(hint)))


def lengths(kind: type[Request], field: str, text: str) -> float | TokenCounts:
    """Tokens of requests; those of encoders are all alike."""
    counts = parse_token_counts(text)
    if isinstance(counts, float) or TokenCounts in parts_of(types_of(kind)[field]):
        return counts
    if not counts.is_alike:
        raise UsageError("lengths that differ are not planned for encoders", found=text, expected="one number")
    return counts.mean


def field_names(kind: type[Request]) -> list[str]:
    """Fields of a request that somebody may say, but for what it is about."""
    unsaid = (subject_of(kind), "notes", "from_file", "from_config", "said", "preferred")
    return [f.name for f in fields(kind) if f.name not in unsaid]


def refuse_unsaid(kind: type[Request], values: Mapping[str, object]) -> None:
    """Refuse a question without a word that it cannot do without."""
    subject = subject_of(kind)
    for f in fields(kind):
        has_default = f.default is not MISSING or f.default_factory is not MISSING
        if f.name != subject and not has_default and f.name not in values:
            raise UsageError(f"{f.name} is missing", expected=f"it beside the {subject}, such as {EXAMPLES[f.name]}")


EXAMPLES = {
    "rates": "rates='week.csv'",
    "rate": "rate='10/s'",
    "input_tokens": "input_tokens=1000",
    "output_tokens": "output_tokens=200",
    "requests": "requests='10M'",
    "deadline_s": "deadline='24h'",
    "gpus": "gpus='L4:1'",
}
