"""What a plan rents as groups of equal copies: what is deployed, and what is watched."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from gpufleet.api.cold_starts import cold_start_of
from gpufleet.catalog.engines import named_version
from gpufleet.deploy.serving_copies import LEAST_START_S
from gpufleet.errors import GpufleetError, Infeasible, UsageError
from gpufleet.inputs.plan_file import WITHOUT_SEAL, holds_scaling, is_mix, read_mix, read_plan_to_rent, read_scaling
from gpufleet.languages import MOST_OF_A_LABEL, distinct_names, service_name
from gpufleet.records import dataclass
from gpufleet.results.answer import Answer
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.base import Figure, Launch
from gpufleet.results.fleet import FleetPlan, SharedDeployment, TenantPlan
from gpufleet.results.mix import FleetMix
from gpufleet.results.plan import Deployment, MixPart, ServePlan
from gpufleet.results.rented import OfferedMachines

UNKNOWN_START_S = 1800
LONGER_START = 2.0
"""Of the cold start at its high end; a judgement, as the 30 min of a start that nobody can foresee."""
BYTES_OF_A_PARAMETER = 2.0
Rented = ServePlan | FleetPlan | FleetMix
"""What says which machines to rent."""
EVERYTHING: Mapping[float | None, float] = {None: 1.0}
PLAN_AGAIN = "Plan again, with -o json."
VERSION_WORDS = ("engine_version", "engine-version")


@dataclass(frozen=True, eq=False)
class Group:
    """Equal copies of one model that a plan advises to rent.

    `service` is whose requests they answer with others of the same: a model, told apart where it is served twice. They
    stand on `machines`, the `pool`-th of the plan, alone or with others of the same pool. `shares` are those of
    the model's requests that they get, by the longest prompt in tokens; None: of any length. `requests_per_s` is what
    they get in all, `usd_per_hour` their part of what the machines cost, by GPUs. `objectives` and mean tokens are of
    the model.
    """

    name: str
    service: str
    model: str
    num_parameters: int
    objectives: Mapping[str, float]
    requests_per_s: float
    input_tokens: float
    output_tokens: float
    deployment: Deployment
    launch: Launch
    engine_version: str | None
    shares: Mapping[float | None, float]
    pool: int
    machines: RentedPool
    usd_per_hour: float


@dataclass(frozen=True)
class RentedPool:
    """Machines of one offer, and what all of them cost."""

    cloud: str
    region: str
    instance: str
    price_kind: str
    count: int
    usd_per_hour: float
    is_shared: bool = False


def read_rented(path: str) -> Rented:
    """What a file of a plan or of a mix says."""
    return read_mix(path) if is_mix(path) else read_plan_to_rent(path, PLAN_AGAIN)


def warnings_of(plan: Answer) -> list[str]:
    """What has to be said of a file that does not tell whether it was edited."""
    return [note for note in plan.notes if WITHOUT_SEAL in note]


def rented_of(said: str | PathLike[str] | Rented | AutoscaleResult) -> tuple[Rented, AutoscaleResult | None]:
    """A plan, or that of a file, and how it is scaled where that is what was given."""
    if not isinstance(said, (str, PathLike, AutoscaleResult)):
        return said, None
    if isinstance(said, AutoscaleResult) or holds_scaling(str(said)):
        scaled = said if isinstance(said, AutoscaleResult) else read_scaling(str(said))
        if scaled.plan is None:
            raise UsageError("the law of scaling does not hold its plan", hint="Run autoscale again, with -o json.")
        if not scaled.is_feasible:
            raise Infeasible(
                "no law keeps the target: there is nothing to start", hint="autoscale says which is nearest."
            )
        return scaled.plan, scaled
    return read_rented(str(said)), None


def groups_of(plan: Rented, what: str = "deployed") -> list[Group]:
    """What a plan rents: of each model its answer, both parts of two offers, or its part of shared machines.

    What cannot be rented as it stands is refused, and plans of encoders, which are not `what` yet.
    """
    if isinstance(plan, FleetMix):
        return paid_by_gpus(groups_of_mix(plan))
    refuse_unrentable(plan, what)
    plans, shared = (plan.plans, plan.shared) if isinstance(plan, FleetPlan) else ([plan], [])
    services = services_of([one.model for one in plans])
    held = {tenant.plan for pool in shared for tenant in pool.tenants}
    alone = [
        replace(rented, service=services[number])
        for number, one in enumerate(plans)
        if number not in held
        for rented in groups_alone(one)
    ]
    tenants = [
        replace(tenant_group(plans[tenant.plan], pool, tenant, at), service=services[tenant.plan])
        for at, pool in enumerate(shared)
        for tenant in pool.tenants
    ]
    return paid_by_gpus([*tenants, *(replace(each, pool=len(shared) + number) for number, each in enumerate(alone))])


def paid_by_gpus(groups: Iterable[Group]) -> list[Group]:
    """Groups that pay for their machines by the GPUs that they have there, with names of their own."""
    found = list(told_apart(list(groups)))
    gpus: dict[int, int] = {}
    for each in found:
        gpus[each.pool] = gpus.get(each.pool, 0) + gpus_of(each)
    return [replace(each, usd_per_hour=each.machines.usd_per_hour * gpus_of(each) / gpus[each.pool]) for each in found]


def told_apart(groups: Sequence[Group]) -> Iterator[Group]:
    """Groups with names of their own, where a fleet serves one model twice."""
    counts, seen = Counter(group.name for group in groups), Counter[str]()
    for group in groups:
        seen[group.name] += 1
        yield group if counts[group.name] == 1 else replace(group, name=f"{group.name}-{seen[group.name]}")


def gpus_of(group: Group) -> int:
    """GPUs of all copies."""
    return group.deployment.replicas * group.deployment.gpus_per_replica


def services_of(models: Sequence[str]) -> list[str]:
    """A name for each service: its model, with a number where that is served twice.

    >>> services_of(["a", "b", "a"])
    ['a-1', 'b', 'a-3']
    """
    return [model if models.count(model) == 1 else f"{model}-{number}" for number, model in enumerate(models, 1)]


def tenant_group(plan: ServePlan, pool: SharedDeployment, tenant: TenantPlan, at: int) -> Group:
    """Copies on machines that are shared."""
    return group_of(plan, tenant_of(plan, pool, tenant), EVERYTHING, shared_pool(pool), at)


def refuse_unrentable(plan: ServePlan | FleetPlan, what: str) -> None:
    """Refuse models that are not written of yet, and models that together have too few machines."""
    if not isinstance(plan, FleetPlan):
        return
    if plan.encoder_plans:
        raise UsageError(f"plans of encoders are not {what} yet", expected="plans of models that write")
    if plan.missing:
        lack = plan.missing[0]
        raise Infeasible(
            "the models of the plan have too few machines together",
            found=f"{lack.can_be_had} of {lack.needed} {lack.gpu_quota or lack.instance}",
            hint="Plan again with another quota, or each model alone.",
        )


def groups_alone(plan: ServePlan) -> Iterator[Group]:
    """What the plan of one model rents: its answer, or both parts of two offers."""
    parts = [(d, EVERYTHING) for d in plan.deployments[:1]]
    parts = parts or [(part.deployment, {None: part.share_ratio}) for part in parts_of_mix(plan)]
    if not parts:
        raise Infeasible(f"the plan of {plan.model} serves nothing", hint="The plan says why.")
    for number, (deployment, shares) in enumerate(parts, 1):
        found = group_of(plan, deployment, shares, own_pool(deployment), 0)
        yield found if len(parts) == 1 else replace(found, name=f"{plan.model}-{number}")


def group_of(
    plan: ServePlan, deployment: Deployment, shares: Mapping[float | None, float], machines: RentedPool, pool: int
) -> Group:
    """A deployment of a plan as a group."""
    return Group(
        name=plan.model,
        service=plan.model,
        model=plan.model,
        num_parameters=plan.num_parameters,
        objectives=plan.objectives,
        requests_per_s=plan.rate_requests_per_s * sum(shares.values()),
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        deployment=deployment,
        launch=launch_of(plan.model, deployment),
        engine_version=engine_version_of(plan),
        shares=shares,
        pool=pool,
        machines=machines,
        usd_per_hour=machines.usd_per_hour,
    )


def launch_of(model: str, deployment: Deployment) -> Launch:
    """The command of a deployment."""
    if deployment.launch is None:
        raise UsageError(f"the plan of {model} names no command", hint=PLAN_AGAIN)
    return deployment.launch


def own_pool(d: Deployment) -> RentedPool:
    """Machines that hold one deployment."""
    return RentedPool(d.cloud, d.region, d.instance, d.price_kind, d.instance_count, d.usd_per_hour)


def shared_pool(pool: SharedDeployment) -> RentedPool:
    """Machines that hold several models."""
    return RentedPool(
        pool.cloud, pool.region, pool.instance, pool.price_kind, pool.instance_count, pool.usd_per_hour, is_shared=True
    )


def tenant_of(plan: ServePlan, pool: SharedDeployment, tenant: TenantPlan) -> Deployment:
    """The copies of a model on machines that it shares, which carry its rate with headroom."""
    alone = plan.deployments[0]
    rate = plan.rate_requests_per_s * (1 + plan.headroom_wanted_ratio)
    return alone.model_copy(
        update={
            **{name: getattr(pool, name) for name in OfferedMachines.model_fields},
            "price_per_instance_usd_per_hour": pool.price_per_instance_usd_per_hour,
            "usd_per_hour": pool.usd_per_hour,
            "replicas": tenant.replicas,
            "gpus_per_replica": tenant.gpus_per_replica,
            "layout": tenant.layout,
            "weight_format": tenant.weight_format,
            "latency": tenant.latency,
            "launch": tenant.launch,
            "idle_gpus": 0,
            "requests_per_s_capacity": Figure(value=rate, unit=alone.requests_per_s_capacity.unit),
        }
    )


def groups_of_mix(mix: FleetMix) -> Iterator[Group]:
    """The rows of copies of a mix, on the machines of the mix, with the requests that are sent to each."""
    if not mix.copies:
        raise Infeasible("the mix serves nothing", hint="The mix says why.")
    services = services_of([service.model for service in mix.services])
    for number, copies in enumerate(mix.copies):
        service, machines = mix.services[copies.service], mix.machines[copies.machines]
        of_service = [at for at, other in enumerate(mix.copies) if other.service == copies.service]
        yield Group(
            name=service.model if len(of_service) == 1 else f"{service.model}-{of_service.index(number) + 1}",
            service=services[copies.service],
            model=service.model,
            num_parameters=service.num_parameters,
            objectives=service.objectives,
            requests_per_s=copies.requests_per_s,
            input_tokens=service.input_tokens,
            output_tokens=service.output_tokens,
            deployment=copies.deployment,
            launch=launch_of(service.model, copies.deployment),
            engine_version=service.engine_version,
            shares=shares_of_routes(mix, number),
            pool=copies.machines,
            machines=RentedPool(
                machines.cloud,
                machines.region,
                machines.instance,
                machines.price_kind,
                machines.instance_count,
                machines.usd_per_hour,
                is_shared=sum(each.machines == copies.machines for each in mix.copies) > 1,
            ),
            usd_per_hour=machines.usd_per_hour,
        )


def shares_of_routes(mix: FleetMix, copies: int) -> dict[float | None, float]:
    """The share of the requests of each length that a row of copies gets.

    Who is to foretell answers, or to tell classes apart, has no router here.
    """
    routes = [route for route in mix.routes if route.service == mix.copies[copies].service]
    if len({route.request_class for route in routes}) > 1 or any(r.from_answer_tokens is not None for r in routes):
        raise UsageError(
            "a router tells requests apart by the length of their prompt alone",
            found="a mix by class or by foretold answer",
            expected="one class, and --route-by prompt",
        )
    return {route.to_prompt_tokens: route.copies.get(copies, 0.0) for route in routes}


def parts_of_mix(plan: ServePlan) -> Sequence[MixPart]:
    """Two offers that serve together where none serves alone."""
    return () if plan.deployments or plan.mix is None else plan.mix.parts


def engine_version_of(plan: ServePlan) -> str | None:
    """The version of the engine that was asked for, of `vllm==0.19.1` too; None where nobody said one."""
    asked: dict[str, Any] = {word.word: word.value for word in plan.question}
    if plan.basis is not None:
        asked.update(plan.basis.question)
    said = next((str(asked[name]) for name in VERSION_WORDS if asked.get(name)), None)
    return named_version(asked.get("engine"), said)[1]


def names_of(groups: Sequence[Group]) -> dict[str, str]:
    """By the name of a group: how files of Kubernetes name it."""
    return distinct_names((group.name for group in groups), service_name, MOST_OF_A_LABEL)


def start_of(group: Group) -> tuple[int, float]:
    """Seconds that a start may take, twice the high end of what is expected, and bytes of weights."""
    d = group.deployment
    try:
        found = cold_start_of(group.model, f"{d.gpu}:{d.gpus_per_replica}", d.engine, precision=d.weight_format)
    except GpufleetError:
        return UNKNOWN_START_S, BYTES_OF_A_PARAMETER * group.num_parameters
    seconds = found.seconds.high if found.seconds.high and math.isfinite(found.seconds.high) else UNKNOWN_START_S
    return math.ceil(max(LONGER_START * seconds, LEAST_START_S)), found.weights_bytes
