"""How long a question to fifty thousand offers takes.

`python benchmarks/offer_query.py` prints milliseconds of a query over synthetic offers (the shipped prices repeated
over made-up regions), the index built, and the ratio to the matrix product that all benchmarks are compared with.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceKind
from unit_of_work import median_s, timed_unit_s

NUM_OFFERS, LIMIT_S, RUNS = 50_000, 5e-3, 51
QUERIES = {
    "every on-demand price of H100": OfferFilter(accelerators={"H100-SXM"}, price_kinds={PriceKind.ON_DEMAND}),
    "spot of two clouds": OfferFilter(clouds={"aws", "gcp"}, price_kinds={PriceKind.SPOT}),
    "one region": OfferFilter(regions={"us-east-1"}),
    "everything that anybody may buy": OfferFilter(),
}


def main() -> None:
    """Print one line per query."""
    unit_s = timed_unit_s()
    catalog = synthetic_catalog(NUM_OFFERS)
    build_s = median_s(lambda: len(replace(catalog).offer_index))
    print(f"index of {NUM_OFFERS:,} offers, once per catalog: {build_s * 1e3:.1f} ms, {build_s / unit_s:.2f} units")
    for name, wanted in QUERIES.items():
        print(describe(name, catalog, wanted, unit_s))


def synthetic_catalog(num_offers: int) -> Catalog:
    """The shipped tables with offers repeated over made-up regions."""
    shipped = load_catalog()
    copies = (moved(offer, copy) for copy in itertools.count() for offer in shipped.offers)
    return replace(shipped, offers=tuple(itertools.islice(copies, num_offers)))


def moved(offer: Offer, copy: int) -> Offer:
    """The offer in a region of its own."""
    return offer if copy == 0 else replace(offer, region=f"{offer.region}-{copy}")


def describe(name: str, catalog: Catalog, wanted: OfferFilter, unit_s: float) -> str:
    """One line about a query."""
    seconds = median_s(lambda: matching_offers(catalog, wanted), RUNS)
    kept = "kept" if seconds < LIMIT_S else "missed"
    found = len(matching_offers(catalog, wanted))
    return f"{name}: {found:,} found, {seconds * 1e3:.2f} ms, {seconds / unit_s:.3f} units; limit of 5 ms {kept}"


if __name__ == "__main__":
    main()
