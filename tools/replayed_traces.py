"""Replays single requests that somebody published, and shows p50 and p95 of TTFT and latency beside the measured ones.

    python -m tools.replayed_traces MEASUREMENTS.csv [--picture OUT.svg]

MEASUREMENTS.csv is a file of the kind serving_under_load with a folder `request_traces` beside it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.panels import milliseconds
from gpufleet.accuracy.score import score_row
from gpufleet.accuracy.serving_under_load import has_trace, replay_under_load
from gpufleet.accuracy.statistics import is_predicted
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.report.formats import table_as_markdown
from gpufleet.report.measured_plot import DISC, INKS, SQUARE, Panel, Series, plot_as_svg
from gpufleet.report.numbers import or_dash, significant
from gpufleet.report.page import Column, Table
from gpufleet.results.accuracy import ScoredFigure

SHOWN = ("ttft_p50", "ttft_p95", "latency_p50", "latency_p95")
MARKS = {"p50": DISC, "p95": SQUARE}
TITLE = "Published requests, replayed one by one"


def replayed_rows(path: str) -> list[tuple[MeasurementRow, list[ScoredFigure]]]:
    """Every row whose requests lie beside the file, and its figures."""
    models = ModelFinder()
    rows = [row for row in read_measurements(path).rows if has_trace(row, path)]
    return [(row, list(score_row(replay_under_load, row, path, models).figures)) for row in rows]


def comparison_table(rows: Sequence[tuple[MeasurementRow, list[ScoredFigure]]]) -> Table:
    """One line for each experiment: measured and replayed."""
    ends = ("measured", "predicted")
    columns = [Column("id", "experiment")] + [
        Column(f"{name} {end}", f"{name} {end}", show=or_dash(significant), align="right")
        for name in SHOWN
        for end in ends
    ]
    cells = [
        {"id": row.text("id"), **{f"{f.quantity} {end}": getattr(f, end) for f in figures for end in ends}}
        for row, figures in rows
    ]
    return Table(columns, [{column.key: row.get(column.key) for column in columns} for row in cells], title=TITLE)


def panels(figures: Sequence[ScoredFigure]) -> list[Panel]:
    """TTFT and latency, measured against replayed: a colour for each group, discs for p50 and squares for p95."""
    groups = list(dict.fromkeys(figure.group for figure in figures))
    found = []
    for time in ("ttft", "latency"):
        points: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for figure in figures:
            name, _, statistic = figure.quantity.partition("_")
            if name == time and statistic in MARKS and is_predicted(figure):
                points[figure.group, statistic].append((figure.measured or 0.0, figure.predicted or 0.0))
        series = [
            Series(f"{group.split('|')[0]}, {statistic}", INKS[groups.index(group)], MARKS[statistic], there)
            for (group, statistic), there in points.items()
        ]
        found.append(Panel(time.upper() if time == "ttft" else time, "measured against replayed", series, milliseconds))
    return found


def main() -> None:
    """Print the table, and draw the picture where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements")
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    rows = replayed_rows(asked.measurements)
    print(table_as_markdown(comparison_table(rows)))
    if asked.picture is not None:
        figures = [figure for _, each in rows for figure in each]
        asked.picture.write_text(plot_as_svg(panels(figures), TITLE), encoding="utf-8")


if __name__ == "__main__":
    main()
