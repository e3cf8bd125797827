"""What no table holds a price of: said beside an answer, and instead of one where nothing is left."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from gpufleet.catalog.areas import everywhere_note
from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.own_terms import ANY, OWN_SOURCE, EndedPrice
from gpufleet.catalog.query import (
    OfferFilter,
    allows,
    matching_offers,
    price_per_gpu_usd_per_hour,
    priced_regions,
    unpriced,
)
from gpufleet.catalog.schema import OFFER_COLUMNS, Availability
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing
from gpufleet.units import PERCENT

MOST_NAMED, MOST_REGIONS = 8, 4
HOW_TO_ADD = (
    "Add rows to offers/*.csv of your own tables (--catalog), or 'gpufleet catalog update'; docs/prices.md says which"
)
HOW_TO_RENEW = "A row of a later as_of renews it; --as-of an earlier day asks with it."
HOW_TO_OWN = "If you have such machines: --owned '2 x 8 RTX-4090', or owned.toml of your own tables (docs/prices.md)"


def missing_notes(
    tables: Catalog, wanted: OfferFilter, asked: Collection[PriceKind], found: Iterable[Offer]
) -> list[str]:
    """Price kinds that were asked for by name, and clouds at a day, that have no price."""
    offers = list(found)
    sold = {(offer.cloud, offer.price_kind) for offer in offers}
    late = {key: day for key, day in later(tables, wanted).items() if wanted.clouds and key not in sold}
    late_kinds = {kind for _, kind in late}
    kinds = [kind for kind in asked if kind not in {offer.price_kind for offer in offers} | late_kinds]
    return [*ended_notes(tables, wanted), *kind_notes(tables, wanted, kinds), *later_notes(tables, late)]


def kind_notes(tables: Catalog, wanted: OfferFilter, kinds: Collection[PriceKind]) -> Iterator[str]:
    """Kinds that nothing is held of, and kinds that are held elsewhere."""
    held = {kind for kind in kinds if matching_offers(tables, OfferFilter(price_kinds={kind}, include_restricted=True))}
    unheld = [kind for kind in kinds if kind not in held]
    rented = [kind for kind in unheld if kind is not PriceKind.OWNED]
    if rented:
        yield f"No price of {named(rented)} is known: left out. {HOW_TO_ADD}"
    if PriceKind.OWNED in unheld:
        yield f"You have entered no machine of your own: 'owned' is left out. {HOW_TO_OWN}"
    if held:
        places = [word for word, asked in narrowed_by(wanted) if asked]
        under = f" for these {', '.join(places)}" if places else " for these machines"
        yield f"No price of {named(kind for kind in kinds if kind in held)}{under}: left out"


def narrowed_by(wanted: OfferFilter) -> list[tuple[str, bool]]:
    """What narrows the places and machines that are asked about."""
    return [
        ("clouds", wanted.clouds is not None),
        ("regions", wanted.regions is not None),
        ("GPUs", wanted.accelerators is not None),
    ]


def named(kinds: Iterable[PriceKind]) -> str:
    """Price kinds as users write them."""
    return ", ".join(kind.value for kind in kinds)


def later(tables: Catalog, wanted: OfferFilter) -> Mapping[tuple[str, PriceKind], date]:
    """What was asked for and has prices of later days only than prices are asked as of, with the first day."""
    return {
        (cloud, kind): day
        for (cloud, kind), day in tables.later_prices.items()
        if allows(wanted.clouds, cloud) and allows(wanted.price_kinds, kind)
    }


def later_notes(tables: Catalog, found: Mapping[tuple[str, PriceKind], date]) -> list[str]:
    """The first day of each, in words."""
    return [
        f"No {kind.value} price of {cloud} is dated up to {tables.as_of}: the first here is of {day}"
        for (cloud, kind), day in found.items()
    ]


def no_price(tables: Catalog, wanted: OfferFilter) -> DataMissing:
    """What is missing, and what is known instead: an earlier day, a price kind, or the place itself."""
    ended = ended_notes(tables, wanted)
    if ended:
        return DataMissing(ended[0], hint=" ".join(f"{note}." for note in ended[1:MOST_NAMED]) or HOW_TO_RENEW)
    late = later_notes(tables, later(tables, wanted))
    if late:
        return DataMissing(late[0], hint=" ".join(f"{note}." for note in late[1:MOST_NAMED]) or None)
    there = matching_offers(tables, replace(wanted, price_kinds=None))
    if there:
        return no_price_of_kinds(tables, wanted, there)
    regions = priced_regions(tables, wanted.clouds)
    elsewhere = matching_offers(tables, replace(wanted, regions={EVERYWHERE})) if wanted.regions else []
    left_out = f" {everywhere_note(elsewhere)}." if elsewhere else ""
    shown = ", ".join(regions[:MOST_NAMED]) + (", ..." if len(regions) > MOST_NAMED else "")
    sold = "".join(f" {line}" for line in sold_there(tables, wanted))
    return DataMissing(
        "no offer has a known price for these clouds, regions, GPUs and price kinds",
        hint=f"Regions with prices there: {shown or 'none'}.{left_out}{sold} 'gpufleet catalog prices' lists all.",
    )


def sold_there(tables: Catalog, wanted: OfferFilter) -> Iterator[str]:
    """Which GPUs are sold in the regions without a price here, where the others are, and how to add a price."""
    if wanted.regions is None:
        return
    sold = [row for row in unpriced(tables) if allows(wanted.clouds, row.cloud) and gpu_sold(tables, row) is not None]
    asked = [row for row in sold if allows(wanted.accelerators, gpu_sold(tables, row))]
    here = [row for row in asked if row.region in wanted.regions]
    if here:
        day = max(row.as_of for row in here)
        yield f"Sold there according to the tables of {day}, at an unknown price: {gpus_by_region(tables, here)}."
    absent = set(wanted.accelerators or ()) - {gpu_sold(tables, row) for row in here}
    elsewhere = [row for row in tables.availability if gpu_sold(tables, row) in absent]
    if elsewhere := [row for row in elsewhere if allows(wanted.clouds, row.cloud)]:
        yield f"Not sold there: {regions_by_gpu(tables, elsewhere, wanted.regions)}."
    if here:
        kind = next(iter(wanted.price_kinds or ()), PriceKind.ON_DEMAND)
        smallest = min(here, key=lambda row: size_of(tables.instances[row.cloud, row.instance]))
        yield quote_command(smallest, kind, tables.now)


def gpu_sold(tables: Catalog, row: Availability) -> str | None:
    """The GPU of a machine type of whole GPUs that is sold somewhere; None of others."""
    machine = tables.instances.get((row.cloud, row.instance))
    return None if machine is None or machine.gpu_count < 1 or machine.retired else machine.accelerator


def size_of(machine: Instance) -> tuple[float, float, str]:
    """By what machine types are called larger: GPUs, then vCPUs."""
    return machine.gpu_count, machine.vcpus or math.inf, machine.name


def gpus_by_region(tables: Catalog, rows: Iterable[Availability]) -> str:
    """'eu-central-1: A10G, L4; eu-west-1: L4'."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.region, set()).add(gpu_sold(tables, row) or "")
    return "; ".join(f"{region}: {', '.join(sorted(gpus))}" for region, gpus in sorted(found.items())[:MOST_NAMED])


