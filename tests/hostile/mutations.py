"""Ways in which a valid question goes wrong: in a file that it reads, in a word, in an option, around it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import typer
from tests.hostile.valid_questions import SAID
from typer.main import get_command

from gpufleet.cli.options import is_group, sub_verb, sub_verbs
from gpufleet.results.seal import SEAL, seal_of
from gpufleet.table import VERBS

HUGE = (
    "0", "-1", "-0", "1e308", "1e-308", "1e300", "1e-300", "1e999", "nan", "inf", "-inf", "9" * 40, "9" * 400,
    "9" * 5000, "0." + "0" * 300 + "1", "1e15", "1e-9", "2147483648", "18446744073709551616", "0x10", "1_0", "1,5",
    "٣", "½",
)  # fmt: skip
HOSTILE = (
    *HUGE, "", " ", "\t", "\n", "\x00", "\x1b[31m", "\u202e", "\x9b", "\ufeff", "é", "🦙", "\udcff", "-", "--", "=",
    ",", ":", "@", "%", "/", ".", "..", "~", "~nobody/x", "null", "None", "true", "[]", "{}", "=1+1", "+1",
    "@SUM(A1)", "'; DROP", "a" * 300, "a" * 10_000, "/dev/null", "/dev/zero", "missing/file", "x" * 5000 + "/y",
    "http://localhost/x", "50/s", "20%", "1e300/s", "1e-300/s", "1e300/h", "1e-300/h", "1e300s", "1e-300s",
    "1e300GB", "-20%", "+1e300%", "8k", "10M", "24h", "30d", "EUR@1e300", "L4", "L4:8", "L4:0", "H100:1024", "aws",
    "aws,gcp", "all", "spot", "on_demand", "fp8", "int4", "vllm", "sglang", "ttft.p95<500ms", "ttft<0.001ms",
    "latency.p99<1e10s", "tpot<1us", "llama-3.1-8b", "bge-m3", "1", "2", "7", "1000", "99999", "2026-08-31",
    "9999-12-31", "0001-01-01", "3 aws:g6.xlarge@0.8/h", "9 L4:1", "1/2", "mean=100,p95=400", "p50=1,max=2",
)  # fmt: skip
PIECES = (
    "", " ", "\n", "\r\n", "\t", ":", ",", "-", "[", "]", "{", "}", "'", '"', "%", "#", "&a", "*a", "!x", "|", ">",
    "?", "\x00", "\x1b", "null", "~", "0", "-1", "1e999", "nan", "NaN", "Infinity", "1_0", "1,5", "é", "½", "\u202e",
    "\udcff", "=", "<", "/s", "\\", "9" * 400, "[" * 2000, "{\"a\":" * 2000, "true", "''", '""',
)  # fmt: skip
VALUES = (
    None, True, False, "", "x", "NaN", [], {}, [1], [[[]]], {"a": {}}, 0, -1, 1, 3, 7, 0.5, 1e300, 1e-300, -1e308,
    10**30, 10**300, float("nan"), float("inf"), "9" * 400, "\u202e", "\x00", "bf16", 2**24, 2**31,
)  # fmt: skip
VARIABLES = (
    "GPUFLEET_CLOUDS", "GPUFLEET_REGIONS", "GPUFLEET_PRICING", "GPUFLEET_ENGINE", "GPUFLEET_SLO",
    "GPUFLEET_HEADROOM", "GPUFLEET_CURRENCY", "GPUFLEET_CATALOG", "GPUFLEET_CONFIG", "GPUFLEET_PRICES", "GPUFLEET_X",
    "GPUFLEET_DATE", "COLUMNS", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "NO_COLOR", "LINES", "TERM",
)  # fmt: skip
FORMATS = ("json", "csv", "md", "html", "svg", "table")
SEALED_SHARE = 0.5
Mutate = Callable[[str, random.Random], str]


class Option:
    """One option of one verb, as its parser knows it."""

    def __init__(self, flags: list[str], is_flag: bool):
        self.flags, self.is_flag = flags, is_flag


def options_of(app: typer.Typer) -> list[Option]:
    """The options that an application takes now: a new one is fuzzed without a line here."""
    command: Any = get_command(app)
    named = [p for p in command.params if p.opts and p.opts[0].startswith("-")]
    return [Option([*p.opts, *p.secondary_opts], bool(getattr(p, "is_flag", False))) for p in named]


def every_option() -> dict[tuple[str, ...], list[Option]]:
    """The options of every verb, by the words that name it."""
    found: dict[tuple[str, ...], list[Option]] = {}
    for verb in VERBS:
        app = import_module(verb.module).app
        for name in sub_verbs(app) if is_group(app) else ():
            alone = sub_verb(app, name)
            assert alone is not None
            found[verb.name, name] = options_of(alone)
        if not is_group(app):
            found[(verb.name,)] = options_of(app)
    return found


def mangled(text: str, dice: random.Random) -> str:
    """A text with a piece cut out, put in, doubled, flipped or torn off."""
    at, length = dice.randrange(len(text) + 1), dice.randint(1, 12)
    return dice.choice(
        (
            lambda: text[:at] + dice.choice(PIECES) + text[at:],
            lambda: text[:at] + dice.choice(PIECES) + text[at + length :],
            lambda: text[:at] + text[at + length :],
            lambda: text[:at] + text[at : at + length] * dice.randint(2, 4) + text[at + length :],
            lambda: (
                text[:at] + chr(ord(text[at]) ^ 1 << dice.randrange(7)) + text[at + 1 :] if at < len(text) else text
            ),
            lambda: text[:at],
        )
    )()


def other_lines(text: str, dice: random.Random) -> str:
    """Lines lost, doubled or in another order."""
    lines = text.splitlines(keepends=True) or [""]
    at = dice.randrange(len(lines))
    return "".join(
        dice.choice((lines[:at] + lines[at + 1 :], [*lines, lines[at]], lines[at:] + lines[:at], lines[:at] * 3))
    )


def other_number(text: str, dice: random.Random) -> str:
    """One number replaced by a few times as much, or by one that nobody means."""
    numbers = list(re.finditer(r"(?<![\w.])-?\d[\d.]*", text))
    if not numbers:
        return mangled(text, dice)
    found = dice.choice(numbers)
    other = f"{found[0]}{dice.choice(('0', '000', '.5', '7'))}" if dice.random() < 0.4 else dice.choice(HUGE)
    return text[: found.start()] + other + text[found.end() :]


def other_word(text: str, dice: random.Random) -> str:
    """One cell, value or key replaced by a hostile word."""
    found = dice.choice(list(re.finditer(r"[^\s,:{}\[\]\"=]+", text)) or [re.match("", text)])
    assert found is not None
    return text[: found.start()] + dice.choice(HOSTILE) + text[found.end() :]


def other_bytes(text: str, dice: random.Random) -> str:
    """The same in another encoding, or nothing at all; the bytes are kept as characters below 256."""
    return dice.choice(
        (
            lambda: "",
            lambda: "\ufeff" + text,
            lambda: text.replace("\n", "\r\n"),
            lambda: text.replace("\n", "\r"),
            lambda: "\x00" * 10,
            lambda: "\udcff\udcfe" + text,
            lambda: "".join(f"{c}\x00" for c in text),
            lambda: "[" * dice.choice((60, 2_000, 100_000)),
            lambda: text * 20,
        )
    )()


def other_value(text: str, dice: random.Random) -> str:
    """A JSON text with one value of another kind, one key lost, or one key twice; anything else is mangled."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return other_word(text, dice)
    places = list(places_of(content))
    if not places:
        return mangled(text, dice)
    holder, key = dice.choice(places)
    roll = dice.random()
    if roll < 0.1:
        del holder[key]
    elif roll < 0.2 and isinstance(holder, dict):
        return json.dumps(content, indent=1).replace(
            json.dumps(key) + ":", f"{json.dumps(key)}: 1, {json.dumps(key)}:", 1
        )
    else:
        holder[key] = dice.choice(VALUES)
    return json.dumps(content, indent=1)


