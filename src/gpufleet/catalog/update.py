"""Refreshes prices from the public feeds: download, check, compare, and only then a new snapshot.

One feed that fails does not hold up the others, and never touches what was there.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.catalog import price_changes
from gpufleet.catalog.checks import spot_beside_on_demand
from gpufleet.catalog.exchange import BrokenFeed, Unreachable
from gpufleet.catalog.price_changes import PriceChange, PriceChanges
from gpufleet.catalog.price_doubts import Accepted, Doubted, off_regions, weighed
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit
from gpufleet.catalog.query import known_gpu
from gpufleet.catalog.references import label
from gpufleet.catalog.snapshots import DOWNLOAD_FOLDER, Coverage, clear_unfinished, write_snapshot
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.transport import RESUMES, Bounds, Download, Say
from gpufleet.catalog.usual_prices import OUTLIER_FACTOR
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import GpufleetError
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.provenance import Source
from gpufleet.results.catalog_update import CatalogUpdate, ChangedPrice, DoubtedPrice, FeedUpdate
from gpufleet.units import DAY, MINUTE

if TYPE_CHECKING:
    import httpx

RESUMED_FOR_S = DAY / 2
SETTLING_S = MINUTE
MOST_PRICES = 100_000
NAME = re.compile(r"[A-Za-z0-9][ -~]{0,79}")
MOST_LOST_RATIO, MOST_REFUSED_RATIO, SHOWN_CHANGES = 0.5, 0.1, 5


@dataclass
class Refresh:
    """How prices are refreshed: over which connection, into which folder, on which day, with which patience."""

    catalog: Catalog
    client: httpx.Client
    root: Path
    now: datetime
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    bounds: Bounds = field(default=Bounds())
    on_feed: Say = field(default=lambda name: None)
    on_page: Say = field(default=lambda url: None)
    on_done: Callable[[FeedUpdate], None] = field(default=lambda update: None)
    accept_losses: bool = False
    accepted: Accepted = field(default_factory=Accepted)

    def __post_init__(self) -> None:
        self.ends_at_s = self.clock() + self.bounds.seconds

    def is_late(self) -> bool:
        """Whether the time of every feed is over."""
        return self.clock() > self.ends_at_s


@dataclass
class Reading:
    """What a feed held: offers of machines that we describe, and what was left out."""

    offers: dict[price_changes.OfferKey, Offer] = field(default_factory=dict)
    num_without_price: int = 0
    undescribed: set[str] = field(default_factory=set)


def update_catalog(feeds: Iterable[Feed], refresh: Refresh) -> CatalogUpdate:
    """Every feed at once, in their order; none waits for another. Nobody else may write to `refresh.root` meanwhile."""
    asked = [FeedThread(feed, refresh) for feed in feeds]
    for thread in asked:
        thread.start()
    return CatalogUpdate(feeds=[thread.result() for thread in asked], root=str(refresh.root))


class FeedThread(threading.Thread):
    """One feed on a thread of its own, which an interrupted program does not wait for: snapshots are written whole."""

    def __init__(self, feed: Feed, refresh: Refresh) -> None:
        super().__init__(name=feed.name, daemon=True)
        self.feed, self.refresh = feed, refresh
        self.outcome: FeedUpdate | BaseException | None = None

    def run(self) -> None:
        """Bring the feed; what goes wrong is raised by `result`."""
        try:
            self.outcome = update_feed(self.feed, self.refresh)
            self.refresh.on_done(self.outcome)
        except BaseException as error:
            self.outcome = error

    def result(self) -> FeedUpdate:
        """What came of it once it is done; one that takes longer than its time is left alone and writes nothing."""
        self.join(max(0.0, self.refresh.ends_at_s + SETTLING_S - self.refresh.clock()))
        if self.outcome is None:
            reason = f"it is not at its end after {self.refresh.bounds.seconds:,.0f} s. {RESUMES}"
            return unsuccessful(self.feed, "failed", reason)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def update_feed(feed: Feed, refresh: Refresh) -> FeedUpdate:
    """One feed: its snapshot, or why there is none."""
    refresh.on_feed(feed.name)
    missing = [name for name in feed.key_variables if not refresh.environment.get(name)]
    if missing:
        return unsuccessful(feed, "skipped", f"{missing[0]} is not set")
    folder = refresh.root / feed.name / DOWNLOAD_FOLDER
    try:
        update = settled(feed, refresh, read_feed(feed, refresh, folder))
    except Exception as error:
        if refresh.environment.get("GPUFLEET_DEBUG") == "1" and not isinstance(error, (GpufleetError, OSError)):
            raise
        if not isinstance(error, (Unreachable, OSError)):
            shutil.rmtree(folder, ignore_errors=True)
        keys = [refresh.environment[name] for name in feed.key_variables]
        return unsuccessful(feed, "failed", without_keys(failure(error, refresh.root), keys))
    shutil.rmtree(folder, ignore_errors=True)
    return update


def unsuccessful(feed: Feed, status: str, reason: str) -> FeedUpdate:
    """A feed that brought nothing."""
    return FeedUpdate(feed=feed.name, cloud=feed.cloud, status=status, reason=reason, caution=feed.caution)


def failure(error: Exception, root: Path) -> str:
    """Why a feed failed, in words; what was not foreseen is ours and costs this feed alone."""
    if isinstance(error, GpufleetError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot write to {root}: {error.strerror or error}"
    return f"this is our bug: {type(error).__name__}: {error}. GPUFLEET_DEBUG=1 shows where; please report it."


def without_keys(text: str, keys: Iterable[str]) -> str:
    """A text without the keys that a server may have repeated.

    >>> without_keys("found 'no such key: s3cret'", ["s3cret"])
    "found 'no such key: ***'"
    """
    for key in keys:
        text = text.replace(key, "***")
    return text


def read_feed(feed: Feed, refresh: Refresh, folder: Path) -> Reading:
    """All prices of a feed; pages of an earlier, interrupted run are not asked for again."""
    clear_unfinished(refresh.root, feed.name)
    forget_old_pages(folder, refresh.now.timestamp())
    mirror = refresh.environment.get(feed.endpoint_variable)
    visit = Visit(
        download=Download(folder, refresh.client, refresh.sleep, refresh.on_page, refresh.bounds, refresh.is_late),
        endpoint=(mirror or feed.endpoint).rstrip("/"),
        keys={name: refresh.environment[name] for name in feed.key_variables},
        instances={
            name: instance
            for (cloud, name), instance in refresh.catalog.instances.items()
            if cloud == feed.cloud and not instance.retired
        },
        gpu_named=lambda name: gpu_id(refresh.catalog, name),
    )
    reading = Reading()
    for price in feed.read(visit):
        take(price, feed, visit, refresh.now, reading)
    visit.download.refuse_late(visit.endpoint)
    return reading


def gpu_id(catalog: Catalog, name: str) -> str | None:
    """The id of the accelerator that a feed calls by this name."""
    found = known_gpu(catalog, name)
    return None if found is None else found.accelerator.name


def forget_old_pages(folder: Path, now_s: float) -> None:
    """Pages of half a day ago are of another state of the feed."""
    for page in folder.glob("*") if folder.is_dir() else ():
        if now_s - page.stat().st_mtime > RESUMED_FOR_S or page.suffix == ".part":
            page.unlink(missing_ok=True)


def take(price: ListedPrice, feed: Feed, visit: Visit, now: datetime, reading: Reading) -> None:
    """One price more; zero, none and one without end are left out, of two prices of one place the dearer counts."""
    refuse_odd_names(price)
    if price.instance not in visit.instances:
        reading.undescribed.add(price.instance)
    elif not 0 < price.usd_per_hour < math.inf:
        reading.num_without_price += 1
    elif price.price_kind in feed.price_kinds:
        offer = offer_of(price, feed, now)
        key = (offer.cloud, offer.region, offer.instance, offer.price_kind.value)
        known = reading.offers.get(key)
        if known is None or known.price_per_instance_usd_per_hour < offer.price_per_instance_usd_per_hour:
            reading.offers[key] = offer
    if len(reading.offers) + len(reading.undescribed) > MOST_PRICES:
        raise BrokenFeed(f"more than {MOST_PRICES:,} prices and types", hint="The largest feed has a tenth of that.")


def refuse_odd_names(price: ListedPrice) -> None:
    """A region or a machine is called by a word that a table can hold."""
    for what, name in (("region", price.region), ("machine", price.instance)):
        if not NAME.fullmatch(name):
            raise BrokenFeed(f"a {what} has no name", found=name, expected="up to 80 plain characters")


def offer_of(price: ListedPrice, feed: Feed, now: datetime) -> Offer:
    """A listed price as an offer of today."""
    return Offer(
        cloud=feed.cloud,
        region=price.region,
        instance=price.instance,
        price_kind=price.price_kind,
        price_per_instance_usd_per_hour=price.usd_per_hour,
        basis=feed.basis,
        source=feed.name,
        as_of=now.date(),
        upfront_usd=price.upfront_usd,
    )


def settled(feed: Feed, refresh: Refresh, reading: Reading) -> FeedUpdate:
    """Check what arrived, compare it with what is known, and write it down if it is to be believed."""
    before = [o for o in refresh.catalog.offers if o.cloud == feed.cloud and o.price_kind in feed.price_kinds]
    arrived = list(reading.offers.values())
    found = weighed(refresh.catalog, before, arrived, refresh.accepted)
    sound, refused = believable(found.taken, refresh.catalog)
    doubt = doubt_about(before, arrived, sound, [*refused, *off_regions(arrived, refresh.accepted)])
    update = FeedUpdate(
        feed=feed.name,
        cloud=feed.cloud,
        status="updated",
        caution=feed.caution,
        num_prices=len(sound),
        refused_rows=refused,
        waiting=list(map(doubted_price, found.waiting)),
        accepted=list(map(doubted_price, found.accepted)),
        num_without_price=reading.num_without_price,
        undescribed_types=sorted(reading.undescribed),
    ).model_copy(update=moved(price_changes.price_changes(before, sound)))
    if doubt and not (refresh.accept_losses and sound):
        return update.model_copy(update={"status": "refused", "reason": doubt})
    source = Source(feed.name, feed.title, refresh.now.date(), feed.endpoint)
    covered = Coverage(feed.name, feed.cloud, feed.price_kinds, source)
    folder = write_snapshot(refresh.root, covered, sound, refresh.now)
    return update.model_copy(update={"snapshot": str(folder)})


def believable(offers: list[Offer], catalog: Catalog) -> tuple[list[Offer], list[str]]:
    """Offers that keep the rules, and in words spot prices above the on-demand price of the same place."""
    listed = [o for o in [*catalog.offers, *offers] if o.price_kind is PriceKind.ON_DEMAND]
    spot = [o for o in offers if o.price_kind is PriceKind.SPOT]
    broken = {
        id(offer): f"{label(offer)}: above on-demand, {on_demand:g}"
        for offer, on_demand in spot_beside_on_demand([*listed, *spot])
        if offer.price_per_instance_usd_per_hour > on_demand
    }
    return [offer for offer in offers if id(offer) not in broken], list(broken.values())


def doubt_about(
    before: Sequence[Offer], arrived: Sequence[Offer], after: Sequence[Offer], broken: Sequence[str]
) -> str:
    """Why a whole feed is not believed; empty where it is. `after`: what would be taken of what `arrived`."""
    if not after:
        return "no price of a machine that we describe is in it" if not arrived else "no price in it is believed"
    if len(broken) > MOST_REFUSED_RATIO * len(arrived):
        return f"{len(broken)} of {len(arrived)} prices break a rule"
    lost = price_changes.share_of_types_lost(before, after)
    if lost > MOST_LOST_RATIO:
        return f"{lost:.0%} of the machine types and price kinds that had a price have none in it (--accept-losses)"
    ratio = price_changes.typical_ratio(price_changes.by_place(before), price_changes.by_place(arrived))
    if not 1 / OUTLIER_FACTOR <= ratio <= OUTLIER_FACTOR:
        return f"prices are {ratio:.3g} times what they were: another currency or unit? (--accept-losses)"
    return ""


def doubted_price(found: Doubted) -> DoubtedPrice:
    """A price that waits, or was accepted, as users get it."""
    offer, before = found.offer, found.before
    return DoubtedPrice(
        region=offer.region,
        instance=offer.instance,
        price_kind=offer.price_kind.value,
        before_usd_per_hour=None if before is None else offer_usd_per_hour(before),
        after_usd_per_hour=offer_usd_per_hour(offer),
        before_as_of=None if before is None else before.as_of,
        reason=found.why,
        name=f"{offer.cloud}:{offer.instance}",
    )


def moved(changes: PriceChanges) -> dict[str, object]:
    """How prices moved, as fields of the result."""
    largest = sorted([*changes.dearer, *changes.cheaper], key=lambda change: -abs(change.change_ratio))
    return {
        "num_dearer": len(changes.dearer),
        "num_cheaper": len(changes.cheaper),
        "num_vanished": len(changes.vanished),
        "num_new": len(changes.new),
        "largest_changes": [changed_price(change) for change in largest[:SHOWN_CHANGES]],
        "vanished": [changed_price(change) for change in changes.vanished[:SHOWN_CHANGES]],
    }


def changed_price(change: PriceChange) -> ChangedPrice:
    """A change as users get it."""
    _, region, instance, kind = change.key
    return ChangedPrice(
        region=region,
        instance=instance,
        price_kind=kind,
        before_usd_per_hour=change.before_usd_per_hour,
        after_usd_per_hour=change.after_usd_per_hour,
    )
