"""What it costs to send bytes out of a region."""

from __future__ import annotations

from datetime import date

from gpufleet.records import dataclass


@dataclass(frozen=True)
class EgressTier:
    """A price per GB between two amounts of a month, in GB; the last may end at infinity."""

    from_gb: float
    to_gb: float
    usd_per_gb: float


@dataclass(frozen=True)
class EgressPrice:
    """The tiers of a month's bytes from a region to the internet, or to another region of its cloud.

    `to_region` is empty for the internet. Above the last tier nothing is published.
    """

    cloud: str
    region: str
    to_region: str
    tiers: tuple[EgressTier, ...]
    source: str
    as_of: date

    def __post_init__(self) -> None:
        reached = 0.0
        for tier in self.tiers:
            if tier.from_gb != reached or tier.to_gb <= tier.from_gb or tier.usd_per_gb < 0:
                raise ValueError(
                    f"{self.cloud} {self.region}: tiers of egress follow each other from 0 GB, found {tier!r}"
                )
            reached = tier.to_gb

    @property
    def first_paid_usd_per_gb(self) -> float:
        """The price of the first tier that costs something; 0 where none does."""
        return next((tier.usd_per_gb for tier in self.tiers if tier.usd_per_gb > 0), 0.0)

    @property
    def known_to_gb(self) -> float:
        """How much of a month's bytes a price is published for."""
        return self.tiers[-1].to_gb if self.tiers else 0.0
