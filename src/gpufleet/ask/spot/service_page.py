"""A service on spot, as a page: what it costs and saves, how often all machines are ready, what to set."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.ask.spot.job_shape import WORTH_RATIO
from gpufleet.ask.spot.markets_page import elsewhere, machines_words, markets_table, price_notes, zone_notes
from gpufleet.ask.spot.service_shape import ReadyShare, SpotServicePlan, SpotServicePlay, SpotServicePolicy
from gpufleet.report.numbers import duration, percent, plural, significant, usd, usd_per_hour
from gpufleet.report.page import WARNING, Column, Columns, Page, Table, column, lines_table, number
from gpufleet.report.ranges import ranged_by, ranged_time
from gpufleet.units import PERCENT

NEARLY_ALL, SHOWN_RATIO = 0.995, 0.0015
STANDS_IN = {"none": "never", "missing": "for missing", "unready": "for unready"}


def spot_service_page(plan: SpotServicePlan) -> Page:
    """Headline, the frontier, what to set, machines that are ready, markets."""
    markets = [markets_table(plan, "an hour")] if len(plan.markets) > 1 else []
    tables = [frontier_table(plan), settings_table(plan), ready_table(plan), *markets]
    return Page(headline(plan), tables, notes(plan), [question(plan)])


def headline(plan: SpotServicePlan) -> str:
    """What it costs and saves, and for how much of the time all machines are ready."""
    alone = f"{usd_per_hour(plan.alone.usd)}{elsewhere(plan)}"
    if plan.why_not:
        return f"Run it on demand: {alone}. {plan.why_not[0].upper()}{plan.why_not[1:]}."
    if plan.saved_ratio <= WORTH_RATIO:
        return f"Run all {plan.num_machines} on demand: {alone}. Spot saves nothing at {share(plan.target_ratio)}."
    best = plan.answer
    return (
        f"{how_words(plan)}: {ranged_by(best.usd_per_hour, usd)} an hour, {percent(plan.saved_ratio)} less than on "
        f"demand ({alone}); all {plan.num_machines} ready {ranged_by(best.attained, share)} of the time"
        f"{in_time_words(plan)}."
    )


def how_words(plan: SpotServicePlan) -> str:
    """Which machines, in a sentence."""
    policy, zones = plan.answer.policy, plural(plan.zones, "zone")
    floor = f", {policy.floor} always on demand" if policy.floor else ""
    spares = f", with up to {plural(policy.spares, 'spare')}" if policy.spares else ""
    stands_in = " and on demand standing in" if policy.fallback != "none" else ""
    beside = f"{spares}{stands_in}" if spares else stands_in.replace(" and", ", with", 1)
    return f"Run {plan.num_machines - policy.floor} on spot over {zones}{floor}{beside}"


def in_time_words(plan: SpotServicePlan) -> str:
    """How many requests keep their limits, where that is known, beside those that do with all machines ready."""
    if plan.answer.in_time_ratio is None:
        return ""
    at_best = next((r.in_time_ratio for r in plan.ready if r.machines == plan.num_machines), None)
    beside = "" if at_best is None else f" ({share(at_best)} with {plan.num_machines})"
    return f", {share(plan.answer.in_time_ratio)} of requests in time{beside}"


def share(ratio: float) -> str:
    """A share of time, with the more digits the nearer it is to all.

    >>> share(0.95), share(0.9923), share(0.9987)
    ('95.0%', '99.2%', '99.87%')
    """
    return f"{ratio * PERCENT:.{2 if NEARLY_ALL <= ratio < 1 else 1}f}%"


def question(plan: SpotServicePlan) -> str:
    """What was asked, in a sentence."""
    return (
        f"{plan.model} on {machines_words(plan)}, all ready for {share(plan.target_ratio)} of the "
        f"time; a start takes {ranged_time(plan.start)}. {plural(plan.zones, 'zone').capitalize()}, each with any "
        f"machine {percent(plan.availability_ratio)} of the time ({plan.availability_source})."
    )


def settings_table(plan: SpotServicePlan) -> Table:
    """What to set."""
    policy = plan.answer.policy
    if policy.floor == plan.num_machines:
        return lines_table("What to set", [f"on demand: {policy.floor} always"])
    calm = f"in zones that have lost none for {duration(policy.calm_s)}" if policy.calm_s else "in any zone that has it"
    lines = [
        f"spot: {plan.num_machines - policy.floor} machines over {plural(plan.zones, 'zone')}{spares_words(policy)}",
        f"order spot {calm}, where fewest of yours are",
        f"on demand: {policy.floor} always; {fallback_words(policy)}",
        f"maximum price: {usd_per_hour(plan.most_usd_per_hour)} a machine; above it all on demand is cheaper",
        *(
            f"over {plural(each.zones, 'zone')} alone: {usd_per_hour(each.usd_per_hour)}, all ready "
            f"{share(each.attained_ratio)} of the time"
            for each in plan.fewer_zones
        ),
    ]
    return lines_table("What to set", lines)


def spares_words(policy: SpotServicePolicy) -> str:
    """When spares are held."""
    if not policy.spares:
        return ", no spares"
    if policy.young_s is None:
        return f", and always {plural(policy.spares, 'spare')}"
    return f", and up to {policy.spares} more: one for each in a zone that lost one within {duration(policy.young_s)}"


def fallback_words(policy: SpotServicePolicy) -> str:
    """When on demand stands in."""
    if policy.fallback == "none":
        return "it never stands in for spot"
    starting = "" if policy.fallback == "missing" else " or still starts"
    held = f" for {duration(policy.hold_s)}" if policy.hold_s else ""
    return f"one more for each that spot lacks{starting}, given back once spot has been ready{held}"


def frontier_table(plan: SpotServicePlan) -> Table:
    """Policies that none beats in both cost and time with all ready; the best fixed one beside them."""
    columns: Columns[SpotServicePlay] = [
        number("an hour", lambda play: play.usd_per_hour.value, key="usd", show=usd),
        number("all ready", lambda play: play.attained.value, key="attained", show=share),
        number("10%", lambda play: play.attained.low, key="attained_low", show=share, priority=1),
        number("in time", lambda play: play.in_time_ratio, key="in_time", show=share_or_unknown),
        number("floor", lambda play: play.policy.floor),
        number("spares", lambda play: play.policy.spares),
        column("stands in", lambda play: STANDS_IN[play.policy.fallback], key="fallback"),
        number("calm for", lambda play: play.policy.calm_s, key="calm_s", show=lambda s: duration(s) if s else "0"),
        number("lost a day", lambda play: play.losses_per_day, key="losses", show=significant),
    ]
    title = "Policies that none beats in cost and in time with all ready"
    chosen = next((i for i, play in enumerate(plan.frontier) if play == plan.answer), None)
    return Table.of(plan.frontier, columns, title, chosen=chosen)


def share_or_unknown(ratio: float | None) -> str:
    """A share, where it is known."""
    return "unknown" if ratio is None else share(ratio)


def ready_table(plan: SpotServicePlan) -> Table:
    """How long so many machines are ready under the answer, and what that does to requests.

    All and more are one row, the fewest that hardly ever happen another.
    """
    columns = [
        Column("machines", "ready"),
        Column("time_ratio", "of the time", share, align="right"),
        Column("in_time", "requests in time", share_or_unknown, align="right"),
    ]
    most = plan.num_machines
    below = sorted((r for r in plan.ready if r.machines < most), key=lambda r: -r.machines)
    parts = {f"all {most}": [r for r in plan.ready if r.machines >= most]}
    parts |= {str(r.machines): [r] for r in below if r.time_ratio >= SHOWN_RATIO}
    parts |= {"others": [r for r in below if r.time_ratio < SHOWN_RATIO]}
    rows = [(name, *ready_shares(together)) for name, together in parts.items() if together]
    return Table.of_cells(columns, rows, "Machines ready under the first")


def ready_shares(rows: Sequence[ReadyShare]) -> tuple[float, float | None]:
    """Of the time and of requests, for some numbers of machines together."""
    time = sum(r.time_ratio for r in rows)
    known = [r.time_ratio * r.in_time_ratio for r in rows if r.in_time_ratio is not None]
    return time, sum(known) / time if len(known) == len(rows) else None


def notes(plan: SpotServicePlan) -> list[str]:
    """What the figures rest on, and what they leave out; first that the target is not kept on draws that are told."""
    attained, wanted = share(plan.answer.attained.value), share(plan.target_ratio)
    missed = (
        f"{WARNING}all are ready {attained} of the time here, short of {wanted}: take the next of the policies, or ask "
        "for more."
    )
    found = [*([] if plan.keeps_target else [missed]), *plan.notes, *price_notes(plan), *zone_notes(plan.grade)]
    found.append(f"Chosen on other draws than those told here{passed_over(plan)}. {fixed_words(plan)}")
    if plan.attained_if_slow_ratio < plan.answer.attained.value:
        slow = duration(plan.start.high)
        found.append(f"Where each start takes {slow}, all are ready {share(plan.attained_if_slow_ratio)} of the time.")
    found.append(
        "On demand is taken to be had whenever it is asked for. Requests in time are closed forms of a steady rate; "
        f"gpufleet simulate PLAN.json --spot-trace FILE --on-demand "
        f"{plan.answer.policy.floor * plan.replicas_per_machine} replays them one by one, each "
        "machine of the trace a replica, without spares and with nothing that stands in."
    )
    if plan.market.cloud == "aws":
        found.append("--spot-fleet OUT.tf writes the fleet for Terraform.")
    return found


def passed_over(plan: SpotServicePlan) -> str:
    """That cheaper rows keep the target here alone: each of them was among those that could be chosen."""
    answer, target = plan.answer.usd_per_hour.value, plan.target_ratio
    lucky = [p for p in plan.frontier if p.usd_per_hour.value < answer and p.attained.value >= target]
    return f", on which {plural(len(lucky), 'cheaper row')} missed the target" if lucky else ""


def fixed_words(plan: SpotServicePlan) -> str:
    """The best policy whose numbers never change, beside the answer."""
    fixed = plan.fixed
    if fixed.policy == plan.answer.policy:
        return "No policy that changes its numbers is cheaper."
    how = f"{fixed.policy.floor} on demand and {plural(fixed.policy.spares, 'spare')}, never changed"
    return f"{how}, cost {usd_per_hour(fixed.usd_per_hour.value)}, all ready {share(fixed.attained.value)}."
