"""The command `gpufleet`: a verb parses its words, calls the api, and prints the answer."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

OBJECTS_BETWEEN_COLLECTIONS = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code.

    Most commands are over before garbage in cycles is worth a search: it is looked for seldom.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    from gpufleet.cli.app import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
