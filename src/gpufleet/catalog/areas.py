"""Where machines may stand: words such as 'eu' or 'germany' as regions, and what a choice of regions leaves out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.catalog.schema import Region
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer
from gpufleet.domain.place import Place
from gpufleet.errors import UnknownName, UsageError

MOST_NAMED = 6


class RegionChoice(NamedTuple):
    """Regions as the clouds spell them, None where every region will do, and the areas that they were read from."""

    regions: tuple[str, ...] | None
    areas: Mapping[str, tuple[Region, ...]]


ANYWHERE = RegionChoice(None, {})


def chosen_regions(catalog: Catalog, names: Sequence[str], clouds: Collection[str] | None = None) -> RegionChoice:
    """What a list of regions and areas means; 'all' alone is no restriction, beside others a price of every region.

    >>> from gpufleet.catalog.load import load_catalog
    >>> chosen_regions(load_catalog(), ["finland"]).regions
    ('FIN', 'FIN-01', 'FIN-02', 'FIN-03', 'eu-north-1-hel-1', 'eu-north1', 'europe-north1')
    """
    if not names or {name.casefold() for name in names} == {EVERYWHERE}:
        return ANYWHERE
    areas = {name: regions_in(catalog, name, clouds) for name in names if is_area(catalog, name, clouds)}
    named = [resolve_region(catalog, name, clouds) for name in names if name not in areas]
    within = [region.region for regions in areas.values() for region in regions]
    return RegionChoice(tuple(sorted({*named, *within})), areas)


def area_words(catalog: Catalog) -> Mapping[str, frozenset[str]]:
    """Areas and countries as people write them, each with the countries that it means."""
    words: dict[str, set[str]] = {}
    for country in catalog.countries.values():
        for word in country.words:
            words.setdefault(word, set()).add(country.code)
    return {word: frozenset(codes) for word, codes in sorted(words.items())}


def located_area_words(catalog: Catalog) -> list[str]:
    """The words of areas and countries in which a region lies that is open to everybody."""
    open_regions = (r for r in catalog.located_regions.values() if catalog.is_open(r.cloud, r.region))
    countries = {region.country for region in open_regions}
    return [word for word, codes in area_words(catalog).items() if codes & countries]


def is_area(catalog: Catalog, name: str, clouds: Collection[str] | None) -> bool:
    """Whether a name is an area and no region."""
    return name.casefold() not in spelled(catalog, clouds) and name.casefold() in area_words(catalog)


def regions_in(catalog: Catalog, area: str, clouds: Collection[str] | None) -> tuple[Region, ...]:
    """Regions of the clouds that lie in an area and are open to everybody; there is one at least."""
    codes = area_words(catalog)[area.casefold()]
    open_regions = [r for r in catalog.located_regions.values() if catalog.is_open(r.cloud, r.region)]
    located = [r for r in open_regions if clouds is None or r.cloud in clouds]
    found = tuple(r for r in located if r.country in codes)
    if not found:
        known = ", ".join(sorted({r.region for r in located})[:MOST_NAMED]) or "none with a known place"
        raise UsageError(f"no region of {' or '.join(clouds or ())} lies in {area}", hint=f"Its regions: {known}.")
    return found


def known_regions(catalog: Catalog, cloud: str) -> set[str]:
    """Regions of a cloud, whether anything is sold there or not."""
    return {*catalog.regions.get(cloud, ()), *(r.region for r in catalog.located_regions.values() if r.cloud == cloud)}


def spelled(catalog: Catalog, clouds: Collection[str] | None) -> dict[str, str]:
    """Regions of the clouds by their names in small letters."""
    searched = catalog.clouds if clouds is None else clouds
    return {region.casefold(): region for cloud in searched for region in known_regions(catalog, cloud)}


def resolve_region(catalog: Catalog, name: str, clouds: Collection[str] | None = None) -> str:
    """The region as its cloud spells it; `clouds` narrows the search."""
    if name.casefold() == EVERYWHERE:
        return EVERYWHERE
    known = spelled(catalog, clouds)
    if name.casefold() in known:
        return known[name.casefold()]
    elsewhere = [cloud for cloud in catalog.clouds if name.casefold() in spelled(catalog, [cloud])]
    if elsewhere:
        owners = " and ".join(elsewhere)
        hint = f"It is a region of {owners}: add {' or '.join(elsewhere)} to the clouds, or leave the clouds out."
        raise UsageError(f"{name} is no region of {' or '.join(clouds or ())}", hint=hint)
    where = "" if clouds is None else f" of {', '.join(clouds)}"
    hint = "'gpufleet catalog regions' lists all; areas and countries may be named too, such as eu, us or germany."
    raise UnknownName(f"region{where}", name, [*known.values(), *area_words(catalog)], hint=hint)


def region_notes(catalog: Catalog, wanted: OfferFilter, areas: Mapping[str, Sequence[Region]]) -> list[str]:
    """How areas were read, and how many prices a choice of regions left out that may hold there."""
    if wanted.regions is None:
        return []
    notes = [area_note(catalog, wanted, area, regions) for area, regions in areas.items()]
    elsewhere = matching_offers(catalog, replace(wanted, regions={EVERYWHERE}))
    if elsewhere and EVERYWHERE not in wanted.regions:
        notes.append(everywhere_note(elsewhere))
    if areas:
        notes += unplaced_notes(catalog, wanted)
    return notes


def area_note(catalog: Catalog, wanted: OfferFilter, area: str, regions: Iterable[Region]) -> str:
    """Which regions an area means, those with a price first said."""
    places = {(r.cloud, r.region) for r in regions}
    offers = matching_offers(catalog, replace(wanted, regions={region for _, region in places}))
    priced = sorted({(o.cloud, o.region) for o in offers} & places)
    shown = ", ".join(f"{cloud} {region}" for cloud, region in priced[:MOST_NAMED])
    more = f" and {len(priced) - MOST_NAMED} more" if len(priced) > MOST_NAMED else ""
    return f"{area} read as {len(places)} regions, {len(priced)} of them with such prices: {shown or 'none'}{more}"


def everywhere_note(offers: Sequence[Offer]) -> str:
    """Prices that name no region: nobody can say where their machines stand."""
    clouds = ", ".join(sorted({offer.cloud for offer in offers}))
    what = "price" if len(offers) == 1 else "prices"
    holds = "is one for all regions" if len(offers) == 1 else "are one for all regions"
    return (
        f"Left out: {len(offers)} {what} of {clouds} that {holds}, so that where the machine would stand is not "
        f"known here; add '{EVERYWHERE}' to the regions to take them"
    )


def unplaced_notes(catalog: Catalog, wanted: OfferFilter) -> list[str]:
    """Prices in regions whose country no table holds."""
    offers = matching_offers(catalog, replace(wanted, regions=None))
    places = {(o.cloud, o.region) for o in offers if o.region not in (EVERYWHERE, *(wanted.regions or ()))}
    unplaced = sorted(places - set(catalog.located_regions))
    if not unplaced:
        return []
    shown = ", ".join(f"{cloud} {region}" for cloud, region in unplaced[:MOST_NAMED])
    return [f"Left out: prices in regions whose country is not known here, {shown}; a row of regions.csv says it"]


def known_areas(areas: Sequence[str], tables: Catalog) -> list[str]:
    """Areas by name; what is none is told."""
    known = area_words(tables)
    for area in areas:
        if area.casefold() not in known:
            raise UnknownName("area", area, known)
    return [area.casefold() for area in areas]


def is_in(place: Place, words: str, area: str, tables: Catalog) -> bool:
    """Whether users are in an area: it is what they were called, or their country is in it."""
    codes = area_words(tables)[area]
    named = area_words(tables).get(words.casefold(), frozenset())
    return place.country in codes or bool(named and named <= codes)
