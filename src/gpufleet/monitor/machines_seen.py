"""How many machines of a plan are seen now, in PromQL: the most of what nodes, engines and GPUs say.

A machine costs whether or not its engine answers, so targets are counted, not those that are up. Nodes are told by
their type where kube-state-metrics exports the label `node.kubernetes.io/instance-type` (off by default:
`--metric-labels-allowlist=nodes=[node.kubernetes.io/instance-type]`); else nodes with as many GPUs are counted, which
`kube_node_status_capacity` says by default (kube-state-metrics 2, docs/metrics/cluster/node-metrics.md).
`kube_node_info` does not say the type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from gpufleet.languages import MOST_OF_A_NAME, distinct_names, promql_string
from gpufleet.monitor.promql import of_copies
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.records import dataclass

TYPE_LABEL = "label_node_kubernetes_io_instance_type"
CAPACITY = {"nvidia": "nvidia_com_gpu", "amd": "amd_com_gpu"}
"""Resources of device plugins as kube-state-metrics writes them."""
GPU_SERIES = "DCGM_FI_DEV_GPU_TEMP"
"""One per GPU, on in the default counters of dcgm-exporter."""


SOURCES = ("up", GPU_SERIES, "kube_node_labels", "kube_node_status_capacity")
"""All series that machines are counted by."""


@dataclass(frozen=True, eq=False)
class MachineKind:
    """All machines of one type that a plan rents, and the copies on them; of two prices their mean is meant.

    `label` is the type as a label that needs no quoting anywhere. `shares_gpu`: another type has the same GPU.
    """

    cloud: str
    instance: str
    label: str
    copies: Sequence[WatchedCopies]
    shares_gpu: bool = False

    @property
    def machines(self) -> int:
        """How many the plan rents."""
        return sum(each.machines for each in self.copies)

    @property
    def least_machines(self) -> int:
        """How many it rents at least."""
        return sum(each.machines if each.least_machines is None else each.least_machines for each in self.copies)

    @property
    def most_machines(self) -> int:
        """How many it rents at most."""
        return sum(each.machines if each.most_machines is None else each.most_machines for each in self.copies)

    @property
    def usd_per_hour(self) -> float:
        """What one costs."""
        return sum(each.usd_per_hour * each.machines for each in self.copies) / self.machines


def machine_kinds(plan: WatchedPlan) -> list[MachineKind]:
    """The machines of a plan by their type."""
    by_type: dict[tuple[str, str], list[WatchedCopies]] = {}
    for each in plan.copies:
        by_type.setdefault((each.cloud, each.instance), []).append(each)
    gpus = [copies[0].gpu for copies in by_type.values()]
    labels = distinct_names((f"{cloud} {instance}" for cloud, instance in by_type), machine_label, MOST_OF_A_NAME)
    return [
        MachineKind(cloud, instance, labels[f"{cloud} {instance}"], copies, gpus.count(copies[0].gpu) > 1)
        for (cloud, instance), copies in by_type.items()
    ]


def machine_label(name: str) -> str:
    """A type of machines without its cloud, in characters that need no quoting.

    >>> machine_label("aws g6e.xlarge")
    'g6e.xlarge'
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", name.partition(" ")[2])


def plan_label(plan: WatchedPlan) -> str:
    """The label that tells its rules from those of another: the names of its deployments, which need no quoting."""
    return "-".join(each.name for each in plan.copies)


def labelled(expression: str, labels: Iterable[tuple[str, str]]) -> str:
    """An expression whose series have these labels; `$` in a value would name a group of a pattern.

    >>> labelled("vector(2.5)", [("machine", "a$1")])
    'label_replace(vector(2.5), "machine", "a$$1", "", "")'
    """
    for name, value in labels:
        expression = f'label_replace({expression}, "{name}", {promql_string(value.replace("$", "$$"))}, "", "")'
    return expression


def by_engines(kind: MachineKind) -> str:
    """Machines that the targets of engines need, as full as the plan has them."""
    counted = [
        labelled(f"ceil(count({of_copies('up', each)}) / {per_machine(each)})", [("of", each.name)])
        for each in kind.copies
    ]
    return f"sum({' or '.join(counted)})"


def per_machine(copies: WatchedCopies) -> int:
    """Copies on a machine that is full."""
    return math.ceil(copies.replicas / copies.machines) if copies.law is None else copies.law.per_machine


def by_nodes(kind: MachineKind) -> str:
    """Nodes of the type; where no node tells its type, those with as many GPUs."""
    typed = f"count(kube_node_labels{{{TYPE_LABEL}={promql_string(kind.instance)}}})"
    any_typed = f'count(kube_node_labels{{{TYPE_LABEL}!=""}})'
    none = f"{any_typed} * 0"
    resource = CAPACITY.get(kind.copies[0].vendor)
    if resource is None:
        return f"({typed} or {none})"
    gpus = max(1, round(kind.copies[0].gpus_per_machine))
    alike = f'count(kube_node_status_capacity{{resource="{resource}",unit="integer"}} == {gpus})'
    return f"({typed} or {none} or {alike})"


def by_gpus(kind: MachineKind) -> str | None:
    """GPUs of the model over GPUs per machine; of two types with one GPU, hosts with as many of them."""
    copies = kind.copies[0]
    if copies.vendor != "nvidia":
        return None
    gpus = max(1.0, copies.gpus_per_machine)
    seen = f"count by (Hostname, UUID) ({GPU_SERIES}{{modelName=~{promql_string(gpu_pattern(copies.gpu))}}})"
    if kind.shares_gpu:
        return f"count(count by (Hostname) ({seen}) == {gpus:g})"
    return f"ceil(count({seen}) / {gpus:g})"


def gpu_pattern(gpu: str) -> str:
    """The driver's names of a GPU: its name up to the first number, as whole words.

    >>> bool(re.fullmatch(gpu_pattern("H100-SXM"), "NVIDIA H100 80GB HBM3")), gpu_pattern("RTX-PRO-6000-Server")
    (True, '(.*[^A-Za-z0-9])?RTX[ -]PRO[ -]6000([^A-Za-z0-9].*)?')
    >>> bool(re.fullmatch(gpu_pattern("L4"), "NVIDIA L40S"))
    False
    """
    words = re.findall(r"[A-Za-z0-9]+", gpu)
    last = next((place for place, word in enumerate(words) if any(c.isdigit() for c in word)), len(words) - 1)
    return f"(.*[^A-Za-z0-9])?{'[ -]'.join(words[: last + 1])}([^A-Za-z0-9].*)?"


def seen_by_source(kind: MachineKind) -> dict[str, str]:
    """What counts the machines of a kind, by its name."""
    counted = {"engines": by_engines(kind), "nodes": by_nodes(kind), "gpus": by_gpus(kind)}
    return {name: expression for name, expression in counted.items() if expression is not None}
