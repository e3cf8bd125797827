"""How long one `estimate` takes in a process that has answered one like it before.

`python benchmarks/estimate.py` asks each question with other lengths every time, and arrivals of the same lengths at
other rates as well. It prints the median and the slowest of ten, each also relative to a matrix product of fixed size
timed in the same run, and what arrivals take over a closed loop.
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
        medians = {name: said(replica, name, warm_seconds(replica, load), unit_s) for name, load in LOADS.items()}
        other_rate = said(replica, "arrivals at another rate", seconds_of_rates(replica), unit_s)
        over_loop, again = medians["arrivals"] / medians["closed loop"], other_rate / medians["closed loop"]
        print(f"{replica.model}: arrivals take {over_loop:.2f} closed loops, at another rate {again:.2f}")
    return 0


def said(replica: Replica, load: str, seconds: list[float], unit_s: float) -> float:
    """The median seconds, said on a line."""
    median, slow = statistics.median(seconds), statistics.quantiles(seconds, n=10)[-1]
    print(
        f"one warm estimate, {replica.model} on {replica.gpus}, {load}: {median * 1e3:.2f} ms "
        f"(nine of ten within {slow * 1e3:.2f} ms), {median / unit_s:.3f} units"
    )
    return median


def warm_seconds(replica: Replica, load: dict[str, float]) -> list[float]:
    """Seconds of every estimate but the first, each of other lengths."""
    return [timed(replica, 500 + 10 * run, 100 + run, load) for run in range(RUNS + 1)][1:]


def seconds_of_rates(replica: Replica) -> list[float]:
    """Seconds of every estimate of arrivals but the first, each at another rate of the same requests."""
    return [timed(replica, 500, 100, {"rate": 1 + run / RUNS}) for run in range(RUNS + 1)][1:]


def timed(replica: Replica, input_tokens: float, output_tokens: float, load: dict[str, float]) -> float:
    """Processor seconds of one estimate."""
    start = time.process_time()
    estimate(replica.model, replica.gpus, input_tokens=input_tokens, output_tokens=output_tokens, **load)  # type: ignore[arg-type]
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
