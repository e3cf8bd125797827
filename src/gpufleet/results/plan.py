"""A priced serving plan."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import SCHEMA_VERSION, Figure, Input, Result


class Deployment(Result):
    """One way to serve the workload: machines, layout, what they deliver and cost.

    `latency` maps a name (ttft.p95) to its figure at the asked rate: every objective, and the 95th percentile of what
    has none; of a class of requests it begins with its name (chat.ttft.p95). `headroom_ratio` is how much the rate
    may grow before a limit breaks; `idle_gpus` are paid for and hold no replica. `usd_per_hour` is the mean over all
    hours: with quiet hours, `busy_usd_per_hour` is paid in the others and `quiet_instance_count` machines are kept.
    `steady_instance_count` of the machines are bought on demand, at a price of their own, as not all may be spot.
    """

    cloud: str
    region: str
    instance: str
    instance_count: int
    gpu: str
    gpus_per_instance: float
    price_kind: str
    price_basis: str
    price_source: str
    price_as_of: date
    interruption: str | None = None
    price_per_instance_usd_per_hour: float
    price_per_gpu_usd_per_hour: float
    engine: str
    weight_format: str
    kv_precision: str
    layout: str
    gpus_per_replica: int
    replicas: int
    idle_gpus: int
    batch: float
    largest_batch: float
    latency: dict[str, Figure]
    requests_per_s_capacity: Figure
    load_ratio: float
    headroom_ratio: float
    usd_per_hour: float
    busy_usd_per_hour: float | None = None
    quiet_instance_count: int | None = None
    steady_instance_count: int = 0
    steady_price_per_instance_usd_per_hour: float | None = None
    usd_per_month: float
    usd_per_million_output_tokens: float
    usd_per_request: float
    binding_limit: str
    is_tight: bool
    grade: str


class RejectionCount(Result):
    """Candidates that one rule rejected, and the one that came nearest."""

    reason: str
    count: int
    best: str


class Relaxation(Result):
    """A limit that would have to give way for one candidate to become feasible, and how far.

    `together`: no limit suffices alone; all that are listed must give way at once.
    """

    limit: str
    asked: str
    needed: str
    candidate: str
    together: bool = False


class PriceSource(Result):
    """Where prices of a plan come from."""

    id: str
    title: str
    as_of: date


class BillCost(Result):
    """A line beside the GPU machines as stated: `quantity` units at `unit_usd`, `per` what and what that comes to."""

    line: str
    quantity: float
    unit: str
    per: str
    unit_usd: float
    usd_per_month: float
    source: str


class ServePlan(Result):
    """Ranked deployments, cheapest first; the first is the answer. None means infeasible: see `relaxations`."""

    schema_version: str = SCHEMA_VERSION
    model: str
    num_parameters: int
    num_active_parameters: int
    rate_requests_per_s: float
    input_tokens: float
    output_tokens: float
    headroom_wanted_ratio: float
    inputs: list[Input]
    objectives: dict[str, float]
    deployments: list[Deployment]
    spot_alternative: Deployment | None = None
    lower_precision_alternative: Deployment | None = None
    rest_of_bill: list[BillCost] = []
    rejections: list[RejectionCount]
    relaxations: list[Relaxation] = []
    num_layouts: int
    num_configurations: int
    num_offers: int
    price_sources: list[PriceSource]
    notes: list[str] = []
    input_hash: str

    @property
    def is_feasible(self) -> bool:
        """Whether any deployment serves the workload within its objectives."""
        return bool(self.deployments)

    @property
    def answer(self) -> Deployment:
        """The cheapest deployment."""
        return self.deployments[0]
