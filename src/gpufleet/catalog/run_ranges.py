"""How far statistics of a replayed run lie from measured ones, by the range of its steps: `run_ranges.toml`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import toml_of
from gpufleet.records import dataclass


@dataclass(frozen=True)
class RunRange:
    """What a statistic keeps of the range of its steps, as a share of its logarithm, and the log spread beside it."""

    kept: float = 1.0
    log_spread: float = 0.0

    def end(self, ratio: float) -> float:
        """An end of the range of a statistic, from that of its steps; both as ratios of their figures   [1].

        >>> round(RunRange(kept=0.5).end(1.44), 3), RunRange(log_spread=1.0).end(0.5) < 0.5
        (1.2, True)
        """
        log_ratio = math.log(ratio) if ratio > 0 else -math.inf
        return math.exp(math.copysign(math.hypot(self.kept * log_ratio, self.log_spread), log_ratio))


RunRanges = Mapping[str, RunRange]


@lru_cache(maxsize=1)
def load_run_ranges() -> Mapping[str, RunRanges]:
    """What is kept of ranges of steps, and what is beside, by kind of run, then by figure: 'ttft_tail'.

    >>> sorted(load_run_ranges())
    ['burst', 'clients', 'steady']
    """
    table = toml_of(DATA / "run_ranges.toml")
    return {
        kind: {name: RunRange(float(row.get("kept", 1.0)), sourced(row).value) for name, row in rows.items()}
        for kind, rows in table.items()
    }
