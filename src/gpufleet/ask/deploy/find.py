"""From a plan in a file to the files that start it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike

from gpufleet.api.envelope import in_full
from gpufleet.api.rented_groups import (
    Group,
    Rented,
    RentedPool,
    groups_of,
    names_of,
    rented_of,
    start_of,
    warnings_of,
)
from gpufleet.api.scaled_copies import scaling_of
from gpufleet.ask.deploy.scaled import cost_words, said_of_scaling
from gpufleet.ask.deploy.shape import DeployedPlan
from gpufleet.ask.deploy.targets import TARGETS, target_named
from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.deploy.launch import OPTIONS_FILE, SHARING
from gpufleet.deploy.serving_copies import (
    LEAST_BUSY,
    LEAST_GRACE_S,
    MOST_GRACE_S,
    REACHED,
    SHARED_GIB,
    WEIGHTS,
    Scaling,
    ServingCopies,
    disk_gib,
    image_named,
    is_pinned,
    node_labels,
    routing_named,
    share_of_node,
)
from gpufleet.deploy.target import Target
from gpufleet.errors import UsageError
from gpufleet.languages import MOST_OF_A_NAME, comment
from gpufleet.report.numbers import usd_per_hour
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.base import Launch
from gpufleet.results.deployed import DeployedFile, DeployedStep
from gpufleet.results.plan import Deployment

LONGER_ANSWER = 3.0
"""Of the longest latency of the plan; a judgement."""
OPTIONS_WORD = "--extra_llm_api_options"
OWNED = "owned"
OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
PLAN_FILE, README = "gpufleet.json", "README.md"
SHUTDOWN = "--shutdown-timeout"
SCALED = "the law of scaling, with the plan"


def deploy_plan(
    plan: str | PathLike[str] | Rented | AutoscaleResult,
    to: str = "kubernetes",
    *,
    image: str | None = None,
    router: str | None = None,
    secret: str | None = None,
    volume: str | None = None,
    timezone: str | None = None,
    prometheus: str | None = None,
    catalog: Catalog | None = None,
) -> DeployedPlan:
    """Files that start what a plan advises to rent, on a target: kubernetes, eksctl, terraform-ecs or compose.

    `plan` is the file that `plan serve -o json` or `mix -o json` wrote, or `autoscale -o json`: then the law to take
    says how many copies there are, in the trace's `timezone`, by what `prometheus` has read. `image` replaces that of
    the engine's version. `router` says how requests are dealt out: least_busy, weights, priority or prefix; by itself
    there is one, least_busy, in front of two offers that serve one model and of several copies on one machine. In a
    cluster, `secret` names where the token of the hub is (hf-token), `volume` a claim that copies load weights from.

    >>> import gpufleet
    >>> plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200)
    >>> [file.name for file in deploy_plan(plan, "kubernetes").files][:2]
    ['manifests/deployment.yaml', 'manifests/service.yaml']
    """
    target, tables = target_named(to), load_catalog() if catalog is None else catalog
    read, scaled = rented_of(plan)
    if scaled is None and not (timezone is None and prometheus is None):
        raise UsageError("the plan is not scaled", expected="for --timezone and --prometheus, 'autoscale -o json'")
    groups = groups_of(read)
    alone = held_in_cluster(placed_copies(groups, tables, image), target, secret, volume)
    scaling = (
        None if scaled is None else scaling_of(scaled, timezone, prometheus, alone[0].engine, groups[0].engine_version)
    )
    alone = alone if scaling is None else [scaled_copies(alone[0], scaling)]
    copies = [replace(one, routing=routing_of(one, alone, target, routing_said(router, target))) for one in alone]
    refused = target.refusal(copies)
    if refused is not None:
        raise UsageError(f"{to} cannot hold this plan", found=refused, expected=others_than(copies))
    files = [DeployedFile(**file._asdict()) for file in target.files(copies)]
    pools = {group.pool: group.machines for group in groups}
    notes = [note for group, one in zip(groups, copies, strict=True) for note in said_of(group, one, target)]
    answer = DeployedPlan(
        target=to,
        models=list(dict.fromkeys(group.model for group in groups)),
        machines=[bought(pool) for pool in pools.values()],
        usd_per_hour=sum(pool.usd_per_hour for pool in pools.values()),
        files=files,
        steps=[DeployedStep(**step._asdict()) for step in target.steps(copies)],
        plan_hash=read.input_hash,
        price_sources=read.price_sources,
        grade=read.grade,
        notes=list(
            dict.fromkeys(
                [*warnings_of(read), *apart(groups), *dealt_out(copies, target), *notes, *disks(copies, target)]
            )
        ),
    )
    if scaled is not None and scaling is not None:
        answer = as_scaled(answer, scaled, scaling, groups[0].deployment, target)
    beside = [
        DeployedFile(name=README, text=readme(answer, target), what="this page"),
        DeployedFile(name=PLAN_FILE, text=(scaled or read).to_json(), what="the plan" if scaled is None else SCALED),
    ]
    said = {"to": to, "image": image, "router": router, "secret": secret, "volume": volume}
    said |= {"timezone": timezone, "prometheus": prometheus}
    asked = {"plan": plan if isinstance(plan, (str, PathLike)) else None, **said}
    return in_full(answer.model_copy(update={"files": [*files, *beside]}), tables, asked)


def placed_copies(groups: Sequence[Group], tables: Catalog, image: str | None) -> list[ServingCopies]:
    """Groups as files start them, on their machines."""
    names = names_of(groups)
    first_of = {group.pool: names[group.name] for group in reversed(groups)}
    return beside_each_other(
        [copies_of(group, names[group.name], first_of[group.pool], tables, image) for group in groups]
    )


def routing_said(router: str | None, target: Target) -> str | None:
    """How requests are to be dealt out; refused where the target does that itself."""
    if router is not None and target.deals_out:
        raise UsageError(f"{target.name} has a balancer of its own", found=f"--router {router}", expected="no --router")
    return None if router is None else routing_named(router)


def held_in_cluster(
    copies: Sequence[ServingCopies], target: Target, secret: str | None, volume: str | None
) -> list[ServingCopies]:
    """Copies that use objects of a cluster, by their names there; weights on a volume take no disk of a node."""
    for word, name in (("--secret", secret), ("--volume", volume)):
        if name is not None and not target.in_cluster:
            raise UsageError(f"{target.title} has no objects of Kubernetes", found=word, expected=f"no {word}")
        if name is not None and (OBJECT_NAME.fullmatch(name) is None or len(name) > MOST_OF_A_NAME):
            raise UsageError(
                f"{word} is no name in Kubernetes", found=name, expected="a-z, 0-9, '-' and '.', 63 at most"
            )
    kept = [one if secret is None else replace(one, secret=secret) for one in copies]
    return [one if volume is None else replace(one, claim=volume, disk_gib=disk_gib(0.0)) for one in kept]


def as_scaled(
    answer: DeployedPlan, scaled: AutoscaleResult, scaling: Scaling, d: Deployment, target: Target
) -> DeployedPlan:
    """The answer for machines that come and go: what they cost on average, and what the law needs."""
    return answer.model_copy(
        update={
            "machines": [cost_words(scaled, scaling, d)],
            "usd_per_hour": scaled.recommended.mean_machines * d.price_per_instance_usd_per_hour,
            "notes": [*said_of_scaling(scaled, scaling, in_cluster=target.in_cluster), *answer.notes],
        }
    )


def scaled_copies(copies: ServingCopies, scaling: Scaling) -> ServingCopies:
    """Copies that come and go."""
    fixed = scaling.least == scaling.most
    return replace(
        copies,
        scaling=scaling,
        replicas=scaling.least if fixed else copies.replicas,
        machines=math.ceil(scaling.least / scaling.per_machine) if fixed else copies.machines,
    )


def apart(groups: Sequence[Group]) -> Iterator[str]:
    """That no cluster spans the machines of several places."""
    places = list(dict.fromkeys(f"{g.deployment.cloud} {g.deployment.region}" for g in groups))
    if len(places) > 1:
        yield f"Machines stand in {' and '.join(places)}, with a cluster for each: apply each folder in its own"


def dealt_out(copies: Sequence[ServingCopies], target: Target) -> Iterator[str]:
    """What a router needs beside the copies."""
    if target.in_cluster and any(one.routing is not None for one in copies):
        yield "A router runs twice, on nodes without GPUs, with half a core and 256 MiB each"
    if len({(one.cloud, one.region) for one in copies if one.routing is not None}) > 1:
        yield "The router deals out in one cluster alone: copies of two places need a balancer between the clusters"


def routing_of(one: ServingCopies, every: Sequence[ServingCopies], target: Target, said: str | None) -> str | None:
    """How a router deals out what copies get: as said; by itself where copies are not alike, or have no one address.

    Where lengths go apart, by the shares of the plan: who is busy with what is not seen from one length alone.
    """
    if target.deals_out:
        return None
    several = sum(other.service == one.service for other in every) > 1 or (target.has_ports and one.replicas > 1)
    return said or ((WEIGHTS if len(one.shares) > 1 else LEAST_BUSY) if several else None)


def copies_of(group: Group, name: str, pool: str, tables: Catalog, image: str | None) -> ServingCopies:
    """A group as files start it, on machines that are named by their pool."""
    d, how = group.deployment, shows_metrics(group)
    machine = tables.instances.get((d.cloud, d.instance))
    if d.gpus_per_replica > d.gpus_per_instance:
        raise UsageError("copies over several machines are not deployed yet", found=f"{d.gpus_per_replica} GPUs a copy")
    found = how.image if image is None else image_named(image)
    if found is None:
        raise UsageError(f"no image of {d.engine} is known", hint="--image names yours.")
    start_s, weights_bytes = start_of(group)
    num_machines = group.machines.count
    beside = (
        d.gpus_per_instance if group.machines.is_shared else math.ceil(d.replicas / num_machines) * d.gpus_per_replica
    )
    cores, gib = (None, None) if machine is None else share_of_node(machine, d.gpus_per_replica / beside)
    grace_s = grace_of(d)
    return ServingCopies(
        name=name,
        service=group.service,
        model=group.model,
        engine=d.engine,
        image=found,
        arguments=[*told(how), *REACHED[d.engine].words, *stopping(group, grace_s)],
        replicas=d.replicas,
        machines=num_machines,
        pool=group.pool,
        gpus=d.gpus_per_replica,
        vendor=vendor_of(d, tables),
        reached=REACHED[d.engine],
        node_labels=node_labels(d.cloud, d.instance, pool),
        cloud=d.cloud,
        region=d.region,
        instance=d.instance,
        price_kind=d.price_kind,
        usd_per_hour=d.usd_per_hour,
        gpu=d.gpu,
        gpus_per_machine=d.gpus_per_instance if machine is None else min(d.gpus_per_instance, machine.gpu_count),
        vcpus=None if machine is None else machine.vcpus,
        requests_per_s=d.requests_per_s_capacity.value / d.replicas,
        most_requests=max(math.floor(d.largest_batch), 1),
        shares=group.shares,
        cpus=cores,
        memory_gib=gib,
        shared_gib=SHARED_GIB if d.gpus_per_replica > 1 else 0.0,
        disk_gib=disk_gib(weights_bytes),
        start_s=start_s,
        grace_s=grace_s,
        options_file=how.options_file,
        options=how.options,
    )


def disks(copies: Sequence[ServingCopies], target: Target) -> Iterator[str]:
    """The disk that machines need, of all copies that stand on them, where no file rents them with it."""
    if target.rents:
        return
    needed: dict[tuple[int, str], int] = {}
    for one in copies:
        pool = (one.pool, one.instance)
        needed[pool] = needed.get(pool, 0) + one.per_machine * one.disk_gib
    yield from (f"A {instance} needs a disk of {gib} GiB beside its system's" for (_, instance), gib in needed.items())


def beside_each_other(copies: Sequence[ServingCopies]) -> list[ServingCopies]:
    """The copies with the first GPU of each group on a machine that it shares: behind those of the groups before."""
    taken: dict[int, int] = {}
    placed = []
    for one in copies:
        placed.append(replace(one, first_gpu=taken.get(one.pool, 0)))
        taken[one.pool] = taken.get(one.pool, 0) + one.per_machine * one.gpus
    return placed


def shows_metrics(group: Group) -> Launch:
    """How a group is launched, with the lines of its options file without which its engine shows no metrics."""
    how, lines = group.launch, REACHED[group.deployment.engine].options
    if not lines:
        return how
    words = [] if how.options_file else [OPTIONS_WORD, OPTIONS_FILE]
    file = {"options_file": how.options_file or OPTIONS_FILE, "options": (how.options or "") + lines}
    return how.model_copy(update={"arguments": [*how.arguments, *words], **file})


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


def vendor_of(d: Deployment, tables: Catalog) -> str:
    """Who makes the GPU."""
    gpu = tables.accelerators.get(d.gpu)
    return "nvidia" if gpu is None else gpu.vendor


def bought(pool: RentedPool) -> str:
    """What is rented, in words."""
    where = "any region" if pool.region == "all" else pool.region
    kind = pool.price_kind.replace("_", " ")
    return f"{pool.count}x {pool.cloud} {pool.instance} in {where}, {kind}: {usd_per_hour(pool.usd_per_hour)}"


def said_of(group: Group, copies: ServingCopies, target: Target) -> Iterator[str]:
    """What has to be done or is not known of one group."""
    yield from (note for note in group.launch.notes if SHARING not in note)
    d = group.deployment
    kind = d.price_kind.replace("_", " ")
    if target.rents and d.price_kind not in target.rents:
        yield f"The files rent {d.instance} on demand: buy {copies.machines} as {kind} for the account first"
    elif not target.rents and d.price_kind not in (OWNED, "on_demand"):
        yield f"No file says how machines are paid for: rent {copies.machines}x {d.instance} as {kind} first"
    if copies.claim is not None and copies.most > 1:
        yield f"The claim {copies.claim} has to be ReadWriteMany: copies on several nodes mount it"
    if not is_pinned(copies.image):
        yield f"{copies.image} is another image each time somebody pushes one: name a tag or a digest"
    if copies.memory_gib is None:
        yield f"Cores and memory of {d.instance} are not known: the files ask for none"
    if SHUTDOWN not in copies.arguments and d.engine == "vllm":
        yield "This version of vLLM drops what it has begun when it is told to stop: no flag makes it wait"


def others_than(copies: Sequence[ServingCopies]) -> str:
    """Targets that hold the plan."""
    holding = [name for name in TARGETS if target_named(name).refusal(copies) is None]
    return f"--to {' or '.join(holding)}"


def readme(answer: DeployedPlan, target: Target) -> str:
    """One screen: what it is, what it costs, the commands in their order."""
    lines = [
        comment(f"{', '.join(answer.models)} on {target.title}"),
        "",
        *(f"- {machine}" for machine in answer.machines),
        f"- all together {usd_per_hour(answer.usd_per_hour)}; plan {answer.plan_hash} (gpufleet.json)",
        "",
        "```sh",
        *(line for step in answer.steps for line in (comment(step.purpose), step.command)),
        "```",
        "",
        *(f"- {note}" for note in answer.notes),
    ]
    return "\n".join([*lines, ""])
