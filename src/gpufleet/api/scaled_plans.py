"""The machine of a saved plan as laws of scaling have it: what it does at a rate, and how long it takes to start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.configured import configured
from gpufleet.api.demands import demand_of
from gpufleet.api.own_rate import stack_of_copy
from gpufleet.api.plan_basis import request_of
from gpufleet.api.plan_changes import recorded, refuse_mix
from gpufleet.api.plan_files import plan_in
from gpufleet.api.serve_questions import architecture_of, sold_tables
from gpufleet.api.simulated_copies import CopyQuestion, copy_in, engine_of
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.errors import GpufleetError, Infeasible, UsageError
from gpufleet.inputs.gpu_request import gpus_said
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.copies.decoder import capacity
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.estimate import EVERY_FIGURE
from gpufleet.optimize.scaled_replica import ClassLimits, scaled_replica
from gpufleet.performance.load_curves import load_curves_of
from gpufleet.performance.step import StepModel
from gpufleet.questions.fields import NamedPath, ServeRequest
from gpufleet.records import dataclass
from gpufleet.results.cold_start import ColdStartResult
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.simulate.scaling import Replica

PLAN_AGAIN = "Plan again, with -o json."


@dataclass(frozen=True, eq=False)
class ScaledPlan:
    """A saved plan of one model, its answer, and what one machine of it does at a rate."""

    plan: ServePlan
    answer: Deployment
    request: ServeRequest
    arch: Architecture
    replica: Replica
    copies: int


def one_plan(plan: ServePlan | FleetPlan | str | NamedPath, tables: Catalog, *, edited: bool = False) -> ServePlan:
    """The plan of one model, with an answer."""
    read = plan_in(plan, tables, edited=edited)
    if isinstance(read, FleetPlan):
        raise UsageError("a plan of several models is not scaled", expected="the plan of one", hint=PLAN_AGAIN)
    refuse_mix(read, "scaled")
    if not read.deployments:
        raise Infeasible(f"the plan for {read.model} has no machines: nothing keeps its objectives")
    return read


def scaled_plan(plan: ServePlan, tables: Catalog) -> ScaledPlan:
    """The answer of a plan as today's tables have it: its machine, and what it does at a rate."""
    request = request_of(recorded(plan))
    if not plan.objectives:
        hint = "Plan with --slo 'ttft.p95<1s', and -o json."
        raise UsageError("the plan has no objective that a request could keep", expected="limits on latency", hint=hint)
    answer, arch = plan.answer, architecture_of(request)
    copies = max(answer.replicas // max(answer.instance_count, 1), 1)
    if answer.replicas < answer.instance_count:
        found = f"{answer.gpus_per_replica} GPUs on machines of {answer.gpus_per_instance:g}"
        raise UsageError("a replica that spans machines is not scaled", found=found)
    sold = sold_tables(request, tables)
    copy = copy_of_answer(answer, request, arch, sold)
    if request.replica_rate is not None:
        own = stack_of_copy(request.replica_rate, copy, arch, demand_of(request, arch), sold)
        request, copy = replace(request, calibration=own), replace(copy, calibration=own)
    replica = replica_of(plan, copy, request, arch, sold, copies)
    return ScaledPlan(plan, answer, request, arch, replica, copies)


def copy_of_answer(answer: Deployment, request: ServeRequest, arch: Architecture, tables: Catalog) -> CopyQuestion:
    """One replica of an answer, its engine started and measured as the request says."""
    if answer.ranks is None:
        raise UsageError("the plan does not say how a replica is laid out", hint=PLAN_AGAIN)
    copy = copy_in(answer, CopyQuestion(arch), request)
    return copy if (answer.cloud, answer.instance) in tables.instances else replace(copy, instance=None)


def replica_of(
    plan: ServePlan, copy: CopyQuestion, request: ServeRequest, arch: Architecture, tables: Catalog, copies: int
) -> Replica:
    """One machine of the answer: its closed forms as late as the plan's confidence has them."""
    answer, (gpu, number) = plan.answer, gpus_said(copy.gpus)
    parts = (number, copy.tp, copy.pp, copy.ep, copy.attention_dp)
    engine = engine_of(copy, arch)
    shape = configured(tables, arch, gpu, engine, parts, copy.precision, copy.kv_precision, copy.instance)
    workload = demand_of(request, arch).workload
    demand, model = Demand(told_in_full(workload)), StepModel.build(arch, shape.candidates, calibration_of(tables))
    curves = load_curves_of(model, demand.workload, np.array([answer.largest_batch]))
    caution = Caution.at(plan.confidence, model, curves.batch, demand.lengths)
    found = capacity(curves, demand, caution)
    return scaled_replica(found, 0, class_limits(workload), copies)


def told_in_full(workload: Workload) -> Workload:
    """The same requests, of which every figure is asked."""
    if not workload.classes:
        return replace(workload, slo=EVERY_FIGURE)
    limits = [Slo(tuple(replace(x, request_class=c.name) for x in EVERY_FIGURE.limits)) for c in workload.classes]
    return Workload.of(tuple(replace(c, slo=slo) for c, slo in zip(workload.classes, limits, strict=True)))


def class_limits(workload: Workload) -> list[ClassLimits]:
    """Each class that has limits, and its share of the requests that have some."""
    if not workload.classes:
        return [ClassLimits("", 1.0, workload.slo.limits)]
    limited = [c for c in workload.classes if c.slo.limits]
    rate = sum(c.rate_requests_per_s for c in limited)
    return [ClassLimits(c.name, c.rate_requests_per_s / rate, c.slo.limits) for c in limited]


def start_of_machine(held: ScaledPlan, tables: Catalog) -> ColdStartResult:
    """How long the plan's machine takes until its replicas answer."""
    answer = held.answer
    known = (answer.cloud, answer.instance) in tables.instances
    try:
        return cold_start_of(
            held.arch,
            f"{answer.gpu}:{answer.gpus_per_replica}",
            answer.engine,
            f"{answer.cloud}:{answer.instance}" if known else None,
            precision=answer.weight_format,
            catalog=tables,
        )
    except GpufleetError as error:
        raise UsageError(f"the cold start cannot be estimated: {error}", hint="Say it: --cold-start 300s.") from error
