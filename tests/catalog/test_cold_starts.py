"""The tables of starts: every figure has a unit, a source that is described, and a range that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pytest

from gpufleet.catalog.cold_starts import FOLDER, OBSERVED_COLUMNS, load_cold_starts, load_observed_starts, observed_from
from gpufleet.catalog.engines import load_engines
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import Place
from gpufleet.catalog.table_files import toml_of
from gpufleet.errors import UsageError

OBSERVED = load_observed_starts()
SOURCES = load_catalog().sources
STAGES = {"machine", "image", "weights", "compilation and warm-up", "warm-up", "process to ready"}

UNITS = {
    "bytes_per_s": "bytes/s",
    "_s_per_layer": "s",
    "_s_per_byte": "s/byte",
    "_bytes": "bytes",
    "_ratio": "ratio",
    "_s": "s",
}


def figures(table: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every table that holds a value, by its place."""
    for name, row in table.items():
        if isinstance(row, Mapping):
            place = f"{at}.{name}".lstrip(".")
            yield from [(place, row)] if "value" in row else figures(row, place)


FIGURES = dict(figures(toml_of(FOLDER / "stages.toml")))


@pytest.mark.parametrize("place", FIGURES)
def test_a_figure_has_a_unit_a_source_and_a_range_that_holds_it(place: str) -> None:
    row = FIGURES[place]
    assert row.keys() == {"value", "unit", "low", "high", "points", "source"}
    assert 0 < row["low"] < row["value"] < row["high"]
    assert row["unit"] == next(unit for end, unit in UNITS.items() if place.endswith(end))


@pytest.mark.parametrize("place", FIGURES)
def test_a_figure_without_measurements_says_that_it_is_a_judgement(place: str) -> None:
    row = FIGURES[place]
    if row["points"] == 0:
        assert any(word in row["source"] for word in ("judgement", "taken from", "a prior"))


def test_every_source_of_starts_is_described_and_dated() -> None:
    named = {*load_cold_starts().sources, *(observed.source_id for observed in OBSERVED)}
    assert named <= SOURCES.keys()
    assert all(SOURCES[id_].as_of for id_ in named)


def test_observed_starts_have_a_name_of_their_own_and_a_day_that_has_passed() -> None:
    assert len({observed.id for observed in OBSERVED}) == len(OBSERVED) >= 50
    assert {observed.stage for observed in OBSERVED} == STAGES
    for observed in OBSERVED:
        assert date(2022, 1, 1) <= observed.as_of <= date(2026, 11, 24), observed.id
        assert observed.evidence.startswith("seen"), observed.id
        assert observed.weights_gb is None or 0 < observed.weights_gb < 1000


def test_where_weights_lie_is_a_place_that_is_described() -> None:
    places = {observed.storage for observed in OBSERVED} - {""}
    assert places == load_cold_starts().storages.keys()


def test_every_described_engine_is_known_and_those_of_today_are_described() -> None:
    described = load_cold_starts().engines.keys()
    assert described <= load_engines().keys()
    assert {"vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformers"} <= described
    assert load_cold_starts().engine("gpt-fast").name == "other"


def test_a_prior_is_as_wide_as_the_engines_that_are_described() -> None:
    facts = load_cold_starts()
    prior = facts.other_engine
    for engine in facts.engines.values():
        for name in ("warm_up_s", "process_s"):
            known, wide = getattr(engine, name), getattr(prior, name)
            assert wide.high >= known.high, (engine.name, name)
            assert wide.low <= max(known.low, 2.0), (engine.name, name)


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("seconds", "0", "a positive number"),
        ("seconds", "soon", "a number"),
        ("num_layers", "1.5", "a whole number"),
        ("as_of", "2024", "a date"),
        ("source_id", "", "a name"),
    ],
)
def test_an_unreadable_cell_is_refused_with_its_place(column: str, cell: str, expected: str) -> None:
    row = dict.fromkeys(OBSERVED_COLUMNS, "x") | {
        "seconds": "1", "weights_gb": "", "num_layers": "", "num_devices": "", "as_of": "2024-10-01",
    }  # fmt: skip
    place = Place("observations.csv", "line 2")
    assert observed_from(place, row).num_layers is None
    with pytest.raises(UsageError, match=expected) as refused:
        observed_from(place, row | {column: cell})
    assert column in str(refused.value)
