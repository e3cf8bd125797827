"""From a command line to an exit code: find the verb, run it, turn what goes wrong into one message.

Nothing heavy is imported here: `gpufleet --help` must answer at once, so a verb's module loads when it is named.
"""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO

from gpufleet.cli.output_stream import remark, say, tolerate_narrow_encodings
from gpufleet.cli.verbs import EXAMPLES, VERBS, Verb
from gpufleet.errors import UnknownName

OUR_BUG = 1
INTERRUPTED = 130
HELP_FLAGS = ("-h", "--help", "help")
VERSION_FLAGS = ("-V", "--version")


def run(arguments: list[str]) -> int:
    """Answer one command line; every outcome is an exit code, never a traceback."""
    tolerate_narrow_encodings()
    try:
        return dispatch(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return explain_failure(error, arguments)


def dispatch(arguments: list[str]) -> int:
    """Run the verb that the first word names."""
    if not arguments:
        say(orientation())
        return 0
    word, *rest = arguments
    if word in VERSION_FLAGS:
        say(version_line())
        return 0
    if word in HELP_FLAGS:
        return dispatch([*rest[:1], "--help"]) if rest else print_overview()
    if word.startswith("-"):
        raise UnknownName("option", word, (*HELP_FLAGS, *VERSION_FLAGS), hint="Options come after the verb.")
    return run_verb(find_verb(word), rest)


def find_verb(word: str) -> Verb:
    """The verb of that name, or an error with the nearest ones."""
    by_name = {verb.name: verb for verb in VERBS}
    if word not in by_name:
        raise UnknownName("verb", word, by_name, hint="'gpufleet --help' lists them.")
    return by_name[word]


def run_verb(verb: Verb, arguments: list[str]) -> int:
    """Load the verb's module and let its Typer application parse the rest."""
    from gpufleet.cli.options import refuse_empty_values, sub_verb

    refuse_empty_values(arguments)
    app, name = import_module(verb.module).app, f"gpufleet {verb.name}"
    alone = sub_verb(app, arguments[0]) if arguments else None
    if alone is not None:
        app, name, arguments = alone, f"{name} {arguments[0]}", arguments[1:]
    if not any(word in HELP_FLAGS for word in arguments):
        return exit_code(app(arguments, prog_name=name, standalone_mode=False))
    with redirect_stdout(StringIO()) as page:
        outcome = app(arguments, prog_name=name, standalone_mode=False)
    say(page.getvalue())
    return exit_code(outcome)


def exit_code(outcome: object) -> int:
    """What a verb returned; nothing is success."""
    return outcome if isinstance(outcome, int) else 0


def print_overview() -> int:
    """`gpufleet --help`."""
    say(overview())
    return 0


def overview() -> str:
    """Usage, and one line per verb."""
    width = max((len(verb.name) for verb in VERBS), default=0)
    lines = [f"  {verb.name:<{width}}  {verb.purpose}" for verb in VERBS]
    usage = ["Usage: gpufleet VERB [OPTIONS]", "", "Verbs:", *lines, ""]
    return "\n".join([*usage, "'gpufleet VERB --help' explains one; 'gpufleet --version' names this release.\n"])


def orientation() -> str:
    """What somebody reads who typed the bare command."""
    purpose = "gpufleet: which GPUs, how many, in what layout, where and for how much\nserve an AI model."
    shown = [f"  {example}" for example in EXAMPLES]
    return "\n".join([purpose, "", "Try:", *shown, "", "'gpufleet --help' lists all verbs.\n"])


def version_line() -> str:
    """Name and release of what is installed."""
    from importlib.metadata import version

    return f"gpufleet {version('gpu-fleet-optimizer')}\n"


def explain_failure(error: Exception, arguments: list[str]) -> int:
    """One message on stderr, and the exit code of its kind."""
    from gpufleet.cli.usage import as_user_error

    if type(error).__name__ == "Abort":
        return INTERRUPTED
    known = as_user_error(error, arguments)
    if known is not None:
        complain(str(known))
        return known.exit_code
    if os.environ.get("GPUFLEET_DEBUG") == "1":
        raise error
    complain(f"this is our bug: {type(error).__name__}: {error}. GPUFLEET_DEBUG=1 shows where; please report it.")
    return OUR_BUG


def complain(message: str) -> None:
    """Say on stderr what went wrong, on one line that cannot move the cursor."""
    from gpufleet.report.text import printable

    remark(f"gpufleet: error: {printable(' '.join(message.split()))}")
