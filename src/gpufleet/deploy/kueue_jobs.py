"""A schedule as manifests of Kueue: a flavour for each pool, one queue with their quotas, and the jobs.

Jobs are pinned to their pool, and what begins sooner has the higher priority; Kueue admits a gang whole or not at all.
GPUs alone have quotas: nobody said how many CPUs and how much memory jobs take.
Names are labels of Kubernetes; annotations and the label of nodes keep those of the schedule.
Fields: kueue.sigs.k8s.io/docs/reference/kueue.v1beta2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.deploy.skypilot_jobs import command_of, nodes_of
from gpufleet.languages import MOST_OF_A_LABEL, distinct_names, label_name, yaml_document
from gpufleet.results.schedule import ScheduledRun, SchedulePlan

API, QUEUE, NAMESPACE, LABEL = "kueue.x-k8s.io/v1beta2", "gpufleet", "default", "gpufleet/pool"
GPU = "nvidia.com/gpu"
HEADING = """\
# Kueue keeps no times: a job begins as soon as its quota is free and no job of a higher priority waits, which may be
# sooner or later than scheduled. When it was to begin is an annotation, and so are the jobs that it comes after.
# GPUs alone have quotas and requests: CPUs and memory of jobs are not known here.
"""


def kueue_manifests(plan: SchedulePlan) -> str:
    """All manifests, to be applied in this order."""
    classes = priority_names(plan)
    names = distinct_names((run.job for run in plan.runs), label_name, MOST_OF_A_LABEL)
    manifests = [*flavours(plan), cluster_queue(plan), local_queue(), *priorities(classes)]
    runs = sorted(plan.runs, key=lambda run: (run.start_s, run.job))
    manifests += [job(run, names[run.job], classes[run.start_s]) for run in runs]
    return HEADING + "---\n".join(yaml_document(manifest) for manifest in manifests)


def flavours(plan: SchedulePlan) -> Iterator[dict[str, Any]]:
    """Nodes of a pool carry its name as a label."""
    for pool, name in flavour_names(plan).items():
        yield {
            "apiVersion": API,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {LABEL: pool}},
        }


def flavour_names(plan: SchedulePlan) -> dict[str, str]:
    """By pool: its flavour."""
    return distinct_names((pool.pool for pool in plan.pools), label_name, MOST_OF_A_LABEL)


def cluster_queue(plan: SchedulePlan) -> dict[str, Any]:
    """Quotas of all pools."""
    names = flavour_names(plan)
    quotas = [
        {"name": names[pool.pool], "resources": [{"name": GPU, "nominalQuota": pool.gpus}]} for pool in plan.pools
    ]
    groups = [{"coveredResources": [GPU], "flavors": quotas}]
    spec = {"namespaceSelector": {}, "queueingStrategy": "StrictFIFO", "resourceGroups": groups}
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": spec}


def local_queue() -> dict[str, Any]:
    """The queue that jobs name."""
    metadata = {"name": QUEUE, "namespace": NAMESPACE}
    return {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": QUEUE}}


def priority_names(plan: SchedulePlan) -> dict[float, str]:
    """A class for each moment at which something begins."""
    starts = sorted({run.start_s for run in plan.runs})
    return {start: f"{QUEUE}-{number:05}" for number, start in enumerate(starts)}


def priorities(classes: Mapping[float, str]) -> Iterator[dict[str, Any]]:
    """What begins sooner comes first."""
    for number, name in enumerate(classes.values()):
        yield {
            "apiVersion": API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": len(classes) - number,
            "description": "A job of a schedule: what begins sooner comes first.",
        }


def job(run: ScheduledRun, name: str, priority: str) -> dict[str, Any]:
    """One job, suspended until Kueue admits it; a share of a GPU asks for all of one."""
    nodes = nodes_of(run.gpus)
    asked = {GPU: math.ceil(run.gpus / nodes)}
    command = ["/bin/sh", "-c", command_of(run)]
    container: dict[str, Any] = {"name": "job", "image": run.image or "busybox", "command": command}
    container |= {"resources": {"requests": asked, "limits": dict(asked)}}
    pod = {"nodeSelector": {LABEL: run.pool}, "containers": [container], "restartPolicy": "Never"}
    labels = {"kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/priority-class": priority}
    told = {"gpufleet/job": run.job, "gpufleet/begins-s": f"{run.start_s:.0f}", "gpufleet/gpus": f"{run.gpus:g}"}
    if run.after:
        told["gpufleet/after"] = ",".join(run.after)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": told},
        "spec": {
            "suspend": True,
            "parallelism": nodes,
            "completions": nodes,
            "completionMode": "Indexed",
            "template": {"spec": pod},
        },
    }
