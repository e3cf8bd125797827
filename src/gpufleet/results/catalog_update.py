"""What `gpufleet catalog update` did: per feed the snapshot that was written or why not, and how prices moved."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import SCHEMA_VERSION, Result


class ChangedPrice(Result):
    """One place whose price moved; None where there was no price before, or is none now."""

    region: str
    instance: str
    price_kind: str
    before_usd_per_hour: float | None
    after_usd_per_hour: float | None


class DoubtedPrice(ChangedPrice):
    """A price that came and is far from what was known, and why; `name` is what `--accept` takes.

    Until it is accepted the price of before stays in force, of its day `before_as_of`.
    """

    before_as_of: date | None
    reason: str
    name: str


class FeedUpdate(Result):
    """One feed: `updated`, `refused` (it arrived and was not believed), `failed`, or `skipped` (no key).

    `caution` is what one should know of the feed, whatever it brought. Of what it brought, prices that are `waiting`
    were not taken, those that were `accepted` were, doubted as they are.
    """

    feed: str
    cloud: str
    status: str
    reason: str = ""
    snapshot: str | None = None
    num_prices: int = 0
    num_dearer: int = 0
    num_cheaper: int = 0
    num_vanished: int = 0
    num_new: int = 0
    largest_changes: list[ChangedPrice] = []
    vanished: list[ChangedPrice] = []
    refused_rows: list[str] = []
    num_without_price: int = 0
    undescribed_types: list[str] = []
    caution: str = ""
    waiting: list[DoubtedPrice] = []
    accepted: list[DoubtedPrice] = []


class CatalogUpdate(Result):
    """All feeds that were asked."""

    schema_version: str = SCHEMA_VERSION
    feeds: list[FeedUpdate]
    root: str

    @property
    def is_complete(self) -> bool:
        """Whether every feed that was asked brought a snapshot, or was skipped for want of a key."""
        return all(feed.status in ("updated", "skipped") for feed in self.feeds)
