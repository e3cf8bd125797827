"""A snapshot that is not as it was written is refused in a sentence, whatever it is now, and never waited for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import snapshots
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.snapshots import Coverage, offers_as_csv, read_snapshot, write_snapshot
from gpufleet.cli import main
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.errors import DataMissing
from gpufleet.provenance import Source

FEED, NOW = "azure-retail-prices", datetime(2026, 11, 21, 17, tzinfo=timezone.utc)
SOURCE = Source(FEED, "Azure Retail Prices API", NOW.date(), "https://prices.azure.com")
COVERED = Coverage(FEED, "azure", frozenset({PriceKind.ON_DEMAND}), SOURCE)
Change = Callable[[Path], object]


def offer(**changes: Any) -> Offer:
    about = {
        "cloud": "azure",
        "region": "eastus",
        "instance": "Standard_ND96isr_H100_v5",
        "price_kind": PriceKind.ON_DEMAND,
        "price_per_instance_usd_per_hour": 97.0,
        "basis": PriceBasis.LIST,
        "source": FEED,
        "as_of": NOW.date(),
    }
    return Offer(**{**about, **changes})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A snapshot with one price."""
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path / "prices"))
    return write_snapshot(tmp_path / "prices", COVERED, [offer()], NOW)


def prices() -> set[float]:
    """What a machine costs, as every verb reads it; a reader that waits has failed."""
    found: list[set[float] | BaseException] = []

    def read() -> None:
        try:
            offers = load_catalog(today=date(2026, 11, 22)).offers
            found.append({o.price_per_instance_usd_per_hour for o in offers if o.source == FEED})
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "the reader waits"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def test_a_snapshot_is_read_as_it_was_written(folder: Path) -> None:
    assert prices() == {97.0}
    assert read_snapshot(folder).of == COVERED


def manifest(**changes: Any) -> Change:
    """The manifest says something else; its checksum stays."""

    def change(folder: Path) -> None:
        path = folder / "snapshot.json"
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")

    return change


def made_elsewhere(of: Coverage = COVERED, **changes: Any) -> Change:
    """A snapshot with a checksum that is right, of another content."""

    def change(folder: Path) -> None:
        root = folder.parents[2] / "elsewhere"
        shutil.rmtree(folder)
        shutil.move(write_snapshot(root, of, [offer(**changes)], NOW), folder)

    return change


def instead_of(name: str, make: Callable[[Path], object]) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def moved_and_linked(folder: Path) -> None:
    there = folder.parents[2] / "there"
    shutil.move(folder, there)
    folder.symlink_to(there)


def feed_moved_and_linked(folder: Path) -> None:
    there = folder.parents[2] / "there"
    shutil.move(folder.parent, there)
    folder.parent.symlink_to(there)


def as_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("offers", encoding="utf-8")


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content, encoding="utf-8")


LATER = {**SOURCE.__dict__, "as_of": "2031-01-01"}
SPOT = COVERED._replace(feed="aws-ec2-spot", source=Source("aws-ec2-spot", "spot", NOW.date(), "https://a.example"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (manifest(source=LATER), "is damaged: it is not as it was written"),
        (manifest(price_kinds=["on_demand", "spot"]), "is damaged: it is not as it was written"),
        (manifest(cloud="aws"), "is damaged: it is not as it was written"),
        (manifest(note="mine"), "is damaged: it is not as it was written"),
        (manifest(form=1), "is damaged: it is not as it was written"),
        (manifest(form=3), "written by another version of gpufleet; found 'form 3'; expected form 2 or earlier"),
        (manifest(form=[]), "written by another version of gpufleet"),
        (instead_of("snapshot.json", text("[" * 60_000)), "is damaged: it is nested too deeply"),
        (instead_of("snapshot.json", text("[" * 200_000)), "is damaged: snapshot.json has more than 65,536 bytes"),
        (instead_of("snapshot.json", text("[]")), "is damaged"),
        (instead_of("snapshot.json", text("{}")), "is damaged: form is missing"),
        (instead_of("snapshot.json", lambda path: None), "is damaged: No such file or directory"),
        (instead_of("offers.csv", lambda path: path.write_bytes(b"\xff")), "is damaged"),
        (instead_of("snapshot.json", os.mkfifo), "is damaged: snapshot.json is not a file"),
        (instead_of("offers.csv", os.mkfifo), "is damaged: offers.csv is not a file"),
        (instead_of("offers.csv", os.mkdir), "is damaged: offers.csv is not a file"),
        (instead_of("offers.csv", lambda path: path.symlink_to("/dev/zero")), "offers.csv is reached by a link"),
        (moved_and_linked, "is reached by a link"),
        (feed_moved_and_linked, "is reached by a link"),
        (as_a_file, "is damaged: Not a directory"),
        (made_elsewhere(SPOT), "is foreign: it is of aws-ec2-spot, not of azure-retail-prices"),
        (made_elsewhere(COVERED._replace(cloud="aws"), cloud="aws"), "azure-retail-prices is no feed of aws"),
        (made_elsewhere(cloud="aws"), "is foreign: it says nothing of aws eastus"),
        (made_elsewhere(price_kind=PriceKind.SPOT), "is foreign: it says nothing of azure eastus"),
        (made_elsewhere(source="verda-api"), "is foreign: it says nothing of azure eastus"),
        (made_elsewhere(as_of=date(2031, 1, 1)), "is foreign: it says nothing of azure eastus"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused(folder: Path, change: Change, said: str) -> None:
    change(folder)
    with pytest.raises(DataMissing) as refused:
        prices()
    assert said in str(refused.value)
    assert str(folder) in str(refused.value)
    assert "emove that folder: older ones count then" in str(refused.value)


def test_a_table_that_nobody_wrote_is_not_read(folder: Path) -> None:
    (folder / "zzz.csv").write_text(offers_as_csv([offer(price_per_instance_usd_per_hour=0.01)]), encoding="utf-8")
    assert prices() == {97.0}


def test_a_table_without_end_is_not_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "TABLE_BYTES", 100)
    with pytest.raises(DataMissing, match=r"offers\.csv has more than 100 bytes"):
        read_snapshot(folder)


def test_snapshots_of_the_former_form_are_read(folder: Path) -> None:
    """Its checksum was of the table alone."""
    table = (folder / "offers.csv").read_bytes()
    manifest(form=1, checksum=hashlib.sha256(table).hexdigest())(folder)
    assert prices() == {97.0}
    (folder / "offers.csv").write_bytes(table.replace(b"97", b"9"))
    load_catalog.__globals__["_load_tables"].cache_clear()
    with pytest.raises(DataMissing, match="is damaged"):
        prices()


def test_a_refused_snapshot_is_one_sentence_and_exit_code_5(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instead_of("offers.csv", os.mkfifo)(folder)
    assert main(["catalog", "prices", "--cloud", "azure"]) == 5
    assert capsys.readouterr().err.count("\n") == 1
