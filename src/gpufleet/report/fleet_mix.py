"""A mix of machine types as a page: what to rent, what runs on it, which requests go where, what binds."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    percent,
    plural,
    ranged_duration,
    significant,
    usd,
    usd_per_hour,
)
from gpufleet.report.page import WARNING, Column, Page, Row, Table, lines_table
from gpufleet.report.rented import machines, place
from gpufleet.results.mix import BindingLimit, FleetMix, GivenWay, MixCopies, MixMachines, RouteRow

INSTALL = "pip install 'gpu-fleet-optimizer[solve]'"


def fleet_mix_page(mix: FleetMix) -> Page:
    """Headline, machines, copies, routes, what binds; where there is no mix, what has to give way."""
    if not mix.machines:
        return Page(no_headline(mix), [given_way_table(mix.given_way)], mix.notes, [question(mix)])
    tables = [
        machines_table(mix),
        copies_table(mix),
        routes_table(mix),
        latency_table(mix),
        *binding_tables(mix),
        *share_tables(mix),
    ]
    return Page(headline(mix), tables, notes(mix), [question(mix)])


def question(mix: FleetMix) -> str:
    """What was asked, in a sentence."""
    of = [f"{s.model} at {significant(s.requests_per_s)} requests/s" for s in mix.services[:3]]
    more = [f"{len(mix.services) - 3} more"] if len(mix.services) > 3 else []
    return (
        f"{', '.join([*of, *more])}; {plural(mix.num_offers, 'offer')}, {plural(mix.num_buckets, 'bucket')} of lengths."
    )


def headline(mix: FleetMix) -> str:
    """What to rent, what it costs, what is proved."""
    what = " + ".join(machines(m) for m in mix.machines)
    cost = f"{usd_per_hour(mix.usd_per_hour or 0)}, {usd(mix.usd_per_month or 0)} a month"
    return f"Rent {what}: {cost}. {proved(mix)}{against_one_type(mix)}"


def proved(mix: FleetMix) -> str:
    """How far it is proved to be the cheapest."""
    gap = mix.gap_ratio
    if mix.is_greedy or gap is None:
        return "Found at once; how far it is from the cheapest is not known."
    if gap < 1e-6:
        return "No mix costs less at these loads."
    return f"No mix costs less than {usd_per_hour(mix.least_usd_per_hour or 0)} at these loads ({percent(gap)} less)."


def against_one_type(mix: FleetMix) -> str:
    """What one machine type for each service costs."""
    one, usd_mix = mix.usd_per_hour_one_type, mix.usd_per_hour or 0.0
    if one is None:
        return " No single machine type serves."
    if abs(one - usd_mix) < 5e-3:
        return " One machine type for each service costs as much."
    if one < usd_mix:
        return f" Without the limits of the mix one type for each service costs {usd_per_hour(one)}."
    return f" One machine type for each service costs {usd_per_hour(one)}: {percent(1 - usd_mix / one)} saved."


def machines_table(mix: FleetMix) -> Table:
    """The machines, dearest first."""
    columns = [
        Column("usd", "$/h", usd, align="right"),
        Column("machines", "machines", wraps=True),
        Column("gpus", "GPUs"),
        Column("price", "bought"),
        Column("region", "region"),
        Column("without", "without it", lambda u: "-" if u is None else usd_per_hour(u), align="right"),
    ]
    return Table(columns, [machines_row(m) for m in mix.machines], "What to rent; what all costs without each of them")


def machines_row(m: MixMachines) -> Row:
    """Machines of one offer."""
    return {
        "usd": m.usd_per_hour,
        "machines": machines(m),
        "gpus": f"{amount(m.instance_count * m.gpus_per_instance)}x {m.gpu}",
        "price": m.price_kind.replace("_", " "),
        "region": place(m),
        "without": m.usd_per_hour_without,
    }


def copies_table(mix: FleetMix) -> Table:
    """What runs on them, with the latencies of the requests that they get."""
    columns = [
        Column("at", "row", align="right"),
        Column("service", "service", wraps=True),
        Column("on", "on"),
        Column("replicas", "copies"),
        Column("rate", "requests/s", significant, align="right"),
        Column("busy", "busy", percent, align="right"),
        Column("grade", "grade"),
    ]
    rows = [copies_row(mix, at, c) for at, c in enumerate(mix.copies, 1)]
    return Table(columns, rows, "What runs on it; busy: of what it is bought for, headroom included")


def copies_row(mix: FleetMix, at: int, c: MixCopies) -> Row:
    """The copies of one service on machines of one offer."""
    d = c.deployment
    return {
        "at": at,
        "service": mix.services[c.service].model,
        "on": d.gpu,
        "replicas": f"{d.replicas}x {d.layout} {d.weight_format}",
        "rate": c.requests_per_s,
        "busy": c.busy_ratio,
        "grade": d.grade,
    }


def latency_table(mix: FleetMix) -> Table:
    """The objectives of every row of copies, at the requests that it gets."""
    columns = [
        Column("at", "row", align="right"),
        Column("name", "objective"),
        Column("latency", "expected (80% range)"),
        Column("limit", "limit", duration, align="right"),
        Column("slack", "slack", percent, align="right"),
    ]
    rows = [
        {
            "at": at,
            "name": name,
            "latency": ranged_duration(figure.value, figure.low, figure.high),
            "limit": limit,
            "slack": 1 - figure.value / limit,
        }
        for at, copies in enumerate(mix.copies, 1)
        for name, limit in mix.services[copies.service].objectives.items()
        if (figure := copies.deployment.latency.get(name)) is not None
    ]
    return Table(columns, rows, "Latency of the rows", empty="no objectives were asked for")


def routes_table(mix: FleetMix) -> Table:
    """Which requests go where."""
    several = len(mix.services) > 1
    foretold = any(r.from_answer_tokens is not None for r in mix.routes)
    columns = [
        *([Column("service", "service")] if several else []),
        *([Column("class", "class")] if any(r.request_class for r in mix.routes) else []),
        Column("prompt", "prompt tokens"),
        *([Column("answer", "answer tokens")] if foretold else []),
        Column("rate", "requests/s", significant, align="right"),
        Column("to", "to row", wraps=True),
    ]
    return Table(columns, [route_row(mix, r) for r in mix.routes], "Where requests go")


def route_row(mix: FleetMix, r: RouteRow) -> Row:
    """Where some requests go."""
    ends = (r.from_answer_tokens, r.to_answer_tokens)
    return {
        "service": mix.services[r.service].model,
        "class": r.request_class,
        "prompt": between(r.from_prompt_tokens, r.to_prompt_tokens),
        "answer": "any" if ends[0] is None or ends[1] is None else between(ends[0], ends[1]),
        "rate": r.requests_per_s,
        "to": ", ".join(
            f"{at + 1}" if share > 0.9995 else f"{at + 1} ({percent(share)})" for at, share in r.copies.items()
        ),
    }


def between(low: float, high: float) -> str:
    """From so many tokens to so many."""
    return count(low) if round(low) == round(high) else f"{count(low)} - {count(high)}"


def binding_tables(mix: FleetMix) -> list[Table]:
    """What limits are worth."""
    if not mix.binding:
        return []
    lines = [binding_line(mix, limit) for limit in mix.binding]
    return [lines_table("What limits cost", lines)]


def binding_line(mix: FleetMix, b: BindingLimit) -> str:
    """What one machine more of a limit saves."""
    saved = (mix.usd_per_hour or 0.0) - b.usd_per_hour_with_more
    return f"{b.name} is used up ({amount(b.most)}): {amount(b.more)} more would save {usd_per_hour(saved)}"


def share_tables(mix: FleetMix) -> list[Table]:
    """What each cloud has, where shares were asked for, and what they cost."""
    if mix.usd_per_hour_free is None:
        return []
    lines = [f"{cloud}: {percent(share)}" for cloud, share in mix.cloud_shares.items()]
    cost = (mix.usd_per_hour or 0.0) - mix.usd_per_hour_free
    lines.append(
        f"free choice costs {usd_per_hour(mix.usd_per_hour_free)}: the shares cost {usd_per_hour(max(cost, 0.0))}"
    )
    return [lines_table("Shares of clouds", lines)]


def no_headline(mix: FleetMix) -> str:
    """That no mix keeps all limits."""
    return (
        f"No mix keeps all limits. {plural(len(mix.given_way), 'limit')} would have to give way, at the least so far:"
    )


def given_way_table(given: Sequence[GivenWay]) -> Table:
    """What has to give way."""
    return lines_table("The smallest relaxation", [given_way_line(g) for g in given])


def given_way_line(g: GivenWay) -> str:
    """One limit, from what it is to what some mix keeps."""
    ends = (percent(g.limit), percent(g.needed)) if g.is_share else (amount(g.limit), amount(round(g.needed, 3)))
    return f"{g.name}: from {ends[0]} to {ends[1]}"


def notes(mix: FleetMix) -> list[str]:
    """What the figures rest on."""
    found = list(mix.notes)
    if mix.is_greedy:
        found.insert(0, f"{WARNING}OR-Tools is not installed: this mix was found at once. For a proof: {INSTALL}")
    if mix.leaving_usd_per_hour:
        found.append(
            f"Of the cost, {usd_per_hour(mix.leaving_usd_per_hour)} is for machines of today that are given up"
        )
    sources = ", ".join(f"{s.id} {s.as_of}" for s in mix.price_sources)
    return [*found, f"Prices: {sources}."]
