"""What `gpufleet catalog` answers: names resolved, rows chosen and ordered, a result and its page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gpufleet.answers.model_explained import explain_model
from gpufleet.catalog.areas import chosen_regions, region_notes
from gpufleet.catalog.listing import gpu_memory_bytes, list_gpus, list_instances, list_prices
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.missing_prices import ended_notes
from gpufleet.catalog.model_listing import encoder_row, list_models, model_row
from gpufleet.catalog.models import is_shipped_encoder, shipped_architecture, shipped_encoder
from gpufleet.catalog.places import list_coverage, list_discounts, list_places, list_regions
from gpufleet.catalog.query import OfferFilter, resolve_cloud, resolve_gpu, resolve_instance
from gpufleet.catalog.schema import IncompleteInstance, Region
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.token_prices import list_token_prices
from gpufleet.cli.options import words
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.precision import PRECISIONS
from gpufleet.errors import GpufleetError, UnknownName, UsageError
from gpufleet.inputs.added_models import added_models
from gpufleet.inputs.model_config import is_encoder, read_encoder, read_model
from gpufleet.report.catalog_pages import gpu_page, instance_page, model_page, price_page
from gpufleet.report.model_page import explained_page
from gpufleet.report.page import Page
from gpufleet.report.places import coverage_page, discount_page, place_page, region_page
from gpufleet.report.token_prices import token_price_page
from gpufleet.results.catalog import (
    CoverageListing,
    DiscountListing,
    GpuListing,
    GpuRow,
    InstanceListing,
    InstanceRow,
    ModelListing,
    ModelRow,
    PlaceListing,
    PriceListing,
    PriceRow,
    RegionListing,
)
from gpufleet.results.model_explained import ModelExplained
from gpufleet.results.token_prices import TokenPriceListing
from gpufleet.units import GIB, parse_bytes

ROWS_ON_A_PAGE = 40

AnyListing = TypeVar("AnyListing", GpuListing, InstanceListing, ModelListing, PriceListing)
Names = list[str] | None
SortKeys = dict[str, Callable[[Any], Any]]
GPU_ORDERS: SortKeys = {
    "name": lambda row: row.name.casefold(),
    "memory": lambda row: row.memory_bytes,
    "bandwidth": lambda row: row.bandwidth_bytes_per_s,
    "bf16": lambda row: row.dense_peak_flop_per_s.get("bf16"),
    "fp8": lambda row: row.dense_peak_flop_per_s.get("fp8"),
    "year": lambda row: row.release_year,
    "price": lambda row: row.cheapest and row.cheapest.price_per_gpu_usd_per_hour,
}
INSTANCE_ORDERS: SortKeys = {
    "name": lambda row: (row.cloud, row.name.casefold()),
    "gpus": lambda row: row.gpu_count,
    "memory": lambda row: row.gpu_memory_bytes,
    "price": lambda row: row.cheapest and row.cheapest.price_per_instance_usd_per_hour,
    "gpu-price": lambda row: row.cheapest and row.cheapest.price_per_gpu_usd_per_hour,
}
MODEL_ORDERS: SortKeys = {
    "name": lambda row: row.name,
    "parameters": lambda row: row.num_parameters,
    "active": lambda row: row.num_active_parameters,
    "context": lambda row: row.max_context_tokens,
}
PRICE_ORDERS: SortKeys = {
    "gpu-price": lambda row: row.price_per_gpu_usd_per_hour,
    "price": lambda row: row.price_per_instance_usd_per_hour,
    "region": lambda row: (row.cloud, row.region, row.instance),
    "instance": lambda row: (row.cloud, row.instance, row.region),
    "date": lambda row: row.as_of,
}


def gpu_answer(
    *,
    gpu: Names,
    vendor: str | None,
    min_memory: str | None,
    precision: str | None,
    cloud: Names,
    sort: str | None,
    limit: int | None,
    catalog_dir: str | None,
) -> tuple[GpuListing, Page]:
    """Accelerators: memory, dense rates, links, and the cheapest on-demand price known here."""
    catalog = load_catalog(catalog_dir)
    names, notes = resolve_gpus(catalog, gpu)
    keep = all_of(
        lambda found: names is None or found.name in names,
        vendor_filter(catalog, vendor),
        memory_filter(min_memory),
        precision_filter(precision),
        sold_by_filter(catalog, clouds_of(catalog, cloud)),
    )
    listing = list_gpus(catalog, keep, [*notes, *nearly_enough_memory(catalog, min_memory)])
    listing = arranged(listing, sort, GPU_ORDERS, limit)
    return listing, gpu_page(listing)


def instance_answer(
    *,
    gpu: Names,
    cloud: Names,
    min_memory: str | None,
    min_gpus: float | None,
    sort: str | None,
    limit: int | None,
    catalog_dir: str | None,
) -> tuple[InstanceListing, Page]:
    """Instance types: GPUs, links, host, and the cheapest on-demand price known here."""
    catalog = load_catalog(catalog_dir)
    names, notes = resolve_gpus(catalog, gpu)
    clouds = clouds_of(catalog, cloud)
    keep = all_of(
        lambda found: names is None or found.accelerator in names,
        lambda found: clouds is None or found.cloud in clouds,
        total_memory_filter(catalog, min_memory),
        count_filter(min_gpus),
    )
    listing = list_instances(catalog, keep, notes)
    listing = arranged(listing, sort, INSTANCE_ORDERS, limit)
    return listing, instance_page(listing)


def price_answer(
    *,
    gpu: Names,
    instance: Names,
    cloud: Names,
    region: Names,
    kind: Names,
    restricted: bool,
    unpriced: bool,
    sort: str | None,
    limit: int | None,
    catalog_dir: str | None,
    is_page: bool,
) -> tuple[PriceListing, Page]:
    """Prices per instance and per GPU, cheapest per GPU first, each with its date."""
    catalog = load_catalog(catalog_dir)
    wanted, areas, notes = asked_places(catalog, gpu, instance, cloud, region, restricted)
    kinds = {price_kind(name) for name in words(kind)} if kind else None
    wanted = replace(wanted, price_kinds=kinds)
    notes += [f"{note}." for note in region_notes(catalog, wanted, areas)]
    notes += [f"{note}." for note in ended_notes(catalog, wanted)]
    listing = arranged(list_prices(catalog, wanted, notes), sort, PRICE_ORDERS, limit)
    page = price_page(listing, limit or (ROWS_ON_A_PAGE if is_page else None), unpriced)
    return listing.model_copy(update={"unpriced": listing.unpriced[:limit]}), page


def region_answer(
    *,
    gpu: Names,
    instance: Names,
    cloud: Names,
    region: Names,
    restricted: bool,
    limit: int | None,
    catalog_dir: str | None,
    is_page: bool,
) -> tuple[PlaceListing | RegionListing, Page]:
    """Regions of clouds and areas; with GPUs, types or regions named, what is sold where, price known or not."""
    catalog = load_catalog(catalog_dir)
    wanted, areas, notes = asked_places(catalog, gpu, instance, cloud, region, restricted)
    notes += [f"{note}." for note in region_notes(catalog, wanted, areas)]
    rows_on_page = ROWS_ON_A_PAGE if is_page and limit is None else None
    names_no_type = wanted.accelerators is None and wanted.instances is None
    if names_no_type and (areas or wanted.regions is None):
        regions = list_regions(catalog, wanted, notes, limit)
        return regions, region_page(regions, rows_on_page)
    listing = list_places(catalog, wanted, notes, limit)
    return listing, place_page(listing, rows_on_page)


def coverage_answer(catalog_dir: str | None) -> tuple[CoverageListing, Page]:
    """Where prices are known."""
    listing = list_coverage(load_catalog(catalog_dir))
    return listing, coverage_page(listing)


def discount_answer(catalog_dir: str | None) -> tuple[DiscountListing, Page]:
    """Rules of thumb beside what is held."""
    listing = list_discounts(load_catalog(catalog_dir))
    return listing, discount_page(listing)


def model_answer(
    *,
    search: str | None,
    family: str | None,
    sort: str | None,
    limit: int | None,
) -> tuple[ModelListing, Page]:
    """Shipped model architectures: exact parameters, context, checkpoint precision and other names."""
    everything = with_added(list_models())
    families = sorted({row.family for row in everything.rows})
    if family is not None and family.casefold() not in families:
        raise UnknownName("family", family, families, hint=f"Known: {', '.join(families)}.")
    rows = [row for row in everything.rows if is_wanted_model(row, search, family)]
    listing = arranged(everything.model_copy(update={"rows": rows}), sort, MODEL_ORDERS, limit)
    return listing, model_page(listing)


def with_added(listing: ModelListing) -> ModelListing:
    """The shipped models and those that were added from a hub, each revision by itself."""
    rows, refused = list(listing.rows), dict(listing.not_planned)
    for model in added_models():
        kept = model.checkpoint
        name = f"{kept.id}@{kept.commit[:8]}"
        try:
            if is_encoder(name, is_shipped_encoder):
                row = encoder_row(read_encoder(name, shipped_encoder), [name])
            else:
                row = model_row(read_model(name, shipped_architecture), [name])
            rows.append(row)
        except GpufleetError as error:
            refused[kept.id] = error.problem
    return listing.model_copy(update={"rows": sorted(rows, key=lambda row: row.name), "not_planned": refused})


def explained_answer(model: str) -> tuple[ModelExplained, Page]:
    """One model explained: a shipped name, a config.json or the folder around it."""
    explained = explain_model(read_model(model, shipped_architecture))
    return explained, explained_page(explained)


def token_price_answer(
    model: str | None, hosts: Names, limit: int | None, is_page: bool
) -> tuple[TokenPriceListing, Page]:
    """What APIs ask for tokens, of a model or of all."""
    listing = list_token_prices(model, words(hosts) if hosts else None)
    page = token_price_page(listing, limit or (ROWS_ON_A_PAGE if is_page else None))
    return listing.model_copy(update={"rows": listing.rows[:limit]}), page


def is_wanted_model(row: ModelRow, search: str | None, family: str | None) -> bool:
    """Whether a model has the text in one of its names and is of the family."""
    names = (name.casefold() for name in (row.name, *row.aliases))
    of_family = family is None or row.family == family.casefold()
    return of_family and (search is None or any(search.casefold() in name for name in names))


def resolve_gpus(catalog: Catalog, names: Names) -> tuple[set[str] | None, list[str]]:
    """Ids of a list of GPU names, and how incomplete names were read."""
    if not names:
        return None, []
    resolved = [resolve_gpu(catalog, word) for word in words(names)]
    return {gpu.accelerator.name for gpu in resolved}, [f"{gpu.note}." for gpu in resolved if gpu.note]


def asked_places(
    catalog: Catalog, gpu: Names, instance: Names, cloud: Names, region: Names, restricted: bool
) -> tuple[OfferFilter, Mapping[str, tuple[Region, ...]], list[str]]:
    """Where is looked and for what, of any price kind, the areas that were named, and how names of GPUs were read."""
    names, notes = resolve_gpus(catalog, gpu)
    clouds = clouds_of(catalog, cloud)
    chosen = chosen_regions(catalog, words(region) if region else (), clouds)
    wanted = OfferFilter(
        clouds=clouds,
        regions=chosen.regions,
        accelerators=names,
        instances=[resolve_instance(catalog, name).name for name in words(instance)] if instance else None,
        include_restricted=restricted,
    )
    return wanted, chosen.areas, notes


def clouds_of(catalog: Catalog, names: Names) -> list[str] | None:
    """Clouds of a list of names."""
    return [resolve_cloud(catalog, word) for word in words(names)] if names else None


def price_kind(name: str) -> PriceKind:
    """A price kind as people write it: on-demand, on_demand."""
    known = {kind.value: kind for kind in PriceKind}
    found = known.get(name.casefold().replace("-", "_"))
    if found is None:
        raise UnknownName("price kind", name, known, hint=f"Known: {', '.join(known)}.")
    return found


def all_of(*conditions: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether every condition holds."""
    return lambda found: all(condition(found) for condition in conditions)


