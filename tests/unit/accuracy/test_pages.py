"""How scores are shown: misses first, never wider than the page, names told apart."""

from __future__ import annotations

from gpufleet.accuracy.grouping import all_groups
from gpufleet.accuracy.statistics import worst_first
from gpufleet.report.accuracy import accuracy_in_full_page, accuracy_page, headline, shortened
from gpufleet.report.formats import page_as_markdown
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
    assert "1 of 24 runs that ran were predicted not to fit" in " ".join(text.split())


def test_a_figure_or_two_do_not_make_the_headline() -> None:
    report = report_of([*figures("many", 1.2), *figures("few", 9.0, count=2)])
    assert "median error 20%" in headline(report)


def test_exact_predictions_are_said_to_be_exact() -> None:
    assert headline(report_of(figures("a", 1.0))) == "Every prediction equals its measurement: 12 figures."


def test_names_that_differ_at_the_end_stay_apart_when_shortened() -> None:
    assert shortened(LONG_SOURCE.format("1111"), 22) != shortened(LONG_SOURCE.format("2222"), 22)
    assert len(shortened(LONG_SOURCE.format("1111"), 22)) <= 22


def test_ranges_stand_below_errors_where_the_page_is_narrow_and_beside_them_where_it_is_wide() -> None:
    report = report_of([*figures("one", 1.1), *figures("two", 2.0)])
    text = page_as_text(accuracy_page(report), 80)
    (ranges,) = [block for block in text.split("\n\n") if block.startswith("inference_throughput: ranges")]
    assert ranges.splitlines()[1].split() == ["all", "quantity", "held", "drawn", "parties", "width"]
    assert ranges.splitlines()[3].split() == ["all", "out_tokens_per_s", "50%", "0-100%", "2", "±22%"]
    wide = page_as_markdown(accuracy_in_full_page(report))
    assert "| all | quantity | rows | cover | median | mean | bias | held | drawn | parties | width |" in wide
    assert ": ranges" not in wide


def test_exact_figures_have_no_table_of_ranges() -> None:
    points = [figure.model_copy(update={"low": 12345.0, "high": 12345.0}) for figure in figures("a", 1.0)]
    assert ": ranges" not in page_as_text(accuracy_page(report_of(points)), 80)
