"""A file that a user names, read as text with a limit on its size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from gpufleet.errors import UsageError
from gpufleet.units import MB


def read_text_file(path: str | Path, what: str, limit_bytes: float = MB) -> str:
    """The text of a regular file in UTF-8; `what` names it in errors, such as 'a workload'."""
    file = Path(path)
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise UsageError(f"cannot read {what}: {str(path)!r} is not a file")
        with file.open("rb") as stream:
            content = stream.read(int(limit_bytes) + 1)
    except FileNotFoundError:
        raise UsageError(f"cannot read {what}: no file {str(path)!r}") from None
    except OSError as error:
        reason = "a link that leads back to itself" if error.errno == errno.ELOOP else error.strerror or error
        raise UsageError(f"cannot read {what}: {reason}", found=str(path)) from error
    except ValueError as error:
        raise UsageError(f"cannot read {what}: this is no file name", found=str(path)) from error
    if len(content) > limit_bytes:
        raise UsageError(f"{what} is too large: {str(path)!r}", expected=f"at most {limit_bytes / MB:g} MB")
    return decoded(content, path, what)


def decoded(content: bytes, path: str | Path, what: str) -> str:
    """UTF-8, with or without a byte-order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not text in UTF-8: {str(path)!r}, byte {error.start}") from error
