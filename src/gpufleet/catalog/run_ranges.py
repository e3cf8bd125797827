"""How far statistics of a replayed run lie from measured ones, by the range of its steps: `run_ranges.toml`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.table_files import toml_of
from gpufleet.records import dataclass


@dataclass(frozen=True)
class RunRange:
    """What lies beside the range of a statistic's steps, below and above, as log spreads."""

    low_log: float = 0.0
    high_log: float = 0.0

    def end(self, ratio: float) -> float:
        """An end of the range of a statistic, from that of its steps; both as ratios of their figures   [1].

        exp(+- sqrt(ln(ratio)^2 + beside^2))

        >>> round(RunRange(high_log=0.3).end(math.exp(0.4)), 3) == round(math.exp(0.5), 3), RunRange(0.3).end(2.0)
        (True, 2.0)
        """
        log_ratio = math.log(ratio) if ratio > 0 else -math.inf
        beside = self.high_log if log_ratio > 0 else self.low_log
        return math.exp(math.copysign(math.hypot(log_ratio, beside), log_ratio))


RunRanges = Mapping[str, RunRange]
TAILS = ("p90", "p95", "p99")
CLOSED_FORM = "closed_form"


def range_of(ranges: RunRanges, time: str, statistic: str) -> RunRange:
    """What a statistic of ttft, tpot or latency has beside the range of its steps; nothing where nobody learnt it."""
    return ranges.get(f"{time}_{'tail' if statistic in TAILS else 'centre'}", RunRange())


@lru_cache(maxsize=1)
def load_run_ranges() -> Mapping[str, RunRanges]:
    """What lies beside ranges of steps, by kind of run, then by figure: 'ttft_tail'.

    >>> sorted(load_run_ranges())
    ['burst', 'clients', 'closed_form', 'steady']
    """
    table = toml_of(DATA / "run_ranges.toml")
    return {
        kind: {name: RunRange(float(row["low_log"]), float(row["high_log"])) for name, row in rows.items()}
        for kind, rows in table.items()
    }
