"""A query over columns finds what a look at every single offer would find."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.domain.offer import Offer, PriceKind

CATALOG = load_catalog()
RANDOM = random.Random(20261121)


def some(values: set[str]) -> list[str] | None:
    return RANDOM.sample(sorted(values), RANDOM.randint(1, 3)) if RANDOM.random() < 0.5 else None


def random_filter() -> OfferFilter:
    kinds = some({kind.value for kind in PriceKind})
    return OfferFilter(
        clouds=some(set(CATALOG.clouds)),
        regions=some({o.region for o in CATALOG.offers}),
        accelerators=some(set(CATALOG.accelerators)),
        instances=some({o.instance for o in CATALOG.offers}),
        price_kinds=None if kinds is None else {PriceKind(kind) for kind in kinds},
        include_restricted=RANDOM.random() < 0.5,
    )


def is_wanted(offer: Offer, wanted: OfferFilter) -> bool:
    named = wanted.regions is not None and offer.region in wanted.regions
    pairs = (
        (wanted.clouds, offer.cloud),
        (wanted.instances, offer.instance),
        (wanted.price_kinds, offer.price_kind),
        (wanted.accelerators, CATALOG.instance_of(offer).accelerator),
    )
    fits = all(allowed is None or value in allowed for allowed, value in pairs)
    is_there = wanted.regions is None or named
    is_open = wanted.include_restricted or named or (offer.cloud, offer.region) not in CATALOG.restricted_regions
    return fits and is_there and is_open


def test_two_hundred_random_questions_find_what_a_look_at_every_offer_finds() -> None:
    found = 0
    for _ in range(200):
        wanted = random_filter()
        offers = matching_offers(CATALOG, wanted)
        assert offers == [offer for offer in CATALOG.offers if is_wanted(offer, wanted)]
        found += len(offers)
    assert found > 1000


def test_a_value_that_no_offer_has_matches_nothing() -> None:
    assert matching_offers(CATALOG, OfferFilter(clouds=["nowhere"])) == []


def test_a_catalog_without_offers_answers_with_none() -> None:
    empty: Catalog = replace(CATALOG, offers=())
    assert matching_offers(empty, OfferFilter(clouds=["aws"])) == []


@pytest.mark.parametrize("wanted", [OfferFilter(), OfferFilter(clouds=["aws"], price_kinds={PriceKind.SPOT})])
def test_offers_keep_the_order_of_the_tables(wanted: OfferFilter) -> None:
    place = {id(offer): row for row, offer in enumerate(CATALOG.offers)}
    rows = [place[id(offer)] for offer in matching_offers(CATALOG, wanted)]
    assert rows == sorted(rows)
