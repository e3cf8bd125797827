"""Whether a user's own prices can be meant: held to list prices of the same type, and to regions that the cloud has.

A price of one GPU in the column of a whole machine is the commonest slip, and the dearest: it wins every ranking.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpufleet.catalog.areas import known_regions
from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.references import Finding, label
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.usual_prices import OUTLIER_FACTOR
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import abridged, nearest_names, shorten
from gpufleet.pricing.commitment import TERM_KINDS, offer_usd_per_hour

MOST_SAVING_RATIO = 0.9
EXACT_RATIO, FEW_GPUS = 0.01, 3
MOST_NAMED = 6
TypeKey = tuple[str, str]


def unlikely_prices(listed: Catalog, own: Iterable[Offer]) -> Iterator[Finding]:
    """Own prices that no saving on the list price explains; `listed` is the catalog without the user's tables.

    Held to the on-demand price of the same place, else to the median over regions of the type, else to that of the GPU.
    """
    of_type, of_gpu = on_demand_by_type(listed.offers), on_demand_by_gpu(listed)
    for offer in own:
        instance = listed.instances.get((offer.cloud, offer.instance))
        if instance is None or offer.price_kind is PriceKind.OWNED:
            continue
        regions = of_type.get((offer.cloud, offer.instance))
        if regions:
            list_usd = regions.get(offer.region, statistics.median(regions.values()))
            saved = most_saved(offer.price_kind, instance.gpu_count)
            yield from unlikely_price(offer, list_usd, instance.gpu_count, saved)
        elif instance.accelerator in of_gpu and offer.price_kind is not PriceKind.ON_DEMAND:
            usual = of_gpu[instance.accelerator] * instance.gpu_count
            yield from unlikely_price(offer, usual, instance.gpu_count, MOST_SAVING_RATIO)


def on_demand_by_type(offers: Iterable[Offer]) -> Mapping[TypeKey, Mapping[str, float]]:
    """On-demand prices of every type by region. [USD/hour]"""
    found: dict[TypeKey, dict[str, float]] = defaultdict(dict)
    for offer in offers:
        if offer.price_kind is PriceKind.ON_DEMAND:
            found[offer.cloud, offer.instance][offer.region] = offer_usd_per_hour(offer)
    return found


def on_demand_by_gpu(catalog: Catalog) -> Mapping[str, float]:
    """The median on-demand price of one GPU over everything that holds it. [USD/hour]"""
    found: dict[str, list[float]] = defaultdict(list)
    for (cloud, name), regions in on_demand_by_type(catalog.offers).items():
        instance = catalog.instances[cloud, name]
        found[instance.accelerator] += [price / instance.gpu_count for price in regions.values()]
    return {gpu: statistics.median(prices) for gpu, prices in found.items()}


def unlikely_price(offer: Offer, list_usd: float, gpu_count: float, saved: float) -> Iterator[Finding]:
    """One own price beside an on-demand price: from the most that may be saved on it up to 3x of it.

    A commitment may cost more than the list price of today, which falls while it binds.
    """
    price_usd = offer_usd_per_hour(offer)
    low, high = list_usd * (1 - saved), list_usd * OUTLIER_FACTOR
    is_exact = gpu_count > 1 and is_exactly_one_gpu(price_usd, list_usd, gpu_count)
    if is_exact or not low <= price_usd <= high:
        is_of_one_gpu = is_exact or (gpu_count > 1 and is_plausible(price_usd * gpu_count, offer, list_usd))
        slip = one_gpu_words(price_usd, gpu_count) if is_of_one_gpu else ""
        fault = f"{price_usd:.4g} an hour, on-demand {list_usd:.4g}{slip}"
        why = f"a saving of up to {saved:.0%} on the list price; a larger one goes into contracts.csv"
        yield Finding("usual price", label(offer), fault, f"{low:.4g} to {high:.4g}, {why}")


def is_plausible(usd_per_hour: float, offer: Offer, list_usd: float) -> bool:
    """Whether a machine could cost so much."""
    saved = most_saved(offer.price_kind, 1)
    return list_usd * (1 - saved) <= usd_per_hour <= list_usd * OUTLIER_FACTOR


def most_saved(kind: PriceKind, gpu_count: float) -> float:
    """The largest share of the on-demand price that is believed without a contract.

    Spot falls to a tenth. So may a commitment, but of many GPUs: there it is likelier the price of one of them.

    >>> most_saved(PriceKind.SPOT, 8), round(most_saved(PriceKind.COMMIT_1Y, 8), 3), most_saved(PriceKind.COMMIT_1Y, 1)
    (0.9, 0.667, 0.9)
    """
    is_held_to_a_third = kind is PriceKind.ON_DEMAND or (kind in TERM_KINDS and gpu_count > FEW_GPUS)
    return 1 - 1 / OUTLIER_FACTOR if is_held_to_a_third else MOST_SAVING_RATIO


def is_exactly_one_gpu(price_usd: float, list_usd: float, gpu_count: float) -> bool:
    """Whether a price is the on-demand price over the GPUs of the machine, to the cent.

    >>> is_exactly_one_gpu(6.88, 55.04, 8), is_exactly_one_gpu(7.2, 55.04, 8)
    (True, False)
    """
    return abs(price_usd * gpu_count / list_usd - 1) < EXACT_RATIO


def one_gpu_words(price_usd: float, gpu_count: float) -> str:
    """That a price is likely that of one GPU.

    >>> one_gpu_words(4.3, 8)
    "; times 8 GPUs it is 34.4: is it the price of one GPU? The column holds the whole machine's"
    """
    asked = "is it the price of one GPU? The column holds the whole machine's"
    return f"; times {gpu_count:g} GPUs it is {price_usd * gpu_count:.4g}: {asked}"


def unknown_regions(listed: Catalog, declared: Catalog, rows: Sequence[tuple[str, str, str]]) -> Iterator[Finding]:
    """Rows (label, cloud, region) whose region neither the cloud is known to have nor regions.csv declares.

    A cloud of which no region is known, such as one's own, may have any.
    """
    clouds = {cloud for _, cloud, _ in rows}
    known_of = {cloud: known_regions(listed, cloud) - {EVERYWHERE} for cloud in clouds}
    allowed_of = {cloud: {EVERYWHERE, *known_of[cloud], *declared_regions(declared, cloud)} for cloud in clouds}
    for row, cloud, region in rows:
        known = known_of[cloud]
        if known and region not in allowed_of[cloud]:
            nearest = nearest_names(region, known)
            meant = f"{' or '.join(nearest)}?" if nearest else ", ".join(sorted(known)[:MOST_NAMED])
            expected = (
                f"{meant} A new one is declared by a row of regions.csv: {cloud},{abridged(region, 80)},COUNTRY,,"
            )
            yield Finding("region exists", row, f"{cloud} has no region {shorten(region)} that is known here", expected)


def declared_regions(declared: Catalog, cloud: str) -> set[str]:
    """Regions of a cloud that regions.csv holds, the user's too."""
    return {region for of_cloud, region in declared.located_regions if of_cloud == cloud}


def unknown_countries(declared: Catalog) -> Iterator[Finding]:
    """Regions in a country that no table holds."""
    for (cloud, region), row in declared.located_regions.items():
        if row.country not in declared.countries:
            nearest = nearest_names(row.country, declared.countries, count=1)
            expected = "two letters, such as DE" + (f"; {nearest[0]}?" if nearest else "")
            yield Finding("country exists", f"region {cloud} {region}", f"no country {row.country!r}", expected)