def regions_by_gpu(tables: Catalog, rows: Iterable[Availability], near: Collection[str]) -> str:
    """'H100-SXM (aws sells it in eu-north-1, us-east-1)': regions that begin like those that were asked first."""
    found: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        found.setdefault((gpu_sold(tables, row) or "", row.cloud), set()).add(row.region)
    begins = {region.partition("-")[0] for region in near}
    words = []
    for (gpu, cloud), regions in sorted(found.items()):
        nearest = sorted(regions, key=lambda region: (region.partition("-")[0] not in begins, region))
        more = ", ..." if len(nearest) > MOST_REGIONS else ""
        words.append(f"{gpu} ({cloud} sells it in {', '.join(nearest[:MOST_REGIONS])}{more})")
    return "; ".join(words[:MOST_NAMED])


def no_price_of_kinds(tables: Catalog, wanted: OfferFilter, there: Iterable[Offer]) -> DataMissing:
    """There are prices, but none of the kinds that were asked for."""
    asked = list(wanted.price_kinds or ())
    kinds = [kind for kind in asked if kind is not PriceKind.OWNED] or asked
    held_elsewhere = matching_offers(tables, OfferFilter(price_kinds=kinds, include_restricted=True))
    where = " for these clouds, regions and GPUs" if held_elsewhere else ""
    known = sorted({offer.price_kind.value for offer in there})
    how = f"{HOW_TO_OWN}." if kinds == [PriceKind.OWNED] else how_to_add(tables, kinds[0], list(there))
    return DataMissing(f"no price of {named(kinds)} is known{where}", hint=f"Known there: {', '.join(known)}. {how}")