def vendor_filter(catalog: Catalog, vendor: str | None) -> Callable[[Accelerator], bool]:
    """Accelerators of one vendor."""
    if vendor is None:
        return lambda found: True
    known = sorted({gpu.vendor for gpu in catalog.accelerators.values()})
    if vendor.casefold() not in known:
        raise UnknownName("vendor", vendor, known, hint=f"Known: {', '.join(known)}.")
    return lambda found: found.vendor == vendor.casefold()


def memory_filter(text: str | None) -> Callable[[Accelerator], bool]:
    """Accelerators whose driver reports at least this much memory."""
    least_bytes = 0.0 if text is None else parse_bytes(text)
    return lambda found: found.memory_bytes >= least_bytes


def total_memory_filter(catalog: Catalog, text: str | None) -> Callable[[Instance | IncompleteInstance], bool]:
    """Instance types whose GPUs together have at least this much memory."""
    if text is None:
        return lambda found: True
    least_bytes = parse_bytes(text)
    return lambda found: isinstance(found, Instance) and gpu_memory_bytes(catalog, found) >= least_bytes


def count_filter(min_gpus: float | None) -> Callable[[Instance | IncompleteInstance], bool]:
    """Instance types with at least this many GPUs."""
    if min_gpus is None:
        return lambda found: True
    if not 0 < min_gpus < math.inf:
        raise UsageError("--min-gpus must be a positive number", found=min_gpus, expected="a count such as 8")
    return lambda found: isinstance(found, Instance) and found.gpu_count >= min_gpus


