"""The answer of `gpufleet plan batch` for a model that is not a decoder, as a page."""

from __future__ import annotations

from datetime import date

from gpufleet.report.encoder import PLURALS, input_text
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
from gpufleet.report.numbers import count, duration, plural, usd
from gpufleet.report.page import Page, Table
from gpufleet.report.rented import NARROW_PAGE
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
    answer = answer_tables(plan, width) if plan.deployments else []
    asked = asked_beside(plan, FORMULAS, explain=explain, all_rejections=all_rejections)
    return Page(headline(plan), [*answer, *asked], notes(plan, today, "GPUs and formats"))


def answer_tables(plan: EncoderBatchPlan, width: int) -> list[Table]:
    """Reasons, costs and ranking of a plan that has an answer."""
    costs = cost_table(plan, requests_text(plan), unit_costs(plan))
    return [why_table(plan), costs, ranking_table(plan, own_columns(plan), width)]


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
    rate = ranged_figure(d.inputs_per_s, f"{units}/s")
    if d.audio_s_per_s is not None:
        rate = ranged_figure(d.audio_s_per_s, "s of audio/s")
    return job_reasons(
        plan,
        f"{plural(d.replicas, 'replica')} in {d.weight_format} with {d.engine}, one on each GPU.",
        f"Each takes {count(d.batch)} {units} a pass, {count(d.largest_batch)} fit; a full pass takes "
        f"{duration(d.wave_s)}.",
        rate,
    )


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
            "usd_per_million_inputs",
            "usd_per_million_tokens",
            "usd_per_hour_of_audio",
            "inputs_per_s",
            "audio_s_per_s",
        ),
        replicas=[f"{count(d.replicas)}x {d.gpu}" for d in plan.deployments],
        per_million=[usd(unit_cost(plan, d)[1].value) for d in plan.deployments],
        million_header=f"$ {name}",
    )
