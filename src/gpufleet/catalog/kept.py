"""What was read from tables, kept between commands in the user's cache folder: a start that parses nothing.

An entry counts if it is whole, which its digest says, and was made by this code from these very files, which its key
says; otherwise the files are read. A folder that cannot be written to, or that others may write to, keeps nothing.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")

FOLDER_VARIABLE = "GPUFLEET_CACHE"
DIGEST_BYTES = 16
PACKAGE = Path(__file__).parent.parent
CODE_FOLDERS = (PACKAGE, PACKAGE / "domain", PACKAGE / "catalog")
NO_LINKS, NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def kept(name: str, files: Iterable[Path], of: object, read: Callable[[], Item]) -> Item:
    """What `read` makes of the files and of `of`, whose repr says all that it is; from the cache where it stands there.

    The entry of a name is replaced when its files, `of` or our code are others.
    """
    folder = cache_folder()
    if folder is None:
        return read()
    place, key = folder / f"{name}.pickle", key_of(files, of)
    found = entry(place, key)
    if found is None:
        found = (read(),)
        with suppress(OSError):
            write_entry(place, key, found)
    return found[0]


def cache_folder() -> Path | None:
    """GPUFLEET_CACHE, or gpufleet in the user's cache folder; None where nothing is kept."""
    named, home = os.environ.get(FOLDER_VARIABLE), os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.path.expanduser(os.path.join(home, "gpufleet") if named is None else named))
    return folder if folder.is_absolute() and is_own(folder) else None


def is_own(folder: Path) -> bool:
    """Whether nobody else may write to a folder; one that is not there yet is made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, ValueError):
        return False
    return is_ours(status)


def is_ours(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to whoever runs this, and nobody else may write to it."""
    return not status.st_mode & WRITABLE_BY_OTHERS and status.st_uid == os.geteuid()


def key_of(files: Iterable[Path], of: object) -> bytes:
    """A digest of the content of files, of `of` and of the code that reads them."""
    digest = hashlib.blake2b(repr((code_stamp(), of)).encode(), digest_size=DIGEST_BYTES)
    for path in files:
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.digest()


@lru_cache(maxsize=1)
def code_stamp() -> tuple[object, ...]:
    """Python and NumPy, and size and time of every module whose objects are kept, as bytecode is stamped."""
    modules = [entry for folder in CODE_FOLDERS for entry in os.scandir(folder) if entry.name.endswith(".py")]
    stamps = sorted((entry.path, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in modules)
    return (sys.version_info, np.__version__, *stamps)


def entry(place: Path, key: bytes) -> tuple[Any] | None:
    """What is kept under a key, in a tuple; None where it is of another key, not whole, or may be somebody else's.

    To read it runs code: its key and its digest say what it is, but anybody could write those.
    """
    try:
        with open(os.open(place, os.O_RDONLY | NO_LINKS | NO_WAIT), "rb") as file:
            status = os.fstat(file.fileno())
            content = file.read() if stat.S_ISREG(status.st_mode) and is_ours(status) else b""
    except (OSError, ValueError):
        return None
    head, payload = content[: 2 * DIGEST_BYTES], content[2 * DIGEST_BYTES :]
    return pickle.loads(payload) if head == key + digest_of(payload) else None


def write_entry(place: Path, key: bytes, found: tuple[Any]) -> None:
    """Write an entry whole or not at all."""
    payload = pickle.dumps(found, protocol=pickle.HIGHEST_PROTOCOL)
    descriptor, partial = tempfile.mkstemp(dir=place.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key + digest_of(payload) + payload)
        os.replace(partial, place)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def digest_of(payload: bytes) -> bytes:
    """The digest that says whether a payload is whole."""
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest()
