"""What runs today beside a plan: the verdict in one line, and the figures that it follows from."""

from __future__ import annotations

import math

from gpufleet.report.numbers import (
    amount,
    count,
    headroom,
    percent,
    ranged,
    ranged_duration,
    significant,
    usd_per_hour,
    usd_per_month,
    wanted_beside,
)
from gpufleet.report.page import Column, Table
from gpufleet.report.plan_further import REFUSED_COLUMNS, machines_of, nearest_refusal
from gpufleet.report.ranges import ranged_by
from gpufleet.report.rented import region_name
from gpufleet.results.base import Figure
from gpufleet.results.plan import ServePlan
from gpufleet.results.today import PricePaid, Today, TodaysMachines, TodaysService
from gpufleet.units import PERCENT

UNKNOWN_PRICE = "unknown, so no saving is shown; add the price of one machine, such as '@98.32/h'"
NOTHING_ELSE = "Nothing on offer serves this as asked."
NONE_ENOUGH = "; at the slow end of the range no number of machines is enough"
LISTED, STATED_AS = "list price on demand", {"bill": "its share of the bill", "stated": "as stated"}
WORTH_ASKING = 1.15
CLOSE = "Too close to call: "


def verdict_line(plan: ServePlan, today: Today) -> str:
    """What to do, with its number."""
    say = {"keep": keep, "shrink": shrink, "grow": grow, "replace": move}
    if today.step not in say:
        return "Nothing fits: neither today's machines nor anything on offer serves this."
    alone = f" {NOTHING_ELSE}" if not plan.is_feasible else ""
    return say[today.step](plan, today) + alone


def price_lines(plan: ServePlan, today: Today) -> list[str]:
    """Beside the verdict: that the machines which run are sold at another price than is paid."""
    if not today.is_plan_of_same_type:
        return []
    d, paid = plan.answer, today.machines[0].price.usd_per_hour
    listed = d.price_per_instance_usd_per_hour
    if paid is None or paid <= listed:
        return []
    price = f"{usd_per_hour(listed)} in {region_name(d.region)} ({d.price_source}, {d.price_day})"
    saving, machines = today.plan_saving_usd_per_month, machines_words(d.instance_count)
    saves_all = "" if saving is None else f": at that price {machines} would save {saving_words(today, saving)}"
    return [f"You pay {usd_per_hour(paid)} for one {name_of(today.machines[0])}; its list price is {price}{saves_all}."]


def keep(plan: ServePlan, today: Today) -> str:
    """What runs is needed, and nothing is surely cheaper."""
    bill, saving = bill_words(today), None if today.is_plan_of_same_type else today.plan_saving_usd_per_month
    kept = "Keep today's machine" if today.instance_count == 1 else "Keep today's machines"
    if today.is_close and saving is not None:
        return (
            f"{CLOSE}{choice_of(plan)} is expected to save {usd_per_month(saving.value)}{share_words(today, saving)}, "
            f"but {at_worst(saving)}. {kept} ({bill}) until you have measured."
        )
    needed = "it is needed" if today.instance_count == 1 else "all of them are needed"
    dearer = "" if saving is None else f", and {choice_of(plan)} costs {less_or_more(saving.value)}"
    return f"{kept} ({bill}): {needed}{dearer}.{slow_end(today)}"


def slow_end(today: Today) -> str:
    """That more would be needed where steps are slow."""
    most = None if today.needed_machines is None else today.needed_machines.high
    if most is None or most <= today.instance_count:
        return ""
    takes = "no number of them is enough" if math.isinf(most) else f"it takes {machines_words(most)}"
    return f" At the slow end of the range {takes}."


def shrink(plan: ServePlan, today: Today) -> str:
    """Some of it is idle."""
    enough = enough_words(today)
    if not today.is_close:
        return f"Shrink to {enough}: {saves(today)}.{beside(plan, today)}"
    slow = math.inf if today.needed_machines is None else today.needed_machines.high or 0.0
    needs = "no number of them is enough" if math.isinf(slow) else f"{machines_words(slow)} are needed"
    return (
        f"{CLOSE}{enough} should be enough ({saves(today)}), but at the slow end of the range {needs}. "
        f"Measure before you give any back.{beside(plan, today)}"
    )


