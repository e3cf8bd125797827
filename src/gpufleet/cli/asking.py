"""From the words of a question to the options of a verb, and from what was typed back to words."""

from __future__ import annotations

import inspect
import keyword
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional, TypeVar, get_type_hints

import typer

from gpufleet.cli.options import words
from gpufleet.questions.words import Request, Said, Word, words_of

if TYPE_CHECKING:
    from gpufleet.inputs.workload import WorkloadFile

R = TypeVar("R", bound=Request)
Verb = Callable[..., int]
STANDS = "yes"
TAKES: dict[type, Any] = {list: Optional[list[str]], str: Optional[str]}  # noqa: UP045


class Typed(NamedTuple):
    """What was typed, what the user's configuration prefers where nothing is said, and words left at their default."""

    words: WorkloadFile
    preferred: WorkloadFile
    unsaid: frozenset[str] = frozenset()

    @property
    def workload(self) -> str | None:
        """The file that says more, where one was named."""
        return self.words.text("workload")

    @property
    def num_rows(self) -> int | None:
        """How many rows were asked for, where it was said."""
        return None if "rows" in self.unsaid else int(self.words.text("rows") or 0) or None

    def request(self, kind: type[R], subject: object = None) -> R:
        """The question that was typed, about a subject where it has one, over what is preferred."""
        from gpufleet.api.spoken import spoken

        asked = spoken(kind, subject, self.words.over(self.preferred).only(words_of(kind)).words, is_typed=True)
        liked = set(self.preferred.words) - set(self.words.words)
        fields_liked = frozenset(row.field for row in words_of(kind).values() if row.name in liked)
        return replace(asked, said=asked.said - fields_liked, preferred=fields_liked)


def asking(*questions: type[Request], model: object = None, only: Collection[str] = ()) -> Callable[[Verb], Verb]:
    """A verb with an option for each word of its questions; it gets what was typed of them as its first argument.

    `model` is how the verb takes the model as one of them, where it has no argument of its own for it; `only`: these
    words and no other, in this order. A parameter of the verb that is a dataclass stands for an option of each field.
    """
    known = words_of(*questions)
    rows = {name: known[name] for name in only or known if known[name].is_typed}

    def with_options(verb: Verb) -> Verb:
        @wraps(verb)
        def command(line: typer.Context, **values: Any) -> int:
            asked_of = {} if model is None else {"model": values.pop("model")}
            said = {name: values.pop(parameter_of(row)) for name, row in rows.items()}
            return verb(typed_of({**asked_of, **said}, rows, line), **gathered(own, values))

        own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]
        options = [each for parameter in own for each in options_of(parameter)]
        setattr(command, "__signature__", inspect.Signature(parameters(rows.values(), model, options)))  # noqa: B010
        command.__annotations__ = {"line": typer.Context}
        return command

    return with_options


def parameters(rows: Collection[Word[Any]], model: object, own: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters of a verb in the order of its help; those of its own come before the words that come last."""
    first, last = ([option(row) for row in rows if row.comes_last is is_last] for is_last in (False, True))
    by_name = inspect.Parameter.KEYWORD_ONLY
    line = inspect.Parameter("line", by_name, annotation=typer.Context)
    asked_of = [] if model is None else [inspect.Parameter("model", by_name, annotation=model, default=None)]
    return [line, *asked_of, *first, *(parameter.replace(kind=by_name) for parameter in own), *last]


def options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """A parameter of a verb as Typer gets it: itself, or one of each field of a dataclass."""
    kind = parameter.annotation
    if not is_dataclass(kind):
        return [parameter]
    hints = get_type_hints(kind, include_extras=True)
    return [parameter.replace(name=f.name, annotation=hints[f.name], default=f.default) for f in fields(kind)]


def gathered(own: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by parameter of the verb, those of the fields of a dataclass together."""
    return {parameter.name: gathered_value(parameter, values) for parameter in own}


def gathered_value(parameter: inspect.Parameter, values: Mapping[str, Any]) -> Any:
    """The value of one parameter of a verb."""
    kind: Any = parameter.annotation
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return values[parameter.name]
    return kind(**{f.name: values[f.name] for f in fields(kind)})


def option(row: Word[Any]) -> inspect.Parameter:
    """A word as an option that Typer understands."""
    takes: Any = row.kind.takes if row.is_needed else TAKES.get(row.kind.takes, row.kind.takes)
    takes = Optional[bool] if takes is bool and row.default is None else takes  # noqa: UP045
    is_shown = row.kind.takes is bool or row.shows_default
    default = inspect.Parameter.empty if row.is_needed else row.default if is_shown else None
    annotation = Annotated[takes, about(row), row.kind.file]
    return inspect.Parameter(parameter_of(row), inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def about(row: Word[Any]) -> Any:
    """What Typer is told of a word: its flags, and what the help page says of it."""
    if row.is_argument:
        return typer.Argument(metavar=row.kind.metavar, help=row.says)
    named = f"{row.flag}/--no-{row.flag[2:]}" if row.is_negated else row.flag
    flags = [named, *([row.singular] if row.singular else [])]
    bounds = row.bounds if row.kind.takes in (int, float) else None
    least, most = (None, None) if bounds is None else (bounds.least, None if bounds.most == math.inf else bounds.most)
    return typer.Option(
        *flags, metavar=row.kind.metavar or None, help=row.says, min=least, max=most, rich_help_panel=row.heading
    )


def parameter_of(row: Word[Any]) -> str:
    """The name of a word as a parameter of a function."""
    return f"{row.name}_" if keyword.iskeyword(row.name) else row.name


def typed_of(values: Mapping[str, Any], rows: Mapping[str, Word[Any]], context: typer.Context) -> Typed:
    """What was typed apart from what is preferred; a preference of a word that takes none is not heard."""
    from gpufleet.cli.preferred import names_preferred
    from gpufleet.inputs.workload import WorkloadFile

    said = WorkloadFile(
        {name: as_said(value) for name, value in values.items() if is_said(value) or is_negation(rows.get(name), value)}
    )
    liked = {name for name, row in rows.items() if parameter_of(row) in names_preferred(context)}
    preferred = said.only({name for name in liked if rows[name].preferred is not None})
    return Typed(said.without(*liked), preferred, frozenset(n for n, row in rows.items() if is_unsaid(row, context)))


def is_said(value: object) -> bool:
    """Whether a value says anything: zero does, an empty list and a switch that does not stand do not."""
    return bool(value) or type(value) in (int, float)


def is_negation(row: Word[Any] | None, value: object) -> bool:
    """Whether a value says of a word that it does not hold."""
    return value is False and row is not None and row.default is None


def is_unsaid(row: Word[Any], context: typer.Context) -> bool:
    """Whether a word has its default."""
    source = context.get_parameter_source(parameter_of(row))
    return source is None or source.name == "DEFAULT"


def as_said(value: bool | int | str | list[str]) -> Said:
    """A value as Typer gives it, as it would be written in a file."""
    if isinstance(value, list):
        return tuple(words(value))
    return {True: STANDS, False: "no"}[value] if isinstance(value, bool) else str(value)
