"""What copies of a plan do now and what they cost, beside what the plan says."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result

BROKEN, AS_PLANNED, UNKNOWN = "broken", "as planned", "unknown"


class WatchedFigure(Result):
    """One figure of a group of copies, measured and planned, in `unit`; None where it is unknown or not planned.

    `low` and `high` are the plan's range, `limit` what breaks it. `state`: broken, above plan, below plan, as planned,
    unknown; empty where nothing is planned.
    """

    copies: str
    name: str
    unit: str
    measured: float | None
    planned: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    state: str = ""


class WatchedMachines(Result):
    """Machines of one type: how many are seen, by what counts most, planned and meant at most; USD an hour of one."""

    instance: str
    seen: float | None
    planned: int
    most: int
    usd_per_hour: float
    state: str = ""


class WatchedSpend(Result):
    """What machines cost now, and of a budget what is spent and what will be at the period's end.

    It is gone `gone_after_s` after the period began, where that is before its end. `is_recorded`: by the guard's own
    rules; else added up from what Prometheus still has. `unseen` is never in it.
    """

    machines: list[WatchedMachines]
    usd_per_hour: float | None
    planned_usd_per_hour: float
    budget_usd: float | None = None
    period: str = ""
    utc_offset_s: float = 0.0
    spent_usd: float | None = None
    forecast_usd: float | None = None
    gone_after_s: float | None = None
    is_recorded: bool = False
    state: str = ""
    unseen: list[str] = []


class WatchedNow(Answer):
    """All figures of a plan's copies at one moment. `broken` names what is; nothing is: `is_kept`.

    `source` is prometheus or engines; `spend` is None where engines alone were read.
    """

    plan_hash: str
    source: str
    figures: list[WatchedFigure]
    spend: WatchedSpend | None = None
    broken: list[str] = []
    is_kept: bool = True
