"""What a plan's copies do now, as a page."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from gpufleet.ask.watch.shape import WatchedFigure, WatchedMachines, WatchedNow, WatchedSpend
from gpufleet.report.numbers import UNKNOWN, duration, percent, ranged, ranged_duration, significant, usd, usd_per_hour
from gpufleet.report.page import Page, Table, column, number
from gpufleet.units import DAY, HOUR, MINUTE

WORDS = {
    "requests_per_s": "requests",
    "output_tokens_per_s": "output tokens",
    "running": "requests running",
    "waiting": "requests waiting",
    "kv_use_ratio": "KV cache in use",
    "gpus": "GPUs",
}
PER_S = {"requests_per_s", "output_tokens_per_s"}
NOTHING = "-"


def watched_page(found: WatchedNow) -> Page:
    """Measured beside planned, then money."""
    several = len({each.copies for each in found.figures}) > 1
    columns = [
        column("figure", lambda f: WORDS.get(f.name, f.name), key="name"),
        number("measured", measured, key="measured"),
        number("planned", planned, key="planned"),
        number("limit", limit, key="limit"),
        column("state", lambda f: f.state or NOTHING),
    ]
    if several:
        columns.insert(0, column("copies", lambda f: f.copies))
    tables = [Table.of(found.figures, columns, "Measured beside planned")]
    if found.spend is not None:
        tables.append(machines_table(found.spend))
    return Page(headline(found), tables, found.notes)


def headline(found: WatchedNow) -> str:
    """Whether anything is broken, and how the money stands."""
    state = f"Broken: {', '.join(found.broken)}." if found.broken else "Nothing that is measured breaks the plan."
    return " ".join([state, *money(found.spend)])


def money(spend: WatchedSpend | None) -> Iterator[str]:
    """What is paid now, and what of the budget is gone."""
    if spend is None:
        return
    yield f"Machines seen cost {usd_per_hour(spend.usd_per_hour)}, planned {usd_per_hour(spend.planned_usd_per_hour)}."
    if spend.budget_usd is None:
        return
    period = "today" if spend.period == "day" else "this month"
    if spend.spent_usd is None:
        yield f"What was spent {period} is unknown."
        return
    share = percent(spend.spent_usd / spend.budget_usd)
    yield f"Spent {period}: {usd(spend.spent_usd)}, {share} of {usd(spend.budget_usd)}."
    if spend.gone_after_s is not None:
        yield f"All of it is gone by {moment(spend)}."
    elif spend.forecast_usd is not None:
        yield f"By the {spend.period}'s end: {usd(spend.forecast_usd)}."


def moment(spend: WatchedSpend) -> str:
    """When a budget is gone, by the clock that it was stated with.

    >>> budget = {"machines": [], "usd_per_hour": 1.0, "planned_usd_per_hour": 1.0, "gone_after_s": 54000.0}
    >>> moment(WatchedSpend(period="day", **budget))
    '15:00 (UTC)'
    >>> moment(WatchedSpend(period="month", utc_offset_s=-18000.0, **budget))
    'day 1, 15:00 (UTC-05:00)'
    """
    after_s = spend.gone_after_s or 0.0
    of_day = after_s % DAY
    clock = f"{floor(of_day / HOUR):02d}:{floor(of_day % HOUR / MINUTE):02d} ({zone(spend.utc_offset_s)})"
    return clock if spend.period == "day" else f"day {floor(after_s / DAY) + 1}, {clock}"


def zone(utc_offset_s: float) -> str:
    """A clock by its distance from UTC."""
    if not utc_offset_s:
        return "UTC"
    size = abs(utc_offset_s)
    return f"UTC{'-' if utc_offset_s < 0 else '+'}{floor(size / HOUR):02d}:{floor(size % HOUR / MINUTE):02d}"


def measured(figure: WatchedFigure) -> str:
    """What is measured, in the unit that people read."""
    return UNKNOWN if figure.measured is None else shown(figure, figure.measured)


def planned(figure: WatchedFigure) -> str:
    """What the plan says, with its range."""
    if figure.planned is None:
        return NOTHING if figure.high is None else f"up to {shown(figure, figure.high)}"
    if figure.unit == "s":
        return ranged_duration(figure.planned, figure.low, figure.high)
    low, high = figure.low, figure.high
    return ranged(figure.planned, low, high) if low is not None else shown(figure, figure.planned)


def limit(figure: WatchedFigure) -> str:
    """What breaks it."""
    return NOTHING if figure.limit is None else shown(figure, figure.limit)


def shown(figure: WatchedFigure, value: float) -> str:
    """A value in the unit of its figure."""
    if figure.unit == "s":
        return duration(value)
    if figure.name == "kv_use_ratio":
        return percent(value)
    return f"{significant(value)}/s" if figure.name in PER_S else whole(value)


def whole(value: float) -> str:
    """A count without decimals that say nothing.

    >>> whole(5.0), whole(1234.0), whole(0.5)
    ('5', '1,234', '0.500')
    """
    return f"{value:,.0f}" if value == round(value) else significant(value)


def machines_table(spend: WatchedSpend) -> Table:
    """Machines that are seen beside those of the plan."""

    def seen(each: WatchedMachines) -> str:
        return UNKNOWN if each.seen is None else whole(each.seen)

    columns = [
        column("machines", lambda m: m.instance),
        number("seen", seen),
        number("planned", lambda m: str(m.planned)),
        number("at most", lambda m: str(m.most)),
        number("each", lambda m: usd_per_hour(m.usd_per_hour)),
        column("state", lambda m: m.state),
    ]
    return Table.of(spend.machines, columns, "Machines")
