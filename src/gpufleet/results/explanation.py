"""Why an estimate is what it is: steps by operation, what adds up to TPOT and TTFT, and what would be faster."""

from __future__ import annotations

from typing import Literal

from gpufleet.results.base import ExplainedTerm, Figure, Result

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
