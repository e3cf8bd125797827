"""Catalog listings as pages of 80 columns: tables first, then how names were read, then sources and dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpufleet import units
from gpufleet.report.numbers import count, gib, several, significant, usd
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.results.catalog import (
    GpuListing,
    GpuRow,
    InstanceListing,
    InstanceRow,
    Listing,
    ModelListing,
    PriceListing,
    PriceRow,
)

UNKNOWN, UNDATED, RETIRED = "unknown", "undated", "retired"


def shown(show: Callable[[Any], str]) -> Callable[[object], str]:
    """A formatter for a cell that may be unknown."""
    return lambda value: UNKNOWN if value is None else show(value)


def gigabytes_per_s(value: float) -> str:
    """Bytes per second in GB/s."""
    return f"{value / units.GIGA:,.0f}"


def teraflop_per_s(value: object) -> str:
    """FLOP/s in TFLOP/s; a dash where the device has no units for it."""
    return f"{value / units.TERA:,.0f}" if isinstance(value, float) else "-"


def link(value: float) -> str:
    """A link in GB/s, or none."""
    return gigabytes_per_s(value) if value else "none"


def plain_count(value: float) -> str:
    """A GPU count, which may be a fraction."""
    return f"{value:g}"


def number(key: str, header: str, show: Callable[[Any], str], priority: int = 0) -> Column:
    """A right-aligned column whose cells may be unknown."""
    return Column(key, header, shown(show), "right", priority)


def gpu_page(listing: GpuListing) -> Page:
    """Accelerators with memory, rates and the cheapest on-demand price."""
    columns = [
        Column("name", "GPU"),
        number("memory_bytes", "memory", gib),
        number("bandwidth_bytes_per_s", "HBM GB/s", gigabytes_per_s),
        Column("bf16_flop_per_s", "bf16 TF/s", teraflop_per_s, "right"),
        Column("fp8_flop_per_s", "fp8 TF/s", teraflop_per_s, "right", 1),
        number("link_bytes_per_s_per_direction", "link GB/s", link, 2),
        Column("gpu_price", "$/GPU/h", str, "right", where="text"),
        Column("cheapest_usd_per_gpu_hour", "$/GPU/h", where="data"),
        Column("cheapest_as_of", "as of", shown(str), priority=3),
        number("board_power_watts", "watts", count, 5),
        Column("vendor", "vendor", priority=6),
        Column("generation", "generation", priority=7),
        Column("source", "source", priority=8),
        Column("cheapest_at", "cheapest at", shown(str), where="data"),
        Column("marketed_memory_gb", "marketed GB", where="data"),
        Column("evidence", "evidence", where="data"),
    ]
    legend = (
        "Memory is what the driver reports. Rates are dense; '-': no such arithmetic. A link is one direction per GPU. "
        "$/GPU/h is the lowest on-demand list price known here for a whole GPU."
    )
    rows = [gpu_cells(row) for row in listing.rows]
    return Page(
        several(len(rows), "accelerator"),
        [Table(columns, rows)],
        [legend, *undated_legend(rows, "cheapest_as_of"), *closing(listing)],
    )


def gpu_cells(row: GpuRow) -> Row:
    """The cells of an accelerator."""
    peaks = {f"{kind}_flop_per_s": row.dense_peak_flop_per_s.get(kind) for kind in ("bf16", "fp8")}
    return {**row.model_dump(), **peaks, **cheapest_cells(row.cheapest)}


def cheapest_cells(cheapest: PriceRow | None) -> Row:
    """What stands in a row about its lowest price."""
    if cheapest is None:
        names = ("cheapest_usd_per_gpu_hour", "cheapest_usd_per_hour", "cheapest_at", "cheapest_as_of")
        return {**dict.fromkeys(names), "instance_price": UNKNOWN, "gpu_price": UNKNOWN}
    return {
        "instance_price": marked(cheapest, cheapest.price_per_instance_usd_per_hour),
        "gpu_price": marked(cheapest, cheapest.price_per_gpu_usd_per_hour),
        "cheapest_usd_per_gpu_hour": cheapest.price_per_gpu_usd_per_hour,
        "cheapest_usd_per_hour": cheapest.price_per_instance_usd_per_hour,
        "cheapest_at": f"{cheapest.cloud} {cheapest.region} {cheapest.instance}",
        "cheapest_as_of": short_day(cheapest),
    }


def instance_page(listing: InstanceListing) -> Page:
    """Instance types with GPUs, links and the cheapest on-demand price."""
    columns = [
        Column("cloud", "cloud"),
        Column("name", "instance", short_instance),
        Column("gpu", "GPU"),
        number("gpu_count", "GPUs", plain_count),
        Column("instance_price", "$/h", str, "right", where="text"),
        Column("gpu_price", "$/GPU/h", str, "right", where="text", priority=1),
        Column("cheapest_usd_per_hour", "$/h", where="data"),
        Column("cheapest_usd_per_gpu_hour", "$/GPU/h", where="data"),
        Column("link_kind", "link", shown(str), priority=3),
        number("link_bytes_per_s_per_direction", "GB/s", gigabytes_per_s, 4),
        number("gpu_memory_bytes", "GPU memory", gib, 2),
        Column("cheapest_as_of", "as of", shown(str), priority=5),
        number("vcpus", "vCPUs", count, 6),
        number("memory_gib", "RAM GiB", significant, 7),
        number("network_gbit_per_s", "net Gbit/s", significant, 8),
        Column("source", "source", priority=9),
        Column("cheapest_at", "cheapest at", shown(str), where="data"),
        Column("local_ssd_gb", "SSD GB", where="data"),
        Column("link_evidence", "link evidence", where="data"),
        Column("retired", "retired", where="data"),
        Column("evidence", "evidence", where="data"),
    ]
    rows = [instance_cells(row) for row in listing.rows]
    legend = (
        "$/h is the whole instance, $/GPU/h one of its GPUs (a slice scaled up), both at the lowest on-demand price "
        "known here."
    )
    notes = [legend, *undated_legend(rows, "cheapest_as_of"), *closing(listing)]
    return Page(several(len(rows), "instance type"), [Table(columns, rows)], notes)


def instance_cells(row: InstanceRow) -> Row:
    """The cells of an instance type; without a price it is retired or the price is unknown."""
    cheapest = cheapest_cells(row.cheapest)
    retired = {"instance_price": RETIRED, "gpu_price": RETIRED} if row.retired and row.cheapest is None else {}
    return {**row.model_dump(), **cheapest, **retired}


def short_instance(name: object) -> str:
    """An instance name without the word that all of Azure's begin with; both forms are understood."""
    return str(name).removeprefix("Standard_")


