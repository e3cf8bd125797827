"""Monthly costs and savings as the seeds reckon them: price x machines x hours, less a share."""

from __future__ import annotations

from typing import NamedTuple

from gpufleet.compat.rules.plausible import refuse_share, refuse_unless
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH_SEEDS, PERCENT

HOURS_PER_DAY = DAY / HOUR
DAYS_PER_MONTH = HOURS_PER_MONTH_SEEDS / HOURS_PER_DAY
WEEKS_PER_MONTH = 4
SPOT_RATIO = 0.7


class Environment(NamedTuple):
    """A setup that the seeds price by the month: machines x price x hours a period x periods a month."""

    name: str
    instance: str
    num_instances: int
    price_usd_per_hour: float
    hours_per_period: float
    periods_per_month: float
    printed_usd_per_month: float

    @property
    def is_daily(self) -> bool:
        """Whether the period is a day; else it is a week."""
        return self.periods_per_month > WEEKS_PER_MONTH

    @property
    def usd_per_month(self) -> float:
        """What the seed's own factors come to. [USD]"""
        hours = self.hours_per_period * self.periods_per_month
        return monthly_cost(self.price_usd_per_hour, hours, self.num_instances)


class SavingRange(NamedTuple):
    """A saving that a seed states as a range, and what it says it of."""

    name: str
    low_ratio: float
    high_ratio: float


ENVIRONMENTS = (
    Environment("Development Environment", "g4dn.xlarge", 2, 0.526, 8, 22, 185),
    Environment("Staging Environment", "p3.2xlarge", 1, 3.060, 4, 22, 269),
    Environment("Production Inference (Real-time)", "g4dn.2xlarge", 3, 0.752, HOURS_PER_DAY, DAYS_PER_MONTH, 1623),
    Environment("Production Training (Weekly)", "p4d.24xlarge", 1, 32.770, HOURS_PER_DAY, WEEKS_PER_MONTH, 3146),
)
SPOT_SAVINGS = (
    SavingRange("AWS Spot", 0.5, 0.9),
    SavingRange("GCP Preemptible", 0.6, 0.8),
    SavingRange("Azure Spot", 0.6, 0.9),
)
SPOT_TIPS, SPOT_TABLE = SavingRange("the guide's tips", 0.6, 0.7), SavingRange("the guide's price table", 0.45, 0.73)
RESERVED_SAVING = SavingRange("Reserved, 1-3 years", 0.4, 0.6)
SCHEDULED_SHUTDOWN_SAVING = SavingRange("Scheduled shutdown", 0.6, 0.7)


def spot_saving_of(cloud: str) -> SavingRange | None:
    """What the seeds state of spot on a cloud.

    >>> spot_saving_of("aws")
    SavingRange(name='AWS Spot', low_ratio=0.5, high_ratio=0.9)
    """
    return next((saving for saving in SPOT_SAVINGS if saving.name.casefold().startswith(cloud.casefold())), None)


def stated_of_spot() -> str:
    """What the seeds state of spot elsewhere, in words."""
    low, high, lowest, highest = (f"{PERCENT * r:.0f}" for s in (SPOT_TIPS, SPOT_TABLE) for r in s[1:])
    return f"elsewhere {low}-{high}%; their own price table spreads from {lowest} to {highest}%"


def monthly_cost(
    price_usd_per_hour: float, hours_per_month: float = HOURS_PER_MONTH_SEEDS, num_instances: float = 1
) -> float:
    """Price x hours x machines; a month of the seeds has 24 x 30 = 720 hours. [USD/month]

    Source: GPU Requirements Assessment, "Monthly Cost Estimates by Workload".

    >>> round(monthly_cost(0.752, 720, 3), 2)
    1624.32
    """
    refuse_unless(price_usd_per_hour >= 0, "price_usd_per_hour", price_usd_per_hour, "a price, zero or more")
    refuse_unless(hours_per_month >= 0, "hours_per_month", hours_per_month, "hours, zero or more")
    refuse_unless(num_instances >= 0, "num_instances", num_instances, "machines, zero or more")
    return num_instances * price_usd_per_hour * hours_per_month


def saving_ratio(before_usd: float, after_usd: float) -> float:
    """Share of a cost that is saved: 1 - after / before; negative where it grows.

    >>> round(saving_ratio(32.0, 3.5), 3)
    0.891
    """
    refuse_unless(before_usd > 0, "the cost before", before_usd, "a cost above zero")
    refuse_unless(after_usd >= 0, "the cost after", after_usd, "a cost, zero or more")
    return 1 - after_usd / before_usd


def cost_after(usd: float, saved_ratio: float) -> float:
    """A cost less a share of it. [USD]

    Source: GPU Selection Guide for RemoteMedia on AWS, "Use Spot Instances" ($382 a month less 70 %).

    >>> round(cost_after(382, SPOT_RATIO))
    115
    """
    refuse_share("the saving", saved_ratio)
    return usd * (1 - saved_ratio)


def off_hours_ratio(hours_off_per_day: float) -> float:
    """Share of a day, and so of a bill by the hour, that switching off saves.

    Source: GPU Selection Guide for RemoteMedia on AWS, "Scale to Zero During Off-Hours" (12 hours: 50 %).

    >>> off_hours_ratio(12)
    0.5
    """
    refuse_unless(0 <= hours_off_per_day <= HOURS_PER_DAY, "hours off per day", hours_off_per_day, "0 to 24 hours")
    return hours_off_per_day / HOURS_PER_DAY


def hours_between(from_hour: float, to_hour: float) -> float:
    """Hours from one time of day to the next, past midnight where it must.

    >>> hours_between(22, 6)
    8.0
    """
    for hour in (from_hour, to_hour):
        refuse_unless(0 <= hour <= HOURS_PER_DAY, "a time of day", hour, "0 to 24 hours")
    return (to_hour - from_hour) % HOURS_PER_DAY
