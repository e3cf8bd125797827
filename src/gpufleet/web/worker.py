"""The process in which questions are answered, one after the other: it can be ended, and its memory is bounded.

    python -m gpufleet.web.worker MEMORY_BYTES

A message is eight bytes of length and JSON; files stand in it as Latin-1, which keeps every byte.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from gpufleet.cli.answered import Answered, answered
from gpufleet.cli.preferred import CATALOG_VARIABLE
from gpufleet.files import entries_of, is_folder, read_start
from gpufleet.units import GB
from gpufleet.web.problems import told_error

LENGTH_BYTES = 8
WARM_UP = ("plan", "serve", "--rate=1/s", "--in=500", "--out=100", "-o", "html", "--", "llama-3.1-8b")


def message_of(content: Any) -> bytes:
    """A message, with its length before it."""
    said = json.dumps(content).encode()
    return len(said).to_bytes(LENGTH_BYTES, "big") + said


def send(stream: BinaryIO, content: Any) -> None:
    """Send a message."""
    stream.write(message_of(content))
    stream.flush()


def read_message(stream: BinaryIO) -> Any:
    """The next message; None where nobody asks any more."""
    length = stream.read(LENGTH_BYTES)
    return json.loads(stream.read(int.from_bytes(length, "big"))) if len(length) == LENGTH_BYTES else None


def told(got: Answered) -> dict[str, Any]:
    """An answer as a message."""
    error = None if got.error is None else told_error(got.error)
    return {"exit_code": got.code, "text": got.text, "files": dict(got.files), "error": error}


def bound_memory(further_bytes: int) -> None:
    """So much more than what is held now, and an answer fails; where the system knows no bound there is none."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(read_start("/proc/self/statm", "the memory held", GB).split()[0])
        most = pages * resource.getpagesize() + further_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def own_tables() -> dict[str, bytes]:
    """The tables of the server's own catalog, where it is to be used."""
    named = os.environ.get(CATALOG_VARIABLE)
    return dict(contents(Path(named))) if named else {}


def contents(folder: Path) -> list[tuple[str, bytes]]:
    """Files of a folder at any depth, by name."""
    found: list[tuple[str, bytes]] = []
    for entry in entries_of(folder):
        found += contents(entry) if is_folder(entry) else [(str(entry), read_start(entry, "a table", GB))]
    return found


def own_channels() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for messages alone: whatever else prints or reads finds nothing there."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    return incoming, outgoing


def answer_questions(memory_bytes: int) -> None:
    """Answer what is asked until nobody asks any more."""
    incoming, outgoing = own_channels()
    tables = own_tables()
    answered(WARM_UP, tables)
    bound_memory(memory_bytes)
    send(outgoing, "ready")
    while (asked := read_message(incoming)) is not None:
        files = {name: content.encode("latin-1") for name, content in asked["files"].items()}
        send(outgoing, told(answered(asked["arguments"], {**tables, **files})))


if __name__ == "__main__":
    answer_questions(int(sys.argv[1]))
