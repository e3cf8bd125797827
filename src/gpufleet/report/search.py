"""What was searched for a plan and left out of it: rejections, what would have to give way, assumptions, prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from gpufleet.domain.confidence import EXPECTED
from gpufleet.provenance import day_in_words
from gpufleet.report.numbers import count, percent, plural
from gpufleet.report.page import Column, Table
from gpufleet.results.answer import PriceSource
from gpufleet.results.base import Input
from gpufleet.results.plan import RejectionCount, ServePlan, ServicePlan

if TYPE_CHECKING:
    from gpufleet.results.job import JobPlan

SHOWN_REJECTIONS, STAR = 6, "*"
TIGHTER = "A tighter limit takes far more machines than the load does."
SPREAD = "spread of lengths"
AS_PUBLISHED = "as published"
WHOSE_LENGTHS = {"input": ("prompts", "--in"), "output": ("answers", "--out")}
NOTHING_HELPS = "No change of one of its parts helps, and none of two of them by the same factor up to 10."
OVER_BUDGET, BEYOND_QUOTA = "over_budget", "beyond_quota"
LOWER_PRECISION, OTHER_ENGINES = "lower precision (--allow-lower-precision)", "other engines (--engine all)"


def inputs_table(inputs: Sequence[Input]) -> Table:
    """Every input as it was read, with where it came from; what nobody gave has a star."""
    plain = plain_inputs_table(inputs)
    rows = [{**i.model_dump(), "name": i.name + STAR * (i.origin == "default")} for i in inputs]
    notes = [f"{STAR} assumed: not given."] if any(i.origin == "default" for i in inputs) else []
    return replace(plain, rows=rows, notes=notes, folded=True)


def plain_inputs_table(inputs: Sequence[Input], *, may_origin_wrap: bool = False) -> Table:
    """The same without stars."""
    columns = [
        Column("name", "input"),
        Column("value", "read as", wraps=True),
        Column("origin", "origin", wraps=may_origin_wrap),
    ]
    return Table(columns, [i.model_dump() for i in inputs], "Inputs")


def rejection_table(rejections: Sequence[RejectionCount], everything: bool) -> Table:
    """Why candidates were rejected, the commonest reason first, each with its nearest miss."""
    columns = [
        Column("count", "count", count, "right"),
        Column("reason", "reason", wraps=True),
        Column("best", "nearest miss", wraps=True),
    ]
    shown = rejections if everything else rejections[:SHOWN_REJECTIONS]
    hidden = rejections[len(shown) :]
    more = f"And {plural(sum(r.count for r in hidden), 'candidate')} for {plural(len(hidden), 'more reason')}: "
    title = f"Rejected: {plural(sum(r.count for r in rejections), 'candidate')}"
    notes = [f"{more}--show rejected."] if hidden else []
    return Table(columns, [r.model_dump() for r in shown], title, notes, empty="Nothing was rejected.", folded=True)


def relaxation_table(plan: ServicePlan, lower: str = "", engines: str = "") -> Table:
    """The smallest changes after which something serves."""
    columns = [
        Column("limit", "what"),
        Column("asked", "asked", align="right"),
        Column("needed", "needed", align="right"),
        Column("candidate", "then possible with", wraps=True),
    ]
    rows = [r.model_dump() for r in plan.relaxations]
    together = any(r.together for r in plan.relaxations)
    sure = "" if plan.confidence <= EXPECTED else f", at {percent(plan.confidence)} confidence"
    how = "No single one is enough: all of these are needed together" if together else "Any one of these is enough"
    notes = [f"{how if len(rows) > 1 else 'This is enough'}{sure}."] if rows else []
    notes += [TIGHTER] if any(r.asked_s is not None for r in plan.relaxations) else []
    notes += untried_line(plan, lower, engines) if lower else []
    return Table(columns, rows, "The smallest change that helps", notes, empty=NOTHING_HELPS)


def untried_line(plan: ServicePlan, lower: str, engines: str) -> list[str]:
    """What the question left out of the search and may help."""
    origins = {i.name: i.origin for i in plan.inputs}
    untried = [
        *([lower] if origins.get("weights") == "checkpoint" else []),
        *([engines] if origins.get("engine") == "default" else []),
        *([f"more {narrowed}" for narrowed in ("clouds", "regions", "GPUs") if origins.get(narrowed) != "default"]),
    ]
    return [f"Not tried: {', '.join(untried)}."] if untried else []


def preferred_line(inputs: Sequence[Input]) -> list[str]:
    """Inputs that the user's configuration gave."""
    parts = [f"{i.name} {i.value}" for i in inputs if i.origin == "config"]
    return [f"From your configuration: {'; '.join(parts)}."] if parts else []


