"""The four faces of the product beside each other: command line, Python, HTTP and the protocol of assistants.

A question is asked of each face that can say it, in the form that is its own: words, keywords, a body of JSON, a call
of a tool. Answers are equal but for what took time; what is wrong has one exit code, code, field and hint.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import anyio
import httpx
from tests.corpus.asked import Asked, each_once, every_question, varied
from tests.corpus.comparing import values_differ
from tests.corpus.in_python import call_of
from tests.corpus.recording import DAY, standing_in
from tests.web.serving import serving

from gpufleet.catalog.current_date import current_date
from gpufleet.cli import main
from gpufleet.cli.answered import answered
from gpufleet.cli.verb_words import questions
from gpufleet.errors import (
    DataMissing,
    GpufleetError,
    Infeasible,
    PolicyViolation,
    TooLarge,
    UnknownName,
    UsageError,
    abridged,
)
from gpufleet.mcp.short_answer import facts_of, head, shortened
from gpufleet.mcp.tool_words import TOOLS, Tool, words_of_tool
from gpufleet.questions.autoscale import AutoscaleRequest
from gpufleet.questions.fields import BATCH, SERVE, words_of
from gpufleet.web.problems import field_of

if TYPE_CHECKING:
    from mcp import ClientSession

WRONG = "wrong"
LINE, PYTHON, HTTP, ASSISTANT = "command line", "Python", "HTTP", "assistant"
ERROR, CATALOG = "gpufleet: error: ", "catalog_search"
OF_COMMAND_LINE = re.compile(r"--[a-z]|gpufleet")
"""A hint that holds these is about the command line, and Python's is another."""
ALONE = {"GPUFLEET_CONFIG": "", "GPUFLEET_PRICES": os.devnull, "GPUFLEET_MODELS": os.devnull, "GPUFLEET_DATE": DAY}
MOST_VALID, MOST_WRONG, LONGEST_LINE = 300, 50, 300
TOO_LONG = ("serve-verify-json",)
"""Asked of one face, it takes a minute."""
REQUESTS = (*SERVE, *BATCH, AutoscaleRequest)
WORD_OF_FIELD = {row.field: row.name.replace("_", "-") for kind in REQUESTS for row in words_of(kind).values()}
KINDS = (UsageError, UnknownName, TooLarge, Infeasible, PolicyViolation, DataMissing)
EXIT_CODES = {kind.code: kind.exit_code for kind in KINDS}
Parts = Mapping[str, Any]


@dataclass(frozen=True)
class Told:
    """What a face told: an answer and its exit code, or what was wrong, by those parts that the face tells."""

    exit_code: int
    answer: Any = None
    wrong: Parts | None = None


@dataclass(frozen=True)
class Outcome:
    """A question, what each face told of it, and what another face tells otherwise than the command line."""

    asked: Asked
    told: Mapping[str, Told]
    differences: list[str]

    @classmethod
    def of(cls, asked: Asked, told: Mapping[str, Told | None]) -> Outcome:
        """The outcome of what the faces that can say it told."""
        known = {face: said for face, said in told.items() if said is not None}
        first = known[LINE]
        lines = [line for face in known if face != LINE for line in differing(face, first, known[face])]
        return cls(asked, known, [abridged(line, LONGEST_LINE) for line in lines])

    @property
    def kind(self) -> str:
        """Valid questions by their verb, and wrong ones."""
        return WRONG if self.told[LINE].wrong is not None else (self.asked.path or "").replace("/", " ")


def differing(face: str, first: Told, other: Told) -> Iterator[str]:
    """What a face tells otherwise."""
    if (first.wrong is None) is not (other.wrong is None):
        yield f"{face}: {brief(first)} is {brief(other)}"
    elif expected_code(face, first) != other.exit_code:
        yield f"{face}: exit code {expected_code(face, first)} is {other.exit_code}"
    elif first.wrong is not None and other.wrong is not None:
        yield from (f"{face}: {line}" for line in wrongs_differ(face, first.wrong, other.wrong))
    elif face == ASSISTANT:
        yield from (f"{face} {line}" for line in values_both_ways(facts_told(first, other), other.answer["facts"]))
    else:
        yield from (f"{face} {line}" for line in values_both_ways(first.answer, other.answer))


def wrongs_differ(face: str, first: Parts, other: Parts) -> Iterator[str]:
    """What of an error is told otherwise; Python's caller needs no hint of a command line."""
    for part in first.keys() & other.keys():
        is_of_line = face == PYTHON and part == "hint" and OF_COMMAND_LINE.search(first[part] or "")
        if in_words(first[part]) != in_words(other[part]) and not is_of_line:
            yield f"{part} {first[part]!r} is {other[part]!r}"


