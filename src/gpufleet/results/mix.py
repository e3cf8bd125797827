"""The cheapest fleet of several machine types, and which requests each gets."""

from __future__ import annotations

from pydantic import computed_field

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.plan import Deployment
from gpufleet.results.rented import OfferedMachines
from gpufleet.results.seal import Sealed


class MixCopies(Result):
    """Replicas of a service on machines of the mix: the `machines`-th row of them, at the requests that they get.

    `busy_ratio`: how much of what they are bought for the requests take, headroom included.
    """

    service: int
    machines: int
    requests_per_s: float
    busy_ratio: float
    deployment: Deployment


class MixMachines(OfferedMachines):
    """Machines of one offer; `usd_per_hour_without`: what the cheapest mix without this offer costs, where one is.

    `can_be_had`: how many a quota, a reservation or one's own rack allows, None where nothing bounds them alone.
    """

    price_per_instance_usd_per_hour: float
    usd_per_hour: float
    can_be_had: int | None
    usd_per_hour_without: float | None = None


class RouteRow(Result):
    """Requests of a class whose prompts, and answers where they are foretold, are above and up to so many tokens.

    Up to None: however many. Answers are from None where they are not foretold. `copies`: share of these requests that
    each row of copies gets.
    """

    service: int
    request_class: str
    from_prompt_tokens: float
    to_prompt_tokens: float | None
    from_answer_tokens: float | None
    to_answer_tokens: float | None
    requests_per_s: float
    copies: dict[int, float]


class BindingLimit(Result):
    """A limit that costs something: what all costs an hour where it allows `more` of its own unit."""

    name: str
    most: float
    more: float
    usd_per_hour_with_more: float


class GivenWay(Result):
    """A limit that has to give way, from what it is to what some mix keeps.

    `is_share`: both are shares of the whole.
    """

    name: str
    is_share: bool = False
    limit: float
    needed: float


class MixService(Result):
    """A service of the mix; `usd_per_hour_alone`: its cheapest plan of one machine type, without the others.

    `clouds`: where alone it may run, for a `reason`; none: anywhere.
    """

    model: str
    num_parameters: int = 0
    requests_per_s: float
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    engine_version: str | None = None
    objectives: dict[str, float]
    headroom_ratio: float
    confidence: float
    num_buckets: int
    usd_per_hour_alone: float | None
    clouds: list[str] = []
    reason: str = ""


class FleetMix(Sealed, Answer):
    """Machines of several types for one or several services, at least cost.

    `least_usd_per_hour`: at the loads that were found no mix of the `num_offers_searched` best offers costs less; the
    gap to it is not proved to be needed; `is_proved_together`: it is of mixes that send lengths apart alone.
    `is_cut_short`: a time limit that was typed ended the search.
    `leaving_usd_per_hour` is what giving up machines of today adds. `asked_shares` and `cloud_shares`: what each cloud
    should have and has of `shares_of`, within `share_tolerance`, None: one machine of the cloud; `usd_per_hour_free`:
    what the same clouds cost without shares. `given_way`: where no mix keeps all limits, the least by which they have
    to give way; then there are no machines.
    """

    services: list[MixService]
    machines: list[MixMachines]
    copies: list[MixCopies]
    routes: list[RouteRow]
    usd_per_hour: float | None
    usd_per_month: float | None
    leaving_usd_per_hour: float = 0.0
    least_usd_per_hour: float | None
    is_greedy: bool = False
    is_cut_short: bool = False
    is_proved_together: bool = False
    usd_per_hour_one_type: float | None
    binding: list[BindingLimit] = []
    quotas_used: dict[str, float] = {}
    given_way: list[GivenWay] = []
    asked_shares: dict[str, float] = {}
    shares_of: str = "cost"
    share_tolerance: float | None = None
    cloud_shares: dict[str, float] = {}
    usd_per_hour_free: float | None = None
    num_offers: int
    num_offers_searched: int | None = None
    num_buckets: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether a mix keeps all that was asked."""
        return bool(self.machines)

    @property
    def had_solver(self) -> bool:
        """Whether a solver was there to search and to prove."""
        return not self.is_greedy

    @property
    def gap_ratio(self) -> float | None:
        """How much of the cost is not proved to be needed; None where nothing is proved."""
        if self.usd_per_hour is None or self.least_usd_per_hour is None:
            return None
        return max(1 - self.least_usd_per_hour / self.usd_per_hour, 0.0)
