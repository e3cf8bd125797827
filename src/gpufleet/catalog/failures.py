"""How often GPUs fail under a training run, from `data/gpu_failures.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpufleet.catalog.load import SHIPPED, toml_of
from gpufleet.domain.failures import CountedFailures, Failures
from gpufleet.domain.interruption import Spread
from gpufleet.units import DAY, HOUR, KILO

GPUS_PER_NODE = 8
ENDS = ("low", "expected", "high")


@lru_cache(maxsize=1)
def load_failures() -> Failures:
    """The shipped table.

    >>> round(1 / load_failures().per_gpu_hour("Hopper").expected)
    50677
    """
    table = toml_of(SHIPPED / "gpu_failures.toml")
    counts, taken, unknown = table["count"], table["generation"], table["unknown"]
    return Failures(
        per_gpu_hour_of_generation={name: spread_of(row, counts) for name, row in taken.items()},
        per_gpu_hour_unknown=spread_of(unknown, counts),
        source_of_generation={name: counts[row["expected"]]["source_id"] for name, row in taken.items()},
        source_of_unknown=counts[unknown["expected"]]["source_id"],
        sources=tuple(dict.fromkeys(count["source_id"] for count in counts.values())),
        counts={
            name: CountedFailures(failures_per_gpu_hour(count), count["source_id"], count["evidence"])
            for name, count in counts.items()
        },
    )


def spread_of(row: Mapping[str, str], counts: Mapping[str, Any]) -> Spread:
    """The rates of the counts that a row names."""
    return Spread(*(failures_per_gpu_hour(counts[row[end]]) for end in ENDS))


def failures_per_gpu_hour(count: Mapping[str, Any]) -> float:
    """A count as a rate: events by GPU-hours, or what was published per 1,000 days of machines with 8 GPUs.

    >>> round(1 / failures_per_gpu_hour({"per_1000_node_days": 2.34}))
    82051
    """
    if "per_1000_node_days" in count:
        return float(count["per_1000_node_days"]) / (KILO * DAY / HOUR * GPUS_PER_NODE)
    return float(count["events"]) / float(count["gpu_hours"])
