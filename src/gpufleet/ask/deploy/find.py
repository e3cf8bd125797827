"""From a plan in a file to the files that start it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from os import PathLike

from gpufleet.api.envelope import in_full
from gpufleet.api.rented_groups import PLAN_AGAIN, Group, groups_of, names_of, parts_of_mix, start_of
from gpufleet.ask.deploy.shape import DeployedPlan
from gpufleet.ask.deploy.targets import TARGETS, target_named
from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.deploy.launch import OPTIONS_FILE
from gpufleet.deploy.serving_copies import (
    LEAST_GRACE_S,
    MOST_GRACE_S,
    REACHED,
    SHARED_GIB,
    ServingCopies,
    disk_gib,
    node_labels,
    share_of_node,
)
from gpufleet.deploy.target import Target
from gpufleet.errors import UsageError
from gpufleet.inputs.plan_file import read_plan
from gpufleet.report.numbers import percent, usd_per_hour
from gpufleet.results.base import Launch
from gpufleet.results.deployed import DeployedFile, DeployedStep
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import Deployment, ServePlan

LONGER_ANSWER = 3.0
"""Of the longest latency of the plan; a judgement."""
OPTIONS_WORD = "--extra_llm_api_options"
PLAN_FILE, README = "gpufleet.json", "README.md"
SHUTDOWN = "--shutdown-timeout"


def deploy_plan(
    plan: str | PathLike[str] | ServePlan | FleetPlan,
    to: str = "kubernetes",
    *,
    image: str | None = None,
    catalog: Catalog | None = None,
) -> DeployedPlan:
    """Files that start what a plan advises to rent, on a target: kubernetes or compose.

    `plan` is the file that `plan serve -o json` wrote. `image` replaces that of the engine's version.

    >>> import gpufleet
    >>> plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200)
    >>> [file.name for file in deploy_plan(plan, "kubernetes").files][:2]
    ['manifests/deployment.yaml', 'manifests/service.yaml']
    """
    target = target_named(to)
    tables = load_catalog() if catalog is None else catalog
    read = plan if isinstance(plan, (ServePlan, FleetPlan)) else read_plan(str(plan), PLAN_AGAIN)
    groups = list(groups_of(read))
    names = names_of(groups)
    copies = [copies_of(group, names[group.name], tables, image) for group in groups]
    refused = target.refusal(copies)
    if refused is not None:
        raise UsageError(f"{to} cannot hold this plan", found=refused, expected=f"--to {others_than(to)}")
    files = [DeployedFile(**file._asdict()) for file in target.files(copies)]
    machines = [bought(group.deployment) for group in groups]
    notes = [note for group, one in zip(groups, copies, strict=True) for note in said_of(group, one)]
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
        notes=list(dict.fromkeys([*apart(groups), *dealt_out(read), *notes])),
    )
    beside = [
        DeployedFile(name=README, text=readme(answer, target), what="this page"),
        DeployedFile(name=PLAN_FILE, text=read.to_json(), what="the plan"),
    ]
    asked = {"plan": plan if isinstance(plan, (str, PathLike)) else None, "to": to, "image": image}
    return in_full(answer.model_copy(update={"files": [*files, *beside]}), tables, asked)


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
    d, how = group.deployment, shows_metrics(group)
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


def bought(d: Deployment) -> str:
    """What is rented, in words."""
    where = "any region" if d.region == "all" else d.region
    kind = d.price_kind.replace("_", " ")
    return f"{d.instance_count}x {d.cloud} {d.instance} in {where}, {kind}: {usd_per_hour(d.usd_per_hour)}"


def said_of(group: Group, copies: ServingCopies) -> Iterator[str]:
    """What has to be done or is not known of one group."""
    yield from group.launch.notes
    d = group.deployment
    if d.price_kind != "on_demand":
        kind = d.price_kind.replace("_", " ")
        yield f"No file says how machines are paid for: rent {d.instance_count}x {d.instance} as {kind} first"
    yield f"A {d.instance} needs a disk of {copies.per_machine * copies.disk_gib} GiB beside its system's"
    if copies.memory_gib is None:
        yield f"Cores and memory of {d.instance} are not known: the files ask for none"
    if SHUTDOWN not in copies.arguments and d.engine == "vllm":
        yield "This version of vLLM drops what it has begun when it is told to stop: no flag makes it wait"


def others_than(to: str) -> str:
    """The other targets."""
    return " or ".join(name for name in TARGETS if name != to)


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
