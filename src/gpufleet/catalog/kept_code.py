"""Where the simulator's machine code is kept between commands: in the user's cache, in a folder of these very sources.

Numba notices changes of the file that it compiles, and none of the files that are called from there. It reads the
folder when it is first imported, so that this module stands before the simulator.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from contextlib import suppress
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from gpufleet.catalog.kept import cache_folder, is_own

NUMBA, FOLDER_VARIABLE, DIGEST_BYTES = "numba", "NUMBA_CACHE_DIR", 8
SOURCES = Path(__file__).parent.parent / "simulate"
PREFIX, MOST_KEPT = "compiled-", 4
"""Installations that are used in turn keep their code beside each other; what was left behind goes."""
OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
OF_THIS_PYTHON = f"*.py{sys.version_info.major}{sys.version_info.minor}.*nbc"


def digest_of_sources() -> str:
    """A name that changes with any of the simulator's files, stamped as bytecode is: by size and time."""
    files = (entry for entry in os.scandir(SOURCES) if entry.name.endswith(".py"))
    stamps = sorted((entry.path, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files)
    return hashlib.blake2b(repr(stamps).encode(), digest_size=DIGEST_BYTES).hexdigest()


def kept_in() -> str | None:
    """The folder, which is made known to Numba unless it runs already or was told another; None: it is not ours.

    To read machine code runs it: a folder that others could have written to is forgotten, whoever named it.
    """
    folder = cache_folder()
    if folder is None or NUMBA in sys.modules or is_told_another():
        return None
    place = folder / f"{PREFIX}{digest_of_sources()}"
    if is_compiler_there() and not os.path.lexists(place):
        forget_oldest(folder)
    if not is_private(place):
        forget(place)
        make_private(place)
    os.environ[FOLDER_VARIABLE] = str(place)
    return os.environ[FOLDER_VARIABLE]


def is_told_another() -> bool:
    """Whether Numba was told a folder of the user's own that nobody else may write to."""
    told = os.environ.get(FOLDER_VARIABLE)
    return bool(told) and is_own(Path(told or ""))


def is_private(place: Path) -> bool:
    """Whether a folder and all in it are ours, and the folder is closed to everybody else, as it was made."""
    try:
        status = place.lstat()
        entries = [Path(at, name).lstat() for at, folders, files in os.walk(place) for name in (*folders, *files)]
    except OSError:
        return False
    is_closed = stat.S_ISDIR(status.st_mode) and not status.st_mode & OF_OTHERS and status.st_uid == os.geteuid()
    return is_closed and all(e.st_uid == os.geteuid() and not stat.S_ISLNK(e.st_mode) for e in entries)


def forget(place: Path) -> None:
    """Remove what is there, not what a link leads to."""
    if place.is_symlink():
        place.unlink(missing_ok=True)
    else:
        shutil.rmtree(place, ignore_errors=True)


def make_private(place: Path) -> None:
    """A folder for nobody else; Numba says itself what it cannot write."""
    with suppress(OSError):
        place.mkdir(mode=stat.S_IRWXU)


def forget_oldest(folder: Path) -> None:
    """Remove machine code of other sources, but for the newest: with what is compiled now there are `MOST_KEPT`."""
    names = next(os.walk(folder), ("", [], []))[1]
    old = [folder / name for name in names if name.startswith(PREFIX) and not os.path.islink(folder / name)]
    for path in sorted(old, key=last_changed_s, reverse=True)[MOST_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def last_changed_s(path: Path) -> float:
    """When a folder last took a file in; one that another process removes meanwhile is the oldest."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def is_compiler_there() -> bool:
    """Whether Numba is installed; it is not imported to see."""
    return find_spec(NUMBA) is not None


def compiles_first() -> bool:
    """Whether the next replay begins with compiling the simulator: no machine code of these sources is kept."""
    folder = os.environ.get(FOLDER_VARIABLE) or SOURCES / "__pycache__"
    kept = (name for _, _, names in os.walk(folder) for name in names)
    return is_compiler_there() and not any(fnmatch(name, OF_THIS_PYTHON) for name in kept)


KEPT_IN = kept_in()