def in_words(said: str | None) -> str | None:
    """A sentence with the names of words in place of options."""
    return said and re.sub(r"--(?=[a-z])", "", said).replace("the flag left out", "the word left out")


def expected_code(face: str, first: Told) -> int:
    """The exit code that another face tells: Python that of the answer, which `explain` has without --check too."""
    is_of_answer = face == PYTHON and isinstance(first.answer, dict)
    return int(first.answer["exit_code"]) if is_of_answer else first.exit_code


def brief(told: Told) -> str:
    """What was told, in one line."""
    return f"exit code {told.exit_code}, {dict(told.wrong) if told.wrong is not None else 'an answer'}"


def values_both_ways(one: Any, other: Any) -> Iterator[str]:
    """How values differ, keys that only the second has too."""
    if one != other:
        yield from list(values_differ("$", one, other)) or (f"also {line}" for line in values_differ("$", other, one))


def facts_told(first: Told, other: Told) -> Any:
    """The facts of an answer of the command line, as an assistant is told them.

    Of a listing that is its page. The id of a plan holds the name of a file that it was made with; content has none.
    """
    whole = first.answer if isinstance(first.answer, dict) else {}
    asked: Asked = other.answer["asked"]
    facts = facts_of(whole, other.answer["tool"].figures, first.exit_code, current_date())
    if other.answer["tool"].name == CATALOG:
        page = answered(asked.words, contents(asked)).text.splitlines()
        return {**facts, "text": "\n".join(shortened(head(facts), page))}
    if "plan" in facts and asked.files:
        return {**facts, "plan": other.answer["facts"].get("plan")}
    return facts


def contents(asked: Asked) -> dict[str, bytes]:
    """The files of a question as they come with it."""
    return {name: text.encode() for name, text in asked.files.items()}


def in_place(asked: Asked, folder: Path) -> contextlib.AbstractContextManager[None]:
    """Standing in a folder with the files of a question."""
    folder.mkdir(parents=True)
    for name, text in asked.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return standing_in(folder)


def typed(asked: Asked, body: Parts) -> Told:
    """What the command prints and says; the parts of what is wrong are those that its message is made of."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*asked.words, "-o", "json"])
    texts = [(stream.flush(), stream.buffer.getvalue().decode())[1] for stream in (out, err)]  # type: ignore[attr-defined]
    if texts[0]:
        return Told(code, json.loads(texts[0]))
    error = answered([*asked.words, "-o", "json"], contents(asked)).error
    assert error is not None, asked.words
    return Told(code, wrong={"text": texts[1].rstrip("\n").rpartition(ERROR)[2], **parts_of(error, asked, body)})


def in_python(asked: Asked, body: Parts) -> Told | None:
    """What the function returns and raises; None where there is none, or where it has not such a word."""
    try:
        ask = call_of(asked.path or "", body)
        if ask is None:
            return None
        with contextlib.redirect_stderr(io.StringIO()):
            answer = ask()
        return Told(answer.exit_code, json.loads(answer.to_json()))
    except UnknownName as error:
        if error.problem.startswith("unknown word of a question"):
            return None
        return raised(error, asked, body)
    except GpufleetError as error:
        return raised(error, asked, body)


def raised(error: GpufleetError, asked: Asked, body: Parts) -> Told:
    """What a function raises; its caller knows some words as fields."""
    error.problem = re.sub(r"^\w+", lambda field: WORD_OF_FIELD.get(field[0], field[0]), error.problem)
    return Told(error.exit_code, wrong=parts_of(error, asked, body))


def parts_of(error: GpufleetError, asked: Asked, body: Parts) -> Parts:
    """Code, field and hint of an error."""
    named = field_of(questions()[asked.path or ""], body, error.problem, error.found)
    return {"code": error.code, "field": named, "hint": error.hint}


def over_http(client: httpx.Client, asked: Asked, body: Parts) -> Told:
    """What the server answers."""
    reply = client.post(f"/api/v1/{asked.path}", json=body)
    told = reply.json()
    if reply.status_code == httpx.codes.OK:
        if isinstance(told, dict):
            told.pop("further_files", None)
        return Told(int(reply.headers["x-exit-code"]), told)
    wrong = {"text": " ".join(told["detail"].split()), **{part: told[part] for part in ("code", "field", "hint")}}
    return Told(EXIT_CODES.get(told["code"], 1), wrong=wrong)


def tool_call(asked: Asked, body: Parts) -> tuple[Tool, dict[str, Any]] | None:
    """The tool and its arguments; None where no tool says it."""
    verb = (asked.path or "").replace("/", " ")
    fixed = {f"--{name}" for name in body} & {flag for tool in TOOLS for flag in tool.always}
    tool = next((tool for tool in TOOLS if verb in tool.verbs and set(tool.always) == fixed), None)
    if tool is None:
        return None
    said = {name.replace("-", "_"): in_content(value) for name, value in body.items() if f"--{name}" not in fixed}
    if not said.keys() <= words_of_tool(tool).keys():
        return None
    return tool, {**({"table": verb.split()[-1]} if len(tool.verbs) > 1 else {}), **said}


def in_content(value: Any) -> Any:
    """A value as an assistant says it: what a file holds."""
    if isinstance(value, list):
        return [in_content(each) for each in value]
    return value["content"] if isinstance(value, dict) else value


@contextlib.asynccontextmanager
async def assistant() -> AsyncIterator[ClientSession]:
    """A session of the protocol, as an assistant starts it."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    started = StdioServerParameters(command=sys.executable, args=["-m", "gpufleet", "mcp"], env=dict(os.environ))
    with Path(os.devnull).open("w") as nowhere:
        async with stdio_client(started, errlog=nowhere) as lines, ClientSession(*lines) as session:
            await session.initialize()
            yield session


