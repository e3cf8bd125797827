"""A priced serving plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from pydantic import computed_field

from gpufleet.results.answer import Answer
from gpufleet.results.base import SCHEMA_VERSION, Figure, Launch, Ranks, Refused, Result
from gpufleet.results.beside import KeptBeside
from gpufleet.results.catalog import TokenApi
from gpufleet.results.levers import CertaintyPrice, CopiesForCertainty, Flip, Lever, LimitEdge
from gpufleet.results.pools import PooledDeployment
from gpufleet.results.rented import RentedMachines
from gpufleet.results.seal import Sealed
from gpufleet.results.today import Today
from gpufleet.results.verification import Verification


class Energy(Result):
    """Electricity of the GPUs that are paid for, without hosts, network and cooling.

    `value`: board power for the share of time in which replicas have work (`utilisation_ratio`); low: for their load
    factor alone; high: all GPUs at board power all the time. A stated rule, not a measurement.

    Of one's own machines instead: `machine_watts` x `num_machines` x `cooling_ratio` (PUE) as stated, all the time, as
    they are charged; low: for the share of time in which replicas have work.
    """

    board_power_watts: float | None = None
    machine_watts: float | None = None
    num_machines: float | None = None
    cooling_ratio: float | None = None
    num_gpus: float
    utilisation_ratio: float
    kwh_per_hour: Figure
    kwh_per_million_output_tokens: Figure
    grid_g_co2_per_kwh: float | None = None
    kg_co2_per_hour: Figure | None = None


class RentedService(RentedMachines):
    """Machines that serve a rate of requests, whatever a model does with a request.

    `latency` maps a name (ttft.p95) to its figure at the asked rate: every objective, and the 95th percentile of what
    has none; of a class of requests it begins with its name (chat.ttft.p95). `requests_per_s_capacity` is the rate up
    to which every limit holds: as expected, at the slow end of the ranges (low; 0: at no load) and at the fast one
    (high). `headroom_ratio` is how much the rate
    may grow before a limit breaks. `usd_per_hour` is the mean over all hours: with quiet hours, `busy_usd_per_hour` is
    paid in the others (`busy_time_ratio` of the time) and `quiet_instance_count` machines are kept.
    `steady_instance_count` of the machines are bought on demand, at a price of their own, as not all may be spot.
    `running_usd_per_hour`, of one's own machines alone, is the part of `usd_per_hour` that is not spent already.
    In a choice it counts `doubt_ratio` times what it costs, for the doubt that it holds halfway to certainty.
    `slack_ratio` is the share of every limit that is left at the asked rate: objectives, load, KV room.
    `requests_per_s_capacity` is what all replicas carry as expected, with its range, and `headroom_ratio` how much more
    than the rate that is; `sure_requests_per_s` is what they carry with the confidence of the plan.
    """

    price_per_gpu_usd_per_hour: float
    latency: dict[str, Figure]
    requests_per_s_capacity: Figure
    sure_requests_per_s: float | None = None
    load_ratio: float
    headroom_ratio: float
    busy_usd_per_hour: float | None = None
    busy_time_ratio: float = 1.0
    quiet_instance_count: int | None = None
    quiet_steady_instance_count: int | None = None
    steady_instance_count: int = 0
    steady_price_per_instance_usd_per_hour: float | None = None
    running_usd_per_hour: float | None = None
    usd_per_month: float
    usd_per_request: float
    slack_ratio: dict[str, float] = {}
    doubt_ratio: float = 1.0

    @property
    def likely_usd_per_hour(self) -> float:
        """What one likely pays by now."""
        return self.usd_per_hour * self.price_age_ratio

    @property
    def counted_usd_per_hour(self) -> float:
        """What it counts in a choice."""
        return self.likely_usd_per_hour * self.doubt_ratio

    @property
    def spare_ratio(self) -> float:
        """How much more than the asked rate is carried as surely as the plan promises: a file of old says as expected.

        sure capacity / rate - 1, rate = capacity / (1 + headroom)   [1]
        """
        if self.sure_requests_per_s is None:
            return self.headroom_ratio
        return self.sure_requests_per_s * (1 + self.headroom_ratio) / self.requests_per_s_capacity.value - 1

    @property
    def avoidable_usd_per_hour(self) -> float:
        """What is not spent where the machines do not run: of one's own, what running them costs."""
        return self.usd_per_hour if self.running_usd_per_hour is None else self.running_usd_per_hour

    @property
    def mean_instance_count(self) -> float:
        """Machines that are paid for, over all hours."""
        quiet = self.instance_count if self.quiet_instance_count is None else self.quiet_instance_count
        return self.busy_time_ratio * self.instance_count + (1 - self.busy_time_ratio) * quiet


