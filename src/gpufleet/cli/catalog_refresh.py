"""What `gpufleet catalog update` does: a connection, a progress bar on standard error, and the result as a page."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from threading import Lock
from typing import TYPE_CHECKING

from gpufleet.catalog.load import Catalog, load_shipped_and_refreshed
from gpufleet.catalog.price_doubts import Accepted
from gpufleet.catalog.providers.every import FEEDS, feeds_of
from gpufleet.catalog.providers.feed import Feed
from gpufleet.catalog.query import resolve_instance
from gpufleet.catalog.snapshots import snapshot_root
from gpufleet.catalog.transport import Say
from gpufleet.catalog.update import Refresh, update_catalog
from gpufleet.catalog.update_lock import only_update
from gpufleet.cli.interrupts import interrupts_raised
from gpufleet.errors import UnknownName, UsageError
from gpufleet.questions.catalog import UpdateRequest
from gpufleet.report.catalog_update import update_page
from gpufleet.report.output_stream import remark
from gpufleet.report.page import Page
from gpufleet.results.catalog_update import CatalogUpdate, FeedUpdate
from gpufleet.units import MINUTE

if TYPE_CHECKING:
    import httpx

CONNECT_S, READ_S = 20.0, MINUTE
EVERY_TYPE = "all"
SPEAKING = Lock()
Done = Callable[[FeedUpdate], None]


def update_answer(q: UpdateRequest) -> tuple[CatalogUpdate, Page]:
    """Every feed of the clouds, all at once."""
    feeds, root = feeds_of(clouds_with_feeds(q.cloud)), snapshot_root()
    accepted = accepted_types(q.accept or (), load_shipped_and_refreshed())
    with interrupts_raised(), connection() as client, only_update(root), progress(feeds) as (on_feed, on_done):
        refresh = Refresh(
            catalog=load_shipped_and_refreshed(),
            client=client,
            root=root,
            now=datetime.now(timezone.utc),
            on_feed=on_feed,
            on_done=on_done,
            accept_losses=q.accept_losses,
            accepted=accepted,
        )
        result = update_catalog(feeds, refresh)
    return result, update_page(result)


def clouds_with_feeds(names: Sequence[str] | None) -> set[str] | None:
    """Clouds by name; one that has no feed is said."""
    known = sorted({feed.cloud for feed in FEEDS})
    wanted = None if names is None else {name.casefold() for name in names}
    for name in sorted(wanted or ()):
        if name not in known:
            raise UnknownName("cloud with a price feed", name, known)
    return wanted


def accepted_types(names: Sequence[str], catalog: Catalog) -> Accepted:
    """Machine types by name, of which prices are believed as they come; 'all' stands for every type."""
    found = [resolve_instance(catalog, name) for name in names if name != EVERY_TYPE]
    return Accepted(frozenset((i.cloud, i.name) for i in found), is_all=EVERY_TYPE in names)


@contextmanager
def connection() -> Iterator[httpx.Client]:
    """An HTTP client; without the extra it is said how to get one."""
    try:
        import httpx
    except ImportError:
        raise UsageError(
            "refreshing prices needs httpx", hint="Install it: pip install 'gpu-fleet-optimizer[refresh]'."
        ) from None
    logging.getLogger("httpx").setLevel(logging.WARNING)  # below it whole addresses are logged, keys in a query too
    timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
    with httpx.Client(timeout=timeout, headers={"User-Agent": "gpufleet"}) as client:
        yield client


@contextmanager
def progress(feeds: list[Feed]) -> Iterator[tuple[Say, Done]]:
    """What to call when a feed begins and when it is done: a bar on a terminal, a line each elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield (lambda name: tell(f"{name}: asked")), (lambda update: tell(told(update)))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("feeds", total=len(feeds))
        yield (lambda name: None), (lambda update: bar.update(task, description=update.feed, advance=1))


def tell(line: str) -> None:
    """A line of the conversation, at once; of several feeds one speaks at a time."""
    with SPEAKING:
        remark(line)


def told(update: FeedUpdate) -> str:
    """How a feed went, on a line."""
    if update.reason:
        return f"{update.feed}: {update.status}, {update.reason}"
    waiting = f", {len(update.waiting)} wait for --accept" if update.waiting else ""
    return f"{update.feed}: {update.status}, {update.num_prices:,} prices{waiting}"
