"""What services and jobs of models that are not decoders say beyond any other: passes, inputs and hours of audio."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpufleet.answers.job_plan import JobContext, JobKind, per_unit, rate_figure, usd_of
from gpufleet.answers.service_plan import Context, ServiceKind
from gpufleet.domain.encoder import Takes
from gpufleet.optimize.copies.encoder import EncoderCopies
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.job import JobPlacement
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.size import Operation
from gpufleet.results.encoders import EncoderBatchPlan, EncoderDeployment, EncoderJobDeployment, EncoderServePlan
from gpufleet.units import HOUR, MEGA


def of_input(q: EncoderQuestion) -> dict[str, Any]:
    """What one request is to the model."""
    return {
        "kind": q.model.kind,
        "unit": q.tower.takes.value,
        "input_tokens": q.size.tokens,
        "output_tokens": None if q.model.decoder is None else q.size.output_tokens,
        "audio_s": q.audio_s,
        "inputs_per_request": q.num_windows,
    }


def tokens_of(q: EncoderQuestion, inputs: float) -> float | None:
    """Tokens of so many texts; None of what is no text."""
    return inputs * q.size.tokens if q.tower.takes is Takes.TEXT else None


def of_plan(context: Context[EncoderCopies] | JobContext[EncoderCopies]) -> dict[str, Any]:
    """What one request is to the model."""
    return of_input(context.solution.copies.asked)


def of_row(context: Context[EncoderCopies], priced: PricedPlacement, running: Operation) -> dict[str, Any]:
    """The pass at the asked rate, and what inputs, tokens and hours of audio cost."""
    copies, requests_per_hour = context.solution.copies, context.question.demand.mean_requests_per_s * HOUR
    copy, q, usd_per_hour = copies.all[priced.placement.row], copies.asked, priced.usd_per_hour
    inputs_per_hour = requests_per_hour * q.num_windows
    tokens_per_hour = tokens_of(q, inputs_per_hour)
    audio_s = q.audio_s or q.new_audio_s
    return {
        "full_batch": copy.full_batch,
        "pass_s": float(copy.seconds_of(np.array([running.batch * q.num_windows]))[0]),
        "usd_per_million_inputs": usd_per_hour / inputs_per_hour * MEGA,
        "usd_per_million_tokens": None if tokens_per_hour is None else usd_per_hour / tokens_per_hour * MEGA,
        "usd_per_hour_of_audio": None if audio_s is None else usd_per_hour / (requests_per_hour * audio_s / HOUR),
    }


SERVICE = ServiceKind(EncoderServePlan, EncoderDeployment, of_plan, of_row)


def of_job_row(context: JobContext[EncoderCopies], p: JobPlacement) -> dict[str, Any]:
    """Inputs and seconds of audio by the second, and what they cost."""
    q, ranges, usd = context.solution.copies.asked, context.ranges, usd_of(context.ranges, p)
    per_s, inputs, audio_s = context.requests_per_s(p), ranges.requests * q.num_windows, q.audio_s or q.new_audio_s
    tokens = tokens_of(q, inputs)
    return {
        "inputs_per_s": rate_figure(ranges, p.row, per_s * q.num_windows),
        "audio_s_per_s": None if audio_s is None else rate_figure(ranges, p.row, per_s * audio_s),
        "usd_per_million_inputs": per_unit(usd, inputs / MEGA),
        "usd_per_million_tokens": None if tokens is None else per_unit(usd, tokens / MEGA),
        "usd_per_hour_of_audio": None if audio_s is None else per_unit(usd, ranges.requests * audio_s / HOUR),
    }


JOB = JobKind(EncoderBatchPlan, EncoderJobDeployment, of_plan, of_job_row)
