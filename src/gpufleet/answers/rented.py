"""Machines of one offer, as every plan that rents them says it."""

from __future__ import annotations

from typing import Any

from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.optimize.market import effective_price


def machines_of(offer: Offer, instance: Instance, count: int, steady: Offer | None = None) -> dict[str, Any]:
    """What an offer says of so many machines, of which some may be bought from `steady`."""
    doubts = dict.fromkeys(o.doubt for o in (offer, steady) if o is not None and o.doubt)
    return {
        "cloud": offer.cloud,
        "region": offer.region,
        "instance": offer.instance,
        "instance_count": count,
        "gpu": instance.accelerator,
        "gpus_per_instance": instance.gpu_count,
        "price_kind": offer.price_kind.value,
        "price_basis": offer.basis.value,
        "price_source": offer.source,
        "price_as_of": offer.as_of,
        "price_first_seen": offer.first_seen,
        "price_until": offer.until,
        "price_doubt": "; ".join(doubts),
        "price_age_ratio": offer.age_ratio,
        "price_per_instance_usd_per_hour": effective_price(offer),
    }