class Deployment(RentedService):
    """One way to serve the workload: machines, layout, what they deliver and cost."""

    kv_precision: str
    layout: str
    ranks: Ranks | None = None
    usd_per_million_output_tokens: float
    energy: Energy | None = None
    launch: Launch | None = None
    beside: KeptBeside | None = None


class MixPart(Result):
    """One of two offers that serve together: its share of the requests, and its machines at that rate.

    `can_be_had`: how many machines a quota, a reservation or one's own rack allows, None where nothing bounds them;
    `needed_alone`: how many would serve without the other part.
    """

    share_ratio: float
    requests_per_s: float
    can_be_had: int | None
    needed_alone: int
    deployment: Deployment


class MixedDeployment(Result):
    """The cheapest two offers together, of which at least one has too few machines to serve alone."""

    parts: list[MixPart]
    usd_per_hour: float
    usd_per_month: float
    usd_per_million_output_tokens: float


class RejectionCount(Result):
    """Candidates that one rule rejected, and the one that came nearest.

    `code` names the rule, `figures` what it compared, in base units; `reason` and `best` say both in words.
    """

    code: str = ""
    figures: dict[str, float | str | None] = {}
    reason: str
    count: int
    best: str


class Relaxation(Result):
    """A limit that would have to give way for one candidate to become feasible, and how far.

    `together`: no limit suffices alone; all that are listed must give way at once.
    """

    limit: str
    asked_s: float | None = None
    needed_s: float | None = None
    asked: str
    needed: str
    candidate: str
    together: bool = False


class LooserLimit(Result):
    """A limit that costs much, beside the `lone_s` that a request without any other takes on the answer's machines.

    At `looser_s`, all else unchanged, the cheapest plan costs `usd_per_hour`: `saved_ratio` less than the answer.
    """

    limit: str
    limit_s: float
    lone_s: float
    looser_s: float
    cloud: str
    region: str
    instance: str
    price_kind: str
    instance_count: int
    usd_per_hour: float
    saved_ratio: float


class BillCost(Result):
    """A line beside the GPU machines as stated: `quantity` units at `unit_usd`, `per` what and what that comes to."""

    line: str
    quantity: float
    unit: str
    per: str
    unit_usd: float
    usd_per_month: float
    source: str


class Front(Result):
    """Deployments that none beats in both cost and `figure` (such as latency.p95), cheapest first."""

    figure: str
    points: list[Deployment]


class WhyNot(Result):
    """Why GPUs that were asked about are not the answer.

    `cheapest` is the best that they can do, None where nothing of them serves: then `refused` says why, for every
    candidate. `wins_below_usd_per_hour` is the price of one of its machines below which it would be the answer.
    `gpus_per_replica` None: replicas of any size. `not_asked`: the question itself left these GPUs out. Where nothing
    of them serves, `needed_limits_s` are objectives with which something would under load, `serves_then` the cheapest.
    """

    schema_version: str = SCHEMA_VERSION
    model: str
    asked: str
    gpu: str
    gpus_per_replica: int | None
    largest_machine_gpus: float | None
    not_asked: str | None = None
    cheapest: Deployment | None
    answer: Deployment | None
    wins_below_usd_per_hour: float | None
    needed_limits_s: dict[str, float] = {}
    serves_then: Deployment | None = None
    refused: list[Refused]
    notes: list[str] = []

    @property
    def is_answer(self) -> bool:
        """Whether the answer is made of what was asked about."""
        if self.answer is None or self.answer.gpu != self.gpu:
            return False
        return self.gpus_per_replica in (None, self.answer.gpus_per_replica)


class BreakEven(Result):
    """The answer beside an API that charges by the token, and the rates at which machines cost no more.

    `first_requests_per_s`: the least such rate; `settled_requests_per_s`: from there on they never cost more again.
    Both costs are means over all hours, at `mean_requests_per_s`; the rates are those at the peak, quiet hours kept.
    `api` says whose price it is where a host was named.
    """

    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    mean_requests_per_s: float
    api_usd_per_hour: float
    own_usd_per_hour: float
    own_over_api_ratio: float
    first_requests_per_s: float | None
    settled_requests_per_s: float | None
    api: TokenApi | None = None


class GpuBound(Result):
    """A quota of GPUs that machines of several types share, and how many of them a machine takes."""

    name: str
    max_gpus: int
    gpus_per_machine: float


class ConsideredPrice(Result):
    """The cheapest region of one machine type and price kind when the plan was made.

    Where regions have a number of machines, or on-demand machines stand beside spot, the regions that none beats in
    that too. `machine`: a digest of what the tables said about the machine and its GPUs; `age_ratio`: how many times
    the price counted, for its age.
    """

    cloud: str
    instance: str
    price_kind: str
    region: str
    usd_per_hour: float
    as_of: date
    machine: str
    age_ratio: float = 1.0
    max_instances: int | None = None
    gpu_quotas: list[GpuBound] = []


