"""Where machine code of the simulator is kept: one folder for these very sources, and few for former ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpufleet.catalog import kept_code
from gpufleet.catalog.kept_code import FOLDER_VARIABLE, MOST_KEPT, compiles_first, digest_of_sources, kept_in
from gpufleet.simulate.compiled import kept_where_it_can

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
    (cache / name).mkdir(mode=0o700)
    (cache / name / "simulate_1").mkdir()
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


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o705])
def test_machine_code_in_a_folder_that_is_open_to_others_is_forgotten(cache: Path, mode: int) -> None:
    ours = former(cache, f"compiled-{digest_of_sources()}", age_s=0.0)
    ours.chmod(mode)
    assert kept_in() == str(ours)
    assert list(ours.iterdir()) == []
    assert ours.stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_place_of_machine_code_is_removed_and_not_followed(cache: Path, tmp_path: Path) -> None:
    elsewhere = former(tmp_path, "elsewhere", age_s=0.0)
    ours = cache / f"compiled-{digest_of_sources()}"
    ours.symlink_to(elsewhere)
    assert kept_in() == str(ours)
    assert not ours.is_symlink()
    assert (elsewhere / "simulate_1" / COMPILED).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_machine_code_of_somebody_else_is_forgotten(cache: Path) -> None:
    ours = former(cache, f"compiled-{digest_of_sources()}", age_s=0.0)
    os.chown(ours / "simulate_1" / COMPILED, 65534, 65534)
    kept_in()
    assert list(ours.iterdir()) == []


def test_a_folder_that_the_user_named_and_others_may_write_to_is_not_read(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "open"))
    assert kept_in() == str(cache / f"compiled-{digest_of_sources()}")


def added(one: int, other: int) -> int:
    return one + other


@pytest.mark.parametrize("content", [b"", b"\x80", b"cos\nno_such_name\n.", b"garbage" * 99])
def test_machine_code_that_is_damaged_is_compiled_again_and_kept(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kept_where_it_can(added)(1, 2) == 3
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        sound = path.read_bytes()
        path.write_bytes(content)
        assert kept_where_it_can(added)(1, 2) == 3
        assert len(path.read_bytes()) > len(sound) // 2
        again = kept_where_it_can(added)
        assert again(1, 2) == 3
        assert sum(again.stats.cache_hits.values()) == 1
