"""Options that verbs share, and the shape of a verb's application.

A verb is `app = verb()` with one command, or `app = verb_group("...")` with several. Its module imports the api, the
catalog and the pages inside of the command, so that `--help` waits for neither NumPy nor pydantic.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from gpufleet.errors import UsageError, abridged
from gpufleet.questions.words import EDITED, FileUse
from gpufleet.records import dataclass
from gpufleet.units import parse_tokens

if TYPE_CHECKING:
    from gpufleet.domain.token_counts import TokenCounts


class OutputFormat(str, Enum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"
    HTML = "html"
    SVG = "svg"


YAML_SUFFIXES = (".yaml", ".yml")


def refuse_workload_file(context: typer.Context, model: str | None) -> str | None:
    """The model that was typed, but a YAML file, which goes behind `--workload` of a verb that has it."""
    if model is None or not model.lower().endswith(YAML_SUFFIXES):
        return model
    params = context.command.params
    needed = [str(p.metavar) for p in params if p.param_type_name == "argument" and p.required]
    reads_it = any("--workload" in p.opts for p in params)
    command = " ".join([context.command_path, *needed]) if reads_it else "gpufleet plan serve"
    raise UsageError(
        "a YAML file is no model",
        found=model,
        expected="a name, a config.json or its folder",
        hint=f"The file of a workload goes behind --workload: '{command} --workload {abridged(quote(model))}'.",
    )


def model_argument(metavar: str = "MODEL", says: str = "A name, a config.json, or the folder of one.") -> Any:
    """The argument that names a model, of which a verb may need one or not."""
    return typer.Argument(metavar=metavar, help=says, show_default=False, callback=refuse_workload_file)


ModelArgument = Annotated[str, model_argument(), FileUse.MAYBE_READ]
MaybeModelArgument = Annotated[Optional[str], model_argument(), FileUse.MAYBE_READ]  # noqa: UP045
OutputOption = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="Format of the answer; default: by the suffix of --out-file, else table."),
]
OutFileOption = Annotated[
    str | None,
    typer.Option("--out-file", metavar="FILE", help="Write the answer to FILE instead of standard output."),
    FileUse.HERE,
]


EditedOption = Annotated[bool, typer.Option("--edited", help=EDITED.says)]


@dataclass(frozen=True)
class Written:
    """How an answer is written, and where."""

    output: OutputOption = None
    out_file: OutFileOption = None


ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Show the formula, the numbers put in and the source of every figure.")
]


PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 80},
}


def verb() -> typer.Typer:
    """The application of a verb with a single command."""
    return typer.Typer(**PLAIN)


def verb_group(purpose: str) -> typer.Typer:
    """The application of a verb with sub-verbs, such as `plan serve`."""
    app = typer.Typer(**PLAIN)

    @app.callback(help=purpose)
    def group() -> None:
        pass

    return app


def is_group(app: typer.Typer) -> bool:
    """Whether an application is a group of verbs."""
    return app.registered_callback is not None


def sub_verbs(group: typer.Typer) -> dict[str, typer.models.CommandInfo]:
    """The verbs of a group by name; one without a name of its own is called as its function."""
    commands = group.registered_commands
    return {c.name or getattr(c.callback, "__name__", "").replace("_", "-"): c for c in commands}


def sub_verb(group: typer.Typer, name: str) -> typer.Typer | None:
    """A sub-verb as an application of its own: going through its group, some releases of Typer load pydantic."""
    found = sub_verbs(group).get(name)
    if found is None:
        return None
    alone = typer.Typer(**PLAIN)
    alone.registered_commands.append(found)
    return alone


def words(texts: Sequence[str]) -> list[str]:
    """The names of a flag that is given once with commas, or several times.

    >>> words(["aws, gcp", "azure"])
    ['aws', 'gcp', 'azure']
    """
    found = [word.strip() for text in texts for word in text.split(",")]
    if not all(found):
        expected = "names separated by commas"
        raise UsageError("an empty name in a list of names", found=",".join(texts), expected=expected)
    return list(dict.fromkeys(found))


def refuse_empty_values(arguments: Sequence[str]) -> None:
    """An empty word is a shell variable that was not set, never a wish for the default."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        flag, equals, value = word.partition("=")
        if not word.strip() or (flag.startswith("--") and equals and not value.strip()):
            name = flag if equals else before if before.startswith("-") else "an argument"
            raise UsageError(f"{name} has no value", expected="a value, or the flag left out")


def answer_counts(text: str) -> TokenCounts | float:
    """Tokens of answers; a lone word is checked for being a file's name."""
    from gpufleet.inputs.token_counts import parse_token_counts, says_more

    return parse_token_counts(text) if says_more(text) else answer_tokens(text)


def answer_tokens(text: str) -> float:
    """What `--out` says: tokens of an answer, which a file name is not."""
    try:
        return parse_tokens(text)
    except UsageError as error:
        hint = "--out is the tokens of an answer; --out-file FILE writes the page to a file."
        raise UsageError(error.problem, found=error.found, expected=error.expected, hint=hint) from None