def price_page(listing: PriceListing, limit: int | None, show_unpriced: bool) -> Page:
    """Offers, cheapest first, and on request what is sold at an unknown price."""
    rows = [price_cells(row) for row in listing.rows]
    kept = rows[:limit]
    tables = [
        Table(price_columns(has_end=any(row["until"] for row in kept)), kept, empty="No price is known for this.")
    ]
    notes = [*cut_note(len(rows), len(kept)), *price_legend(kept)]
    if show_unpriced:
        unknown = [{**row.model_dump(), "price": row.foreign_price} for row in listing.unpriced]
        shown = unknown[:limit]
        tables.append(Table(unpriced_columns(), shown, "Sold here, price unknown", cut_note(len(unknown), len(shown))))
    elif listing.unpriced:
        notes.append(f"Also sold in {len(listing.unpriced)} places at an unknown price: --unpriced lists them.")
    return Page(f"{several(len(rows), 'price')}, cheapest per GPU first", tables, [*notes, *closing(listing)])


def price_cells(row: PriceRow) -> Row:
    """The cells of an offer; an estimate is marked with '~', a price of which nobody knows the day with '?'."""
    instance, gpu = row.price_per_instance_usd_per_hour, row.price_per_gpu_usd_per_hour
    prices = {"instance_price": marked(row, instance), "gpu_price": marked(row, gpu)}
    stated = row.as_of if row.first_seen is None else None
    bought = row.price_kind.replace("_", " ")
    return {**row.model_dump(), **prices, "day": short_day(row), "as_of": stated, "bought": bought}


def marked(price: PriceRow, usd_per_hour: float) -> str:
    """A price by the hour, marked where it was estimated and where its day is not known."""
    return f"{'~' if price.basis == 'estimated' else ''}{usd(usd_per_hour)}{'?' if is_undated(price) else ''}"


def is_undated(price: PriceRow) -> bool:
    """Whether nobody knows of which day a price is."""
    return short_day(price) == UNDATED


def short_day(price: PriceRow) -> str:
    """The day of a price as a cell."""
    return UNDATED if price.as_of is None or price.first_seen else price.as_of.isoformat()


def price_legend(rows: Sequence[Row]) -> list[str]:
    """What the marks in these rows mean."""
    estimates = dict.fromkeys(estimate_words(row) for row in rows if row["basis"] == "estimated")
    everywhere = ["Region 'all' is one price for every region."] if any_cell(rows, "region", "all") else []
    return [
        *([f"'~' is an estimate: {'; '.join(estimates)}."] if estimates else []),
        *undated_legend(rows),
        *everywhere,
    ]


