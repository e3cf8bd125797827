"""What runs today beside a plan: what it costs, whether it serves, and what to do with it."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import Dated, Figure, Refused, Result
from gpufleet.units import HOURS_PER_MONTH


class ListPrice(Dated):
    """What the tables ask for a machine on demand, where and of which day."""

    usd_per_hour: float
    region: str
    source: str
    as_of: date
    first_seen: date | None = None


class PricePaid(Dated):
    """What an hour of one machine costs, None where nobody knows; `origin`: stated, bill, own, list or unknown.

    `own` is a price of the user's tables. A list price is that of the cheapest of the regions asked for, else of all;
    `highest_usd_per_hour` is that of the dearest. Of one's own machines it is what running one costs;
    `owned_usd_per_hour` is that and what is spent already. `listed` is the list price beside what is paid.
    """

    origin: str
    usd_per_hour: float | None
    region: str | None = None
    price_kind: str | None = None
    source: str | None = None
    as_of: date | None = None
    first_seen: date | None = None
    highest_usd_per_hour: float | None = None
    owned_usd_per_hour: float | None = None
    listed: ListPrice | None = None

    @property
    def times_list(self) -> float | None:
        """What is paid over the list price, where both are known."""
        return (
            None if self.listed is None or self.usd_per_hour is None else self.usd_per_hour / self.listed.usd_per_hour
        )


class TodaysService(Result):
    """How machines of one type run their share of the requests, in the layout that carries most."""

    layout: str
    gpus_per_replica: int
    replicas: int
    engine: str
    weight_format: str
    kv_precision: str
    requests_per_s: float
    requests_per_s_capacity: Figure
    load_ratio: float
    latency: dict[str, Figure]
    is_tight: bool
    grade: str


class TodaysMachines(Result):
    """Machines of one type that run today; `cloud` and `instance` are None where only their GPUs are known.

    `needed_count`: what the demand takes, None where no number of machines serves; `service` None: they cannot, and
    `refused` says why.
    """

    asked: str
    cloud: str | None
    instance: str | None
    gpu: str
    gpus_per_instance: float
    instance_count: int
    price: PricePaid
    needed_count: int | None
    service: TodaysService | None
    refused: list[Refused] = []

    @property
    def idle_count(self) -> int:
        """Machines that could be shut down."""
        return 0 if self.needed_count is None else max(self.instance_count - self.needed_count, 0)


class Today(Result):
    """The fleet of today and what to do with it: keep, shrink, grow, replace (by the plan's answer), nothing fits.

    `is_close`: the range of predicted speeds leaves the step open. `needed_machines`: how many of today's types the
    demand takes, infinite where no number serves at the slow end. `saving_usd_per_month` is today's bill less that of
    the step, at 730 hours, negative where the step costs more; `own_saving_usd_per_month` and
    `plan_saving_usd_per_month` are those of today's types in the needed number and of the plan's answer, whatever the
    step. `is_plan_of_same_type`: the plan's answer is today's machine type at another price. Figures are None where a
    price is unknown.
    """

    asked: str
    machines: list[TodaysMachines]
    usd_per_hour: float | None
    usd_per_month: float | None
    bill_origin: str
    headroom_ratio: float | None
    serves: bool
    needed_machines: Figure | None
    step: str
    is_close: bool
    saving_usd_per_month: Figure | None
    saving_ratio: float | None
    own_saving_usd_per_month: Figure | None
    plan_usd_per_month: Figure | None
    plan_saving_usd_per_month: Figure | None
    is_plan_of_same_type: bool = False
    notes: list[str] = []

    def saved_by(self, usd_per_hour: float) -> float | None:
        """What anything else saves, or costs more (below zero); None where today's bill is unknown   [USD/month]."""
        return None if self.usd_per_hour is None else (self.usd_per_hour - usd_per_hour) * HOURS_PER_MONTH

    @property
    def instance_count(self) -> int:
        """All machines."""
        return sum(m.instance_count for m in self.machines)

    @property
    def idle_count(self) -> int:
        """Machines that could be shut down."""
        return sum(m.idle_count for m in self.machines)
