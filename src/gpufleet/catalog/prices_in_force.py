"""Which of all prices that were written down are in force on a day, and on whose terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gpufleet.catalog.own_terms import (
    CONTRACT_COLUMNS,
    FOREIGN_COLUMNS,
    GPU_QUOTA_COLUMNS,
    QUOTA_COLUMNS,
    RATE_COLUMNS,
    EndedPrice,
    ExchangeRate,
    ForeignOffer,
    Match,
    Sold,
    contract_from,
    discounted,
    exchanged,
    foreign_offer_from,
    gpu_quota_from,
    quota_from,
    rate_from,
    within_gpu_quotas,
    within_quotas,
)
from gpufleet.catalog.query import gpu_of
from gpufleet.catalog.schema import (
    OFFER_COLUMNS,
    Availability,
    offer_from,
)
from gpufleet.catalog.snapshots import (
    OFFERS_FILE,
    Snapshot,
    refuse_foreign_offer,
    unread,
)
from gpufleet.catalog.table_files import SHIPPED, placed_rows, rows_in, table_in
from gpufleet.catalog.table_rows import PlacedOffer, offer_rows
from gpufleet.catalog.tables import InstanceKey
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError
from gpufleet.provenance import Source

LIST_PRICE, NO_PRICE = "the listed price counts", "left out"

OfferKey = tuple[str, str, str, PriceKind]


class Days(NamedTuple):
    """The day up to which prices count, where one was asked, and the day on which they must hold."""

    as_of: date | None
    now: date

    def has_begun(self, day: date) -> bool:
        """Whether what is of that day counts."""
        return self.as_of is None or day <= self.as_of


def holding(written: Iterable[PlacedOffer], days: Days) -> dict[OfferKey, Offer]:
    """Offers by place and kind that hold; of several dates the newest counts, up to `as_of` where one is given."""
    newest: dict[OfferKey, Offer] = {}
    for _, offer in written:
        key = offer_key(offer)
        holds = days.has_begun(offer.as_of) and offer.holds_on(days.now)
        if holds and (key not in newest or newest[key].as_of <= offer.as_of):
            newest[key] = offer
    return newest


@lru_cache(maxsize=4)
def shipped_prices(days: Days) -> Mapping[OfferKey, Offer]:
    """Shipped prices that hold, read once for all tables that are laid over them."""
    return MappingProxyType(holding(offer_rows(SHIPPED), days))


def offer_key(offer: Offer) -> OfferKey:
    """What there is one price of."""
    return offer.cloud, offer.region, offer.instance, offer.price_kind


def priced(
    overlay: Path | None,
    taken: Sequence[Snapshot],
    instances: Mapping[InstanceKey, Instance],
    days: Days,
    sold: Sequence[Sold],
    written: Sequence[PlacedOffer],
) -> dict[OfferKey, Offer]:
    """Shipped prices, and those of snapshots in place of what they cover; in dollars what the user has a rate for."""
    offers = {key: o for key, o in shipped_prices(days).items() if not any(snapshot.covers(o) for snapshot in taken)}
    for snapshot in taken:
        offers |= {offer_key(o): o for o in snapshot_offers(snapshot) if (o.cloud, o.instance) in instances}
    if overlay is None:
        return offers
    rates = {rate.currency: rate for rate in rates_in(overlay, days)}
    offers |= {offer_key(offer): offer for offer in exchanged(foreign_offers_in(SHIPPED, days.now), rates)}
    abroad = exchanged(foreign_offers_in(overlay, days.now), rates)
    offers |= {offer_key(offer): replace(offer, is_own=True) for offer in abroad}
    signed = table_in(overlay, "contracts.csv", CONTRACT_COLUMNS, contract_from)
    contracts = [c for c in signed if days.has_begun(c.as_of) and c.is_in_force(days.now)]
    agreed = discounted(offers.values(), contracts, sold) if contracts else offers.values()
    own = {key: replace(offer, is_own=True) for key, offer in holding(written, days).items()}
    return {offer_key(offer): offer for offer in agreed} | own


def snapshot_offers(snapshot: Snapshot) -> Iterator[Offer]:
    """Prices of a snapshot."""
    path = snapshot.folder / OFFERS_FILE
    try:
        for place, row in rows_in(path, snapshot.table, OFFER_COLUMNS):
            offer = offer_from(place, row)
            refuse_foreign_offer(snapshot, offer)
            yield offer
    except (UsageError, ValueError) as error:
        raise unread(snapshot.folder, f"is foreign: {error}") from None


def foreign_offers_in(directory: Path, now: date) -> list[ForeignOffer]:
    """Rows of foreign_offers/*.csv that have not ended."""
    rows = placed_rows(directory / "foreign_offers", FOREIGN_COLUMNS, foreign_offer_from)
    return [row for _, row in rows if row.until is None or now <= row.until]


def rates_in(directory: Path, days: Days) -> list[ExchangeRate]:
    """Rows of exchange_rates.csv that have begun."""
    rates = table_in(directory, "exchange_rates.csv", RATE_COLUMNS, rate_from)
    return [rate for rate in rates if days.has_begun(rate.as_of)]


def on_own_terms(
    overlay: Path | None,
    listed: Mapping[OfferKey, Offer],
    own: Sequence[Offer],
    sold: Sequence[Sold],
    instances: Mapping[InstanceKey, Instance],
    gpus: tuple[Mapping[str, Accelerator], Mapping[str, str]],
) -> tuple[Offer, ...]:
    """Listed prices and one's own machines, within one's quotas of machines and of GPUs."""
    offers = (*listed.values(), *own)
    if overlay is None:
        return offers
    quotas = list(table_in(overlay, "quotas.csv", QUOTA_COLUMNS, quota_from))
    bounded = tuple(within_quotas(offers, quotas, sold)) if quotas else offers
    typed = table_in(overlay, "gpu_quotas.csv", GPU_QUOTA_COLUMNS, gpu_quota_from)
    of_gpus = [replace(q, match=q.match._replace(gpu=gpu_of(q.match.gpu, *gpus) or q.match.gpu)) for q in typed]
    return tuple(within_gpu_quotas(bounded, of_gpus, instances)) if of_gpus else bounded


def first_seen_by(sources: Mapping[str, Source], listed: Mapping[OfferKey, Offer]) -> dict[OfferKey, Offer]:
    """Prices, those of undated copies with the day on which these were first seen."""
    undated = {source.id: source.first_seen for source in sources.values() if source.first_seen is not None}
    return {
        key: replace(offer, first_seen=undated[offer.source]) if offer.source in undated else offer
        for key, offer in listed.items()
    }


def later_prices(written: Iterable[PlacedOffer], listed: Iterable[Offer]) -> dict[tuple[str, PriceKind], date]:
    """Clouds and price kinds without a price up to the day that is asked, and the day of their first one."""
    days: dict[tuple[str, PriceKind], date] = {}
    for _, offer in written:
        key = offer.cloud, offer.price_kind
        days[key] = min(days.get(key, offer.as_of), offer.as_of)
    known = {(offer.cloud, offer.price_kind) for offer in listed}
    return {key: day for key, day in sorted(days.items()) if key not in known}


def ended_prices(
    overlay: Path, days: Days, listed: Mapping[OfferKey, Offer], written: Sequence[PlacedOffer]
) -> tuple[EndedPrice, ...]:
    """Prices and discounts of the user that have ended with nothing of theirs in their place, and what counts now."""
    current = holding(written, days)
    last = {offer_key(o): o for _, o in written if days.has_begun(o.as_of) and not o.holds_on(days.now)}
    prices = [
        EndedPrice(Match(*key[:3], key[3].value), offer.until, LIST_PRICE if key in listed else NO_PRICE)
        for key, offer in last.items()
        if key not in current and offer.until is not None
    ]
    signed = list(table_in(overlay, "contracts.csv", CONTRACT_COLUMNS, contract_from))
    running = {contract.match for contract in signed if contract.is_in_force(days.now)}
    discounts = [
        EndedPrice(contract.match, contract.until, LIST_PRICE)
        for contract in signed
        if contract.until is not None and not contract.is_in_force(days.now) and contract.match not in running
    ]
    return (*prices, *discounts)


def unlisted_places(own: Iterable[Offer], availability: Iterable[Availability]) -> dict[Sold, date]:
    """Machine types at prices of the user that are not known to be sold in their region, of those that are known."""
    known: dict[tuple[str, str], date] = {}
    sold = set()
    for row in availability:
        place = row.cloud, row.region
        known[place] = max(known.get(place, row.as_of), row.as_of)
        sold.add((*place, row.instance))
    places = ((o.cloud, o.region, o.instance) for o in own)
    return {key: known[key[:2]] for key in places if key[:2] in known and key not in sold}
