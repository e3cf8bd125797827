"""A refresh of prices as a page: what each feed brought, what moved most, what was not believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpufleet.report.numbers import count, or_dash, plural, usd
from gpufleet.report.page import Columns, Page, Table, column, data, lines_table, number
from gpufleet.results.catalog_update import CatalogUpdate, ChangedPrice, DoubtedPrice, FeedUpdate

SHOWN_NAMES, SHOWN_ROWS, SHOWN_DOUBTED = 6, 5, 12


def update_page(update: CatalogUpdate) -> Page:
    """Feeds first, then what waits to be accepted, then the changes, then reasons."""
    brought = [feed for feed in update.feeds if feed.status == "updated"]
    columns: Columns[FeedUpdate] = [
        column("feed", lambda feed: feed.feed),
        column("status", lambda feed: feed.status),
        number("prices", lambda feed: feed.num_prices, key="num_prices", show=count),
        number("dearer", lambda feed: feed.num_dearer, key="num_dearer", show=count),
        number("cheaper", lambda feed: feed.num_cheaper, key="num_cheaper", show=count),
        number("new", lambda feed: feed.num_new, key="num_new", show=count),
        number("vanished", lambda feed: feed.num_vanished, key="num_vanished", show=count),
        number("waiting", lambda feed: len(feed.waiting), key="num_waiting", show=count),
        *data("reason", "snapshot"),
    ]
    changes = changes_table(update.feeds)
    tables = [Table.of(update.feeds, columns), *doubted_tables(brought), *([changes] if changes.rows else [])]
    notes = [*(note for feed in update.feeds for note in feed_notes(feed)), closing(update)]
    return Page(f"{len(brought)} of {len(update.feeds)} feeds brought new prices", tables, notes)


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


def changes_table(feeds: Sequence[FeedUpdate]) -> Table:
    """The largest changes of each feed, and what vanished."""
    columns: Columns[tuple[FeedUpdate, ChangedPrice]] = [
        column("cloud", lambda of: of[0].cloud),
        column("region", lambda of: of[1].region),
        column("instance", lambda of: of[1].instance),
        column("kind", lambda of: of[1].price_kind, qualifies=True),
        number("$/h before", lambda of: of[1].before_usd_per_hour, show=or_dash(usd)),
        number("now", lambda of: of[1].after_usd_per_hour, show=or_dash(usd)),
        number("change", lambda of: in_words(of[1])),
    ]
    changes = [(feed, change) for feed in feeds for change in (*feed.largest_changes, *feed.vanished)]
    return Table.of(changes, columns, "Largest changes")


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
