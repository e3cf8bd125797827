"""Snapshots of price feeds: each a folder that is there whole or not at all; older ones stay, so that a plan of last
month can be priced as of its day.

    <root>/<feed>/20261121T170000Z/offers.csv    prices in the columns of the shipped tables
    <root>/<feed>/20261121T170000Z/snapshot.json what they cover, their source, and a checksum of both
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.transport import write_whole
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing, shorten
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.units import KIB, MIB

ROOT_VARIABLE = "GPUFLEET_PRICES"
STAMP = "%Y%m%dT%H%M%SZ"
STAMPED = re.compile(r"\d{8}T\d{6}Z")
OFFERS_FILE, MANIFEST_FILE, DOWNLOAD_FOLDER = "offers.csv", "snapshot.json", ".download"
TABLE_ALONE_FORM, FORM = 1, 2
SNAPSHOT_COLUMNS = (*OFFER_COLUMNS, "doubt")
MANIFEST_BYTES, TABLE_BYTES = 64 * KIB, 50 * MIB


class Coverage(NamedTuple):
    """Which prices a snapshot holds, and where they come from."""

    feed: str
    cloud: str
    price_kinds: frozenset[PriceKind]
    source: Source


@dataclass(frozen=True)
class Snapshot:
    """Prices of one feed at one moment, as the table that was written."""

    folder: Path
    of: Coverage
    checksum: str
    table: str

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
    feeds = [root / name for name in names_in(root) if os.path.isdir(root / name)]
    newest = (max(folders_of(feed, as_of), default=None) for feed in feeds)
    return tuple(folder for folder in newest if folder is not None)


def folders_of(feed: Path, as_of: date | None = None) -> list[Path]:
    """Whole snapshots of a feed, oldest first."""
    latest = "9" if as_of is None else as_of.strftime("%Y%m%d") + "U"
    return [feed / name for name in names_in(feed) if STAMPED.fullmatch(name) and name < latest]


def names_in(folder: Path) -> list[str]:
    """What stands in a folder, in order."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise unread(folder, f"cannot be read: {error.strerror}") from None


def read_snapshot(folder: Path) -> Snapshot:
    """What a snapshot says about itself, and its prices; one that is not as it was written is refused."""
    try:
        manifest = json.loads(content_of(folder, MANIFEST_FILE, MANIFEST_BYTES))
        refuse_other_form(folder, manifest["form"])
        table = content_of(folder, OFFERS_FILE, TABLE_BYTES)
        if manifest["checksum"] != checksum_of(manifest, table):
            raise ValueError("it is not as it was written")
        snapshot = Snapshot(folder, coverage_from(manifest), manifest["checksum"], table.decode())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unread(folder, f"is damaged: {in_words(error)}") from None
    refuse_foreign(snapshot)
    return snapshot


def content_of(folder: Path, name: str, limit_bytes: float) -> bytes:
    """A file of a snapshot: a file of sane size that lies where it seems to, below the folder of all snapshots."""
    path, root = folder / name, folder.parent.parent
    if os.path.realpath(path) != os.path.join(os.path.realpath(root), folder.parent.name, folder.name, name):
        raise ValueError(f"{name} is reached by a link")
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError(f"{name} is not a file")
    with path.open("rb") as file:
        content = file.read(int(limit_bytes) + 1)
    if len(content) > limit_bytes:
        raise ValueError(f"{name} has more than {limit_bytes:,.0f} bytes")
    return content


def coverage_from(manifest: Mapping[str, Any]) -> Coverage:
    """What a manifest says that its snapshot covers."""
    about = manifest["source"]
    words = {name: about[name] for name in ("id", "title", "url")}
    words |= {name: manifest[name] for name in ("feed", "cloud")}
    for name, word in words.items():
        if not isinstance(word, str):
            raise ValueError(f"{name} is no text")
    source = Source(about["id"], about["title"], date.fromisoformat(about["as_of"]), about["url"])
    kinds = frozenset(PriceKind(kind) for kind in manifest["price_kinds"])
    return Coverage(manifest["feed"], manifest["cloud"], kinds, source)


def in_words(error: Exception) -> str:
    """Why a snapshot could not be read.

    >>> in_words(KeyError("cloud")), in_words(RecursionError())
    ('cloud is missing', 'it is nested too deeply')
    """
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def refuse_other_form(folder: Path, form: object) -> None:
    """A snapshot of a later version is not guessed at."""
    if form not in (TABLE_ALONE_FORM, FORM):
        raise DataMissing(
            f"the price snapshot {folder} was written by another version of gpufleet",
            found=f"form {shorten(form)}" if isinstance(form, int) else "no form",
            expected=f"form {FORM} or earlier",
            hint="Update gpufleet, or remove that folder: older ones count then.",
        )


def refuse_foreign(snapshot: Snapshot) -> None:
    """A snapshot lies in the folder of its feed, and that feed is of its cloud."""
    from gpufleet.catalog.providers.every import FEEDS

    feed = snapshot.folder.parent.name
    clouds = {known.name: known.cloud for known in FEEDS}
    of = snapshot.of
    if of.feed != feed or of.source.id != feed:
        raise unread(snapshot.folder, f"is foreign: it is of {of.feed}, not of {feed}")
    if clouds.get(feed) != of.cloud:
        raise unread(snapshot.folder, f"is foreign: {feed} is no feed of {of.cloud}")


def refuse_foreign_offer(snapshot: Snapshot, offer: Offer) -> None:
    """Every price of a snapshot is one that it says it covers, of its day or, where a newer one waits, of before."""
    source = snapshot.of.source
    is_of_its_day = (offer.source, offer.as_of) == (source.id, source.as_of)
    is_of_before = source.as_of is not None and offer.as_of < source.as_of
    if not snapshot.covers(offer) or not (is_of_its_day or is_of_before):
        row = f"{offer.cloud} {offer.region} {offer.instance} {offer.price_kind.value}"
        raise unread(snapshot.folder, f"is foreign: it says nothing of {row}, and holds it")


def unread(folder: Path, why: str) -> DataMissing:
    """The error of a snapshot that cannot be trusted."""
    hint = "Remove that folder: older ones count then, and 'gpufleet catalog update' fetches a new one."
    return DataMissing(f"the price snapshot {folder} {why}", hint=hint)


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
    }
    manifest["checksum"] = checksum_of(manifest, table.encode())
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


def checksum_of(manifest: Mapping[str, Any], table: bytes) -> str:
    """A checksum of a table and of what its manifest says; the first form had one of the table alone."""
    if manifest["form"] == TABLE_ALONE_FORM:
        return hashlib.sha256(table).hexdigest()
    said = {name: value for name, value in manifest.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode() + table).hexdigest()


def offers_as_csv(offers: Iterable[Offer]) -> str:
    """Offers in the columns of the shipped tables, and why an accepted price is doubted."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(SNAPSHOT_COLUMNS)
    rows.writerows(offer_cells(offer) for offer in offers)
    return file.getvalue()


def offer_cells(o: Offer) -> tuple[object, ...]:
    """The cells of an offer, in the order of the columns."""
    price = f"{o.price_per_instance_usd_per_hour:.10g}"
    about = (o.cloud, o.region, o.instance, o.price_kind.value, f"{o.upfront_usd:.10g}", price, o.basis.value)
    return (*about, o.source, o.as_of.isoformat(), o.interruption or "", o.doubt)
