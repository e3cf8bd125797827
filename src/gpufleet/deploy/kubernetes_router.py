"""A router in Kubernetes: two of them with the configuration of `router.py`, which finds the copies by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from gpufleet.deploy.router import (
    CONFIG_FILE,
    HEALTH,
    ROUTER_IMAGE,
    ROUTER_PORT,
    Backend,
    Router,
    haproxy,
    pools_of,
    routed,
)
from gpufleet.deploy.serving_copies import LEAVING_S, ServingCopies
from gpufleet.deploy.target import Copies, Written
from gpufleet.languages import MOST_OF_A_LABEL, distinct_names, service_name, unlike, yaml_documents

NAMESPACE, CLUSTER_DOMAIN = "serving", "svc.cluster.local"
NAME, PART_OF, PART_OF_GPUFLEET = "app.kubernetes.io/name", "app.kubernetes.io/part-of", "gpufleet"
CONFIG_FOLDER, PORT_NAME = "/usr/local/etc/haproxy", "http"
NUM_ROUTERS, ROUTER_CORES, ROUTER_MEMORY = 2, "500m", "256Mi"
"""A judgement: HAProxy deals out thousands of requests a second with that; two, so that one may go."""
DIGEST = "gpufleet/config"


def routers(copies: Copies) -> Iterator[Written]:
    """A file for the router of each service that has one."""
    names = router_names(copies)
    for service, groups in routed(copies).items():
        name = names[service]
        router = Router(name, groups[0].routing or "", pools_of(groups, backend), max(g.grace_s for g in groups))
        file = f"manifests/{name}.yaml"
        yield Written(file, yaml_documents(router_objects(router)), f"the router of {service} (HAProxy)")


def router_names(copies: Copies) -> dict[str, str]:
    """By service: its router, as short as a label has to be, and called as no copies are."""
    names = distinct_names(routed(copies), service_name, MOST_OF_A_LABEL)
    groups = [one.name for one in copies]
    return {service: unlike(f"{name}-front", groups) for service, name in names.items()}


def backend(group: ServingCopies) -> list[Backend]:
    """The copies of a group, as one name stands for their addresses."""
    host = f"{group.name}.{NAMESPACE}.{CLUSTER_DOMAIN}"
    return [
        Backend(
            name=group.name,
            host=host,
            port=group.reached.port,
            copies=group.most,
            requests_per_s=group.requests_per_s,
            most_requests=group.most_requests,
            share_ratio=1.0,
            is_named=True,
            ready=group.reached.ready,
        )
    ]


def router_objects(router: Router) -> list[dict[str, Any]]:
    """Its configuration, its copies, and one address for the model."""
    labels = {NAME: router.name, PART_OF: PART_OF_GPUFLEET}
    metadata = {"name": router.name, "labels": labels}
    text = haproxy(router)
    port = {"name": PORT_NAME, "port": 80, "targetPort": PORT_NAME}
    service = {"type": "ClusterIP", "selector": {NAME: router.name}, "ports": [port]}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_FILE: text}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment(router, labels, text)},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
    ]


def deployment(router: Router, labels: dict[str, str], text: str) -> dict[str, Any]:
    """Two routers, started again where the configuration changes."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {NAME: router.name}},
    }
    pod = {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": LEAVING_S + router.longest_s,
        "topologySpreadConstraints": [spread],
        "containers": [container()],
        "volumes": [{"name": "config", "configMap": {"name": router.name}}],
    }
    template = {"metadata": {"labels": labels, "annotations": {DIGEST: digest(text)}}, "spec": pod}
    return {"replicas": NUM_ROUTERS, "selector": {"matchLabels": {NAME: router.name}}, "template": template}


def digest(text: str) -> str:
    """What differs where the configuration does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def container() -> dict[str, Any]:
    """HAProxy; it ends once its last answer is out (SIGUSR1)."""
    room = {"cpu": ROUTER_CORES, "memory": ROUTER_MEMORY}
    return {
        "name": "router",
        "image": ROUTER_IMAGE,
        "ports": [{"name": PORT_NAME, "containerPort": ROUTER_PORT}],
        "resources": {"requests": room, "limits": {"memory": ROUTER_MEMORY}},
        "readinessProbe": {"httpGet": {"path": HEALTH, "port": PORT_NAME}, "periodSeconds": 5},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(LEAVING_S)]}}},
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_FOLDER}],
    }
