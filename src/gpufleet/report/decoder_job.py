"""What the page of `gpufleet plan batch` says of a model that writes."""

from __future__ import annotations

from functools import partial

from gpufleet.report.job_page import COST_FORMULA, JobWords, OwnColumns, OwnReasons, job_page, job_rows_page
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import amount, count, duration, plural, usd
from gpufleet.report.ranges import ranged_figure
from gpufleet.report.words import engine_words
from gpufleet.results.base import Figure
from gpufleet.results.job import BatchPlan

FORMULAS = (
    ("work", "floor(n / B) full waves of B requests, then the rest: n requests per replica, a wave takes B / rate(B)"),
    ("batch", "the batch size that fits in memory and has the highest throughput; n where there are fewer"),
    ("machine time", "start + work x (1 + interruptions per hour x (start + half a wave)): lost work is done again"),
    ("finish", "machine time + work x interruptions per hour x wait for another machine"),
    ("machines", "the cheapest number of machines that meets the deadline with headroom"),
    ("cost", COST_FORMULA),
    ("$/1M tokens", "cost over prompts and answers together; $/1M out over the answers alone"),
    ("range", "speed from its 10th to its 90th percentile; on spot with the least and the most interruptions"),
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


def reasons(plan: BatchPlan) -> OwnReasons:
    """Layout and batch of a replica, and the tokens of all."""
    d = plan.answer
    idle = "no GPU idle" if not d.idle_gpus else f"{plural(d.idle_gpus, 'GPU')} idle but paid for"
    return OwnReasons(
        f"{plural(d.replicas, 'replica')} of {d.layout} in {d.weight_format} with {engine_words(d.engine, d.drafts)}, "
        f"KV cache {d.kv_precision}; {idle}.",
        f"Each works on {count(d.batch)} requests at a time, {count(d.largest_batch)} fit; a batch takes "
        f"{duration(d.wave_s)}.",
        ranged_figure(d.output_tokens_per_s, "output tokens/s"),
    )


def own_columns(plan: BatchPlan) -> OwnColumns:
    """Layouts, and figures of tokens."""
    return OwnColumns(
        data=("kv_precision", "layout"),
        figures=("usd_per_million_tokens", "usd_per_million_output_tokens", "output_tokens_per_s"),
        replicas=[f"{d.replicas}x {d.layout}" for d in plan.deployments],
        unit_cost=[usd(d.usd_per_million_tokens.value) for d in plan.deployments],
    )


WORDS = JobWords[BatchPlan](
    lambda plan: f"{count(plan.requests)} requests of {plan.model}",
    requests_text,
    lambda plan: (plan.answer.usd_per_million_tokens.value, "per 1M tokens"),
    unit_costs,
    reasons,
    own_columns,
    FORMULAS,
    lambda plan: launch_tables(plan.answer.launch, plan.answer.replicas),
)
batch_page, batch_rows = partial(job_page, words=WORDS), partial(job_rows_page, words=WORDS)
