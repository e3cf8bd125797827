"""Cost against latency: the front with other rows, or the rows alone, as drawings in characters and as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.records import dataclass
from gpufleet.report.axes import LogPlane, drawn_lines
from gpufleet.report.cost_plot import CostPlot, CostPoint, Ends, cost_picture, undominated
from gpufleet.report.numbers import duration, usd
from gpufleet.report.page import Column, Picture, Row, Table
from gpufleet.report.rented import gpus, marked, short_machines
from gpufleet.report.service_tables import bought, bought_columns
from gpufleet.report.words import copies_words
from gpufleet.results.base import Figure
from gpufleet.results.job import JobPlan
from gpufleet.results.plan import Deployment, Front, RentedService, ServePlan, ServicePlan
from gpufleet.results.rented import RentedMachines

MARKS, OTHER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "."
HOURLY = "per hour, all machines"
ONE_CHARACTER = 9
RANGES, FRONT_KEY, ROWS_KEY = "upright: 80% range", "line: nothing is cheaper and faster", "filled: no row beats it"
ROWS, LETTERS = "numbers: rows of the ranking", "letters: below"


@dataclass(frozen=True)
class FrontChart:
    """The points of a front with their marks, and the rows of the ranking that are not on it, with their numbers.

    A point is marked by its number in the ranking, and by a letter where it has none or one of two digits.
    """

    figure: str
    front: tuple[Deployment, ...]
    others: tuple[tuple[int, Deployment], ...]
    marks: tuple[str, ...]


def chart_of(front: Front, rows: Sequence[Deployment]) -> FrontChart:
    """What is drawn of a front among these rows."""
    places = {place_of(d, front.figure) for d in front.points}
    ranked = [(rank, d) for rank, d in enumerate(rows, 1) if front.figure in d.latency]
    others = tuple((rank, d) for rank, d in ranked if place_of(d, front.figure) not in places)
    numbers: dict[Ends, int] = {}
    for rank, d in ranked:
        numbers.setdefault(place_of(d, front.figure), rank)
    letters = iter(MARKS)
    ranks = [numbers.get(place_of(d, front.figure), len(rows) + ONE_CHARACTER) for d in front.points]
    marks = [str(rank) if rank <= ONE_CHARACTER else next(letters, OTHER) for rank in ranks]
    return FrontChart(front.figure, tuple(front.points), others, tuple(marks))


def place_of(d: RentedService, figure: str) -> Ends:
    """Cost and latency."""
    return d.usd_per_hour, d.latency[figure].value


def front_table(plan: ServePlan, front: Front, width: int) -> Table:
    """The front in characters and as a picture, and what each letter in it is."""
    chart = chart_of(front, plan.deployments)
    dots = [(*place_of(d, front.figure), OTHER) for _, d in chart.others]
    letters = [(*place_of(d, front.figure), mark) for d, mark in zip(chart.front, chart.marks, strict=True)]
    plane = LogPlane.around([(x, y) for x, y, _ in (*dots, *letters)])
    columns = [
        Column("mark", ""),
        Column("price", "$/h", align="right"),
        *bought_columns(front.points),
        Column("latency", front.figure, align="right"),
        Column("machines", "machines", wraps=True),
        Column("shape", "replicas", priority=1),
        Column("grade", "grade", priority=2),
    ]
    rows: list[Row] = [
        {
            "mark": mark,
            "price": marked(d, usd(d.usd_per_hour)),
            "bought": bought(d),
            "latency": duration(d.latency[front.figure].value),
            "machines": short_machines(d),
            "shape": copies_words(d),
            "grade": d.grade,
        }
        for mark, d in zip(chart.marks, front.points, strict=True)
    ]
    note = (
        "No other candidate is both cheaper and faster. Numbers: rows of the ranking, the others of them as "
        f"'{OTHER}' (open dots). Each has only as many machines as it needs."
    )
    return Table(
        columns,
        rows,
        f"Cost against {front.figure}: the front (log-log, $/h across)",
        [note],
        drawing=drawn_lines(plane, [*dots, *letters], width, usd, duration),
        picture=front_picture(plan, front),
        is_key=True,
    )


def front_picture(plan: ServePlan, front: Front) -> Picture | None:
    """The front as a picture, beside the rows that are not on it."""
    chart = chart_of(front, plan.deployments)
    best = [service_point(d, front.figure, m, True) for d, m in zip(chart.front, chart.marks, strict=True)]
    others = [service_point(d, front.figure, str(rank), False) for rank, d in chart.others]
    has_letters = any(mark.isalpha() for mark in chart.marks)
    key = [RANGES, FRONT_KEY, ROWS, *([LETTERS] if has_letters else [])]
    return cost_picture(CostPlot(HOURLY, front.figure, [*best, *others], key, plan.objectives.get(front.figure)))


def service_picture(plan: ServicePlan) -> Picture | None:
    """The rows of a service: what each costs, beside the latency that binds, or the last that is known."""
    figure = plan.deployments[0].binding
    shown = figure if figure in plan.deployments[0].latency else list(plan.deployments[0].latency)[-1]
    rows = [d for d in plan.deployments if shown in d.latency]
    best = undominated([place_of(d, shown) for d in rows])
    points = [service_point(d, shown, str(i), b) for i, (d, b) in enumerate(zip(rows, best, strict=True), 1)]
    return cost_picture(CostPlot(HOURLY, shown, points, [RANGES, ROWS_KEY], plan.objectives.get(shown), False))


def job_picture(plan: JobPlan) -> Picture | None:
    """The rows of a job: what each costs, beside the time until it is done."""
    rows = plan.deployments
    best = undominated([(d.usd.value, d.finish_s.value) for d in rows])
    points = [
        CostPoint(d.usd.value, d.finish_s.value, ends(d.usd), ends(d.finish_s), str(i), called(d), is_best)
        for i, (d, is_best) in enumerate(zip(rows, best, strict=True), 1)
    ]
    key = ["lines: 80% ranges", ROWS_KEY]
    limit = None if math.isinf(plan.deadline_s) else plan.deadline_s
    return cost_picture(CostPlot("for the job", "time until done", points, key, limit, False))


def service_point(d: RentedService, figure: str, mark: str, is_best: bool) -> CostPoint:
    """A row of a service."""
    latency = d.latency[figure]
    return CostPoint(d.usd_per_hour, latency.value, None, ends(latency), mark, called(d), is_best)


def called(d: RentedMachines) -> str:
    """GPUs and cloud: what a manager calls it."""
    return f"{gpus(d)}, {d.cloud}"


def ends(figure: Figure) -> Ends | None:
    """The range of a figure, where it has one."""
    low, high = figure.low, figure.high
    return None if low is None or high is None or math.isinf(high) else (low, high)
