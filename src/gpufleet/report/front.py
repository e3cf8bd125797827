"""The front of cost against latency: what is drawn, and the drawing in characters."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.records import dataclass
from gpufleet.report.front_svg import front_svg
from gpufleet.report.log_plane import WIDEST, LogPlane, drawn_lines
from gpufleet.report.numbers import duration, usd
from gpufleet.report.page import Column, Row, Table
from gpufleet.results.plan import Deployment, Front

MARKS, OTHER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "."


@dataclass(frozen=True)
class FrontChart:
    """Places of the front and of other rows, as (USD per hour, seconds)."""

    figure: str
    front: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    others: tuple[tuple[float, float], ...]


def chart_of(front: Front, rows: Sequence[Deployment]) -> FrontChart:
    """The points of a front, and the rows of the ranking that are not on it."""
    places = tuple(place_of(d, front.figure) for d in front.points)
    labels = tuple(f"{d.instance_count}x {d.cloud} {d.instance.removeprefix('Standard_')}" for d in front.points)
    others = tuple(p for d in rows if front.figure in d.latency and (p := place_of(d, front.figure)) not in places)
    return FrontChart(front.figure, places, labels, others)


def place_of(d: Deployment, figure: str) -> tuple[float, float]:
    """Cost and latency."""
    return d.usd_per_hour, d.latency[figure].value


def front_table(front: Front, rows: Sequence[Deployment], width: int) -> Table:
    """The front in characters and as a picture, and what each letter in it is."""
    chart = chart_of(front, rows)
    plane = LogPlane.around([*chart.front, *chart.others])
    dots = [(x, y, OTHER) for x, y in chart.others]
    letters = [(x, y, mark) for (x, y), mark in zip(chart.front, MARKS, strict=False)]
    columns = [
        Column("mark", ""),
        Column("price", "$/h", align="right"),
        Column("latency", front.figure, align="right"),
        Column("machines", "machines", wraps=True),
        Column("shape", "replicas", priority=1),
        Column("grade", "grade", priority=2),
    ]
    note = (
        f"No other candidate is both cheaper and faster. Other rows: '{OTHER}' (open dots). Each row has only as many "
        "machines as it needs."
    )
    return Table(
        columns,
        [front_row(mark, d, front.figure) for mark, d in zip(MARKS, front.points, strict=False)],
        f"Cost against {front.figure}: the front (log-log, $/h across)",
        [note],
        drawing=drawn_lines(plane, [*dots, *letters], width, usd, duration),
        picture=front_svg(chart.figure, chart.front, chart.labels, chart.others, plane),
    )


def front_picture(front: Front, rows: Sequence[Deployment]) -> str:
    """The picture alone, as a document."""
    return front_table(front, rows, WIDEST).picture


def front_row(mark: str, d: Deployment, figure: str) -> Row:
    """One point of the front."""
    return {
        "mark": mark,
        "price": usd(d.usd_per_hour),
        "latency": duration(d.latency[figure].value),
        "machines": f"{d.instance_count}x {d.cloud} {d.instance.removeprefix('Standard_')}",
        "shape": f"{d.replicas}x {d.layout} {d.weight_format}",
        "grade": d.grade,
    }