def enough_words(today: Today) -> str:
    """How many of today's machines are needed, of how many."""
    return f"{needed_words(today)} of {machines_words(today.instance_count)}{types_words(today)}"


def grow(plan: ServePlan, today: Today) -> str:
    """It does not serve, or lacks only headroom, and more of it is the cheapest that surely does."""
    kind = "type" if len(today.machines) == 1 else "types"
    needed = f"{needed_words(today)} machines of today's {kind}{types_words(today)}"
    more, had = f"{needed}, {today.instance_count} run: {saves(today)}", today.headroom_ratio
    if today.is_close:
        fast = "at the fast end of the range today's fleet is enough"
        return f"{CLOSE}the expected need is {more}; {fast}.{beside(plan, today)}"
    carries = ""
    if had is not None and had >= 0:
        wanted = percent(plan.headroom_wanted_ratio)
        carries = f" Today's fleet carries the rate, but has {percent(had)} headroom of the {wanted} wanted."
    return f"Grow to {more}.{carries}{beside(plan, today)}"


def move(plan: ServePlan, today: Today) -> str:
    """The plan's answer is surely cheaper than what today's machines can become."""
    why = "" if today.serves else " Today's fleet does not serve this."
    return f"Replace by {choice_of(plan)}: {saves(today)}.{why}{unpriced_alternative(today)}"


def unpriced_alternative(today: Today) -> str:
    """That fewer of today's machines serve too, where a bill of several types leaves open what that saves."""
    if today.own_saving_usd_per_month is not None or not today.serves or not today.idle_count:
        return ""
    saving = "the saving is unknown until each type has its price ('@98.32/h')"
    return f" {enough_words(today)} would be enough too; {saving}."


def types_words(today: Today) -> str:
    """How many of each, where there are several types."""
    kept = [f"{m.needed_count}x {name_of(m)}" for m in today.machines if m.needed_count]
    return f" ({' + '.join(kept)})" if len(today.machines) > 1 else ""


def name_of(m: TodaysMachines) -> str:
    """The machine type, or its GPUs where no more is known."""
    return f"{m.cloud} {m.instance}" if m.cloud else f"{amount(m.gpus_per_instance)}x {m.gpu}"


def beside(plan: ServePlan, today: Today) -> str:
    """What the plan's answer would save, where it is no verdict."""
    own, other = today.own_saving_usd_per_month, today.plan_saving_usd_per_month
    if today.is_plan_of_same_type or other is None or other.value <= (0.0 if own is None else own.value):
        return ""
    if own is None:
        return f" {choice_of(plan)} would save {saving_words(today, other)}."
    would = f"is expected to save {usd_per_month(other.value)}{share_words(today, other)}"
    would = would if other.value >= 0 else f"is expected to cost {less_or_more(other.value)}"
    return f" {choice_of(plan)} {would}, but {at_worst(other)}: too close to call between the two."


def choice_of(plan: ServePlan) -> str:
    """The answer of the plan in a few words."""
    if plan.deployments:
        return machines_of(plan.answer)
    return f"two offers together ({usd_per_hour(plan.mix.usd_per_hour)})" if plan.mix else "nothing"


def saves(today: Today) -> str:
    """What the step saves, or costs more."""
    saving = today.saving_usd_per_month
    if saving is None:
        return f"what it {'costs' if today.step == 'grow' else 'saves'} is unknown because a price is"
    if saving.value >= 0:
        return f"saves {saving_words(today, saving)}"
    return f"{less_or_more(saving.value)}{range_words(saving, is_cost=True)}"


def saving_words(today: Today, saving: Figure) -> str:
    """A saving with its share of the bill and its range."""
    return f"{usd_per_month(saving.value)}{share_words(today, saving)}{range_words(saving)}"


