"""Snapshots of price feeds: each a folder that is there whole or not at all; older ones stay, so that a plan of last
month can be priced as of its day.

    <root>/<feed>/20261121T170000Z/offers.csv    prices in the columns of the shipped tables
    <root>/<feed>/20261121T170000Z/snapshot.json what they cover, their source, and a checksum
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.transport import write_whole
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing
from gpufleet.provenance import Source

ROOT_VARIABLE = "GPUFLEET_PRICES"
STAMP = "%Y%m%dT%H%M%SZ"
STAMPED = re.compile(r"\d{8}T\d{6}Z")
OFFERS_FILE, MANIFEST_FILE, DOWNLOAD_FOLDER = "offers.csv", "snapshot.json", ".download"
FORM = 1


class Coverage(NamedTuple):
    """Which prices a snapshot holds, and where they come from."""

    feed: str
    cloud: str
    price_kinds: frozenset[PriceKind]
    source: Source


@dataclass(frozen=True)
class Snapshot:
    """Prices of one feed at one moment."""

    folder: Path
    of: Coverage
    checksum: str

    def covers(self, offer: Offer) -> bool:
        """Whether an older price of this kind gives way to the snapshot, also where it no longer holds one."""
        return offer.cloud == self.of.cloud and offer.price_kind in self.of.price_kinds


def snapshot_root() -> Path:
    """Where snapshots lie: GPUFLEET_PRICES, or gpufleet/prices in the user's data folder."""
    return _root(os.environ.get(ROOT_VARIABLE), os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=4)
def _root(named: str | None, data: str | None, home: str | None) -> Path:
    """The same by the variables that decide it; `home` stands for ~."""
    return Path(os.path.expanduser(named or os.path.join(data or "~/.local/share", "gpufleet", "prices")))


def snapshot_folders(root: Path, as_of: date | None = None) -> tuple[Path, ...]:
    """The newest whole snapshot of every feed, up to a day; what was not finished has another name."""
    if not os.path.isdir(root):
        return ()
    feeds = sorted(entry for entry in root.iterdir() if entry.is_dir())
    newest = (max(folders_of(feed, as_of), default=None) for feed in feeds)
    return tuple(folder for folder in newest if folder is not None)


def folders_of(feed: Path, as_of: date | None = None) -> list[Path]:
    """Whole snapshots of a feed, oldest first."""
    latest = "9" if as_of is None else as_of.strftime("%Y%m%d") + "U"
    names = sorted(entry.name for entry in feed.iterdir() if STAMPED.fullmatch(entry.name))
    return [feed / name for name in names if name < latest]


def read_snapshot(folder: Path) -> Snapshot:
    """What a snapshot says about itself; one that was changed by hand is refused."""
    try:
        manifest = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
        found = checksum_of((folder / OFFERS_FILE).read_bytes())
        snapshot = snapshot_from(folder, manifest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, f"{type(error).__name__}: {error}") from None
    if found != snapshot.checksum:
        raise damaged(folder, "its prices are not those that were written")
    return snapshot


def snapshot_from(folder: Path, manifest: dict[str, Any]) -> Snapshot:
    """A snapshot from its manifest."""
    if manifest["form"] != FORM:
        raise ValueError(f"form {manifest['form']!r} is not known")
    about = manifest["source"]
    source = Source(about["id"], about["title"], date.fromisoformat(about["as_of"]), about["url"])
    kinds = frozenset(PriceKind(kind) for kind in manifest["price_kinds"])
    return Snapshot(folder, Coverage(manifest["feed"], manifest["cloud"], kinds, source), manifest["checksum"])


def damaged(folder: Path, why: str) -> DataMissing:
    """The error of a snapshot that cannot be trusted."""
    return DataMissing(f"the price snapshot {folder} is damaged: {why}", hint="Remove that folder; older ones count.")


def write_snapshot(root: Path, of: Coverage, offers: Sequence[Offer], now: datetime) -> Path:
    """Write a snapshot beside its place, to the disk, and rename it: at no moment is half of it there."""
    folder = free_folder(root / of.feed, now)
    partial = root / of.feed / f".writing-{os.getpid()}-{now.strftime(STAMP)}"
    table = offers_as_csv(offers)
    manifest = {
        "form": FORM,
        "feed": of.feed,
        "cloud": of.cloud,
        "price_kinds": sorted(kind.value for kind in of.price_kinds),
        "source": {**asdict(of.source), "as_of": str(of.source.as_of)},
        "checksum": checksum_of(table.encode()),
    }
    write_whole(partial / OFFERS_FILE, table)
    write_whole(partial / MANIFEST_FILE, json.dumps(manifest, indent=1))
    os.rename(partial, folder)
    settle(folder.parent)
    return folder


def free_folder(feed: Path, now: datetime) -> Path:
    """A folder of this second, or of the first later one that is free."""
    folder = feed / now.strftime(STAMP)
    return free_folder(feed, now + timedelta(seconds=1)) if folder.exists() else folder


def settle(folder: Path) -> None:
    """Ask the disk to keep the names in a folder, where the system lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def clear_unfinished(root: Path, feed: str) -> None:
    """Remove what an interrupted writer left; downloads stay, they are resumed."""
    for left in (root / feed).glob(".writing-*"):
        shutil.rmtree(left, ignore_errors=True)


def checksum_of(content: bytes) -> str:
    """A checksum of a table."""
    return hashlib.sha256(content).hexdigest()


def offers_as_csv(offers: Iterable[Offer]) -> str:
    """Offers in the columns of the shipped tables."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(OFFER_COLUMNS)
    rows.writerows(offer_cells(offer) for offer in offers)
    return file.getvalue()


def offer_cells(o: Offer) -> tuple[object, ...]:
    """The cells of an offer, in the order of the columns."""
    price = f"{o.price_per_instance_usd_per_hour:.10g}"
    about = (o.cloud, o.region, o.instance, o.price_kind.value)
    return (*about, f"{o.upfront_usd:.10g}", price, o.basis.value, o.source, o.as_of.isoformat(), o.interruption or "")
