"""What became of a plan, as a page."""

from __future__ import annotations

import math
from dataclasses import replace

from gpufleet.report.fleet_plan import budget_words, missing_words
from gpufleet.report.numbers import count, or_dash, percent, significant, usd_per_hour, usd_per_month
from gpufleet.report.page import Column, Columns, Page, Table, column, number
from gpufleet.report.plan_further import machines_of
from gpufleet.report.service_reasons import why_nothing
from gpufleet.results.plan import Deployment
from gpufleet.results.plan_changes import (
    DigestChange,
    FleetChanges,
    PlanChanges,
    PriceChange,
    QuestionChange,
    QuotaChange,
    is_same,
)
from gpufleet.results.today import Today
from gpufleet.units import PERCENT

NOTHING, TWO_OFFERS = "nothing that serves", "two offers together"
SHOWN_PRICES, SHOWN_QUOTAS = 12, 3
WORDS = {
    "release": "the release of gpufleet",
    "model": "what is known of the model",
    "engine": "the profile of the engine",
    "kernels": "the measured kernels and engine constants",
}


def changes_page(result: PlanChanges) -> Page:
    """The verdict, the three answers, and all that changed; a warning where the price of today's answer is in doubt."""
    tables = [answers_table(result)]
    tables += [prices_table(result)] if result.price_changes else []
    tables += [digests_table(result)] if result.digest_changes else []
    hashes = f"Hash of inputs and prices: {result.was_hash} in the plan, {result.now_hash} today."
    now, doubt = result.now, []
    if now is not None and now.price_doubt:
        doubt = [f"Warning: {machines_of(now)} is in doubt: {now.price_doubt}."]
    lines = [*asked_lines(result), headline(result), why(result), *verdicts(result)]
    return Page(lines[0], tables, [*result.notes, *doubt, hashes], paragraphs=lines[1:])


def asked_lines(result: PlanChanges | FleetChanges) -> list[str]:
    """That the workload file asks something else, and what."""
    if not result.is_asked_otherwise:
        return []
    own = [otherwise_words(change) for change in result.question_changes]
    models = result.models if isinstance(result, FleetChanges) else []
    own += [f"{model.model}: {otherwise_words(change)}" for model in models for change in model.question_changes]
    return [f"The workload file differs from the plan: {'; '.join(own)}. Plan again. With the original question:"]


def otherwise_words(change: QuestionChange) -> str:
    """One input, then and now."""
    return f"{change.what} {change.was or 'not given'} in the plan, {change.now or 'not given'} in the file"


def fleet_changes_page(result: FleetChanges) -> Page:
    """The verdict on all models together, then on each."""
    tables = [verdict_table(result)]
    for model in result.models:
        own = ((prices_table(model), model.price_changes), (digests_table(model), model.digest_changes))
        found = [table for table, is_there in own if is_there]
        tables += [replace(table, title=f"{model.model}: {table.title}") for table in found]
    hashes = f"Hash of inputs and prices: {result.was_hash} in the plan, {result.now_hash} today."
    was, now = (usd_per_hour(usd) for usd in (result.was_usd_per_hour, result.now_usd_per_hour))
    change = f"still {now}" if result.stands else f"{was} in the plan, {now} today"
    verdict = "The plan stands" if result.stands else "The plan changed"
    together = f"{verdict}: {len(result.models)} models together, {change}."
    lines = [*asked_lines(result), together if result.is_feasible else fleet_hindrance(result, was)]
    return Page(lines[0], tables, [*result.notes, hashes], paragraphs=lines[1:])


def fleet_hindrance(result: FleetChanges, was: str) -> str:
    """What hinders all models together today."""
    hindered = "; ".join(map(missing_words, result.missing))
    if result.unserved:
        hindered = f"nothing on offer serves {', '.join(result.unserved)}"
    elif not result.missing:
        now, budget = usd_per_hour(result.now_usd_per_hour), budget_words(result.budget_usd_per_hour)
        hindered = f"{now} at least, over the budget of {budget}"
    return f"The plan does not hold today: {len(result.models)} models, {hindered}; in the plan {was}."


