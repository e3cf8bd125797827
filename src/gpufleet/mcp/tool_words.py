"""The tools, and the command line that a call of one means: what a tool takes is read off the options of its verb."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer

from gpufleet.cli.options import is_group, sub_verb
from gpufleet.errors import UnknownName, UsageError
from gpufleet.records import dataclass
from gpufleet.table import SUCH_AS, VERBS

MONEY = "deployments.0.usd_per_hour"
ABSENT = re.compile(r"FILE|DIR|FOLDER|OUT\.\w+|add .*")
CONTENT = re.compile(r"(?:FILE|PLAN)(\.\w+)")
MAYBE_CONTENT = ("MODEL", "A B")
NEVER = ("help", "output", "out_file")
NUMBERS = {int: "integer", float: "number"}
TABLE = "table"
Schema = dict[str, Any]


class Tool(NamedTuple):
    """A tool: the verbs that answer it, what for, words named first, options always set, figures told first."""

    name: str
    verbs: tuple[str, ...]
    purpose: str
    first: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    figures: tuple[str, ...] = (MONEY,)


SERVED = ("model", "rate", "in", "out", "slo")
TABLES = ("catalog gpus", "catalog instances", "catalog models", "catalog prices")
TOOLS: tuple[Tool, ...] = (
    Tool("plan_serve", ("plan serve",), "Cheapest machines that serve a model at a rate.", SERVED),
    Tool(
        "plan_batch",
        ("plan batch",),
        "Cheapest machines that get a job of N requests done by a deadline.",
        ("model", "requests", "in", "out", "deadline"),
        figures=("deployments.0.usd", MONEY),
    ),
    Tool(
        "estimate",
        ("estimate",),
        "Latency and throughput of one copy of a model on given GPUs; say one load: rate, concurrency or batch.",
        ("model", "gpus", "in", "out", "rate"),
        figures=("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s"),
    ),
    Tool(
        "fit",
        ("fit",),
        "Whether a model fits given GPUs, and for how many users.",
        ("model", "gpus", "context"),
        figures=("users", "total_bytes"),
    ),
    Tool(
        "compare",
        ("compare",),
        "Two sets of GPUs for one load, several models, or two plans: content, or ids that plan_serve gave.",
        ("sides", *SERVED),
        figures=("first.deployment.usd_per_hour", "second.deployment.usd_per_hour"),
    ),
    Tool("catalog_search", TABLES, "What the tables hold of GPUs, instance types, models or prices.", figures=()),
    Tool(
        "explain",
        ("explain",),
        "Makes an old plan again: does it stand today, and what changed it? Takes content or an id of plan_serve.",
        ("plan",),
        figures=("now.usd_per_hour", "was.usd_per_hour"),
    ),
    Tool(
        "what_would_change",
        ("explain",),
        "Which price, rate, length or option would change a plan's answer. Takes content or an id of plan_serve.",
        ("plan",),
        always=("--flips",),
    ),
)


@dataclass(frozen=True)
class Word:
    """A word that a tool takes: as it is typed, what it holds, and the suffix of the file whose content it is."""

    name: str
    flag: str | None
    kind: type
    is_list: bool
    is_required: bool
    says: str
    suffix: str | None
    may_be_content: bool

    def schema(self) -> Schema:
        """What a caller may send."""
        if self.kind is bool:
            return {"type": "boolean", "description": self.says}
        if self.is_list:
            kinds = ["string", "object"] if self.may_be_content else ["string"]
            return {"type": "array", "items": {"type": kinds}, "description": self.says}
        if self.may_be_content:
            says = f"{self.says} Or the JSON itself: a path is not read."
            return {"anyOf": [{"type": "string"}, {"type": "object"}], "description": says}
        says = f"{self.says} The content of the file, not its path." if self.suffix else self.says
        return {"type": NUMBERS.get(self.kind, "string"), "description": says}


@dataclass(frozen=True)
class Question:
    """A command line, the files that it names, and the figures that its answer tells first."""

    words: tuple[str, ...]
    files: Mapping[str, bytes]
    figures: tuple[str, ...]


@cache
def words_of_verb(typed: str) -> Mapping[str, Word]:
    """What a verb takes, but for files to be written and folders of this machine."""
    name, *rest = typed.split()
    app = import_module(next(verb.module for verb in VERBS if verb.name == name)).app
    alone = sub_verb(app, rest[0]) if is_group(app) else app
    command: Any = typer.main.get_command(alone)  # type: ignore[arg-type]
    taken = (p for p in command.params if p.name not in NEVER and not ABSENT.fullmatch(p.metavar or ""))
    return {word.name: word for word in map(word_of, taken)}


def word_of(param: Any) -> Word:
    """A parameter of a verb as a word of a tool."""
    flag = param.opts[0] if param.param_type_name == "option" else None
    shape = (param.metavar or "").strip("[]")
    content = CONTENT.fullmatch(shape)
    kind = param.type_descriptor.annotation
    is_json = content is not None and content[1] == ".json"
    return Word(
        name=param.name if flag is None else flag.lstrip("-").replace("-", "_"),
        flag=flag,
        kind=kind if isinstance(kind, type) else str,
        is_list=param.multiple if flag else param.nargs != 1,
        is_required=param.required,
        says=" ".join(filter(None, (param.help, shape and f"[{shape}]"))),
        suffix=content[1] if content else None,
        may_be_content=is_json or shape in MAYBE_CONTENT,
    )


def words_of_tool(tool: Tool) -> dict[str, Word]:
    """What any verb of a tool takes, the first words first."""
    fixed = {flag.lstrip("-") for flag in tool.always}
    found = {name: word for verb in tool.verbs for name, word in words_of_verb(verb).items() if name not in fixed}
    return {name: found[name] for name in (*tool.first, *(name for name in found if name not in tool.first))}


def input_schema(tool: Tool) -> Schema:
    """The arguments of a tool as JSON Schema."""
    words = words_of_tool(tool)
    properties = {name: word.schema() for name, word in words.items()}
    required = [name for name, word in words.items() if word.is_required]
    if len(tool.verbs) > 1:
        tables = [verb.split()[-1] for verb in tool.verbs]
        properties = {TABLE: {"type": "string", "enum": tables, "description": "Which table."}, **properties}
        required = [TABLE, *required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def description(tool: Tool) -> str:
    """What an assistant reads of a tool."""
    verb = tool.verbs[0]
    typed = f" As typed: {SUCH_AS[verb]}." if verb in SUCH_AS else ""
    return f"{tool.purpose}{typed}"


def question(tool: Tool, arguments: Mapping[str, Any], kept: Mapping[str, str]) -> Question:
    """The command line that a call means; `kept` are plans of this session by the ids that their answers gave."""
    verb, said = verb_of(tool, arguments)
    words = {name: word for name, word in words_of_verb(verb).items() if f"--{name}" not in tool.always}
    for name in said:
        if name not in words:
            raise UnknownName("word", name, words, hint=f"{tool.name} takes: {', '.join(words)}.")
    missing = [name for name, word in words.items() if word.is_required and name not in said]
    if missing:
        raise UsageError(f"{tool.name} lacks a word", found=f"no {', '.join(missing)}", expected=", ".join(tool.first))
    files: dict[str, bytes] = {}
    typed = [text for name, word in words.items() if name in said for text in spelled(word, said[name], files, kept)]
    typed = [*typed, *tool.always]
    return Question((*verb.split(), *typed), files, tool.figures)


def verb_of(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The verb that answers a call, and what else was said; what is null was not said."""
    said = {name: value for name, value in arguments.items() if value is not None}
    if len(tool.verbs) == 1:
        return tool.verbs[0], said
    by_table = {verb.split()[-1]: verb for verb in tool.verbs}
    table = said.pop(TABLE, None)
    if not isinstance(table, str) or table not in by_table:
        raise UnknownName(TABLE, table, by_table)
    return by_table[table], said


