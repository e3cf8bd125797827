"""Answers of ours that somebody edited, or that another machine wrote: one sentence and exit code 2, never our bug."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.hostile.valid_questions import SPOT_LOG

from gpufleet.ask.spot.log import read_spot_log
from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main

JOBS = """start: 2026-11-30 08:00
pools:
  lab: {gpu: L4, gpus: 4}
jobs:
  - {name: a, work: 1h, gpus: 2, deadline: 9h, command: "echo a"}
  - {name: b, work: 1h, gpus: 4, deadline: 9h, after: [a]}
  - {name: c, work: 1h, deadline: 2026-11-29 08:00}
"""
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("schedule")
    (folder / "jobs.yaml").write_text(JOBS)
    assert main(["schedule", str(folder / "jobs.yaml"), "--at-once", "--out-file", str(folder / "s.json")]) == 0
    found: dict[str, Any] = json.loads((folder / "s.json").read_text())
    return found


EDITS: dict[str, tuple[str, object]] = {
    "no pieces": ("runs.0.pieces", []),
    "a piece that ends before it begins": ("runs.0.pieces.0.end_s", -1.0),
    "a piece without end": ("runs.0.pieces.0.end_s", 1e300),
    "an unknown pool": ("runs.0.pool", "gone"),
    "a job that is not there": ("runs.1.after", ["gone"]),
    "after itself": ("runs.1.after", ["b"]),
    "begins before what it comes after": ("runs.0.pieces.0", {"start_s": 7200.0, "end_s": 9999.0}),
    "no GPUs": ("runs.0.gpus", 0.0),
    "less than no GPUs": ("runs.0.gpus", -3.0),
    "more GPUs than there are": ("runs.0.gpus", 8.0),
    "no work": ("runs.0.work", {"value": 0.0, "unit": "s"}),
    "a name twice": ("runs.1.job", "a"),
    "a name that no tool takes": ("runs.0.job", "$(id)\n"),
    "a pool of none": ("pools.0.gpus", 0),
    "an outage that ends before it begins": ("pools.0.outages", [{"start_s": 9.0, "end_s": 1.0, "gpus": 1}]),
    "another millennium": ("start", "9999-12-31T00:00:00"),
    "a reason that nobody knows": ("runs.0.why_now.code", "weather"),
    "a reason without its figures": ("runs.1.why_now.figures", {}),
    "a schedule without end": ("makespan_s", 1e300),
    "more late jobs than a float holds": ("edf_late_jobs", "9" * 400),
    "a pool that costs what its runs do not": ("pools.0.usd", 1e300),
    "a pool that takes energy that its runs do not": ("pools.0.kwh", 9e9),
    "a deadline without end": ("runs.0.deadline_s", -1e300),
    "a slot of nothing": ("slot_s", 0.0),
}


def with_field(content: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """A copy of an answer with one field changed."""
    copied: Any = json.loads(json.dumps(content))
    *parents, last = [int(name) if name.isdigit() else name for name in place.split(".")]
    holder = copied
    for name in parents:
        holder = holder[name]
    holder[last] = value
    found: dict[str, Any] = copied
    return found


@pytest.mark.parametrize("form", ["table", "slurm", "kueue", "sky"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_schedule_is_refused_in_one_sentence(
    ask_gpufleet: Ask, schedule: dict[str, Any], edit: str, form: str, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(with_field(schedule, *EDITS[edit])))
    done = ask_gpufleet("schedule", "s.json", "-o", form)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("gpufleet: error: ") == 1


def test_a_schedule_that_nobody_edited_is_written_in_every_form(
    ask_gpufleet: Ask, schedule: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(schedule))
    assert [ask_gpufleet("schedule", "s.json", "-o", form).returncode for form in ("slurm", "kueue", "sky")] == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_a_log_reads_the_same_whatever_its_lines_end_in(end: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(SPOT_LOG.replace("\n", end).encode())
    assert np.array_equal(read_spot_log(path).elapsed_s, 600.0 * np.arange(9))


@pytest.mark.parametrize("text", ["elapsed_s,available,ran,work_left_s\n\x00,1,spot,1\n", "elapsed_s\r\r\n", '"'])
def test_what_is_no_log_is_said_in_one_sentence(ask_gpufleet: Ask, text: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    ask_gpufleet(
        "spot", "--work", "5h", "--deadline", "9h", "--spot-price", "1/h", "--on-demand-price", "3/h", "--draws", "20",
        "--rules", "rules.json",
    )  # fmt: skip
    done = ask_gpufleet("spot", "rules.json", "--replay", "log.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("gpufleet: error: ") == 1


def test_memory_that_runs_out_is_said(ask_gpufleet: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr("gpufleet.cli.app.dispatch", without_memory)
    done = ask_gpufleet("doctor")
    assert (done.returncode, done.stdout) == (2, "")
    assert "memory" in done.stderr


def test_a_trace_of_jobs_that_ends_with_the_world_is_refused(ask_gpufleet: Ask, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "trace.csv").write_text("arrival_s,gpus,duration_s,deadline_s\n0,1,3600,1e308\n")
    done = ask_gpufleet("schedule", "jobs.yaml", "--online", "las", "--trace", "trace.csv", "--steps", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "deadline_s" in done.stderr


def test_rows_of_a_schedule_that_cannot_be_are_one_sentence_not_an_empty_file(
    ask_gpufleet: Ask, tmp_path: Path
) -> None:
    (tmp_path / "jobs.yaml").write_text("pools: {lab: {gpu: L4, gpus: 4}}\njobs: [{name: a, work: 4h, gpus: 1000}]\n")
    done = ask_gpufleet("schedule", "jobs.yaml", "-o", "csv")
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no row to write" in done.stderr


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("inf")])
def test_an_offer_counts_by_its_age_some_times_what_it_costs(ratio: float) -> None:
    offer = load_catalog().offers[0]
    with pytest.raises(ValueError, match="age_ratio"):
        dataclasses.replace(offer, age_ratio=ratio)
