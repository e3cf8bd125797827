"""What one configuration delivers, and why: steps by operation, what adds up to TPOT and TTFT, what would be faster."""

from __future__ import annotations

from typing import Literal

from gpufleet.results.answer import Answer
from gpufleet.results.base import ExplainedTerm, Figure, Launch, Ranks, Result
from gpufleet.results.beside import KeptBeside
from gpufleet.results.pools import PooledServing

Bound = Literal["compute", "bandwidth", "latency", "link"]
Goal = Literal["TPOT", "latency", "throughput per GPU"]


class ExplainedOperation(Result):
    """One kernel of a step, on one GPU: `seconds` is `count` runs of `seconds_each`.

    seconds_each = slowdown_ratio x (roofline_s + fixed_s), and roofline_s = max(flop / peak, moved_bytes / rate)
    `flop` and `moved_bytes` are of one run, over the link where `over_link` and else over the memory. `bound` says what
    sets the time: compute, bandwidth, the link, or the latency of a kernel too small for any of them.
    """

    name: str
    kernel: str
    shape: dict[str, float]
    count: int
    seconds_each: float
    seconds: float
    share_ratio: float
    flop: float
    moved_bytes: float
    over_link: bool
    peak_flop_per_s: float | None
    bytes_per_s: float
    roofline_s: float
    fixed_s: float
    slowdown_ratio: float
    bound: Bound
    grade: str
    curve: str

    @property
    def has_arithmetic(self) -> bool:
        """Whether it has a place in a roofline: it computes, and moves bytes of memory to do so."""
        return not self.over_link and self.flop > 0 and self.moved_bytes > 0


class ExplainedStep(Result):
    """One engine step on one GPU by operation, largest first, and the parts that make `total` (TPOT or TTFT) of it.

    The operations sum to `kernels_s`, which is the first part; the parts sum to `total_s`. `longest` is the gap between
    two tokens where a prompt of another request joins the step.
    """

    decoding: float
    decode_context_tokens: float
    prompts: float
    prompt_tokens: float
    operations: list[ExplainedOperation]
    kernels_s: float
    total: str
    total_s: float
    parts: list[ExplainedTerm]
    longest: ExplainedTerm | None = None


class Ceiling(Result):
    """The peak of one arithmetic that the steps use."""

    arithmetic: str
    flop_per_s: float


class Change(Result):
    """One thing done differently under the same load, by the same equations; `cost` says what it takes."""

    name: str
    gpus: str
    layout: str
    tpot_s: Figure
    ttft_s: Figure
    latency_s: Figure
    output_tokens_per_s_per_gpu: Figure
    tpot_ratio: float
    latency_ratio: float
    throughput_per_gpu_ratio: float
    cost: str


class TriedChange(Result):
    """A change that was tried: TPOT, latency and throughput per GPU as ratios to what they are."""

    name: str
    tpot_ratio: float
    latency_ratio: float
    throughput_per_gpu_ratio: float


class Explanation(Result):
    """The decode step and the prefill behind an estimate, the ceilings of the GPU, and changes that make it faster.

    `changes` are those that gain most of the `goal`: TPOT, the latency of a whole answer where clients wait for a
    place, or the throughput per GPU of a queue that never empties. `tried` names all that were tried.
    """

    gpu: str
    bandwidth_bytes_per_s: float
    link_bytes_per_s: float
    ceilings: list[Ceiling]
    decode: ExplainedStep
    prefill: ExplainedStep
    goal: Goal
    changes: list[Change]
    tried: list[TriedChange]


class LatencyPercentile(Result):
    """Latencies that a share `quantile` of requests stays below; `latency_s` adds both, which is an upper bound."""

    quantile: float
    ttft_s: Figure
    tpot_s: Figure
    latency_s: Figure


class ServingEstimate(Answer):
    """Latency and throughput of one replica under one load; memory says whether it runs at all.

    `scenario` is one of closed_loop (a fixed number of clients), open_loop (Poisson arrivals at a rate),
    static_batch (one batch, prefilled together) and full_queue (the queue never empties). `latency_s` runs from
    arrival to the last token; for full_queue, `ttft_s` is of a lone prompt, and the wait in the queue is in neither.
    `verdict` is the memory verdict; `batch` the sequences that decode together, for full_queue those that serve most.
    `percentiles` over requests are of open_loop; all other latencies are means. Of a run of `num_requests`, replayed,
    both closed_loop and open_loop have them, and rates are those of the run, its start and end included.
    `explanation` is there where it was asked for, `accepted_tokens` of a step where it drafts. `pools`
    where prefill and decode run on copies of their own: GPUs are then those of all copies, batch and room those of a
    decode copy.
    """

    scenario: str
    model: str
    gpu: str
    num_gpus: int
    layout: str
    ranks: Ranks | None = None
    engine: str
    weight_format: str
    kv_precision: str
    accepted_tokens: Figure | None = None
    ttft_s: Figure
    tpot_s: Figure
    latency_s: Figure
    output_tokens_per_s: Figure
    requests_per_s: Figure
    percentiles: list[LatencyPercentile] = []
    batch: float
    largest_batch: float
    load_ratio: float | None = None
    binding: str = ""
    binding_limit: str
    terms: list[ExplainedTerm] = []
    explanation: Explanation | None = None
    launch: Launch | None = None
    pools: PooledServing | None = None
    num_requests: int | None = None
    beside: KeptBeside | None = None

    @property
    def is_held(self) -> bool:
        """Whether all sequences that are said to decode together have room; only a stated batch can lack it."""
        return self.scenario != "static_batch" or self.batch <= self.largest_batch