def undated_legend(rows: Sequence[Row], key: str = "day") -> list[str]:
    """What the mark of a price without a day means, where one is shown."""
    return ["'?' is undated: a copy of a price list, nobody says of which day."] if any_cell(rows, key, UNDATED) else []


def estimate_words(row: Row) -> str:
    """How a price was estimated."""
    if row["price_kind"] == "owned":
        return "what you stated of your own machines, by the hour"
    if row["currency"] != "USD":
        return f"a price in {row['currency']} at your exchange rate"
    return "on-demand less the average spot saving" if row["price_kind"] == "spot" else "called so by its source"


def any_cell(rows: Sequence[Row], key: str, value: str) -> bool:
    """Whether a column holds the value anywhere."""
    return any(row[key] == value for row in rows)


def price_columns(*, has_end: bool) -> list[Column]:
    """Columns of an offer; when it ends, where any does."""
    return [
        Column("cloud", "cloud"),
        Column("region", "region"),
        Column("instance", "instance", short_instance),
        Column("gpu", "GPU", priority=4),
        number("gpu_count", "GPUs", plain_count, 1),
        Column("bought", "kind", where="text", qualifies=True),
        Column("price_kind", "kind", where="data"),
        Column("instance_price", "$/h", str, "right", where="text"),
        Column("gpu_price", "$/GPU/h", str, "right", where="text"),
        Column("price_per_instance_usd_per_hour", "$/h", where="data"),
        Column("price_per_gpu_usd_per_hour", "$/GPU/h", where="data"),
        Column("as_of", "as of", str, priority=3, where="data"),
        Column("first_seen", "first seen", where="data"),
        Column("day", "as of", priority=3, where="text"),
        Column("basis", "basis", priority=5),
        Column("interruption", "reclaimed/month", lambda value: str(value or "-"), priority=6),
        Column("source", "source", priority=7),
        Column("upfront_usd", "upfront", where="data"),
        Column("until", "until", where="data"),
        *([Column("until", "until", lambda day: str(day or "-"), where="text")] if has_end else []),
    ]


def unpriced_columns() -> list[Column]:
    """Columns of what is sold at an unknown price."""
    return [
        Column("cloud", "cloud"),
        Column("region", "region"),
        Column("instance", "instance", short_instance),
        Column("gpu", "GPU", priority=2),
        number("gpu_count", "GPUs", plain_count, 1),
        number("num_zones", "zones", count),
        Column("price", "$/h", align="right"),
        Column("as_of", "as of", str, priority=3),
    ]


def model_page(listing: ModelListing) -> Page:
    """Shipped architectures, and the shipped configs that no plan reads yet."""
    columns = [
        Column("name", "model"),
        Column("kind", "kind"),
        Column("family", "family", priority=3),
        number("num_parameters", "parameters", billions),
        number("num_active_parameters", "active", billions, 2),
        number("num_layers", "layers", count, 3),
        number("max_context_tokens", "context", count),
        Column("weight_format", "weights", priority=4),
        Column("alias", "also known as", priority=5),
    ]
    rows = [{**row.model_dump(), "alias": ", ".join(row.aliases) or "-"} for row in listing.rows]
    notes = ["A config.json of your own does not have to be listed here.", *not_planned_note(listing)]
    return Page(several(len(rows), "model"), [Table(columns, rows)], [*notes, *closing(listing)])


def not_planned_note(listing: ModelListing) -> list[str]:
    """Which shipped configs are not read yet."""
    names = ", ".join(listing.not_planned)
    return [f"Shipped, but not planned yet because of their kind: {names}."] if names else []


def billions(value: float) -> str:
    """A parameter count in billions."""
    return f"{significant(value / units.GIGA)}B"


def cut_note(total: int, kept: int) -> Sequence[str]:
    """What a limit left out."""
    return [f"{total - kept} more: --limit {total} shows all, -o csv too."] if kept < total else []


def closing(listing: Listing) -> list[str]:
    """Notes, then price lists with their dates; nothing is live."""
    dated = [f"  {s.title} ({s.day})" for s in listing.sources if s.id.endswith(PRICE_SOURCE_ENDINGS)]
    heading = ["Prices are not live; they come from:"] if dated else []
    return [*listing.notes, *heading, *dated]


PRICE_SOURCE_ENDINGS = ("-price-list", "-spot-advisor", "-post")
