"""The command `gpufleet`: a verb parses its words, calls the api, and prints the answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    from gpufleet.cli.app import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
