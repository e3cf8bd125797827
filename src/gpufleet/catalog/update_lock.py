"""One update at a time: a lock on the folder of price snapshots, which the system takes back from whoever is killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpufleet.catalog.snapshots import ROOT_VARIABLE
from gpufleet.errors import DataMissing, UsageError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_FILE = ".updating"
WAIT_S, WAITS = 0.1, 100


@contextmanager
def only_update(root: Path, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """While this lasts nobody else updates the snapshots in `root`; who comes second waits a little, then says so."""
    descriptor = opened(root)
    try:
        if not has_come_free(descriptor, root, sleep):
            raise DataMissing(
                "another 'gpufleet catalog update' is still at work",
                found=str(root),
                hint="Run it again once that ended.",
            )
        yield
    finally:
        os.close(descriptor)


def opened(root: Path) -> int:
    """The file that is locked; it stays, as removing it would give two their own."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(root / LOCK_FILE, flags, 0o644)
    except OSError as error:
        raise unlockable(root, error) from None


def has_come_free(descriptor: int, root: Path, sleep: Callable[[float], None]) -> bool:
    """Whether the lock is had, now or within the time that it is waited for."""
    for _ in range(WAITS):
        if is_ours(descriptor, root):
            return True
        sleep(WAIT_S)
    return False


def is_ours(descriptor: int, root: Path) -> bool:
    """Take the lock, unless somebody has it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise unlockable(root, error) from None
    return True


def unlockable(root: Path, error: OSError) -> UsageError:
    """The error of a folder in which no lock can be had."""
    return UsageError(
        "price snapshots cannot be written",
        found=f"{root}: {error.strerror or error}",
        expected="a folder that can be made, written to and locked",
        hint=f"{ROOT_VARIABLE} names another.",
    )
