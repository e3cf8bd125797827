"""Where things are sold, and typical discounts, as pages of 80 columns."""

from __future__ import annotations

from gpufleet import units
from gpufleet.report.catalog_pages import UNKNOWN, closing, cut_note, plain_count, short_instance
from gpufleet.report.numbers import several, usd
from gpufleet.report.page import Column, Columns, Page, Row, Table, column, data, number
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
    columns = [
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
    kept = [place_cells(row) for row in listing.rows[:limit]]
    note = "$/h is the whole instance. 'unknown': sold there at a price that is not known here; not ranked."
    places = several(listing.num_places, "place")
    headline = f"Sold in {places}, with a known price in {listing.num_priced}"
    notes = [*cut_note(listing.num_places, len(kept)), note, *closing(listing)]
    return Page(headline, [Table(columns, kept, empty="Not known to be sold anywhere.")], notes)


def place_cells(row: PlaceRow) -> Row:
    """The cells of a place."""
    by_name = {kind: usd(price) for kind, price in row.usd_per_hour.items()}
    by_name |= dict.fromkeys(row.sold_unpriced, UNKNOWN)
    on_demand = row.foreign_price or by_name.pop("on_demand", "-")
    spot = by_name.pop("spot", "-")
    others = ", ".join(f"{kind} {price}" for kind, price in sorted(by_name.items()) if kind != "on_demand")
    zones = " ".join(row.zones) or (UNKNOWN if row.num_zones is None else str(row.num_zones))
    return {**row.model_dump(), "zones": zones, "on_demand": on_demand, "spot": spot, "others": others or "-"}


def region_page(listing: RegionListing, limit: int | None) -> Page:
    """Regions with their countries, and how many machine types have a price there."""
    columns: Columns[RegionRow] = [
        column("cloud", lambda row: row.cloud),
        column("region", lambda row: row.region),
        column("country", lambda row: row.country),
        column("place", lambda row: row.place, priority=1),
        number("types", lambda row: row.num_types, key="num_types"),
        number("on demand", lambda row: row.num_priced.get("on_demand", 0), key="on_demand"),
        number("spot", lambda row: row.num_priced.get("spot", 0)),
        number(
            "other prices",
            lambda row: sum(n for kind, n in row.num_priced.items() if kind not in ("on_demand", "spot")),
            key="others",
            priority=2,
        ),
        column("areas", lambda row: " ".join(row.areas) or UNKNOWN, key="area_words", priority=3),
    ]
    kept = listing.rows[:limit]
    note = (
        "Areas and countries may be named wherever regions are: --regions eu, --regions germany. Counts are machine "
        "types with GPUs; --gpu and --instance list them by region."
    )
    table = Table.of(kept, columns, empty="No such region is known here.")
    notes = [*cut_note(listing.num_regions, len(kept)), note, *closing(listing)]
    return Page(several(listing.num_regions, "region"), [table], notes)


def coverage_page(listing: CoverageListing) -> Page:
    """Which clouds and regions have prices at all; many regions are counted only."""
    columns: Columns[CoverageRow] = [
        column("cloud", lambda row: row.cloud),
        column("kind", lambda row: row.price_kind, key="price_kind", qualifies=True),
        number("regions", lambda row: f"{len(row.regions)} of {row.num_regions_sold}", key="regions_of", where="text"),
        number("types", lambda row: row.num_types, key="num_types"),
        number("prices", lambda row: row.num_prices, key="num_prices"),
        column("as of", days_words, key="as_of", wraps=True),
        column(
            "where", lambda row: ", ".join(row.regions) if len(row.regions) <= FEW else "-", where="text", wraps=True
        ),
        *data("num_regions_sold"),
        column("all_regions", lambda row: " ".join(row.regions), where="data"),
    ]
    note = (
        "regions: those with a price, of those known to sell machines with GPUs. Everything else has no known price "
        "and is not planned: 'gpufleet catalog update' and your own tables add prices."
    )
    table = Table.of(listing.rows, columns, empty="No prices.")
    return Page("Where prices are known", [table], [note, *listing.notes])


def days_words(row: CoverageRow) -> str:
    """The days of prices; of many the first and the last."""
    return ", ".join(row.days if len(row.days) <= FEW else [row.days[0], "...", row.days[-1]])


def discount_page(listing: DiscountListing) -> Page:
    """Rules of thumb, and what the prices known here come to."""
    columns: Columns[DiscountRow] = [
        column("cloud", lambda row: row.cloud),
        column("kind", lambda row: row.price_kind, key="price_kind", qualifies=True),
        number("rule of thumb", lambda row: percents(row.saving_low_ratio, row.saving_high_ratio), key="rule"),
        number("known here: median (range)", held_words, key="held"),
        number("places", lambda row: row.num_held, key="num_held"),
        column("grade", lambda row: row.grade, priority=1),
        *data("source", "evidence"),
    ]
    note = (
        "A rule of thumb is not a price: no plan uses it. Put negotiated prices into contracts.csv or offers/ of your "
        "own tables (docs/prices.md)."
    )
    return Page("Typical discounts against on-demand", [Table.of(listing.rows, columns)], [note, *closing(listing)])


def held_words(row: DiscountRow) -> str:
    """What the prices known here come to."""
    if row.held_median_ratio is None:
        return "no price of this kind"
    return f"{row.held_median_ratio:.0%} ({percents(row.held_low_ratio, row.held_high_ratio)})"


def percents(low: float | None, high: float | None) -> str:
    """A range of shares.

    >>> percents(0.5, 0.9)
    '50-90%'
    """
    return f"{(low or 0) * units.PERCENT:.0f}-{(high or 0) * units.PERCENT:.0f}%"
