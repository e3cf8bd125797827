"""What comes in a request: read within a size and a time of our own, then held to strict JSON or a plain form."""

from __future__ import annotations

import asyncio
import math
import re
from itertools import accumulate
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from gpufleet.cli.verb_words import FURTHER, Question, Takes, Word
from gpufleet.errors import UsageError
from gpufleet.files import decoded
from gpufleet.inputs.json_text import parse_json
from gpufleet.units import MIB
from gpufleet.web.problems import Problem

MOST_BYTES, BODY_S, DEEPEST, MOST_FIELDS = int(MIB), 10.0, 32, 300
JSON, FORM = "application/json", "multipart/form-data"
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
YES = ("yes", "true", "on", "1")
RESERVED = ("format", "form", "as", FURTHER)
"""Names in an address or a form that are no words of a question."""
Fields = list[tuple[str, Any]]


async def body_of(request: Request, kind: str) -> bytes:
    """The whole body, of one content type, not packed."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise Problem("no_json", "the body is of another type", expected=kind)
    if request.headers.get("content-encoding"):
        raise Problem("no_json", "a packed body is not read", expected="no Content-Encoding")
    try:
        return await asyncio.wait_for(whole(request), BODY_S)
    except asyncio.TimeoutError:
        raise Problem("slow_body", "the body came too slowly", expected=f"all of it within {BODY_S:g} s") from None
    except ClientDisconnect:
        raise Problem("bad_body", "the body ended early") from None


async def whole(request: Request) -> bytes:
    """All parts of a body, no more than there may be."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise Problem("body_too_large", "the body is too large", expected=f"at most {MOST_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts)


def json_object(body: bytes) -> dict[str, Any]:
    """A body as JSON: each key once, no deeper than anybody needs, finite numbers."""
    try:
        text = decoded(body, "body", "the body")
        brackets = re.findall(r"[\[\]{}]", STRING.sub("", text))
        if max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0) > DEEPEST:
            raise UsageError("the body is nested too deeply", expected=f"at most {DEEPEST} levels")
        value = parse_json(text, "the body")
        refuse_infinite(value)
    except UsageError as error:
        raise Problem("bad_body", error.problem, found=error.found, expected=error.expected) from None
    if not isinstance(value, dict):
        raise Problem("bad_body", "the body is no object", expected="words by their names")
    return value


def refuse_infinite(value: object) -> None:
    """Refuse numbers that JSON does not have, and those beyond what a computer counts to."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError("the body holds a number that is none", found=str(value), expected="finite numbers")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        refuse_infinite(each)


async def form_in(request: Request) -> Fields:
    """The fields of a form that was posted; its files are small enough to be kept in memory."""
    body = await body_of(request, FORM)

    async def again() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async with Request(request.scope, again).form(max_files=MOST_FIELDS, max_fields=MOST_FIELDS) as form:
        return [
            (name, value if isinstance(value, str) else {"name": own_name(value), "content": await value.read()})
            for name, value in form.multi_items()
            if isinstance(value, str) or value.filename
        ]


def own_name(file: UploadFile) -> str:
    """The name of a file without the folders that some browsers tell."""
    return re.split(r"[/\\]", file.filename or "")[-1]


def said_in(fields: Fields, question: Question) -> dict[str, Any]:
    """What a form says; a file goes before a text of the same name."""
    said: dict[str, Any] = {}
    for name, value in fields:
        if isinstance(value, str):
            said = {**said_of(question, name, value), **said}
        elif question.word(name).is_list:
            said[name] = [*(each for each in said.get(name, []) if isinstance(each, dict)), value]
        else:
            said[name] = value
    return said


def text_in(fields: Fields, name: str) -> str:
    """The text of a field that is no word of a question."""
    return next((value.strip() for known, value in fields if known == name and isinstance(value, str)), "")


def address_of(request: Request, question: Question) -> dict[str, Any]:
    """What the query of an address says."""
    said: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        further = said_of(question, name, value)
        is_more = name in said and isinstance(said[name], list) and bool(further)
        said = {**said, name: [*said[name], *further[name]]} if is_more else {**said, **further}
    return said


def said_of(question: Question, name: str, text: str) -> dict[str, Any]:
    """A field of a form or an address; an empty one says nothing."""
    if name in RESERVED or not text.strip():
        return {}
    word = question.word(name)
    return {name: value_of(word, text)}


def value_of(word: Word, text: str) -> object:
    """The text of a field as a value."""
    if word.takes in (Takes.FLAG, Takes.WRITTEN):
        return text.lower() in YES
    if word.takes is Takes.READ:
        hint = "Files do not fit into an address: 'Ask with files' sends them."
        raise UsageError(f"{word.name} is a file", found=text, expected="its content", hint=hint)
    return [text] if word.is_list else text
