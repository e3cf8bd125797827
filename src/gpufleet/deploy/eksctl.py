"""A plan on Amazon EKS: the cluster as eksctl makes it, a group of nodes for each machine type, manifests beside it.

Fields: schema.json of eksctl (v1alpha5, github.com/eksctl-io/eksctl), a part of which is a table of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.deploy.aws import DISK_MIB_PER_S, RENTED, is_spot, quota_steps, root_disk_gib, unrentable
from gpufleet.deploy.kubernetes_serving import copies_steps, kubernetes_files
from gpufleet.deploy.serving_copies import OWN_LABEL
from gpufleet.deploy.target import Copies, Step, Target, Written, by_pool
from gpufleet.languages import unlike, yaml_document

CLUSTER, FILE = "serving", "cluster.yaml"
SYSTEM_NAME = "gpufleet-system"
SYSTEM = {"instanceTypes": ["t3.medium"], "desiredCapacity": 2, "privateNetworking": True}
"""Nodes without a GPU, for what a cluster runs of its own: nodes with GPUs take pods that ask for one alone. Their type
and number are a judgement."""


def eksctl_files(copies: Copies) -> list[Written]:
    """The cluster, and the manifests of each group."""
    pools = [nodes(pool) for pool in by_pool(copies)]
    system = {**SYSTEM, "name": unlike(SYSTEM_NAME, [pool["name"] for pool in pools])}
    content = {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": CLUSTER, "region": copies[0].region},
        "managedNodeGroups": [system, *pools],
    }
    return [
        Written(FILE, yaml_document(content), "the cluster and its nodes (ClusterConfig of eksctl)"),
        *kubernetes_files(copies),
    ]


def nodes(pool: Copies) -> dict[str, Any]:
    """As many nodes as copies need, for pods that ask for a GPU; disks in GiB and MiB/s."""
    copies = pool[0]
    spot = {"spot": True} if is_spot(copies) else {}
    return {
        "name": copies.name,
        "amiFamily": "AmazonLinux2023",
        "instanceTypes": [copies.instance],
        **spot,
        "desiredCapacity": min(max(copies.machines, copies.least_machines), copies.most_machines),
        "minSize": copies.least_machines,
        "maxSize": copies.most_machines,
        "volumeSize": root_disk_gib(pool),
        "volumeType": "gp3",
        "volumeThroughput": DISK_MIB_PER_S,
        "volumeEncrypted": True,
        "privateNetworking": True,
        "disablePodIMDS": True,
        "labels": {OWN_LABEL: copies.name},
        "taints": [{"key": copies.gpu_resource, "value": "present", "effect": "NoSchedule"}],
        "propagateASGTags": True,
    }


def eksctl_steps(copies: Copies) -> Iterator[Step]:
    """Commands in their order: those of manifests stand between the cluster's."""
    *serving, down = copies_steps(copies)
    yield from quota_steps(copies)
    yield Step(f"eksctl create cluster -f {FILE} --dry-run", "shows what would be made")
    yield Step(f"eksctl create cluster -f {FILE}", "rents the nodes; with driver and device plugin, 20 minutes or so")
    yield from serving
    yield Step(down.command, "takes the copies down")
    yield Step(f"eksctl delete cluster -f {FILE} --wait", "takes all down, machines too")


TARGET = Target(
    "eksctl",
    "Amazon EKS by eksctl",
    eksctl_files,
    lambda copies: list(eksctl_steps(copies)),
    unrentable,
    rents=RENTED,
    in_cluster=True,
)
