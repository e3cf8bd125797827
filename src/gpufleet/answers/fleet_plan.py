"""A `FleetPlan` from the plans of several models and the machines that they share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from gpufleet.answers.plan_parts import machines_of, price_days, price_sources
from gpufleet.answers.service_figures import latency_figures
from gpufleet.answers.service_plan import Context
from gpufleet.optimize.certainty import held_together
from gpufleet.optimize.copies.decoder import SolvedWriter, WriterQuestion, WriterSolution
from gpufleet.optimize.copies.encoder import EncoderServeQuestion, EncoderServeSolution
from gpufleet.optimize.joint import Shortfall
from gpufleet.optimize.size import operate
from gpufleet.optimize.together import SharedMachines, Tenant, Together, held_by_models
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.provenance import Source
from gpufleet.results.encoders import EncoderServePlan
from gpufleet.results.fleet import FleetPlan, MissingMachines, SharedDeployment, TenantPlan
from gpufleet.results.plan import ServePlan


def fleet_plan(
    plans: Sequence[ServePlan],
    encoder_plans: Sequence[EncoderServePlan],
    solved: Sequence[SolvedWriter],
    solved_encoders: Sequence[tuple[EncoderServeQuestion, EncoderServeSolution]],
    together: Together,
    budget_usd_per_hour: float | None,
    sources: Mapping[str, Source],
    notes: list[str],
) -> FleetPlan:
    """The answer; without a total where a model is not served."""
    groups, every = together.groups, [*plans, *encoder_plans]
    total = sum(g.usd_per_hour for g in groups) if groups else None
    text = "\n".join([*(p.input_hash for p in every), repr(budget_usd_per_hour)])
    shared = [shared_deployment(g.shared, solved) for g in groups if g.shared is not None]
    own = price_days([d for plan in every for d in plan.deployments[:1]])
    used = [*own, *((s.price_source, s.price_as_of) for s in shared)]
    held = held_by_models([*solved, *solved_encoders], together)
    return FleetPlan(
        plans=list(plans),
        encoder_plans=list(encoder_plans),
        shared=shared,
        missing=[missing_machines(shortfall) for shortfall in together.missing],
        held_confidences=[confidence for _, confidence in held],
        held_together=held_together(held) if held else None,
        usd_per_hour=total,
        usd_per_hour_apart=together.usd_per_hour_apart,
        usd_per_month=None if total is None else float(usd_per_month(total)),
        budget_usd_per_hour=budget_usd_per_hour,
        price_sources=price_sources(used, sources),
        notes=notes,
        input_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def missing_machines(found: Shortfall) -> MissingMachines:
    """An offer of which too little can be had."""
    return MissingMachines.made_of(
        found.offer,
        can_be_had=round(found.can_be_had),
        needed=math.ceil(found.needed),
        gpu_quota=None if found.quota is None else found.quota.name,
    )


def shared_deployment(shared: SharedMachines, solved: Sequence[SolvedWriter]) -> SharedDeployment:
    """Machines of one offer with their tenants."""
    return SharedDeployment(
        **machines_of(shared.offer, shared.instance, shared.instance_count),
        usd_per_hour=shared.usd_per_hour,
        idle_gpus=shared.idle_gpus,
        tenants=[tenant_plan(tenant, *solved[tenant.model]) for tenant in shared.tenants],
    )


def tenant_plan(tenant: Tenant, question: WriterQuestion, solution: WriterSolution) -> TenantPlan:
    """Replicas of one model in words, and what requests take on them: all of the model's are on these machines."""
    context, row, copies = Context.of(question, solution), tenant.row, solution.copies
    running = operate(solution.found, row, question.demand.workload.rate_requests_per_s / tenant.replicas)
    grade, floors_s = context.grades[row].label, copies.floors_s(row)
    return TenantPlan.made_of(
        tenant,
        latency=latency_figures(solution.found, row, running, context.bounds, grade, floors_s),
        plan=tenant.model,
        model=question.model.name,
        layout=solution.copies.layout(tenant.row).label,
        weight_format=solution.copies.weights(tenant.row),
    )
