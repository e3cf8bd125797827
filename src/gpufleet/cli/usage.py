"""What the option parser refuses, said the way gpufleet says it.

Typer carries its own copy of Click or uses the separate package, by version; both are told by what they offer.
"""

from __future__ import annotations

from typing import Any

from gpufleet.errors import GpufleetError, UnknownName, UsageError


def as_user_error(error: Exception) -> GpufleetError | None:
    """The error as the user's to mend, or None when it is ours."""
    if isinstance(error, GpufleetError):
        return error
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        return UnknownName("option", error.option_name, option_names(error), hint=help_hint(error))
    if hasattr(error, "format_message"):
        return UsageError(first_lower(error.format_message()), hint=help_hint(error))
    return None


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
