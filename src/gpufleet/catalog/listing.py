"""What the tables hold, filtered and in order, as results that say where every row comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TypeVar

from gpufleet.catalog.query import (
    OfferFilter,
    allows,
    matching_offers,
    price_per_gpu_usd_per_hour,
    unpriced,
)
from gpufleet.catalog.schema import Availability, IncompleteInstance
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.results.catalog import (
    GpuListing,
    GpuRow,
    InstanceListing,
    InstanceRow,
    PriceListing,
    PriceRow,
    SourceNote,
    UnpricedRow,
)

Key = TypeVar("Key")


def list_prices(catalog: Catalog, wanted: OfferFilter, notes: Iterable[str] = ()) -> PriceListing:
    """Offers that match, cheapest per GPU first, and what is sold there at an unknown price."""
    offers = matching_offers(catalog, wanted)
    rows = [price_row(catalog, offer) for offer in offers]
    unknown = [unpriced_row(catalog, row) for row in unpriced(catalog) if accepts_unpriced(catalog, wanted, row)]
    return PriceListing(
        rows=sorted(rows, key=lambda row: (row.price_per_gpu_usd_per_hour, row.cloud, row.region, row.gpu_count)),
        unpriced=unknown,
        notes=[*notes, *doubt_notes(offers)],
        sources=source_notes(catalog, {row.source for row in rows}),
    )


def doubt_notes(offers: Iterable[Offer]) -> list[str]:
    """Why listed prices are in doubt, once for each type and price kind."""
    named: dict[str, str] = {}
    for offer in (offer for offer in offers if offer.doubt):
        named.setdefault(f"{offer.cloud} {offer.instance} {offer.price_kind.value}", offer.doubt)
    return [f"In doubt: {what}: {why}" for what, why in named.items()]


def price_row(catalog: Catalog, offer: Offer) -> PriceRow:
    """An offer with its price per GPU."""
    instance = catalog.instance_of(offer)
    return PriceRow(
        cloud=offer.cloud,
        region=offer.region,
        instance=offer.instance,
        gpu=instance.accelerator,
        gpu_count=instance.gpu_count,
        price_kind=offer.price_kind.value,
        price_per_instance_usd_per_hour=offer.price_per_instance_usd_per_hour,
        price_per_gpu_usd_per_hour=price_per_gpu_usd_per_hour(offer, instance),
        upfront_usd=offer.upfront_usd,
        basis=offer.basis.value,
        interruption=offer.interruption,
        source=offer.source,
        as_of=offer.as_of,
        first_seen=offer.first_seen,
        currency=offer.currency,
        until=offer.until,
    )


def accepts_unpriced(catalog: Catalog, wanted: OfferFilter, row: Availability) -> bool:
    """Whether a place without a price matches the filter; the price kind is open there."""
    named = wanted.regions is not None and row.region in wanted.regions
    return (
        allows(wanted.clouds, row.cloud)
        and allows(wanted.regions, row.region)
        and allows(wanted.instances, row.instance)
        and allows(wanted.accelerators, described(catalog, row).accelerator)
        and (wanted.include_restricted or named or catalog.is_open(row.cloud, row.region))
    )


def described(catalog: Catalog, row: Availability) -> Instance | IncompleteInstance:
    """The instance type of an availability row."""
    key = row.cloud, row.instance
    return catalog.instances[key] if key in catalog.instances else catalog.incomplete_instances[key]


def unpriced_row(catalog: Catalog, row: Availability) -> UnpricedRow:
    """What is sold in a region at an unknown price."""
    instance = described(catalog, row)
    return UnpricedRow(
        cloud=row.cloud,
        region=row.region,
        instance=row.instance,
        gpu=instance.accelerator,
        gpu_count=instance.gpu_count if isinstance(instance, Instance) else None,
        num_zones=row.num_zones,
        source=row.source,
        as_of=row.as_of,
        foreign_price=foreign_price(catalog, row.cloud, row.region, row.instance),
    )


def foreign_price(catalog: Catalog, cloud: str, region: str, instance: str) -> str | None:
    """A price in another currency, in words: it must not stand beside dollars."""
    found = [f for f in catalog.foreign_offers if (f.cloud, f.region, f.instance) == (cloud, region, instance)]
    return f"{found[0].price_per_instance_per_hour:,.2f} {found[0].currency}" if found else None


def list_gpus(catalog: Catalog, keep: Callable[[Accelerator], bool], notes: Iterable[str] = ()) -> GpuListing:
    """Accelerators that `keep` accepts, in the order of the tables; a slice is no price of a whole GPU."""
    cheapest = cheapest_on_demand(catalog, lambda row: (row.gpu, row.gpu_count >= 1))
    rows = [gpu_row(gpu, cheapest.get((gpu.name, True))) for gpu in catalog.accelerators.values() if keep(gpu)]
    return GpuListing(rows=rows, notes=list(notes), sources=row_sources(catalog, rows))


def gpu_row(gpu: Accelerator, cheapest: PriceRow | None) -> GpuRow:
    """One accelerator as listed."""
    return GpuRow(
        name=gpu.name,
        vendor=gpu.vendor,
        generation=gpu.generation,
        memory_bytes=gpu.memory_bytes,
        marketed_memory_gb=gpu.marketed_memory_gb,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s,
        dense_peak_flop_per_s=dict(gpu.peak_flop_per_s),
        link_bytes_per_s_per_direction=gpu.nvlink_bytes_per_s,
        pcie_generation=gpu.pcie_generation,
        board_power_watts=gpu.board_power_watts,
        release_year=gpu.release_year,
        cheapest=cheapest,
        source=gpu.source,
        evidence=gpu.evidence,
        notes=gpu.notes,
    )


def list_instances(
    catalog: Catalog, keep: Callable[[Instance | IncompleteInstance], bool], notes: Iterable[str] = ()
) -> InstanceListing:
    """Instance types that `keep` accepts, by cloud and size."""
    cheapest = cheapest_on_demand(catalog, lambda row: (row.cloud, row.instance))
    rows = [
        instance_row(catalog, instance, cheapest.get((instance.cloud, instance.name)))
        for instance in sorted(catalog.described_instances, key=by_size)
        if keep(instance)
    ]
    return InstanceListing(rows=rows, notes=list(notes), sources=row_sources(catalog, rows))


def by_size(instance: Instance | IncompleteInstance) -> tuple[str, str, float, str]:
    """Clouds, then GPUs, then few before many."""
    gpu_count = instance.gpu_count if isinstance(instance, Instance) else math.inf
    return instance.cloud, instance.accelerator, gpu_count, instance.name


def instance_row(catalog: Catalog, found: Instance | IncompleteInstance, cheapest: PriceRow | None) -> InstanceRow:
    """One instance type as listed."""
    if isinstance(found, IncompleteInstance):
        return incomplete_row(found)
    return InstanceRow(
        cloud=found.cloud,
        name=found.name,
        gpu=found.accelerator,
        gpu_count=found.gpu_count,
        gpu_memory_bytes=gpu_memory_bytes(catalog, found),
        vcpus=found.vcpus,
        memory_gib=found.memory_gib,
        link_kind=found.fabric.kind,
        link_bytes_per_s_per_direction=found.fabric.bytes_per_s,
        link=found.fabric.description,
        link_evidence=found.fabric.evidence,
        network_gbit_per_s=found.network_gbit_per_s,
        local_ssd_gb=found.local_ssd_gb,
        retired=found.retired,
        cheapest=cheapest,
        source=found.source,
        evidence=found.evidence,
    )


def incomplete_row(found: IncompleteInstance) -> InstanceRow:
    """An instance type of which little more than the name is known."""
    unknown = ("gpu_count", "gpu_memory_bytes", "vcpus", "memory_gib", "link_kind", "link_bytes_per_s_per_direction")
    return InstanceRow(
        cloud=found.cloud,
        name=found.name,
        gpu=found.accelerator,
        **dict.fromkeys((*unknown, "network_gbit_per_s", "local_ssd_gb", "cheapest")),
        link="unknown",
        link_evidence="",
        retired=False,
        source=found.source,
        evidence=found.evidence,
    )


def gpu_memory_bytes(catalog: Catalog, instance: Instance) -> float:
    """Memory of all GPUs of an instance."""
    return catalog.accelerators[instance.accelerator].memory_bytes * instance.gpu_count


def cheapest_on_demand(catalog: Catalog, key: Callable[[PriceRow], Key]) -> Mapping[Key, PriceRow]:
    """The lowest on-demand price per GPU of each group, open regions only."""
    wanted = OfferFilter(price_kinds={PriceKind.ON_DEMAND})
    rows = [price_row(catalog, offer) for offer in matching_offers(catalog, wanted)]
    dearest_first = sorted(rows, key=lambda row: -row.price_per_gpu_usd_per_hour)
    return {key(row): row for row in dearest_first}


def row_sources(catalog: Catalog, rows: Iterable[GpuRow | InstanceRow]) -> list[SourceNote]:
    """Sources of the rows and of the prices beside them."""
    rows = tuple(rows)
    prices = {row.cheapest.source for row in rows if row.cheapest is not None}
    return source_notes(catalog, prices | {row.source for row in rows})


def source_notes(catalog: Catalog, ids: Iterable[str]) -> list[SourceNote]:
    """The sources of these ids, in their order."""
    found = (catalog.sources[source_id] for source_id in sorted(ids) if source_id in catalog.sources)
    return [SourceNote(**asdict(source)) for source in found]


def machines_of(catalog: Catalog, accelerator: Accelerator) -> Mapping[int, Offer]:
    """The cheapest on-demand machine with at least that many of this accelerator; GPUs left over are paid for."""
    wanted = OfferFilter(accelerators={accelerator.name}, price_kinds={PriceKind.ON_DEMAND})
    offers = sorted(matching_offers(catalog, wanted), key=lambda o: -o.price_per_instance_usd_per_hour)
    sizes = [(int(catalog.instance_of(offer).gpu_count), offer) for offer in offers]
    return {number: offer for size, offer in sizes for number in range(1, size + 1)}
