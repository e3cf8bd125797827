"""The part of docs/accuracy.md about training, and the baselines that it prints beside."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tools import training_page
from tools.accuracy_page import WAS_LEFT_OUT
from tools.baselines import MFU_BASELINES, TrainingRow, training_rows
from tools.calibrate.training_time import Measured, Unseen, new_source_range
from tools.training_page import (
    LEFT_OUT_NAME,
    Group,
    baselines_table,
    groups_of,
    mean_error,
    read_unseen,
    training_sections,
    training_table,
)

from gpufleet.accuracy.score import score_files
from gpufleet.accuracy.training_rows import StatedRun
from gpufleet.inputs.measurements import MeasurementFile, MeasurementRow, read_measurements
from gpufleet.results.accuracy import AccuracyReport, ScoredFigure

MEASUREMENTS = Path(__file__).resolve().parents[3] / "measurements"
DECISIONS = Path(__file__).resolve().parents[3] / "docs" / "decisions"
CONSTANT, BY_GPU = MFU_BASELINES
UNSEEN_BY_GPU = (BY_GPU.name, "source left out")


def figure(source: str, measured: float, predicted: float, row: int = 2) -> ScoredFigure:
    numbers = {"measured": measured, "predicted": predicted, "low": predicted * 0.9, "high": predicted * 1.1}
    return ScoredFigure(file="f", row=row, quantity="tokens_per_s_per_gpu", unit="tokens/s", source=source, **numbers)


def run(source: str, measured: float, gpu: str = "A", recompute: str = "none") -> TrainingRow:
    return TrainingRow(figure(source, measured, measured), gpu, recompute, 0.001)


@pytest.fixture(scope="module")
def files() -> list[MeasurementFile]:
    """Every twentieth row of the measured runs."""
    whole = read_measurements(MEASUREMENTS / "training_throughput.csv")
    return [replace(whole, rows=whole.rows[::20])]


def test_one_mfu_is_the_median_of_all_and_unseen_that_of_other_sources() -> None:
    rows = [run("a", 300.0), run("a", 400.0), run("b", 500.0)]
    assert [f.predicted for f in CONSTANT.figures(rows, unseen=False)] == pytest.approx([400.0] * 3)
    assert [f.predicted for f in CONSTANT.figures(rows, unseen=True)] == pytest.approx([500.0, 500.0, 350.0])


def test_the_mfu_of_a_gpu_and_its_recomputation_falls_back_to_that_of_all() -> None:
    rows = [run("a", 300.0), run("b", 400.0, recompute="full"), run("b", 500.0)]
    assert [f.predicted for f in BY_GPU.figures(rows, unseen=False)] == pytest.approx([400.0, 400.0, 400.0])
    assert [f.predicted for f in BY_GPU.figures(rows, unseen=True)] == pytest.approx([500.0, 300.0, 300.0])


def test_baselines_know_runs_as_they_were_measured(files: list[MeasurementFile]) -> None:
    rows = training_rows(files, None)
    assert len(rows) > 10
    assert all(0.05 < row.mfu < 1.5 for row in rows)  # of 16 bits: FP8 and NVFP4 reach beyond it
    assert all(row.at(row.mfu).predicted == pytest.approx(row.figure.measured) for row in rows)


def test_sources_count_alike_and_the_worst_is_first() -> None:
    figures = [figure("few", 100.0, 150.0), *(figure("many", 100.0, 110.0, row) for row in range(9))]
    group = Group("source", "dense", figures)
    (whole,) = training_table([group], {}, "all").rows
    assert (whole["mean"], whole["alike"], whole["rows"]) == ("14%", "30%", "10")
    assert [line["name"] for line in training_table(group.split(), {}, "source").rows] == ["few", "many"]


def test_the_shipped_table_has_every_source_left_out_and_one_apart() -> None:
    groups = {(g.left_out, g.kind): g for g in groups_of(read_unseen(WAS_LEFT_OUT / LEFT_OUT_NAME))}
    assert set(groups) == {
        ("source", "apart"),
        ("source", "dense"),
        ("source", "experts"),
        ("model", "dense"),
        ("model", "experts"),
    }
    assert len(groups["source", "dense"].parts) == 6
    assert {len(group.figures) for group in (groups["source", "experts"], groups["model", "experts"])} == {99}
    assert all("2201.11990" in f.source for f in groups["source", "apart"].figures)


def test_ranges_that_had_not_seen_a_source_hold_four_fifths_of_it_or_more() -> None:
    groups = {(g.left_out, g.kind): g for g in groups_of(read_unseen(WAS_LEFT_OUT / LEFT_OUT_NAME))}
    dense = groups["source", "dense"]
    held = dense.alike(lambda fs: sum((f.low or 0) <= (f.measured or 0) <= (f.high or 0) for f in fs) / len(fs))
    assert 0.74 < held < 0.95


@pytest.mark.slow
def test_the_section_says_what_was_unseen_before_what_was_in_sample(
    files: list[MeasurementFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without peaks of memory, whose fit without each source takes a while: the whole page has them."""
    monkeypatch.setattr(training_page, "memory_groups", list)
    report = score_files([])
    text = "\n".join(training_sections(report, files, WAS_LEFT_OUT, None))
    assert text.index("| left out | of |") < text.index("MT-NLG") < text.index("constant MFU")
    assert "| gpufleet | source left out |" in text


def test_without_runs_there_is_no_section(tmp_path: Path) -> None:
    assert training_sections(AccuracyReport(files=[]), [], tmp_path, None) == []


def test_a_range_counts_every_group_alike_and_says_what_few_leave_open() -> None:
    """Ninety rows of one source that are right do not hide ten of another that are 30 % off."""
    many = [Unseen(measured_by("many"), "source", 0.0) for _ in range(90)]
    few = [Unseen(measured_by("few"), "source", math.log(1.3)) for _ in range(10)]
    low, high = new_source_range([*many, *few], beside_log=0.0)
    assert low < 0.8
    assert high > 1.5
    assert new_source_range(many, beside_log=0.0) == (0.98, 1.02)
    assert new_source_range(many, beside_log=0.1)[1] > 1.2


def measured_by(source: str) -> Measured:
    """A run of a source of which no more is asked."""
    row = MeasurementRow(2, {"source": source})
    return Measured(row, cast("StatedRun", None), source, 1.0)


@pytest.mark.slow
def test_the_decision_names_errors_that_are_those_of_the_tables() -> None:
    """Docs/decisions/0023: a MFU by GPU and recomputation on sources it has not seen, and experts left out."""
    groups = groups_of(read_unseen(WAS_LEFT_OUT / LEFT_OUT_NAME))
    rows = training_rows([read_measurements(MEASUREMENTS / "training_throughput.csv")], None)
    [baseline] = [line for line in baselines_table(rows, groups).rows if (line["model"], line["fit"]) == UNSEEN_BY_GPU]
    experts = next(group for group in groups if (group.left_out, group.kind) == ("source", "experts"))
    text = " ".join(next(DECISIONS.glob("0023-*.md")).read_text(encoding="utf-8").split())
    assert f"misses a source that it has not seen by {str(baseline['alike']).replace('%', ' %')}" in text
    assert f"outside their one source are missed by {experts.alike(mean_error):.0%}".replace("%", " %") in text
