"""How far stacks, models, layouts, sweeps and runs are off: `data/calibration/own_stacks.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.own_stack import STEP, TIMES, Spreads

SPREADS = SHIPPED / "calibration" / "own_stacks.toml"


@lru_cache(maxsize=1)
def load_spreads() -> Mapping[str, Spreads]:
    """Spreads by time: those of TPOT, of TTFT, and of a step of training."""
    table = toml_of(SPREADS)
    return {time: Spreads(**table[time]) for time in (*TIMES, STEP)}
