"""What plans of batch jobs have in common, whatever a model does with a request, and those of models that write."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.results.answer import Answer
from gpufleet.results.base import Figure, Launch, Ranks, Result
from gpufleet.results.plan import RejectionCount
from gpufleet.results.rented import RentedMachines
from gpufleet.results.seal import Sealed


class PlayedOnSpot(Result):
    """What drawn spot markets make of a job, with on demand standing in so that it ends by its deadline.

    `usd_if_seldom_taken` is what it would cost at the rate of `interruptions_per_hour` alone: starts are never refused
    there. `losses` stop all machines at once; `on_demand_ratio` is of their time, `late_ratio` of draws.
    """

    usd_if_seldom_taken: float
    losses: float
    on_demand_ratio: float
    late_ratio: float
    zones: int
    draws: int


class RentedJob(RentedMachines):
    """Machines that get a job done, when it is done and what it costs.

    `finish_s` runs from the start of the machines, `used_s` is what each of them runs and `paid_s` what it is paid for:
    the same by the hour, whole days of capacity blocks, all the time between two jobs (`JobPlan.period_s`) of terms and
    of one's own machines, whose `running_usd` is the part that is not spent already. Figures are ranges over the
    speed and, on spot, over how often machines are taken away. `interruptions` are expected of all machines together,
    and `repeated_ratio` of the time that they run goes into starting anew and repeating what was lost. On spot,
    `interruptions_per_hour` of one machine come from `interruption_source`, and are a prior where no band is published;
    where there is a deadline, times and cost are those of drawn markets (`played`).
    """

    requests_per_replica: float
    wave_s: float
    requests_per_s: Figure
    work_s: float
    finish_s: Figure
    used_s: Figure
    paid_s: Figure
    usd: Figure
    running_usd: float | None = None
    usd_per_month: float | None = None
    usd_per_thousand_requests: Figure
    interruptions: float
    interruptions_per_hour: Figure | None = None
    interruption_source: str | None = None
    repeated_ratio: float
    played: PlayedOnSpot | None = None

    @property
    def work_ratios(self) -> tuple[float, float]:
        """How much shorter and longer than expected the work may be, by the range of its speed."""
        rate = self.requests_per_s
        return rate.value / (rate.high or rate.value), rate.value / (rate.low or rate.value)


class JobPlan(Sealed, Answer):
    """Ways to get a job done by its deadline, cheapest first; the first is the answer. None means infeasible.

    A speed that nobody measured counts as slow as it is with the confidence of the plan.

    The job comes again every `period_s`; None: it runs once. It is done in time with `confidence`: 0.5 is the expected
    time, 0.9 the high end of its range; nothing is with `missed_confidence`, which nobody asked for.
    `undated_alternative` costs less than the answer at a price that nobody dates; `unmeasured_alternative` costs less
    as expected, at a speed that nobody measured: with the confidence of the plan it would cost more.
    """

    model: str
    num_parameters: int
    requests: float
    deadline_s: float
    startup_s: float
    period_s: float | None = None
    headroom_wanted_ratio: float
    confidence: float = 0.5
    missed_confidence: float | None = None
    deployments: Sequence[RentedJob]
    undated_alternative: RentedJob | None = None
    unmeasured_alternative: RentedJob | None = None
    rejections: list[RejectionCount]
    num_layouts: int
    num_configurations: int
    num_offers: int

    @property
    def is_feasible(self) -> bool:
        """Whether anything gets the job done in time."""
        return bool(self.deployments)


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
