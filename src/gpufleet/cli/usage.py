"""What the option parser refuses, said the way gpufleet says it.

Typer carries its own copy of Click or uses the separate package, by version; both are told by what they offer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpufleet.errors import GpufleetError, UnknownName, UsageError

SHORT_FLAG = len("-o")
EXPECTED = tuple(
    (re.compile(form), said)
    for form, said in (
        (r"is not one of (.*?)\.?$", r"one of \1"),
        (r"greater than or equal to (\S+?)\.?$", r"at least \1"),
        (r"less than or equal to (\S+?)\.?$", r"at most \1"),
        (r"not in the range (\S+)<=x<=(\S+?)\.?$", r"a number from \1 to \2"),
        (r"not in the range x>=(\S+?)\.?$", r"at least \1"),
        (r"not in the range x<=(\S+?)\.?$", r"at most \1"),
        (r"valid int(?:eger)?\b|as an integer", "a whole number"),
        (r"valid (?:number|float)\b", "a number"),
        (r"valid boolean\b", "true or false"),
    )
)


def as_user_error(error: Exception, arguments: Sequence[str] = ()) -> GpufleetError | None:
    """The error as the user's to mend, or None when it is ours; `arguments` are the words that were typed."""
    if isinstance(error, GpufleetError):
        return error
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        return UnknownName("option", error.option_name, option_names(error), hint=help_hint(error))
    if hasattr(error, "format_message"):
        return misread(error, arguments)
    return None


def misread(error: Any, arguments: Sequence[str]) -> UsageError:
    """A sub-verb that does not exist, or anything else that the parser could not read."""
    message = error.format_message()
    unknown = re.match(r"No such command '(.*?)'", message)
    if unknown:
        return UnknownName("verb", unknown[1], error.ctx.command.commands, hint=help_hint(error))
    expected = expected_value(message)
    if expected is not None and getattr(error, "param", None) is not None:
        flags = error.param.opts
        name = " / ".join(flags) if flags[0].startswith("-") else error.param.human_readable_name
        return UsageError(
            f"cannot read {name}", found=typed_value(flags, arguments), expected=expected, hint=help_hint(error)
        )
    return UsageError(first_lower(message), hint=help_hint(error))


def expected_value(message: str) -> str | None:
    """What the parser wanted, in the words of the house; None for what is no matter of one value.

    >>> expected_value("Invalid value for '--limit': 0 is not in the range 1<=x<=9.")
    'a number from 1 to 9'
    """
    return next((match.expand(said) for form, said in EXPECTED if (match := form.search(message))), None)


def typed_value(flags: Sequence[str], arguments: Sequence[str]) -> str | None:
    """The last value typed for one of these flags: '--limit 0', '--limit=0' or '-oyaml'."""
    typed = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=False):
        flag, equals, value = word.partition("=")
        short = next((f for f in flags if len(f) == SHORT_FLAG and word.startswith(f) and word != f), None)
        if word in flags:
            typed = following
        elif equals and flag in flags:
            typed = value
        elif short is not None:
            typed = word.removeprefix(short)
    return typed


def option_names(error: Any) -> list[str]:
    """The options that the refused command line could have used."""
    context = getattr(error, "ctx", None)
    return [name for parameter in context.command.params for name in parameter.opts] if context else []


def help_hint(error: Any) -> str | None:
    """Where to read on."""
    context = getattr(error, "ctx", None)
    return f"'{context.command_path} --help' explains." if context else None


def first_lower(message: str) -> str:
    """Typer begins with a capital; our messages follow a colon."""
    return message[:1].lower() + message[1:]
