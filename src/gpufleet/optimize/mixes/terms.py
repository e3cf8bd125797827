"""What a mix is held to beside its objectives, as rows over machines: quotas, a budget, spot, clouds, losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.instance import Instance
from gpufleet.domain.mix import Loss, MachineLimit, Share
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.market import effective_price
from gpufleet.records import dataclass
from gpufleet.units import HOUR, MEGA

BUDGET, ON_SPOT, SHARE_OF, CARBON = "budget", "spot share", "share of ", "kg CO2e an hour"


@dataclass(frozen=True)
class GpusAtMost:
    """So many GPUs at most of the offers of a cloud, a region and a GPU; None: any."""

    name: str
    most_gpus: int
    gpu: str
    cloud: str | None = None
    region: str | None = None

    def covers(self, offer: Offer, instance: Instance) -> bool:
        """Whether machines of an offer count."""
        return (
            instance.accelerator == self.gpu
            and self.cloud in (None, offer.cloud)
            and self.region in (None, offer.region)
        )


@dataclass(frozen=True)
class CloudShare:
    """The share of the cost, or of the machines' GPUs, that a cloud has."""

    cloud: str
    share_ratio: float


@dataclass(frozen=True)
class Terms:
    """What is asked of a mix; `shares` are of the cost unless `is_of_gpus`, `tolerance_ratio` None: one machine."""

    quotas: tuple[GpusAtMost, ...] = ()
    most_usd_per_hour: float = math.inf
    most_spot_ratio: float = 1.0
    shares: tuple[CloudShare, ...] = ()
    is_of_gpus: bool = False
    tolerance_ratio: float | None = None
    spare_machines: int = 0
    zones: int = 1
    survives_region: bool = False
    most_kg_per_hour: float = math.inf
    kg_per_hour: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """What a machine emits an hour, by cloud, region and type; those that are not here are not known."""
    usd_per_million_answer_tokens: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What a million tokens of answers cost on their way out of a region; those that are not here cost nothing."""

    def sending_usd_per_hour(self, tokens_per_s: FloatArray, offer: Offer) -> FloatArray:
        """What answers of so many tokens a second cost on their way out of an offer's region   [USD/h]."""
        return tokens_per_s * HOUR / MEGA * self.usd_per_million_answer_tokens.get((offer.cloud, offer.region), 0.0)

    @property
    def has_losses(self) -> bool:
        """Whether anything may be lost."""
        return bool(self.spare_machines) or self.zones > 1 or self.survives_region

    def limits(self, offers: Sequence[Offer], instances: Sequence[Instance]) -> tuple[MachineLimit, ...]:
        """Quotas, those of the tables and those that were said, the budget and the most on spot."""
        found = [*table_quotas(offers), *(said_quota(q, offers, instances) for q in self.quotas)]
        if math.isfinite(self.most_usd_per_hour):
            found.append(MachineLimit(BUDGET, usd_of(offers), self.most_usd_per_hour))
        if self.most_spot_ratio < 1:
            is_spot = np.array([offer.price_kind is PriceKind.SPOT for offer in offers], dtype=np.float64)
            found.append(MachineLimit(ON_SPOT, is_spot - self.most_spot_ratio, 0.0))
        if math.isfinite(self.most_kg_per_hour):
            kg = [self.kg_per_hour[o.cloud, o.region, o.instance] for o in offers]
            found.append(MachineLimit(CARBON, np.array(kg), self.most_kg_per_hour))
        return tuple(found)

    def may_buy(self, offer: Offer) -> bool:
        """Whether what an offer's machines emit is known, where that is limited."""
        is_known = (offer.cloud, offer.region, offer.instance) in self.kg_per_hour
        return is_known or not math.isfinite(self.most_kg_per_hour)

    def cloud_shares(self, offers: Sequence[Offer], instances: Sequence[Instance]) -> tuple[Share, ...]:
        """The share of every cloud that has some and not all; others sell nothing to a mix of shares."""
        gpus = np.array([instance.gpu_count for instance in instances], dtype=np.float64)
        weight = gpus if self.is_of_gpus else usd_of(offers)
        return tuple(
            Share(
                f"{SHARE_OF}{s.cloud}",
                np.array([offer.cloud == s.cloud for offer in offers]),
                weight,
                s.share_ratio,
                self.tolerance_ratio,
            )
            for s in self.shares
            if 0 < s.share_ratio < 1
        )

    @property
    def clouds(self) -> frozenset[str]:
        """The clouds that have a share; none where any may be used."""
        return frozenset(s.cloud for s in self.shares if s.share_ratio > 0)

    def losses(self, offers: Sequence[Offer], offer_of_way: Sequence[int]) -> tuple[Loss, ...]:
        """A zone of every region, and every region, where they may be lost; failed machines are counted apart."""
        regions = sorted({(offer.cloud, offer.region) for offer in offers}) if self.survives_region else []
        where = [(offers[o].cloud, offers[o].region) for o in offer_of_way]
        none = np.zeros(len(where))
        found = [Loss(f"{c} {r}", np.array([float(at == (c, r)) for at in where]), none) for c, r in regions]
        if self.zones > 1:
            found.append(Loss(f"one of {self.zones} zones", np.full(len(where), 1 / self.zones), none))
        return tuple(found)


def usd_of(offers: Sequence[Offer]) -> FloatArray:
    """What a machine of each offer costs an hour."""
    return np.array([effective_price(offer) for offer in offers], dtype=np.float64)


def table_quotas(offers: Sequence[Offer]) -> list[MachineLimit]:
    """Quotas of GPUs that the tables hold, over the offers that share them."""
    names = {quota.name: quota.max_gpus for offer in offers for quota in offer.gpu_quotas}
    return [
        MachineLimit(
            name,
            np.array([sum(q.gpus_per_machine for q in o.gpu_quotas if q.name == name) for o in offers]),
            float(most),
        )
        for name, most in sorted(names.items())
    ]


def said_quota(quota: GpusAtMost, offers: Sequence[Offer], instances: Sequence[Instance]) -> MachineLimit:
    """A quota that was said, over the offers that it covers."""
    pairs = zip(offers, instances, strict=True)
    gpus = [instance.gpu_count if quota.covers(offer, instance) else 0.0 for offer, instance in pairs]
    return MachineLimit(quota.name, np.array(gpus, dtype=np.float64), float(quota.most_gpus))
