"""Questions to a loaded catalog: which thing does a name mean, which offers match. Pure; reads no file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.schema import Availability
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UnknownName, UsageError
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.records import dataclass

GPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]*")
CLOUD_OF_COMPANY = {"amazon": "aws", "google": "gcp", "microsoft": "azure"}
COUNTED = re.compile(r"[-+]?\d+\s*[xX×*]\s*(?P<after>.+)|(?P<before>[^:]+?)\s*:.*")


class ResolvedGpu(NamedTuple):
    """What a GPU name was taken to mean; `note` says so when it was not the full name."""

    accelerator: Accelerator
    note: str | None


@dataclass(frozen=True)
class OfferFilter:
    """What an offer must be; None leaves a property open. `accelerators` are ids."""

    clouds: Collection[str] | None = None
    regions: Collection[str] | None = None
    accelerators: Collection[str] | None = None
    instances: Collection[str] | None = None
    price_kinds: Collection[PriceKind] | None = None
    include_restricted: bool = False

    def chosen(self, catalog: Catalog) -> BoolArray:
        """Which offers match every property that is asked for; a price of every region only where 'all' is named."""
        index = catalog.offer_index
        asked = (
            (index.cloud, self.clouds),
            (index.price_kind, self.price_kinds),
            (index.instance, self.instances),
            (index.accelerator, self.accelerators),
            (index.region, self.regions),
        )
        found = [column.is_among(wanted) for column, wanted in asked if wanted is not None]
        return reduce(np.logical_and, found, self.may_be_bought(catalog))

    def may_be_bought(self, catalog: Catalog) -> BoolArray:
        """Offers that anybody may buy, or whose very region the user named: then a restricted one is meant."""
        index = catalog.offer_index
        if self.include_restricted:
            return np.ones(len(catalog.offers), dtype=np.bool_)
        is_open = ~index.place.is_among(catalog.restricted_regions)
        return is_open if self.regions is None else is_open | index.region.is_among(self.regions)


def allows(wanted: Collection[object] | None, found: object) -> bool:
    """Whether `found` is among the wanted, or nothing in particular is wanted."""
    return wanted is None or found in wanted


def matching_offers(catalog: Catalog, wanted: OfferFilter) -> list[Offer]:
    """Offers that match, in the order of the tables."""
    found: list[Offer] = catalog.offer_index.offers[wanted.chosen(catalog)].tolist()
    return found


def price_per_gpu_usd_per_hour(offer: Offer, instance: Instance) -> float:
    """Price of the whole instance, upfront share included, over its GPUs; a slice is scaled up. [USD/hour]"""
    return offer_usd_per_hour(offer) / instance.gpu_count


def unpriced(catalog: Catalog) -> list[Availability]:
    """What is sold somewhere at a price that no table holds."""
    priced = {(offer.cloud, offer.region, offer.instance) for offer in catalog.offers}
    return [row for row in catalog.availability if (row.cloud, row.region, row.instance) not in priced]


def priced_regions(catalog: Catalog, clouds: Iterable[str] | None = None) -> list[str]:
    """Regions of these clouds (of all, where None) with a price that everybody can buy at, sorted."""
    wanted = None if clouds is None else frozenset(clouds)
    offers = matching_offers(catalog, OfferFilter(clouds=wanted))
    return sorted({offer.region for offer in offers} - {EVERYWHERE})


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """A name without case and separators; between two digits one is kept: 'H-1-0-0' is no H100.

    >>> folded("H100 SXM"), folded("NVIDIA A100 80GB")
    ('h100sxm', 'nvidiaa100-80gb')
    """
    return re.sub(r"[ _.-]+", "", re.sub(r"(?<=[0-9])[ _.-]+(?=[0-9])", "\t", name.casefold())).replace("\t", "-")


def resolve_gpu(catalog: Catalog, name: str) -> ResolvedGpu:
    """The accelerator of that id, or that an alias means, with a note where the name was incomplete."""
    if not GPU_NAME.fullmatch(name.strip()):
        refuse_count(catalog, name)
        raise UsageError("not a GPU name", found=name, expected="letters, digits, spaces and any of _ . + -")
    found = known_gpu(catalog, name)
    if found is not None:
        return found
    refuse_count(catalog, name)
    raise UnknownName(
        "GPU", name, [*catalog.accelerators, *catalog.gpu_aliases], hint="'gpufleet catalog gpus' lists all."
    )


def known_gpu(catalog: Catalog, name: str) -> ResolvedGpu | None:
    """What a name means, where a table holds it."""
    found = gpu_of(name, catalog.accelerators, catalog.gpu_aliases)
    if found is None:
        return None
    by_folded = {folded(known): known for known in catalog.accelerators}
    note = None if folded(name) in by_folded else taken_for(name, found, by_folded)
    return ResolvedGpu(catalog.accelerators[found], note)


def gpu_of(name: str, accelerators: Iterable[str], aliases: Mapping[str, str]) -> str | None:
    """The id that a name or an alias means, in any case and with any separators; None where it means none."""
    wanted = folded(name)
    by_folded = {folded(alias): target for alias, target in aliases.items()} | {folded(a): a for a in accelerators}
    return by_folded.get(wanted)


def taken_for(name: str, meant: str, by_folded: Mapping[str, str]) -> str:
    """Which accelerator a name was taken for, beside those that its words fit as well."""
    others = sorted(known for short, known in by_folded.items() if short.startswith(folded(name)) and known != meant)
    beside = f"; known too: {', '.join(others)}" if others else ""
    return f"{name} read as {meant}{beside}"


def refuse_count(catalog: Catalog, name: str) -> None:
    """A name with a count around it, such as '4xH100' or 'H100:4', is refused with the name alone."""
    match = COUNTED.fullmatch(name.strip())
    bare = (match["after"] or match["before"]).strip() if match else ""
    if GPU_NAME.fullmatch(bare) and known_gpu(catalog, bare):
        raise UsageError("a GPU name takes no count here", found=name, expected=f"the name alone: {bare!r}")


def resolve_cloud(catalog: Catalog, name: str) -> str:
    """The cloud of that name."""
    if name.casefold() in catalog.clouds:
        return name.casefold()
    owned = CLOUD_OF_COMPANY.get(name.casefold())
    if owned in catalog.clouds:
        raise UsageError(f"unknown cloud {name!r}", hint=f"{name.capitalize()}'s cloud is called {owned} here.")
    raise UnknownName("cloud", name, catalog.clouds, hint=f"Known: {', '.join(catalog.clouds)}.")


def resolve_instance(catalog: Catalog, name: str) -> Instance:
    """The instance type of that name, alone or as 'cloud:name'; Azure's 'Standard_' may be left out."""
    cloud, _, bare = written_with_colon(name, catalog).rpartition(":")
    found = [
        instance
        for (of_cloud, known), instance in catalog.instances.items()
        if (not cloud or of_cloud == cloud.casefold()) and known.casefold().removeprefix("standard_") == plain(bare)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError("several clouds sell that instance", found=name, expected=f"{found[0].cloud}:{found[0].name}")
    raise UnknownName(
        "instance", name, [known for _, known in catalog.instances], hint="'gpufleet catalog instances' lists all."
    )


def written_with_colon(name: str, catalog: Catalog) -> str:
    """'aws p5.48xlarge', as answers write it, as 'aws:p5.48xlarge'."""
    first, _, rest = name.strip().partition(" ")
    return f"{first}:{rest.strip()}" if first.casefold() in catalog.clouds and rest.strip() else name


def plain(name: str) -> str:
    """An instance name as it is compared."""
    return name.casefold().removeprefix("standard_")
