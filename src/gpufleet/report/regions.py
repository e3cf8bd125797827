"""A choice of regions as a page: where to run what, what users meet, every region with its price or why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpufleet.report.fleet_mix import (
    NO_MIX,
    PROVED,
    SAME_COST,
    Held,
    binding_tables,
    closing_notes,
    copies_table,
    cost_facts,
    given_way_table,
    held_facts,
    latency_table,
    limits_held,
    machines_table,
    next_step,
    notes,
    proved,
    routes_table,
    share_tables,
    some,
    title,
)
from gpufleet.report.numbers import (
    amount,
    duration,
    or_dash,
    percent,
    plural,
    ranged,
    ranged_duration,
    significant,
    usd,
)
from gpufleet.report.numbers import usd_per_hour as per_hour
from gpufleet.report.page import Columns, Page, Table, column, lines_table, number
from gpufleet.report.region_map import region_map
from gpufleet.report.rented import in_doubt, region_name
from gpufleet.report.words import REGION_REASONS
from gpufleet.results.base import Figure
from gpufleet.results.regions import (
    AtUsers,
    EgressCost,
    Emitted,
    FollowedSun,
    HoursOfDay,
    RegionChoiceRow,
    RegionPlan,
    RegionRow,
)
from gpufleet.results.rented import OfferedMachines
from gpufleet.units import KILO, MILLISECOND

MOST_REGIONS, MOST_NAMES, MOST_PLACES = 8, 2, 3
NETWORK = {
    "measured": "measured between these regions",
    "transferred": "from measured regions near by",
    "roofline": "from the distance",
}


def regions_page(plan: RegionPlan) -> Page:
    """What to rent where, what users meet, every region, carbon and what leaves; else what has to give way.

    The next step is to ask what a region that is lost would cost, where nobody did.
    """
    if not plan.machines:
        tables = [given_way_table(plan.given_way), regions_table(plan)]
        return Page(NO_MIX, tables, closing_notes(plan), [question(plan)], next_step=next_step(plan))
    tables = [
        machines_table(plan),
        copies_table(plan),
        *(users_tables(plan) or [routes_table(plan), latency_table(plan)]),
        *lost_tables(plan),
        *sun_tables(plan),
        regions_table(plan),
        *carbon_tables(plan),
        *egress_tables(plan),
        *binding_tables(plan),
        *share_tables(plan),
    ]
    alone = cheapest_alone(plan)
    beside = ("one region's", None if alone is None else cost_alone(alone))
    at_users = [
        Held(f"{a.objective} in {plan.users[a.users].name}", a.latency, a.limit_s)
        for a in plan.at_users
        if a.limit_s is not None
    ]
    held = held_facts(at_users or limits_held(plan))
    facts = [*held, *cost_facts(plan, listed([*machines_by_region(plan)]), beside)]
    step = "rent one machine of each type and measure it, the network included."
    step = step if plan.lost else f"ask what it costs to lose a region (--survive-region); {step}"
    said = [*notes(plan), *own_notes(plan)]
    return Page(headline(plan), tables, said, [question(plan)], facts, title(plan), step)


def question(plan: RegionPlan) -> str:
    """What was asked, in a sentence, with places of users and their shares."""
    asked = some([f"{s.model} at {significant(s.requests_per_s)} requests/s" for s in plan.services], "more")
    places = some([f"{user.name} {percent(user.share_ratio)}" for user in plan.users], "more places")
    named = plan.users[0].name if len(plan.users) == 1 else places
    return f"{asked}{f'; users: {named}' if plan.users else ''}; {plural(len(plan.regions), 'region')} looked at."


def headline(plan: RegionPlan) -> str:
    """Where to run what, what it costs, what is proved, and what one region alone would cost."""
    cost = f"{per_hour(plan.usd_per_hour or 0)}, {usd(plan.usd_per_month or 0)} a month"
    held = [*(["with any one region lost"] if plan.lost else []), *(["the network included"] if plan.users else [])]
    held = held if any(a.limit_s for a in plan.at_users) or plan.lost else []
    kept = f" Limits hold{' at the users' if plan.users else ''}, {', '.join(held)}." if held else ""
    where = listed(list(machines_by_region(plan)))
    return f"Run {where}{in_doubt(*plan.machines)}: {cost}. {proved(plan)}{against_one_region(plan)}{kept}"


def listed(parts: list[str]) -> str:
    """Parts of a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([*([", ".join(parts[:-1])] if len(parts) > 1 else []), parts[-1]])


