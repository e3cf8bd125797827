"""Two updates at once: one at a time writes, the other waits or says so; a lock outlives nobody who is killed."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.price_server import Answer, Fault, PriceServer, ask_this_machine_alone, every_feed, serving

from gpufleet.catalog import update_lock
from gpufleet.catalog.snapshots import folders_of, read_snapshot, snapshot_folders
from gpufleet.catalog.update_lock import LOCK_FILE, WAITS, only_update
from gpufleet.cli import main
from gpufleet.errors import DataMissing, UsageError

HOLDER = """
import sys, time
from pathlib import Path
from gpufleet.catalog.update_lock import only_update
with only_update(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PriceServer]:
    with serving(PriceServer(every_feed())) as running:
        monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path))
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


def start() -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "gpufleet", "catalog", "update", "--cloud", "azure,lambda"]
    return subprocess.Popen(words, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def strike(victim: subprocess.Popen[str], sent: signal.Signals, number: int) -> Fault:
    """Send a signal when this many pages were asked for."""
    count = itertools.count()

    def fault(path: str, sound: Answer) -> None:
        if next(count) == number:
            victim.send_signal(sent)

    return fault


def whole(root: Path) -> dict[Path, str]:
    """Every snapshot that a reader would take, read: each is whole."""
    feeds = [entry for entry in root.iterdir() if entry.is_dir()]
    return {folder: read_snapshot(folder).checksum for feed in feeds for folder in folders_of(feed)}


def test_who_comes_second_says_so_and_asks_nobody(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update_lock, "WAITS", 1)
    with only_update(tmp_path):
        assert main(["catalog", "update", "--cloud", "lambda"]) == 5
    said = capsys.readouterr()
    assert "another 'gpufleet catalog update' is still at work" in said.err
    assert server.asked == []
    assert main(["catalog", "update", "--cloud", "lambda"]) == 0


def test_who_comes_second_goes_on_once_the_first_has_ended(tmp_path: Path) -> None:
    first = only_update(tmp_path)
    first.__enter__()
    waited: list[float] = []

    def first_ends(wait_s: float) -> None:
        waited.append(wait_s)
        first.__exit__(None, None, None)

    with only_update(tmp_path, first_ends):
        assert len(waited) == 1


def test_the_wait_ends(tmp_path: Path) -> None:
    waited: list[float] = []
    with only_update(tmp_path), pytest.raises(DataMissing), only_update(tmp_path, waited.append):
        pass
    assert len(waited) == WAITS


def test_two_folders_are_updated_at_the_same_time(tmp_path: Path) -> None:
    with only_update(tmp_path / "a"), only_update(tmp_path / "b", pytest.fail):
        pass


def test_a_lock_ends_with_the_process_that_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataMissing), only_update(tmp_path, lambda wait_s: None):
            pass
        holder.kill()
    with only_update(tmp_path, pytest.fail):
        pass


def test_a_folder_that_cannot_be_locked_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "odd" / LOCK_FILE).mkdir(parents=True)
    (tmp_path / "led").mkdir()
    (tmp_path / "led" / LOCK_FILE).symlink_to(tmp_path / "file")
    for root in ("file", "file/prices", "odd", "led", "n" * 300):
        with pytest.raises(UsageError, match="price snapshots cannot be written"), only_update(tmp_path / root):
            pass


def test_two_at_once_of_which_one_is_killed_leave_every_snapshot_whole(server: PriceServer, tmp_path: Path) -> None:
    """By each signal, while one of them asks for a page of chance; whoever is left alone ends without an error."""
    chance = random.Random(3)
    known: dict[Path, str] = {}
    for sent in (None, *SIGNALS):
        pair = [start(), start()]
        if sent is not None:
            server.faults = [strike(pair[0], sent, chance.randrange(4))]
        for process in pair:
            _, complaint = process.communicate(timeout=60)
            assert "our bug" not in complaint
            is_struck = process is pair[0] and sent is not None
            assert is_struck or process.returncode in (0, DataMissing.exit_code), complaint
        found = whole(tmp_path)
        assert known.items() <= found.items()
        known = found
    server.faults = []
    alone = start()
    alone.communicate(timeout=60)
    assert alone.returncode == 0
    assert len(snapshot_folders(tmp_path)) == 2
    assert list(tmp_path.glob("*/.writing*")) == []
