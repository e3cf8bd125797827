"""The questions that verbs answer and the words of each, as a body of JSON, an address, a form or a tool says them.

All comes from the verbs' own commands: a new verb, or a new option of one, is asked about there without a line more.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer
from typer.main import get_command

from gpufleet.cli.grouped_help import heading_of
from gpufleet.cli.options import is_group, sub_verb, sub_verbs
from gpufleet.cli.orientation import purpose_of
from gpufleet.errors import UnknownName, UsageError, shorten
from gpufleet.questions.words import FileUse
from gpufleet.records import dataclass
from gpufleet.table import NOT_ASKED, VERBS

OUTPUT, FURTHER = "--output", "files"
FILE_NAME = r"[^/\\\0-\x1f]{1,200}"
JSON_TYPES = {bool: "boolean", int: "integer", float: "number"}


class Takes(str, Enum):
    """What a word takes: text or a number, yes, the content of a file, or whether a further file is wanted."""

    TEXT = "text"
    FLAG = "flag"
    READ = "read"
    WRITTEN = "written"


TAKEN: Mapping[FileUse | None, Takes] = {FileUse.READ: Takes.READ, FileUse.WRITTEN: Takes.WRITTEN}


@dataclass(frozen=True)
class Word:
    """One word of a question: an option without its dashes, or an argument by its name."""

    name: str
    aliases: tuple[str, ...]
    flag: str | None
    takes: Takes
    kind: str
    is_list: bool
    metavar: str
    says: str
    heading: str
    suffix: str
    is_needed: bool
    may_be_file: bool
    negation: str | None = None


@dataclass(frozen=True)
class Question:
    """A verb as something that is asked: its name, its purpose, its words and the formats of its answers."""

    verb: tuple[str, ...]
    purpose: str
    words: tuple[Word, ...]
    formats: tuple[str, ...]

    @property
    def path(self) -> str:
        """Its name in addresses.

        >>> Question(("plan", "serve"), "", (), ()).path
        'plan/serve'
        """
        return "/".join(self.verb)

    def word(self, name: str) -> Word:
        """The word of that name, or an error that offers the nearest."""
        by_name = {alias: word for word in self.words for alias in (word.name, *word.aliases)}
        if name not in by_name:
            raise UnknownName("word", name, by_name, hint=f"/ask/{self.path} shows them all.")
        return by_name[name]


class Line(NamedTuple):
    """A command line, and the files that it reads by name."""

    arguments: list[str]
    files: dict[str, bytes]


@cache
def questions() -> Mapping[str, Question]:
    """Every question by its path, in the order of verbs."""
    return MappingProxyType({question.path: question for question in asked_verbs()})


def asked_verbs() -> Iterator[Question]:
    """Verbs that answer, those of a group one by one."""
    for verb in VERBS:
        if verb.name in NOT_ASKED:
            continue
        app = import_module(verb.module).app
        for name in sub_verbs(app) if is_group(app) else ("",):
            alone = sub_verb(app, name) if name else app
            path = (verb.name, name) if name else (verb.name,)
            if alone is not None and " ".join(path) not in NOT_ASKED:
                yield question_of(path, alone)


def question_of(verb: tuple[str, ...], app: typer.Typer) -> Question:
    """A verb's command as a question."""
    (registered,) = app.registered_commands
    command: Any = get_command(app)
    annotations = inspect.signature(registered.callback or app, eval_str=True).parameters
    held = {p: annotations[p.name].annotation for p in command.params if p.name in annotations}
    formats = next(tuple(plain(kind)) for p, kind in held.items() if OUTPUT in p.opts)
    taken = [(p, kind) for p, kind in held.items() if OUTPUT not in p.opts and file_use(kind) is not FileUse.HERE]
    words = tuple(word_of(p, plain(kind), file_use(kind)) for p, kind in taken)
    return Question(verb, purpose_of(registered), words, tuple(each.value for each in formats))


def plain(annotation: Any) -> Any:
    """What a parameter holds, without what is said about it and without None.

    >>> plain(Annotated[int | None, "how many"]), plain(list[str])
    (<class 'int'>, list[str])
    """
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return plain(parts[0]) if type(None) in get_args(annotation) else annotation


def file_use(annotation: Any) -> FileUse | None:
    """What a parameter has to do with files, as its annotation says.

    >>> file_use(Annotated[str, "a trace", FileUse.READ]).value
    'read'
    """
    return next((said for said in get_args(annotation)[1:] if isinstance(said, FileUse)), None)


