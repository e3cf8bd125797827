"""Runs of a benchmark of one's own beside what is predicted of them: one screen, the side that we err on first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from gpufleet.report.numbers import count, percent, plural, significant
from gpufleet.report.page import Column, Page, Table
from gpufleet.results.accuracy import AccuracyReport, ScoredFigure, ScoredRun

ESTABLISHED = 0.03
FEW_RUNS = 3
SHORT = {"ttft": "TTFT", "tpot": "TPOT", "latency": "E2E"}
MIDDLES, TAILS = ("mean", "p50"), ("p95", "p99", "p90")


def runs_page(report: AccuracyReport) -> Page:
    """All runs, each with its measured and predicted times, the ratio and whether the range holds it."""
    runs = [run for file in report.files for run in file.runs]
    is_short = len(runs) > FEW_RUNS
    rows = [row for run in runs for row in rows_of(run, (MIDDLES,) if is_short else (MIDDLES, TAILS))]
    doubts = dict.fromkeys(doubt for run in runs for doubt in run.doubts)
    hidden = ["Each run's middle is shown; --rows OUT.csv has its percentiles too."] if is_short else []
    legend = "Times in ms; a run is its load and its tokens in and out; held: within low to high, as 8 of 10 should be."
    further = [note for file in report.files for note in file.notes]
    columns = [
        Column("run", "run"),
        Column("quantity", "quantity"),
        Column("measured", "measured", show=shown, align="right"),
        Column("predicted", "predicted", show=shown, align="right"),
        Column("range", "low to high", align="right"),
        Column("ratio", "ratio", align="right"),
        Column("held", "held"),
    ]
    return Page(
        headline(runs), [Table(columns, rows, empty="nothing was measured")], [legend, *doubts, *hidden, *further]
    )


def headline(runs: Sequence[ScoredRun]) -> str:
    """How many figures lie in their ranges, and on which side predictions err."""
    compared = [f for run in runs for f in run.figures if f.measured is not None and f.predicted is not None]
    if not compared:
        return f"{plural(len(runs), 'run')}, of which none can be compared: {reason_of(runs)}."
    held = sum(is_held(figure) for figure in compared)
    ratio = median((f.predicted or 0.0) / (f.measured or 1.0) for f in compared)
    return (
        f"{plural(len(runs), 'run')}: {count(held)} of {plural(len(compared), 'figure')} in their ranges; "
        f"{side(ratio)}."
    )


def side(ratio: float) -> str:
    """On which side predictions err.

    >>> side(0.88), side(1.01)
    ('we predict 12% too fast (median)', 'we err to neither side (median ratio 1.01)')
    """
    if abs(ratio - 1) < ESTABLISHED:
        return f"we err to neither side (median ratio {ratio:.2f})"
    return f"we predict {percent(abs(ratio - 1))} too {'fast' if ratio < 1 else 'slow'} (median)"


def rows_of(run: ScoredRun, wanted: Sequence[Sequence[str]]) -> Iterator[dict[str, object]]:
    """The wanted statistics of each time of a run, the first of each that it has; its name stands once."""
    by_name = {figure.quantity: figure for figure in run.figures}
    name = run.name
    for time in SHORT:
        for statistics in wanted:
            figure = next((f for s in statistics if (f := by_name.get(f"{time}_{s}")) is not None), None)
            if figure is not None:
                yield row_of(name, figure)
                name = ""


def row_of(name: str, figure: ScoredFigure) -> dict[str, object]:
    """A figure as a row."""
    time, _, statistic = figure.quantity.partition("_")
    is_compared = figure.measured and figure.predicted is not None
    return {
        "run": name,
        "quantity": f"{SHORT[time]}{'' if statistic == 'mean' else ' ' + statistic}",
        "measured": figure.measured,
        "predicted": figure.predicted,
        "range": f"{shown(figure.low)} to {shown(figure.high)}",
        "ratio": f"{figure.predicted / figure.measured:.2f}" if is_compared else "-",  # type: ignore[operator]
        "held": ("yes" if is_held(figure) else "no") if is_compared else figure.reason or "-",
    }


def is_held(figure: ScoredFigure) -> bool:
    """Whether the range of a figure has its measurement."""
    measured, low, high = figure.measured, figure.low, figure.high
    return measured is not None and low is not None and low <= measured and (high is None or measured <= high)


def shown(value: object) -> str:
    """A number of milliseconds."""
    return "-" if value is None else significant(float(str(value)))


def reason_of(runs: Sequence[ScoredRun]) -> str:
    """Why the first run has no prediction."""
    return next((f.reason for run in runs for f in run.figures if f.reason), "nothing was measured")
