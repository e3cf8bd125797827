"""Options under headings: a verb with many of them stays readable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

from gpufleet.questions.words import BESIDE, HEADINGS, LOAD, TABLES, WRITTEN

REST = "Options"
OF_ANSWERS: dict[str, tuple[str, ...]] = {
    LOAD: ("--model",),
    TABLES: ("--catalog", "--as-of", "--max-age", "--prices", "--seed-config"),
    BESIDE: (
        "--why-not",
        "--flips",
        "--pareto",
        "--edited",
        "--verify",
        "--picture",
        "--per-request",
        "--token-price",
        "--grid",
        "--show",
        "--explain",
    ),
    WRITTEN: ("--output", "--out-file", "--help"),
}
HEADING_OF = {flag: heading for heading, flags in OF_ANSWERS.items() for flag in flags}


class GroupedCommand(TyperCommand):
    """A command whose help stands under headings, in their order; what has none comes last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, heading by heading."""
        parts: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{heading: [] for heading in HEADINGS}, REST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                said = getattr(parameter, "rich_help_panel", None)
                parts[said or heading_of(parameter.opts, parameter.param_type_name)].append(record)
        for heading, records in parts.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def heading_of(flags: Iterable[str], kind: str) -> str:
    """The heading of an option that is no word of a question: those say theirs.

    >>> heading_of(["--flips"], "option"), heading_of(["-o", "--output"], "option")
    ('Further questions', 'Output')
    """
    if kind == "argument":
        return "Arguments"
    return next((HEADING_OF[flag] for flag in flags if flag in HEADING_OF), REST)
