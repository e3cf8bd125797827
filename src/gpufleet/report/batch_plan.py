"""The answer of `gpufleet plan batch` for a model that writes, as a page."""

from __future__ import annotations

from datetime import date

from gpufleet.report.grades import grade_line
from gpufleet.report.job_plan import (
    BINDING,
    COST_FORMULA,
    OwnColumns,
    confidence_line,
    cost_table,
    formulas_table,
    headline_of,
    notes,
    paid_lines,
    ranged_figure,
    ranking_table,
    spot_lines,
    tight_line,
)
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import amount, count, duration, usd
from gpufleet.report.page import Page, Table
from gpufleet.report.plan import NARROW_PAGE, plural, rejection_table, until_line
from gpufleet.report.plan_explained import inputs_table
from gpufleet.results.base import Figure
from gpufleet.results.batch import BatchPlan

FORMULAS = (
    ("work", "floor(n / B) full waves of B requests, then the rest: n requests per replica, a wave takes B / rate(B)"),
    ("batch", "the B that memory holds at which most requests are done per second; n where there are fewer"),
    ("machine time", "start + work x (1 + interruptions per hour x (start + half a wave)): lost work is done again"),
    ("finish", "machine time + work x interruptions per hour x wait for another machine"),
    ("machines", "what costs least of all numbers that are done in time, with the headroom on the work"),
    ("cost", COST_FORMULA),
    ("$/1M tokens", "cost over prompts and answers together; $/1M out over the answers alone"),
    ("range", "speed from its 10th to its 90th percentile; on spot with the least and the most interruptions"),
)


def batch_page(
    plan: BatchPlan,
    *,
    explain: bool = False,
    all_rejections: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
) -> Page:
    """Headline, reasons, ranking and rejections."""
    tables = [rejection_table(plan.rejections, all_rejections)]
    if plan.deployments:
        costs, own = cost_table(plan, requests_text(plan), unit_costs(plan)), own_columns(plan)
        started = launch_tables(plan.answer.launch, plan.answer.replicas)
        tables = [why_table(plan), costs, ranking_table(plan, own, width), *started, *tables]
    tables += [inputs_table(plan.inputs), formulas_table(FORMULAS)] if explain else []
    return Page(headline(plan), tables, notes(plan, today))


def batch_rows_page(plan: BatchPlan) -> Page:
    """The ranking alone: what a CSV holds."""
    return Page(headline(plan), [ranking_table(plan, own_columns(plan))])


def headline(plan: BatchPlan) -> str:
    """The answer in one sentence."""
    asked = f"{count(plan.requests)} requests of {plan.model} within {duration(plan.deadline_s)}"
    tokens = plan.deployments[0].usd_per_million_tokens.value if plan.deployments else None
    return headline_of(plan, asked, f"{usd(tokens)} per 1M tokens")


def own_columns(plan: BatchPlan) -> OwnColumns:
    """Layouts, and figures of tokens."""
    return OwnColumns(
        data=("kv_precision", "layout"),
        figures=("usd_per_million_tokens", "usd_per_million_output_tokens", "output_tokens_per_s"),
        replicas=[f"{d.replicas}x {d.layout}" for d in plan.deployments],
        per_million=[usd(d.usd_per_million_tokens.value) for d in plan.deployments],
    )


def why_table(plan: BatchPlan) -> Table:
    """The reasons for the answer, a line each."""
    d = plan.answer
    lines = [
        f"{plural(d.replicas, 'replica')} of {d.layout} in {d.weight_format} with {d.engine}, KV cache "
        f"{d.kv_precision}; {'no GPU idle' if not d.idle_gpus else plural(d.idle_gpus, 'GPU') + ' idle but paid for'}.",
        f"Each works on {count(d.batch)} requests at a time, {count(d.largest_batch)} fit; a batch takes "
        f"{duration(d.wave_s)}.",
        BINDING[d.binding_limit],
        f"All together {ranged_figure(d.output_tokens_per_s, 'output tokens/s')}.",
        grade_line(d.grade),
        *spot_lines(plan, d),
        *until_line(d),
        *paid_lines(plan, d),
        *tight_line(plan),
        *confidence_line(plan),
    ]
    return Table([], [], "Why this one", [f"  {line}" for line in lines], empty="")


def requests_text(plan: BatchPlan) -> str:
    """How many of what lengths."""
    lengths = f"{amount(plan.input_tokens)} tokens in, {amount(plan.output_tokens)} out"
    return f"{count(plan.requests)} requests with {lengths}"


def unit_costs(plan: BatchPlan) -> dict[str, Figure | None]:
    """What tokens and requests cost."""
    d = plan.answer
    return {
        "$/1M tokens": d.usd_per_million_tokens,
        "$/1M output tokens": d.usd_per_million_output_tokens,
        "$/1,000 requests": d.usd_per_thousand_requests,
    }
