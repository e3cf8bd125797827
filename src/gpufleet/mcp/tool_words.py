"""The tools, and the command line that a call of one means: what a tool takes is what its verb takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpufleet.cli.verb_words import Line, Takes, Word, line_of, questions
from gpufleet.errors import UnknownName, UsageError
from gpufleet.table import SUCH_AS

MONEY = "deployments.0.usd_per_hour"
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


class Asked(NamedTuple):
    """A command line with the files that it names, and the figures that its answer tells first."""

    line: Line
    figures: tuple[str, ...]


def words_of_verb(verb: str) -> dict[str, Word]:
    """What a verb takes, but for files to be written and those whose form their name tells."""
    words = questions()[verb.replace(" ", "/")].words
    taken = (
        word for word in words if word.takes is not Takes.WRITTEN and (word.takes is not Takes.READ or word.suffix)
    )
    return {word.name.replace("-", "_"): word for word in taken}


def words_of_tool(tool: Tool) -> dict[str, Word]:
    """What any verb of a tool takes, the first words first."""
    fixed = {flag.lstrip("-") for flag in tool.always}
    found = {name: word for verb in tool.verbs for name, word in words_of_verb(verb).items() if name not in fixed}
    return {name: found[name] for name in (*tool.first, *(name for name in found if name not in tool.first))}


def input_schema(tool: Tool) -> Schema:
    """The arguments of a tool as JSON Schema."""
    words = words_of_tool(tool)
    properties = {name: word_schema(word) for name, word in words.items()}
    required = [name for name, word in words.items() if word.is_needed]
    if len(tool.verbs) > 1:
        tables = [verb.split()[-1] for verb in tool.verbs]
        properties = {TABLE: {"type": "string", "enum": tables, "description": "Which table."}, **properties}
        required = [TABLE, *required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def word_schema(word: Word) -> Schema:
    """What a caller may send."""
    says = " ".join(filter(None, (word.says, word.metavar and f"[{word.metavar}]")))
    if word.takes is Takes.FLAG:
        return {"type": "boolean", "description": says}
    is_json = may_be_json(word)
    if word.is_list:
        kinds = ["string", "object"] if is_json else ["string"]
        return {"type": "array", "items": {"type": kinds}, "description": says}
    if is_json:
        says = f"{says} Or the JSON itself: a path is not read."
        return {"anyOf": [{"type": "string"}, {"type": "object"}], "description": says}
    says = f"{says} The content of the file, not its path." if word.takes is Takes.READ else says
    return {"type": word.kind, "description": says}


def may_be_json(word: Word) -> bool:
    """Whether a word may be the content of a file of JSON."""
    return word.may_be_file or (word.takes is Takes.READ and word.suffix == "json")


def description(tool: Tool) -> str:
    """What an assistant reads of a tool."""
    verb = tool.verbs[0]
    typed = f" As typed: {SUCH_AS[verb]}." if verb in SUCH_AS else ""
    return f"{tool.purpose}{typed}"


def question(tool: Tool, arguments: Mapping[str, Any], kept: Mapping[str, str]) -> Asked:
    """The command line that a call means; `kept` are plans of this session by the ids that their answers gave."""
    verb, said = verb_of(tool, arguments)
    words = {name: word for name, word in words_of_verb(verb).items() if f"--{name}" not in tool.always}
    for name in said:
        if name not in words:
            raise UnknownName("word", name, words, hint=f"{tool.name} takes: {', '.join(words)}.")
    missing = [name for name, word in words.items() if word.is_needed and name not in said]
    if missing:
        raise UsageError(f"{tool.name} lacks a word", found=f"no {', '.join(missing)}", expected=", ".join(tool.first))
    fixed = {flag.lstrip("-"): True for flag in tool.always}
    contents = {words[name].name: content_of(words[name], value, kept) for name, value in said.items()}
    return Asked(line_of(questions()[verb.replace(" ", "/")], {**contents, **fixed}, "table"), tool.figures)


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


def content_of(word: Word, value: Any, kept: Mapping[str, str], name: str = "") -> Any:
    """What was said of a word, a file by its content: JSON itself, a text of it, or the id of a plan that is kept."""
    if word.is_list and isinstance(value, list):
        return [content_of(word, each, kept, f"{word.name}-{number}") for number, each in enumerate(value, 1)]
    is_json = may_be_json(word)
    if isinstance(value, dict) and is_json:
        value = json.dumps(value)
    if not isinstance(value, str):
        return value
    content = kept.get(value, value) if is_json else value
    if word.takes is Takes.READ or (is_json and content.lstrip().startswith("{")):
        called = value if value in kept else name or word.name
        return {"name": f"{called}.{word.suffix or 'json'}", "content": content}
    return value
