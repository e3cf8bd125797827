"""What NVIDIA's catalogue says is done at once about a code of its driver (XID): `data/xid_resolutions.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpufleet.catalog.table_files import SHIPPED, rows_of

TABLE = SHIPPED / "xid_resolutions.csv"
COLUMNS = ("code", "resolution", "source", "date")


@cache
def xid_resolutions() -> Mapping[str, tuple[int, ...]]:
    """The codes of each resolution bucket, of GPUs since Ampere.

    >>> xid_resolutions()["RESTART_BM"]
    (79,)
    """
    found: dict[str, tuple[int, ...]] = {}
    for _, row in rows_of(TABLE, COLUMNS):
        found[row["resolution"]] = (*found.get(row["resolution"], ()), int(row["code"]))
    return found