async def by_assistant(session: ClientSession, asked: Asked, body: Parts) -> Told | None:
    """What a tool answers; None where there is none."""
    call = tool_call(asked, body)
    if call is None:
        return None
    tool, arguments = call
    reply = await session.call_tool(tool.name, arguments)
    facts = dict(reply.structured_content or {})
    if "problem" in facts:
        wrong = {part: facts.get(part) for part in ("code", "field", "hint")}
        return Told(facts["exit_code"], wrong={**wrong, "field": (wrong["field"] or "").replace("_", "-") or None})
    if tool.name == CATALOG:
        facts["text"] = reply.content[0].text
    return Told(facts["exit_code"], {"tool": tool, "facts": facts, "asked": asked})


def all_faces(names: Collection[str], heard: Callable[[Outcome], None]) -> list[Outcome]:
    """What the faces tell of the questions of these names; without any of all that are known, and of further ones."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ALONE), serving() as client:
        with contextlib.redirect_stderr(io.StringIO()):
            known = every_question(Path(folder))
        further = varied(known)
        if names:
            known |= {each.name: each for each in islice(further, MOST_VALID)}
            asked: Iterable[Asked] = [known[name] for name in names]
        else:
            asked = each_once(chain((each for name, each in known.items() if name not in TOO_LONG), further))
        return anyio.run(outcomes, asked, client, Path(folder) / "asked", heard)


async def outcomes(
    asked: Iterable[Asked], client: httpx.Client, folder: Path, heard: Callable[[Outcome], None]
) -> list[Outcome]:
    """What each face tells of each question, until enough were valid and enough were wrong."""
    found: list[Outcome] = []
    async with assistant() as session:
        for number, each in enumerate(asked):
            body = each.body
            if body is not None:
                told = at_once(client, each, body, folder / str(number))
                found.append(Outcome.of(each, {**told, ASSISTANT: await by_assistant(session, each, body)}))
                heard(found[-1])
            num_wrong = sum(each.kind == WRONG for each in found)
            if num_wrong >= MOST_WRONG and len(found) - num_wrong >= MOST_VALID:
                break
    return found


def at_once(client: httpx.Client, asked: Asked, body: Parts, folder: Path) -> dict[str, Told | None]:
    """What command line, Python and HTTP tell."""
    with in_place(asked, folder):
        told = {LINE: typed(asked, body), PYTHON: in_python(asked, body)}
    return {**told, HTTP: over_http(client, asked, body)}


def rows(found: Iterable[Outcome]) -> Iterator[str]:
    """A row for each kind of question: asked, of which faces, equal, differing."""
    faces, by_kind = (LINE, PYTHON, HTTP, ASSISTANT), Counter[tuple[str, str]]()
    for each in found:
        for kind in (each.kind, "all that are valid" if each.kind != WRONG else ""):
            by_kind.update([(kind, face) for face in each.told])
            by_kind[kind, "differing" if each.differences else "equal"] += 1
    kinds = sorted({kind for kind, _ in by_kind if kind}, key=lambda kind: (kind == WRONG, kind[:4] == "all ", kind))
    columns = (*faces, "equal", "differing")
    yield "".join([f"{'':22}", *(f"{column:>14}" for column in columns)])
    for kind in kinds:
        yield "".join([f"{kind:22}", *(f"{by_kind[kind, column]:14}" for column in columns)])
