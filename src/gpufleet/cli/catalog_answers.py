"""What `gpufleet catalog` answers: names resolved, rows chosen and ordered, a result and its page."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from gpufleet.answers.model_explained import explain_model
from gpufleet.catalog.areas import chosen_regions, region_notes
from gpufleet.catalog.listing import gpu_memory_bytes, list_gpus, list_instances, list_prices
from gpufleet.catalog.missing_prices import ended_notes
from gpufleet.catalog.model_listing import encoder_row, list_models, model_row
from gpufleet.catalog.models import is_shipped_encoder, shipped_architecture, shipped_encoder
from gpufleet.catalog.places import list_coverage, list_discounts, list_places, list_regions
from gpufleet.catalog.query import OfferFilter, allows, resolve_cloud, resolve_gpu, resolve_instance
from gpufleet.catalog.row_order import arranged
from gpufleet.catalog.schema import IncompleteInstance
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.token_prices import list_token_prices
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import price_kind
from gpufleet.domain.precision import PRECISIONS
from gpufleet.errors import GpufleetError, UnknownName, UsageError
from gpufleet.inputs.model_config import added_models, is_encoder, read_encoder, read_model
from gpufleet.questions.catalog import CatalogRequest
from gpufleet.report.catalog_pages import gpu_page, instance_page, model_page, price_page
from gpufleet.report.model_page import explained_page
from gpufleet.report.page import Page
from gpufleet.report.places import coverage_page, discount_page, place_page, region_page
from gpufleet.report.token_prices import token_price_page
from gpufleet.results.base import Result
from gpufleet.results.catalog import ModelListing, ModelRow
from gpufleet.units import GIB, parse_bytes

Answered = tuple[Result, Page]
ARITHMETICS = {**{p.name: p.arithmetic for p in PRECISIONS.values()}, "tf32": "tf32", "fp4": "fp4"}


def gpu_answer(q: CatalogRequest, tables: Catalog, _: int | None) -> Answered:
    """Accelerators: memory, dense rates, links, and the cheapest on-demand price known here."""
    names, notes = gpus_meant(q, tables)
    vendor = known("vendor", q.vendor, sorted({gpu.vendor for gpu in tables.accelerators.values()}))
    arithmetic = ARITHMETICS.get(known("precision", q.precision, ARITHMETICS) or "")
    clouds, least_bytes = clouds_meant(q, tables), least_bytes_of(q)
    sold = None if clouds is None else {i.accelerator for i in tables.described_instances if i.cloud in clouds}
    listing = list_gpus(
        tables,
        lambda gpu: (
            allows(names, gpu.name)
            and vendor in (None, gpu.vendor)
            and gpu.memory_bytes >= least_bytes
            and (arithmetic is None or gpu.computes(arithmetic))
            and allows(sold, gpu.name)
        ),
        [*notes, *nearly_enough_memory(q, tables)],
    )
    listing = arranged(listing, q.sort, q.limit)
    return listing, gpu_page(listing)


def instance_answer(q: CatalogRequest, tables: Catalog, _: int | None) -> Answered:
    """Instance types: GPUs, links, host, and the cheapest on-demand price known here."""
    names, notes = gpus_meant(q, tables)
    clouds, is_large_enough = clouds_meant(q, tables), size_filter(q, tables)
    listing = list_instances(
        tables,
        lambda found: allows(names, found.accelerator) and allows(clouds, found.cloud) and is_large_enough(found),
        notes,
    )
    listing = arranged(listing, q.sort, q.limit)
    return listing, instance_page(listing)


def price_answer(q: CatalogRequest, tables: Catalog, most: int | None) -> Answered:
    """Prices per instance and per GPU, cheapest per GPU first, each with its date."""
    wanted, _, notes = asked_places(q, tables)
    notes += [f"{note}." for note in ended_notes(tables, wanted)]
    listing = arranged(list_prices(tables, wanted, notes), q.sort, q.limit)
    page = price_page(listing, most, q.unpriced)
    return listing.model_copy(update={"unpriced": listing.unpriced[: q.limit]}), page


def region_answer(q: CatalogRequest, tables: Catalog, most: int | None) -> Answered:
    """Regions of clouds and areas; with GPUs, types or regions named, what is sold where, price known or not."""
    wanted, are_areas, notes = asked_places(q, tables)
    names_no_type = wanted.accelerators is None and wanted.instances is None
    if names_no_type and (are_areas or wanted.regions is None):
        regions = list_regions(tables, wanted, notes, q.limit)
        return regions, region_page(regions, most)
    places = list_places(tables, wanted, notes, q.limit)
    return places, place_page(places, most)


def coverage_answer(_: CatalogRequest, tables: Catalog, __: int | None) -> Answered:
    """Where prices are known."""
    listing = list_coverage(tables)
    return listing, coverage_page(listing)


def discount_answer(_: CatalogRequest, tables: Catalog, __: int | None) -> Answered:
    """Rules of thumb beside what is held."""
    listing = list_discounts(tables)
    return listing, discount_page(listing)


LISTINGS: Mapping[str, Callable[[CatalogRequest, Catalog, int | None], Answered]] = {
    "gpus": gpu_answer,
    "instances": instance_answer,
    "prices": price_answer,
    "regions": region_answer,
    "coverage": coverage_answer,
    "discounts": discount_answer,
}
"""What answers each verb: of the rows that are asked for, at most so many on its page."""


def model_answer(q: CatalogRequest) -> Answered:
    """Models, shipped and added, or one of them explained: a shipped name, a config.json or the folder around it."""
    if q.show is not None:
        explained = explain_model(read_model(q.show, shipped_architecture))
        return explained, explained_page(explained)
    everything = with_added(list_models())
    family = known("family", q.family, sorted({row.family for row in everything.rows}))
    rows = [row for row in everything.rows if family in (None, row.family) and is_found(row, q.search)]
    listing = arranged(everything.model_copy(update={"rows": rows}), q.sort, q.limit)
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


def is_found(row: ModelRow, search: str | None) -> bool:
    """Whether a model has the text in one of its names."""
    return search is None or any(search.casefold() in name.casefold() for name in (row.name, *row.aliases))


def token_price_answer(model: str | None, q: CatalogRequest, most: int | None) -> Answered:
    """What APIs ask for tokens, of a model or of all."""
    listing = list_token_prices(model, q.provider)
    page = token_price_page(listing, most)
    return listing.model_copy(update={"rows": listing.rows[: q.limit]}), page


def gpus_meant(q: CatalogRequest, tables: Catalog) -> tuple[set[str] | None, list[str]]:
    """Ids of the GPUs that are named, None where none is, and how incomplete names were read."""
    resolved = [resolve_gpu(tables, name) for name in q.gpu or ()]
    return {gpu.accelerator.name for gpu in resolved} or None, [f"{gpu.note}." for gpu in resolved if gpu.note]


def clouds_meant(q: CatalogRequest, tables: Catalog) -> list[str] | None:
    """The clouds that are named, None where none is."""
    return [resolve_cloud(tables, name) for name in q.cloud or ()] or None


def asked_places(q: CatalogRequest, tables: Catalog) -> tuple[OfferFilter, bool, list[str]]:
    """Where is looked and for what, whether areas were named, and how names were read."""
    names, notes = gpus_meant(q, tables)
    clouds = clouds_meant(q, tables)
    chosen = chosen_regions(tables, q.region or (), clouds)
    wanted = OfferFilter(
        clouds=clouds,
        regions=chosen.regions,
        accelerators=names,
        instances=[resolve_instance(tables, name).name for name in q.instance or ()] or None,
        price_kinds={price_kind(name) for name in q.kind or ()} or None,
        include_restricted=q.restricted,
    )
    return wanted, bool(chosen.areas), [*notes, *(f"{note}." for note in region_notes(tables, wanted, chosen.areas))]


def known(kind: str, name: str | None, names: Collection[str]) -> str | None:
    """A name in small letters, where one is given; it must be one of these."""
    if name is not None and name.casefold() not in names:
        raise UnknownName(kind, name, names, hint=f"Known: {', '.join(names)}.")
    return name and name.casefold()


def least_bytes_of(q: CatalogRequest) -> float:
    """The least memory that is asked for."""
    return 0.0 if q.min_memory is None else parse_bytes(q.min_memory)


def size_filter(q: CatalogRequest, tables: Catalog) -> Callable[[Instance | IncompleteInstance], bool]:
    """Instance types with so many GPUs that have so much memory together; all of them where neither is asked for."""
    least_bytes, least_gpus = least_bytes_of(q), q.min_gpus
    if least_gpus is not None and not 0 < least_gpus < math.inf:
        raise UsageError("--min-gpus must be a positive number", found=least_gpus, expected="a count such as 8")
    if not (least_bytes or least_gpus):
        return lambda found: True
    return lambda found: (
        isinstance(found, Instance)
        and gpu_memory_bytes(tables, found) >= least_bytes
        and found.gpu_count >= (least_gpus or 0)
    )


def nearly_enough_memory(q: CatalogRequest, tables: Catalog) -> Sequence[str]:
    """Says which cards miss the limit only because drivers report less than the round figure they are sold by."""
    least_bytes = least_bytes_of(q)
    near = [
        f"{gpu.name} ({gpu.memory_bytes / GIB:.1f} GiB)"
        for gpu in tables.accelerators.values()
        if gpu.memory_bytes < least_bytes <= gpu.marketed_memory_gb * GIB
    ]
    return [f"Sold as {q.min_memory} but reporting less, so not listed: {', '.join(near)}."] if near else []
