"""The answer of `gpufleet plan serve` as a page: what to rent, why, what else serves, what was rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from gpufleet.report.launch import launch_tables
from gpufleet.report.mixed import mixed_headline, mixed_tables
from gpufleet.report.numbers import amount, several, usd, usd_per_hour, usd_per_month
from gpufleet.report.page import Column, Page, Table
from gpufleet.report.plan_explained import explained_tables
from gpufleet.report.plan_further import further_tables
from gpufleet.report.plan_reasons import quality_line, why_table
from gpufleet.report.rented import NARROW_PAGE, rented_words
from gpufleet.report.rest_of_bill import bill_tables
from gpufleet.report.search import (
    assumed_line,
    notes_of,
    rejection_table,
    relaxation_table,
)
from gpufleet.report.service_reasons import kind, total, why_nothing
from gpufleet.report.service_tables import OwnColumns, objective_table, ranking_table
from gpufleet.report.text import page_as_text
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.results.today import Today


def plan_page(
    plan: ServePlan,
    *,
    explain: bool = False,
    all_rejections: bool = False,
    all_flips: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
) -> Page:
    """Headline, reasons, ranking and rejections; without an answer, what would have to give way."""
    tables = [*today_tables(plan), *served_tables(plan, width)]
    tables += further_tables(plan, all_flips, width)
    tables.append(rejection_table(plan.rejections, all_rejections))
    if explain:
        tables += explained_tables(plan)
    return Page(headline(plan), tables, notes(plan, today), verdict_on_today(plan))


def verdict_on_today(plan: ServePlan) -> list[str]:
    """What to do with what runs today, where that was said."""
    if plan.today is None:
        return []
    from gpufleet.report.today import price_lines, verdict_line

    return [verdict_line(plan, plan.today), *price_lines(plan, plan.today)]


def today_tables(plan: ServePlan) -> list[Table]:
    """What runs today; what writes it is loaded then."""
    if plan.today is None:
        return []
    from gpufleet.report.today import tables_of_today

    return tables_of_today(plan, plan.today)


def reasons(plan: ServePlan) -> str:
    """Headline and reasons as plain text."""
    tables = [why_table(plan)] if plan.deployments else mixed_tables(plan)[:1] or [relaxation_table(plan)]
    return page_as_text(Page(headline(plan), tables), NARROW_PAGE)


def plan_rows_page(plan: ServePlan) -> Page:
    """The ranking alone: what a CSV holds; of two offers together, the two."""
    if plan.mix is None or plan.deployments:
        return Page(headline(plan), [ranking_table(plan, own_columns(plan.deployments, plan.today))])
    deployments = [part.deployment for part in plan.mix.parts]
    parts = plan.model_copy(update={"deployments": deployments})
    shares = [part.share_ratio for part in plan.mix.parts]
    table = ranking_table(parts, own_columns(deployments))
    rows = [{**row, "share_ratio": share} for row, share in zip(table.rows, shares, strict=True)]
    share = Column("share_ratio", "share", where="data")
    return Page(headline(plan), [replace(table, columns=[share, *table.columns], rows=rows)])


def served_tables(plan: ServePlan, width: int) -> list[Table]:
    """What serves: one offer, and two where they cost less or none alone has enough; else what would have to change."""
    if not plan.is_feasible:
        return [relaxation_table(plan)]
    return [*(answer_tables(plan, width) if plan.deployments else []), *mixed_tables(plan)]


def answer_tables(plan: ServePlan, width: int) -> list[Table]:
    """Reasons, objectives and ranking of a plan that has an answer."""
    own, lengths = own_columns(plan.deployments, plan.today), lengths_text(plan)
    ranking, started = ranking_table(plan, own, width), launch_tables(plan.answer.launch, plan.answer.replicas)
    return [why_table(plan), objective_table(plan, lengths), ranking, *bill_tables(plan), *started]


def lengths_text(plan: ServePlan) -> str:
    """Tokens of prompts and answers."""
    return f"{amount(plan.input_tokens)} tokens in, {amount(plan.output_tokens)} out"


def headline(plan: ServePlan) -> str:
    """The answer in one sentence."""
    asked = f"{plan.model} at {several(plan.rate_requests_per_s, 'request')}/s"
    if not plan.deployments and plan.mix is not None:
        return f"{asked}: {mixed_headline(plan.mix)}."
    if not plan.deployments:
        return f"{asked}: {why_nothing(plan)}"
    d = plan.answer
    tokens = f"{total(d, usd, d.usd_per_million_output_tokens)} per 1M output tokens"
    price = f"{total(d, usd_per_hour, d.usd_per_hour)}, {total(d, usd_per_month, d.usd_per_month)}, {tokens}"
    return f"{asked}: {rented_words(d, kind(d))}: {price}."


def own_columns(deployments: Sequence[Deployment], today: Today | None = None) -> OwnColumns:
    """Layouts, what output tokens cost, and what a row saves beside what runs today."""
    return OwnColumns(
        data=("kv_precision", "layout", "usd_per_million_output_tokens"),
        replicas=[f"{d.replicas}x {d.layout}" for d in deployments],
        unit_cost=[usd(d.usd_per_million_output_tokens) for d in deployments],
        saves=[] if today is None else [today.saved_by(d.avoidable_usd_per_hour) for d in deployments],
    )


def notes(plan: ServePlan, today: date | None) -> list[str]:
    """How names were read, what was assumed, price sources, and how much was searched."""
    is_free = bool(plan.deployments) and not plan.objectives
    free = ["No objective was asked for (--slo): the cheapest that keeps up."] if is_free else []
    reasons = quality_line(plan) if plan.deployments else []
    said = [note for note in plan.notes if f"Quality: {note}." not in reasons]
    return notes_of(plan, [*said, *free], assumed_line(plan), today)
