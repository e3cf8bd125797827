"""Where things are sold, and typical discounts, as pages of 80 columns."""

from __future__ import annotations

from gpufleet import units
from gpufleet.report.catalog_pages import UNKNOWN, closing, cut_note, plain_count, short_instance
from gpufleet.report.numbers import several, usd
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.results.catalog import (
    CoverageListing,
    CoverageRow,
    DiscountListing,
    DiscountRow,
    PlaceListing,
    PlaceRow,
    RegionListing,
    RegionRow,
)

FEW = 3


def place_page(listing: PlaceListing, limit: int | None) -> Page:
    """Types by region: zones, on-demand and spot price, other ways of buying."""
    rows = [place_cells(row) for row in listing.rows]
    kept = rows[:limit]
    note = "$/h is the whole instance. 'unknown': sold there at a price that is not known here; not ranked."
    places = several(listing.num_places, "place")
    headline = f"Sold in {places}, with a known price in {listing.num_priced}"
    notes = [*cut_note(listing.num_places, len(kept)), note, *closing(listing)]
    return Page(headline, [Table(place_columns(), kept, empty="Not known to be sold anywhere.")], notes)


def region_page(listing: RegionListing, limit: int | None) -> Page:
    """Regions with their countries, and how many machine types have a price there."""
    rows = [region_cells(row) for row in listing.rows]
    kept = rows[:limit]
    headline = several(listing.num_regions, "region")
    note = (
        "Areas and countries may be named wherever regions are: --regions eu, --regions germany. Counts are machine "
        "types with GPUs; --gpu and --instance list them by region."
    )
    table = Table(region_columns(), kept, empty="No such region is known here.")
    return Page(headline, [table], [*cut_note(listing.num_regions, len(kept)), note, *closing(listing)])


def region_columns() -> list[Column]:
    """Columns of a region."""
    return [
        Column("cloud", "cloud"),
        Column("region", "region"),
        Column("country", "country"),
        Column("place", "place", priority=1),
        Column("num_types", "types", str, "right"),
        Column("on_demand", "on demand", str, "right"),
        Column("spot", "spot", str, "right"),
        Column("others", "other prices", str, "right", priority=2),
        Column("area_words", "areas", priority=3),
    ]


def region_cells(row: RegionRow) -> Row:
    """The cells of a region."""
    others = sum(count for kind, count in row.num_priced.items() if kind not in ("on_demand", "spot"))
    shown = {kind: row.num_priced.get(kind, 0) for kind in ("on_demand", "spot")}
    return {**row.model_dump(), **shown, "others": others, "area_words": " ".join(row.areas) or UNKNOWN}


def place_columns() -> list[Column]:
    """Columns of a place."""
    return [
        Column("cloud", "cloud"),
        Column("region", "region"),
        Column("zones", "zones"),
        Column("instance", "instance", short_instance),
        Column("gpu", "GPU", priority=3),
        Column("gpu_count", "GPUs", lambda count: UNKNOWN if count is None else plain_count(count), "right", 2),
        Column("on_demand", "$/h", str, "right"),
        Column("spot", "spot", str, "right"),
        Column("others", "other ways", str, priority=1),
    ]


def place_cells(row: PlaceRow) -> Row:
    """The cells of a place."""
    by_name = {kind: usd(price) for kind, price in row.usd_per_hour.items()}
    by_name |= dict.fromkeys(row.sold_unpriced, UNKNOWN)
    on_demand = row.foreign_price or by_name.pop("on_demand", "-")
    spot = by_name.pop("spot", "-")
    others = ", ".join(f"{kind} {price}" for kind, price in sorted(by_name.items()) if kind != "on_demand")
    zones = " ".join(row.zones) or (UNKNOWN if row.num_zones is None else str(row.num_zones))
    return {**row.model_dump(), "zones": zones, "on_demand": on_demand, "spot": spot, "others": others or "-"}


def coverage_page(listing: CoverageListing) -> Page:
    """Which clouds and regions have prices at all."""
    columns = [
        Column("cloud", "cloud"),
        Column("price_kind", "kind", qualifies=True),
        Column("regions_of", "regions", align="right", where="text"),
        Column("num_types", "types", str, "right"),
        Column("num_prices", "prices", str, "right"),
        Column("as_of", "as of", wraps=True),
        Column("where", "where", where="text", wraps=True),
        Column("num_regions_sold", "regions that sell GPUs", where="data"),
        Column("all_regions", "regions", where="data"),
    ]
    note = (
        "regions: those with a price, of those known to sell machines with GPUs. Everything else has no known price "
        "and is not planned: 'gpufleet catalog update' and your own tables add prices."
    )
    rows = [coverage_cells(row) for row in listing.rows]
    return Page("Where prices are known", [Table(columns, rows, empty="No prices.")], [note, *listing.notes])


def coverage_cells(row: CoverageRow) -> Row:
    """The cells of a cloud and price kind; many regions are counted only."""
    days = row.days if len(row.days) <= FEW else [row.days[0], "...", row.days[-1]]
    return {
        **row.model_dump(),
        "regions_of": f"{len(row.regions)} of {row.num_regions_sold}",
        "as_of": ", ".join(days),
        "where": ", ".join(row.regions) if len(row.regions) <= FEW else "-",
        "all_regions": " ".join(row.regions),
    }


def discount_page(listing: DiscountListing) -> Page:
    """Rules of thumb, and what the prices known here come to."""
    columns = [
        Column("cloud", "cloud"),
        Column("price_kind", "kind", qualifies=True),
        Column("rule", "rule of thumb", align="right"),
        Column("held", "known here: median (range)", align="right"),
        Column("num_held", "places", str, "right"),
        Column("grade", "grade", priority=1),
        Column("source", "source", where="data"),
        Column("evidence", "evidence", where="data"),
    ]
    note = (
        "A rule of thumb is not a price: no plan uses it. Put negotiated prices into contracts.csv or offers/ of your "
        "own tables (docs/prices.md)."
    )
    rows = [discount_cells(row) for row in listing.rows]
    return Page("Typical discounts against on-demand", [Table(columns, rows)], [note, *closing(listing)])


def discount_cells(row: DiscountRow) -> Row:
    """The cells of a rule."""
    held = "no price of this kind"
    if row.held_median_ratio is not None:
        held = f"{row.held_median_ratio:.0%} ({percents(row.held_low_ratio, row.held_high_ratio)})"
    return {**row.model_dump(), "rule": percents(row.saving_low_ratio, row.saving_high_ratio), "held": held}


def percents(low: float | None, high: float | None) -> str:
    """A range of shares.

    >>> percents(0.5, 0.9)
    '50-90%'
    """
    return f"{(low or 0) * units.PERCENT:.0f}-{(high or 0) * units.PERCENT:.0f}%"
