"""A priced plan of a batch job."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import SCHEMA_VERSION, Figure, Input, Result
from gpufleet.results.launch import Launch
from gpufleet.results.plan import PriceSource, RejectionCount


class JobDeployment(Result):
    """One way to get the job done: machines, layout, when it is done and what it costs.

    `finish_s` runs from the start of the machines, `paid_s` is what each is paid for; figures are ranges over the
    speed and, on spot, over how often machines are taken away. `interruptions` are expected of all machines together,
    and `repeated_ratio` of the paid time goes into starting anew and repeating what was lost.
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
    usd_per_hour: float
    engine: str
    weight_format: str
    kv_precision: str
    layout: str
    gpus_per_replica: int
    replicas: int
    idle_gpus: int
    requests_per_replica: float
    batch: float
    largest_batch: float
    wave_s: float
    requests_per_s: Figure
    output_tokens_per_s: Figure
    work_s: float
    finish_s: Figure
    paid_s: Figure
    usd: Figure
    usd_per_million_tokens: Figure
    usd_per_million_output_tokens: Figure
    usd_per_thousand_requests: Figure
    interruptions: float
    repeated_ratio: float
    binding_limit: str
    is_tight: bool
    grade: str
    launch: Launch | None = None


class BatchPlan(Result):
    """Ways to get a job done by its deadline, cheapest first; the first is the answer. None means infeasible."""

    schema_version: str = SCHEMA_VERSION
    model: str
    num_parameters: int
    num_active_parameters: int
    requests: float
    input_tokens: float
    output_tokens: float
    deadline_s: float
    startup_s: float
    headroom_wanted_ratio: float
    inputs: list[Input]
    deployments: list[JobDeployment]
    rejections: list[RejectionCount]
    num_layouts: int
    num_configurations: int
    num_offers: int
    price_sources: list[PriceSource]
    notes: list[str] = []
    input_hash: str

    @property
    def is_feasible(self) -> bool:
        """Whether anything gets the job done in time."""
        return bool(self.deployments)

    @property
    def answer(self) -> JobDeployment:
        """The cheapest way."""
        return self.deployments[0]