def precision_filter(name: str | None) -> Callable[[Accelerator], bool]:
    """Accelerators that compute in the arithmetic of a number format."""
    if name is None:
        return lambda found: True
    arithmetics = {p.name: p.arithmetic for p in PRECISIONS.values()} | {"tf32": "tf32", "fp4": "fp4"}
    if name.casefold() not in arithmetics:
        raise UnknownName("precision", name, arithmetics, hint=f"Known: {', '.join(arithmetics)}.")
    return lambda found: found.computes(arithmetics[name.casefold()])


def sold_by_filter(catalog: Catalog, clouds: list[str] | None) -> Callable[[Accelerator], bool]:
    """Accelerators that an instance type of these clouds holds."""
    if clouds is None:
        return lambda found: True
    sold = {instance.accelerator for instance in catalog.described_instances if instance.cloud in clouds}
    return lambda found: found.name in sold


def nearly_enough_memory(catalog: Catalog, text: str | None) -> list[str]:
    """Says which cards miss the limit only because drivers report less than the round figure they are sold by."""
    least_bytes = 0.0 if text is None else parse_bytes(text)
    near = [
        f"{gpu.name} ({gpu.memory_bytes / GIB:.1f} GiB)"
        for gpu in catalog.accelerators.values()
        if gpu.memory_bytes < least_bytes <= gpu.marketed_memory_gb * GIB
    ]
    return [f"Sold as {text} but reporting less, so not listed: {', '.join(near)}."] if near else []