def other_field(text: str, dice: random.Random) -> str:
    """One field of an answer of ours nil, less than nothing, much more or another's, sealed again or without a seal."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return other_line_ends(text, dice)
    places = [(holder, key) for holder, key in places_of(content) if not isinstance(holder[key], (dict, list))]
    if not places or not isinstance(content, dict):
        return other_value(text, dice)
    holder, key = dice.choice(places)
    value, others = holder[key], [other[name] for other, name in places]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = dice.choice((0, -1, 0.0, -value, value * 10, value / 20, 1e300, 10**9, None))
    else:
        holder[key] = dice.choice((None, "", "x", f"{value}x", not value, dice.choice(others)))
    if SEAL in content:
        sealed_again(content) if dice.random() < SEALED_SHARE else content.pop(SEAL)
    return json.dumps(content, indent=1)


def sealed_again(content: dict[str, Any]) -> None:
    """The seal of an answer that is as it is, and those of the answers in it."""
    for value in content.values():
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict) and SEAL in item:
                sealed_again(item)
    content[SEAL] = seal_of(content)


def other_line_ends(text: str, dice: random.Random) -> str:
    """Some lines, or all, end as they do on other machines, or in the middle of a cell."""
    ends = dice.choice(("\r", "\r\n", "\n\r", "\r\r\n", "\x0b", "\x0c", "\u2028", "\x85"))
    lines = text.split("\n")
    share = dice.choice((1.0, 0.3))
    return "".join(line + (ends if dice.random() < share else "\n") for line in lines[:-1]) + lines[-1]


def to_nothing(text: str, dice: random.Random) -> str:
    """One number is 0 or -1."""
    numbers = list(re.finditer(r"(?<![\w.])-?\d[\d.]*", text))
    if not numbers:
        return other_line_ends(text, dice)
    found = dice.choice(numbers)
    return text[: found.start()] + dice.choice(("0", "-1", "0.0")) + text[found.end() :]


def places_of(content: Any) -> Any:
    """Every object or list of a JSON value with each of its keys."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in pairs:
        yield content, key
        yield from places_of(value)


