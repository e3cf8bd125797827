"""What jobs of models that write say beyond any job: layouts, KV cache and tokens."""

from __future__ import annotations

from typing import Any

from gpufleet.answers.decoder_service import layout_of
from gpufleet.answers.job_plan import JobContext, JobKind, per_unit, rate_figure, usd_of
from gpufleet.architecture.parameters import num_active_parameters
from gpufleet.optimize.copies.decoder import Replicas
from gpufleet.optimize.job import JobPlacement
from gpufleet.results.job import BatchPlan, JobDeployment
from gpufleet.units import MEGA


def of_plan(context: JobContext[Replicas]) -> dict[str, Any]:
    """Tokens of a request."""
    workload = context.question.service.demand.workload
    return {
        "num_active_parameters": num_active_parameters(context.solution.copies.model.arch),
        "input_tokens": workload.input_tokens,
        "output_tokens": workload.output_tokens,
    }


def of_row(context: JobContext[Replicas], p: JobPlacement) -> dict[str, Any]:
    """Layout and KV format of a replica, and what tokens cost."""
    workload, usd = context.question.service.demand.workload, usd_of(context.ranges, p)
    answers = context.question.job.requests * workload.output_tokens
    tokens = answers + context.question.job.requests * workload.input_tokens
    output_tokens_per_s = context.requests_per_s(p) * workload.output_tokens
    return {
        **layout_of(context.solution.copies, p.row),
        "output_tokens_per_s": rate_figure(context.ranges, p.row, output_tokens_per_s),
        "usd_per_million_tokens": per_unit(usd, tokens / MEGA),
        "usd_per_million_output_tokens": per_unit(usd, answers / MEGA),
    }


JOB = JobKind(BatchPlan, JobDeployment, of_plan, of_row)