def share_words(today: Today, saving: Figure) -> str:
    """A saving as a share of the bill."""
    return "" if not today.usd_per_month else f" ({significant(PERCENT * saving.value / today.usd_per_month, 2)}%)"


def at_worst(saving: Figure) -> str:
    """A saving at the slow end of the range, where it is least."""
    if saving.low is None:
        return "the range of its machines is not known"
    if math.isinf(saving.low):
        return "at the slow end of its range no number of its machines is enough"
    if saving.low < 0:
        return f"at the slow end of its range it costs {less_or_more(saving.low)}"
    return f"{usd_per_month(saving.low)} at the slow end of its range"


def range_words(saving: Figure, *, is_cost: bool = False) -> str:
    """Both ends, where they differ: of a saving the slow end first, of a cost the fast one."""
    if saving.low is None or saving.high is None or saving.low == saving.high:
        return ""
    if math.isinf(saving.low):
        return NONE_ENOUGH
    low, high = (-saving.high, -saving.low) if is_cost else (saving.low, saving.high)
    return f", from {usd_per_month(low)} to {usd_per_month(high)} over the range of speeds"


def less_or_more(saving_usd: float) -> str:
    """A saving below zero is a cost."""
    return f"{usd_per_month(abs(saving_usd))} {'less' if saving_usd > 0 else 'more'} than today"


def bill_words(today: Today) -> str:
    """The bill of today."""
    if today.usd_per_hour is None or today.usd_per_month is None:
        return "its price is unknown"
    return f"{usd_per_hour(today.usd_per_hour)}, {usd_per_month(today.usd_per_month)}"


def needed_words(today: Today) -> str:
    """How many machines are needed."""
    return count(sum(m.needed_count or 0 for m in today.machines))


def machines_words(number: float) -> str:
    """So many machines."""
    return "1 machine" if number == 1 else f"{count(number)} machines"


def tables_of_today(plan: ServePlan, today: Today) -> list[Table]:
    """What runs today, in figures; and why machines of it cannot serve."""
    cells = [*(row for m in today.machines for row in machine_rows(m)), *fleet_rows(plan, today)]
    columns = [Column("name", "figure"), Column("value", "", wraps=True)]
    notes = [
        "A saving is today's machine bill less the machine bill afterwards, at 730 hours a month; "
        "other costs are not included.",
        "It begins when machines can be given back: committed terms run to their end.",
    ]
    figures = Table.of_cells(columns, [(name, value) for name, value in cells if value], "What runs today", notes)
    return [figures, *(refused_table(m) for m in today.machines if m.service is None and m.refused)]


def refused_table(machines: TodaysMachines) -> Table:
    """Why machines cannot serve."""
    nearest = {r.rule: r for r in reversed(machines.refused)}
    refused = [r for r in machines.refused if nearest[r.rule] == r]
    return Table.of(refused, REFUSED_COLUMNS, f"Why {machines.asked} cannot serve: the nearest miss of each reason")


def machine_rows(m: TodaysMachines) -> list[tuple[str, str]]:
    """Machines of one type."""
    gpus = f"{amount(m.instance_count * m.gpus_per_instance)}x {m.gpu}"
    own = f"{machines_words(m.instance_count)} of {name_of(m)}"
    return [
        ("machines", f"{m.instance_count}x {name_of(m)} ({gpus})" if m.cloud else own),
        ("price of one", price_words(m.price)),
        ("list price", beside_list(m.price)),
        *(service_rows(m.service) if m.service else [("lacks", nearest_refusal(m.refused))]),
        ("needed", needed_row(m)),
    ]


