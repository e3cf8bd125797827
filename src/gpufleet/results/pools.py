"""What prefill and decode deliver that run on copies of their own."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import ExplainedTerm, Figure, Ranks, Result


class Pool(Result):
    """Equal copies that prefill, or that decode: `num_gpus` each; what they carry together at most, and their load.

    `together`: prompts of a prefill step, or sequences that decode together, on one copy; `most_together` of them fit.
    `needed_copies`: the fewest that carry what the other pool carries.
    """

    copies: int
    gpu: str
    num_gpus: int
    layout: str
    ranks: Ranks
    verdict: str
    grade: str
    carried_requests_per_s: Figure
    load_ratio: float
    together: float
    most_together: float
    needed_copies: int


class Handover(Result):
    """Keys and values of a prompt on their way from a prefill copy to a decode copy.

    `bytes_per_gpu` is what the busiest GPU sends or receives of one prompt; `seconds` is what it adds to the first
    token.
    """

    bytes_per_gpu: float
    link: str
    link_bytes_per_s: float
    seconds: Figure


class PooledServing(Result):
    """Both pools; `binds` ('prefill' or 'decode') carries less.

    `matched_prefill` to `matched_decode` copies carry the same, but for at most a tenth too much prefill.
    `first_token` has the parts of the time to first token in their order.
    """

    prefill: Pool
    decode: Pool
    binds: str
    matched_prefill: int
    matched_decode: int
    handover: Handover
    first_token: list[ExplainedTerm]


class PooledMachines(Result):
    """Copies of one pool on machines of one type; `machines` is None where they share those of the other pool."""

    copies: int
    gpu: str
    num_gpus: int
    layout: str
    cloud: str
    region: str
    instance: str
    machines: int | None
    price_kind: str
    price_source: str
    price_as_of: date | None
    carried_requests_per_s: float


class PooledDeployment(Result):
    """The cheapest pools of a plan, in one region: copies that prefill and copies that decode.

    `planned_s`: each latency that has a limit as it is planned, with the confidence of the plan. `cost_ratio` is the
    price over that of the plan's answer, where there is one.
    """

    prefill: PooledMachines
    decode: PooledMachines
    engine: str
    weight_format: str
    kv_precision: str
    usd_per_hour: float
    usd_per_month: float
    cost_ratio: float | None = None
    planned_s: dict[str, float]
    handover_s: float
