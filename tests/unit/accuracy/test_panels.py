"""What stands in the picture of a report."""

from __future__ import annotations

from gpufleet.accuracy.panels import INK_OF_ENGINE, accuracy_panels
from gpufleet.report.measured_plot import DISC, INKS, SQUARE
from gpufleet.results.accuracy import AccuracyReport, FileAccuracy, ScoredFigure, VerdictCounts


def figure(engine: str, client: str, predicted: float | None) -> ScoredFigure:
    return ScoredFigure(
        file="s.csv",
        row=2,
        quantity="tpot",
        unit="ms",
        measured=10.0,
        predicted=predicted,
        engine=engine,
        group=f"{client} x {engine} x H100-SXM",
    )


def report_of(figures: list[ScoredFigure], kind: str = "serving_points") -> AccuracyReport:
    file = FileAccuracy(
        file="s.csv",
        kind=kind,
        num_rows=len(figures),
        num_scored_rows=len(figures),
        num_covered_rows=len(figures),
        coverage_ratio=1.0,
        groups=[],
        worst=[],
        verdicts=VerdictCounts(),
        left_out=[],
        without_prediction=[],
        figures=figures,
    )
    return AccuracyReport(files=[file])


def test_an_engine_keeps_its_ink_and_a_client_its_mark() -> None:
    seen = [("vllm", "a", 11.0), ("vllm", "b", 12.0), ("vllm", "b", 12.0), ("sglang", "b", 9.0), ("vllm", "b", None)]
    (panel,) = accuracy_panels(report_of([figure(*each) for each in seen]))
    assert [(s.label.split(":")[0], s.ink, s.mark) for s in panel.series] == [
        ("vllm, b", "blue", SQUARE),
        ("sglang, b", "vermilion", SQUARE),
        ("vllm, a", "blue", DISC),
    ]
    assert panel.subtitle == "4 points, median error 15%"
    assert [len(series.points) for series in panel.series] == [2, 1, 1]


def test_files_without_times_or_rates_have_no_panel() -> None:
    assert accuracy_panels(report_of([figure("vllm", "a", 11.0)], kind="inference_memory")) == []


def test_every_ink_is_one_that_can_be_drawn() -> None:
    assert set(INK_OF_ENGINE.values()) < set(INKS)
