"""A guard on the money of a plan, as rules of Prometheus: machines that are seen now times what they cost in the plan.

Spend of a day is the sum of what each minute saw. PromQL has no "since midnight": each minute's price is recorded with
the day of the month as a label (`count_values`), and the sum takes those of today. Spend of a month is carried from
minute to minute, as Prometheus forgets after 15 days by default; it outlives a gap of two days. Days are counted in
UTC: `utc_offset_s` moves midnight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.errors import UsageError
from gpufleet.languages import promql_string
from gpufleet.monitor.copies_commands import planned_copies
from gpufleet.monitor.machines_seen import SOURCES, MachineKind, labelled, machine_kinds, plan_label, seen_by_source
from gpufleet.monitor.rules import CRITICAL, INFO, WARNING, Alert, Proof, Recorded, RuleGroup, Series
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.records import dataclass
from gpufleet.units import DAY, HOUR, MINUTE, PERCENT

INTERVAL_S = MINUTE
STEPS = {50: INFO, 80: WARNING, 100: CRITICAL}
"""Shares of the budget that are told, in per cent; judgements, those of the clouds' own budgets."""
RUNAWAY_FOR_S, FORECAST_FOR_S, UNSEEN_FOR_S = 5 * MINUTE, 10 * MINUTE, 5 * MINUTE
"""Judgements: a machine that replaces another stands beside it for some minutes."""
PARTLY_FOR_S, LEAST_SEEN_RATIO = HOUR, 0.95
"""Judgements: how much of a day may go by unseen before its spend is called incomplete."""
CLOSE_RATIO = 1e-9
"""Of a price that is the part of a sum, and so not the price to its last digit."""
CARRIED_OVER = "2d"
"""The longest gap that the sum of a month outlives."""
PRICE, MOST = "gpufleet:price:usd_per_hour", "gpufleet:limit:machines"
BY_SOURCE, SEEN = "gpufleet:machines:by_source", "gpufleet:machines:seen"
BURN, BURN_OF_DAY = "gpufleet:burn:usd_per_hour", "gpufleet:burn:usd_per_hour_of_day"
SPEND = {"day": "gpufleet:spend:usd_today", "month": "gpufleet:spend:usd_this_month"}
SEEN_RATIO = {"day": "gpufleet:seen:ratio_of_day", "month": "gpufleet:seen:ratio_of_month"}
SEEN_S = "gpufleet:seen:s_this_month"
FORECAST, BUDGET, GONE_AT = "gpufleet:forecast:usd", "gpufleet:budget:usd", "gpufleet:budget:gone_at_s"
UNSEEN = (
    "machines that no exporter, engine or node tells of",
    "disks, egress, addresses, load balancers and support",
    "taxes, discounts and credits of your account",
    "spend before the guard was started, and while Prometheus was down",
)
"""What the guard cannot see, to be said wherever its figures are shown."""


@dataclass(frozen=True)
class Budget:
    """USD that may be spent in a `day` or a `month`, which begin at midnight of a clock that far ahead of UTC."""

    usd: float
    period: str
    utc_offset_s: float = 0.0

    def refuse_below(self, plan: WatchedPlan) -> None:
        """A budget that does not pay one machine for an hour guards nothing."""
        dearest = max(machine_kinds(plan), key=lambda kind: kind.usd_per_hour)
        if self.usd < dearest.usd_per_hour * (1 - CLOSE_RATIO):
            raise UsageError(
                f"the budget does not pay one {dearest.instance} for an hour",
                found=f"{self.usd:g} USD a {self.period}",
                expected=f"{dearest.usd_per_hour:g} USD a {self.period} or more",
            )


def budget_guard(plan: WatchedPlan, budget: Budget) -> RuleGroup:
    """The rules that guard the money of a plan."""
    budget.refuse_below(plan)
    clock, name = Clock(budget.utc_offset_s), plan_label(plan)
    of_plan = f"{{plan={promql_string(name)}}}"
    recorded = [
        *(rule for kind in machine_kinds(plan) for rule in of_machines(kind, plan)),
        Recorded(BURN, f"sum by (plan) ({SEEN}{of_plan} * on (plan, machine) {PRICE}{of_plan})"),
        Recorded(BURN_OF_DAY, f"{BURN}{of_plan} * on () group_left (day) {clock.day}"),
        Recorded(SPEND["day"], f"{summed(BURN_OF_DAY, of_plan, clock, 'sum')} / {HOUR / INTERVAL_S:g}"),
        Recorded(SPEND["month"], carried(SPEND["month"], f"{BURN}{of_plan} / {HOUR / INTERVAL_S:g}", of_plan, clock)),
        Recorded(SEEN_S, carried(SEEN_S, f"({BURN}{of_plan} * 0 + {INTERVAL_S:g})", of_plan, clock)),
        Recorded(
            SEEN_RATIO["day"],
            f"{summed(BURN_OF_DAY, of_plan, clock, 'count')} * {INTERVAL_S:g}"
            f" / on () group_left () {clock.gone('day')}",
        ),
        Recorded(SEEN_RATIO["month"], f"sum by (plan) ({SEEN_S}{of_plan}) / on () group_left () {clock.gone('month')}"),
        Recorded(BUDGET, f"vector({budget.usd:.12g})", {"plan": name, "period": budget.period}),
        Recorded(FORECAST, forecast(budget, of_plan, clock)),
        Recorded(GONE_AT, gone_at(budget, of_plan)),
    ]
    return RuleGroup(
        f"gpufleet-budget-{plan_label(plan)}", INTERVAL_S, recorded, list(alerts_of(plan, budget, of_plan))
    )


