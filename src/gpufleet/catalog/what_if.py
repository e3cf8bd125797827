"""What if prices were others: listed ones dearer or cheaper, or a commitment that nobody here holds a price of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.errors import UsageError
from gpufleet.pricing.commitment import TERM_KINDS
from gpufleet.units import PERCENT

LEAST_CHANGE, MOST_CHANGE = -0.99, 10.0
OWN_STAY = "your own prices stay as agreed"


def asked_prices(tables: Catalog, wanted: OfferFilter, change: float | None) -> list[Offer]:
    """Offers that match, at the prices that are asked about.

    Where a commitment is asked for that no price is held of, a change below zero makes one of it: so much off the
    on-demand price, and what is held stays. Else listed prices change. What the user agreed on stays in both.
    """
    offers = matching_offers(tables, wanted)
    if not change:
        return offers
    if not LEAST_CHANGE <= change <= MOST_CHANGE:
        raise UsageError("the change of prices is out of range", found=change, expected="from -99 % to +1,000 %")
    unheld = unheld_terms(wanted.price_kinds or (), offers) if change < 0 else []
    supposed = supposed_commitments(tables, wanted, unheld, 1 + change)
    return [*offers, *supposed] if supposed else [o if is_fixed(o) else o.at_price_ratio(1 + change) for o in offers]


def is_fixed(offer: Offer) -> bool:
    """Whether no list moves the price: of one's own machines, or agreed on in one's own tables."""
    return offer.is_own or offer.price_kind is PriceKind.OWNED


def unheld_terms(asked: Iterable[PriceKind], offers: Iterable[Offer]) -> list[PriceKind]:
    """Commitments that are asked for and that none of the offers is of."""
    held = {offer.price_kind for offer in offers}
    return [kind for kind in asked if kind in TERM_KINDS and kind not in held]


def supposed_commitments(
    tables: Catalog, wanted: OfferFilter, kinds: Collection[PriceKind], ratio: float
) -> list[Offer]:
    """Commitments at so many times the listed on-demand price: an estimate that is paid as a term is."""
    if not kinds:
        return []
    listed = matching_offers(tables, replace(wanted, price_kinds=[PriceKind.ON_DEMAND]))
    return [
        replace(offer.at_price_ratio(ratio), price_kind=kind, basis=PriceBasis.ESTIMATED, is_supposed=True)
        for kind in kinds
        for offer in listed
        if not offer.is_own
    ]


def change_words(change: float, offers: Sequence[Offer]) -> str:
    """What the change was applied to, and what it left alone."""
    kinds = list(dict.fromkeys(offer.price_kind.value for offer in offers if offer.is_supposed))
    stays = f"; {OWN_STAY}" if any(offer.is_own for offer in offers) else ""
    if not kinds:
        return f"{PERCENT * change:+g}% on all that is rented{stays}"
    held = "" if all(offer.is_supposed for offer in offers) else "; known prices stay"
    named = ", ".join(kinds)
    return f"{named} at {PERCENT * change:+g}% on on-demand, a price that nobody offers, paid round the clock{held}"
