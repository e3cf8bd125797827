"""A refresh of prices as a page: what each feed brought, what moved most, what was not believed."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.report.numbers import count, usd
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.results.catalog_update import CatalogUpdate, ChangedPrice, FeedUpdate

SHOWN_NAMES, SHOWN_ROWS = 6, 5


def update_page(update: CatalogUpdate) -> Page:
    """Feeds first, then the changes, then reasons."""
    brought = sum(feed.status == "updated" for feed in update.feeds)
    tables = [Table(feed_columns(), [feed.model_dump() for feed in update.feeds])]
    changes = [row for feed in update.feeds for row in change_rows(feed)]
    if changes:
        tables.append(Table(change_columns(), changes, title="What moved most"))
    notes = [note for feed in update.feeds for note in feed_notes(feed)]
    return Page(f"{brought} of {len(update.feeds)} feeds brought new prices", tables, [*notes, closing(update)])


def feed_columns() -> list[Column]:
    """Columns of a feed."""
    counts = ("num_prices", "prices"), ("num_dearer", "dearer"), ("num_cheaper", "cheaper")
    moved = ("num_new", "new"), ("num_vanished", "vanished")
    return [
        Column("feed", "feed"),
        Column("status", "status"),
        *(Column(key, header, count, "right") for key, header in (*counts, *moved)),
        Column("reason", "reason", where="data"),
        Column("snapshot", "snapshot", where="data"),
    ]


def change_columns() -> list[Column]:
    """Columns of a change."""
    return [
        Column("cloud", "cloud"),
        Column("region", "region"),
        Column("instance", "instance"),
        Column("price_kind", "kind", priority=1),
        Column("before", "$/h before", align="right"),
        Column("after", "now", align="right"),
        Column("change", "change", align="right"),
    ]


def change_rows(feed: FeedUpdate) -> Iterator[Row]:
    """The largest changes of a feed, and what vanished."""
    for change in (*feed.largest_changes, *feed.vanished):
        before, after = change.before_usd_per_hour, change.after_usd_per_hour
        cells = {"before": "-" if before is None else usd(before), "after": "-" if after is None else usd(after)}
        yield {**change.model_dump(), "cloud": feed.cloud, **cells, "change": in_words(change)}


def in_words(change: ChangedPrice) -> str:
    """A change in per cent, or that the price is gone.

    >>> in_words(ChangedPrice(region="r", instance="i", price_kind="spot", before_usd_per_hour=4, after_usd_per_hour=5))
    '+25%'
    """
    if change.before_usd_per_hour is None or change.after_usd_per_hour is None:
        return "vanished"
    return f"{change.after_usd_per_hour / change.before_usd_per_hour - 1:+.0%}"


def feed_notes(feed: FeedUpdate) -> Iterator[str]:
    """Why a feed brought nothing, and what of it was left out."""
    if feed.reason:
        yield f"{feed.feed} {feed.status}: {feed.reason}"
    for row in feed.refused_rows[:SHOWN_ROWS]:
        yield f"Not believed: {row}."
    if len(feed.refused_rows) > SHOWN_ROWS:
        yield f"Not believed: {len(feed.refused_rows) - SHOWN_ROWS} more of {feed.feed}."
    for warning in feed.unusual[:SHOWN_ROWS]:
        yield f"Unusual, and taken: {warning}."
    if feed.num_without_price:
        yield f"{feed.feed}: {feed.num_without_price} entries without a price (zero or 'N/A') were left out."
    if feed.undescribed_types:
        names = ", ".join(feed.undescribed_types[:SHOWN_NAMES])
        more = len(feed.undescribed_types) - SHOWN_NAMES
        yield f"{feed.feed}: types that no table here describes: {names}{f' and {more} more' if more > 0 else ''}."


def closing(update: CatalogUpdate) -> str:
    """Where snapshots lie, or that none was written."""
    if not any(feed.status == "updated" for feed in update.feeds):
        return f"Nothing was written to {update.root}: prices stay as they were."
    return f"Snapshots lie in {update.root}; older ones stay there. What failed left them as they were."
