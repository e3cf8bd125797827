"""What the option parser refuses, said the way gpufleet says it.

Typer carries its own copy of Click or uses the separate package, by version; both are told by what they offer.
"""

from __future__ import annotations

import re
from typing import Any

from gpufleet.errors import GpufleetError, UnknownName, UsageError


def as_user_error(error: Exception) -> GpufleetError | None:
    """The error as the user's to mend, or None when it is ours."""
    if isinstance(error, GpufleetError):
        return error
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        return UnknownName("option", error.option_name, option_names(error), hint=help_hint(error))
    if hasattr(error, "format_message"):
        return misread(error)
    return None


def misread(error: Any) -> UsageError:
    """A sub-verb that does not exist, or anything else that the parser could not read."""
    message = error.format_message()
    unknown = re.match(r"No such command '(.*?)'", message)
    if unknown:
        return UnknownName("verb", unknown[1], error.ctx.command.commands, hint=help_hint(error))
    return UsageError(first_lower(message), hint=help_hint(error))


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
