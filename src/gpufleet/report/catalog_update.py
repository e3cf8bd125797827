"""A refresh of prices as a page: what each feed brought, what moved most, what was not believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpufleet.report.numbers import count, plural, usd
from gpufleet.report.page import Column, Page, Row, Table, lines_table
from gpufleet.results.catalog_update import CatalogUpdate, ChangedPrice, DoubtedPrice, FeedUpdate

SHOWN_NAMES, SHOWN_ROWS, SHOWN_DOUBTED = 6, 5, 12


def update_page(update: CatalogUpdate) -> Page:
    """Feeds first, then what waits to be accepted, then the changes, then reasons."""
    brought = sum(feed.status == "updated" for feed in update.feeds)
    rows = [{**feed.model_dump(), "num_waiting": len(feed.waiting)} for feed in update.feeds]
    tables = [Table(feed_columns(), rows), *doubted_tables([f for f in update.feeds if f.status == "updated"])]
    changes = [row for feed in update.feeds for row in change_rows(feed)]
    if changes:
        tables.append(Table(change_columns(), changes, title="Largest changes"))
    notes = [note for feed in update.feeds for note in feed_notes(feed)]
    return Page(f"{brought} of {len(update.feeds)} feeds brought new prices", tables, [*notes, closing(update)])


def feed_columns() -> list[Column]:
    """Columns of a feed."""
    counts = ("num_prices", "prices"), ("num_dearer", "dearer"), ("num_cheaper", "cheaper")
    moved = ("num_new", "new"), ("num_vanished", "vanished"), ("num_waiting", "waiting")
    return [
        Column("feed", "feed"),
        Column("status", "status"),
        *(Column(key, header, count, "right") for key, header in (*counts, *moved)),
        Column("reason", "reason", where="data"),
        Column("snapshot", "snapshot", where="data"),
    ]


def doubted_tables(feeds: Sequence[FeedUpdate]) -> list[Table]:
    """Prices that wait to be accepted, and those that were: a line for each type, as one name accepts it."""
    waiting = by_type((feed.cloud, price) for feed in feeds for price in feed.waiting)
    accepted = by_type((feed.cloud, price) for feed in feeds for price in feed.accepted)
    tables = [lines_table("Not used until accepted", [*doubted_lines(waiting), *accept_lines(waiting)])]
    told = lines_table("Accepted; every plan that uses it says so", doubted_lines(accepted))
    return [*(tables if waiting else []), *([told] if accepted else [])]


def by_type(prices: Iterable[tuple[str, DoubtedPrice]]) -> list[tuple[str, list[DoubtedPrice]]]:
    """Prices of the regions of each machine type and price kind, under its name."""
    groups: dict[str, list[DoubtedPrice]] = {}
    for cloud, price in prices:
        groups.setdefault(f"{cloud} {price.instance} {price.price_kind.replace('_', ' ')}", []).append(price)
    return list(groups.items())


def doubted_lines(groups: Sequence[tuple[str, list[DoubtedPrice]]]) -> list[str]:
    """Of each type its first region, how many more there are, and why it is doubted."""
    lines = []
    for name, (first, *others) in groups[:SHOWN_DOUBTED]:
        more = f" and {plural(len(others), 'more region')}" if others else ""
        lines.append(f"{name}, {first.region}{more}: {first.reason}")
    hidden = len(groups) - SHOWN_DOUBTED
    return [*lines, *([f"And {plural(hidden, 'more type')}: -o json names all."] if hidden > 0 else [])]


def accept_lines(groups: Sequence[tuple[str, list[DoubtedPrice]]]) -> list[str]:
    """What is in force meanwhile, and how to accept."""
    names = dict.fromkeys(first.name for _, (first, *_) in groups[:SHOWN_DOUBTED])
    return [
        "Until then the previous price stays in force, with its date; without one, the price stays unknown.",
        f"If the price is right: gpufleet catalog update --accept {','.join(names)}",
    ]


def change_columns() -> list[Column]:
    """Columns of a change."""
    return [
        Column("cloud", "cloud"),
        Column("region", "region"),
        Column("instance", "instance"),
        Column("price_kind", "kind", qualifies=True),
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
    if feed.caution and feed.status != "skipped":
        yield f"{feed.feed}: {feed.caution}."
    for row in feed.refused_rows[:SHOWN_ROWS]:
        yield f"Refused: {row}."
    if len(feed.refused_rows) > SHOWN_ROWS:
        yield f"Refused: {len(feed.refused_rows) - SHOWN_ROWS} more of {feed.feed}."
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
    return f"Snapshots are in {update.root}; older ones are kept. Failed feeds changed nothing."
