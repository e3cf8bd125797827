"""How long a replica takes to start, stage by stage, from `data/cold_starts`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpufleet.catalog.load import SHIPPED, rows_of, toml_of
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.schema import Place, Row, day, number, required_number, text, whole
from gpufleet.domain.cold_start import ColdStartFacts, EngineStart, NodeStart, ObservedStart, Storage
from gpufleet.provenance import Grade, Sourced

FOLDER = SHIPPED / "cold_starts"
OBSERVED_COLUMNS = (
    *("id", "stage", "seconds", "weights_gb", "num_layers", "num_devices", "engine", "version", "hardware"),
    *("storage", "source_id", "as_of", "evidence", "what"),
)


@lru_cache(maxsize=1)
def load_cold_starts() -> ColdStartFacts:
    """The shipped table.

    >>> load_cold_starts().engine("vllm").process_s.value
    18.2
    """
    table = toml_of(FOLDER / "stages.toml")
    described = [table["node"], *table["storage"].values(), *table["engine"].values(), table["other_engine"]]
    return ColdStartFacts(
        node=node_from(table["node"]),
        storages={name: storage_from(name, row) for name, row in table["storage"].items()},
        engines={name: engine_from(name, row) for name, row in table["engine"].items()},
        other_engine=engine_from("other", table["other_engine"]),
        sources=tuple(dict.fromkeys(id_ for row in described for id_ in row["source_ids"])),
    )


def node_from(row: Mapping[str, Any]) -> NodeStart:
    """How a machine comes up."""
    return NodeStart(
        ready_s=sourced(row["ready_s"]),
        ready_grade=grade_from(row["ready_grade"]),
        image_bytes=sourced(row["image_bytes"]),
        image_bytes_per_s=sourced(row["image_bytes_per_s"]),
        image_grade=grade_from(row["image_grade"]),
        line_bytes_per_s=sourced(row["line_bytes_per_s"]),
    )


def storage_from(name: str, row: Mapping[str, Any]) -> Storage:
    """One place where weights lie."""
    return Storage(
        name=name,
        title=row["title"],
        machine_bytes_per_s=figure(row, "machine_bytes_per_s"),
        line_ratio=figure(row, "line_ratio"),
        process_bytes_per_s=figure(row, "process_bytes_per_s"),
        grade=grade_from(row["grade"]),
    )


def engine_from(name: str, row: Mapping[str, Any]) -> EngineStart:
    """The start of one engine; one that compiles nothing has no figures of it."""
    return EngineStart(
        name=name,
        process_s=sourced(row["process_s"]),
        compile_s=figure(row, "compile_s"),
        compile_s_per_layer=figure(row, "compile_s_per_layer"),
        fresh_compile_s=figure(row, "fresh_compile_s"),
        warm_up_s=sourced(row["warm_up_s"]),
        warm_up_s_per_byte=sourced(row["warm_up_s_per_byte"]),
        grade=grade_from(row["grade"]),
    )


def figure(row: Mapping[str, Any], name: str) -> Sourced | None:
    """A figure that may be missing."""
    return sourced(row[name]) if name in row else None


def grade_from(word: str) -> Grade:
    """The grade that a table names."""
    return Grade[word.upper().replace(" ", "_")]


@lru_cache(maxsize=1)
def load_observed_starts() -> tuple[ObservedStart, ...]:
    """Published starts, by which the figures are judged: some were fitted, others were not."""
    path = FOLDER / "observations.csv"
    return tuple(observed_from(place, row) for place, row in rows_of(path, OBSERVED_COLUMNS))


def observed_from(place: Place, row: Row) -> ObservedStart:
    """One published start; an empty cell was not said."""
    return ObservedStart(
        **{name: text(place, name, row[name]) for name in ("id", "stage", "source_id", "evidence", "what")},
        **{name: row[name] for name in ("engine", "version", "hardware", "storage")},
        seconds=required_number(place, "seconds", row["seconds"]),
        weights_gb=number(place, "weights_gb", row["weights_gb"]),
        num_layers=whole(place, "num_layers", row["num_layers"]),
        num_devices=whole(place, "num_devices", row["num_devices"]),
        as_of=day(place, "as_of", row["as_of"]),
    )