def price_words(price: PricePaid) -> str:
    """What one machine costs, and who says so."""
    if price.usd_per_hour is None:
        return "part of the bill below" if price.origin == "bill" else UNKNOWN_PRICE
    paid = usd_per_hour(price.usd_per_hour)
    if price.origin in STATED_AS:
        return f"{paid}, {STATED_AS[price.origin]}"
    if price.owned_usd_per_hour is not None:
        whole = usd_per_hour(price.owned_usd_per_hour)
        return f"{paid} to run your own; {whole} with its fixed costs"
    dear = price.highest_usd_per_hour
    others = "by other prices of yours" if price.origin == "own" else "elsewhere"
    elsewhere = f"; up to {usd_per_hour(dear)} {others}" if dear is not None and dear > price.usd_per_hour else ""
    what = f"your own price, {(price.price_kind or '').replace('_', ' ')}" if price.origin == "own" else LISTED
    return f"{paid}, {what} in {price.region} ({price.source}, {price.day}){elsewhere}"


def beside_list(price: PricePaid) -> str:
    """How many times the list price is paid, where that is worth a question to who sells it."""
    listed, times = price.listed, price.times_list
    if listed is None or times is None or times < WORTH_ASKING:
        return ""
    held = f"{usd_per_hour(listed.usd_per_hour)} on demand in {listed.region} ({listed.source}, {listed.day})"
    return f"you pay {significant(times, 2)}x the list price known here: {held}"


def service_rows(s: TodaysService) -> list[tuple[str, str]]:
    """What machines do at their share of the requests."""
    c = s.requests_per_s_capacity
    carried = ranged(c.value, c.low, c.high, "requests/s", digits=3)
    latency = "; ".join(f"{name} {ranged_duration(f.value, f.low, f.high)}" for name, f in s.latency.items())
    size = f"{amount(s.gpus_per_replica)} GPU{'' if s.gpus_per_replica == 1 else 's'} each"
    return [
        (
            "best use",
            f"{count(s.replicas)}x {s.layout} ({size}) in {s.weight_format} with {s.engine}; what runs may differ",
        ),
        ("carries", f"{carried}; asked: {amount(s.requests_per_s)}"),
        ("load", f"{significant(s.load_ratio, 2)} of what its replicas sustain; grade {s.grade}"),
        ("latency", latency or "queues grow without end at this rate"),
    ]


def needed_row(m: TodaysMachines) -> str:
    """How many are needed, and how many could be shut down."""
    if m.needed_count is None:
        return "no number of them serves this"
    idle = f"; {count(m.idle_count)} idle and can be shut down" if m.idle_count else ""
    return f"{count(m.needed_count)} of {count(m.instance_count)}{idle}"


def fleet_rows(plan: ServePlan, today: Today) -> list[tuple[str, str]]:
    """The fleet as a whole, beside the plan.

    What giving back the idle machines alone saves is said where the verdict is to move.
    """
    had, own, then = today.headroom_ratio, today.own_saving_usd_per_month, today.plan_usd_per_month
    spared = "none" if had is None else headroom(had)
    wanted = f"{spared}, {wanted_beside(had or 0.0, plan.headroom_wanted_ratio)} wanted"
    if had is not None and had < 0:
        carried = f"{significant(PERCENT * (1 + had))}%"
        wanted = f"none: today's fleet carries {carried} of the rate; {percent(plan.headroom_wanted_ratio)} wanted"
    fewer = ""
    if today.step == "replace" and own is not None and today.idle_count:
        enough = f"{needed_words(today)} of {machines_words(today.instance_count)}"
        fewer = f"{enough}: saves {saving_words(today, own)}"
    return [
        ("headroom", wanted),
        ("needed in total", needed_range(today.needed_machines)),
        ("bill", f"{bill_words(today)}{', as stated' if today.bill_origin == 'bill' else ''}"),
        ("fewer machines", fewer),
        ("the plan", "" if then is None else f"{choice_of(plan)}: {ranged_by(then, usd_per_month)}"),
    ]


def needed_range(needed: Figure | None) -> str:
    """Machines of today's types with their range."""
    if needed is None:
        return "no number of them serves this"
    if needed.low == needed.high:
        return machines_words(needed.value)
    low, high = (count(end) for end in (needed.low, needed.high))
    return f"{machines_words(needed.value)} ({low} to {high} over the range of speeds)"
