"""What machines of a plan cost now, and how that stands to a budget."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.ask.watch.shape import AS_PLANNED, BROKEN, UNKNOWN, WatchedMachines, WatchedSpend
from gpufleet.languages import promql_string
from gpufleet.monitor.budget import INTERVAL_S, SPEND, UNSEEN, Budget, Clock
from gpufleet.monitor.machines_seen import MachineKind, labelled, machine_kinds, plan_label, seen_by_source
from gpufleet.monitor.measured import Ask, value_of
from gpufleet.monitor.promql import duration
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.units import HOUR

OVER = "over by its end"


def spend_of(ask: Ask, plan: WatchedPlan, budget: Budget | None) -> WatchedSpend:
    """Machines that are seen, what they cost, and what of a budget is gone."""
    machines = [machines_of(ask, kind) for kind in machine_kinds(plan)]
    seen = [each.seen * each.usd_per_hour for each in machines if each.seen is not None]
    burn = sum(seen) if len(seen) == len(machines) else None
    now = WatchedSpend(
        machines=machines, usd_per_hour=burn, planned_usd_per_hour=plan.usd_per_hour, unseen=list(UNSEEN)
    )
    return now if budget is None else now.model_copy(update=dict(against(ask, plan, budget, burn)))


def most_seen(kind: MachineKind) -> str:
    """The most that any source counts, as the guard's rules record it."""
    counted = [labelled(text, [("seen_by", source)]) for source, text in seen_by_source(kind).items()]
    return f"max({' or '.join(counted)})"


def machines_of(ask: Ask, kind: MachineKind) -> WatchedMachines:
    """Machines of one type: more than the plan ever has are a runaway."""
    seen = value_of(ask(most_seen(kind)))
    state = UNKNOWN if seen is None else BROKEN if seen > kind.most_machines else AS_PLANNED
    return WatchedMachines(
        instance=kind.instance,
        seen=seen,
        planned=kind.machines,
        most=kind.most_machines,
        usd_per_hour=kind.usd_per_hour,
        state=state,
    )


def against(ask: Ask, plan: WatchedPlan, budget: Budget, burn: float | None) -> Iterator[tuple[str, object]]:
    """What is said of a budget, by the names of the answer."""
    yield from {"budget_usd": budget.usd, "period": budget.period, "utc_offset_s": budget.utc_offset_s}.items()
    clock = Clock(budget.utc_offset_s)
    gone_s, left_s = value_of(ask(clock.gone(budget.period))), value_of(ask(clock.left(budget.period)))
    recorded = value_of(ask(f"sum({SPEND[budget.period]}{{plan={promql_string(plan_label(plan))}}})"))
    spent = recorded
    if spent is None and gone_s is not None:
        spent = value_of(ask(added_up(plan, gone_s)))
    forecast = None if spent is None or burn is None or left_s is None else spent + burn * left_s / HOUR
    yield "is_recorded", recorded is not None
    yield "spent_usd", spent
    yield "forecast_usd", forecast
    if forecast is not None and burn and spent is not None and gone_s is not None and spent < budget.usd < forecast:
        yield "gone_after_s", gone_s + (budget.usd - spent) / burn * HOUR
    yield "state", state_of(budget.usd, spent, forecast)


def added_up(plan: WatchedPlan, seconds: float) -> str:
    """What was spent since, from what each minute saw."""
    burn = [
        labelled(f"{most_seen(kind)} * {kind.usd_per_hour:.12g}", [("machine", kind.label)])
        for kind in machine_kinds(plan)
    ]
    step = f"{duration(INTERVAL_S * max(1, round(seconds / INTERVAL_S)))}:{duration(INTERVAL_S)}"
    return f"sum(sum_over_time(({' or '.join(burn)})[{step}])) / {HOUR / INTERVAL_S:g}"


def state_of(budget_usd: float, spent: float | None, forecast: float | None) -> str:
    """How a budget stands.

    >>> state_of(10.0, 11.0, 20.0), state_of(10.0, 2.0, 9.0), state_of(10.0, None, None)
    ('broken', 'as planned', 'unknown')
    """
    if spent is None:
        return UNKNOWN
    if spent >= budget_usd:
        return BROKEN
    return OVER if forecast is not None and forecast > budget_usd else AS_PLANNED
