"""One server: what is asked becomes a command line, a worker answers it, and it is counted without what was asked."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gpufleet.cli.verb_words import Question, line_of
from gpufleet.errors import GpufleetError
from gpufleet.web.guard import Rights
from gpufleet.web.jobs import Job, Jobs
from gpufleet.web.problems import Problem, of_error, told_error
from gpufleet.web.workers import Limits, Pool

FORM_BYTES = 16


class Counts:
    """What is counted: answers by question and outcome, how long they took, how many wait."""

    def __init__(self, pool: Pool):
        self.registry = CollectorRegistry()
        self.answers = Counter("gpufleet_answers", "Answers", ("question", "outcome"), registry=self.registry)
        self.seconds = Histogram(
            "gpufleet_answer_seconds", "Time to an answer, waiting included", ("question",), registry=self.registry
        )
        waiting = Gauge("gpufleet_waiting", "Questions that wait for a worker", registry=self.registry)
        waiting.set_function(lambda: pool.waiting)

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)


class Server:
    """What the routes of one server share."""

    def __init__(self, rights: Rights, limits: Limits, environment: Mapping[str, str]):
        self.rights, self.pool, self.jobs = rights, Pool(limits, environment), Jobs()
        self.counts, self.form = Counts(self.pool), secrets.token_urlsafe(FORM_BYTES)

    async def answer(self, question: Question, said: Mapping[str, object], output: str) -> Mapping[str, Any]:
        """What a worker tells; a problem is raised."""
        begun_s, outcome = time.monotonic(), "canceled"
        try:
            told = await self.told(question, said, output)
            outcome = str(told["exit_code"])
            return told
        except Problem as problem:
            outcome = problem.code
            raise
        finally:
            self.counts.answers.labels(question.path, outcome).inc()
            self.counts.seconds.labels(question.path).observe(time.monotonic() - begun_s)

    async def told(self, question: Question, said: Mapping[str, object], output: str) -> Mapping[str, Any]:
        """The same, uncounted."""
        try:
            line = line_of(question, said, output)
        except GpufleetError as error:
            raise of_error(told_error(error), question, said) from None
        told = await self.pool.answer(line)
        if told["error"] is not None:
            raise of_error(told["error"], question, said)
        return told

    def begin(self, question: Question, said: Mapping[str, object], output: str) -> Job:
        """The same, fetched later."""
        self.pool.refuse_too_many()
        return self.jobs.begin(question, said, output, self.answer(question, said, output))
