"""What one configuration delivers."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import ExplainedTerm, Figure, Ranks, Result
from gpufleet.results.explanation import Explanation
from gpufleet.results.launch import Launch
from gpufleet.results.pools import PooledServing


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
    `explanation` is there where it was asked for. `pools` where prefill and decode run on copies of their own: GPUs are
    then those of all copies, batch and room those of a decode copy.
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

    @property
    def is_held(self) -> bool:
        """Whether all sequences that are said to decode together have room; only a stated batch can lack it."""
        return self.scenario != "static_batch" or self.batch <= self.largest_batch
