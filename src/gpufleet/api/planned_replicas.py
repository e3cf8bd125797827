"""The replicas of a replay: as they are stated, or as the answer of a saved plan has them."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.answers.simulation import ReplicaPrice
from gpufleet.api.demands import demand_of, workload_of
from gpufleet.api.machine_notes import doubts_of_file
from gpufleet.api.own_rate import stack_of_copy
from gpufleet.api.plan_basis import request_of
from gpufleet.api.plan_files import notes_on_file, plan_in
from gpufleet.api.simulated_copies import CopyQuestion, copy_in
from gpufleet.catalog.engine_starts import started_for, started_of
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import (
    OfferFilter,
    matching_offers,
    price_per_gpu_usd_per_hour,
    resolve_gpu,
    resolve_instance,
)
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.errors import Infeasible, UsageError
from gpufleet.inputs.gpu_request import gpus_said
from gpufleet.inputs.model_config import model_asked
from gpufleet.records import dataclass
from gpufleet.results.plan import Deployment, ServePlan

PLAN_ENDING = ".json"


@dataclass(frozen=True, eq=False)
class Replicas:
    """So many copies, what one costs, and of a plan what they are for."""

    copy: CopyQuestion
    count: int
    arch: Architecture
    price: ReplicaPrice | None = None
    workload: Workload | None = None
    slo: Slo | None = None
    notes: tuple[str, ...] = ()


def stated_replicas(copy: CopyQuestion, count: int | None, tables: Catalog) -> Replicas:
    """One copy, or as many as are said, at the price of the machine that is named or of the cheapest with a date."""
    arch = started_for(model_asked(copy.model, shipped_architecture), started_of(copy))
    name, number = gpus_said(copy.gpus)
    price = cheapest_price(tables, name, number, copy.instance)
    return Replicas(copy, 1 if count is None else count, arch, price)


def cheapest_price(tables: Catalog, gpu: str, number: int, instance: str | None) -> ReplicaPrice | None:
    """What so many GPUs cost on demand at the cheapest dated price, of the machine where one is named."""
    wanted = OfferFilter(
        accelerators=[resolve_gpu(tables, gpu).accelerator.name],
        instances=None if instance is None else [resolve_instance(tables, instance).name],
        price_kinds=[PriceKind.ON_DEMAND],
    )
    dated = [o for o in matching_offers(tables, wanted) if o.as_of is not None]
    priced = [(price_per_gpu_usd_per_hour(o, tables.instances[o.cloud, o.instance]), o) for o in dated]
    if not priced:
        return None
    per_gpu, offer = min(priced, key=lambda pair: pair[0])
    machine = f"{offer.cloud} {offer.instance}, {offer.region}"
    return ReplicaPrice(per_gpu * number, machine, offer.price_kind.value, offer.source, offer.as_of)


def planned_replicas(copy: CopyQuestion, count: int | None, tables: Catalog, *, edited: bool = False) -> Replicas:
    """The replicas of the first answer of a saved plan, and the requests that it is for."""
    if isinstance(copy.model, Architecture) or not str(copy.model).endswith(PLAN_ENDING):
        raise UsageError("nothing says on which GPUs", expected="--gpus NAME:N, or the file of a plan (-o json)")
    plan = plan_in(str(copy.model), tables, edited=edited)
    if not isinstance(plan, ServePlan) or plan.basis is None:
        raise UsageError("only the plan of one model is replayed", found=str(copy.model))
    if not plan.deployments:
        raise Infeasible("the plan has no answer to replay", found=str(copy.model))
    request, answer = request_of(plan.basis), plan.answer
    arch = started_for(model_asked(request.model, shipped_architecture), started_of(request))
    workload = workload_of(request.kinds, arch)
    found = copy_in(answer, replace(copy, model=arch), request)
    if request.replica_rate is not None:
        own = stack_of_copy(request.replica_rate, found, arch, demand_of(request, arch), tables)
        found = replace(found, calibration=own)
    replicas = answer.replicas if count is None else count
    notes = (*doubts_of_file(answer, tables), *notes_on_file(plan))
    return Replicas(found, replicas, arch, price_of(answer), workload, workload.slo, notes)


def price_of(answer: Deployment) -> ReplicaPrice:
    """What one replica of a deployment costs, its share of idle GPUs included."""
    machine = f"{answer.cloud} {answer.instance}, {answer.region}"
    each = answer.usd_per_hour / answer.replicas
    return ReplicaPrice(each, machine, answer.price_kind, answer.price_source, answer.price_as_of)
