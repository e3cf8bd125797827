"""Which machines get a number of requests done by a deadline at least cost."""

from __future__ import annotations

from gpufleet.answers.batch_plan import batch_plan
from gpufleet.api.demands import checked_headroom, demand_notes, headroom_row, workload_of
from gpufleet.api.input_rows import digest, inputs_of, stated_rows
from gpufleet.api.jobs import job_of, job_rows
from gpufleet.api.launches import batch_launches, launched
from gpufleet.api.market import market_rows
from gpufleet.api.price_age import refuse_too_old
from gpufleet.api.price_ends import said_of_prices
from gpufleet.api.remarks import beyond_context, unmeasured_kernels
from gpufleet.api.requests import RequestKind, WriterRequest
from gpufleet.api.serve_questions import (
    architecture_of,
    format_rows,
    length_rows,
    model_row,
    sold_tables,
    writer_choices,
)
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.slices import SLICE_NOTE
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.job import BatchQuestion, Job, solve_batch
from gpufleet.optimize.market import Purse
from gpufleet.optimize.service import ServeQuestion
from gpufleet.questions.fields import BatchRequest as BatchRequest
from gpufleet.results.base import Input
from gpufleet.results.batch import BatchPlan

ANY_SPEND = Purse()


def plan_batch(request: BatchRequest, catalog: Catalog | None = None) -> BatchPlan:
    """The cheapest machines that are done by the deadline, ranked, with what was rejected and why.

    >>> plan = plan_batch(BatchRequest("llama-3.1-8b", 1e6, 1000, 200, deadline_s=24 * 3600))
    >>> plan.answer.finish_s.value < plan.deadline_s
    True
    """
    asked, tables, read = batch_question(request, load_catalog() if catalog is None else catalog)
    question = asked.service
    arch, demand = question.arch, question.demand
    solution = solve_batch(asked, calibration_of(tables))
    inputs = understood(request, question, asked.job)
    sliced = [SLICE_NOTE] if request.fractions else []
    of_model = [*beyond_context(arch, demand.mix.longest_tokens), *unmeasured_kernels(arch), *arch.notes]
    notes = [*read, *sliced, *request.notes, *demand_notes(demand, has_objectives=False), *of_model]
    hashed = digest(inputs, question.offers)
    plan = batch_plan(asked, solution, inputs, tables.sources, hashed, notes, request.rows)
    launches = batch_launches(request.model, asked, solution, len(plan.deployments))
    said = said_of_prices(plan.deployments[:1], tables, plan.deployments)
    return plan.model_copy(update={"deployments": launched(plan.deployments, launches), "notes": [*said, *plan.notes]})


def batch_question(request: BatchRequest, tables: Catalog) -> tuple[BatchQuestion, Catalog, list[str]]:
    """The question, checked, with the tables that it is asked of and notes on how names were read.

    Machines and work are those of a service at one request per second: nothing of a job depends on a rate.
    """
    arch, sold = architecture_of(request), sold_tables(request, tables)
    found = writer_choices(request, arch, sold)
    kind = RequestKind("", 1.0, request.input_tokens, request.output_tokens, prefix_cache=request.prefix_cache)
    demand = Demand(workload_of([kind]), checked_headroom(request))
    refuse_too_old(request, found.market.offers)
    question = ServeQuestion(arch, found.choices, found.market.offers, demand, ANY_SPEND)
    job = job_of(request, request.requests, request.deadline_s, demand.headroom_ratio, longest_ratio(question))
    return BatchQuestion(question, job, load_interruptions()), sold, found.notes


def longest_ratio(question: ServeQuestion) -> float:
    """The longest answer over the mean one."""
    return max((c.output_tokens.most / c.output_tokens.mean for c in question.demand.workload.classes), default=1.0)


def understood(request: BatchRequest, question: ServeQuestion, job: Job) -> list[Input]:
    """The question as it was read, each part with its origin."""
    rows = [
        *job_rows(request, job),
        model_row(question),
        *length_rows(request.input_tokens, request.output_tokens),
        *format_rows(request, question.choices.palette),
        *market_rows(request, question.offers),
        headroom_row(request, job.headroom_ratio),
        *stated_rows(request, WriterRequest),
    ]
    return inputs_of(request, rows)
