"""What the option parser refuses, said the way gpufleet says it.

Typer carries its own copy of Click or uses the separate package, by version; both are told by what they offer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpufleet.errors import GpufleetError, TooLarge, UnknownName, UsageError
from gpufleet.table import SUCH_AS

SHORT_FLAG = len("-o")
SAME_MEANING = {
    **dict.fromkeys(("rps", "qps", "requests-per-second", "request-rate", "throughput"), "--rate, such as 50/s"),
    **dict.fromkeys(("isl", "input", "input-tokens", "prompt", "prompt-tokens", "input-len"), "--in TOKENS"),
    **dict.fromkeys(("osl", "output-tokens", "answer-tokens", "output-len"), "--out TOKENS"),
    **dict.fromkeys(("quantization", "quant", "dtype", "weights"), "--precision, such as fp8"),
    **dict.fromkeys(("ttft", "tpot", "itl", "p95"), "--slo, such as 'ttft.p95<500ms'"),
    "latency": "--slo, such as 'latency.p95<2s'",
    **dict.fromkeys(("spot", "on-demand"), "--pricing, such as spot"),
    **dict.fromkeys(("provider", "providers"), "--cloud, such as aws"),
    **dict.fromkeys(("users", "clients", "concurrent"), "--concurrency N"),
    **dict.fromkeys(("context-length", "max-seq-len"), "--max-model-len TOKENS"),
    "ctx": "--context TOKENS",
    **dict.fromkeys(("disable-cuda-graph", "eager"), "--enforce-eager"),
    "tokens-per-block": "--block-size N",
    **dict.fromkeys(("spare", "spares", "redundancy"), "--spare-machines N"),
    **dict.fromkeys(("prefix", "cache", "prefix-caching"), "--prefix-cache SHARE"),
    **dict.fromkeys(("json", "csv", "markdown", "format"), "-o json, -o csv or -o md"),
    **dict.fromkeys(("model", "model-id"), "MODEL, a word without a flag before it"),
}
ELSE_MEANING = dict.fromkeys(("users", "clients", "concurrent", "concurrency", "sequences"), "--batch N")
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


NO_MEMORY = "the memory of this machine does not hold the answer"


def as_user_error(error: Exception, arguments: Sequence[str] = ()) -> GpufleetError | None:
    """The error as the user's to mend, or None when it is ours; `arguments` are the words that were typed."""
    if isinstance(error, GpufleetError):
        return error
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        return unknown_option(error)
    if isinstance(error, MemoryError):
        return TooLarge(NO_MEMORY, hint="Ask about less at once: fewer requests, regions, GPUs or rows.")
    if hasattr(error, "format_message"):
        return misread(error, arguments)
    return None


def unknown_option(error: Any) -> UsageError:
    """An option that the verb does not have; the one of the same meaning is offered before those of like spelling."""
    name, known = error.option_name, option_names(error)
    word = name.lstrip("-").replace("_", "-")
    for meant in filter(None, (SAME_MEANING.get(word), ELSE_MEANING.get(word))):
        if re.split("[ ,]", meant)[0] in (*known, "MODEL"):
            return UsageError(f"unknown option {name!r}", hint=f"Say it as {meant}. {help_hint(error)}")
    return UnknownName("option", name, known, hint=help_hint(error))


def misread(error: Any, arguments: Sequence[str]) -> UsageError:
    """A value, an option or an argument that the parser could not read."""
    message = error.format_message()
    expected = expected_value(message)
    if expected is not None and getattr(error, "param", None) is not None:
        flags = error.param.opts
        name = " / ".join(flags) if flags[0].startswith("-") else error.param.human_readable_name
        return UsageError(
            f"cannot read {name}", found=typed_value(flags, arguments), expected=expected, hint=help_hint(error)
        )
    return missing_or_too_much(error, message) or UsageError(first_lower(message), hint=help_hint(error))


def missing_or_too_much(error: Any, message: str) -> UsageError | None:
    """Too few words or too many."""
    missing = re.match(r"Missing (?:argument|option) '(.*?)'", message)
    if missing:
        return UsageError(f"{missing[1]} is missing", hint=such_as(error) or help_hint(error))
    empty = re.match(r"Option '(.*?)' requires an argument", message)
    if empty:
        return UsageError(f"{empty[1]} has no value", expected="a value after it", hint=help_hint(error))
    extra = re.match(r"Got unexpected extra arguments? ?(?:\(s\) )?\((.*)\)", message)
    if extra:
        expected = "options with '--' before their names, and names with spaces in quotes"
        return UsageError("a word too many", found=extra[1], expected=expected, hint=help_hint(error))
    return None


def such_as(error: Any) -> str | None:
    """A command line that works, where one is known for the verb."""
    context = getattr(error, "ctx", None)
    example = SUCH_AS.get(context.command_path.removeprefix("gpufleet ")) if context else None
    return f"Try '{example}'; {help_hint(error)}" if example else None


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