def verdict_table(result: FleetChanges) -> Table:
    """What became of each model."""
    columns: Columns[PlanChanges] = [column("each model alone", lambda m: f"{headline(m)} {why(m)}", wraps=True)]
    return Table.of(result.models, columns)


def headline(result: PlanChanges) -> str:
    """Whether the plan still stands, and first whether anything serves today."""
    if not result.is_feasible:
        then = "nothing" if result.was is None else bought(result.was)
        return f"The plan for {result.model} does not hold today: {why_nothing(result)} In the plan: {then}."
    if result.is_reproduced:
        return f"The plan for {result.model} is reproduced: {bought(result.now)}."
    if is_same(result.was, result.now):
        return f"The answer for {result.model} stands: {bought(result.now)}."
    now = TWO_OFFERS if result.now is None else bought(result.now)
    return f"The answer for {result.model} changed: from {bought(result.was)} to {now}."


def verdicts(result: PlanChanges) -> list[str]:
    """The verdict on what ran when the plan was made, whether it is close and what it saves, then and now."""
    if result.was_today is None or result.now_today is None:
        return []
    (was, was_saved), (now, now_saved) = (step_words(today) for today in (result.was_today, result.now_today))
    still = f"still {now}" if result.verdict_stands else f"{was} in the plan, {now} now"
    return [f"On {result.was_today.asked}: {still}; it saves {was_saved} in the plan, {now_saved} now."]


def step_words(today: Today) -> tuple[str, str]:
    """What to do, and what that saves."""
    saving = today.saving_usd_per_month
    step = f"{today.step}, too close to call" if today.is_close else today.step
    return step, usd_per_month(None if saving is None else saving.value)


def bought(d: Deployment | None) -> str:
    """Machines, layout and cost."""
    return NOTHING if d is None else f"{machines_of(d)}, {d.replicas}x {d.layout}"


def why(result: PlanChanges) -> str:
    """What made the difference: the model, quotas, prices, several of them or none."""
    if not (result.model_changed_it or result.quotas_changed_it or result.prices_changed_it):
        pairs = {"prices": result.price_changes, "quotas": result.quota_changes, "the model": result.digest_changes}
        moved = [what for what, changes in pairs.items() if changes]
        return f"The changes ({' and '.join(moved)}) make no difference." if moved else "Nothing changed since."
    parts = [*([model_words(result)] if result.model_changed_it else [])]
    parts += [quota_words(result)] if result.quotas_changed_it else []
    parts += [price_words(result)] if result.prices_changed_it else ["Prices make no difference."]
    return " ".join(parts)


def quota_words(result: PlanChanges) -> str:
    """Of which machines another number can be had: those of the answer without the change and with it, else all."""
    ends = {(d.cloud, d.instance) for d in (result.at_old_prices, result.at_todays_quotas) if d is not None}
    own = [c for c in result.quota_changes if (c.cloud, c.instance) in ends] or result.quota_changes
    named = list(dict.fromkeys(quota_change_words(c) for c in own))
    what = "; ".join(named[:SHOWN_QUOTAS]) or "quotas of other models"
    return f"Availability decides: {what}."


def quota_change_words(c: QuotaChange) -> str:
    """One quota, a reservation or a rack, then and now."""
    was, now = ("unlimited" if most is None else count(most) for most in (c.was, c.now))
    return f"quota of {machine(c)} {was} -> {now}"


def model_words(result: PlanChanges) -> str:
    """What the model makes of the old prices."""
    what = ", ".join(WORDS.get(c.what, c.what) for c in result.digest_changes)
    cause = f" ({what} changed)" if what else " (the equations changed within one release)"
    return f"At the plan's prices, today's model{cause} would choose {bought(result.at_old_prices)}."


def price_words(result: PlanChanges) -> str:
    """What prices make of it, by name where one change alone decides."""
    decisive = [c for c in result.price_changes if c.is_decisive]
    if decisive:
        moves = "; or ".join(f"{machine(c)} {movement(c)}" for c in decisive)
        return f"Prices decide: {moves}. {'This alone' if len(decisive) == 1 else 'Either alone'} changes the choice."
    then, now = result.at_todays_quotas, result.now
    if then is not None and now is not None and key(then) == key(now):
        own = next((c for c in result.price_changes if key(c) == key(now)), None)
        moved = "" if own is None else f": {machine(own)} {movement(own)}"
        return f"The choice stays, its price changed{moved}."
    alone = [c for c in result.price_changes if c.alone_gives]
    if not alone:
        return "Prices decide: several changed, and no single one changes the choice."
    first = next((c for c in alone if then and key(c) == key(then)), alone[0])
    return (
        "Prices decide: several changed, and no single one gives today's choice. "
        f"{machine(first)} {movement(first)}: alone that gives {first.alone_gives}."
    )


