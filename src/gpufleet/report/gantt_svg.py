"""A schedule as a picture: a bar for each job under its pool, maintenance behind, deadlines as ticks.

Drawn twice: for a page, where it also stands alone, and for a page as narrow as a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta

from gpufleet.records import dataclass
from gpufleet.report.axes import LinearAxis, time_ticks
from gpufleet.report.controls import printable
from gpufleet.report.markup import marked_up
from gpufleet.report.numbers import amount, duration
from gpufleet.report.page import Picture
from gpufleet.report.palette import themed
from gpufleet.report.svg import svg_document, written
from gpufleet.results.schedule import ScheduledPool, ScheduledRun, SchedulePlan
from gpufleet.units import DAY

RIGHT, TOP, BOTTOM, ROW_PX, BAR_PX = 20, 60, 34, 18, 12
MOST_BARS = 400
KEY = "bars run, ticks are deadlines, grey is maintenance"
LONGEST_BY_WEEKDAY_S = 27 * DAY
STYLE = f"""
{themed(".gantt", ("page", "ink", "soft", "grid", "line", "over"))}.gantt{{font:12px system-ui,sans-serif}}
.gantt .page{{fill:var(--page)}}.gantt text{{fill:var(--ink)}}.gantt .soft{{fill:var(--soft)}}
.gantt .head{{font-weight:600;font-size:15px}}.gantt .pool{{font-weight:600}}.gantt .grid{{stroke:var(--grid)}}
.gantt .out{{fill:var(--grid);opacity:.6}}.gantt .run{{fill:var(--line)}}.gantt .late{{fill:var(--over)}}
.gantt .wait{{stroke:var(--soft);stroke-dasharray:2 3}}.gantt .due{{stroke:var(--ink);stroke-width:2}}
.gantt .end{{text-anchor:end}}.gantt .mid{{text-anchor:middle}}
"""


@dataclass(frozen=True)
class Canvas:
    """Where moments stand, on a picture as wide as that, and how much of a name has room left of the bars."""

    plan: SchedulePlan
    width: int
    left: int
    most_letters: int
    most_ticks: int

    @property
    def axis(self) -> LinearAxis:
        """From the start to the end of all."""
        return LinearAxis(max(self.plan.makespan_s, self.plan.slot_s))

    def x(self, seconds: float) -> float:
        """Pixels from the left."""
        return self.left + self.axis.position(seconds) * (self.width - self.left - RIGHT)


def gantt_picture(plan: SchedulePlan) -> Picture | None:
    """The picture for a page and for a phone; nothing where nothing runs or bars would be too many."""
    if not plan.runs or len(plan.runs) > MOST_BARS:
        return None
    return Picture(svg_of(Canvas(plan, 900, 190, 30, 8)), svg_of(Canvas(plan, 360, 132, 16, 4)))


def svg_of(canvas: Canvas) -> str:
    """One picture that also stands alone, with the day on which the schedule begins, where it has one."""
    plan = canvas.plan
    used = [pool for pool in plan.pools if any(run.pool == pool.pool for run in plan.runs)]
    height = TOP + (len(plan.runs) + len(used)) * ROW_PX + BOTTOM
    since = "" if plan.start is None else plan.start.strftime(" from %d %b %Y")
    heads = [written(8, 20, f"Jobs over time{since}", "head"), written(8, 38, KEY, "soft")]
    parts = [*heads, *ticks(canvas, height), *rows(canvas, used)]
    return svg_document("gantt", canvas.width, height, "Jobs over time", STYLE, parts)


def ticks(canvas: Canvas, height: int) -> Iterator[str]:
    """Round moments: days where the schedule has a date and lasts for some."""
    plan, bottom = canvas.plan, height - BOTTOM
    found, show = time_ticks(canvas.axis.high, canvas.most_ticks)
    if plan.start is not None and plan.makespan_s > 2 * DAY:
        start = plan.start
        midnight = (start + timedelta(days=1)).replace(hour=0, minute=0, second=0)
        days = range(int(plan.makespan_s // DAY) + 1)
        found = [s for s in ((midnight - start).total_seconds() + day * DAY for day in days) if s <= plan.makespan_s]
        form = "%d %b" if plan.makespan_s > LONGEST_BY_WEEKDAY_S else "%a %d"
        show = lambda s: (start + timedelta(seconds=s)).strftime(form)  # noqa: E731
    every = max(math.ceil(len(found) / canvas.most_ticks), 1)
    for seconds in found[::every]:
        yield f'<path class="grid" d="M{canvas.x(seconds):.1f} {TOP - 8}V{bottom}"/>'
        yield written(canvas.x(seconds), bottom + 18, show(seconds), "soft mid")


def rows(canvas: Canvas, pools: Sequence[ScheduledPool]) -> Iterator[str]:
    """Every pool with its jobs in the order in which they begin."""
    y = float(TOP)
    for pool in pools:
        runs = sorted((run for run in canvas.plan.runs if run.pool == pool.pool), key=lambda run: run.start_s)
        for outage in pool.outages:
            left, right = canvas.x(outage.start_s), canvas.x(outage.end_s)
            height = (len(runs) + 1) * ROW_PX
            yield f'<rect class="out" x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{height}"/>'
        yield written(8, y + 13, f"{pool.pool}: {pool.gpus}x {pool.gpu}", "pool")
        for run in runs:
            y += ROW_PX
            yield from bar(canvas, run, y)
        y += ROW_PX


def bar(canvas: Canvas, run: ScheduledRun, y: float) -> Iterator[str]:
    """One job: how long it waited, when it runs, when it is due."""
    most = canvas.most_letters - len(f" {amount(run.gpus)}x")
    name = run.job if len(run.job) <= most else run.job[: most - 1] + "…"
    yield written(canvas.left - 8, y + 13, f"{name} {amount(run.gpus)}x", "end")
    middle = y + ROW_PX / 2
    yield f'<path class="wait" d="M{canvas.x(run.earliest_s):.1f} {middle:.1f}H{canvas.x(run.start_s):.1f}"/>'
    late = f", late by {duration(run.late_s)}" if run.late_s else ""
    for piece in run.pieces:
        left, right = canvas.x(piece.start_s), canvas.x(piece.end_s)
        hint = marked_up(
            printable(f"{run.job}: {amount(run.gpus)}x {run.gpu}, {duration(piece.end_s - piece.start_s)}{late}")
        )
        yield (
            f'<rect class="{"late" if run.late_s else "run"}" x="{left:.1f}" y="{y + 3:.1f}" '
            f'width="{max(right - left, 1):.1f}" height="{BAR_PX}" rx="2"><title>{hint}</title></rect>'
        )
    if run.deadline_s is not None and 0 <= run.deadline_s <= canvas.plan.makespan_s:
        yield f'<path class="due" d="M{canvas.x(run.deadline_s):.1f} {y + 1:.1f}V{y + ROW_PX - 1:.1f}"/>'
