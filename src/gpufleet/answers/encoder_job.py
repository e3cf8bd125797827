"""What jobs of models that are not decoders say beyond any job: inputs and hours of audio."""

from __future__ import annotations

from typing import Any

from gpufleet.answers.encoder_service import of_input, tokens_of
from gpufleet.answers.job_figures import per_unit, rate_figure, usd_of
from gpufleet.answers.job_plan import JobContext, JobKind
from gpufleet.optimize.copies.encoder import EncoderCopies
from gpufleet.optimize.job import JobPlacement
from gpufleet.results.encoders import EncoderBatchPlan, EncoderJobDeployment
from gpufleet.units import HOUR, MEGA


def of_plan(context: JobContext[EncoderCopies]) -> dict[str, Any]:
    """What one request is to the model."""
    return of_input(context.solution.copies.asked)


def of_row(context: JobContext[EncoderCopies], p: JobPlacement) -> dict[str, Any]:
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


JOB = JobKind(EncoderBatchPlan, EncoderJobDeployment, of_plan, of_row)
