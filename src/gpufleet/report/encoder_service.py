"""The answer of `gpufleet plan serve` for a model that is not a decoder, as a page."""

from __future__ import annotations

from datetime import date

from gpufleet.report.encoder import PLURALS, input_text
from gpufleet.report.grades import grade_line
from gpufleet.report.job_plan import formulas_table
from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    percent,
    plural,
    significant,
    usd,
    usd_per_hour,
    usd_per_month,
)
from gpufleet.report.page import Page, Table, lines_table
from gpufleet.report.plan_explained import inputs_table
from gpufleet.report.plan_reasons import LOAD
from gpufleet.report.rented import NARROW_PAGE, rented_words, until_line
from gpufleet.report.rest_of_bill import bill_tables
from gpufleet.report.search import (
    assumed_line,
    notes_of,
    rejection_table,
    relaxation_table,
)
from gpufleet.report.service_reasons import (
    binding_line,
    capacity_line,
    confidence_line,
    hours_line,
    idle_line,
    kind,
    own_line,
    spot_line,
    steadier_line,
    total,
    why_nothing,
)
from gpufleet.report.service_tables import OwnColumns, objective_table, ranking_table
from gpufleet.results.encoder_service import EncoderDeployment, EncoderServePlan

LOWER, ENGINES = "int8 (--precision int8)", "other engines (--engine)"
FORMULAS = (
    ("latency", "rest of the running pass + others' work where a replica is nearly full (M/D/1) + the own pass"),
    ("rest of a pass", "uniform over the pass, for the share of requests that find one running: a / (a + exp(-a))"),
    ("own pass", "t(1 + a), for a percentile t(1 + a + z sqrt(a / (1 - s^2))); s: rate x dt/da"),
    ("a", "requests that come during a pass: rate of a replica x t(a + exp(-a))"),
    ("t(n)", "max(sum of kernels, kernels x host time per kernel); 'gpufleet encode --explain' shows them"),
    ("percentiles", "over requests, Poisson arrivals; without network, tokenising and reading of files"),
    ("load factor", "rate per replica / the rate of full passes; refused above 0.95"),
    ("capacity", "replicas x the highest rate at which one keeps all objectives and load <= 0.95"),
    ("headroom", "capacity / rate - 1"),
    ("range", "a pass slower or faster by its 80 % range, and the queue solved again with it"),
    ("$/month", "$/h x 730 h"),
)


def encoder_serve_page(
    plan: EncoderServePlan,
    *,
    explain: bool = False,
    all_rejections: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
) -> Page:
    """Headline, reasons, ranking and rejections; without an answer, what would have to give way."""
    tables = answer_tables(plan, width) if plan.deployments else [relaxation_table(plan, LOWER, ENGINES)]
    tables.append(rejection_table(plan.rejections, all_rejections))
    tables += [inputs_table(plan.inputs), formulas_table(FORMULAS)] if explain else []
    return Page(headline(plan), tables, notes(plan, today))


def encoder_serve_rows_page(plan: EncoderServePlan) -> Page:
    """The ranking alone: what a CSV holds."""
    return Page(headline(plan), [ranking_table(plan, own_columns(plan))])


def answer_tables(plan: EncoderServePlan, width: int) -> list[Table]:
    """Reasons, latency and ranking of a plan that has an answer."""
    own, what = own_columns(plan), asked_text(plan)
    return [why_table(plan), objective_table(plan, what), ranking_table(plan, own, width), *bill_tables(plan)]


def asked_text(plan: EncoderServePlan) -> str:
    """How many of what, how large."""
    noun = "recordings" if plan.audio_s is not None else PLURALS[plan.unit]
    each = input_text(plan.unit, plan.input_tokens, plan.output_tokens, plan.audio_s)
    return f"{amount(plan.rate_requests_per_s)} {noun}/s{each}"


def headline(plan: EncoderServePlan) -> str:
    """The answer in one sentence."""
    asked = f"{asked_text(plan)} through {plan.model}"
    if not plan.deployments:
        return f"{asked}: {why_nothing(plan)}"
    d = plan.answer
    name, cost = unit_cost(plan, d)
    price = f"{total(d, usd_per_hour, d.usd_per_hour)}, {total(d, usd_per_month, d.usd_per_month)}"
    return f"{asked}: {rented_words(d, kind(d))}: {price}, {total(d, usd, cost)} {name}."


def unit_cost(plan: EncoderServePlan, d: EncoderDeployment) -> tuple[str, float]:
    """What the cost is compared by: an hour of audio, or a million inputs."""
    if d.usd_per_hour_of_audio is not None:
        return "per hour of audio", d.usd_per_hour_of_audio
    return f"per 1M {PLURALS[plan.unit]}", d.usd_per_million_inputs


def why_table(plan: EncoderServePlan) -> Table:
    """The reasons for the answer, a line each."""
    d = plan.answer
    tokens = "" if d.usd_per_million_tokens is None else f"{usd(d.usd_per_million_tokens)} per 1M tokens, "
    lines = [
        f"{plural(d.replicas, 'replica')} in {d.weight_format} with {d.engine}, one on each GPU.",
        capacity_line(plan, d),
        binding_line(plan, d),
        f"Load factor {significant(d.load_ratio, 2)} of full passes ({percent(d.slack_ratio[LOAD])} slack); "
        f"{significant(d.batch, 2)} requests a pass of {duration(d.pass_s)}, full with {count(d.full_batch)} "
        f"{PLURALS[plan.unit]}.",
        grade_line(d.grade),
        f"{tokens}{usd_per_hour(d.price_per_instance_usd_per_hour)} per machine, "
        f"{usd_per_hour(d.price_per_gpu_usd_per_hour)} per GPU.",
        *steadier_line(plan),
        *confidence_line(plan),
        *hours_line(d),
        *until_line(d),
        *own_line(d),
        *idle_line(plan, d),
        *spot_line(plan),
    ]
    return lines_table("Why this one", lines)


def own_columns(plan: EncoderServePlan) -> OwnColumns:
    """Copies, and figures of inputs."""
    name = unit_cost(plan, plan.answer)[0] if plan.deployments else "per input"
    return OwnColumns(
        data=("full_batch", "pass_s", "usd_per_million_inputs", "usd_per_million_tokens", "usd_per_hour_of_audio"),
        replicas=[f"{count(d.replicas)}x" for d in plan.deployments],
        unit_cost=[usd(unit_cost(plan, d)[1]) for d in plan.deployments],
        unit_header=f"$ {name}",
    )


def notes(plan: EncoderServePlan, today: date | None) -> list[str]:
    """How names were read, what was assumed, price sources, and how much was searched."""
    is_free = bool(plan.deployments) and not plan.objectives
    free = ["No objective was asked for (--slo latency.p95<50ms): the cheapest that keeps up."] if is_free else []
    return notes_of(plan, [*plan.notes, *free], assumed_line(plan), today, "GPUs and formats")