def key(of: Deployment | PriceChange) -> tuple[str, str, str]:
    """A machine type and how it is bought."""
    return of.cloud, of.instance, of.price_kind


def machine(c: PriceChange | QuotaChange) -> str:
    """A machine type with its price kind, where that is not on demand."""
    kind = "" if c.price_kind == "on_demand" else f" {c.price_kind.replace('_', ' ')}"
    return f"{c.cloud} {c.instance.removeprefix('Standard_')}{kind}"


def movement(c: PriceChange) -> str:
    """How a price moved."""
    was, now, ratio = usd_per_hour(c.was_usd_per_hour), usd_per_hour(c.now_usd_per_hour), moved_ratio(c)
    if c.was_usd_per_hour is None:
        return f"is new at {now}"
    if c.now_usd_per_hour is None:
        return f"no longer has a price, was {was}"
    return f"{'rose' if ratio > 0 else 'fell'} {significant(PERCENT * abs(ratio), 2)}%, from {was} to {now}"


def answers_table(result: PlanChanges) -> Table:
    """The answer then, with today's model at the old prices, and today's."""
    columns = [
        Column("name", "answer"),
        Column("bought", "is", bought, wraps=True),
        Column("headroom", "spare", or_dash(lambda d: percent(d.headroom_ratio)), align="right"),
    ]
    named = [
        ("in the plan", result.was),
        ("today's model, prices of the plan", result.at_old_prices),
        *([("within today's quotas", result.at_todays_quotas)] if result.quota_changes else []),
        ("today", result.now),
    ]
    return Table.of_cells(columns, [(name, d, d) for name, d in named], "Then and now")


def prices_table(result: PlanChanges) -> Table:
    """Prices that changed, those that decide first, then the largest changes: what came or went moved most."""
    columns: Columns[PriceChange] = [
        column("machine", machine, wraps=True),
        number("was", lambda c: price_or_none(c.was_usd_per_hour)),
        number("is", lambda c: price_or_none(c.now_usd_per_hour)),
        number("by", change_words),
        column("alone gives", lambda c: c.alone_gives, priority=1, wraps=True),
    ]
    changes = sorted(result.price_changes, key=lambda c: (not c.is_decisive, not c.alone_gives, -abs(moved_ratio(c))))
    hidden = len(changes) - SHOWN_PRICES
    notes = [f"And {count(hidden)} more; -o json has all."] if hidden > 0 else []
    title = f"Prices that changed: {count(len(changes))} of {count(result.num_prices)} considered, per machine"
    return Table.of(changes[:SHOWN_PRICES], columns, title, notes)


def moved_ratio(c: PriceChange) -> float:
    """How far a price moved; without end of one that came or went."""
    if c.was_usd_per_hour is None or c.now_usd_per_hour is None:
        return math.inf
    return c.now_usd_per_hour / c.was_usd_per_hour - 1


def price_or_none(usd_hourly: float | None) -> str:
    """A price, or that there is none."""
    return "no price" if usd_hourly is None else usd_per_hour(usd_hourly)


def change_words(c: PriceChange) -> str:
    """How far a price moved, with its direction."""
    ratio = moved_ratio(c)
    return "-" if math.isinf(ratio) else f"{'+' if ratio > 0 else '-'}{significant(PERCENT * abs(ratio), 2)}%"


def digests_table(result: PlanChanges) -> Table:
    """What predictions rest on and is not what it was."""
    columns: Columns[DigestChange] = [
        column("changed", lambda c: WORDS.get(c.what, f"figures of {c.what}"), wraps=True),
        column("was", lambda c: c.was or "none"),
        column("is", lambda c: c.now or "none"),
    ]
    return Table.of(result.digest_changes, columns, "What predictions rest on")
