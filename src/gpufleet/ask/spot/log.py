"""A log of what a job did on spot, tick by tick, as CSV: elapsed_s, available, ran, work_left_s, starting_s.

`available`: whether a place had machines; `ran`: waiting, spot or on demand (on_demand, od) in the tick that begins at
`elapsed_s`; `work_left_s` at its begin. `starting_s` may be left out: nothing is left of a start.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from gpufleet.domain.spot import NAMES, ON_DEMAND, SpotLog
from gpufleet.errors import UsageError
from gpufleet.files import named_rows, read_text_file
from gpufleet.units import MB

WHAT, LARGEST_BYTES = "the log", 50 * MB
NEEDED = ("elapsed_s", "available", "ran", "work_left_s")
STARTING = "starting_s"
RAN = {**{name: at for at, name in enumerate(NAMES)}, "on_demand": ON_DEMAND, "od": ON_DEMAND}
SAID = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_spot_log(path: str | Path) -> SpotLog:
    """The log of a file."""
    rows = named_rows(
        read_text_file(path, WHAT, LARGEST_BYTES), f"{WHAT} {str(path)!r}", f"columns {', '.join(NEEDED)}"
    )
    if not rows or not set(NEEDED) <= set(rows[0]):
        found = "no rows" if not rows else f"columns {', '.join(filter(None, rows[0]))}"
        raise UsageError(f"{WHAT} {str(path)!r} cannot be read", found=found, expected=f"columns {', '.join(NEEDED)}")
    elapsed = np.array([number(row, "elapsed_s", line) for line, row in enumerate(rows, 2)])
    if np.any(np.diff(elapsed) <= 0):
        line = int(np.flatnonzero(np.diff(elapsed) <= 0)[0]) + 3
        raise UsageError(f"{WHAT}: time does not go on in line {line}", expected="elapsed_s that rises")
    return SpotLog(
        elapsed,
        np.array([named(row, "available", line, SAID) for line, row in enumerate(rows, 2)], dtype=bool),
        np.array([named(row, "ran", line, RAN) for line, row in enumerate(rows, 2)], dtype=np.int64),
        np.array([number(row, "work_left_s", line) for line, row in enumerate(rows, 2)]),
        np.array([number(row, STARTING, line) if row.get(STARTING) else 0.0 for line, row in enumerate(rows, 2)]),
    )


def number(row: dict[str, str], column: str, line: int) -> float:
    """A number of seconds that is not negative."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{WHAT}: {column} in line {line} is not a time", found=row.get(column), expected="seconds")
    return value


def named(row: dict[str, str], column: str, line: int, known: dict[str, bool] | dict[str, int]) -> int:
    """One of the known words."""
    said = str(row.get(column) or "").strip().casefold()
    if said not in known:
        raise UsageError(f"{WHAT}: {column} in line {line} is unknown", found=said, expected=", ".join(known))
    return int(known[said])
