"""One run of a benchmark: what was asked, what was measured, and whether the two can be of one run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field

from gpufleet.errors import UsageError
from gpufleet.records import dataclass
from gpufleet.units import MILLISECOND

SHORTEST_TPOT_S, LONGEST_TPOT_S = 1e-4, 60.0
"""No engine decodes 10,000 tokens a second for one user; nobody waits a minute for a token."""
FAR_OFF = 30.0
CONSTANT, POISSON, CLOSED, AT_ONCE = "constant", "poisson", "closed", "all at once"


@dataclass(frozen=True)
class Lengths:
    """Tokens of prompts or answers: their mean, and how they are spread where the client says it."""

    mean: float | None = None
    deviation: float | None = None
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True)
class Run:
    """What a client wrote of one run, in base units; what it does not say is empty.

    `times` has seconds by quantity and statistic: ('ttft', 'p95'). `doubts` are what a reader of the figures should
    know.
    """

    where: str
    client: str
    prompts: Lengths
    answers: Lengths
    arrival: str
    times: Mapping[tuple[str, str], float]
    rate_requests_per_s: float | None = None
    clients: float | None = None
    requests: float | None = None
    failed: float = 0.0
    duration_s: float | None = None
    requests_per_s: float | None = None
    model: str = ""
    engine: str = ""
    engine_version: str = ""
    gpu: str = ""
    layout: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @property
    def load(self) -> str:
        """How it was loaded, in a few words."""
        if self.arrival == CLOSED:
            return f"{self.clients:g} client{'' if self.clients == 1 else 's'}"
        return f"{self.requests:g} at once" if self.arrival == AT_ONCE else f"{self.rate_requests_per_s:g}/s"

    @property
    def name(self) -> str:
        """The run in a few words: its load, tokens of a prompt and of an answer."""
        return f"{self.load}, {self.lengths}"

    @property
    def lengths(self) -> str:
        """Tokens of a prompt and of an answer."""
        return f"{self.prompts.mean:.0f}/{self.answers.mean:.0f}"

    def checked(self) -> Run:
        """The run itself, if something was measured and its parts agree."""
        refuse_empty(self)
        refuse_wrong_unit(self)
        return self

    def cells(self) -> dict[str, str]:
        """The run as a row of an engine under load has it."""
        return {name: text for name, text in cells_of(self) if text}


def refuse_empty(run: Run) -> None:
    """Refuse a run in which nothing was answered, or of which nothing can be compared."""
    if run.requests is not None and run.requests < 1:
        raise UsageError(f"{run.where}: no request was answered", expected="a run with answers")
    missing = [
        name
        for name, said in (
            ("tokens of prompts", run.prompts.mean),
            ("tokens of answers", run.answers.mean),
            ("times", run.times),
            ("clients", run.clients if run.arrival == CLOSED else 1),
            ("a rate", 1 if run.arrival in (CLOSED, AT_ONCE) else run.rate_requests_per_s),
            ("requests", run.requests if run.arrival == AT_ONCE else 1),
        )
        if not said
    ]
    if missing:
        raise UsageError(f"{run.where} does not say {' or '.join(missing)}", expected="a whole result of one run")


def refuse_wrong_unit(run: Run) -> None:
    """Refuse times that no engine has, or that cannot be those of so many clients over so long: another unit."""
    tpot_s, ttft_s, stated_s = (middle(run, name) for name in ("tpot", "ttft", "latency"))
    if tpot_s and not SHORTEST_TPOT_S <= tpot_s <= LONGEST_TPOT_S:
        expected = f"from {SHORTEST_TPOT_S / MILLISECOND:g} ms to {LONGEST_TPOT_S:g} s"
        raise wrong_unit(run, f"{tpot_s / MILLISECOND:.3g} ms a token", expected)
    told_s = (ttft_s or 0.0) + tpot_s * max((run.answers.mean or 1.0) - 1.0, 0.0) if tpot_s else None
    if told_s and stated_s and is_far(told_s / stated_s):
        raise wrong_unit(run, f"TTFT and tokens x TPOT of {told_s:.3g} s", f"about the latency, {stated_s:.3g} s")
    latency_s = told_s or stated_s
    if not latency_s:
        return
    if run.duration_s and latency_s > FAR_OFF * run.duration_s:
        raise wrong_unit(run, f"a latency of {latency_s:.3g} s", f"less than the run of {run.duration_s:.3g} s")
    per_s = run.requests_per_s or (run.requests / run.duration_s if run.requests and run.duration_s else None)
    if run.clients and per_s and is_far(per_s * latency_s / run.clients):
        found = f"{per_s * latency_s:.3g} in flight, by requests x latency / duration"
        raise wrong_unit(run, found, f"about {run.clients:g} clients")


def middle(run: Run, name: str) -> float | None:
    """The mean of a time, else its median."""
    return run.times.get((name, "mean")) or run.times.get((name, "p50"))


def is_far(ratio: float) -> bool:
    """Whether two things that should be alike are not, by more than any load makes of them."""
    return not 1 / FAR_OFF <= ratio <= FAR_OFF


def wrong_unit(run: Run, found: str, expected: str) -> UsageError:
    """The error of a time in another unit."""
    hint = "Are these seconds where the client writes milliseconds, or the other way round?"
    return UsageError(f"{run.where}: the times cannot be of this run", found=found, expected=expected, hint=hint)


def cells_of(run: Run) -> Iterator[tuple[str, str]]:
    """Columns with their texts; nothing is empty."""
    yield from (("client", run.client), ("client_kind", "http"), ("source", run.where), ("usable", "yes"))
    yield from (("model_id", run.model), ("engine", run.engine), ("engine_version", run.engine_version))
    yield from (("gpu_id", run.gpu), ("arrival", run.arrival), ("group", run.client))
    yield from run.formats.items()
    numbers: dict[str, float | None] = {
        "rate_per_s": run.rate_requests_per_s,
        "concurrency": run.clients,
        "num_requests": run.requests,
        "failed_requests": run.failed,
        "duration_s": run.duration_s,
        "requests_per_s": run.requests_per_s,
        **run.layout,
        **run.limits,
    }
    for which, lengths in (("input", run.prompts), ("output", run.answers)):
        spread = {"mean": lengths.mean, "sd": lengths.deviation, "p50": lengths.p50, "p95": lengths.p95}
        numbers |= {f"{which}_{name}": value for name, value in spread.items()}
    column = {"ttft": "ttft", "tpot": "tpot", "latency": "e2e"}
    numbers |= {f"{column[name]}_{statistic}_ms": s / MILLISECOND for (name, statistic), s in run.times.items()}
    stated = ((name, value) for name, value in numbers.items() if value is not None and math.isfinite(value))
    yield from ((name, f"{value:.10g}") for name, value in stated)
