"""What commands answer: exit code, both streams and the files that they write, the same on every machine and day.

Each command runs in this process or in a fork of it, in an empty folder, at home nowhere, on a fixed day.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

from tests.corpus.commands import MADE, PLACES, REPOSITORY, Command

from gpufleet.catalog import kept_code
from gpufleet.cli import main

DAY = "2026-11-28"
OTHERS = ("GPUFLEET_", "XDG_", "COLUMNS", "LINES", "_GPUFLEET", "COMP_")
TIME_TAKEN = re.compile(r"\bin \d+(?:\.\d+)? (m?s)\b")
"""How long an answer took to find; a time that it is about has its name before it."""
FIRST = ("serve-json", "simulate-json", "spot-json", "regions-json", "accuracy-parameters", "encode", "rules-memory")
"""Asked once before all others, and forgotten: what they load and compile is there for every fork."""


@dataclass(frozen=True)
class Record:
    """What a command answered; `files` are those that it wrote, by their path in its folder."""

    name: str
    said: str
    code: int
    out: str
    err: str
    files: Mapping[str, str]

    def written(self) -> str:
        """The record as it is kept."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_records(folder: Path) -> dict[str, Record]:
    """The records of a folder, by name."""
    files = sorted(folder.glob("*.json"))
    return {path.stem: Record(**json.loads(path.read_text(encoding="utf-8"))) for path in files}


class Stage:
    """A folder in which commands run, each in an empty one of its own beside what they share."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.made, self.home = self.folder / MADE.lower(), self.folder / "home"
        for each in (self.made, self.home):
            each.mkdir()

    def record(self, command: Command) -> Record:
        """Ask it, and keep what came."""
        place = self.folder / "asked" / command.name
        place.mkdir(parents=True)
        links = {**{name.lower(): folder for name, folder in PLACES.items()}, self.made.name: self.made}
        for name, folder in links.items():
            (place / name).symlink_to(folder)
        before = set(self.made.iterdir())
        code, out, err = self.answer(command, place)
        written = [path for path in place.iterdir() if path.name not in links] + sorted({*self.made.iterdir()} - before)
        names = [f"{path.parent.name}/{path.name}" if path.parent == self.made else path.name for path in written]
        texts = [self.normal(path.read_text(encoding="utf-8"), place) for path in written]
        streams = (self.normal(text, place) for text in (out, err))
        return Record(command.name, command.said, code, *streams, dict(zip(names, texts, strict=True)))

    def answer(self, command: Command, place: Path) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            patch.object(sys, "stdin", io.StringIO()),
            patch.dict(os.environ, self.environment(command), clear=True),
            standing_in(place),
        ):
            code = ended(command.words)
        return code, *(said(stream) for stream in streams)

    def environment(self, command: Command) -> dict[str, str]:
        """Nobody's preferences, prices and models; the simulator is compiled once."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        own = {
            "HOME": str(self.home),
            "GPUFLEET_CACHE": str(self.folder / "cache"),
            kept_code.FOLDER_VARIABLE: str(REPOSITORY / "build" / "compiled" / kept_code.digest_of_sources()),
            "GPUFLEET_DATE": DAY,
            "COLUMNS": "80",
            "NO_COLOR": "1",
        }
        return {**kept, **own, **command.environment}

    def normal(self, text: str, place: Path) -> str:
        """A text without folders of this machine and without how long it took."""
        for folder, name in ((place, "$HERE"), (self.folder, "$STAGE"), (REPOSITORY, "$REPOSITORY")):
            text = text.replace(str(folder), name)
        return TIME_TAKEN.sub(r"in T \1", text)


def ended(words: list[str]) -> int:
    """The exit code; a shell that asks for completions is answered by the parser, which exits by itself."""
    try:
        return main(words)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0


def said(stream: io.TextIOWrapper) -> str:
    """Everything that was written."""
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    """What is named by its path is looked for in the folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def recorded(asked: Iterable[Command], first: Iterable[Command] = ()) -> Iterator[Record]:
    """The records of commands, one after the other, each from a fork of its own."""
    with tempfile.TemporaryDirectory() as folder, patch.object(socket.socket, "connect", offline):
        stage = Stage(Path(folder))
        for each in first:
            stage.answer(each, Path(folder))
        with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            yield from pool.imap(partial(Stage.record, stage), asked, chunksize=1)


def offline(*_: object) -> None:
    raise OSError("no network here")
