"""The answer of `gpufleet plan batch` for a model that writes, as a page."""

from __future__ import annotations

from datetime import date

from gpufleet.report.job_plan import (
    COST_FORMULA,
    OwnColumns,
    asked_beside,
    cost_table,
    headline_of,
    job_reasons,
    notes,
    ranged_figure,
    ranking_table,
)
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import amount, count, duration, plural, usd
from gpufleet.report.page import Page, Table
from gpufleet.report.rented import NARROW_PAGE
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
    answer = answer_tables(plan, width) if plan.deployments else []
    asked = asked_beside(plan, FORMULAS, explain=explain, all_rejections=all_rejections)
    return Page(headline(plan), [*answer, *asked], notes(plan, today))


def answer_tables(plan: BatchPlan, width: int) -> list[Table]:
    """Reasons, costs, ranking and start of a plan that has an answer."""
    costs = cost_table(plan, requests_text(plan), unit_costs(plan))
    started = launch_tables(plan.answer.launch, plan.answer.replicas)
    return [why_table(plan), costs, ranking_table(plan, own_columns(plan), width), *started]


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
    idle = "no GPU idle" if not d.idle_gpus else f"{plural(d.idle_gpus, 'GPU')} idle but paid for"
    return job_reasons(
        plan,
        f"{plural(d.replicas, 'replica')} of {d.layout} in {d.weight_format} with {d.engine}, KV cache "
        f"{d.kv_precision}; {idle}.",
        f"Each works on {count(d.batch)} requests at a time, {count(d.largest_batch)} fit; a batch takes "
        f"{duration(d.wave_s)}.",
        ranged_figure(d.output_tokens_per_s, "output tokens/s"),
    )


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
