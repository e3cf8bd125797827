"""How scores are shown: misses first, never wider than the page, names told apart."""

from __future__ import annotations

from pathlib import Path

from tools.accuracy_page import left_out_table

from gpufleet.accuracy.grouping import all_groups
from gpufleet.accuracy.statistics import worst_first
from gpufleet.report.accuracy import accuracy_page, headline, shortened
from gpufleet.report.text import page_as_text
from gpufleet.results.accuracy import AccuracyReport, FileAccuracy, ScoredFigure, VerdictCounts

LONG_SOURCE = "github.com/some-organisation/some-project docs/source/performance/overview.md@{}"


def figures(source: str, ratio: float, count: int = 12) -> list[ScoredFigure]:
    return [
        ScoredFigure(
            file="t.csv",
            row=row,
            quantity="out_tokens_per_s",
            unit="tokens/s",
            measured=12345.0,
            predicted=12345.0 * ratio,
            low=12345.0 * ratio * 0.8,
            high=12345.0 * ratio * 1.2,
            grade="transferred",
            source=source,
            model_id="meta-llama/Llama-3.1-405B-Instruct-FP8",
            gpu_id="RTX-PRO-6000-Blackwell-Server",
            engine="tensorrt-llm",
        )
        for row in range(2, 2 + count)
    ]


def report_of(found: list[ScoredFigure]) -> AccuracyReport:
    file = FileAccuracy(
        file="measurements/inference_throughput.csv",
        kind="inference_throughput",
        num_rows=len(found),
        num_scored_rows=len(found),
        num_covered_rows=len(found),
        coverage_ratio=1.0,
        groups=all_groups("inference_throughput", found),
        worst=worst_first(found, 10),
        verdicts=VerdictCounts(num_ran=24, num_false_does_not_fit=1),
        left_out=[],
        without_prediction=[],
        figures=found,
    )
    return AccuracyReport(files=[file])


def test_the_headline_is_the_worst_group_and_pages_stay_in_80_columns() -> None:
    report = report_of([*figures(LONG_SOURCE.format("1111"), 1.1), *figures(LONG_SOURCE.format("2222"), 2.0)])
    assert "2222" in headline(report)
    assert "median error 100%" in headline(report)
    text = page_as_text(accuracy_page(report), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "1 of 24 runs that ran were said not to fit" in " ".join(text.split())


def test_a_figure_or_two_do_not_make_the_headline() -> None:
    report = report_of([*figures("many", 1.2), *figures("few", 9.0, count=2)])
    assert "median error 20%" in headline(report)


def test_exact_predictions_are_said_to_be_exact() -> None:
    assert headline(report_of(figures("a", 1.0))) == "Every prediction equals its measurement: 12 figures."


def test_names_that_differ_at_the_end_stay_apart_when_shortened() -> None:
    assert shortened(LONG_SOURCE.format("1111"), 22) != shortened(LONG_SOURCE.format("2222"), 22)
    assert len(shortened(LONG_SOURCE.format("1111"), 22)) <= 22


def test_what_was_left_out_stands_with_the_largest_error_first(tmp_path: Path) -> None:
    header = (
        "left_out,engine,era,source,quantity,rows,median_error_percent,mean_error_percent,bias_percent,in_range_percent"
    )
    table = tmp_path / "left_out_model.csv"
    table.write_text(f"{header}\nmodel,vllm,V1,good,tpot,20,9.1,13,1,80\nmodel,vllm,V1,bad,ttft,20,42.1,43,1,70\n")
    shown = left_out_table(table)
    assert shown.startswith("### Without the model")
    assert shown.index("bad") < shown.index("good")
