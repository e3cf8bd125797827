"""A job on spot, as a page: what it costs and saves, policies, markets, when on demand takes over."""

from __future__ import annotations

from gpufleet.ask.spot.job_shape import WORTH_RATIO, SpotPlan, SpotPlay, SpotRule
from gpufleet.ask.spot.markets_page import elsewhere, machines_words, markets_table, price_notes, zone_notes
from gpufleet.report.numbers import duration, percent, several, significant, usd, usd_per_hour
from gpufleet.report.page import Columns, Page, Table, column, lines_table, number
from gpufleet.report.ranges import ranged_by, ranged_time

SHARES_OF_TIME, ON_DEMAND = (0.5, 0.25, 0.1), "on-demand"


def spot_page(plan: SpotPlan) -> Page:
    """Headline, policies, markets, rules."""
    tables = [policies_table(plan), *([markets_table(plan, "job")] if len(plan.markets) > 1 else []), rules_table(plan)]
    return Page(headline(plan), tables, notes(plan), [question(plan)])


def headline(plan: SpotPlan) -> str:
    """What it costs, saves and how often it is late, beside on demand alone where that is cheapest."""
    best, alone = plan.answer, f"{usd(plan.alone.usd)}{elsewhere(plan)}"
    if not plan.has_time_for_spot:
        return f"Run it on demand: {alone}. {duration(plan.deadline_s)} leave no time for spot."
    if plan.saved_ratio <= WORTH_RATIO:
        return f"Run it on demand: {alone}. Spot saves nothing here."
    late = "never late in" if best.late_ratio == 0 else f"late in {percent(best.late_ratio)} of"
    return (
        f"On spot, with on demand as the net: {ranged_by(best.usd, usd)}, {percent(plan.saved_ratio)} less than on "
        f"demand alone ({alone}); {late} {several(plan.num_draws, 'draw')}."
    )


def question(plan: SpotPlan) -> str:
    """What was asked, in a sentence, and how many zones are taken where nobody says."""
    zones = f"{percent(plan.availability_ratio)} of the time for {duration(plan.mean_up_s)} on average"
    is_said = any(row.name == "zones" and row.origin == "given" for row in plan.inputs) or plan.grade == "measured"
    return (
        f"{plan.job[0].upper()}{plan.job[1:]} on {machines_words(plan)}, within "
        f"{duration(plan.deadline_s)}. It works {ranged_time(plan.work)}, a start takes {ranged_time(plan.restart)}, a "
        f"checkpoint comes every {duration(plan.checkpoint_interval_s)}. {several(plan.zones, 'zone').capitalize()}, "
        f"each with machines {zones} ({plan.availability_source})."
        f"{'' if is_said else ' That many zones unless --zones says.'}"
    )


def policies_table(plan: SpotPlan) -> Table:
    """Every policy with the same safety net."""
    columns: Columns[SpotPlay] = [
        column("policy", lambda play: play.policy),
        number("cost", lambda play: play.usd.value, key="usd", show=usd),
        number("10%", lambda play: play.usd.low, key="usd_low", show=usd),
        number("90%", lambda play: play.usd.high, key="usd_high", show=usd),
        number("late", lambda play: play.late_ratio, key="late_ratio", show=percent),
        number("lost", lambda play: play.losses.value, key="losses", show=significant),
        number("on demand", lambda play: play.on_demand_ratio, key="on_demand_ratio", show=percent),
        number("done after", lambda play: play.elapsed.value, key="elapsed", show=duration),
        column("which", lambda play: play.title, key="title", priority=1),
    ]
    plays = sorted(plan.plays, key=lambda play: play.usd.value)
    chosen = [play.policy for play in plays].index(plan.answer.policy)
    title = "Policies, all with the same safety net: mean, 10th and 90th percentile of draws"
    return Table.of(plays, columns, title, chosen=chosen)


def rules_table(plan: SpotPlan) -> Table:
    """When on demand takes over, in words and numbers: how often, by which slack, and what the net holds.

    Of the rules what a job does that has had no machine for long, or goes back to spot; why a job runs on demand from
    start to end, if it does.
    """
    best, rules, restart, tick = plan.answer, plan.rules, duration(plan.rules.restart_s), duration(plan.rules.tick_s)
    when = "" if best.takes_over_s is None else f", half of those within {duration(best.takes_over_s)}"
    told = [
        rule
        for rule in rules.rules
        if rule.until_s is None and (rule.running == "waiting") != rule.has_machine and rule.running != "spot"
    ]
    lines = [
        f"on demand takes over in {percent(best.takes_over_ratio)} of draws{when}",
        *(threshold_words(rule, plan.deadline_s) for rule in told),
        f"net: on demand unless the time left holds the work left, {restart} of start, {tick} until the next look and, "
        f"on spot, {duration(rules.loss_s)} of lost work",
        f"maximum price: {usd_per_hour(plan.most_usd_per_hour)} a machine; above it on demand alone is cheaper",
    ]
    if best.policy == ON_DEMAND:
        why = (
            f": {duration(rules.work_s)} of work with checkpoints, {restart} of start and {tick} until a loss is seen "
            f"do not fit {duration(plan.deadline_s)}"
        )
        lines = [f"from the start to the end{'' if plan.has_time_for_spot else why}"]
    return lines_table("When on demand takes over", lines)


def threshold_words(rule: SpotRule, deadline_s: float) -> str:
    """A rule at some times left."""
    told = [f"{duration(slack_at(rule, share * deadline_s))} with {duration(share * deadline_s)} left"
            for share in SHARES_OF_TIME]  # fmt: skip
    doing = "without a machine: wait" if not rule.has_machine else "on demand: go back to spot"
    return f"{doing} while there is slack of {', '.join(told)}"


def slack_at(rule: SpotRule, left_s: float) -> float:
    """The threshold with so much time left, in a straight line between its points."""
    points = rule.on_demand_below
    after = next((i for i, point in enumerate(points) if point.left_s >= left_s), len(points) - 1)
    a, b = points[max(after - 1, 0)], points[after]
    share = 0.0 if a.left_s == b.left_s else (left_s - a.left_s) / (b.left_s - a.left_s)
    return a.slack_s + (b.slack_s - a.slack_s) * share


def notes(plan: SpotPlan) -> list[str]:
    """What the figures rest on, and what they leave out."""
    found = [*plan.notes, *price_notes(plan), *zone_notes(plan.grade)]
    if plan.usd_if_seldom_taken is not None:
        seldom = f"{usd(plan.usd_if_seldom_taken)} at the rate of interruptions that the cloud's advisor names"
        found.append(f"Optimistic end: {seldom}; it counts machines taken away, not starts refused.")
    if plan.late_if_refused_ratio > plan.answer.late_ratio:
        found.append(
            f"Where on demand is refused for {duration(plan.refused_s)} whenever it is asked for, "
            f"{percent(plan.late_if_refused_ratio)} end late: --reserve {duration(plan.refused_s).replace(' ', '')} "
            "keeps that time."
        )
    found.append("-o json holds the policy as data (rules); --rules FILE writes it, --replay LOG checks a log by it.")
    return found
