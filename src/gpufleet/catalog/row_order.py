"""In which order rows of a listing are shown, and how many of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from gpufleet.errors import UnknownName
from gpufleet.results.catalog import (
    GpuListing,
    GpuRow,
    InstanceListing,
    InstanceRow,
    ModelListing,
    ModelRow,
    PriceListing,
    PriceRow,
)

AnyListing = TypeVar("AnyListing", GpuListing, InstanceListing, ModelListing, PriceListing)
ORDERS: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    GpuListing: {
        "name": lambda row: row.name.casefold(),
        "memory": lambda row: row.memory_bytes,
        "bandwidth": lambda row: row.bandwidth_bytes_per_s,
        "bf16": lambda row: row.dense_peak_flop_per_s.get("bf16"),
        "fp8": lambda row: row.dense_peak_flop_per_s.get("fp8"),
        "year": lambda row: row.release_year,
        "price": lambda row: row.cheapest and row.cheapest.price_per_gpu_usd_per_hour,
    },
    InstanceListing: {
        "name": lambda row: (row.cloud, row.name.casefold()),
        "gpus": lambda row: row.gpu_count,
        "memory": lambda row: row.gpu_memory_bytes,
        "price": lambda row: row.cheapest and row.cheapest.price_per_instance_usd_per_hour,
        "gpu-price": lambda row: row.cheapest and row.cheapest.price_per_gpu_usd_per_hour,
    },
    ModelListing: {
        "name": lambda row: row.name,
        "parameters": lambda row: row.num_parameters,
        "active": lambda row: row.num_active_parameters,
        "context": lambda row: row.max_context_tokens,
    },
    PriceListing: {
        "gpu-price": lambda row: row.price_per_gpu_usd_per_hour,
        "price": lambda row: row.price_per_instance_usd_per_hour,
        "region": lambda row: (row.cloud, row.region, row.instance),
        "instance": lambda row: (row.cloud, row.instance, row.region),
        "date": lambda row: row.as_of,
    },
}
"""By what the rows of a listing are ordered, by the name of the key."""


def arranged(listing: AnyListing, sort: str | None, limit: int | None) -> AnyListing:
    """The listing in the order that is asked for, unknown values last, cut to the limit, with its sources."""
    rows = (listing.rows if sort is None else in_order(listing.rows, sort, ORDERS[type(listing)]))[:limit]
    named = {source for row in rows for source in sources_of(row)}
    sources = [source for source in listing.sources if source.id in named]
    return listing.model_copy(update={"rows": rows, "sources": sources})


def sources_of(row: GpuRow | InstanceRow | ModelRow | PriceRow) -> list[str]:
    """The source of a row, and of the price beside it; a shipped model is a source of its own."""
    if isinstance(row, ModelRow):
        return []
    cheapest = None if isinstance(row, PriceRow) else row.cheapest
    return [row.source, *([cheapest.source] if cheapest else [])]


def in_order(rows: Sequence[Any], sort: str, orders: Mapping[str, Callable[[Any], Any]]) -> list[Any]:
    """Rows by a key, backwards with '-' before it; rows without the value come last."""
    name = sort.removeprefix("-")
    if name not in orders:
        raise UnknownName("order", sort, orders)
    value = orders[name]
    known = sorted((row for row in rows if value(row) is not None), key=value, reverse=sort.startswith("-"))
    return [*known, *(row for row in rows if value(row) is None)]
