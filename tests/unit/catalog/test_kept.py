"""What is kept between commands never says anything but what the files say."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.catalog import kept as cache
from gpufleet.catalog.calibration import calibration_of, load_calibration
from gpufleet.catalog.kept import FOLDER_VARIABLE, kept
from gpufleet.catalog.load import read_catalog, table_files
from gpufleet.catalog.prices_in_force import Days


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of one's own."""
    path = tmp_path / "cache"
    monkeypatch.setenv(FOLDER_VARIABLE, str(path))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file that something is read from."""
    path = tmp_path / "prices.csv"
    path.write_text("98.32", encoding="utf-8")
    return path


def read_of(table: Path, of: object = None) -> tuple[str, bool]:
    """What is kept of a table, and whether the table was read for it."""
    reads = []
    found = kept("prices", [table], of, lambda: reads.append(1) or table.read_text(encoding="utf-8"))
    return found, bool(reads)


def test_a_file_is_read_once_and_again_when_its_content_changes(folder: Path, table: Path) -> None:
    assert [read_of(table), read_of(table)] == [("98.32", True), ("98.32", False)]
    stamp = table.stat()
    table.write_text("12.29", encoding="utf-8")
    os.utime(table, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert [read_of(table), read_of(table)] == [("12.29", True), ("12.29", False)]


def test_another_question_or_other_code_reads_the_file_again(
    folder: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_of(table, of=date(2026, 1, 1))
    assert read_of(table, of=date(2026, 1, 2)) == ("98.32", True)
    monkeypatch.setattr(cache, "code_stamp", lambda: ("another release",))
    assert read_of(table, of=date(2026, 1, 2)) == ("98.32", True)


@pytest.mark.parametrize("spoil", ["cut", "flipped", "foreign", "empty", "folder"])
def test_an_entry_that_is_not_whole_is_no_entry(folder: Path, table: Path, spoil: str) -> None:
    read_of(table)
    [entry] = folder.iterdir()
    content = entry.read_bytes()
    entry.unlink()
    spoilt = {"cut": content[:-3], "flipped": content[:-3] + b"xxx", "foreign": pickle.dumps(("0.28",)), "empty": b""}
    if spoil == "folder":
        entry.mkdir()
    else:
        entry.write_bytes(spoilt[spoil])
    assert read_of(table) == ("98.32", True)


@pytest.mark.parametrize("where", [os.devnull, "", "relative/folder", "/proc/nowhere", "a\0b", "x" * 5000])
def test_a_folder_that_cannot_hold_anything_keeps_nothing(
    where: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, FOLDER_VARIABLE: where})
    assert [read_of(table), read_of(table)] == [("98.32", True), ("98.32", True)]


def test_a_folder_that_others_may_write_to_keeps_nothing(folder: Path, table: Path) -> None:
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    assert [read_of(table), read_of(table)] == [("98.32", True), ("98.32", True)]
    assert not list(folder.iterdir())


def test_a_kept_catalog_is_the_one_of_the_tables(folder: Path) -> None:
    day = date(2026, 11, 22)
    fresh = read_catalog(None, (), Days(None, day))
    again = [kept("catalog", table_files(), day, lambda: fresh) for _ in range(2)][1]
    assert again is not fresh
    assert vars(again) == vars(fresh)


def test_catalogs_of_the_same_gpus_share_their_kernel_curves() -> None:
    """Other prices and machines change no curve; another GPU does."""
    tables = read_catalog(None, (), Days(None, date(2026, 11, 22)))
    cheaper = replace(tables, offers=tables.offers[:1], accelerators={**tables.accelerators})
    assert calibration_of(cheaper) is calibration_of(tables)
    gpu = replace(tables.accelerators["L4"], bandwidth_bytes_per_s=1e12)
    faster = replace(tables, accelerators={**tables.accelerators, "L4": gpu})
    assert calibration_of(faster) is not calibration_of(tables)


def test_kept_kernel_curves_are_those_of_the_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = tuple(read_catalog(None, (), Days(None, date(2026, 11, 22))).accelerators.values())
    assert load_calibration(gpus).tables["gemm"]
    again = load_calibration(gpus)
    monkeypatch.setenv(FOLDER_VARIABLE, os.devnull)
    fresh = load_calibration(gpus)
    for name in (
        "table",
        "peak_flop_per_s",
        "log_slowdown",
        "lost_ratio",
        "grade",
        "low_ratio",
        "high_ratio",
        "is_widened",
    ):
        assert (getattr(again.tables["gemm"], name) == getattr(fresh.tables["gemm"], name)).all()
    assert (again.collective_tables.table == fresh.collective_tables.table).all()


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o622])
def test_an_entry_that_others_may_write_to_is_not_read(folder: Path, table: Path, mode: int) -> None:
    read_of(table)
    [entry] = folder.iterdir()
    entry.chmod(mode)
    assert [read_of(table), read_of(table)] == [("98.32", True), ("98.32", False)]


def test_an_entry_that_is_a_link_or_a_pipe_is_not_read(folder: Path, table: Path, tmp_path: Path) -> None:
    read_of(table)
    [entry] = folder.iterdir()
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert read_of(table) == ("98.32", True)
    entry.unlink()
    os.mkfifo(entry)
    assert read_of(table) == ("98.32", True)
