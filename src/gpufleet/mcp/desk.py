"""The process that answers questions one after another; it is ended when one takes too long or is withdrawn."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import anyio

from gpufleet.errors import GpufleetError, OurBug, UsageError
from gpufleet.mcp.short_answer import Reply, refusal
from gpufleet.mcp.tool_words import Asked
from gpufleet.units import GIB

LONGEST_S = 60.0
MOST_MEMORY_BYTES = int(4 * GIB)
WARM_UP = ("fit", "llama-3.1-8b", "--gpus=L4:1")


def answer_questions(asked: Connection) -> None:
    """What the process does until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    bound_memory()
    from gpufleet.catalog.current_date import current_date
    from gpufleet.cli.answered import answered
    from gpufleet.mcp.short_answer import reply_of

    own = own_files()
    answered(WARM_UP, own=own)
    with suppress(EOFError, OSError):
        while True:
            line, figures = asked.recv()
            try:
                got = answered(line.arguments, line.files, own)
                reply = reply_of(got, figures, current_date())
                print(got.remarks, end="", file=sys.stderr, flush=True)
            except Exception as error:
                reply = refusal(error if isinstance(error, GpufleetError) else OurBug(error))
            asked.send(reply)


def bound_memory() -> None:
    """Where the system has such a limit: a question that wants more fails alone."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))


def own_files() -> tuple[str, ...]:
    """Files and folders of the user that hold without being named: preferences, and a folder of tables."""
    import os
    from pathlib import Path

    from gpufleet.inputs.preferences import preference_files, preferences

    with suppress(GpufleetError):
        found = preferences(os.environ, Path())
        named = [str(path) for path in preference_files(os.environ, Path())]
        return (*named, *([found["catalog"].text] if "catalog" in found else []))
    return ()


class Desk:
    """Takes questions, one at a time."""

    def __init__(self) -> None:
        self.turn = anyio.Lock()
        self.process: SpawnProcess | None = None
        self.open()

    def open(self) -> None:
        """Start the process that answers, unless it runs."""
        if self.process is not None and self.process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=answer_questions, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def close(self) -> None:
        """End the process that answers, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.line.close()
            self.process = None

    async def ask(self, question: Asked) -> Reply:
        """The reply to a question; a caller who goes away, or the limit of time, ends the work on it."""
        async with self.turn:
            self.open()
            is_answered = False
            try:
                with anyio.fail_after(LONGEST_S):
                    reply = await anyio.to_thread.run_sync(self.exchange, question, abandon_on_cancel=True)
                is_answered = True
                return reply
            except TimeoutError:
                return refusal(UsageError(f"no answer within {LONGEST_S:g} s", hint="Ask for less at a time."))
            except (EOFError, OSError):
                most = f"It may want more than {MOST_MEMORY_BYTES / GIB:g} GiB: ask for less at a time."
                return refusal(UsageError("the work on this question ended before it was done", hint=most))
            finally:
                if not is_answered:
                    self.close()
                    self.open()

    def exchange(self, question: Asked) -> Reply:
        """Send a question and wait."""
        self.line.send(question)
        reply: Reply = self.line.recv()
        return reply