def how_to_add(tables: Catalog, kind: PriceKind, there: Sequence[Offer]) -> str:
    """What to do about a price kind without a price: a row of one's own to copy, a rule of thumb, a refresh."""
    whole = [o for o in there if o.price_kind is PriceKind.ON_DEMAND and tables.instance_of(o).gpu_count >= 1]
    if not whole:
        return f"{HOW_TO_ADD}."
    like = sorted(whole, key=lambda o: o.price_per_instance_usd_per_hour)[len(whole) // 2]
    return " ".join([quote_command(like, kind, tables.now), *thumb(tables, kind)])


def quote_command(like: Offer | Availability, kind: PriceKind, day: date | None) -> str:
    """A command that writes a table with the row of a quote, to be run with its price in place of PRICE."""
    cells = (like.cloud, like.region, like.instance, kind.value, "0", "PRICE", "observed", OWN_SOURCE, str(day), "")
    rows = f"{','.join(OFFER_COLUMNS)} {','.join(cells)}"
    return (
        f"To use your own quote for a whole machine, add '--catalog mine' after: "
        f"mkdir -p mine/offers; printf '%s\\n' {rows} > mine/offers/quotes.csv (docs/prices.md)."
    )


def thumb(tables: Catalog, kind: PriceKind) -> list[str]:
    """What the rule of thumb for a price kind would come to, and how to ask what if."""
    rules = [r for r in tables.typical_discounts if r.price_kind is kind]
    if not rules:
        return []
    low, high = min(r.saving_low_ratio for r in rules), max(r.saving_high_ratio for r in rules)
    less = f"{low * PERCENT:.0f}-{high:.0%} less, no price: 'gpufleet catalog discounts'"
    return [
        f"Until then --pricing on_demand,{kind.value} --prices -{low:.0%} tries a rule of thumb: "
        f"that share off on-demand, paid round the clock ({less})."
    ]


def ended_notes(tables: Catalog, wanted: OfferFilter) -> list[str]:
    """Prices of the user's own that have ended, of what is asked about."""
    return [f"A price of yours has ended: {e.in_words}" for e in tables.ended if is_asked(e, tables, wanted)]


def is_asked(ended: EndedPrice, tables: Catalog, wanted: OfferFilter) -> bool:
    """Whether an ended price speaks of what is asked about."""
    found = ended.match
    machine = tables.instances.get((found.cloud, found.instance))
    asked = (
        (wanted.clouds, found.cloud),
        (wanted.regions, found.region),
        (wanted.instances, found.instance),
        (None if wanted.price_kinds is None else [kind.value for kind in wanted.price_kinds], found.price_kind),
        (wanted.accelerators, ANY if machine is None else machine.accelerator),
    )
    return all(name == ANY or allows(names, name) for names, name in asked)


def least_usd_per_gpu_hour(gpu: str, kinds: Collection[PriceKind], tables: Catalog) -> float | None:
    """The least that is asked anywhere for one such GPU in a machine of whole ones, at a price with a date."""
    offers = matching_offers(tables, OfferFilter(accelerators={gpu}, price_kinds=kinds))
    machines = [(o, tables.instance_of(o)) for o in offers if o.is_dated]
    return min((price_per_gpu_usd_per_hour(o, m) for o, m in machines if m.gpu_count >= 1), default=None)


def is_sold_so(machine: Instance, wanted: OfferFilter, tables: Catalog) -> bool:
    """Whether a machine type may be had as asked; where nothing is known of it, it may.

    One that has prices elsewhere must be known to be sold there, and one that has them of other kinds alone is not sold
    in the kinds that are asked about.
    """
    asked = set(wanted.price_kinds or ())
    priced = {o.price_kind for o in tables.offers if (o.cloud, o.instance) == (machine.cloud, machine.name)}
    rows = [row for row in tables.availability if (row.cloud, row.instance) == (machine.cloud, machine.name)]
    if not priced and not rows:
        return True
    here = [row for row in rows if allows(wanted.regions, row.region)]
    kinds = {kind for row in here for kind in row.sold_as}
    return bool(here) and (not kinds or bool(kinds & asked)) and (not priced or bool(priced & asked))
