"""Where a reader is and what can be typed next: the bare command, the overview, and the page of a group of verbs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpufleet.errors import UnknownName, UsageError
from gpufleet.table import EXAMPLES, VERBS, Verb

if TYPE_CHECKING:
    import typer

WIDTH = 80


def orientation() -> str:
    """What somebody reads who typed the bare command."""
    purpose = "gpufleet: which GPUs, how many, in what layout, where and for how much\nserve an AI model."
    shown = [f"  {example}" for example in EXAMPLES]
    see = "'gpufleet demo' answers one question step by step; 'gpufleet --help' lists all\nverbs.\n"
    return "\n".join([purpose, "", "Try:", *shown, "", see])


def overview() -> str:
    """Usage, and one line per verb."""
    lines = purposes((verb.name, verb.purpose) for verb in VERBS)
    usage = ["Usage: gpufleet VERB [OPTIONS]", "", "Verbs:", *lines, ""]
    return "\n".join([*usage, "'gpufleet VERB --help' explains one; 'gpufleet --version' names this release.\n"])


def group_overview(verb: Verb, group: typer.Typer) -> str:
    """Usage of a group of verbs such as `plan`, and one line per verb."""
    from gpufleet.cli.options import sub_verbs

    name = f"gpufleet {verb.name}"
    lines = purposes((word, purpose_of(command)) for word, command in sub_verbs(group).items())
    usage = [f"Usage: {name} VERB [OPTIONS]", "", f"{verb.purpose}.", "", "Verbs:", *lines, ""]
    return "\n".join([*usage, f"'{name} VERB --help' explains one.\n"])


def purpose_of(command: typer.models.CommandInfo) -> str:
    """What a verb is for: how its function's docstring begins."""
    return first_clause(command.callback.__doc__ if command.callback else None)


def first_clause(text: str | None) -> str:
    """What a docstring says before its first full stop or semicolon.

    >>> first_clause("Memory of a model by part; by default the seed's example of 7B.")
    'Memory of a model by part'
    """
    line = (text or "").strip().partition("\n")[0]
    return line.partition("; ")[0].partition(". ")[0].rstrip(".")


def purposes(named: Iterable[tuple[str, str]]) -> list[str]:
    """Names and what they are for, aligned; a long purpose goes on below itself."""
    rows = list(named)
    room = max((len(name) for name, _ in rows), default=0) + len("    ")
    return [
        textwrap.fill(
            purpose, WIDTH, initial_indent=f"  {name}".ljust(room), subsequent_indent=" " * room, break_on_hyphens=False
        )
        for name, purpose in rows
    ]


def unknown_sub_verb(verb: Verb, group: typer.Typer, word: str) -> UsageError:
    """The error of a word after a group that names none of its verbs."""
    from gpufleet.cli.options import sub_verbs

    names = list(sub_verbs(group))
    if word.startswith("-"):
        hint = f"Options come after it, as in 'gpufleet {verb.name} {names[0]} {word} ...'."
        return UsageError(f"'gpufleet {verb.name}' needs a verb", found=word, expected=listed(names), hint=hint)
    return UnknownName(f"{verb.name} verb", word, names, hint=f"'gpufleet {verb.name}' has {listed(names)}.")


def listed(names: list[str]) -> str:
    """Names as a sentence lists them.

    >>> listed(["gpus", "models", "prices"])
    'gpus, models or prices'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
