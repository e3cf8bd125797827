"""Copies of a model as manifests of Kubernetes: a deployment for them, a service in front, and what may be disrupted.

Fields: kubernetes.io/docs/reference (apps/v1, v1, policy/v1), checked against their own schemas in
tests/contracts/test_deployed_files.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from gpufleet.deploy.autoscalers import autoscaler_files, scaler_of, scaler_steps
from gpufleet.deploy.kubernetes_router import (
    NAME,
    NAMESPACE,
    PART_OF,
    PART_OF_GPUFLEET,
    PORT_NAME,
    router_names,
    routers,
)
from gpufleet.deploy.quotas import quotas
from gpufleet.deploy.serving_copies import LEAVING_S, OWN_LABEL, STOPPING_S, ServingCopies
from gpufleet.deploy.target import Copies, Step, Target, Written, by_pool, in_folders
from gpufleet.languages import without_variables, yaml_document
from gpufleet.units import MINUTE

HF_HOME = "/models"
PROBE_S = 10
FOLDER = "manifests"


def manifests(copies: ServingCopies) -> Iterator[Written]:
    """Each file by its name, in a folder that holds nothing but manifests."""
    if copies.options is not None:
        yield manifest("options", options(copies), "the options of the engine (ConfigMap)")
    yield manifest("deployment", deployment(copies), "the copies (Deployment)")
    yield manifest("service", service(copies), "their address (Service)")
    if copies.most > 1:
        yield manifest("disruption", disruption(copies), "one copy at a time leaves a node (PodDisruptionBudget)")
    if copies.scaling is not None:
        yield from autoscaler_files(copies, copies.scaling, metadata(copies))


def manifest(name: str, content: object, what: str) -> Written:
    """A file of manifests."""
    return Written(f"{FOLDER}/{name}.yaml", yaml_document(content), what)


def labels(copies: ServingCopies) -> dict[str, str]:
    """What all objects of the copies carry."""
    return {NAME: copies.name, PART_OF: PART_OF_GPUFLEET}


def metadata(copies: ServingCopies, name: str | None = None) -> dict[str, Any]:
    """Name and labels of an object."""
    return {"name": name or copies.name, "labels": labels(copies)}


def deployment(copies: ServingCopies) -> dict[str, Any]:
    """Copies that are replaced one by one in place: there is no GPU for one more beside them.

    How many there are is left to what scales them, where anything does.
    """
    number = {"replicas": copies.replicas} if scaler_of(copies) is None else {}
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(copies),
        "spec": {
            **number,
            "progressDeadlineSeconds": copies.start_s + LEAVING_S + copies.grace_s + STOPPING_S,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "selector": {"matchLabels": {NAME: copies.name}},
            "template": {"metadata": {"labels": labels(copies)}, "spec": pod(copies)},
        },
    }


def pod(copies: ServingCopies) -> dict[str, Any]:
    """One copy on a node of its machine type; without the variables that services of the namespace would set."""
    return {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": LEAVING_S + copies.grace_s + STOPPING_S,
        "nodeSelector": dict(copies.node_labels),
        "tolerations": [{"key": copies.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container(copies)],
        "volumes": list(volumes(copies)),
    }


def container(copies: ServingCopies) -> dict[str, Any]:
    """The engine, told what the plan assumes; it is left out of the service before it is told to stop."""
    path = {"path": copies.reached.ready, "port": PORT_NAME}
    token = {"name": copies.secret, "key": "token", "optional": True}
    probe = {"httpGet": path, "periodSeconds": PROBE_S, "timeoutSeconds": 5}
    return {
        "name": "engine",
        "image": copies.image,
        "command": without_variables(copies.arguments),
        "env": [
            {"name": "HF_HOME", "value": HF_HOME},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": copies.reached.port}],
        "resources": resources(copies),
        "startupProbe": {**probe, "failureThreshold": math.ceil(copies.start_s / PROBE_S)},
        "readinessProbe": {**probe, "failureThreshold": 3},
        "livenessProbe": {**probe, "periodSeconds": 3 * PROBE_S, "failureThreshold": 5},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(LEAVING_S)]}}},
        "volumeMounts": list(mounts(copies)),
    }


def resources(copies: ServingCopies) -> dict[str, Any]:
    """What a copy asks for: GPUs whole, memory with /dev/shm in it, cores and disk where they are known."""
    gpus = {copies.gpu_resource: copies.gpus}
    disk = {"ephemeral-storage": f"{copies.disk_gib}Gi"}
    memory = {} if copies.memory_gib is None else {"memory": f"{copies.memory_gib}Gi"}
    cores = {} if copies.cpus is None else {"cpu": f"{copies.cpus:g}"}
    return {"requests": {**cores, **memory, **disk, **gpus}, "limits": {**memory, **disk, **gpus}}


def volumes(copies: ServingCopies) -> Iterator[dict[str, Any]]:
    """Weights, of each copy or of all, /dev/shm where several GPUs need one, and the options of the engine."""
    if copies.claim is None:
        yield {"name": "models", "emptyDir": {"sizeLimit": f"{copies.disk_gib}Gi"}}
    else:
        yield {"name": "models", "persistentVolumeClaim": {"claimName": copies.claim}}
    if copies.shared_gib:
        yield {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{copies.shared_gib:g}Gi"}}
    if copies.options is not None:
        yield {"name": "options", "configMap": {"name": options_name(copies)}}


def mounts(copies: ServingCopies) -> Iterator[dict[str, Any]]:
    """Where they are found."""
    yield {"name": "models", "mountPath": HF_HOME}
    if copies.shared_gib:
        yield {"name": "shared-memory", "mountPath": "/dev/shm"}
    if copies.options_file is not None:
        path = f"/options/{copies.options_file}"
        yield {"name": "options", "mountPath": path, "subPath": copies.options_file}


def options_name(copies: ServingCopies) -> str:
    """The map that holds the options file."""
    return f"{copies.name}-options"


def options(copies: ServingCopies) -> dict[str, Any]:
    """The file that the engine's command reads."""
    assert copies.options_file is not None, "options have a file"
    data = {copies.options_file: copies.options}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(copies, options_name(copies)), "data": data}


