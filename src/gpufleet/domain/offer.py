"""A price at which an instance can be had."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from enum import Enum

from gpufleet.errors import UnknownName
from gpufleet.provenance import day_in_words
from gpufleet.records import dataclass


class PriceKind(str, Enum):
    """How a price is bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SAVINGS_PLAN = "savings_plan"
    COMMIT_1Y = "commit_1y"
    COMMIT_3Y = "commit_3y"
    CAPACITY_BLOCK = "capacity_block"
    FLEX_START = "flex_start"
    OWNED = "owned"


def price_kind(name: str) -> PriceKind:
    """The price kind of that name: 'on-demand' and 'on_demand' are the same."""
    folded = name.strip().lower().replace("-", "_")
    if folded not in {k.value for k in PriceKind}:
        raise UnknownName("price kind", name, [k.value for k in PriceKind])
    return PriceKind(folded)


BINDING_KINDS = (PriceKind.COMMIT_1Y, PriceKind.COMMIT_3Y)


class PriceBasis(str, Enum):
    """Where a price figure comes from."""

    LIST = "list"
    OBSERVED = "observed"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class OwnPower:
    """What a machine of one's own draws, how much more its cooling takes (PUE), and what electricity costs."""

    machine_watts: float
    cooling_ratio: float
    electricity_usd_per_kwh: float


@dataclass(frozen=True)
class GpuQuota:
    """GPUs that machines of several types share, of which one machine of the offer holds `gpus_per_machine`."""

    name: str
    max_gpus: int
    gpus_per_machine: float

    @property
    def most_machines(self) -> int:
        """Machines of this type alone that it allows.

        >>> GpuQuota("aws us-east-1 H100-SXM", 20, 8).most_machines
        2
        """
        return math.floor(self.max_gpus / self.gpus_per_machine)


@dataclass(frozen=True)
class Offer:
    """Instance x region x price kind, per whole instance. An unknown price is no offer, never zero.

    `max_instances`: how many can be had, where a quota, a reservation or one's own rack bounds it; `gpu_quotas` bound
    it together with offers of other machine types. `first_seen` marks
    a price of an undated copy: `as_of` then is the earliest day that it can be of. `currency`: in which the price was
    agreed on, before it was turned into dollars. `until`: the last day of a price that ends. `own_power`: of one's own
    machines alone. `is_own`: agreed on by the user, so no list moves it. `is_supposed`: nobody's price, a what-if.
    `doubt`: why the price, or what is said of the machine, may be wrong; an answer that rests on it says so.
    `age_ratio`: what it counts in a choice over the price of its day, as prices of its kind moved since.
    """

    cloud: str
    region: str
    instance: str
    price_kind: PriceKind
    price_per_instance_usd_per_hour: float
    basis: PriceBasis
    source: str
    as_of: date
    upfront_usd: float = 0.0
    interruption: str | None = None
    max_instances: int | None = None
    first_seen: date | None = None
    currency: str = "USD"
    until: date | None = None
    own_power: OwnPower | None = None
    is_own: bool = False
    is_supposed: bool = False
    gpu_quotas: tuple[GpuQuota, ...] = ()
    doubt: str = ""
    age_ratio: float = 1.0

    @property
    def most_instances(self) -> int | None:
        """How many can be had where nothing else takes a part of a quota that is shared; None: any number."""
        bounds = [quota.most_machines for quota in self.gpu_quotas]
        return min([*bounds, *([] if self.max_instances is None else [self.max_instances])], default=None)

    @property
    def is_dated(self) -> bool:
        """Whether it is known of which day the price is; one's own always is."""
        return self.first_seen is None or self.is_own

    @property
    def day(self) -> str:
        """Of which day the price is, as far as is known."""
        return day_in_words(self.as_of, self.first_seen)

    def holds_on(self, day: date) -> bool:
        """Whether the price has not ended by that day."""
        return self.until is None or day <= self.until

    def at_price_ratio(self, ratio: float) -> Offer:
        """The same for so many times the price, of the hour and of what is paid up front."""
        return replace(
            self,
            price_per_instance_usd_per_hour=self.price_per_instance_usd_per_hour * ratio,
            upfront_usd=self.upfront_usd * ratio,
        )

    def in_doubt(self, why: str) -> Offer:
        """The same with one doubt more."""
        return replace(self, doubt="; ".join(filter(None, (self.doubt, why))))

    def can_supply(self, num_instances: int) -> bool:
        """Whether so many machines can be had."""
        most = self.most_instances
        return most is None or num_instances <= most

    def __post_init__(self) -> None:
        price = self.price_per_instance_usd_per_hour
        is_paid_up_front = self.upfront_usd > 0 and self.price_kind in BINDING_KINDS
        if not (math.isfinite(price) and (price > 0 or (price == 0 and is_paid_up_front))):
            raise ValueError(
                f"{self.cloud} {self.instance} {self.region}: a price is a positive number, found {price!r}"
            )
        if not (math.isfinite(self.age_ratio) and self.age_ratio > 0):
            raise ValueError(f"{self.cloud} {self.instance} {self.region}: age_ratio is {self.age_ratio!r}")
        if not (math.isfinite(self.upfront_usd) and self.upfront_usd >= 0):
            raise ValueError(f"{self.cloud} {self.instance} {self.region}: upfront_usd is {self.upfront_usd!r}")
        if self.upfront_usd and self.price_kind not in BINDING_KINDS:
            raise ValueError(
                f"{self.cloud} {self.instance} {self.region}: an upfront payment binds for a term, so the price kind "
                f"is commit_1y or commit_3y, found {self.price_kind.value}"
            )
