"""Whether what is measured of copies, and what they cost, is what their plan and a budget say."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.ask.watch.shape import AS_PLANNED, BROKEN, UNKNOWN, WatchedFigure, WatchedMachines, WatchedSpend
from gpufleet.languages import promql_string
from gpufleet.monitor.budget import INTERVAL_S, SPEND, UNSEEN, Budget, Clock
from gpufleet.monitor.machines_seen import MachineKind, labelled, machine_kinds, plan_label, seen_by_source
from gpufleet.monitor.measured import COPIES, GPUS, KV, Ask, Values, value_of
from gpufleet.monitor.promql import duration
from gpufleet.monitor.watched import Range, WatchedCopies, WatchedPlan
from gpufleet.units import HOUR

ABOVE, BELOW, OVER = "above plan", "below plan", "over by its end"


def figures_of(copies: WatchedCopies, measured: Values) -> Iterator[WatchedFigure]:
    """All figures of a group of copies, latencies first."""
    for label, expected in copies.latency.items():
        yield latency(copies, label, expected, measured.get(label))
    yield requests(copies, measured.get("requests_per_s"))
    yield tokens(copies, measured)
    most = copies.most_running * copies.most_copies
    yield plain(copies, "running", "requests", measured.get("running"), high=most)
    yield plain(copies, "waiting", "requests", measured.get("waiting"))
    yield plain(copies, KV, "1", measured.get(KV))
    yield counted(copies, COPIES, 1, measured.get(COPIES))
    if GPUS in measured:
        yield counted(copies, GPUS, copies.gpus_per_replica, measured[GPUS])


def latency(copies: WatchedCopies, label: str, expected: Range, measured: float | None) -> WatchedFigure:
    """A latency against its limit, else against its range."""
    limit = copies.objectives.get(label)
    is_broken = measured is not None and limit is not None and measured > limit
    state = BROKEN if is_broken else within(measured, expected.low, expected.high)
    return WatchedFigure(
        copies=copies.name,
        name=label,
        unit="s",
        measured=measured,
        planned=expected.value,
        low=expected.low,
        high=expected.high,
        limit=limit,
        state=state,
    )


def within(measured: float | None, low: float | None, high: float | None) -> str:
    """Where a value stands to a range.

    >>> within(3.0, 1.0, 2.0), within(None, 1.0, 2.0)
    ('above plan', 'unknown')
    """
    if measured is None:
        return UNKNOWN
    if high is not None and measured > high:
        return ABOVE
    return BELOW if low is not None and measured < low else AS_PLANNED


def requests(copies: WatchedCopies, measured: float | None) -> WatchedFigure:
    """The rate against what was asked for, and against what the copies carry."""
    most = copies.requests_per_s_capacity.value * copies.most_copies / copies.replicas
    state = BROKEN if measured is not None and measured > most else within(measured, None, copies.requests_per_s)
    return plain(copies, "requests_per_s", "1/s", measured, planned=copies.requests_per_s, limit=most, state=state)


def tokens(copies: WatchedCopies, measured: Values) -> WatchedFigure:
    """Tokens a second beside those of the planned rate."""
    planned = copies.requests_per_s * copies.output_tokens
    value = measured.get("output_tokens_per_s")
    return plain(copies, "output_tokens_per_s", "tokens/s", value, planned=planned, state=within(value, None, planned))


def counted(copies: WatchedCopies, name: str, of_each: int, measured: float | None) -> WatchedFigure:
    """A count: fewer than planned, or than a law's fewest, break the promise; more than planned, or its most, cost."""
    law = copies.law
    least, most = (copies.replicas, copies.replicas) if law is None else (law.least, law.most)
    is_broken = measured is not None and measured < of_each * least
    state = BROKEN if is_broken else within(measured, of_each * least, of_each * most)
    planned, high = (float(of_each * least), None) if law is None else (None, float(of_each * most))
    return plain(copies, name, "of them", measured, planned=planned, high=high, state=state)


def plain(
    copies: WatchedCopies,
    name: str,
    unit: str,
    measured: float | None,
    *,
    planned: float | None = None,
    high: float | None = None,
    limit: float | None = None,
    state: str | None = None,
) -> WatchedFigure:
    """A figure, by what is known of it."""
    told = state if state is not None else UNKNOWN if measured is None else ""
    return WatchedFigure(
        copies=copies.name, name=name, unit=unit, measured=measured, planned=planned, high=high, limit=limit, state=told
    )


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
    state = BROKEN if seen is not None and seen > kind.most_machines else within(seen, kind.least_machines, None)
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
