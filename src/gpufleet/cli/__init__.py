"""The command `gpufleet`: a verb parses its words, calls the api, and prints the answer.

Little is imported here: until `main` has begun, Ctrl-C is a traceback of Python's.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OBJECTS_BETWEEN_COLLECTIONS = 100_000
INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code.

    Without `arguments` it is that of this process: Ctrl-C ends it quietly at any moment, until the answer is given.
    """
    if arguments is not None:
        return answer(arguments)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_process)
    code = answer(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def end_process(*_: object) -> None:
    """End here and now: an exception could be caught on its way, or be told as one that nobody caught."""
    os._exit(INTERRUPTED)


def answer(arguments: Sequence[str]) -> int:
    """Most commands are over before garbage in cycles is worth a search: it is looked for seldom."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    from gpufleet.cli.app import run

    return run(list(arguments))
