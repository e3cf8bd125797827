"""A mix of machine types as a page: what to rent, what runs on it, which requests go where, what binds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from gpufleet.records import dataclass
from gpufleet.report.cost_bars import CostBar, cost_bars
from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    or_dash,
    percent,
    plural,
    ranged_duration,
    several,
    significant,
    usd,
    usd_per_hour,
)
from gpufleet.report.page import WARNING, Column, Columns, Fact, Page, Picture, Row, Table, column, lines_table, number
from gpufleet.report.rented import gpus, in_doubt, machines, marked, place, titled
from gpufleet.report.search import assumed_words, dated_sources, preferred_line
from gpufleet.report.words import copies_words
from gpufleet.results.base import Figure
from gpufleet.results.mix import BindingLimit, FleetMix, GivenWay, MixService, RouteRow

INSTALL = "pip install 'gpu-fleet-optimizer[solve]'"
BUDGET, SHARE_OF, CARBON = "budget", "share of ", "kg CO2e an hour"
PROVED, SAME_COST = 1e-6, 5e-3
SENT = 0.9995
MOST_BARS, MOST_NAMED = 6, 3
IS_TIGHT = "tight: holds as planned, breaks its limit at the high end of its range (--confidence 0.9 plans for it)"
WITHOUT = "without it: what the cheapest mix without that row would cost"
NO_MIX = "No mix keeps all limits. Below is the smallest change after which one does, as far as was searched."
BUSY = "busy: how much of its capacity its requests take, headroom included"


def fleet_mix_page(mix: FleetMix) -> Page:
    """Headline, machines, copies, routes, what binds; where there is no mix, what has to give way."""
    if not mix.machines:
        given = given_way_table(mix.given_way)
        return Page(NO_MIX, [given], closing_notes(mix), [question(mix)], next_step=next_step(mix))
    tables = [
        replace(machines_table(mix), picture=costs_picture(mix)),
        copies_table(mix),
        routes_table(mix),
        latency_table(mix),
        *binding_tables(mix),
        *share_tables(mix),
        *pinned_tables(mix),
    ]
    one = ("one type's", mix.usd_per_hour_one_type)
    facts = [*held_facts(limits_held(mix)), *cost_facts(mix, " + ".join(rented(mix)), one)]
    return Page(headline(mix), tables, notes(mix), [question(mix)], facts, title(mix), next_step(mix))


def title(mix: FleetMix) -> str:
    """The answer as a manager reads it: GPUs and providers in words, what they serve, what a month costs."""
    s = mix.services[0]
    asked = f"{s.model} at {several(s.requests_per_s, 'request')}/s"
    work = asked if len(mix.services) == 1 else f"{len(mix.services)} services"
    return titled(mix.machines, "serve", work, f"{usd(mix.usd_per_month or 0)} a month")


def next_step(mix: FleetMix) -> str:
    """What to do with the answer."""
    if not mix.machines:
        return "loosen what is named below by as much, and ask again."
    return "write the routes for your router (--routing FILE); rent one machine of each type and measure it first."


def costs_picture(mix: FleetMix) -> Picture:
    """What the mix costs in its rows, beside what does without one of them, or with one type for each service."""
    parts = [(letter(at), m.usd_per_hour) for at, m in enumerate(mix.machines)]
    own = CostBar("this mix, by the rows below", mix.usd_per_hour or 0.0, parts)
    others = [
        CostBar(f"the cheapest without {letter(at)}", m.usd_per_hour_without)
        for at, m in enumerate(mix.machines)
        if m.usd_per_hour_without is not None
    ]
    if mix.usd_per_hour_one_type is not None:
        others.append(CostBar("one machine type for each service", mix.usd_per_hour_one_type))
    nearest = sorted(others, key=lambda bar: bar.usd_per_hour)[:MOST_BARS]
    return cost_bars("The mix beside other choices", [own, *nearest])


@dataclass(frozen=True)
class Held:
    """A limit and a figure that keeps it as planned, with what it is called."""

    name: str
    figure: Figure
    limit_s: float

    @property
    def breaks(self) -> bool:
        """Whether the high end of the range is above the limit."""
        return (self.figure.high or self.figure.value) > self.limit_s


def limits_held(mix: FleetMix) -> list[Held]:
    """The limits of all rows of copies."""
    return [
        Held(f"{name} of row {at}", c.deployment.latency[name], limit_s)
        for at, c in enumerate(mix.copies, 1)
        for name, limit_s in mix.services[c.service].objectives.items()
        if name in c.deployment.latency
    ]


def held_facts(held: Sequence[Held]) -> list[Fact]:
    """Whether limits hold, and the one that breaks first at the high end of ranges; nothing without a limit."""
    if not held:
        return []
    over = [h for h in held if h.breaks]
    if not over:
        return [Fact("Verdict", "Limits hold", "at the high end of their ranges too", "good")]
    first = max(over, key=lambda h: (h.figure.high or 0.0) / h.limit_s)
    high = f"{first.name} is {duration(first.figure.high)} of {duration(first.limit_s)} at the high end of its range"
    return [Fact("Verdict", "Limits hold as planned", high, "tight")]


def cost_facts(mix: FleetMix, machines_said: str, beside: tuple[str, float | None]) -> list[Fact]:
    """What the hour costs, what is rented, what is saved `beside` something else, and how far that is proved."""
    (of, one), usd_mix, gap = beside, mix.usd_per_hour or 0.0, mix.gap_ratio
    saved = one is not None and one > usd_mix + SAME_COST
    among = f"of all mixes of {searched(mix)}"
    sure = ("Not proved", "found at once") if gap is None else ("Cheapest, proved", among)
    within = f"Within {percent(gap)}"
    return [
        Fact("Per hour", usd(usd_mix)),
        Fact("Machines", str(sum(m.instance_count for m in mix.machines)), machines_said),
        *([Fact("Saved", percent(1 - usd_mix / one), f"of {of} {usd_per_hour(one)}")] if saved and one else []),
        Fact("Search", *((within, f"of the cheapest {among}") if gap is not None and gap >= PROVED else sure)),
    ]


def question(mix: FleetMix) -> str:
    """What was asked, in a sentence."""
    asked = some([f"{s.model} at {significant(s.requests_per_s)} requests/s" for s in mix.services], "more")
    return f"{asked}; {plural(mix.num_offers, 'offer')}, {plural(mix.num_buckets, 'bucket')} of lengths."


def some(words: Sequence[str], more: str) -> str:
    """The first of many, and how many `more` there are.

    >>> some(["a", "b", "c", "d", "e"], "more")
    'a, b, c, 2 more'
    """
    rest = len(words) - MOST_NAMED
    return ", ".join([*words[:MOST_NAMED], *([f"{rest} {more}"] if rest > 0 else [])])


def headline(mix: FleetMix) -> str:
    """What to rent, what it costs, what is proved."""
    doubt = in_doubt(*mix.machines)
    cost = f"{usd_per_hour(mix.usd_per_hour or 0)}, {usd(mix.usd_per_month or 0)} a month"
    return f"Rent {' + '.join(rented(mix))}{doubt}: {cost}. {proved(mix)}{against_one_type(mix)}"


def rented(mix: FleetMix) -> list[str]:
    """Machines of each type, whatever their regions and how they are bought."""
    found: dict[tuple[str, str], int] = {}
    for m in mix.machines:
        found[m.cloud, m.instance] = found.get((m.cloud, m.instance), 0) + m.instance_count
    return [f"{n}x {cloud} {instance}" for (cloud, instance), n in found.items()]


def proved(mix: FleetMix) -> str:
    """How far it is proved to be the cheapest."""
    gap = mix.gap_ratio
    cut = " The time limit cut the search: a longer one may find better." if mix.is_cut_short else ""
    if gap is None:
        return f"Found at once; how far it is from the cheapest is not proved.{cut}"
    if gap < PROVED:
        return f"Proved cheapest among {searched(mix)}."
    least = usd_per_hour(mix.least_usd_per_hour or 0)
    if mix.is_proved_together:
        return (
            f"Proved cheapest among {searched(mix)} with no lengths sent apart; with lengths apart no mix costs less "
            f"than {least} ({percent(gap)} less).{cut}"
        )
    return f"Proved so far: among {searched(mix)} no mix costs less than {least} ({percent(gap)} less).{cut}"


def searched(mix: FleetMix) -> str:
    """The offers that a proof is about."""
    if mix.num_offers_searched in (None, mix.num_offers):
        return f"{plural(mix.num_offers, 'offer')}"
    return f"the best {mix.num_offers_searched} of {plural(mix.num_offers, 'offer')}"


def against_one_type(mix: FleetMix) -> str:
    """What one machine type for each service costs."""
    one, usd_mix = mix.usd_per_hour_one_type, mix.usd_per_hour or 0.0
    if one is None:
        return " No single machine type serves."
    if abs(one - usd_mix) < SAME_COST:
        return " One machine type for each service costs as much."
    if one < usd_mix:
        return f" Without the limits of the mix one type for each service costs {usd_per_hour(one)}."
    return f" One machine type for each service costs {usd_per_hour(one)}: {percent(1 - usd_mix / one)} saved."


def machines_table(mix: FleetMix) -> Table:
    """The machines, dearest first."""
    bought = {m.price_kind.replace("_", " ") for m in mix.machines}
    is_told = any(m.usd_per_hour_without is not None for m in mix.machines)
    columns = [
        Column("at", ""),
        Column("usd", "$/h", where="data"),
        Column("hourly", "$/h", align="right", where="text"),
        Column("machines", "machines", wraps=True),
        Column("gpus", "GPUs", wraps=True),
        Column("price", "bought", where="everywhere" if len(bought) > 1 else "data", qualifies=True),
        Column("region", "region", wraps=True),
        *([Column("without", "without it", or_dash(usd_per_hour), "right")] if is_told else []),
    ]
    how = f", all {bought.pop()}" if len(bought) == 1 else ""
    rows: list[Row] = [
        {
            "at": letter(at),
            "usd": m.usd_per_hour,
            "hourly": marked(m, usd(m.usd_per_hour)),
            "machines": machines(m),
            "gpus": gpus(m),
            "price": m.price_kind.replace("_", " "),
            "region": place(m),
            "without": m.usd_per_hour_without,
        }
        for at, m in enumerate(mix.machines)
    ]
    return Table(columns, rows, f"What to rent{how}", [WITHOUT] if is_told else [])


def letter(at: int) -> str:
    """The name of a row of machines.

    >>> letter(0), letter(27)
    ('A', 'BB')
    """
    return ascii_uppercase[at % len(ascii_uppercase)] * (1 + at // len(ascii_uppercase))


def copies_table(mix: FleetMix) -> Table:
    """What runs on them."""
    columns = [
        Column("at", "row", align="right"),
        Column("service", "service", where="everywhere" if len(mix.services) > 1 else "data", wraps=True),
        Column("machines", "on"),
        Column("gpu", "GPU", wraps=True),
        Column("replicas", "copies", wraps=True),
        Column("rate", "requests/s", significant, align="right"),
        Column("busy", "busy", percent, align="right"),
        Column("grade", "grade"),
    ]
    rows = [
        (
            at,
            mix.services[c.service].model,
            letter(c.machines),
            c.deployment.gpu,
            copies_words(c.deployment),
            c.requests_per_s,
            c.busy_ratio,
            c.deployment.grade,
        )
        for at, c in enumerate(mix.copies, 1)
    ]
    return Table.of_cells(columns, rows, "What runs on it", [BUSY])


def latency_table(mix: FleetMix) -> Table:
    """The objectives of every row of copies at the requests that it gets: those of the classes that it is sent."""
    columns = [
        Column("at", "row", align="right"),
        Column("name", "objective"),
        Column("latency", "expected (80% range)"),
        Column("limit", "limit", duration, align="right"),
        Column("slack", "slack", percent, align="right"),
        Column("holds", "range"),
    ]
    rows = [
        (
            at,
            name,
            ranged_duration(figure.value, figure.low, figure.high),
            limit_s,
            1 - figure.value / limit_s,
            "tight" if (figure.high or 0.0) > limit_s else "holds",
        )
        for at, c in enumerate(mix.copies, 1)
        for name, limit_s in mix.services[c.service].objectives.items()
        if (figure := c.deployment.latency.get(name)) is not None
    ]
    notes = [IS_TIGHT] if any(row[-1] == "tight" for row in rows) else []
    return Table.of_cells(columns, rows, "Latency of the rows", notes, empty="no objectives were asked for")


def routes_table(mix: FleetMix) -> Table:
    """Which requests go where."""
    columns: Columns[RouteRow] = [
        column("prompt tokens", lambda r: between(r.from_prompt_tokens, r.to_prompt_tokens)),
        number("requests/s", lambda r: significant(r.requests_per_s)),
        column("to row", to_rows, wraps=True),
    ]
    if any(r.from_answer_tokens is not None for r in mix.routes):
        columns.insert(1, column("answer tokens", lambda r: between(r.from_answer_tokens or 0.0, r.to_answer_tokens)))
    if any(r.request_class for r in mix.routes):
        columns.insert(0, column("class", lambda r: r.request_class, wraps=True))
    if len(mix.services) > 1:
        columns.insert(0, column("service", lambda r: mix.services[r.service].model, wraps=True))
    return Table.of(mix.routes, columns, "Where requests go")


def to_rows(r: RouteRow) -> str:
    """The rows of copies that get requests, with their shares where they are several."""
    return ", ".join(f"{at + 1}" if share > SENT else f"{at + 1} ({percent(share)})" for at, share in r.copies.items())


def between(low: float, high: float | None) -> str:
    """Whole tokens above one number and up to another, None: however many.

    >>> between(0, 500), between(500, 900), between(900, None), between(0, None)
    ('up to 500', '501 - 900', 'over 900', 'any')
    """
    if high is None:
        return f"over {count(low)}" if low else "any"
    return f"{count(low + 1)} - {count(high)}" if low else f"up to {count(high)}"


def binding_tables(mix: FleetMix) -> list[Table]:
    """What limits are worth; of a quota that is none of those, that more of it was not found to save anything."""
    worth = {limit.name for limit in mix.binding}
    lines = [binding_line(mix, limit) for limit in mix.binding]
    lines += [
        f"quota {name}: {amount(used)} used; more was not found to save anything"
        for name, used in mix.quotas_used.items()
        if name not in worth
    ]
    return [lines_table("What limits cost", lines)] if lines else []


def binding_line(mix: FleetMix, b: BindingLimit) -> str:
    """What one machine more of a limit saves."""
    saved = (mix.usd_per_hour or 0.0) - b.usd_per_hour_with_more
    if b.name == BUDGET:
        return f"budget of {usd_per_hour(b.most)}: {usd_per_hour(b.more)} more would save {usd_per_hour(saved)}"
    return f"{b.name} is used up ({amount(b.most)}): {amount(b.more)} more would save {usd_per_hour(saved)}"


def share_tables(mix: FleetMix) -> list[Table]:
    """What each cloud has, where shares were asked for, how near they have to be, and what they cost."""
    if not mix.asked_shares:
        return []
    columns = [
        Column("cloud", "cloud"),
        Column("asked", "asked", percent, align="right"),
        Column("has", "has", percent, align="right"),
    ]
    rows = [(cloud, asked, mix.cloud_shares.get(cloud, 0.0)) for cloud, asked in mix.asked_shares.items()]
    near = "one machine of the cloud" if mix.share_tolerance is None else f"{percent(mix.share_tolerance)} of all"
    title = f"Shares of clouds, of the {mix.shares_of}, within {near}"
    return [Table.of_cells(columns, rows, title, free_lines(mix))]


def free_lines(mix: FleetMix) -> list[str]:
    """What the shares cost against free choice of the same clouds, as far as was found."""
    if mix.usd_per_hour_free is None or mix.usd_per_hour is None:
        return []
    free = f"A free choice among these clouds costs {usd_per_hour(mix.usd_per_hour_free)}"
    cost = mix.usd_per_hour - mix.usd_per_hour_free
    if cost < SAME_COST:
        return [f"{free}: the shares cost nothing more."]
    return [f"{free}: the shares cost {usd_per_hour(cost)} more ({percent(cost / mix.usd_per_hour_free)})."]


def pinned_tables(mix: FleetMix) -> list[Table]:
    """Which services may run on some clouds alone, and why."""
    columns: Columns[MixService] = [
        column("service", lambda s: s.model, wraps=True),
        number("alone $/h", lambda s: s.usd_per_hour_alone, show=or_dash(usd)),
        column("may run on", lambda s: ", ".join(s.clouds) or "any cloud"),
        column("because of", lambda s: s.reason or "-", wraps=True),
    ]
    return [Table.of(mix.services, columns, "Where services may run")] if any(s.reason for s in mix.services) else []


def given_way_table(given: Sequence[GivenWay]) -> Table:
    """What has to give way."""
    return lines_table("The smallest change that helps", [given_way_line(g) for g in given])


def given_way_line(g: GivenWay) -> str:
    """One limit, from what it is to what some mix keeps, both in its unit."""
    name = g.name if g.name in (BUDGET, CARBON) or g.name.startswith(SHARE_OF) or g.is_share else f"quota {g.name}"
    shown = percent if g.is_share else usd_per_hour if g.name == BUDGET else lambda value: amount(round(value, 3))
    return f"{name} from {shown(g.limit)} to {shown(g.needed)}"


def notes(mix: FleetMix) -> list[str]:
    """What the figures rest on."""
    left = mix.leaving_usd_per_hour
    leaving = [f"Of the cost, {usd_per_hour(left)} is for machines of today that are given up."] if left else []
    greedy = [f"{WARNING}OR-Tools is not installed: this mix was found at once. For a proof: {INSTALL}"]
    return [*(greedy if mix.is_greedy else []), *leaving, *closing_notes(mix)]


def closing_notes(mix: FleetMix) -> list[str]:
    """How words were read, what was assumed, and of when prices are."""
    said = [f"{note.rstrip('.')}." for note in mix.notes]
    return [*said, *preferred_line(mix.inputs), *assumed_words(mix.inputs), *dated_sources(mix.price_sources, None)]