def word_of(parameter: Any, kind: Any, use: FileUse | None) -> Word:
    """A parameter of a command as a word."""
    is_argument = parameter.param_type_name == "argument"
    metavar = (parameter.metavar or "").strip("[]").removesuffix(",...")
    names = [parameter.name] if is_argument else [opt[2:] for opt in parameter.opts if opt[:2] == "--"]
    return Word(
        names[0],
        tuple(names[1:]),
        None if is_argument else f"--{names[0]}",
        Takes.FLAG if kind is bool else TAKEN.get(use, Takes.TEXT),
        JSON_TYPES.get(kind, "string"),
        bool(getattr(parameter, "multiple", False)) or parameter.nargs != 1,
        metavar,
        parameter.help or "",
        getattr(parameter, "rich_help_panel", None) or heading_of(parameter.opts, parameter.param_type_name),
        metavar.partition(".")[2],
        parameter.required,
        use is FileUse.MAYBE_READ,
        next(iter(getattr(parameter, "secondary_opts", ())), None),
    )


def line_of(question: Question, said: Mapping[str, object], output: str) -> Line:
    """The command line that asks what is said by name; a word that is null is not said."""
    line = Line([*question.verb, "-o", output], {})
    arguments: dict[str, list[str]] = {}
    for name, value in said.items():
        if name == FURTHER:
            add_further(line, value)
        elif value is not None:
            word = question.word(name)
            if word.name in arguments:
                raise UsageError(f"{word.name} is given twice", found=name, expected="one of its names")
            arguments[word.name] = texts_of(word, value, line)
    for word in question.words:
        if word.flag is not None and word.name in arguments:
            is_bare = word.takes is Takes.FLAG
            line.arguments.extend(text if is_bare else f"{word.flag}={text}" for text in arguments[word.name])
    places = [arguments.get(word.name, []) for word in question.words if word.flag is None]
    if any(not before and after for before, after in pairwise(places)):
        missing = next(word for word in question.words if word.flag is None and word.name not in arguments)
        raise UsageError(f"{missing.name} is missing", expected=f"{missing.metavar}, before what comes after it")
    line.arguments.extend(["--", *(text for texts in places for text in texts)] if any(places) else [])
    return line


def texts_of(word: Word, value: object, line: Line) -> list[str]:
    """What a word says on a command line: one text for each value."""
    if word.takes in (Takes.FLAG, Takes.WRITTEN):
        if not isinstance(value, bool):
            raise UsageError(f"cannot read {word.name}", found=value, expected="true or false")
        stands = word.flag if word.takes is Takes.FLAG else f"{word.name}.{word.suffix}"
        return [text for text in (stands if value else word.negation,) if text]
    if isinstance(value, list) and not word.is_list:
        raise UsageError(f"cannot read {word.name}", found=value, expected="one value, not a list")
    return [text_of(word, each, line) for each in (value if isinstance(value, list) else [value])]


def text_of(word: Word, value: object, line: Line) -> str:
    """One value as the word of a command line; a file by its name."""
    if isinstance(value, Mapping):
        return add_file(line, word.name, value)
    if word.takes is Takes.READ or isinstance(value, (bool, list)) or value is None:
        expected = "a file: {name, content}" if word.takes is Takes.READ else "a text or a number"
        raise UsageError(f"cannot read {word.name}", found=value, expected=expected)
    text = value if isinstance(value, str) else repr(value)
    if not text.strip():
        raise UsageError(f"{word.name} has no value", expected="a value, or the word left out")
    encoded(word.name, text)
    return text


def add_file(line: Line, name: str, value: Mapping[str, object]) -> str:
    """Put the content of a file among those of the line; its name."""
    called, content = value.get("name"), value.get("content")
    if set(value) != {"name", "content"} or not isinstance(called, str):
        raise UsageError(f"cannot read {name}", found=sorted(value), expected="a file: {name, content}")
    if not re.fullmatch(FILE_NAME, called) or called in (".", ".."):
        raise UsageError(f"{name} is no file name", found=called, expected="a name without a folder")
    encoded(name, called)
    whole = content if isinstance(content, bytes) else encoded(name, content)
    if line.files.setdefault(called, whole) != whole:
        raise UsageError("two files of one name", found=called, expected="a name for each")
    return called


def add_further(line: Line, value: object) -> None:
    """Files that a file of the question names, such as the trace of a workload."""
    if not isinstance(value, Mapping):
        raise UsageError(f"cannot read {FURTHER}", found=value, expected="names and contents of files")
    for name, content in value.items():
        add_file(line, FURTHER, {"name": name, "content": content})


def encoded(name: str, content: object) -> bytes:
    """A text as UTF-8; half a pair of surrogates is no character."""
    if not isinstance(content, str):
        raise UsageError(f"cannot read the content of {name}", found=content, expected="a text")
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} holds half a character", found=ascii(shorten(content)), expected="UTF-8") from None
