"""What steps were measured to yield where engines draft: `data/speculation.csv`."""

from __future__ import annotations

from functools import cache

from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.speculation import Measured

COLUMNS = ("model", "method", "drafted_tokens", "task", "mode", "accepted_length", "source", "as_of")


@cache
def load_accepted_lengths() -> tuple[Measured, ...]:
    """Every measured accepted length.

    >>> max(row.accepted_length for row in load_accepted_lengths())
    5.21
    """
    return tuple(
        Measured(
            model=row["model"],
            method=row["method"],
            num_tokens=int(row["drafted_tokens"]),
            task=row["task"],
            mode=row["mode"],
            accepted_length=float(row["accepted_length"]),
            source=row["source"],
        )
        for _, row in rows_of(SHIPPED / "speculation.csv", COLUMNS)
    )
