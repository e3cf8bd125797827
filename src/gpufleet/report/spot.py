"""A job on spot, as a page: what it costs and saves, policies, markets, when on demand takes over."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.report.numbers import count, duration, percent, ranged_duration, several, significant, usd, usd_per_hour
from gpufleet.report.page import WARNING, Column, Page, Row, Table, lines_table
from gpufleet.results.base import Figure
from gpufleet.results.spot import SpotMarketRow, SpotPlan, SpotPlay, SpotPrice, SpotRule
from gpufleet.results.spot_service import SpotServicePlan

NEAREST, SHARES_OF_TIME = 6, (0.5, 0.25, 0.1)
SELDOM, ESTIMATED = 0.005, "estimated"
TRANSFERRED = (
    "Nobody publishes availability of newer GPUs: zones are drawn as those of AWS V100 and K80 were in 2022 and 2023. "
    "--trace FILE takes what you saw, --availability and --mean-up what you know."
)


def spot_page(plan: SpotPlan) -> Page:
    """Headline, policies, markets, rules."""
    tables = [policies_table(plan), *([markets_table(plan, "job")] if len(plan.markets) > 1 else []), rules_table(plan)]
    return Page(headline(plan), tables, notes(plan), [question(plan)])


def headline(plan: SpotPlan) -> str:
    """What it costs, saves and risks, beside on demand alone where that is cheapest."""
    best, alone = plan.answer, f"{usd(plan.alone.usd)}{elsewhere(plan)}"
    if plan.saved_ratio <= SELDOM:
        return f"Run it on demand: {alone}. Spot saves nothing here."
    return (
        f"On spot, with on demand as the net: {ranged_usd(best.usd)}, {percent(plan.saved_ratio)} less than on demand "
        f"alone ({alone}); {late_words(best, plan)}."
    )


def elsewhere(plan: SpotPlan | SpotServicePlan) -> str:
    """Where on demand alone is cheapest, if that is another place than the market."""
    alone, market = plan.alone, plan.market
    if (alone.cloud, alone.region, alone.instance) == (market.cloud, market.region, market.instance):
        return ""
    machine = "" if alone.instance == market.instance else f"{alone.instance}, "
    return f" in {machine}{alone.region}"


def late_words(play: SpotPlay, plan: SpotPlan) -> str:
    """How often it is late."""
    if play.late_ratio == 0:
        return f"never late in {several(plan.num_draws, 'draw')}"
    return f"late in {percent(play.late_ratio)} of {several(plan.num_draws, 'draw')}"


def ranged_usd(figure: Figure) -> str:
    """Dollars with their range."""
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return usd(figure.value)
    return f"{usd(figure.value)} ({usd(figure.low)} to {usd(figure.high)})"


def question(plan: SpotPlan) -> str:
    """What was asked, in a sentence."""
    m = plan.market
    where = m.cloud if m.cloud == m.instance else f"{m.cloud} {m.instance}, {m.region}"
    prices = f"spot {spoken_price(m.spot)}, on demand {spoken_price(m.on_demand)} each"
    zones = f"{percent(plan.availability_ratio)} of the time for {duration(plan.mean_up_s)} on average"
    return (
        f"{plan.job[0].upper()}{plan.job[1:]} on {count(plan.num_machines)}x {where} ({prices}), within "
        f"{duration(plan.deadline_s)}. It works {ranged_time(plan.work)}, a start takes {ranged_time(plan.restart)}, a "
        f"checkpoint comes every {duration(plan.checkpoint_interval_s)}. {several(plan.zones, 'zone').capitalize()}, "
        f"each with machines {zones} ({plan.availability_source}).{zones_words(plan)}"
    )


def zones_words(plan: SpotPlan) -> str:
    """How many zones are taken where nobody says."""
    is_said = any(row.name == "zones" and row.origin == "given" for row in plan.inputs)
    return "" if is_said or plan.grade == "measured" else " That many zones unless --zones says."


def ranged_time(figure: Figure) -> str:
    """A time with its range, where it has one."""
    if figure.low == figure.high:
        return duration(figure.value)
    return ranged_duration(figure.value, figure.low, figure.high)


def policies_table(plan: SpotPlan) -> Table:
    """Every policy with the same safety net."""
    columns = [
        Column("policy", "policy"),
        Column("usd", "cost", usd, align="right"),
        Column("usd_low", "10%", usd, align="right"),
        Column("usd_high", "90%", usd, align="right"),
        Column("late_ratio", "late", percent, align="right"),
        Column("losses", "lost", significant, align="right"),
        Column("on_demand_ratio", "on demand", percent, align="right"),
        Column("elapsed", "done after", duration, align="right"),
        Column("title", "which", priority=1),
    ]
    plays = sorted(plan.plays, key=lambda play: play.usd.value)
    names = [play.policy for play in plays]
    title = "Policies, all with the same safety net: mean, 10th and 90th percentile of draws"
    return Table(columns, [play_row(p) for p in plays], title, chosen=names.index(plan.answer.policy))


def play_row(play: SpotPlay) -> Row:
    """One policy."""
    return {
        "policy": play.policy,
        "title": play.title,
        "usd": play.usd.value,
        "usd_low": play.usd.low,
        "usd_high": play.usd.high,
        "late_ratio": play.late_ratio,
        "losses": play.losses.value,
        "on_demand_ratio": play.on_demand_ratio,
        "elapsed": play.elapsed.value,
    }


def markets_table(plan: SpotPlan | SpotServicePlan, what: str) -> Table:
    """Where else, by what it costs there."""
    columns = [
        Column("instance", "machine"),
        Column("region", "region"),
        Column("spot", "spot", align="right"),
        Column("on_demand", "on demand", align="right"),
        Column("usd", what, usd, align="right"),
        Column("saved_ratio", "saves", percent, align="right"),
        Column("interruption", "taken a month"),
    ]
    return Table(columns, [market_row(m) for m in plan.markets[:NEAREST]], "Markets", chosen=0)


def market_row(market: SpotMarketRow) -> Row:
    """One market."""
    prices = {"spot": spoken_price(market.spot), "on_demand": spoken_price(market.on_demand)}
    return {**market.model_dump(), **prices, "usd": market.usd.value}


def spoken_price(price: SpotPrice) -> str:
    """A price by the hour; an estimate has a mark."""
    return f"{'~' if price.basis == ESTIMATED else ''}{usd_per_hour(price.usd_per_hour)}"


def rules_table(plan: SpotPlan) -> Table:
    """When on demand takes over, in words and numbers."""
    best = plan.answer
    when = "" if best.takes_over_s is None else f", half of those within {duration(best.takes_over_s)}"
    lines = [
        f"on demand takes over in {percent(best.takes_over_ratio)} of draws{when}",
        *(threshold_words(rule, plan.deadline_s) for rule in plan.rules.rules if is_told(rule)),
        f"net: on demand while {duration(plan.rules.restart_s)} of start, {duration(plan.rules.loss_s)} of lost work "
        f"and {duration(plan.rules.tick_s)} of tick still fit",
        f"maximum price: {usd_per_hour(plan.most_usd_per_hour)} a machine; above it on demand alone is cheaper",
    ]
    return lines_table("When on demand takes over", lines)


def is_told(rule: SpotRule) -> bool:
    """Whether a rule is told in words: what a job does that has had no machine for long, or goes back to spot."""
    return rule.until_s is None and (rule.running == "waiting") != rule.has_machine and rule.running != "spot"


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


def price_notes(plan: SpotPlan | SpotServicePlan) -> list[str]:
    """Of whom and of which day the prices of the answer are; a warning where one is an estimate or in doubt."""
    used = {"spot": plan.market.spot, "on demand": plan.market.on_demand, "on demand alone": plan.alone.price}
    told = {f"{price.source}, {price.basis}, {price.as_of}": what for what, price in used.items() if price.source}
    sources = "; ".join(f"{what}: {words}" for words, what in told.items())
    return [*price_warnings(used), *([f"Prices, never live. {sources[0].upper()}{sources[1:]}."] if sources else [])]


def price_warnings(used: Mapping[str, SpotPrice]) -> list[str]:
    """What may be wrong with them."""
    guessed = [
        f"{WARNING}the price of {what} is an estimate of {price.as_of}: say yours with --{what.split()[0]}-price."
        for what, price in used.items()
        if price.basis == ESTIMATED
    ]
    doubted = [f"{WARNING}the price of {what} is in doubt: {p.doubt}." for what, p in used.items() if p.doubt]
    return [*guessed, *doubted]


def notes(plan: SpotPlan) -> list[str]:
    """What the figures rest on, and what they leave out."""
    found = [*plan.notes, *price_notes(plan)]
    if plan.grade == "transferred":
        found.append(TRANSFERRED)
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
