"""From a plan in a file to the files that start it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike

from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.envelope import in_full
from gpufleet.ask.deploy.shape import DeployedFile, DeployedPlan, DeployedStep
from gpufleet.ask.deploy.targets import TARGETS, target_named
from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.deploy.serving_copies import (
    LEAST_GRACE_S,
    LEAST_START_S,
    MOST_GRACE_S,
    REACHED,
    SHARED_GIB,
    ServingCopies,
    disk_gib,
    node_labels,
    share_of_node,
)
from gpufleet.deploy.target import Target
from gpufleet.errors import GpufleetError, Infeasible, UsageError
from gpufleet.inputs.plan_file import read_plan
from gpufleet.languages import MOST_OF_A_LABEL, distinct_names, label_name
from gpufleet.records import dataclass
from gpufleet.report.numbers import percent, usd_per_hour
from gpufleet.results.base import Launch
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import Deployment, MixPart, ServePlan

UNKNOWN_START_S = 1800
LONGER_START, LONGER_ANSWER = 2.0, 3.0
"""Of the cold start at its high end, and of the longest latency of the plan; judgements, as the 30 min of a start that
nobody can foresee."""
BYTES_OF_A_PARAMETER = 2.0
PLAN_FILE, README = "gpufleet.json", "README.md"
SHUTDOWN, PLAN_AGAIN = "--shutdown-timeout", "Plan again, with -o json."


def deploy_plan(
    plan: str | PathLike[str] | ServePlan | FleetPlan,
    to: str = "kubernetes",
    *,
    image: str | None = None,
    catalog: Catalog | None = None,
) -> DeployedPlan:
    """Files that start what a plan advises to rent, on a target: kubernetes, eksctl, terraform-ecs or compose.

    `plan` is the file that `plan serve -o json` wrote. `image` replaces that of the engine's version.

    >>> import gpufleet
    >>> plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200)
    >>> [file.name for file in deploy_plan(plan, "kubernetes").files][:2]
    ['manifests/deployment.yaml', 'manifests/service.yaml']
    """
    target = target_named(to)
    tables = load_catalog() if catalog is None else catalog
    read = plan if isinstance(plan, (ServePlan, FleetPlan)) else read_plan(str(plan), PLAN_AGAIN)
    groups = list(told_apart(list(groups_of(read))))
    names = distinct_names((group.name for group in groups), label_name, MOST_OF_A_LABEL)
    copies = [copies_of(group, names[group.name], tables, image) for group in groups]
    refused = target.refusal(copies)
    if refused is not None:
        raise UsageError(f"{to} cannot hold this plan", found=refused, expected=who_can(copies))
    files = [DeployedFile(**file._asdict()) for file in target.files(copies)]
    machines = [bought(group.deployment) for group in groups]
    notes = [note for group, one in zip(groups, copies, strict=True) for note in said_of(group, one, target)]
    answer = DeployedPlan(
        target=to,
        models=[group.model for group in groups],
        machines=machines,
        usd_per_hour=sum(group.deployment.usd_per_hour for group in groups),
        files=files,
        steps=[DeployedStep(**step._asdict()) for step in target.steps(copies)],
        plan_hash=read.input_hash,
        price_sources=read.price_sources,
        grade=read.grade,
        notes=list(dict.fromkeys([*apart(groups), *([] if target.deals_out else dealt_out(read)), *notes])),
    )
    beside = [
        DeployedFile(name=README, text=readme(answer, target), what="this page"),
        DeployedFile(name=PLAN_FILE, text=read.to_json(), what="the plan"),
    ]
    asked = {"plan": plan if isinstance(plan, (str, PathLike)) else None, "to": to, "image": image}
    return in_full(answer.model_copy(update={"files": [*files, *beside]}), tables, asked)


@dataclass(frozen=True, eq=False)
class Group:
    """Equal copies of one model that a plan advises to rent."""

    name: str
    model: str
    num_parameters: int
    deployment: Deployment
    launch: Launch
    engine_version: str | None
    share_ratio: float = 1.0


def groups_of(plan: ServePlan | FleetPlan) -> Iterator[Group]:
    """What a plan rents: of each model its answer, or both parts of two offers."""
    plans = plan.plans if isinstance(plan, FleetPlan) else [plan]
    if isinstance(plan, FleetPlan) and plan.encoder_plans:
        raise UsageError("plans of encoders are not deployed yet", expected="plans of models that write")
    for one in plans:
        parts = [(d, 1.0) for d in one.deployments[:1]]
        parts = parts or [(part.deployment, part.share_ratio) for part in parts_of_mix(one)]
        if not parts:
            raise Infeasible(f"the plan of {one.model} serves nothing", hint="The plan says why.")
        version = None if one.basis is None else one.basis.question.get("engine_version")
        for number, (deployment, share) in enumerate(parts, 1):
            if deployment.launch is None:
                raise UsageError(f"the plan of {one.model} names no command", hint=PLAN_AGAIN)
            name = one.model if len(parts) == 1 else f"{one.model}-{number}"
            yield Group(name, one.model, one.num_parameters, deployment, deployment.launch, version, share)


def told_apart(groups: Sequence[Group]) -> Iterator[Group]:
    """Groups with names of their own, where a fleet serves one model twice."""
    counts, seen = Counter(group.name for group in groups), Counter[str]()
    for group in groups:
        seen[group.name] += 1
        yield group if counts[group.name] == 1 else replace(group, name=f"{group.name}-{seen[group.name]}")


def parts_of_mix(plan: ServePlan) -> Sequence[MixPart]:
    """Two offers that serve together where none serves alone."""
    return () if plan.deployments or plan.mix is None else plan.mix.parts


def apart(groups: Sequence[Group]) -> Iterator[str]:
    """That no cluster spans the machines of several places."""
    places = list(dict.fromkeys(f"{g.deployment.cloud} {g.deployment.region}" for g in groups))
    if len(places) > 1:
        yield f"Machines stand in {' and '.join(places)}, with a cluster for each: apply each folder in its own"


def dealt_out(plan: ServePlan | FleetPlan) -> Iterator[str]:
    """What has to be in front of two offers that serve one model."""
    for one in plan.plans if isinstance(plan, FleetPlan) else [plan]:
        shares = [percent(part.share_ratio) for part in parts_of_mix(one)]
        if shares:
            yield f"Requests of {one.model} have to be dealt out {' to '.join(shares)}: no router is written yet"


def copies_of(group: Group, name: str, tables: Catalog, image: str | None) -> ServingCopies:
    """A group as files start it."""
    d, how = group.deployment, group.launch
    machine = tables.instances.get((d.cloud, d.instance))
    if d.gpus_per_replica > d.gpus_per_instance:
        raise UsageError("copies over several machines are not deployed yet", found=f"{d.gpus_per_replica} GPUs a copy")
    found = image or how.image
    if found is None:
        raise UsageError(f"no image of {d.engine} is known", hint="--image names yours.")
    start_s, weights_bytes = start_of(group)
    copies = math.ceil(d.replicas / d.instance_count)
    cores, gib = (None, None) if machine is None else share_of_node(machine, copies)
    grace_s = grace_of(d)
    return ServingCopies(
        name=name,
        model=group.model,
        engine=d.engine,
        image=found,
        arguments=[*told(how), *REACHED[d.engine].words, *stopping(group, grace_s)],
        replicas=d.replicas,
        machines=d.instance_count,
        gpus=d.gpus_per_replica,
        vendor=vendor_of(d, tables),
        reached=REACHED[d.engine],
        node_labels=node_labels(d.cloud, d.instance, name),
        cloud=d.cloud,
        region=d.region,
        instance=d.instance,
        price_kind=d.price_kind,
        usd_per_hour=d.usd_per_hour,
        gpu=d.gpu,
        gpus_per_machine=d.gpus_per_instance,
        vcpus=None if machine is None else machine.vcpus,
        share_ratio=group.share_ratio,
        cpus=cores,
        memory_gib=gib,
        shared_gib=SHARED_GIB if d.gpus_per_replica > 1 else 0.0,
        disk_gib=disk_gib(weights_bytes),
        start_s=start_s,
        grace_s=grace_s,
        options_file=how.options_file,
        options=how.options,
    )


def told(how: Launch) -> list[str]:
    """The words of the command, the options file where it is mounted."""
    return [f"/options/{word}" if word == how.options_file else word for word in how.arguments]


def stopping(group: Group, grace_s: int) -> list[str]:
    """What makes an engine answer what it has begun before it stops, where its version can be told so."""
    flags = engine_flags(group.deployment.engine, group.engine_version)
    return [] if flags is None or flags.flag_of(SHUTDOWN) is None else [SHUTDOWN, str(grace_s)]


def grace_of(d: Deployment) -> int:
    """Seconds that a copy may take for what it has begun: three times its longest latency that the plan tells."""
    longest = max((f.high or f.value for name, f in d.latency.items() if "latency" in name), default=LEAST_GRACE_S)
    return math.ceil(min(max(LONGER_ANSWER * longest, LEAST_GRACE_S), MOST_GRACE_S))


def start_of(group: Group) -> tuple[int, float]:
    """Seconds that a start may take, twice the high end of what is expected, and bytes of weights."""
    d = group.deployment
    try:
        found = cold_start_of(group.model, f"{d.gpu}:{d.gpus_per_replica}", d.engine, precision=d.weight_format)
    except GpufleetError:
        return UNKNOWN_START_S, BYTES_OF_A_PARAMETER * group.num_parameters
    seconds = found.seconds.high if found.seconds.high and math.isfinite(found.seconds.high) else UNKNOWN_START_S
    return math.ceil(max(LONGER_START * seconds, LEAST_START_S)), found.weights_bytes


def vendor_of(d: Deployment, tables: Catalog) -> str:
    """Who makes the GPU."""
    gpu = tables.accelerators.get(d.gpu)
    return "nvidia" if gpu is None else gpu.vendor


def bought(d: Deployment) -> str:
    """What is rented, in words."""
    where = "any region" if d.region == "all" else d.region
    kind = d.price_kind.replace("_", " ")
    return f"{d.instance_count}x {d.cloud} {d.instance} in {where}, {kind}: {usd_per_hour(d.usd_per_hour)}"


def said_of(group: Group, copies: ServingCopies, target: Target) -> Iterator[str]:
    """What has to be done or is not known of one group."""
    yield from group.launch.notes
    d = group.deployment
    kind = d.price_kind.replace("_", " ")
    if target.rents and d.price_kind not in target.rents:
        yield f"The files rent {d.instance} on demand: buy {d.instance_count} as {kind} for the account first"
    elif not target.rents and d.price_kind != "on_demand":
        yield f"No file says how machines are paid for: rent {d.instance_count}x {d.instance} as {kind} first"
    if not target.rents:
        yield f"A {d.instance} needs a disk of {copies.per_machine * copies.disk_gib} GiB beside its system's"
    if copies.memory_gib is None:
        yield f"Cores and memory of {d.instance} are not known: the files ask for none"
    if SHUTDOWN not in copies.arguments and d.engine == "vllm":
        yield "This version of vLLM drops what it has begun when it is told to stop: no flag makes it wait"


def who_can(copies: Sequence[ServingCopies]) -> str:
    """The targets that hold copies."""
    holding = [name for name in TARGETS if target_named(name).refusal(copies) is None]
    return f"--to {' or '.join(holding)}"


def readme(answer: DeployedPlan, target: Target) -> str:
    """One screen: what it is, what it costs, the commands in their order."""
    lines = [
        f"# {', '.join(answer.models)} on {target.title}",
        "",
        *(f"- {machine}" for machine in answer.machines),
        f"- all together {usd_per_hour(answer.usd_per_hour)}; plan {answer.plan_hash} (gpufleet.json)",
        "",
        "```sh",
        *(line for step in answer.steps for line in (f"# {step.purpose}", step.command)),
        "```",
        "",
        *(f"- {note}" for note in answer.notes),
    ]
    return "\n".join([*lines, ""])
