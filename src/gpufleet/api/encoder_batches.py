"""Which machines get a number of texts, images or recordings through an encoder by a deadline at least cost."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.answers.encoder_batch_plan import encoder_batch_plan
from gpufleet.api.demands import checked_headroom, headroom_row
from gpufleet.api.encoder_choices import EncoderChoices, encoder_choices, encoder_rows
from gpufleet.api.input_rows import digest, inputs_of
from gpufleet.api.jobs import job_of, job_rows
from gpufleet.api.market import market_rows
from gpufleet.api.price_age import refuse_too_old
from gpufleet.api.price_ends import said_of_prices
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.optimize.encoder_job import EncoderJobQuestion, solve_encoder_batch
from gpufleet.optimize.job import Job, JobMarket
from gpufleet.questions.fields import EncoderBatchRequest as EncoderBatchRequest
from gpufleet.results.base import Input
from gpufleet.results.encoder_batch import EncoderBatchPlan


def plan_encoder_batch(request: EncoderBatchRequest, catalog: Catalog | None = None) -> EncoderBatchPlan:
    """The cheapest machines that are done by the deadline, ranked, with what was rejected and why.

    >>> day = 24 * 3600
    >>> plan = plan_encoder_batch(EncoderBatchRequest("bge-base-en-v1.5", 1e7, day, input_tokens=200))
    >>> plan.answer.finish_s.value < plan.deadline_s
    True
    """
    tables = load_catalog() if catalog is None else catalog
    choices = encoder_choices(request, tables)
    refuse_too_old(request, choices.market.offers)
    job = job_of(request, request.requests, request.deadline_s, checked_headroom(request))
    in_inputs = replace(job, requests=job.requests * choices.any_encoder.num_windows)
    market = JobMarket(in_inputs, choices.market.offers, load_interruptions())
    question = EncoderJobQuestion(choices.encoders, choices.market.instances, market)
    solution = solve_encoder_batch(question, calibration_of(tables))
    inputs = understood(request, choices, job)
    hashed = digest(inputs, choices.market.offers)
    notes = [*choices.notes, *request.notes]
    plan = encoder_batch_plan(question, solution, inputs, tables.sources, hashed, notes, request.rows)
    said = said_of_prices(plan.deployments[:1], tables, plan.deployments)
    return plan.model_copy(update={"notes": [*said, *plan.notes]})


def understood(request: EncoderBatchRequest, choices: EncoderChoices, job: Job) -> list[Input]:
    """The question as it was read, each part with its origin."""
    rows = [
        *job_rows(request, job),
        *encoder_rows(request, choices),
        *market_rows(request, choices.market.offers),
        headroom_row(request, job.headroom_ratio),
    ]
    return inputs_of(request, rows)
