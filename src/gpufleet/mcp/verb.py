"""`gpufleet mcp`: serves the tools to one assistant over standard input and output."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from gpufleet.cli.options import verb
from gpufleet.errors import UsageError
from gpufleet.report.output_stream import remark

app = verb()


@app.command()
def mcp() -> None:
    """Serve an assistant over standard input and output (Model Context Protocol): it starts this command itself.

    Your preferences and price snapshots hold, as on the command line; no other file is read, and none is written.
    """
    if find_spec("mcp") is None:
        raise UsageError(
            "the package of the protocol is not installed",
            expected="mcp 2",
            hint="pip install 'gpu-fleet-optimizer[mcp]' installs it.",
        )
    from gpufleet.mcp.server import serve

    if sys.stdin.isatty():
        remark(
            "An assistant starts this command and talks to it; here it waits for lines of its protocol. Ctrl-C ends it."
        )
    serve()