def arranged(listing: AnyListing, sort: str | None, orders: SortKeys, limit: int | None) -> AnyListing:
    """The listing in the order that is asked for, unknown values last, cut to the limit, with its sources."""
    rows: list[Any] = (listing.rows if sort is None else in_order(listing.rows, sort, orders))[:limit]
    named = {source for row in rows for source in sources_of(row)}
    sources = [source for source in listing.sources if source.id in named]
    return listing.model_copy(update={"rows": rows, "sources": sources})


def sources_of(row: GpuRow | InstanceRow | ModelRow | PriceRow) -> list[str]:
    """The source of a row, and of the price beside it; a shipped model is a source of its own."""
    if isinstance(row, ModelRow):
        return []
    cheapest = None if isinstance(row, PriceRow) else row.cheapest
    return [row.source, *([cheapest.source] if cheapest else [])]


def in_order(rows: list[Any], sort: str, orders: SortKeys) -> list[Any]:
    """Rows by a key, backwards with '-' before it; rows without the value come last."""
    name = sort.removeprefix("-")
    if name not in orders:
        raise UnknownName("order", sort, orders, hint=f"Known: {', '.join(orders)}.")
    value = orders[name]
    known = sorted((row for row in rows if value(row) is not None), key=value, reverse=sort.startswith("-"))
    return [*known, *(row for row in rows if value(row) is None)]