def place_of(where: RegionRow | OfferedMachines) -> str:
    """A cloud and a region of it."""
    return f"{where.cloud} {where.region}"


def machines_by_region(plan: RegionPlan) -> Iterator[str]:
    """The machines of each region."""
    held: dict[str, list[str]] = {}
    for m in plan.machines:
        held.setdefault(place_of(m), []).append(f"{amount(m.instance_count)}x {m.instance}")
    return (f"{' + '.join(machines)} in {region}" for region, machines in held.items())


def against_one_region(plan: RegionPlan) -> str:
    """What one machine type in one region costs."""
    alone = cheapest_alone(plan)
    usd_plan = plan.usd_per_hour or 0.0
    if alone is None:
        return " No region serves everything alone."
    less, where = 1 - usd_plan / cost_alone(alone), place_of(alone)
    if abs(cost_alone(alone) - usd_plan) < SAME_COST or abs(less) < PROVED:
        return ""
    if less < 0:
        short = "it may be lost" if plan.lost else "it does not keep all that was asked"
        return f" {where} alone would cost {per_hour(cost_alone(alone))}, but {short}."
    return f" One machine type in one region costs {per_hour(cost_alone(alone))} ({where}): {percent(less)} saved."


def cheapest_alone(plan: RegionPlan) -> RegionChoiceRow | None:
    """The region that serves all alone for least."""
    return min((r for r in plan.regions if r.usd_per_hour_alone is not None), key=cost_alone, default=None)


def cost_alone(r: RegionChoiceRow) -> float:
    """What serving all from a region costs."""
    return r.usd_per_hour_alone or 0.0


def users_tables(plan: RegionPlan) -> list[Table]:
    """What users of every place meet."""
    if not plan.users:
        return []
    columns: Columns[AtUsers] = [
        column("users", lambda a: plan.users[a.users].name, wraps=True),
        number("share", lambda a: percent(plan.users[a.users].share_ratio)),
        number("row", lambda a: a.copies + 1),
        column("network p50/p95", lambda a: round_trip_words(plan, a)),
        column("objective", lambda a: a.objective),
        column("at users (80% range)", lambda a: ranged_duration(a.latency.value, a.latency.low, a.latency.high)),
        number("limit", lambda a: a.limit_s, show=or_dash(duration)),
    ]
    return [Table.of(plan.at_users, columns, "What users meet, model and network together")]


def round_trip_words(plan: RegionPlan, a: AtUsers) -> str:
    """The median and the 95th percentile of the way from users to the copies that serve them."""
    d = plan.copies[a.copies].deployment
    region = next(r for r in plan.regions if place_of(r) == place_of(d))
    network = next((n for n in region.network if n.users == a.users), None)
    return "unknown" if network is None else f"{whole_ms(network.median.value)}/{whole_ms(network.p95_s)} ms"


def whole_ms(seconds: float) -> str:
    """Milliseconds without their unit.

    >>> whole_ms(0.0431)
    '43'
    """
    return f"{seconds / MILLISECOND:.0f}"


def lost_tables(plan: RegionPlan) -> list[Table]:
    """Where requests go when a region is lost."""
    lines = []
    for lost in plan.lost:
        to = ", ".join(f"{region} {percent(share)}" for region, share in lost.shares.items())
        busiest = f"the busiest copies at {percent(lost.busiest_ratio)}"
        lines.append(f"without {lost.cloud} {lost.region}: {to}; {busiest}")
    return [lines_table("When a region is lost", lines)] if lines else []