@dataclass(frozen=True)
class Clock:
    """Days and months of a clock, in PromQL; each is a series with the label that names it and the value 1."""

    utc_offset_s: float

    @property
    def now(self) -> str:
        """Seconds of that clock since 1970."""
        return f"vector(time() + {self.utc_offset_s:g})" if self.utc_offset_s else "vector(time())"

    @property
    def day(self) -> str:
        """The day of the month as the label `day`."""
        return f'count_values("day", day_of_month({self.now}))'

    @property
    def month(self) -> str:
        """The month of the year as the label `month`."""
        return f'count_values("month", month({self.now}))'

    def gone(self, period: str) -> str:
        """Seconds since the period began, a minute at least."""
        today = f"{self.now} % {DAY:g}"
        seconds = today if period == "day" else f"(day_of_month({self.now}) - 1) * {DAY:g} + {today}"
        return f"clamp_min({seconds}, {INTERVAL_S:g})"

    def left(self, period: str) -> str:
        """Seconds until the period ends."""
        days = "" if period == "day" else f"(days_in_month({self.now}) - day_of_month({self.now})) * {DAY:g} + "
        return f"({days}{DAY:g} - {self.now} % {DAY:g})"


def of_machines(kind: MachineKind, plan: WatchedPlan) -> Iterator[Recorded]:
    """What one machine costs, how many may run, and how many are seen, by source and at most."""
    labels = {"plan": plan_label(plan), "machine": kind.label}
    yield Recorded(PRICE, f"vector({kind.usd_per_hour:.12g})", labels)
    yield Recorded(MOST, f"vector({kind.most_machines})", labels)
    for source, expression in seen_by_source(kind).items():
        yield Recorded(BY_SOURCE, expression, {**labels, "seen_by": source})
    yield Recorded(SEEN, f"max by (plan, machine) ({BY_SOURCE}{of_machine(kind, plan)})", labels)


def of_machine(kind: MachineKind, plan: WatchedPlan) -> str:
    """The labels that tell a kind of machine of a plan."""
    return f"{{plan={promql_string(plan_label(plan))},machine={promql_string(kind.label)}}}"


def summed(series: str, of_plan: str, clock: Clock, how: str) -> str:
    """What samples of today add up to."""
    return f"sum by (plan) ({how}_over_time({series}{of_plan}[1d]) * on (day) group_left () {clock.day})"


def carried(series: str, each_time: str, of_plan: str, clock: Clock) -> str:
    """A sum over the month: what it was, and what came since; where nothing is seen it stands still."""
    before = f"max_over_time({series}{of_plan}[{CARRIED_OVER}]) * on (month) group_left () {clock.month}"
    new = f"{each_time} * on () group_left (month) {clock.month}"
    parts = " or ".join(labelled(part, [("part", name)]) for name, part in (("before", before), ("new", new)))
    return f"sum by (plan, month) ({parts})"


def spent(budget: Budget, of_plan: str) -> str:
    """What was spent in the budget's period."""
    return f"sum by (plan) ({SPEND[budget.period]}{of_plan})"


def forecast(budget: Budget, of_plan: str, clock: Clock) -> str:
    """What will have been spent at the period's end, if the machines of now run on."""
    rest = f"{BURN}{of_plan} * on () group_left () {clock.left(budget.period)} / {HOUR:g}"
    return f"{spent(budget, of_plan)} + on (plan) ({rest})"


def gone_at(budget: Budget, of_plan: str) -> str:
    """When the budget is gone, in seconds since 1970; nothing where it is not within the period, or is gone already."""
    rest = f"(({budget.usd:.12g} - {spent(budget, of_plan)}) > 0)"
    hours = f"{rest} / on (plan) ({BURN}{of_plan} > 0)"
    when = f"{hours} * {HOUR:g} + time()"
    return f"({when}) and on (plan) ({FORECAST}{of_plan} > {budget.usd:.12g})"


