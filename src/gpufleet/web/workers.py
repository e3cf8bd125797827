"""The processes that answer, and the line before them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpufleet.cli.preferred import CATALOG_VARIABLE
from gpufleet.cli.verb_words import Line
from gpufleet.inputs.preferences import PREFIX, preferences
from gpufleet.records import dataclass
from gpufleet.units import GIB
from gpufleet.web.problems import Problem
from gpufleet.web.worker import LENGTH_BYTES, message_of

OF_THIS_MACHINE = ("GPUFLEET_CACHE", "GPUFLEET_DATE")
OF_TABLES = ("GPUFLEET_PRICES", "GPUFLEET_MODELS")


@dataclass(frozen=True)
class Limits:
    """How much a server does at once, and what a question may take."""

    at_work: int = 2
    waiting: int = 16
    answer_s: float = 30.0
    start_s: float = 60.0
    memory_bytes: int = int(2 * GIB)


def environment_of_workers(own: Mapping[str, str], project: Path, *, with_preferences: bool) -> dict[str, str]:
    """The variables of a worker: the shipped tables alone, or the preferences and tables of this server as well.

    Preferences are read here, once, and handed over as variables: a worker reads no file of this machine.
    """
    kept = {name: value for name, value in own.items() if not name.startswith(PREFIX) or name in OF_THIS_MACHINE}
    nothing = dict.fromkeys(OF_TABLES, os.devnull)
    if not with_preferences:
        return {**kept, "GPUFLEET_CONFIG": "", **nothing}
    liked = {f"{PREFIX}{key.upper()}": found.text for key, found in preferences(own, project).items()}
    if CATALOG_VARIABLE in liked:
        liked[CATALOG_VARIABLE] = os.path.abspath(os.path.expanduser(liked[CATALOG_VARIABLE]))
    return {**kept, "GPUFLEET_CONFIG": "", **{name: own[name] for name in OF_TABLES if name in own}, **liked}


class Worker:
    """One process that answers; it is started when it is needed, and again after it was ended."""

    def __init__(self, limits: Limits, environment: Mapping[str, str]):
        self.limits, self.environment = limits, environment
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        """A process that has loaded what answers need."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gpufleet.web.worker", str(self.limits.memory_bytes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self.environment,
            cwd=os.path.abspath(os.sep),
            start_new_session=True,
        )
        await asyncio.wait_for(self.message(self.process), self.limits.start_s)
        return self.process

    async def answer(self, line: Line) -> dict[str, Any]:
        """What came of a command line; a process that takes too long or too much is ended."""
        asked = {"arguments": line.arguments, "files": {n: c.decode("latin-1") for n, c in line.files.items()}}
        try:
            process = self.process or await self.start()
            told: dict[str, Any] = await asyncio.wait_for(self.exchange(process, asked), self.limits.answer_s)
            if told["error"] is not None and told["error"]["code"] == "too_large":
                self.end()
            return told
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            self.end()
            most = f"{self.limits.answer_s:g} s, {self.limits.memory_bytes / GIB:g} GiB"
            raise Problem("took_too_long", "the answer took too much", expected=f"at most {most}") from None
        except BaseException:
            self.end()
            raise

    async def exchange(self, process: asyncio.subprocess.Process, asked: object) -> Any:
        """A question and what is told of it."""
        assert process.stdin is not None
        process.stdin.write(message_of(asked))
        await process.stdin.drain()
        return await self.message(process)

    async def message(self, process: asyncio.subprocess.Process) -> Any:
        """The next message of a process."""
        assert process.stdout is not None
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        return json.loads(await process.stdout.readexactly(length))

    def end(self) -> None:
        """End the process at once."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
        self.process = None


class Pool:
    """A few workers; questions wait for one in turn, and too many are refused."""

    def __init__(self, limits: Limits, environment: Mapping[str, str]):
        self.limits, self.waiting = limits, 0
        self.workers = [Worker(limits, environment) for _ in range(limits.at_work)]
        self.free: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        for worker in self.workers:
            self.free.put_nowait(worker)

    async def answer(self, line: Line) -> dict[str, Any]:
        """What came of a command line."""
        self.refuse_too_many()
        self.waiting += 1
        try:
            worker = await self.free.get()
        finally:
            self.waiting -= 1
        try:
            return await worker.answer(line)
        finally:
            self.free.put_nowait(worker)

    def refuse_too_many(self) -> None:
        """Refuse a question for which there is no place."""
        if self.free.empty() and self.waiting >= self.limits.waiting:
            raise Problem("too_many", "too many questions wait", hint="Ask again in a few seconds.")

    async def end(self) -> None:
        """End all processes, and wait until they are gone."""
        processes = [worker.process for worker in self.workers if worker.process is not None]
        for worker in self.workers:
            worker.end()
        await asyncio.gather(*(process.wait() for process in processes))
