"""How many requests the simulator replays in a second of a processor, and what it takes to start.

    python benchmarks/simulate.py --azure azure_conv.csv --mooncake mooncake_conversation.jsonl

llama-3.1-8b on one H100-SXM under vLLM, KV blocks on, at 0.7 of the capacity that `estimate` states. Without the files,
requests are generated with the means of the public traces, and the lines say so. Seconds are of the processor
(`process_time`), the median of five; every case runs in a process of its own, which is warmed up first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gpufleet.domain.requests import Requests
    from gpufleet.simulate.cluster import Copy

MODEL, GPU, ENGINE, LOAD = "llama-3.1-8b", "H100-SXM", "vllm", 0.7
REPEATS = 5
AZURE_MEANS, MOONCAKE_MEANS, MOONCAKE_BLOCK_TOKENS, MOONCAKE_REQUESTS = (1155, 211), (12_000, 343), 512, 12_000
NUM_COMPILED, NUM_PLAIN, NUM_GENERATED, REPLICAS = 500_000, 50_000, 10_000_000, 16
SHARED_BLOCKS = 8
GIB = 2**30


@dataclass(frozen=True)
class Case:
    """What is measured, and the bar it has to pass."""

    name: str
    bar: float
    unit: str
    is_least: bool = True
    is_plain: bool = False


CASES = {
    "one": Case("one replica, compiled", 1_000_000, "requests/s"),
    "plain": Case("one replica, plain Python", 20_000, "requests/s", is_plain=True),
    "sixteen": Case("16 replicas, least_tokens", 300_000, "requests/s"),
    "mooncake": Case("Mooncake with prefix blocks", 100_000, "requests/s"),
    "memory": Case("10 million generated requests", 2.0, "GiB", is_least=False),
}
STARTS = {
    "first": Case("first start, compiled", 15.0, "s", is_least=False),
    "later": Case("later start", 2.0, "s", is_least=False),
}


def main() -> None:
    options = read_options()
    if options.case:
        print(json.dumps(measured(options.case, options)))
        return
    shown("case", "measured", "bar", "")
    for name, case in CASES.items():
        report(case, *in_own_process(name, case, dict(os.environ)))
    with tempfile.TemporaryDirectory() as folder:
        for case in STARTS.values():
            report(case, *in_own_process("start", case, os.environ | {"NUMBA_CACHE_DIR": folder}))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--azure", type=Path, help="Azure LLM inference trace 2023, conversations (CSV)")
    parser.add_argument("--mooncake", type=Path, help="Mooncake conversation trace (JSONL)")
    parser.add_argument("--case", choices=[*CASES, "start"], help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_own_process(name: str, case: Case, environment: dict[str, str]) -> tuple[float, str]:
    """The figure of a case, and what its requests are."""
    command = [sys.executable, __file__, *sys.argv[1:], "--case", name, *(["--plain"] if case.is_plain else [])]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    figure, requests = json.loads(said.splitlines()[-1])
    return figure, requests


def report(case: Case, figure: float, requests: str) -> None:
    passes = figure >= case.bar if case.is_least else figure <= case.bar
    digits = 0 if case.bar > 100 else 2
    sign = ">=" if case.is_least else "<="
    shown(
        case.name,
        f"{figure:,.{digits}f} {case.unit}",
        f"{sign} {case.bar:,.{digits}f}",
        f"{'passed' if passes else 'MISSED'}; {requests}",
    )


def shown(name: str, figure: str, bar: str, remark: str) -> None:
    print(f"{name:32} {figure:>22} {bar:>14}  {remark}", flush=True)


def measured(name: str, options: argparse.Namespace) -> tuple[float, str]:
    if options.plain:
        sys.modules["numba"] = None  # type: ignore[assignment]
    cases: dict[str, Callable[[argparse.Namespace], tuple[float, str]]] = {
        "one": lambda given: speed(given, NUM_COMPILED),
        "plain": lambda given: speed(given, NUM_PLAIN),
        "sixteen": lambda given: speed(given, NUM_COMPILED, REPLICAS),
        "mooncake": mooncake_speed,
        "memory": memory,
        "start": start,
    }
    return cases[name](options)


def speed(options: argparse.Namespace, count: int, replicas: int = 1) -> tuple[float, str]:
    """Requests a second of chat traffic."""
    requests, source = chat(options.azure, count)
    return replayed_per_s(requests, capacity_per_s(*AZURE_MEANS), replicas), source


def mooncake_speed(options: argparse.Namespace) -> tuple[float, str]:
    """Requests a second of long prompts that begin alike, on as many replicas as hold their load."""
    if options.mooncake:
        from gpufleet.inputs.trace import read_trace

        requests, source = read_trace(options.mooncake).requests(), f"{options.mooncake.name}"
    else:
        requests, source = conversations(MOONCAKE_REQUESTS), "generated with the means of Mooncake"
    return replayed_per_s(requests, capacity_per_s(*MOONCAKE_MEANS), 1), source


def replayed_per_s(requests: Requests, capacity: float, replicas: int) -> float:
    """The median of five, after a first replay for the compiler."""
    from gpufleet.simulate.cluster import replay, replicas_of
    from gpufleet.simulate.reshape import at_rate, window

    requests = at_rate(requests, LOAD * capacity * replicas)
    cluster = replicas_of(copy_for(requests), replicas, "least_tokens" if replicas > 1 else "least_requests")
    replay(cluster, window(requests, 0.0, float(requests.arrival_s[min(100, len(requests) - 1)])))
    taken = []
    for _ in range(REPEATS):
        before = time.process_time()
        done = replay(cluster, requests)
        taken.append(time.process_time() - before)
    assert done.is_answered.any()
    return len(requests) / statistics.median(taken)


def memory(_: argparse.Namespace) -> tuple[float, str]:
    """Most memory of a process that generates ten million requests and replays them."""
    from gpufleet.simulate.cluster import replay, replicas_of

    requests, source = chat(None, NUM_GENERATED, LOAD * capacity_per_s(*AZURE_MEANS))
    replay(replicas_of(copy_for(requests), 1), requests)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB, source


def start(_: argparse.Namespace) -> tuple[float, str]:
    """From the import to the end of a short replay."""
    requests = chat(None, 1000)[0]
    cluster_copy = copy_for(requests)
    before = time.process_time()
    from gpufleet.simulate.cluster import replay, replicas_of

    replay(replicas_of(cluster_copy, 1), requests)
    return time.process_time() - before, "1,000 requests"


def copy_for(requests: Requests) -> Copy:
    from gpufleet.api.simulated_copies import CopyQuestion, copy_of

    return copy_of(CopyQuestion(MODEL, GPU, engine=ENGINE), requests).copy


def capacity_per_s(input_tokens: int, output_tokens: int) -> float:
    """Requests a second that `estimate` says one replica carries."""
    from gpufleet.api.estimates import estimate

    said = estimate(MODEL, GPU, input_tokens=input_tokens, output_tokens=output_tokens, full_queue=True, engine=ENGINE)
    return said.requests_per_s.value


def chat(path: Path | None, count: int, rate_per_s: float = 1.0) -> tuple[Requests, str]:
    """The Azure trace again and again, or requests with its means."""
    from gpufleet.domain.requests import Requests

    if path is not None:
        from gpufleet.inputs.trace import read_trace
        from gpufleet.simulate.reshape import repeated

        return repeated(read_trace(path).requests(), count), f"{path.name}, repeated to {count:,}"
    dice = np.random.default_rng(1)
    arrival_s = dice.exponential(1 / rate_per_s, count)
    np.cumsum(arrival_s, out=arrival_s)
    prompts, answers = (np.minimum(dice.geometric(1 / mean, count), 8 * mean) for mean in AZURE_MEANS)
    source = f"{count:,} generated with the means of the Azure trace"
    return Requests(arrival_s, prompts, answers, np.zeros(count, np.int64)), source


def conversations(count: int) -> Requests:
    """Prompts of which every second begins like one that came before."""
    from gpufleet.domain.requests import PrefixBlocks, Requests

    dice = np.random.default_rng(1)
    prompts, answers = (np.minimum(dice.geometric(1 / mean, count), 8 * mean) for mean in MOONCAKE_MEANS)
    counts = prompts // MOONCAKE_BLOCK_TOKENS
    first = np.concatenate([[0], np.cumsum(counts)])
    place = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    own = np.arange(first[-1]) + SHARED_BLOCKS
    block = np.where(place < SHARED_BLOCKS, place, own)
    arrival_s = np.cumsum(dice.exponential(1.0, count))
    return Requests(arrival_s, prompts, answers, 0 * prompts, prefix=PrefixBlocks(MOONCAKE_BLOCK_TOKENS, first, block))


if __name__ == "__main__":
    main()
