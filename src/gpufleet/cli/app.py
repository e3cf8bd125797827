"""From a command line to an exit code: find the verb, run it, turn what goes wrong into one message.

Nothing heavy is imported here: `gpufleet --help` must answer at once, so a verb's module loads when it is named.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import redirect_stdout
from contextvars import copy_context
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING

from gpufleet.cli.orientation import group_overview, orientation, overview, unknown_sub_verb
from gpufleet.errors import GpufleetError, OurBug, UnknownName
from gpufleet.report.output_stream import remark, say, tolerate_narrow_encodings, write_everything
from gpufleet.table import VERBS, Verb

if TYPE_CHECKING:
    import typer

INTERRUPTED = 128 + signal.SIGINT
HELP_FLAGS = ("-h", "--help", "help")
COMPLETION_VARIABLE = "_GPUFLEET_COMPLETE"
COMPLETION_FLAGS = ("--install-completion", "--show-completion")
VERSION_FLAGS = ("-V", "--version", "version")


def run(arguments: list[str]) -> int:
    """Answer one command line in a context of its own; every outcome is an exit code, never a traceback."""
    write_everything()
    tolerate_narrow_encodings()
    try:
        return copy_context().run(dispatch, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return explain_failure(error, arguments)


def dispatch(arguments: list[str]) -> int:
    """Run the verb that the first word names."""
    if COMPLETION_VARIABLE in os.environ:
        return complete_words(())
    if not arguments:
        return shown(orientation())
    word, *rest = arguments
    if word in COMPLETION_FLAGS:
        return complete_words(arguments)
    if word in VERSION_FLAGS:
        return shown(version_line())
    if word in HELP_FLAGS:
        return dispatch([*named_verb(rest), "--help"]) if rest else shown(overview())
    if word.startswith("-"):
        flags = [flag for flag in (*HELP_FLAGS, *VERSION_FLAGS, *COMPLETION_FLAGS) if flag.startswith("-")]
        raise UnknownName("option", word, flags, hint="Options come after the verb.")
    return run_verb(find_verb(word), rest)


def complete_words(arguments: Sequence[str]) -> int:
    """What a shell asks when somebody presses TAB, or how it is taught to ask."""
    from gpufleet.cli.completion import complete

    return complete(arguments)


def shown(page: str) -> int:
    """Print a page; that is all."""
    say(page)
    return 0


def named_verb(words: Sequence[str]) -> list[str]:
    """The verb that help is wanted on, with its sub-verb: options and flags for help say nothing here."""
    return [word for word in words if not word.startswith("-")]


def find_verb(word: str) -> Verb:
    """The verb of that name, or an error with the nearest ones."""
    by_name = {verb.name: verb for verb in VERBS}
    if word not in by_name:
        raise UnknownName("verb", word, by_name, hint="'gpufleet --help' lists them.")
    return by_name[word]


def run_verb(verb: Verb, arguments: list[str]) -> int:
    """Load the verb's module and let its Typer application parse the rest."""
    from gpufleet.cli.options import is_group, refuse_empty_values

    refuse_empty_values(arguments)
    app = import_module(verb.module).app
    if is_group(app):
        return run_group(verb, app, arguments)
    return run_command(app, f"gpufleet {verb.name}", arguments)


def run_group(verb: Verb, group: typer.Typer, arguments: list[str]) -> int:
    """Run the verb of a group that the first word names; without one, list them."""
    from gpufleet.cli.options import sub_verb

    if not arguments or arguments[0] in HELP_FLAGS:
        return shown(group_overview(verb, group))
    word, *rest = arguments
    alone = sub_verb(group, word)
    if alone is None:
        raise unknown_sub_verb(verb, group, word)
    return run_command(alone, f"gpufleet {verb.name} {word}", rest)


def run_command(app: typer.Typer, name: str, arguments: list[str]) -> int:
    """Let one Typer command parse its words; its help goes out like an answer."""
    from gpufleet.cli.preferred import defaults_of

    if not any(word in HELP_FLAGS for word in arguments):
        with defaults_of(name) as defaults:
            return exit_code(app(arguments, prog_name=name, standalone_mode=False, default_map=defaults))
    with redirect_stdout(StringIO()) as page:
        outcome = app(arguments, prog_name=name, standalone_mode=False)
    say(page.getvalue())
    return exit_code(outcome)


def exit_code(outcome: object) -> int:
    """What a verb returned; nothing is success."""
    return outcome if isinstance(outcome, int) else 0


def version_line() -> str:
    """Name and release of what is installed."""
    from importlib.metadata import version

    return f"gpufleet {version('gpu-fleet-optimizer')}\n"


def explain_failure(error: Exception, arguments: list[str]) -> int:
    """One message on stderr, and the exit code of its kind."""
    if type(error).__name__ == "Abort":
        return INTERRUPTED
    known = as_told(error, arguments)
    complain(str(known))
    return known.exit_code


def as_told(error: Exception, arguments: list[str]) -> GpufleetError:
    """What went wrong as its user is told."""
    from gpufleet.cli.usage import as_user_error

    known = as_user_error(error, arguments)
    if known is None and os.environ.get("GPUFLEET_DEBUG") == "1":
        raise error
    return OurBug(error) if known is None else known


def complain(message: str) -> None:
    """Say on stderr what went wrong, on one line."""
    remark(f"gpufleet: error: {' '.join(message.split())}")