def assumed_line(plan: ServicePlan) -> list[str]:
    """Inputs of a plan that nobody gave; how lengths spread stands in the headline of a model that writes."""
    assumed = plan.lengths_assumed if isinstance(plan, ServePlan) else []
    if not assumed:
        return assumed_words(plan.inputs)
    whose, option = WHOSE_LENGTHS.get(assumed[0] if len(assumed) == 1 else "", ("lengths", "--in"))
    said = f"{whose} spread: {AS_PUBLISHED} (or {option} fixed=N)"
    return assumed_words([i for i in plan.inputs if i.name != SPREAD], [said])


def assumed_words(inputs: Sequence[Input], further: Sequence[str] = ()) -> list[str]:
    """Inputs that nobody gave, and what else was assumed."""
    assumed = {i.name: i.value for i in inputs if i.origin == "default"}
    open_to_all = [name for name in ("clouds", "regions", "GPUs") if name in assumed]
    parts = [
        *([f"engine {assumed['engine']}"] if "engine" in assumed else []),
        *([f"beams {assumed['beams']}, the engine's default"] if "beams" in assumed else []),
        *([f"{assumed['price kinds'].replace('_', ' ')} prices"] if "price kinds" in assumed else []),
        *([f"{assumed['headroom']} headroom"] if "headroom" in assumed else []),
        *([f"all {', '.join(open_to_all)}"] if open_to_all else []),
        *spread_words(assumed),
        *further,
    ]
    return [f"Assumed: {'; '.join(parts)}."] if parts else []


def spread_words(assumed: Mapping[str, str]) -> list[str]:
    """How lengths spread of which only the mean was said, and how to say otherwise."""
    spread = assumed.get(SPREAD)
    return [f"lengths spread: {spread} (or --in fixed=N)"] if spread else []


def notes_of(
    plan: ServicePlan | JobPlan, said: Sequence[str], assumed: Sequence[str], today: date | None, tried: str = "layouts"
) -> list[str]:
    """What is said of a plan, preferences, assumptions, price sources, and how much was searched."""
    searched = (
        f"Searched {count(plan.num_layouts)} {tried}, {count(plan.num_configurations)} configurations, "
        f"{count(plan.num_offers)} offers. Hash of inputs and prices: {plan.input_hash}."
    )
    sentences = [f"{note.rstrip('.')}." for note in said]
    sources = dated_sources(plan.price_sources, today)
    return [*sentences, *preferred_line(plan.inputs), *assumed, *sources, searched]


def dated_sources(sources: Sequence[PriceSource], today: date | None) -> list[str]:
    """Sources of the shown prices with their dates, and the age of the oldest that has one."""
    if not sources:
        return []
    listed = ", ".join(f"{source.id} {source_day(source)}" for source in sources)
    days = [source.as_of for source in dated(sources) if source.as_of is not None]
    if not days:
        return [f"Prices, never live: {listed}."]
    return [f"Prices, never live: {listed}. Oldest: {min(days)}{age_words(min(days), today)}."]


def dated(sources: Sequence[PriceSource]) -> list[PriceSource]:
    """Sources that say their day."""
    return [source for source in sources if source.first_seen is None]


def age_words(day: date, today: date | None) -> str:
    """How old a day is."""
    return "" if today is None else f", {plural(max((today - day).days, 0), 'day')} old"


def source_day(source: PriceSource) -> str:
    """The day of a source; of an undated copy, when it was first seen."""
    day = day_in_words(source.as_of, source.first_seen)
    return day if source.first_seen is None else f"({day})"
