"""Where machine code of the simulator is kept: one folder for these very sources, and few for former ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpufleet.api import kept_code
from gpufleet.api.kept_code import FOLDER_VARIABLE, MOST_KEPT, compiles_first, digest_of_sources, kept_in

COMPILED = f"events.run_until-22.py{sys.version_info.major}{sys.version_info.minor}.1.nbc"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a user who has Numba, which was not imported yet and was told no folder."""
    monkeypatch.setenv("GPUFLEET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(kept_code, "is_compiler_there", lambda: True)
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


def former(cache: Path, name: str, age_s: float) -> Path:
    """A folder of other sources that Numba wrote to so long ago."""
    (cache / name / "simulate_1").mkdir(parents=True)
    (cache / name / "simulate_1" / COMPILED).write_bytes(b"code")
    os.utime(cache / name, (1e9 - age_s, 1e9 - age_s))
    return cache / name


def test_former_machine_code_goes_but_for_the_newest(cache: Path) -> None:
    folders = [former(cache, f"compiled-{i:02}", age_s=60.0 * i) for i in range(8)]
    tables = cache / "gemm.pickle"
    tables.write_bytes(b"tables")
    assert kept_in() == str(cache / f"compiled-{digest_of_sources()}")
    assert [folder.exists() for folder in folders] == [True] * (MOST_KEPT - 1) + [False] * (9 - MOST_KEPT)
    assert tables.exists()


def test_code_that_is_kept_already_sends_nothing_away(cache: Path) -> None:
    ours = former(cache, f"compiled-{digest_of_sources()}", age_s=1e6)
    folders = [former(cache, f"compiled-{i:02}", age_s=60.0 * i) for i in range(8)]
    assert kept_in() == str(ours)
    assert all(folder.exists() for folder in [ours, *folders])


def test_without_a_compiler_nothing_is_sent_away(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_code, "is_compiler_there", lambda: False)
    folders = [former(cache, f"compiled-{i:02}", age_s=60.0 * i) for i in range(8)]
    kept_in()
    assert all(folder.exists() for folder in folders)
    assert not compiles_first()


def test_what_leads_out_of_the_cache_is_not_followed(cache: Path, tmp_path: Path) -> None:
    """A link that somebody put there: what it names stays."""
    elsewhere = former(tmp_path, "elsewhere", age_s=1e8)
    (cache / "compiled-99").symlink_to(elsewhere)
    for i in range(8):
        former(cache, f"compiled-{i:02}", age_s=60.0 * i)
    kept_in()
    assert (elsewhere / "simulate_1" / COMPILED).exists()


def test_a_folder_that_the_user_named_is_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(cache))
    folders = [former(cache, f"compiled-{i:02}", age_s=60.0 * i) for i in range(8)]
    assert kept_in() is None
    assert all(folder.exists() for folder in folders)


def test_the_first_replay_compiles_and_later_ones_do_not(cache: Path) -> None:
    folder = kept_in()
    assert folder is not None
    assert compiles_first()
    (Path(folder) / "simulate_1").mkdir(parents=True)
    (Path(folder) / "simulate_1" / "events.run_until-22.py27.1.nbc").write_bytes(b"of another Python")
    assert compiles_first()
    (Path(folder) / "simulate_1" / COMPILED).write_bytes(b"code")
    assert not compiles_first()
