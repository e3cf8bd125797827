"""Which machines get a number of texts, images or recordings through an encoder by a deadline at least cost."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from gpufleet.answers.encoder_plans import JOB
from gpufleet.api.answered import planned_job
from gpufleet.api.demands import checked_headroom, headroom_row
from gpufleet.api.encoder_choices import EncoderChoices, encoder_choices, encoder_rows, job_launches
from gpufleet.api.input_rows import inputs_of
from gpufleet.api.jobs import job_of, job_rows, spot_plays
from gpufleet.api.market import market_rows, refuse_too_old
from gpufleet.api.spoken import spoken
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.spoken_machines import with_owned
from gpufleet.domain.encoder import EncoderModel
from gpufleet.domain.workload import Workload
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.job import BatchQuestion, Job
from gpufleet.optimize.service import ServeQuestion
from gpufleet.questions.fields import EncoderBatchRequest as EncoderBatchRequest
from gpufleet.results.base import Input
from gpufleet.results.encoders import EncoderBatchPlan


def plan_encoder_batch(
    request: EncoderBatchRequest | str | PathLike[str] | EncoderModel, catalog: Catalog | None = None, **said: Any
) -> EncoderBatchPlan:
    """The cheapest machines that are done by the deadline, ranked, with what was rejected and why.

    `request` is a request, or a model whose question the words `said` ask as the command line does.

    >>> day = 24 * 3600
    >>> plan = plan_encoder_batch(EncoderBatchRequest("bge-base-en-v1.5", 1e7, day, input_tokens=200))
    >>> plan.answer.finish_s.value < plan.deadline_s
    True
    """
    request = spoken(EncoderBatchRequest, request, said)
    tables = with_owned(load_catalog() if catalog is None else catalog, tuple(request.owned or ()))
    choices = encoder_choices(request, tables)
    refuse_too_old(request, choices.market.offers)
    job = job_of(request, request.requests, request.deadline_s, checked_headroom(request))
    size, market = choices.model.asked.size, choices.market
    demand = Demand(Workload(size.tokens, size.output_tokens, 1.0), job.headroom_ratio)
    service = ServeQuestion(choices.model, market.instances, market.offers, demand)
    plays = spot_plays(tables, market.offers, job.deadline_s)
    question = BatchQuestion(service, job, load_interruptions(), plays, request.rows)
    inputs, notes = understood(request, choices, job), [*choices.notes, *request.notes]
    return planned_job(JOB, question, request, tables, inputs, notes, partial(job_launches, request.model))


def understood(request: EncoderBatchRequest, choices: EncoderChoices, job: Job) -> list[Input]:
    """The question as it was read, each part with its origin."""
    rows = [
        *job_rows(request, job),
        *encoder_rows(request, choices),
        *market_rows(request, choices.market.offers),
        headroom_row(request, job.headroom_ratio),
    ]
    return inputs_of(request, rows)
