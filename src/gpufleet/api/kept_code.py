"""Where the simulator's machine code is kept between commands: in the user's cache, in a folder of these very sources.

Numba notices changes of the file that it compiles, and none of the files that are called from there. It reads the
folder when it is first imported, so that this module stands before the simulator.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from gpufleet.catalog.kept import cache_folder

NUMBA, FOLDER_VARIABLE, DIGEST_BYTES = "numba", "NUMBA_CACHE_DIR", 8
SOURCES = Path(__file__).parent.parent / "simulate"


def digest_of_sources() -> str:
    """A name that changes with any of the simulator's files, stamped as bytecode is: by size and time."""
    files = (entry for entry in os.scandir(SOURCES) if entry.name.endswith(".py"))
    stamps = sorted((entry.path, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files)
    return hashlib.blake2b(repr(stamps).encode(), digest_size=DIGEST_BYTES).hexdigest()


def kept_in() -> str | None:
    """The folder, which is made known to Numba unless it runs already or was told another; None: it is not ours."""
    folder = cache_folder()
    if folder is None or NUMBA in sys.modules or FOLDER_VARIABLE in os.environ:
        return None
    os.environ[FOLDER_VARIABLE] = str(folder / f"compiled-{digest_of_sources()}")
    return os.environ[FOLDER_VARIABLE]


KEPT_IN = kept_in()
