"""One update at a time: a lock on the folder of price snapshots, which the system takes back from whoever is killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gpufleet.catalog.snapshots import ROOT_VARIABLE
from gpufleet.errors import DataMissing, UsageError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_FILE = ".updating"
WAIT_S, WAITS = 0.1, 100


class Locked(NamedTuple):
    """What a lock is about: the command that holds it, what it writes, and the variable that names the folder."""

    command: str
    what: str
    variable: str


PRICES = Locked("gpufleet catalog update", "price snapshots", ROOT_VARIABLE)


@contextmanager
def only_update(root: Path, sleep: Callable[[float], None] = time.sleep, of: Locked = PRICES) -> Iterator[None]:
    """While this lasts nobody else writes into `root`; who comes second waits a little, then says so."""
    descriptor = opened(root, of)
    try:
        if not has_come_free(descriptor, root, sleep, of):
            raise DataMissing(
                f"another '{of.command}' is still at work",
                found=str(root),
                hint="Run it again once that ended.",
            )
        yield
    finally:
        os.close(descriptor)


def opened(root: Path, of: Locked) -> int:
    """The file that is locked; it stays, as removing it would give two their own."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(root / LOCK_FILE, flags, 0o644)
    except OSError as error:
        raise unlockable(root, error, of) from None


def has_come_free(descriptor: int, root: Path, sleep: Callable[[float], None], of: Locked) -> bool:
    """Whether the lock is had, now or within the time that it is waited for."""
    for _ in range(WAITS):
        if is_ours(descriptor, root, of):
            return True
        sleep(WAIT_S)
    return False


def is_ours(descriptor: int, root: Path, of: Locked) -> bool:
    """Take the lock, unless somebody has it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise unlockable(root, error, of) from None
    return True


def unlockable(root: Path, error: OSError, of: Locked) -> UsageError:
    """The error of a folder in which no lock can be had."""
    return UsageError(
        f"{of.what} cannot be written",
        found=f"{root}: {error.strerror or error}",
        expected="a folder that can be made, written to and locked",
        hint=f"{of.variable} names another.",
    )
