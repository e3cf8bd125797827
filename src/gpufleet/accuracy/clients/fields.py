"""Fields of a client's record by their path, each held to what it may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpufleet.errors import UsageError
from gpufleet.records import dataclass

STATISTICS = {"mean": "mean", "avg": "mean", "average": "mean", "median": "p50"} | {
    name: name for name in ("p50", "p90", "p95", "p99")
}
"""How clients call the statistics that are scored."""
UNLIMITED = ("inf", "infinity")


@dataclass(frozen=True)
class Fields:
    """One record of a client; `where` names it in errors."""

    record: Mapping[str, Any]
    where: str

    def value(self, path: str) -> Any:
        """What stands at a path such as 'world_info.tp_size'; None where nothing does."""
        found: Any = self.record
        for step in path.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        return found

    def has(self, *paths: str) -> bool:
        """Whether something stands at each of these paths."""
        return all(self.value(path) is not None for path in paths)

    def text(self, path: str) -> str:
        """The text at a path; empty where there is none."""
        found = self.value(path)
        return found.strip() if isinstance(found, str) else ""

    def number(self, path: str) -> float | None:
        """The number at a path, from 0 up, which some clients write as a text; None where there is none."""
        found = self.value(path)
        if found is None or (isinstance(found, str) and not found.strip()):
            return None
        try:
            number = math.nan if isinstance(found, (bool, list, Mapping)) else float(found)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isnan(number) or number < 0:
            raise UsageError(f"{self.where}: {path} is no number", found=found, expected="one from 0 up")
        return number

    def finite(self, path: str) -> float | None:
        """The same, where no end is none that is said."""
        found = self.number(path)
        return None if found is None or math.isinf(found) else found

    def is_unlimited(self, path: str) -> bool:
        """Whether a rate has no limit: 'inf', as clients write it."""
        found = self.value(path)
        return found == math.inf or (isinstance(found, str) and found.strip().casefold() in UNLIMITED)

    def statistics(self, path: str, scale: float) -> dict[str, float]:
        """Statistics in a record of their own, in base units: {'mean': 9.8, 'median': …} of milliseconds in seconds."""
        held = self.value(path)
        names = STATISTICS if isinstance(held, Mapping) else {}
        found = ((ours, self.finite(f"{path}.{theirs}")) for theirs, ours in names.items())
        return {name: value * scale for name, value in found if value}

    def flat_statistics(self, pattern: str, scale: float) -> dict[str, float]:
        """The same of keys beside one another: 'mean_ttft_ms' is of the pattern '{}_ttft_ms'."""
        found = ((ours, self.finite(pattern.format(theirs))) for theirs, ours in STATISTICS.items())
        return {name: value * scale for name, value in found if value}
