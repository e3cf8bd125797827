"""The answer of `gpufleet plan batch` for a model that is not a decoder, as a page."""

from __future__ import annotations

from datetime import date

from gpufleet.report.encoder import PLURALS, input_text
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
from gpufleet.report.numbers import count, duration, usd
from gpufleet.report.page import Page, Table
from gpufleet.report.plan import NARROW_PAGE, plural, rejection_table, until_line
from gpufleet.report.plan_explained import inputs_table
from gpufleet.results.base import Figure
from gpufleet.results.encoder_batch import EncoderBatchPlan, EncoderJobDeployment

FORMULAS = (
    ("work", "floor(n / B) full passes of B inputs, then the rest: n inputs per replica, a pass takes t(B)"),
    ("t(B)", "max(sum of kernels, kernels x host time per kernel); 'gpufleet encode --explain' shows them"),
    ("batch", "the smallest power of two that gives 97 % of the best throughput of all that have room"),
    ("machine time", "start + work x (1 + interruptions per hour x (start + half a pass)): lost work is done again"),
    ("finish", "machine time + work x interruptions per hour x wait for another machine"),
    ("machines", "what costs least of all numbers that are done in time, with the headroom on the work"),
    ("cost", COST_FORMULA),
    ("range", "speed from its 10th to its 90th percentile; on spot with the least and the most interruptions"),
)


def encoder_batch_page(
    plan: EncoderBatchPlan,
    *,
    explain: bool = False,
    all_rejections: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
) -> Page:
    """Headline, reasons, ranking and rejections."""
    tables = [rejection_table(plan.rejections, all_rejections)]
    if plan.deployments:
        costs = cost_table(plan, requests_text(plan), unit_costs(plan))
        tables = [why_table(plan), costs, ranking_table(plan, own_columns(plan), width), *tables]
    tables += [inputs_table(plan.inputs), formulas_table(FORMULAS)] if explain else []
    return Page(headline(plan), tables, notes(plan, today, "GPUs and formats"))


def encoder_batch_rows_page(plan: EncoderBatchPlan) -> Page:
    """The ranking alone: what a CSV holds."""
    return Page(headline(plan), [ranking_table(plan, own_columns(plan))])


def headline(plan: EncoderBatchPlan) -> str:
    """The answer in one sentence."""
    asked = f"{requests_text(plan)} through {plan.model} within {duration(plan.deadline_s)}"
    if not plan.deployments:
        return headline_of(plan, asked, "")
    name, figure = unit_cost(plan, plan.answer)
    return headline_of(plan, asked, f"{usd(figure.value)} {name}")


def requests_text(plan: EncoderBatchPlan) -> str:
    """How many of what."""
    singular = "recording" if plan.audio_s is not None else plan.unit
    noun = singular if plan.requests == 1 else PLURALS.get(singular, "recordings")
    return f"{count(plan.requests)} {noun}{input_text(plan.unit, plan.input_tokens, plan.output_tokens, plan.audio_s)}"


def unit_cost(plan: EncoderBatchPlan, d: EncoderJobDeployment) -> tuple[str, Figure]:
    """What the cost is compared by: an hour of audio, or a million inputs."""
    if d.usd_per_hour_of_audio is not None:
        return "per hour of audio", d.usd_per_hour_of_audio
    return f"per 1M {PLURALS[plan.unit]}", d.usd_per_million_inputs


def why_table(plan: EncoderBatchPlan) -> Table:
    """The reasons for the answer, a line each."""
    d = plan.answer
    units = PLURALS[plan.unit]
    rate = f"{ranged_figure(d.inputs_per_s, f'{units}/s')}"
    if d.audio_s_per_s is not None:
        rate = ranged_figure(d.audio_s_per_s, "s of audio/s")
    lines = [
        f"{plural(d.replicas, 'replica')} in {d.weight_format} with {d.engine}, one on each GPU.",
        f"Each takes {count(d.batch)} {units} a pass, {count(d.largest_batch)} fit; a full pass takes "
        f"{duration(d.wave_s)}.",
        BINDING[d.binding_limit],
        f"All together {rate}.",
        grade_line(d.grade),
        *spot_lines(plan, d),
        *until_line(d),
        *paid_lines(plan, d),
        *tight_line(plan),
        *confidence_line(plan),
    ]
    return Table([], [], "Why this one", [f"  {line}" for line in lines], empty="")


def unit_costs(plan: EncoderBatchPlan) -> dict[str, Figure | None]:
    """What inputs, tokens, hours of audio and recordings cost."""
    d = plan.answer
    return {
        f"$/1M {PLURALS[plan.unit]}": d.usd_per_million_inputs,
        "$/1M tokens": d.usd_per_million_tokens,
        "$/h of audio": d.usd_per_hour_of_audio,
        "$/1,000 recordings": None if plan.audio_s is None else d.usd_per_thousand_requests,
    }


def own_columns(plan: EncoderBatchPlan) -> OwnColumns:
    """Copies, and figures of inputs."""
    name = unit_cost(plan, plan.answer)[0] if plan.deployments else "per input"
    return OwnColumns(
        data=(),
        figures=(
            "usd_per_million_inputs", "usd_per_million_tokens", "usd_per_hour_of_audio", "inputs_per_s",
            "audio_s_per_s",
        ),
        replicas=[f"{count(d.replicas)}x {d.gpu}" for d in plan.deployments],
        per_million=[usd(unit_cost(plan, d)[1].value) for d in plan.deployments],
        million_header=f"$ {name}",
    )  # fmt: skip