def sun_tables(plan: RegionPlan) -> list[Table]:
    """A day of machines where users are awake, beside machines for every peak."""
    sun = plan.sun
    if sun is None:
        return []
    columns: Columns[HoursOfDay] = [
        column("UTC", lambda h: f"{h.from_hour:02}-{h.to_hour:02}"),
        number("$/h", lambda h: usd(h.usd_per_hour)),
        column("machines", lambda h: ", ".join(f"{n} in {region}" for region, n in h.machines.items()), wraps=True),
    ]
    return [Table.of(sun.hours, columns, "Where users are awake: machines by the hour", sun_lines(sun))]


def sun_lines(sun: FollowedSun) -> list[str]:
    """What following costs against what stands still."""
    less = 1 - sun.usd_per_day / sun.usd_per_day_static
    verdict = "as much" if abs(less) < PROVED else f"{percent(abs(less))} {'less' if less > 0 else 'MORE'}"
    gain = sun.usd_per_day_in_place - sun.usd_per_day
    moving = f"moving saves {usd(gain)}" if gain > SAME_COST else "moving between regions saves nothing"
    one = sun.usd_per_day_one_fleet
    is_less = one < sun.usd_per_day_static - SAME_COST
    fixed = [f"One fleet for the busiest hours of all together, left alone: {usd(one)}."] if is_less else []
    return [
        f"{usd(sun.usd_per_day)} a day, {usd(sun.starts_usd_per_day)} of it for {plural(round(sun.starts), 'start')}. "
        f"Machines for every place's peak all day cost {usd(sun.usd_per_day_static)}: following costs {verdict}.",
        *fixed,
        f"By the hour in the regions above alone: {usd(sun.usd_per_day_in_place)}; {moving}.",
        f"A place's day peaks at {sun.peak_hour:g}:00 local time, {sun.peak_over_mean:g} times its mean: a judgement. "
        "The rate asked is that of all places at their peaks.",
    ]


def regions_table(plan: RegionPlan) -> Table:
    """Regions that serve all alone, the chosen ones first; how many others do not, and why."""
    serve = [r for r in plan.regions if r.usd_per_hour_alone is not None]
    shown = serve[:MOST_REGIONS]
    columns: Columns[RegionChoiceRow] = [
        number("$/h alone", lambda r: r.usd_per_hour_alone, key="usd", show=usd),
        column("region", place_of, wraps=True),
        column("machines", lambda r: r.machines, wraps=True),
        number("g CO2e/kWh", lambda r: expected(r.grid)),
    ]
    if plan.users:
        columns.insert(
            3, number("users p50", lambda r: network_words([n.median.value for n in r.network]), key="network")
        )
    if any(r.spot_usd is not None for r in shown):
        columns.insert(3, number("spot", lambda r: r.spot_usd, show=or_dash(per_hour), priority=1))
    more = f"{len(serve) - len(shown)} more serve all alone, dearer; -o json has all"
    return Table.of(
        shown,
        columns,
        f"Regions that serve everything alone, each service on one type{', the chosen first' if plan.machines else ''}",
        [*([more] if len(serve) > len(shown) else []), *rejected(plan.regions)],
        chosen=next((at for at, r in enumerate(shown) if r.is_chosen), None),
        empty="no region does",
        picture=region_map(plan),
    )


def network_words(medians_s: list[float]) -> str:
    """The round trip to the users of each place, in their order; from the least to the most where they are many.

    >>> network_words([0.043, 0.141]), network_words([0.04, 0.2, 0.1, 0.3])
    ('43, 141 ms', '40-300 ms')
    """
    if not medians_s:
        return "unknown"
    if len(medians_s) > MOST_PLACES:
        return f"{whole_ms(min(medians_s))}-{whole_ms(max(medians_s))} ms"
    return f"{', '.join(map(whole_ms, medians_s))} ms"


def rejected(regions: Sequence[RegionRow]) -> list[str]:
    """How many regions do not do what was asked, by the reason, with some of them by name."""
    named: dict[str, list[str]] = {}
    for r in regions:
        if r.why_not is not None:
            named.setdefault(r.why_not, []).append(f"{r.cloud} {region_name(r.region)}")
    return [
        f"{plural(len(names), 'region')}: {REGION_REASONS[reason]} "
        f"({', '.join(names[:MOST_NAMES])}{', ...' if len(names) > MOST_NAMES else ''})"
        for reason, names in sorted(named.items(), key=lambda item: -len(item[1]))
    ]