def service(copies: ServingCopies) -> dict[str, Any]:
    """One address for all copies, inside the cluster alone; a router in front finds each by the name."""
    port = {"name": PORT_NAME, "port": 80, "targetPort": PORT_NAME}
    spec = {"type": "ClusterIP", "selector": {NAME: copies.name}, "ports": [port]}
    if copies.routing is not None:
        spec["clusterIP"] = "None"
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(copies), "spec": spec}


def disruption(copies: ServingCopies) -> dict[str, Any]:
    """Nodes are emptied of one copy at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {NAME: copies.name}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(copies), "spec": spec}


def kubernetes_steps(copies: Copies) -> list[Step]:
    """Commands in their order."""
    steps = [
        *quotas(copies),
        *copies_steps(copies),
    ]
    return list(dict.fromkeys(steps))


def copies_steps(copies: Copies) -> list[Step]:
    """Commands once there are machines."""
    steps = [
        *(step for pool in by_pool(copies) for step in node_steps(pool)),
        Step(f"kubectl create namespace {NAMESPACE}", "a namespace of their own"),
        Step(
            f"kubectl -n {NAMESPACE} create secret generic {copies[0].secret} --from-literal=token=$HF_TOKEN",
            "for models behind a licence alone: your token of the hub",
        ),
        Step(f"kubectl -n {NAMESPACE} apply -R -f manifests", "starts them"),
        *(rollout(one) for one in copies),
        *(step for one in copies for step in scaler_steps(one)),
        *(way_in(name, port) for port, name in enumerate(addresses(copies), 8080)),
        Step("curl localhost:8080/v1/models", "names the model, from another terminal"),
        Step(f"kubectl delete namespace {NAMESPACE}", "takes all down; the machines cost on until you give them back"),
    ]
    return list(dict.fromkeys(steps))


def node_steps(pool: Sequence[ServingCopies]) -> Iterator[Step]:
    """What shows that there are nodes for the copies, after their label is put on where no cloud does."""
    first = pool[0]
    [(key, value)] = first.node_labels.items()
    if key == OWN_LABEL:
        marks = f"marks a node of that machine type; {machines_words(first)} in all"
        yield Step(f"kubectl label node NODE {key}={value}", marks)
    gpus = first.gpu_resource.replace(".", r"\.")
    columns = f"NODE:.metadata.name,GPUS:.status.allocatable.{gpus}"
    each = sum(one.gpus * one.per_machine for one in pool)
    needed = f"nodes of that type; needed: {machines_words(first)}, with {each} under GPUS (<none>: no device plugin)"
    yield Step(f"kubectl get nodes -l {key}={value} -o custom-columns='{columns}'", needed)


def addresses(copies: Copies) -> list[str]:
    """The services that clients ask: of a router, where there is one, else of the copies."""
    return [*router_names(copies).values(), *(one.name for one in copies if one.routing is None)]


def way_in(name: str, port: int) -> Step:
    """What brings a service to this machine."""
    forward = f"kubectl -n {NAMESPACE} port-forward service/{name} {port}:80"
    return Step(forward, f"a way in to {name}, from this machine alone")


def machines_words(copies: ServingCopies) -> str:
    """How many machines there have to be."""
    if copies.least_machines == copies.most_machines:
        return str(copies.least_machines)
    return f"{copies.least_machines} to {copies.most_machines}, which a node autoscaler adds"


def rollout(copies: ServingCopies) -> Step:
    """The command that waits for copies."""
    waits = f"waits until {copies.name} answers, for {copies.start_s / MINUTE:.0f} minutes at most"
    return Step(f"kubectl -n {NAMESPACE} rollout status deployment/{copies.name} --timeout={copies.start_s}s", waits)


def kubernetes_files(copies: Copies) -> list[Written]:
    """Manifests of all groups, and of the routers in front of them."""
    return [*in_folders(copies, manifests), *routers(copies)]


TARGET = Target("kubernetes", "Kubernetes", kubernetes_files, kubernetes_steps, in_cluster=True)
