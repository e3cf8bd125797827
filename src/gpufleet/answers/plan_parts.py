"""Parts that every plan has: its question, machines of an offer, sources of prices, what was rejected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.domain.reason import Rejection
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.replicas import Rejections
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.report.words import nearest_miss, sentence
from gpufleet.results.answer import PriceSource
from gpufleet.results.base import Input, Refused
from gpufleet.results.plan import RejectionCount
from gpufleet.results.rented import RentedMachines


@dataclass(frozen=True)
class Asked:
    """The inputs with their origins, their digest, notes, the sources of prices, and how many rows are shown.

    Nothing is kept with `missed_confidence`, which nobody asked for: the plan is that of expected values.
    """

    inputs: list[Input]
    input_hash: str
    notes: list[str]
    sources: Mapping[str, Source]
    num_rows: int = 10
    missed_confidence: float | None = None


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


def price_sources(used: Iterable[tuple[str, date | None]], sources: Mapping[str, Source]) -> list[PriceSource]:
    """Each source and date that a shown price comes from, once."""
    return [
        PriceSource(id=id_, title=sources[id_].title, as_of=day, first_seen=sources[id_].first_seen)
        for id_, day in sorted({(id_, day) for id_, day in used if day is not None})
    ]


def price_days(rented: Iterable[RentedMachines]) -> list[tuple[str, date | None]]:
    """Source and day of the price of each."""
    return [(d.price_source, d.price_as_of) for d in rented]


def rejection_counts(rejections: Rejections) -> list[RejectionCount]:
    """How many candidates each reason rejected, the commonest first."""
    return [
        RejectionCount(
            code=nearest.reason.code,
            figures=dict(nearest.reason.figures),
            reason=sentence(nearest.reason),
            count=count,
            best=nearest_miss(nearest),
        )
        for count, nearest in rejections.rows()
    ]


def refusals(kept: Iterable[Rejection]) -> list[Refused]:
    """All that was rejected, the nearest miss of each reason first."""
    return [refused(r) for r in sorted(kept, key=lambda r: (r.reason.code, str(r.reason.figures), r.shortfall))]


def refused(rejection: Rejection) -> Refused:
    """One rejection: what it is about, why, and how far it missed."""
    reason, miss = rejection.reason, rejection.miss
    return Refused(
        candidate=rejection.subject,
        code=reason.code,
        figures=dict(reason.figures),
        reason=sentence(reason),
        missed_by={} if miss is None else dict(miss.figures),
        detail="" if miss is None else sentence(miss),
        shortfall=rejection.shortfall,
        count=rejection.count,
    )