def alerts_of(plan: WatchedPlan, budget: Budget, of_plan: str) -> Iterator[Alert]:
    """Shares of the budget that are gone, when the rest will be, a runaway, and what is not seen."""
    amount = f"{budget.usd:,.10g} USD a {budget.period}"
    yield from (share_spent(plan, budget, percent, of_plan) for percent in STEPS)
    yield Alert(
        "BudgetGoneEarly",
        f"{GONE_AT}{of_plan}",
        FORECAST_FOR_S,
        WARNING,
        f"The budget of {amount} is gone by {{value}}",
        "Run fewer machines, or raise the budget.",
        scale_down(plan),
        labels=labels_of(plan, "budget"),
        proof=proof([Series(f"{GONE_AT}{of_plan}", "54000x60")], [Series(f"{FORECAST}{of_plan}", "1x60")]),
        shows_value="humanizeTimestamp",
    )
    for kind in machine_kinds(plan):
        yield from of_kind(kind, plan)
    ratio = f"{SEEN_RATIO[budget.period]}{of_plan}"
    yield Alert(
        "SpendIncomplete",
        f"{ratio} < {LEAST_SEEN_RATIO}",
        PARTLY_FOR_S,
        INFO,
        f"Only {{value}} of this {budget.period} was seen: more was spent than is told",
        "Add what ran before the guard did.",
        look_again(),
        labels=labels_of(plan, "budget"),
        proof=proof([Series(ratio, "0.5x90")], [Series(ratio, "1x90")]),
        shows_value="humanizePercentage",
    )


def proof(breaks: Sequence[Series], keeps: Sequence[Series]) -> Proof:
    """Series of one step of the guard, and none that this step is computed from."""
    return Proof(breaks, keeps, without=[*SOURCES, SEEN, *SPEND.values(), *SEEN_RATIO.values(), FORECAST, GONE_AT])


def share_spent(plan: WatchedPlan, budget: Budget, percent: int, of_plan: str) -> Alert:
    """That so much of the budget is gone."""
    severity, limit = STEPS[percent], budget.usd * percent / PERCENT
    series = f"{SPEND[budget.period]}{of_plan}"
    return Alert(
        f"Budget{percent}Percent",
        f"{spent(budget, of_plan)} >= {limit:.12g}",
        0.0,
        severity,
        f"{percent} % of the budget of {budget.usd:,.10g} USD a {budget.period} is spent",
        "Stop what nobody needs." if severity == CRITICAL else "See what runs, and whether it is needed.",
        scale_down(plan) if severity == CRITICAL else look_again(),
        labels=labels_of(plan, "budget"),
        proof=proof([Series(series, f"{limit:.12g}x30")], [Series(series, f"{limit * 0.99:.12g}x30")]),
    )


def of_kind(kind: MachineKind, plan: WatchedPlan) -> Iterator[Alert]:
    """That more machines of a type run than are meant, and that none is seen."""
    machine, most = f"{SEEN}{of_machine(kind, plan)}", kind.most_machines
    labels = {**labels_of(plan, "machines"), "machine": kind.label}
    meant = [Series(machine, f"{most}x60")]
    yield Alert(
        "MachineRunaway",
        f"{machine} > {most}",
        RUNAWAY_FOR_S,
        CRITICAL,
        f"{{value}} machines of {kind.label} run: the plan has {most} at most",
        "Find what started them, and give them back.",
        scale_down(plan),
        labels=labels,
        proof=proof([Series(machine, f"{most + 1}x60")], meant),
        shows_value="humanize",
    )
    yield Alert(
        "MachinesUnseen",
        f"absent({machine})",
        UNSEEN_FOR_S,
        WARNING,
        f"No machine of {kind.label} is seen: the guard knows neither that none runs nor what is spent",
        "Look whether engines, dcgm-exporter and kube-state-metrics are scraped.",
        look_again(),
        labels=labels,
        proof=proof([], meant),
    )


def labels_of(plan: WatchedPlan, about: str) -> dict[str, str]:
    """Whose an alert is, for routes: of several deployments all their names."""
    name = plan_label(plan)
    return {"plan": name, "namespace": plan.copies[0].namespace, "deployment": name, "about": about}


def look_again() -> str:
    """The command that shows what is spent and what runs."""
    return "gpufleet watch gpufleet.json --prometheus $PROMETHEUS"


def scale_down(plan: WatchedPlan) -> str:
    """The command that leaves as many copies as the plan has, of a law its fewest."""
    return planned_copies(plan.copies[0])
