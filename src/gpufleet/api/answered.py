"""The plan of a solved question of any kind of model: what its prices rest on, and what was not asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gpufleet.answers.decoder_service import rest_of_bill
from gpufleet.answers.job_plan import JobContext, JobKind, job_plan
from gpufleet.answers.levers import certainty_of
from gpufleet.answers.plan_parts import Asked
from gpufleet.answers.service_plan import Context, ServiceKind, deployment, service_plan
from gpufleet.api.envelope import in_full
from gpufleet.api.input_rows import digest
from gpufleet.api.launches import launched
from gpufleet.api.machine_notes import said_of_prices, supply_notes
from gpufleet.api.market import best_on_spot, missing_prices
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.copies.protocol import Copies, Model
from gpufleet.optimize.job import BatchQuestion, solve_promised_batch
from gpufleet.questions.fields import JobRequest, ServiceRequest
from gpufleet.results.base import Input, Launch
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.results.plan import RentedService, ServicePlan

C = TypeVar("C", bound=Copies)
R = TypeVar("R", bound=RentedService)
P = TypeVar("P", bound=ServicePlan)
RJ = TypeVar("RJ", bound=RentedJob)
PJ = TypeVar("PJ", bound=JobPlan)


def answered_service(
    kind: ServiceKind[C, R, P], context: Context[C], asked: Asked, request: ServiceRequest, tables: Catalog
) -> P:
    """The plan of a service, with its cheapest spot offer and the rest of the bill."""
    plan = service_plan(kind, context, asked)
    if not plan.deployments:
        return plan
    spot = best_on_spot(request, context.solution.placements, tables)
    on_spot = None if spot is None else deployment(kind, context, spot)
    said = said_of_prices(plan.deployments[:1], tables, [*plan.deployments, on_spot])
    bill = rest_of_bill(plan.deployments[0], plan.all_hours_requests_per_s, tables.bill_lines)
    had = supply_notes(plan.deployments, tables, request.easily_had)
    beside = {"notes": [*had, *said, *plan.notes], "spot_alternative": on_spot, "rest_of_bill": bill}
    question, solution = context.question, context.solution
    missing = missing_prices(question, solution, request, tables)
    is_asked = request.confidence is not None or solution.found.caution is None
    certainty = [] if is_asked else certainty_of(question, solution, Contest.of(question, solution))
    return plan.model_copy(update={**beside, "missing_prices": missing, "certainty": certainty})


def answered_job(kind: JobKind[C, RJ, PJ], context: JobContext[C], asked: Asked, tables: Catalog) -> PJ:
    """The plan of a job."""
    plan = job_plan(kind, context, asked)
    said = said_of_prices(plan.deployments[:1], tables, plan.deployments)
    return plan.model_copy(update={"notes": [*said, *plan.notes]})


def planned_job(
    kind: JobKind[C, RJ, PJ],
    question: BatchQuestion[Model[C]],
    request: JobRequest,
    tables: Catalog,
    inputs: list[Input],
    notes: list[str],
    launches: Callable[[Any, Any, int], Sequence[Launch | None]],
) -> PJ:
    """The plan of a job's question, with how its copies are started; `launches` knows that of so many deployments."""
    job, solution = solve_promised_batch(question, calibration_of(tables), is_asked=request.confidence is not None)
    missed, kept = None if job is question.job else question.job.confidence, replace(question, job=job)
    asked = Asked(inputs, digest(inputs, question.service.offers), notes, tables.sources, request.rows, missed)
    plan = answered_job(kind, JobContext.of(kept, solution), asked, tables)
    how = launches(kept, solution, len(plan.deployments))
    return in_full(plan.model_copy(update={"deployments": launched(plan.deployments, how)}), tables, request)
