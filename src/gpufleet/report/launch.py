"""The command that starts one replica, as lines to copy."""

from __future__ import annotations

import shlex

from gpufleet.report.page import Command, Table
from gpufleet.results.base import Launch

END = "END"


def launch_tables(launch: Launch | None, replicas: int | None = None, *, is_brief: bool = False) -> list[Table]:
    """The command with what goes before it; nothing where the engine serves no requests as they come."""
    if launch is None:
        return []
    each = f", {replicas} times" if replicas is not None and replicas > 1 else ""
    image = f" Image: {launch.image}." if launch.image and launch.image not in launch.arguments else ""
    documented = [] if is_brief else [f"Flags of {launch.documented}.{image}"]
    notes = [*(f"{note}." for note in launch.notes), *documented]
    return [Table([], [], f"To start a replica{each}", notes, empty="", listing=[*file_lines(launch), command(launch)])]


def file_lines(launch: Launch) -> list[Command]:
    """The options file, written by the shell: a line each, none of which ends it."""
    if launch.options_file is None or launch.options is None:
        return []
    lines, end = launch.options.splitlines(), END
    while end in lines:
        end += END
    written = [f"cat > {shlex.quote(launch.options_file)} <<'{end}'", *lines, end]
    return [[[line]] for line in written]


def command(launch: Launch) -> Command:
    """The command's words, each quoted, flags with their values."""
    words = map(shlex.quote, launch.arguments)
    return [[next(words) for _ in range(size)] for size in launch.groups]
