"""How far statistics of a run lie from measured ones, by the range of its steps: `run_ranges.toml`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.table_files import toml_of
from gpufleet.records import dataclass


@dataclass(frozen=True)
class RunRange:
    """How many times the range of its steps a statistic has, and what lies beside it as log spreads, at either end."""

    low_log: float = 0.0
    high_log: float = 0.0
    low_ratio: float = 1.0
    high_ratio: float = 1.0

    def end(self, ratio: float) -> float:
        """An end of the range of a statistic, from that of its steps; both as ratios of their figures   [1].

        exp(+- sqrt((times ln(ratio))^2 + beside^2))

        >>> round(RunRange(high_log=0.3).end(math.exp(0.4)), 3) == round(math.exp(0.5), 3), RunRange(0.3).end(2.0)
        (True, 2.0)
        >>> round(RunRange(high_ratio=2.0).end(4.0), 6)
        16.0
        """
        log_ratio = math.log(ratio) if ratio > 0 else -math.inf
        is_above = log_ratio > 0
        return math.exp(math.copysign(self.width_log(abs(log_ratio), is_above=is_above), log_ratio))

    def width_log(self, steps_log: float, *, is_above: bool) -> float:
        """How far an end lies from its figure, where that of its steps lies so far; all as logarithms."""
        if is_above:
            return math.hypot(self.high_ratio * steps_log, self.high_log)
        return math.hypot(self.low_ratio * steps_log, self.low_log)

    def steps_log(self, width_log: float, *, is_above: bool) -> float:
        """The same backwards: how far an end of the range of steps lies.

        >>> round(RunRange(low_log=0.3, low_ratio=2.0).steps_log(0.5, is_above=False), 3)
        0.2
        """
        times, beside = (self.high_ratio, self.high_log) if is_above else (self.low_ratio, self.low_log)
        return math.sqrt(max(width_log**2 - beside**2, 0.0)) / times


RunRanges = Mapping[str, RunRange]
ENDS = ("low_log", "high_log", "low_ratio", "high_ratio")
TAILS = ("p90", "p95", "p99")
CLOSED_FORM = "closed_form"


def range_of(ranges: RunRanges, time: str, statistic: str) -> RunRange:
    """How a statistic of ttft, tpot or latency lies about the range of its steps; as that where nobody learnt it."""
    return ranges.get(f"{time}_{'tail' if statistic in TAILS else 'centre'}", RunRange())


@lru_cache(maxsize=1)
def load_run_ranges() -> Mapping[str, RunRanges]:
    """What runs make of ranges of steps, by kind of run, then by figure: 'ttft_tail'.

    >>> sorted(load_run_ranges())
    ['burst', 'clients', 'closed_form', 'steady']
    """
    table = toml_of(DATA / "run_ranges.toml")
    return {
        kind: {name: RunRange(**{end: float(row[end]) for end in ENDS}) for name, row in rows.items()}
        for kind, rows in table.items()
    }
