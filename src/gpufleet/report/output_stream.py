"""Standard output as it really is: a terminal, a pipe whose reader left, a full disk, or nothing at all."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from gpufleet.errors import UsageError
from gpufleet.report.controls import printable

BY_LINE = 1


def write_everything() -> None:
    """From here on standard output takes every byte, or says why not."""
    sys.stdout = buffered(sys.stdout)


def buffered(stream: TextIO) -> TextIO:
    """The stream, or one in its place that writes until every byte is out.

    Without a buffer (`python -u`) a write takes what the disk still holds and calls that a success.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(stream.fileno(), "w", BY_LINE, encoding=stream.encoding, errors=stream.errors, closefd=False)


def say(text: str) -> None:
    """Print the answer; a closed pipe is quiet, a full disk behind `>` is the user's to mend."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        raise unwritten(error) from error


def unwritten(error: OSError) -> UsageError:
    """The error of standard output that takes no more; the rest of it goes nowhere."""
    silence(sys.stdout)
    return UsageError(f"cannot write to standard output: {error.strerror}")


def remark(text: str) -> None:
    """A line on standard error that cannot move the cursor.

    Whoever reads no errors hears none, and the exit code stays what it is.
    """
    if sys.stderr is None:
        return
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Send what is still buffered nowhere, so that the interpreter does not complain at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def tolerate_narrow_encodings() -> None:
    """A terminal that cannot show a character gets a '?' instead of a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