def spelled(word: Word, value: Any, files: dict[str, bytes], kept: Mapping[str, str]) -> Sequence[str]:
    """A word as it is typed; content becomes one of the `files` of the question."""
    if word.kind is bool:
        if not isinstance(value, bool):
            raise wrong(word, value, "true or false")
        return [word.flag or word.name] if value else []
    if word.is_list:
        items = value if isinstance(value, list) else [value]
        each = [replace(word, name=f"{word.name}-{number}", is_list=False) for number in range(1, len(items) + 1)]
        return [text for one, item in zip(each, items, strict=True) for text in spelled(one, item, files, kept)]
    if isinstance(value, dict) and word.may_be_content:
        value = json.dumps(value)
    text = as_text(word, value)
    content = kept.get(text, text) if word.may_be_content else text
    if word.suffix or (word.may_be_content and content.lstrip().startswith("{")):
        text = f"{text if text in kept else word.name}{word.suffix or '.json'}"
        files[text] = content.encode(errors="replace")
    if word.flag is None and text.startswith("-"):
        raise wrong(word, value, "no leading dash")
    return [text] if word.flag is None else [f"{word.flag}={text}"]


def as_text(word: Word, value: Any) -> str:
    """A word's text; a number is taken for its digits."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong(word, value, "text" if word.kind is str else "a number")
    return value if isinstance(value, str) else f"{value}"


def wrong(word: Word, value: Any, expected: str) -> UsageError:
    """A word that holds something else."""
    return UsageError(f"{word.name} holds something else", found=value, expected=expected, hint=word.says)
