"""Judgements that stand in no engine's or runtime's file: each has a source, a unit and a range that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpufleet.api.encoders import estimate_encoder
from gpufleet.catalog.calibration import DATA, load_formulas, load_habits
from gpufleet.catalog.table_files import toml_of


def rows(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tables of a file that hold a value, by their place."""
    waiting = list(toml_of(DATA / name).items())
    while waiting:
        place, table = waiting.pop()
        if "value" in table:
            yield place, table
        else:
            waiting += [(f"{place}.{key}", each) for key, each in table.items()]


TRAINING = ["training_runs.toml", "training_time.toml", "training_memory.toml"]


@pytest.mark.parametrize(
    "name", ["formulas.toml", "habits.toml", "hosts.toml", "network_latency.toml", "sites.toml", *TRAINING]
)
def test_a_judgement_has_a_source_and_a_range_that_holds_it(name: str) -> None:
    found = dict(rows(name))
    assert found
    for place, row in found.items():
        assert {"unit", "points", "source"} <= row.keys(), place
        assert row.get("low", row["value"]) <= row["value"] <= row.get("high", row["value"]), place


@pytest.mark.parametrize("name", TRAINING)
def test_a_judgement_of_training_says_how_far_it_may_be_off(name: str) -> None:
    judged = {place: row for place, row in rows(name) if row["source"].startswith("judgement")}
    assert judged
    for place, row in judged.items():
        assert "low" in row or "high" in row, place
        assert row.get("low", row["value"]) < row.get("high", row["value"]), place


def test_kernels_that_stream_are_no_faster_than_the_memory() -> None:
    streams = load_formulas().streams
    assert 0 < streams.bandwidth_ratio.value < 1
    assert 0 < streams.fixed_s.value < 10e-6


def test_what_is_spoken_comes_from_the_habits() -> None:
    spoken = load_habits().spoken_tokens_per_s.value
    found = estimate_encoder("whisper-large-v3", "T4", audio_s=60.0)
    assert found.output_tokens == 30 * spoken
    assert any(i.origin == f"default: {spoken:g} tokens for a second of speech" for i in found.inputs)
