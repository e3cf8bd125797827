"""Which word of a question an error is about, for a caller who says words by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from gpufleet.cli.verb_words import Word

FLAG = re.compile(r"--[a-z][a-z-]*")
QUOTED, PARTS = re.compile(r"'([^']*)'"), re.compile(r"[\s,:@]+")


def word_concerned(words: Collection[Word], said: Mapping[str, object], problem: str, found: object) -> str | None:
    """The word that a problem is about: one that its sentence names, itself or by its file, or the only one that says
    what was found.

    Words are known by their options and, those that have none, by what help shows in their place.
    """
    by_flag = {f"--{name}": word.name for word in words if word.flag for name in (word.name, *word.aliases)}
    by_metavar = {word.metavar: word.name for word in words if not word.flag}
    flags = [by_flag[flag] for flag in FLAG.findall(problem) if flag in by_flag]
    places = [name for metavar, name in by_metavar.items() if re.search(rf"\b{re.escape(metavar)}\b", problem)]
    names = [*by_flag.values(), *by_metavar.values()]
    by_start = [name for name in names if re.match(rf"(?:cannot read (?:an? )?)?{re.escape(name)}\b", problem)]
    of_files = [name for name, value in said.items() if any(is_told(each["name"], problem) for each in files_in(value))]
    saying = [name for name, value in said.items() if says(value, problem, found)]
    sure = flags or places or by_start or of_files
    return next(iter(sure or (saying if len(saying) == 1 else [])), None)


def is_told(file: str, problem: str) -> bool:
    """Whether a sentence names a file, or begins with what it is the file of.

    >>> is_told("mine.json", "mine: hidden_size is not a size"), is_told("w.yaml", "a rate is missing")
    (True, False)
    """
    return file in problem or problem.startswith(f"{file.rpartition('.')[0]}: ")


def files_in(value: object) -> list[Mapping[str, str]]:
    """The files that a word holds: {name, content}.

    >>> files_in([{"name": "one.json", "content": "{}"}, "L4"])
    [{'name': 'one.json', 'content': '{}'}]
    """
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, Mapping) and each.get("name")]


def says(value: object, problem: str, found: object) -> bool:
    """Whether a value, or a name in it or in its file, is what was found or what a sentence quotes.

    >>> says(["L4", "H999:2"], "unknown GPU 'H999'", None), says("llama", "no such model", "llama")
    (True, True)
    """
    told = {str(found).strip("'"), *QUOTED.findall(problem)}
    values = value if isinstance(value, list) else [value]
    texts = [str(each.get("content")) if isinstance(each, Mapping) else str(each) for each in values]
    return any(not told.isdisjoint({text, *PARTS.split(text)} - {""}) for text in texts)
