"""Times vLLM on random tokens, in this process and with weights of no meaning, and writes files of measurements.

    PYTHONPATH=. python -m tools.measure_vllm CONFIG OUT --model-id M --gpu-id G [--precision P]
        [--lengths 1024x128] [--clients 1 8 32 128] [--loads 0.3 0.6 0.85] [--seconds 25]

CONFIG is a folder with a `config.json`; no weights, tokenizer or network are needed. vLLM runs at the defaults of
`vllm serve` for contexts of 8,192 tokens. OUT gets `serving_points.csv` (closed loops of equal requests),
`serving_under_load.csv` (Poisson arrivals at shares of the best rate of the closed loops, lengths log-normal) and
`request_traces/`, each extended as soon as a load has run. KV pool and weights stand in vLLM's own log.
Where FlashInfer is not installed, set VLLM_USE_FLASHINFER_SAMPLER=0.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

LONGEST_TOKENS = 8192
WAVES_BY_CLIENTS = {1: 8, 8: 6, 32: 5}
USUAL_WAVES = 4
WARM_UP = (32, 2, 1024, 16)
LOG_SPREAD = 0.6
PROMPT_TOKENS, ANSWER_TOKENS = (1024, 32, 4096), (128, 8, 512)
Row = dict[str, object]
LENGTH_NOTE = "random tokens, log-normal of log spread 0.6; prompts 32 to 4,096, answers 8 to 512"
QUANTILES = (50, 90, 95, 99)
NUMBERS = count()


class Engine(Protocol):
    """What answers: the number of tokens in each event of a request's stream."""

    def stream(self, prompt: list[int], num_tokens: int) -> AsyncIterator[int]:
        """Tokens of each event."""


@dataclass(frozen=True)
class Answer:
    """One request as its client saw it."""

    arrival_s: float
    input_tokens: int
    output_tokens: int
    ttft_s: float
    latency_s: float

    @property
    def tpot_s(self) -> float:
        """Mean gap between tokens after the first; 0 of one token   [s]."""
        return (self.latency_s - self.ttft_s) / max(self.output_tokens - 1, 1)


class Clock:
    """Seconds since a load began."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    @property
    def now_s(self) -> float:
        """Seconds since."""
        return time.perf_counter() - self.began


async def answer(engine: Engine, prompt: list[int], num_tokens: int, clock: Clock) -> Answer:
    """Sends one request and times its first and last token; raises where tokens are missing."""
    arrival_s, ttft_s, received = clock.now_s, 0.0, 0
    async for tokens in engine.stream(prompt, num_tokens):
        ttft_s = ttft_s or clock.now_s - arrival_s
        received += tokens
    if received != num_tokens:
        raise RuntimeError(f"asked for {num_tokens} tokens, received {received}")
    return Answer(arrival_s, len(prompt), num_tokens, ttft_s, clock.now_s - arrival_s)


class Load:
    """Random prompts of a vocabulary, sent to an engine."""

    def __init__(self, engine: Engine, vocabulary: int, seed: int = 0):
        self.engine, self.vocabulary, self.rng = engine, vocabulary, np.random.default_rng(seed)

    def prompt(self, num_tokens: int) -> list[int]:
        """Tokens that no other prompt shares."""
        return [int(token) for token in self.rng.integers(self.vocabulary, size=num_tokens)]

    async def closed(self, clients: int, waves: int, input_tokens: int, output_tokens: int) -> list[Answer]:
        """Clients that start together and send `waves` requests each, one after the other."""
        prompts, clock, answers = [self.prompt(input_tokens) for _ in range(clients * waves)], Clock(), list[Answer]()

        async def client() -> None:
            while prompts:
                answers.append(await answer(self.engine, prompts.pop(), output_tokens, clock))

        await asyncio.gather(*(client() for _ in range(clients)))
        return answers

    async def arriving(self, rate_per_s: float, num: int) -> list[Answer]:
        """Requests of log-normal lengths that arrive as a Poisson process."""
        sizes = zip(self.lengths(num, *PROMPT_TOKENS), self.lengths(num, *ANSWER_TOKENS), strict=True)
        requests = [(self.prompt(prompt), tokens) for prompt, tokens in sizes]
        arrivals_s, clock = np.cumsum(self.rng.exponential(1 / rate_per_s, num)), Clock()

        async def sent(due_s: float, prompt: list[int], num_tokens: int) -> Answer:
            await asyncio.sleep(max(due_s - clock.now_s, 0.0))
            return await answer(self.engine, prompt, num_tokens, clock)

        return await together(sent(due, *request) for due, request in zip(arrivals_s, requests, strict=True))

    def lengths(self, num: int, mean: float, least: int, most: int) -> list[int]:
        """Log-normal tokens of this mean before they are cut at both ends."""
        drawn = self.rng.lognormal(np.log(mean) - LOG_SPREAD**2 / 2, LOG_SPREAD, num)
        return [int(length) for length in np.clip(np.rint(drawn), least, most)]


async def together(answers: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All of them at once."""
    return list(await asyncio.gather(*answers))


