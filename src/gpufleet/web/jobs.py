"""Questions whose answers are fetched later: few of them, by a name that nobody guesses, for ten minutes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.cli.verb_words import Question
from gpufleet.web.problems import Problem

MOST, KEPT_S, NAME_BYTES = 64, 600.0, 16


@dataclass
class Job:
    """A question that is being answered, or was."""

    question: Question
    said: Mapping[str, object]
    output: str
    task: asyncio.Task[Mapping[str, Any]]
    name: str = field(default_factory=lambda: secrets.token_urlsafe(NAME_BYTES))
    begun_s: float = field(default_factory=time.monotonic)
    is_canceled: bool = False

    @property
    def status(self) -> str:
        """Where it stands; one that is being ended is canceled already."""
        if self.is_canceled or (self.task.done() and self.task.cancelled()):
            return "canceled"
        if not self.task.done():
            return "running"
        return "failed" if self.task.exception() else "done"

    def cancel(self) -> None:
        """End it, unless it has its answer."""
        self.is_canceled = self.task.cancel()

    def answer(self) -> Mapping[str, Any]:
        """What came of it; what went wrong is raised."""
        if self.status == "running":
            raise Problem("not_found", "there is no answer yet", hint="Ask for the job's status.")
        if self.status == "canceled":
            raise Problem("canceled", "the job was canceled")
        return self.task.result()


class Jobs:
    """The jobs of one server; a server has one token, and its jobs end with it."""

    def __init__(self) -> None:
        self.by_name: dict[str, Job] = {}

    def begin(self, question: Question, said: Mapping[str, object], output: str, work: Coroutine[Any, Any, Any]) -> Job:
        """Keep a job; where there are too many the oldest that is done goes."""
        self.forget_old()
        if len(self.by_name) >= MOST:
            done = next((name for name, job in self.by_name.items() if job.task.done()), None)
            if done is None:
                work.close()
                raise Problem("too_many", "too many jobs are kept", expected=f"at most {MOST}")
            del self.by_name[done]
        job = Job(question, said, output, asyncio.ensure_future(work))
        job.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # told to who asks, never logged
        self.by_name[job.name] = job
        return job

    def forget_old(self) -> None:
        """Forget jobs that began long ago."""
        since = time.monotonic() - KEPT_S
        for name in [name for name, job in self.by_name.items() if job.begun_s < since]:
            self.by_name.pop(name).task.cancel()

    def job(self, name: str) -> Job:
        """The job of a name."""
        self.forget_old()
        if name not in self.by_name:
            raise Problem("not_found", "no such job", hint=f"Answers are kept for {KEPT_S / 60:g} minutes.")
        return self.by_name[name]
