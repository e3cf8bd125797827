"""Files that bound what a plan's copies can cost, for somebody to apply: a quota, a cordon, a stop, and who may do so.

Nothing here acts by itself. Fields: Kubernetes 1.37: ResourceQuota, which bounds extended resources by `requests.`
alone; RBAC v1. Commands: kubectl of the same version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.languages import shell_command, yaml_document
from gpufleet.monitor.copies_commands import KEDA, no_copies
from gpufleet.monitor.machines_seen import machine_kinds
from gpufleet.monitor.target import file, step
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.results.deployed import DeployedFile, DeployedStep

FOLDER, NAME = "act", "gpufleet-spending"
RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
TYPE_LABEL = "node.kubernetes.io/instance-type"
"""Managed services set it on their nodes (kubernetes.io/docs/reference/labels-annotations-taints)."""
HEAD = ("#!/bin/sh", "set -eu")


def most_gpus(copies: WatchedCopies) -> int:
    """GPUs of as many copies as the plan ever has."""
    return copies.most_copies * copies.gpus_per_replica


def limit_files(plan: WatchedPlan) -> Iterator[DeployedFile]:
    """An upper limit of copies, a cordon, a stop, and a role that may do these three things and no more."""
    limits = list(quotas(plan))
    if limits:
        yield file(f"{FOLDER}/limit.yaml", documents(limits), "no more GPUs than the plan has (ResourceQuota)")
    yield file(f"{FOLDER}/role.yaml", documents(roles(plan)), "who may limit, cordon and stop (ServiceAccount, Role)")
    yield file(f"{FOLDER}/cordon.sh", script(cordons(plan)), "nothing new on the plan's machines; what runs goes on")
    yield file(f"{FOLDER}/stop.sh", script(stops(plan)), "no copy runs; machines cost on until they are given back")


def documents(objects: Sequence[object]) -> str:
    """Objects as one file."""
    return "---\n".join(map(yaml_document, objects))


def namespaces(plan: WatchedPlan) -> list[str]:
    """Where copies are."""
    return list(dict.fromkeys(each.namespace for each in plan.copies))


def quotas(plan: WatchedPlan) -> Iterator[dict[str, object]]:
    """The GPUs that pods of a namespace may ask for, together."""
    for namespace in namespaces(plan):
        hard: dict[str, int] = {}
        for each in plan.copies:
            resource = RESOURCES.get(each.vendor)
            if each.namespace == namespace and resource is not None:
                hard[f"requests.{resource}"] = hard.get(f"requests.{resource}", 0) + most_gpus(each)
        if hard:
            yield {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": NAME, "namespace": namespace},
                "spec": {"hard": {name: str(gpus) for name, gpus in hard.items()}},
            }


def roles(plan: WatchedPlan) -> list[dict[str, object]]:
    """An account, what it may do in the copies' namespace, and that it may cordon nodes."""
    rbac, home = "rbac.authorization.k8s.io", namespaces(plan)[0]
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": home}
    names = [each.name for each in plan.copies]
    found: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": home}}
    ]
    scale = {
        "apiGroups": ["apps"],
        "resources": ["deployments", "deployments/scale"],
        "resourceNames": names,
        "verbs": ["get", "patch", "update"],
    }
    limit = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["create", "get", "patch"]}
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}
    for namespace in namespaces(plan):
        where = {"name": NAME, "namespace": namespace}
        rules = [scale, limit, *held_by_keda(plan)]
        found.append({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": where, "rules": rules})
        found.append(binding("RoleBinding", where, {"apiGroup": rbac, "kind": "Role", "name": NAME}, subject))
    everywhere = {"name": NAME}
    found.append({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": everywhere, "rules": [nodes]})
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME}
    return [*found, binding("ClusterRoleBinding", everywhere, role, subject)]


def held_by_keda(plan: WatchedPlan) -> Iterator[dict[str, object]]:
    """That copies which KEDA scales may be held at none."""
    names = [each.name for each in plan.copies if each.law is not None and each.law.controller == KEDA]
    if names:
        verbs = ["get", "patch"]
        yield {"apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "resourceNames": names, "verbs": verbs}


def binding(kind: str, metadata: dict[str, str], role: dict[str, str], subject: dict[str, str]) -> dict[str, object]:
    """Whose role it is."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": role,
        "subjects": [subject],
    }


def script(commands: Iterator[str]) -> str:
    """Commands as a script that stops at the first that fails."""
    return "\n".join([*HEAD, *commands, ""])


def cordons(plan: WatchedPlan) -> Iterator[str]:
    """Nothing new is placed on machines of the plan's types."""
    for kind in machine_kinds(plan):
        yield shell_command(["kubectl", "cordon", "-l", f"{TYPE_LABEL}={kind.instance}"])


def stops(plan: WatchedPlan) -> Iterator[str]:
    """No copy is left; each answers what it has begun."""
    for each in plan.copies:
        yield no_copies(each)


def limit_steps(plan: WatchedPlan) -> Iterator[DeployedStep]:
    """What somebody may do when money runs away, mildest first; none of it is run by gpufleet."""
    yield step(shell_command(["kubectl", "apply", "-f", f"{FOLDER}/role.yaml"]), "an account that may do the following")
    if any(each.vendor in RESOURCES for each in plan.copies):
        limit = shell_command(["kubectl", "apply", "-f", f"{FOLDER}/limit.yaml"])
        yield step(limit, "no more copies than the plan has; what runs goes on")
    yield step(shell_command(["sh", f"{FOLDER}/cordon.sh"]), "nothing new on the plan's machines")
    yield step(shell_command(["sh", f"{FOLDER}/stop.sh"]), "no copy runs; a node pool that scales gives machines back")
