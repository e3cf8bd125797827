"""A priced plan of a batch job of a model that writes."""

from __future__ import annotations

from gpufleet.results.base import Figure, Ranks
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.results.launch import Launch


class JobDeployment(RentedJob):
    """One way to get the job done: machines, layout, when it is done and what it costs."""

    kv_precision: str
    layout: str
    ranks: Ranks | None = None
    output_tokens_per_s: Figure
    usd_per_million_tokens: Figure
    usd_per_million_output_tokens: Figure
    launch: Launch | None = None


class BatchPlan(JobPlan):
    """Ways to get a job done by its deadline, cheapest first; the first is the answer. None means infeasible."""

    num_active_parameters: int
    input_tokens: float
    output_tokens: float
    deployments: list[JobDeployment]

    @property
    def answer(self) -> JobDeployment:
        """The cheapest way."""
        return self.deployments[0]
