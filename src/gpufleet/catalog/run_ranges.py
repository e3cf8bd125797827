"""How far statistics of a replayed run lie from measured ones, beside the range of its steps: `run_ranges.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import toml_of

RunRanges = Mapping[str, float]


@lru_cache(maxsize=1)
def load_run_ranges() -> Mapping[str, RunRanges]:
    """Log spreads that add in squares to those of steps, by kind of run, then by figure: 'ttft_tail'.

    >>> sorted(load_run_ranges())
    ['burst', 'clients', 'steady']
    """
    table = toml_of(DATA / "run_ranges.toml")
    return {kind: {name: sourced(row).value for name, row in rows.items()} for kind, rows in table.items()}
