"""Questions that more than one face can ask: words of a command line and the files that they name, each in one folder.

They come from the corpus, from the valid questions of the fuzzer, and from those with words put in by their kinds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.corpus.commands import MADE, PLACES, Command, commands
from tests.hostile.valid_questions import SAID, Question, valid_questions

from gpufleet.cli.verb_words import Takes, Word, questions

SEED = 7
OUTPUT = ("-o", "--output", "--out-file")
NOT_NAMED = {"gpufleet.toml"}
"""Files that hold without being named, for the command line alone."""
SLOW = {("catalog", "models"), ("accuracy",)}
"""Verbs whose answers take seconds or megabytes; the corpus asks them, variations do not."""


@dataclass(frozen=True)
class Asked:
    """A question: its words but for the format of the answer, and the files that it names, by name."""

    name: str
    words: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def path(self) -> str | None:
        """The question over HTTP, such as plan/serve; None where it is none."""
        return next((p for p in questions() if tuple(p.split("/")) == self.words[: p.count("/") + 1]), None)

    @property
    def body(self) -> dict[str, Any] | None:
        """The question as JSON; None where none says it: a folder, an unknown option."""
        return None if self.path is None else said_of(self)

    @property
    def is_meant_wrong(self) -> bool:
        """Whether the corpus asks it for its error."""
        return self.name.startswith("wrong-")


def said_of(asked: Asked) -> dict[str, Any] | None:
    """The words of a command line by their names."""
    question = questions()[asked.path or ""]
    known = {f"--{name}": word for word in question.words for name in (word.name, *word.aliases)}
    places = [word for word in question.words if word.flag is None]
    said: dict[str, Any] = {}
    rest = list(asked.words[len(question.verb) :])
    while rest:
        typed, equals, value = rest.pop(0).partition("=")
        is_option = typed.startswith("--")
        if not is_option:
            typed, equals, value = typed + equals + value, "", typed + equals + value
        word = known.get(typed) if is_option else next(iter(places), None)
        if word is None or (not is_option and typed.startswith("-")):
            return None
        if is_option and not equals and word.takes is not Takes.FLAG:
            if not rest:
                return None
            value = rest.pop(0)
        if not is_option and not word.is_list:
            places.pop(0)
        one = value_of(word, value, asked.files)
        if one is None or (word.name in said and not word.is_list):
            return None
        said[word.name] = [*said.get(word.name, []), one] if word.is_list else one
    return said


def value_of(word: Word, value: str, files: Mapping[str, str]) -> Any:
    """The value of a word as JSON; None where it names what no body holds."""
    if word.takes in (Takes.FLAG, Takes.WRITTEN):
        return True
    if value in files:
        return {"name": value, "content": files[value]}
    return None if word.takes is Takes.READ else value


def every_question(folder: Path) -> dict[str, Asked]:
    """All questions by name; the folder takes the plans that are written first."""
    found = [*of_corpus(folder), *of_fuzzer(folder / "plans")]
    return {each.name: each for each in found if each.path is not None}


def each_once(asked: Iterable[Asked]) -> Iterator[Asked]:
    """Questions without those that were asked under another name."""
    seen = set()
    for each in asked:
        said = each.words, *sorted(each.files.items())
        if said not in seen:
            seen.add(said)
            yield each


def of_corpus(folder: Path) -> Iterator[Asked]:
    """Commands that have no variables; what one writes for others is made first."""
    places = {**PLACES, MADE: made_files(folder)}
    for command in commands().values():
        if not command.environment and not command.is_help and command.words:
            found = of_command(command, places)
            if found is not None:
                yield found


def of_command(command: Command, places: Mapping[str, Path] = PLACES) -> Asked | None:
    """A command of the corpus with the files that it names; None where one is a folder, or not there."""
    words = tuple(without_output(command.words))
    named = [word.partition("/") for word in words if word.partition("/")[0].upper() in (*PLACES, MADE)]
    files = {f"{place}/{rest}": places.get(place.upper(), Path()) / rest for place, slash, rest in named if slash}
    if not all(path.is_file() for path in files.values()):
        return None
    names = {word: word.replace("/", "-") for word in files}
    texts = {names[word]: path.read_text(encoding="utf-8") for word, path in files.items()}
    return Asked(command.name, tuple(names.get(word, word) for word in words), texts)


def made_files(folder: Path) -> Path:
    """What commands of the corpus write for those below them."""
    from tests.corpus.recording import Stage

    stage = Stage(folder)
    for command in commands().values():
        if any(word.startswith(f"{MADE.lower()}/") for word in after_output(command.words)):
            stage.record(command)
    return stage.made


def after_output(words: Iterable[str]) -> list[str]:
    """Files that options write."""
    listed = list(words)
    return [value for flag, value in pairwise(listed) if flag in ("--out-file", "--rules")]


def without_output(words: Iterable[str]) -> Iterator[str]:
    """Words but for the format of the answer and where it goes."""
    rest = iter(words)
    for word in rest:
        if word in OUTPUT:
            next(rest, None)
        else:
            yield word


def of_fuzzer(folder: Path) -> Iterator[Asked]:
    """The valid questions of the fuzzer, but for those with folders, preferences and variables."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, of_kind in valid_questions(folder).items():
        for number, question in enumerate(of_kind):
            is_beside = any("/" in name or name in NOT_NAMED for name in question.files)
            if question.words and not question.environment and not is_beside:
                yield asked_of(f"{kind.replace(' ', '-')}-{number}", question)


def asked_of(name: str, question: Question) -> Asked:
    """A question of the fuzzer; a config.json would be called as its folder, which is another for each face."""
    renamed = {"config.json": "model.json"}
    files = {renamed.get(called, called): text for called, text in question.files.items()}
    return Asked(name, tuple(renamed.get(word, word) for word in without_output(question.words)), files)


def varied(asked: Mapping[str, Asked]) -> Iterator[Asked]:
    """Questions without end: each is one of these with one or two options more, by their kinds."""
    dice = random.Random(SEED)
    bases = [each for each in asked.values() if each.words[:2] not in SLOW and each.words[:1] not in SLOW and each.body]
    number = 0
    while True:
        base = dice.choice(bases)
        flags = sorted(options_of(base.path or "") - {word for word in base.words if word.startswith("--")})
        for flag in dice.sample(flags, min(len(flags), dice.choice((1, 1, 2)))):
            base = replace(base, words=(*base.words, flag, dice.choice(SAID[flag])))
        number += 1
        yield replace(base, name=f"{base.name}+{number}")


@cache
def options_of(path: str) -> frozenset[str]:
    """Options of a verb for which values are known."""
    flags = {word.flag for word in questions()[path].words if word.takes is Takes.TEXT and word.flag}
    return frozenset(flags & SAID.keys())
