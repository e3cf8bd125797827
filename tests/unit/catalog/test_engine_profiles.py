"""A user's engine files: what is wrong with one is said with its file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.table_files import SHIPPED
from gpufleet.errors import UnknownName, UsageError


@pytest.fixture
def own_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An overlay with a copy of vLLM's profile under another name."""
    (tmp_path / "engines").mkdir()
    file = tmp_path / "engines" / "mine.toml"
    file.write_text((SHIPPED / "engines" / "vllm.toml").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setenv("GPUFLEET_CATALOG", str(tmp_path))
    return file


def test_an_engine_of_ones_own_is_found(own_engine: Path) -> None:
    assert find_engine("mine").name == own_engine.stem


@pytest.mark.parametrize(
    ("written", "instead", "lacking"),
    [
        ("[[formats]]", "[[shapes]]", "'formats'"),
        ("max_batch = ", "max_bunch = ", "'max_batch'"),
        ("unit = ", "eenheid = ", "'memory_fraction.unit'"),
        ("generations = ", "ages = ", "formats.generations'"),
    ],
)
def test_a_missing_key_is_named_with_its_file(own_engine: Path, written: str, instead: str, lacking: str) -> None:
    text = own_engine.read_text(encoding="utf-8")
    own_engine.write_text(text.replace(written, instead), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        find_engine("vllm")
    assert f"{own_engine} lacks" in str(caught.value)
    assert lacking in str(caught.value)


def test_a_figure_that_is_a_bare_number_is_refused(own_engine: Path) -> None:
    text = own_engine.read_text(encoding="utf-8").replace("[memory_fraction]", "[another]")
    own_engine.write_text(f"memory_fraction = 0.9\n{text}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine\.toml.*Every figure needs value, unit and source"):
        find_engine("vllm")


def test_an_unknown_engine_is_answered_with_all_engines() -> None:
    with pytest.raises(UnknownName, match=r"Known: .*sglang.*tensorrt-llm.*vllm"):
        find_engine("zz")
