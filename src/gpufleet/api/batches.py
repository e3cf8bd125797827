"""Which machines get a number of requests done by a deadline at least cost."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from gpufleet.answers.decoder_job import JOB
from gpufleet.api.answered import planned_job
from gpufleet.api.demands import checked_headroom, demand_notes, headroom_row, length_rows, workload_of
from gpufleet.api.input_rows import inputs_of, stated_rows
from gpufleet.api.jobs import job_of, job_rows, spot_plays
from gpufleet.api.launches import batch_launches
from gpufleet.api.market import market_rows, refuse_too_old
from gpufleet.api.remarks import beyond_context, image_notes, unmeasured_kernels
from gpufleet.api.serve_questions import architecture_of, format_rows, sold_tables, writer_choices
from gpufleet.api.speculating import drafts_yield
from gpufleet.api.spoken import spoken
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.slices import SLICE_NOTE
from gpufleet.domain.architecture import Architecture
from gpufleet.optimize.copies.decoder import Decoder, WriterQuestion
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.job import BatchQuestion, Job
from gpufleet.questions.fields import BatchRequest as BatchRequest
from gpufleet.questions.fields import RequestKind, WriterRequest
from gpufleet.results.base import Input
from gpufleet.results.job import BatchPlan


def plan_batch(
    request: BatchRequest | str | PathLike[str] | Architecture, catalog: Catalog | None = None, **said: Any
) -> BatchPlan:
    """The cheapest machines that are done by the deadline, ranked, with what was rejected and why.

    `request` is a request, or a model whose question the words `said` ask as the command line does.

    >>> plan = plan_batch("llama-3.1-8b", requests="1M", input_tokens=1000, output_tokens=200, deadline="24h")
    >>> plan.answer.finish_s.value < plan.deadline_s
    True
    """
    request = spoken(BatchRequest, request, said)
    asked, tables, read = batch_question(request, load_catalog() if catalog is None else catalog)
    arch, demand = asked.service.model.arch, asked.service.demand
    sliced = [SLICE_NOTE] if request.fractions else []
    of_model = [
        *image_notes(arch),
        *beyond_context(arch, demand.mix.longest_tokens),
        *unmeasured_kernels(arch),
        *arch.notes,
    ]
    yields = drafts_yield(asked.service.model.choices.palette.engines)
    notes = [*read, *yields, *sliced, *request.notes, *demand_notes(demand), *of_model]
    inputs, launches = understood(request, asked.service, asked.job), partial(batch_launches, request.model)
    return planned_job(JOB, asked, request, tables, inputs, notes, launches)


def batch_question(request: BatchRequest, tables: Catalog) -> tuple[BatchQuestion[Decoder], Catalog, list[str]]:
    """The question, checked, with the tables that it is asked of and notes on how names were read.

    Machines and work are those of a service at one request per second: nothing of a job depends on a rate.
    """
    arch, sold = architecture_of(request), sold_tables(request, tables)
    found = writer_choices(request, arch, sold)
    kind = RequestKind("", 1.0, request.input_tokens, request.output_tokens, prefix_cache=request.prefix_cache)
    demand = Demand(workload_of([kind], arch), checked_headroom(request))
    refuse_too_old(request, found.market.offers)
    model, market = Decoder(arch, found.choices), found.market
    question = WriterQuestion(model, market.instances, market.offers, demand)
    job = job_of(request, request.requests, request.deadline_s, demand.headroom_ratio, longest_ratio(question))
    plays = spot_plays(sold, market.offers, job.deadline_s)
    return BatchQuestion(question, job, load_interruptions(), plays, request.rows), sold, found.notes


def longest_ratio(question: WriterQuestion) -> float:
    """The longest answer over the mean one."""
    return max((c.output_tokens.most / c.output_tokens.mean for c in question.demand.workload.classes), default=1.0)


def understood(request: BatchRequest, question: WriterQuestion, job: Job) -> list[Input]:
    """The question as it was read, each part with its origin."""
    rows = [
        *job_rows(request, job),
        ("model", "model", question.model.name, True),
        *length_rows(question.demand.workload),
        *format_rows(request, question.model.choices.palette),
        *market_rows(request, question.offers),
        headroom_row(request, job.headroom_ratio),
        *stated_rows(request, WriterRequest),
    ]
    return inputs_of(request, rows)