def rate_of(answers: Sequence[Answer]) -> float:
    """Requests over the time from the first arrival to the last token   [1/s]."""
    return len(answers) / max(a.arrival_s + a.latency_s for a in answers)


def milliseconds(answers: Sequence[Answer]) -> dict[str, float]:
    """Mean and percentiles of TTFT, TPOT and latency over requests, by column   [ms]."""
    found = {}
    for column, of in (("ttft", "ttft_s"), ("tpot", "tpot_s"), ("e2e", "latency_s")):
        values = np.array([getattr(a, of) for a in answers if of != "tpot_s" or a.output_tokens > 1]) * 1e3
        found[f"{column}_mean_ms"] = round(float(values.mean()), 3)
        found |= {f"{column}_p{q}_ms": round(float(np.percentile(values, q)), 3) for q in QUANTILES}
    return found


def tokens(name: str, values: Sequence[int]) -> dict[str, float]:
    """Mean, spread and percentiles of lengths, by column   [tokens]."""
    p50, p95 = np.percentile(values, (50, 95))
    found = {"mean": np.mean(values), "sd": np.std(values), "p50": p50, "p95": p95}
    return {f"{name}_{statistic}": round(float(value), 2) for statistic, value in found.items()}


def closed_row(setup: Mapping[str, object], lengths: tuple[int, int], clients: int, answers: Sequence[Answer]) -> Row:
    """A row of `serving_points.csv`."""
    isl, osl = lengths
    times = milliseconds(answers)
    load = {"isl": isl, "osl": osl, "mean_length_ratio": 1, "concurrency": clients, "waves": len(answers) // clients}
    measured = {"ttft_ms": times["ttft_mean_ms"], "tpot_ms": times["tpot_mean_ms"]}
    rate = {"out_tokens_per_s": round(rate_of(answers) * osl, 2)}
    return {"id": f"{setup['model_id']}-{isl}x{osl}-c{clients}", **setup, **load, **measured, **rate, "usable": "yes"}


def loaded_row(setup: Mapping[str, object], load: float, rate_per_s: float, answers: Sequence[Answer]) -> Row:
    """A row of `serving_under_load.csv`."""
    name = f"{setup['model_id']}-load{load:g}"
    arrivals = {"arrival": "poisson", "rate_per_s": round(rate_per_s, 3), "num_requests": len(answers)}
    lengths = tokens("input", [a.input_tokens for a in answers]) | tokens("output", [a.output_tokens for a in answers])
    rest = {"length_note": LENGTH_NOTE, "requests_per_s": round(rate_of(answers), 4), "usable": "yes"}
    return {"id": name, **setup, **arrivals, **lengths, **milliseconds(answers), **rest, "trace": f"{name}.csv"}


def add(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Appends rows to a table, which they begin where it does not exist."""
    file.parent.mkdir(parents=True, exist_ok=True)
    is_new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


async def measure_closed(
    load: Load, setup: Mapping[str, object], lengths: tuple[int, int], clients: int, out: Path
) -> float:
    """One closed loop after one of short answers, as a row; gives its rate   [1/s]."""
    isl, osl = lengths
    await load.closed(clients, 1, isl, 4)
    answers = await load.closed(clients, WAVES_BY_CLIENTS.get(clients, USUAL_WAVES), isl, osl)
    add(out / "serving_points.csv", [closed_row(setup, lengths, clients, answers)])
    return rate_of(answers)


async def measure_loaded(
    load: Load, setup: Mapping[str, object], share: float, rate_per_s: float, seconds: float, out: Path
) -> None:
    """One load of arrivals as a row, and its requests."""
    answers = await load.arriving(rate_per_s, max(round(rate_per_s * seconds), 60))
    row = loaded_row(setup, share, rate_per_s, answers)
    add(out / "request_traces" / str(row["trace"]), [{"experiment": row["id"], **asdict(a)} for a in answers])
    add(out / "serving_under_load.csv", [row])


class Vllm:
    """vLLM's AsyncLLM at the defaults of `vllm serve`: no HTTP, no text, temperature 1."""

    def __init__(self, config: str):
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM

        started = AsyncEngineArgs(
            model=config,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=LONGEST_TOKENS,
            worker_extension_cls="tools.dummy_weights.LaysWeights",
            generation_config="vllm",
        )
        self.engine = AsyncLLM.from_engine_args(started, usage_context=UsageContext.OPENAI_API_SERVER)

    async def stream(self, prompt: list[int], num_tokens: int) -> AsyncIterator[int]:
        """Tokens of each event."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        wanted = SamplingParams(
            max_tokens=num_tokens, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA
        )
        async for event in self.engine.generate({"prompt_token_ids": prompt}, wanted, str(next(NUMBERS))):
            yield len(event.outputs[0].token_ids)


async def measure(engine: Engine, asked: argparse.Namespace, setup: Mapping[str, object]) -> None:
    """Closed loops, then arrivals at shares of the best rate that one of them reached."""
    load = Load(engine, json.loads((asked.config / "config.json").read_text(encoding="utf-8"))["vocab_size"])
    await load.closed(*WARM_UP)
    rates = [await measure_closed(load, setup, asked.lengths, clients, asked.out) for clients in asked.clients]
    for share in asked.loads:
        await measure_loaded(load, setup, share, share * max(rates), asked.seconds, asked.out)


def lengths_of(text: str) -> tuple[int, int]:
    """Tokens of a prompt and of an answer.

    >>> lengths_of("1024x128")
    (1024, 128)
    """
    isl, osl = map(int, text.split("x"))
    return isl, osl


def parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("config", type=Path)
    found.add_argument("out", type=Path)
    for name in ("--model-id", "--gpu-id"):
        found.add_argument(name, required=True)
    found.add_argument("--precision", default="")
    found.add_argument("--lengths", type=lengths_of, default=(1024, 128))
    found.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    found.add_argument("--loads", type=float, nargs="*", default=[0.3, 0.6, 0.85])
    found.add_argument("--seconds", type=float, default=25.0)
    return found


def setup_of(asked: argparse.Namespace, version: str) -> dict[str, object]:
    """What all rows of a run share."""
    stated = {"model_id": asked.model_id, "gpu_id": asked.gpu_id, "precision": asked.precision}
    ran = {"engine": "vllm", "engine_version": version, "client": "AsyncLLM (in process)", "num_gpus": 1, "tp": 1}
    return stated | ran


async def run(asked: argparse.Namespace) -> None:
    """Starts vLLM inside the loop that will read its answers, and measures it."""
    import vllm

    await measure(Vllm(str(asked.config)), asked, setup_of(asked, vllm.__version__))


if __name__ == "__main__":
    asyncio.run(run(parser().parse_args()))
