"""What the page of `gpufleet plan serve` says of a model that is not a decoder."""

from __future__ import annotations

from functools import partial

from gpufleet.report.encoder import PLURALS, input_text, unit_of
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import amount, count, duration, percent, plural, significant, usd
from gpufleet.report.page import formulas_table
from gpufleet.report.search import inputs_table
from gpufleet.report.service_page import LOAD, OwnReasons, ServiceWords, service_page, service_rows_page
from gpufleet.report.service_reasons import busy_words
from gpufleet.report.service_tables import OwnColumns
from gpufleet.results.encoders import EncoderDeployment, EncoderServePlan

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


def asked_text(plan: EncoderServePlan) -> str:
    """How many of what, how large."""
    noun = "recordings" if plan.audio_s is not None else PLURALS[plan.unit]
    each = input_text(plan.unit, plan.input_tokens, plan.output_tokens, plan.audio_s)
    return f"{amount(plan.rate_requests_per_s)} {noun}/s{busy_words(plan)}{each}"


def cost_of(d: EncoderDeployment) -> float:
    """What a million inputs cost, or an hour of audio."""
    return d.usd_per_million_inputs if d.usd_per_hour_of_audio is None else d.usd_per_hour_of_audio


def reasons(plan: EncoderServePlan) -> OwnReasons:
    """Copies, their passes, and what tokens cost."""
    d = plan.answer
    return OwnReasons(
        f"{plural(d.replicas, 'replica')} in {d.weight_format} with {d.engine}, one on each GPU.",
        f"Load factor {significant(d.load_ratio, 2)} of full passes ({percent(d.slack_ratio[LOAD])} slack); "
        f"{significant(d.batch, 2)} requests a pass of {duration(d.pass_s)}, full with {count(d.full_batch)} "
        f"{PLURALS[plan.unit]}.",
        "" if d.usd_per_million_tokens is None else f"{usd(d.usd_per_million_tokens)} per 1M tokens, ",
    )


def own_columns(plan: EncoderServePlan) -> OwnColumns:
    """Copies, and figures of inputs."""
    return OwnColumns(
        data=("full_batch", "pass_s", "usd_per_million_inputs", "usd_per_million_tokens", "usd_per_hour_of_audio"),
        replicas=[f"{count(d.replicas)}x" for d in plan.deployments],
        unit_cost=[usd(cost_of(d)) for d in plan.deployments],
        unit_header=f"$ {unit_of(plan) if plan.deployments else 'per input'}",
    )


WORDS = ServiceWords[EncoderServePlan](
    lambda plan: f"{asked_text(plan)} through {plan.model}",
    asked_text,
    lambda plan: (cost_of(plan.answer), unit_of(plan)),
    reasons,
    own_columns,
    lambda plan: [inputs_table(plan.inputs), formulas_table(FORMULAS)],
    started=lambda plan: launch_tables(plan.answer.launch, plan.answer.replicas, is_brief=True),
    no_objective="No objective was asked for (--slo latency.p95<50ms): the cheapest that keeps up",
    tried="GPUs and formats",
    lower_precision="int8 (--precision int8)",
    other_engines="other engines (--engine)",
)
serve_page, serve_rows = partial(service_page, words=WORDS), partial(service_rows_page, words=WORDS)
