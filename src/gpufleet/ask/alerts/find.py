"""From a plan in a file to the rules that watch what it promises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike

from gpufleet.api.envelope import in_full
from gpufleet.api.rented_groups import Group, groups_of, names_of, read_rented, start_of
from gpufleet.ask.alerts.shape import AlertFiles, AlertRow
from gpufleet.ask.alerts.targets import RULES, SEED_RULES, target_named, watching
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.xid_resolutions import xid_resolutions
from gpufleet.deploy.serving_copies import REACHED
from gpufleet.monitor.rules import ABSENT, RuleGroup
from gpufleet.monitor.watched import Range, WatchedCopies, WatchedPlan
from gpufleet.report.numbers import usd_per_hour
from gpufleet.results.base import Figure
from gpufleet.results.deployed import DeployedFile
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.mix import FleetMix
from gpufleet.results.plan import ServePlan

NAMESPACE = "serving"
"""That of the commands of `deploy`."""
PLAN_FILE, README = "gpufleet.json", "README.md"
VERSION_OF_IMAGE = re.compile(r":v?(\d+(?:\.\d+)+)")


def watch_plan(
    plan: str | PathLike[str] | ServePlan | FleetPlan | FleetMix,
    to: str = "prometheus",
    *,
    seed_thresholds: bool = False,
    catalog: Catalog | None = None,
) -> AlertFiles:
    """Rules, routes or a dashboard that watch what a plan promises: prometheus, alertmanager or grafana.

    `plan` is the file that `plan serve -o json` or `mix -o json` wrote. `seed_thresholds` adds the four alerts of the
    seeds.

    >>> import gpufleet
    >>> plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200)
    >>> [file.name for file in watch_plan(plan, "prometheus").files][:2]
    ['rules.yml', 'rules_test.yml']
    """
    target = target_named(to)
    tables = load_catalog() if catalog is None else catalog
    read = read_rented(str(plan)) if isinstance(plan, (str, PathLike)) else plan
    groups = groups_of(read, "watched")
    watched = watched_plan(read, groups, tables)
    found = watching(watched, (*RULES, *SEED_RULES) if seed_thresholds else RULES)
    files = list(target.files(watched, found.groups))
    answer = AlertFiles(
        target=to,
        models=list(dict.fromkeys(group.model for group in groups)),
        usd_per_hour=watched.usd_per_hour,
        alerts=rows_of(found.groups),
        num_twins=sum(alert.name == ABSENT for group in found.groups for alert in group.alerts),
        unwatched=list(dict.fromkeys(found.unwatched)),
        files=files,
        steps=list(target.steps(watched)),
        plan_hash=read.input_hash,
        price_sources=read.price_sources,
        grade=read.grade,
    )
    beside = [
        DeployedFile(name=README, text=readme(answer, target.title), what="this page"),
        DeployedFile(name=PLAN_FILE, text=read.to_json(), what="the plan"),
    ]
    asked = {
        "plan": plan if isinstance(plan, (str, PathLike)) else None,
        "to": to,
        "seed_thresholds": seed_thresholds or None,
    }
    return in_full(answer.model_copy(update={"files": [*files, *beside]}), tables, asked)


def watched_plan(plan: ServePlan | FleetPlan | FleetMix, groups: Sequence[Group], tables: Catalog) -> WatchedPlan:
    """What is watched of a plan."""
    names = names_of(groups)
    return WatchedPlan(
        name=" and ".join(dict.fromkeys(group.model for group in groups)),
        plan_hash=plan.input_hash,
        copies=[watched_copies(group, names[group.name], tables) for group in groups],
        gpu_metrics=metrics_of("dcgm-exporter"),
        cluster_metrics=metrics_of("kube-state-metrics"),
        xid_codes=xid_resolutions(),
    )


def watched_copies(group: Group, name: str, tables: Catalog) -> WatchedCopies:
    """What is watched of one group of copies."""
    d = group.deployment
    gpu = tables.accelerators.get(d.gpu)
    return WatchedCopies(
        name=name,
        namespace=NAMESPACE,
        model=group.model,
        engine=d.engine,
        metrics=metrics_of(d.engine, group.engine_version or version_of_image(group.launch.image)),
        gpu=d.gpu,
        power_limit_watts=None if gpu is None or gpu.slice_of else gpu.board_power_watts,
        replicas=d.replicas,
        machines=group.machines.count,
        gpus_per_machine=d.gpus_per_instance,
        gpus_per_replica=d.gpus_per_replica,
        usd_per_hour=group.usd_per_hour / group.machines.count,
        objectives=group.objectives,
        latency={label: range_of(figure) for label, figure in d.latency.items()},
        requests_per_s=group.requests_per_s,
        requests_per_s_capacity=range_of(d.requests_per_s_capacity),
        input_tokens=group.input_tokens,
        output_tokens=group.output_tokens,
        most_running=d.largest_batch,
        start_s=start_of(group)[0],
        vendor="nvidia" if gpu is None else gpu.vendor,
        drafts=d.drafts,
        accepted_tokens=None if d.accepted_tokens is None else range_of(d.accepted_tokens),
        port=REACHED[d.engine].port,
        metrics_path=REACHED[d.engine].metrics,
    )


def version_of_image(image: str | None) -> str | None:
    """The version that an image's tag names.

    >>> version_of_image("vllm/vllm-openai:v0.33.0"), version_of_image("mine:latest")
    ('0.33.0', None)
    """
    found = VERSION_OF_IMAGE.search(image or "")
    return found[1] if found else None


def range_of(figure: Figure) -> Range:
    """A figure of the plan, without its unit."""
    return Range(figure.value, figure.low, figure.high)


def rows_of(groups: Sequence[RuleGroup]) -> list[AlertRow]:
    """All alerts but the twins."""
    return [
        AlertRow(
            copies=alert.labels.get("deployment", ""),
            name=alert.name,
            severity=alert.severity,
            for_s=alert.for_s,
            summary=alert.summary,
            action=alert.action,
            command=alert.command,
        )
        for group in groups
        for alert in group.alerts
        if alert.name != ABSENT
    ]


def readme(answer: AlertFiles, title: str) -> str:
    """One screen: what is watched, what is not, and the commands in their order."""
    twins = f"{len(answer.alerts)} alerts, {answer.num_twins} more where a metric is absent for five minutes"
    lines = [
        f"# {', '.join(answer.models)}, watched by {title}",
        "",
        f"- {twins}",
        f"- machines of the plan: {usd_per_hour(answer.usd_per_hour)}; plan {answer.plan_hash} (gpufleet.json)",
        "",
        "```sh",
        *(line for step in answer.steps for line in (f"# {step.purpose}", step.command)),
        "```",
        "",
        *(f"- not watched, or misleading: {line}" for line in answer.unwatched),
        *(f"- {note}" for note in answer.notes),
    ]
    return "\n".join([*lines, ""])
