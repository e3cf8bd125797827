"""An answer on one screen: every part of it in a few lines, the rest by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from gpufleet.report.detail import Detail, Details
from gpufleet.report.money import page_in_shown_currency
from gpufleet.report.numbers import count, duration, plural, ranged_duration
from gpufleet.report.page import Columns, Page, Table, column, lines_table
from gpufleet.report.rented import NARROW_PAGE
from gpufleet.report.search import age_words, dated, preferred_line, rejection_table, source_day
from gpufleet.report.text import cut, page_as_text
from gpufleet.results.answer import PriceSource
from gpufleet.results.plan import RejectionCount, ServicePlan

if TYPE_CHECKING:
    from gpufleet.results.job import JobPlan
    from gpufleet.results.rented import RentedMachines

NUM_REASONS, NUM_ROWS, NUM_REJECTIONS = 6, 5, 3
LEAST_ROWS, SCREEN_LINES = 3, 45
MOST_OVER = NUM_ROWS - LEAST_ROWS + NUM_REJECTIONS + 1
FEWER_LEVERS, FEWER_ROWS = 2, 1
MOST_PRIORITY, MARGIN = 1, 2
LAYOUTS_OF_TRAINING = frozenset(
    {"training_heads", "training_batch", "training_chunks", "training_interleave", "training_pipeline_sharding",
     "training_sharding_alone", "training_sequence",
    "training_in_backward", "training_experts", "training_quantised",
     "training_counts", "training_no_layout"}
)  # fmt: skip
"""Rules of arithmetic that drop most layouts of every run: a screen names them where nothing else is to be told."""
NOT_TO_BE_HAD = LAYOUTS_OF_TRAINING | frozenset(
    {"link_unknown", "no_price", "unpriced", "no_curve", "unsupported_architecture", "architecture_of_newer_versions",
     "unsupported_device", "unsupported_weights", "device_lacks_weights", "device_runs_wider",
     "device_refuses_weights", "unmaintained_device", "training_device"}
)  # fmt: skip
"""Rules that hold whatever is rented: who could rent a machine asks first about the others."""


def screen_ranking(table: Table, width: int, num_rows: int | None, over: int = 0) -> Table:
    """The first rows of a ranking, fewer where so many lines are over; on a narrow page its essential columns alone."""
    least = LEAST_ROWS - max(over - MOST_OVER - FEWER_LEVERS, 0)
    columns = [c for c in table.columns if c.priority <= MOST_PRIORITY or width >= NARROW_PAGE or c.qualifies]
    return replace(
        table,
        columns=columns,
        rows=table.rows[: num_rows or max(NUM_ROWS - over, least)],
        notes=[],
    )


def screen_rejections(rejections: Sequence[RejectionCount], details: Details, width: int, over: int = 0) -> list[Table]:
    """The commonest reasons, first of what could have been rented, a line each; all of them where that is asked.

    Fewer where more lines are `over` than rows of the ranking make room for; then none, and a note says how many.
    """
    if Detail.REJECTED in details or not rejections:
        return [rejection_table(rejections, everything=True)]
    if is_crowded(over):
        return []
    telling = [r for r in rejections if r.code not in LAYOUTS_OF_TRAINING] or rejections
    ordered = sorted(telling, key=lambda r: (r.code in NOT_TO_BE_HAD, -r.count))
    most = min(NUM_REJECTIONS, max(NUM_REJECTIONS + NUM_ROWS - LEAST_ROWS - over, 0))
    digits = len(count(max(r.count for r in rejections)))
    lines = [f"{count(r.count):>{digits}}  {r.reason} ({r.best})" for r in ordered[:most]]
    return [lines_table(rejected_words(rejections), [cut(line, width - MARGIN) for line in lines])]


def rejected_words(rejections: Sequence[RejectionCount]) -> str:
    """How many candidates were rejected, for how many reasons, and how to see them."""
    total = plural(sum(r.count for r in rejections), "candidate")
    return f"Rejected: {total}, for {plural(len(rejections), 'reason')} (--show rejected)"


def one_screen(
    page: Page, rejections: Sequence[RejectionCount], tables: Callable[[int], list[Table]], details: Details, width: int
) -> Page:
    """A page with its tables, fewer lines of them where it has to fit one screen, as it does without `details`."""

    def screen(over: int) -> Page:
        hidden = [f"{rejected_words(rejections)}."] if rejections and is_crowded(over) else []
        return replace(page, tables=tables(over), notes=[*hidden, *page.notes])

    return screen(0 if details else lines_over(screen, width))


def lines_over(page: Callable[[int], Page], width: int) -> int:
    """The fewest lines that have to give way so that a page fits one screen; where it never does, all that may."""
    most = MOST_OVER + FEWER_LEVERS + FEWER_ROWS
    pages = ((over, page_in_shown_currency(page(over))) for over in range(most))
    return next((over for over, each in pages if page_as_text(each, width).count("\n") <= SCREEN_LINES), most)


def fewer_levers(over: int) -> int:
    """How many changes give way, where rows, rejections and what nobody doubts do not make room enough."""
    return min(max(over - MOST_OVER, 0), FEWER_LEVERS)


def is_crowded(over: int) -> bool:
    """Whether rows and rejections do not make room enough for the lines that are over."""
    return over >= MOST_OVER


def latency_line(plan: ServicePlan, is_brief: bool = False) -> str:
    """Every latency figure with its range, beside its limit; in brief those that have one.

    So: ttft.p95 301 (199-516) ms of 500 ms.
    """
    latency, limits = plan.deployments[0].latency, plan.objectives
    limited = {name: figure for name, figure in latency.items() if name in limits} if is_brief else {}
    said = (
        f"{name} {ranged_duration(figure.value, figure.low, figure.high)}"
        + (f" of {duration(limits[name])}" if name in limits else "")
        for name, figure in (limited or latency).items()
    )
    return f"{'; '.join(said)}."


def price_day_lines(sources: Sequence[PriceSource], answer: RentedMachines | None, today: date | None) -> list[str]:
    """Where the answer's price comes from and when it was seen, and the oldest of all that are shown."""
    if answer is None or not sources:
        return []
    said = f"Price: {answer.price_source} {answer.price_day}"
    days = [(s.as_of, s.id) for s in dated(sources) if s.as_of is not None]
    if not days:
        return [f"{said}."]
    day, source = min(days)
    if (source, day) == (answer.price_source, answer.stated_price_day):
        return [f"{said}{age_words(day, today)}, the oldest here."]
    return [f"{said}; oldest: {source}{age_words(day, today) or f' {day}'}."]


def price_table(sources: Sequence[PriceSource]) -> Table:
    """Every source of the shown prices with its day."""
    columns: Columns[PriceSource] = [
        column("source of prices", lambda s: s.id),
        column("day", lambda s: source_day(s).strip("()")),
        column("is", lambda s: s.title, wraps=True),
    ]
    return Table.of(sources, columns, "Prices, never live")


def screen_notes(
    plan: ServicePlan | JobPlan,
    said: Sequence[str],
    assumed: Sequence[str],
    today: date | None,
    questions: Sequence[str] = (),
) -> list[str]:
    """What is said of the question, what was assumed, the price's day, and what may be asked next."""
    return [
        *(f"{note.rstrip('.')}." for note in said),
        *preferred_line(plan.inputs),
        *assumed,
        *price_day_lines(plan.price_sources, plan.deployments[0], today),
        f"Ask on: {''.join(f'{question}, ' for question in questions)}--explain, --show limits or all.",
    ]