class PlanBasis(Result):
    """What a plan rests on, so that it can be made again and compared: the question, digests, every price that counts.

    `question` holds the words of the request; `digests` one each of the release, the model's description, the engine's
    profile and the measured kernels.
    """

    question: dict[str, Any]
    digests: dict[str, str]
    prices: list[ConsideredPrice]


class MissingPrice(Result):
    """Machines without a price that would serve, and be the answer below `wins_below_usd_per_hour` each.

    `least_known_usd_per_hour`: so many of their GPUs at the least that anybody asks for one at a price with a date.
    """

    cloud: str
    instance: str
    instance_count: int
    gpu: str
    gpus_per_instance: float
    wins_below_usd_per_hour: float
    least_known_usd_per_hour: float


class ServicePlan(Sealed, Answer):
    """Ranked deployments, cheapest first; the first is the answer. None means infeasible: see `relaxations`.

    `mean_requests_per_s` is the rate over all hours, where there are quiet ones: what costs per token, electricity and
    bills by the request rest on. Limits are kept with `confidence` at the rate (0.5 is the expected value, 0.9 the high
    end of every range), the headroom as expected; machines carry `busiest_requests_per_s` too, without headroom.
    `missed_confidence`: nothing keeps the limits so surely, which nobody asked for; `certainty`: what other confidences
    cost, where nobody asked for one (files of former versions have `expected_alternative` instead: what is cheaper as
    expected); `for_certainty`: copies that are over 1.5 times those that hold as expected. `undated_alternative` costs
    less than the answer at a price that nobody dates; `missing_prices`: machines without a price that could have been
    the answer.
    A file also says `is_feasible`: whether objectives, budget and quotas are kept.
    """

    model: str
    num_parameters: int
    rate_requests_per_s: float
    mean_requests_per_s: float | None = None
    headroom_wanted_ratio: float
    busiest_requests_per_s: float | None = None
    confidence: float = 0.5
    missed_confidence: float | None = None
    certainty: list[CertaintyPrice] = []
    for_certainty: CopiesForCertainty | None = None
    objectives: dict[str, float]
    deployments: Sequence[RentedService]
    expected_alternative: RentedService | None = None
    spot_alternative: RentedService | None = None
    undated_alternative: RentedService | None = None
    missing_prices: list[MissingPrice] = []
    rest_of_bill: list[BillCost] = []
    rejections: list[RejectionCount]
    relaxations: list[Relaxation] = []
    num_layouts: int
    num_configurations: int
    num_offers: int

    @property
    def all_hours_requests_per_s(self) -> float:
        """The rate over all hours."""
        return self.rate_requests_per_s if self.mean_requests_per_s is None else self.mean_requests_per_s

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether any deployment serves the workload within its objectives."""
        return bool(self.deployments)


class ServePlan(ServicePlan):
    """The plan of a model that writes.

    `mix`: two offers together, where too few machines can be had of one; the answer where there are no deployments,
    cheaper than every deployment where there are. `today`: what runs now, where it was said. `pools`: prefill and
    decode on copies of their own, where that was asked for. `lengths_differ`: which of input and output tokens differ
    from request to request, `lengths_assumed`: which of them as in published traces, since nobody said how;
    `num_classes` of requests are told apart, and of one kind of request alone percentiles are said.
    `levers`: single changes of the question that save more than a quarter, the best first; `edges`: limits beside which
    the choice changes. `quality_costs`: what weight formats below the checkpoint's cost in quality. `verification`: its
    requests replayed, where that was asked for.
    """

    num_active_parameters: int
    input_tokens: float
    output_tokens: float
    num_classes: int = 0
    lengths_differ: list[str] = []
    lengths_assumed: list[str] = []
    input_p90_tokens: float | None = None
    input_p95_tokens: float | None = None
    output_p90_tokens: float | None = None
    output_p95_tokens: float | None = None
    quality_costs: dict[str, str] = {}
    deployments: list[Deployment]
    levers: list[Lever] = []
    edges: list[LimitEdge] = []
    looser_limits: list[LooserLimit] = []
    mix: MixedDeployment | None = None
    expected_alternative: Deployment | None = None
    spot_alternative: Deployment | None = None
    undated_alternative: Deployment | None = None
    lower_precision_alternative: Deployment | None = None
    basis: PlanBasis | None = None
    flips: list[Flip] | None = None
    front: Front | None = None
    asked_about: list[WhyNot] = []
    break_even: BreakEven | None = None
    today: Today | None = None
    pools: PooledDeployment | None = None
    verification: Verification | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether any deployment, or two offers together, serve the workload within its objectives, replayed too."""
        is_kept = self.verification is None or self.verification.is_kept
        return is_kept and (bool(self.deployments) or self.mix is not None)

    @property
    def answer(self) -> Deployment:
        """The cheapest deployment of one offer."""
        return self.deployments[0]