FILE_MUTATIONS: tuple[Mutate, ...] = (
    mangled, mangled, other_lines, other_number, other_number, other_word, other_word, other_bytes, other_value,
    other_value, other_field, other_field, other_line_ends, to_nothing,
)  # fmt: skip


def with_other_file(files: Mapping[str, str], dice: random.Random) -> dict[str, str]:
    """One of the files changed."""
    name = dice.choice(sorted(files))
    return {**files, name: dice.choice(FILE_MUTATIONS)(files[name], dice)}


def with_option(words: tuple[str, ...], options: list[Option], dice: random.Random) -> tuple[str, ...]:
    """One more option of the verb, or another value of one that is typed: sound, nearly sound, or hostile."""
    option = dice.choice(options)
    flag, typed = dice.choice(option.flags), next((w for w in words if w in option.flags), None)
    if option.is_flag:
        return (*words, flag)
    sound = [value for known in option.flags for value in SAID.get(known, ())]
    value = dice.choice(sound or HOSTILE)
    value = dice.choice((value, value, mangled(value, dice), other_number(value, dice), dice.choice(HOSTILE)))
    if typed is not None:
        at = words.index(typed)
        return (*words[: at + 1], value, *words[at + 2 :])
    return (*words, f"{flag}={value}") if flag.startswith("--") and dice.random() < 0.2 else (*words, flag, value)


def with_other_word(words: tuple[str, ...], dice: random.Random) -> tuple[str, ...]:
    """A word lost, doubled, mangled or replaced; the verb mostly stays."""
    if not words:
        return (dice.choice(HOSTILE),)
    at = dice.randrange(0 if dice.random() < 0.1 else min(2, len(words) - 1), len(words))
    return dice.choice(
        (
            (*words[:at], dice.choice(HOSTILE), *words[at + 1 :]),
            (*words[:at], mangled(words[at], dice), *words[at + 1 :]),
            (*words[:at], other_number(words[at], dice), *words[at + 1 :]),
            (*words[:at], *words[at + 1 :]),
            (*words[: at + 1], *words[at:]),
        )
    )
