"""Closed form against replay over random questions, by load: writes docs/closed_form.md.

    python -m tools.closed_form_page [--questions 300]

A question is a model on GPUs with an engine, lengths with the usual spread, and Poisson arrivals at a share of what one
replica sustains. Both answers rest on the same steps; what differs is what arrivals and lengths do to them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpufleet.api.simulated_copies import CopyQuestion
from gpufleet.api.simulations import simulate_serving
from gpufleet.errors import GpufleetError
from gpufleet.results.simulation import Simulation

PAGE = Path(__file__).resolve().parents[1] / "docs" / "closed_form.md"
MODELS = (
    *("llama-3.1-8b", "llama-3.3-70b", "qwen2.5-7b", "mistral-7b", "qwen3-30b-a3b", "gemma-2-9b", "qwen2.5-32b"),
    *("mixtral-8x7b", "deepseek-v3", "qwen3-8b", "gpt-oss-120b", "llama-3.2-1b", "phi-4"),
)
GPUS = ("H100", "A100", "H200", "L40S", "B200", "L4", "A10G", "MI300X")
ENGINES = ("vllm", "vllm", "sglang", "tensorrt-llm")
NUMBERS, INPUTS, OUTPUTS = (1, 1, 2, 4, 8), (128, 500, 1000, 2000, 8000), (50, 200, 500, 1000)
LOADS = ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9))
FIGURES = ("ttft.mean", "ttft.p50", "ttft.p95", "ttft.p99", "tpot.mean", "tpot.p95", "latency.mean", "latency.p95")
FAR, FULL = 0.2, 0.9
NUM_REQUESTS = 4000


@dataclass(frozen=True)
class Compared:
    """A question, its load, how full the KV pool became, and by how much the closed form differs, figure by figure.

    `again`: where the pool was full, by how much the TTFT p95 of a replay of other requests differs.
    """

    said: str
    load: float
    kv_used: float
    errors: dict[str, float]
    again: float | None = None


def asked(rng: np.random.Generator) -> tuple[CopyQuestion, int, int, float]:
    """A question drawn at random: what runs, tokens in and out, share of the capacity."""
    number = int(rng.choice(NUMBERS))
    copy = CopyQuestion(str(rng.choice(MODELS)), (str(rng.choice(GPUS)), number), engine=str(rng.choice(ENGINES)))
    return copy, int(rng.choice(INPUTS)), int(rng.choice(OUTPUTS)), float(rng.uniform(0.05, 0.9))


def compared(rng: np.random.Generator) -> Compared | None:
    """One question answered twice; None where it has no answer."""
    copy, inputs, outputs, load = asked(rng)
    try:
        slow = answered(copy, inputs, outputs, 1e-3, 1)
        if not slow.load_ratio:
            return None
        rate = 1e-3 * load / slow.load_ratio
        found = answered(copy, inputs, outputs, rate, NUM_REQUESTS)
    except GpufleetError:
        return None
    if not found.closed_form:
        return None
    pairs = {name: (found.closed_form[name].value, found.latency[name].value) for name in FIGURES}
    errors = {name: formula / replayed - 1 for name, (formula, replayed) in pairs.items() if replayed > 0}
    gpu, number = copy.gpus
    again = None
    if found.kv_used_ratio.highest > FULL:
        other = answered(copy, inputs, outputs, rate, NUM_REQUESTS, seed=1)
        again = other.latency["ttft.p95"].value / found.latency["ttft.p95"].value - 1
    said = f"{copy.model} {number}x {gpu} {copy.engine} {inputs}/{outputs}"
    return Compared(said, load, found.kv_used_ratio.highest, errors, again)


def answered(copy: CopyQuestion, inputs: int, outputs: int, rate: float, requests: int, seed: int = 0) -> Simulation:
    """A replay with the closed form beside it."""
    return simulate_serving(
        copy.model, copy.gpus, engine=copy.engine, rate=rate, input_tokens=inputs, output_tokens=outputs,
        requests=requests, seed=seed,
    )  # fmt: skip


def answers(number: int) -> list[Compared]:
    """So many questions that have both answers."""
    rng, found = np.random.default_rng(17), list[Compared]()
    while len(found) < number:
        one = compared(rng)
        if one is not None:
            found.append(one)
            print(f"\r{len(found)} of {number}", end="", file=sys.stderr, flush=True)
    return found


def rows(found: Sequence[Compared]) -> Iterator[str]:
    """A table row for each figure: by load the median of the differences, their median size, and how many are far."""
    for name in FIGURES:
        cells = []
        for low, high in LOADS:
            errors = np.array([one.errors[name] for one in found if low <= one.load < high and name in one.errors])
            far = np.mean(np.abs(errors) > FAR)
            cells.append(f"{np.median(errors):+.0%}, {np.median(np.abs(errors)):.0%}, {far:.0%}")
        yield f"| {name} | {' | '.join(cells)} |"


def worst_row(one: Compared) -> str:
    """A question that is far off."""
    return f"| {one.said} | {one.load:.2f} | {one.kv_used:.0%} | {one.errors['ttft.p95']:+.0%} |"


def page(found: Sequence[Compared]) -> str:
    """The page of docs."""
    heads = " | ".join(f"load {low:g} to {high:g}" for low, high in LOADS)
    full = [abs(one.errors["ttft.p95"]) > FAR for one in found if one.kv_used > FULL]
    again = [abs(one.again) > FAR for one in found if one.again is not None]
    roomy = [abs(one.errors["ttft.p95"]) > FAR for one in found if one.kv_used <= FULL]
    counts = " | ".join(str(sum(low <= one.load < high for one in found)) for low, high in LOADS)
    worst = sorted(found, key=lambda one: -abs(one.errors["ttft.p95"]))[:10]
    listed = "\n".join(
        f"| {one.said} | {one.load:.2f} | {one.kv_used:.0%} | {one.errors['ttft.p95']:+.0%} |" for one in worst
    )
    return f"""# The closed form against the replay

`make closed-form` asks {len(found)} random questions twice: by the closed form that plans and estimates use, and by
[replaying](simulator.md) {NUM_REQUESTS:,} requests. Both take the same steps and the same lengths; the difference is
what arrivals, lengths and waiting do. Load is the share of what one replica sustains, by the closed form.

Each cell: median of closed form / replay - 1, median size of it, share of questions that are more than {FAR:.0%} apart.

| figure | {heads} |
| --- |{" --- |" * len(LOADS)}
{chr(10).join(rows(found))}
| questions | {counts} |

## Where the closed form is furthest off, TTFT p95

Of {len(full)} questions in which the KV pool filled beyond {FULL:.0%} at some time, {np.mean(full):.0%} are more than
{FAR:.0%} apart; of the {len(roomy)} others, {np.mean(roomy):.0%}. A pool that fills makes requests wait for room
(`performance/room.py`: Erlang's formula for sequences that share the device and differ in size). How long depends on a
few long answers: of as many replays of other requests, {np.mean(again):.0%} are that far from the first.

| question (tokens in/out) | load | KV in use, at most | closed form against replay |
| --- | --- | --- | --- |
{listed}
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=300)
    found = answers(parser.parse_args().questions)
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
