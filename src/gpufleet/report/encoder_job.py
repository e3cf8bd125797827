"""What the page of `gpufleet plan batch` says of a model that is not a decoder."""

from __future__ import annotations

from functools import partial

from gpufleet.report.encoder import PLURALS, input_text, unit_of
from gpufleet.report.job_page import COST_FORMULA, JobWords, OwnColumns, OwnReasons, job_page, job_rows_page
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import count, duration, plural, usd
from gpufleet.report.ranges import ranged_figure
from gpufleet.results.base import Figure
from gpufleet.results.encoders import EncoderBatchPlan, EncoderJobDeployment

FORMULAS = (
    ("work", "floor(n / B) full passes of B inputs, then the rest: n inputs per replica, a pass takes t(B)"),
    ("t(B)", "max(sum of kernels, kernels x host time per kernel); 'gpufleet encode --explain' shows them"),
    ("batch", "the smallest power of two that fits in memory and reaches 97 % of the best throughput"),
    ("machine time", "start + work x (1 + interruptions per hour x (start + half a pass)): lost work is done again"),
    ("finish", "machine time + work x interruptions per hour x wait for another machine"),
    ("machines", "the cheapest number of machines that meets the deadline with headroom"),
    ("cost", COST_FORMULA),
    ("range", "speed from its 10th to its 90th percentile; on spot with the least and the most interruptions"),
)


def requests_text(plan: EncoderBatchPlan) -> str:
    """How many of what."""
    singular = "recording" if plan.audio_s is not None else plan.unit
    noun = singular if plan.requests == 1 else PLURALS.get(singular, "recordings")
    return f"{count(plan.requests)} {noun}{input_text(plan.unit, plan.input_tokens, plan.output_tokens, plan.audio_s)}"


def cost_of(d: EncoderJobDeployment) -> Figure:
    """What a million inputs cost, or an hour of audio."""
    return d.usd_per_million_inputs if d.usd_per_hour_of_audio is None else d.usd_per_hour_of_audio


def unit_costs(plan: EncoderBatchPlan) -> dict[str, Figure | None]:
    """What inputs, tokens, hours of audio and recordings cost."""
    d = plan.answer
    return {
        f"$/1M {PLURALS[plan.unit]}": d.usd_per_million_inputs,
        "$/1M tokens": d.usd_per_million_tokens,
        "$/h of audio": d.usd_per_hour_of_audio,
        "$/1,000 recordings": None if plan.audio_s is None else d.usd_per_thousand_requests,
    }


def reasons(plan: EncoderBatchPlan) -> OwnReasons:
    """Copies, their passes, and what all get done."""
    d, units = plan.answer, PLURALS[plan.unit]
    rate = ranged_figure(d.inputs_per_s, f"{units}/s")
    if d.audio_s_per_s is not None:
        rate = ranged_figure(d.audio_s_per_s, "s of audio/s")
    return OwnReasons(
        f"{plural(d.replicas, 'replica')} in {d.weight_format} with {d.engine}, one on each GPU.",
        f"Each takes {count(d.batch)} {units} a pass, {count(d.largest_batch)} fit; a full pass takes "
        f"{duration(d.wave_s)}.",
        rate,
    )


def own_columns(plan: EncoderBatchPlan) -> OwnColumns:
    """Copies, and figures of inputs."""
    costs = ("usd_per_million_inputs", "usd_per_million_tokens", "usd_per_hour_of_audio")
    return OwnColumns(
        data=(),
        figures=(*costs, "inputs_per_s", "audio_s_per_s"),
        replicas=[f"{count(d.replicas)}x {d.gpu}" for d in plan.deployments],
        unit_cost=[usd(cost_of(d).value) for d in plan.deployments],
        unit_header=f"$ {unit_of(plan) if plan.deployments else 'per input'}",
    )


WORDS = JobWords[EncoderBatchPlan](
    lambda plan: f"{requests_text(plan)} through {plan.model}",
    requests_text,
    lambda plan: (cost_of(plan.answer).value, unit_of(plan)),
    unit_costs,
    reasons,
    own_columns,
    FORMULAS,
    lambda plan: launch_tables(plan.answer.launch, plan.answer.replicas),
    tried="GPUs and formats",
)
batch_page, batch_rows = partial(job_page, words=WORDS), partial(job_rows_page, words=WORDS)
