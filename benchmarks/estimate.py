"""How long one `estimate` takes in a process that has answered one like it before.

`python benchmarks/estimate.py` asks each question with other lengths every time, and prints the median and the slowest
of ten; each also relative to a matrix product of fixed size timed in the same run.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass

from gpufleet.api import estimate
from unit_of_work import timed_unit_s

RUNS = 200
LOADS: dict[str, dict[str, float]] = {
    "closed loop": {"concurrency": 16},
    "arrivals": {"rate": 2.0},
    "static batch": {"batch": 16},
    "full queue": {"full_queue": True},
}


@dataclass(frozen=True)
class Replica:
    """What is asked: a model on GPUs, TP over all of them."""

    model: str
    gpus: str


REPLICAS = (Replica("llama-3.1-8b", "H100:1"), Replica("qwen3-235b-a22b", "H200:8"), Replica("deepseek-v3", "H200:8"))


def main() -> int:
    """Print one line per model and load."""
    unit_s = timed_unit_s()
    for replica in REPLICAS:
        for name, load in LOADS.items():
            seconds = warm_seconds(replica, load)
            median, slow = statistics.median(seconds), statistics.quantiles(seconds, n=10)[-1]
            print(
                f"one warm estimate, {replica.model} on {replica.gpus}, {name}: {median * 1e3:.2f} ms "
                f"(nine of ten within {slow * 1e3:.2f} ms), {median / unit_s:.3f} units"
            )
    return 0


def warm_seconds(replica: Replica, load: dict[str, float]) -> list[float]:
    """Seconds of every estimate but the first, each of other lengths."""
    seconds = []
    for run in range(RUNS + 1):
        start = time.perf_counter()
        estimate(replica.model, replica.gpus, input_tokens=500 + 10 * run, output_tokens=100 + run, **load)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


if __name__ == "__main__":
    sys.exit(main())
