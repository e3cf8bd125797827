"""Where services run: regions ranked, what users of each place meet, and what is emitted."""

from __future__ import annotations

from datetime import date

from pydantic import computed_field

from gpufleet.results.answer import Answer
from gpufleet.results.base import Figure, Result
from gpufleet.results.job import PlayedOnSpot
from gpufleet.results.mix import FleetMix
from gpufleet.results.rented import OfferedMachines


class UserNetwork(Result):
    """The round trip between users of a place and a region; `median` with its range, as it is known."""

    users: int
    median: Figure
    p95_s: float
    source: str


class UserPlace(Result):
    """Users of a place, and the areas that their requests have to stay in."""

    name: str
    share_ratio: float
    latitude_degrees: float
    longitude_degrees: float
    stays_in: list[str] = []


class AtUsers(Result):
    """What users of a place meet of an objective, served by a row of copies: the model and the network together.

    Without an objective it is the usual figure, which has no limit.
    """

    users: int
    copies: int
    objective: str
    latency: Figure
    limit_s: float | None


class RegionRow(Result):
    """What is known of one region, whether it is chosen, and else the code of the reason.

    `grid` is unknown where nothing is published. `egress_usd_per_gb`: the first paid tier to the internet.
    """

    cloud: str
    region: str
    place: str | None
    country: str | None
    latitude_degrees: float | None
    longitude_degrees: float | None
    is_chosen: bool
    why_not: str | None
    grid: Figure | None
    grid_year: int | None
    grid_source: str | None
    power_usage_ratio: float
    egress_usd_per_gb: float | None


class RegionChoiceRow(RegionRow):
    """One region. `usd_per_hour_alone`: what serving everything from there costs, on `machines`; None: `why_not`.

    `on_demand_usd` and `spot_usd` are of one of these machines, `interruption` its band on spot.
    """

    usd_per_hour_alone: float | None
    machines: str | None
    on_demand_usd: float | None
    spot_usd: float | None
    interruption: str | None
    network: list[UserNetwork]


class KindPrice(Result):
    """What an hour of one machine costs, bought so; the share of an upfront payment included."""

    price_kind: str
    usd_per_hour: float
    basis: str
    source: str
    as_of: date | None
    first_seen: date | None = None
    interruption: str | None = None
    doubt: str = ""


class JobRegionRow(RegionRow):
    """One region for a job: the cheapest machines there that keep all that was asked; None: `why_not`.

    `usd` is for all of the job, `moved_usd` of it for copies of weights, data and results; not `is_moved_known`: some
    of them have no known price and none is counted. `done_s` runs from the start of the machines. `prices` are of one
    machine, of every kind that is sold there; on spot `played` says how drawn markets treat the job.
    """

    machines: OfferedMachines | None = None
    usd: Figure | None = None
    moved_usd: float | None = None
    is_moved_known: bool = True
    done_s: Figure | None = None
    kwh: Figure | None = None
    g_co2e: Figure | None = None
    prices: list[KindPrice] = []
    num_zones: int | None = None
    played: PlayedOnSpot | None = None


class MovedBytes(Result):
    """What a job moves, in bytes: weights and data to where it runs, from `lies_in` where that was said; results out.

    What comes from outside of all clouds is free. `data_bytes` is None where nobody says how much images or audio are.
    """

    weights_bytes: float
    data_bytes: float | None
    results_bytes: float
    lies_in: str | None


class LeastChange(Result):
    """The least to which a limit, alone, would have to give way for some region to run the job."""

    limit: str
    asked: float
    needed: float


class Emitted(Result):
    """Electricity and carbon of a row of copies, of its site and machines around the GPUs too."""

    copies: int
    kwh_per_hour: Figure
    g_co2e_per_hour: Figure | None
    kwh_per_million_output_tokens: Figure
    g_co2e_per_million_output_tokens: Figure | None
    year: int | None
    source: str | None


class EgressCost(Result):
    """Answers that leave a region, and one copy of the weights out of it; None: no price known.

    `usd_per_hour` is in the total: every byte at the first price that is paid. `usd_per_month` goes through the tiers
    of a month, the free ones too, over the range of bytes a token.
    """

    cloud: str
    region: str
    gb_per_month: float
    usd_per_hour: float | None
    usd_per_month: Figure | None
    weights_gb: float
    weights_usd: float | None
    source: str | None
    as_of: date | None


class RegionLost(Result):
    """A region that is lost: the share of all requests that each other one then serves, and how busy copies are there.

    `busiest_ratio`: of what copies sustain, headroom included.
    """

    cloud: str
    region: str
    shares: dict[str, float]
    busiest_ratio: float


class HoursOfDay(Result):
    """Hours of a day in UTC, up to the second, with the same machines of every region."""

    from_hour: int
    to_hour: int
    machines: dict[str, str]
    usd_per_hour: float


class FollowedSun(Result):
    """Machines by the hour where users are awake, beside machines for every place's peak all day.

    `usd_per_day_in_place`: by the hour too, in the regions of the static answer alone. `usd_per_day_one_fleet`:
    the cheapest fleet that was found to carry every hour, left alone all day. `starts`:
    machines that are started in a day, each paid from its start until it answers. A day's peak is `peak_over_mean`
    times its mean, at `peak_hour` of local time.
    """

    usd_per_day_static: float
    usd_per_day: float
    usd_per_day_in_place: float
    usd_per_day_one_fleet: float
    starts: float
    starts_usd_per_day: float
    hours: list[HoursOfDay]
    peak_over_mean: float
    peak_hour: float


class RegionPlan(FleetMix):
    """A mix over regions, with users and regions.

    `egress_usd_per_hour`: what of the cost is for answers that leave. `usd_per_kg_saved`: what a kilogram of CO2e less
    costs, of the cheapest fleet that emits a tenth less; None where none is known.
    """

    users: list[UserPlace]
    regions: list[RegionChoiceRow]
    at_users: list[AtUsers] = []
    emitted: list[Emitted] = []
    egress: list[EgressCost] = []
    egress_usd_per_hour: float = 0.0
    lost: list[RegionLost] = []
    sun: FollowedSun | None = None
    usd_per_kg_saved: float | None = None

    @property
    def g_co2e_per_hour(self) -> float | None:
        """All that is emitted in an hour; None where a part is not known."""
        parts = [e.g_co2e_per_hour.value if e.g_co2e_per_hour is not None else None for e in self.emitted]
        known = [part for part in parts if part is not None]
        return sum(known) if parts and len(known) == len(parts) else None


class JobRegionPlan(Answer):
    """Where a job may run: every region that was looked at, the cheapest first; the first is chosen, where any is.

    `ways`: the machines of its plan, any of which gets it done. `planned`: the cheapest of its plan, where that stands.
    """

    model: str
    job: str
    deadline_s: float
    ways: list[str]
    planned: OfferedMachines
    moved: MovedBytes
    regions: list[JobRegionRow]
    changes: list[LeastChange] = []

    @property
    def answer(self) -> JobRegionRow | None:
        """The cheapest region; None where none runs it as asked."""
        return next((row for row in self.regions if row.is_chosen), None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether a region runs the job as asked."""
        return self.answer is not None
