"""An update that is killed, at whatever moment, leaves the old snapshot whole; the next run finishes the work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.price_server import PriceServer, azure_item, azure_pages, serving, shipped

from gpufleet.catalog.snapshots import DOWNLOAD_FOLDER, folders_of, read_snapshot

FEED = "azure-retail-prices"
DYING = """
import os, signal, sys
left = int(sys.argv.pop(1))

def dies_before(real):
    def call(*arguments):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)
    return call

for name in ("fsync", "replace", "rename"):
    setattr(os, name, dies_before(getattr(os, name)))
from gpufleet.cli import main
sys.exit(main(["catalog", "update", "--cloud", "azure"]))
"""
STEPS_OF_AN_UPDATE = 10


@pytest.fixture
def server() -> Iterator[PriceServer]:
    pages = azure_pages([azure_item(offer) for offer in shipped("azure")], per_page=400)
    with serving(PriceServer(pages)) as running:
        yield running


def start(server: PriceServer, root: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **server.environment(), "GPUFLEET_PRICES": str(root), "GPUFLEET_CACHE": ""}
    return subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def update(server: PriceServer, root: Path) -> None:
    process = start(server, root, "-m", "gpufleet", "catalog", "update", "--cloud", "azure")
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint


def whole(root: Path) -> dict[str, str]:
    """Checksums of the snapshots that a reader would take; each is read, so each is whole."""
    return {folder.name: read_snapshot(folder).checksum for folder in folders_of(root / FEED)}


def raise_prices(server: PriceServer) -> None:
    items = [azure_item(o, retailPrice=o.price_per_instance_usd_per_hour * 1.1) for o in shipped("azure")]
    server.pages = azure_pages(items, per_page=400)


def test_killed_before_each_step_that_touches_the_disk_the_old_snapshot_stays_whole(
    server: PriceServer, tmp_path: Path
) -> None:
    update(server, tmp_path)
    old = whole(tmp_path)
    assert len(old) == 1
    raise_prices(server)
    for step in range(STEPS_OF_AN_UPDATE - 1):
        process = start(server, tmp_path, "-c", DYING, str(step))
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, f"step {step}"
        assert whole(tmp_path) == old, f"step {step}"
        for page in (tmp_path / FEED / ".download").glob("*"):
            page.unlink()
    killed_after_the_rename, finished = STEPS_OF_AN_UPDATE - 1, STEPS_OF_AN_UPDATE
    for step, exit_code in ((killed_after_the_rename, -signal.SIGKILL), (finished, 0)):
        process = start(server, tmp_path, "-c", DYING, str(step))
        process.communicate(timeout=60)
        assert process.returncode == exit_code
        assert len(whole(tmp_path)) == step - killed_after_the_rename + 2
    assert [entry.name for entry in (tmp_path / FEED).iterdir() if entry.name.startswith(".")] == []


def stamp_by_our_clock(root: Path) -> None:
    """Pages are of this moment, also where the clock of processes is not that of the disk."""
    for page in root.glob(f"*/{DOWNLOAD_FOLDER}/*"):
        os.utime(page, (time.time(), time.time()))


def test_killed_while_pages_come_in_it_goes_on_from_the_pages_that_came(server: PriceServer, tmp_path: Path) -> None:
    update(server, tmp_path)
    old = whole(tmp_path)
    raise_prices(server)
    victim: list[subprocess.Popen[str]] = []

    def kill_at_the_second_page(path: str, answer: object) -> None:
        if path.startswith("/azure?skip=1") and victim:
            victim.pop().kill()

    server.faults = [kill_at_the_second_page]  # type: ignore[list-item]
    first = len(server.asked)
    process = start(server, tmp_path, "-m", "gpufleet", "catalog", "update", "--cloud", "azure")
    victim.append(process)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert whole(tmp_path) == old
    asked = len(server.asked)
    assert asked > first
    stamp_by_our_clock(tmp_path)
    update(server, tmp_path)
    assert [path.partition("?")[2] for path in server.asked[asked:]] == ["skip=1"]
    assert len(whole(tmp_path)) == 2


def test_killed_at_moments_of_chance_there_is_never_half_a_snapshot(server: PriceServer, tmp_path: Path) -> None:
    update(server, tmp_path)
    old = whole(tmp_path)
    raise_prices(server)
    chance = random.Random(5)
    for _ in range(4):
        process = start(server, tmp_path, "-m", "gpufleet", "catalog", "update", "--cloud", "azure")
        try:
            process.communicate(timeout=chance.uniform(0.2, 1.2))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        assert old.items() <= whole(tmp_path).items()