def carbon_tables(plan: RegionPlan) -> list[Table]:
    """Electricity and carbon of every row of copies."""
    if not plan.emitted:
        return []
    columns: Columns[Emitted] = [
        number("row", lambda e: e.copies + 1),
        column("region", lambda e: place_of(plan.copies[e.copies].deployment), wraps=True),
        column("kWh/h", lambda e: figures(e.kwh_per_hour)),
        column("kg CO2e/h", lambda e: figures(e.g_co2e_per_hour, KILO), wraps=True),
        number("kWh/1M", lambda e: expected(e.kwh_per_million_output_tokens)),
        number("g/1M", lambda e: expected(e.g_co2e_per_million_output_tokens)),
    ]
    saved = plan.usd_per_kg_saved
    sources = sorted({f"{e.source} {e.year}" for e in plan.emitted if e.source is not None})
    less = f"The cheapest fleet that emits a tenth less costs {usd(saved)} more per kg CO2e."
    known = f"Carbon of the grid: {', '.join(sources)}."
    notes = [*([] if saved is None else [less]), *([known] if sources else [])]
    return [Table.of(plan.emitted, columns, "Electricity and carbon, an hour and per 1M output tokens", notes)]


def expected(figure: Figure | None) -> str:
    """A figure without its range."""
    return significant(None if figure is None else figure.value)


def figures(figure: Figure | None, unit: float = 1.0) -> str:
    """A figure with its range, over a unit and without its name."""
    return "unknown" if figure is None else ranged(figure.value, figure.low, figure.high, scale=unit)


def egress_tables(plan: RegionPlan) -> list[Table]:
    """Answers that leave, and copies of weights."""
    if not plan.egress:
        return []
    title = f"What leaves the regions: {per_hour(plan.egress_usd_per_hour)} of the total"
    return [lines_table(title, [egress_line(e) for e in plan.egress])]


def egress_line(e: EgressCost) -> str:
    """One region."""
    sent = f"{e.cloud} {e.region}: {significant(e.gb_per_month)} GB of answers a month"
    if e.usd_per_month is None and e.usd_per_hour is not None:
        of_cloud = f"no price is published and that of the dearest {e.cloud} region counted, {per_hour(e.usd_per_hour)}"
        return f"{sent}, {of_cloud}; the weights are {significant(e.weights_gb)} GB"
    if e.usd_per_month is None or e.usd_per_hour is None:
        return f"{sent}, no price is published and none counted; the weights are {significant(e.weights_gb)} GB"
    tiers = f"{ranged_usd(e.usd_per_month)} through the tiers of a month"
    weights = f"a copy of the weights {usd(e.weights_usd or 0.0)}"
    return f"{sent}, {per_hour(e.usd_per_hour)} ({tiers}); {weights} ({e.source} {e.as_of})"


def ranged_usd(figure: Figure) -> str:
    """Money with its range."""
    if figure.low is None or figure.high is None:
        return usd(figure.value)
    return f"{usd(figure.value)}, {usd(figure.low)} to {usd(figure.high)},"


def own_notes(plan: RegionPlan) -> Iterator[str]:
    """How the network is known, and what places cost."""
    one = plan.usd_per_hour_one_type
    if one is not None and plan.usd_per_hour is not None and one < plan.usd_per_hour - SAME_COST:
        yield f"With places, network and grid left out, one machine type would cost {per_hour(one)}."
    if not plan.users:
        yield "No users were said: latency is the model's alone (--users eu=60%,us=40%)."
        return
    grades = Counter(n.median.grade for r in plan.regions if r.is_chosen for n in r.network)
    known = ", ".join(f"{count} {NETWORK.get(str(grade), grade)}" for grade, count in grades.most_common())
    yield f"Round trips to the chosen regions: {known}; users' own lines are usual ones, connections are open already."
