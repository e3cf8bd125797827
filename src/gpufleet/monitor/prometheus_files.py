"""Rules, their unit tests and what is scraped, for Prometheus alone and for its operator.

Fields: prometheus.io/docs/prometheus/latest/configuration; PrometheusRule and PodMonitor of monitoring.coreos.com/v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpufleet.languages import shell_command, yaml_document
from gpufleet.monitor.rule_files import rules_document, rules_text, tests_document
from gpufleet.monitor.rules import RuleGroup
from gpufleet.monitor.target import Target, file, step
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.results.deployed import DeployedFile, DeployedStep

RULES, TESTS, SCRAPE, COUNTERS = "rules.yml", "rules_test.yml", "prometheus.yml", "dcgm-counters.csv"
OPERATOR = "operator"
NAME_LABEL, PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
POD_NAME = f"__meta_kubernetes_pod_label_{NAME_LABEL.replace('.', '_').replace('/', '_')}"
PORT_NAME, INTERVAL, GPU_PORT, CLUSTER_PORT = "http", "30s", 9400, 8080
GPU_WHATS = (
    *("temperature", "power", "gpu_use", "memory_used", "memory_free", "memory_reserved", "energy", "xid_error"),
    *("double_bit_errors", "thermal_throttle", "power_throttle", "row_remap_failure", "remapped_rows"),
)
"""What the file of counters turns on: the exporter shows nothing else where it is given one."""


def prometheus_files(plan: WatchedPlan, groups: Sequence[RuleGroup]) -> list[DeployedFile]:
    """Everything that Prometheus reads."""
    files = [
        file(RULES, rules_text(groups), "recording rules and alerts"),
        file(TESTS, yaml_document(tests_document(groups, RULES)), "unit tests of each alert, for promtool"),
        file(SCRAPE, yaml_document(configuration(plan)), "what is scraped, with these rules"),
        file(f"{OPERATOR}/rules.yaml", yaml_document(prometheus_rule(plan, groups)), "the rules (PrometheusRule)"),
        file(f"{OPERATOR}/pods.yaml", yaml_document(pod_monitors(plan)), "the engines' metrics (PodMonitor)"),
    ]
    counters = counters_file(plan)
    return files if counters is None else [*files, counters]


def counters_file(plan: WatchedPlan) -> DeployedFile | None:
    """What dcgm-exporter shows: its own file leaves memory errors and throttling out."""
    known = plan.gpu_metrics
    if known is None or all(copies.vendor != "nvidia" for copies in plan.copies):
        return None
    found = [metric for what in GPU_WHATS if (metric := known.of(what)) is not None]
    lines = [f"{metric.name}, {metric.kind}, {metric.what.replace('_', ' ')}" for metric in found]
    return file(COUNTERS, "\n".join([*lines, ""]), "what dcgm-exporter has to show")


def configuration(plan: WatchedPlan) -> dict[str, Any]:
    """A configuration of Prometheus: the engines, the GPUs of their pods and the state of their deployments."""
    return {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [RULES],
        "scrape_configs": [*(engine_job(copies) for copies in plan.copies), gpu_job(), cluster_job()],
    }


def engine_job(copies: WatchedCopies) -> dict[str, Any]:
    """Pods of one deployment, by their name label; what they show gets the labels that the rules ask for."""
    return {
        "job_name": copies.name,
        "metrics_path": copies.metrics_path,
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [copies.namespace]}}],
        "relabel_configs": [
            {"source_labels": [POD_NAME], "regex": copies.name, "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": PORT_NAME, "action": "keep"},
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
            {"source_labels": [POD_NAME], "target_label": "deployment"},
        ],
    }


def gpu_job() -> dict[str, Any]:
    """dcgm-exporter on each node; the pods that it names are those that use the GPUs, so its labels stay."""
    return by_pods("dcgm-exporter", GPU_PORT)


def cluster_job() -> dict[str, Any]:
    """kube-state-metrics, which names deployments and pods itself."""
    return by_pods("kube-state-metrics", CLUSTER_PORT)


def by_pods(name: str, port: int) -> dict[str, Any]:
    """An exporter of the cluster, by the label and the port that its own chart gives it."""
    return {
        "job_name": name,
        "honor_labels": True,
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [
            {"source_labels": [POD_NAME], "regex": name, "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_container_port_number"], "regex": str(port), "action": "keep"},
        ],
    }


def metadata(plan: WatchedPlan, name: str) -> dict[str, Any]:
    """Name, namespace and labels of an object of the operator."""
    return {"name": name, "namespace": plan.copies[0].namespace, "labels": {PART_OF: "gpufleet"}}


def prometheus_rule(plan: WatchedPlan, groups: Sequence[RuleGroup]) -> dict[str, Any]:
    """The rules for the operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata(plan, plan.copies[0].name),
        "spec": rules_document(groups),
    }


def pod_monitors(plan: WatchedPlan) -> dict[str, Any]:
    """A list of what the operator scrapes of each deployment."""
    return {"apiVersion": "v1", "kind": "List", "items": [pod_monitor(plan, copies) for copies in plan.copies]}


def pod_monitor(plan: WatchedPlan, copies: WatchedCopies) -> dict[str, Any]:
    """The pods of one deployment, whose series get its name."""
    endpoint = {
        "port": PORT_NAME,
        "path": copies.metrics_path,
        "interval": INTERVAL,
        "relabelings": [{"action": "replace", "targetLabel": "deployment", "replacement": copies.name}],
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata(plan, copies.name),
        "spec": {"selector": {"matchLabels": {NAME_LABEL: copies.name}}, "podMetricsEndpoints": [endpoint]},
    }


def prometheus_steps(plan: WatchedPlan) -> list[DeployedStep]:
    """Commands in their order."""
    namespace = plan.copies[0].namespace
    map_of = f"--from-file=dcgm-metrics.csv={COUNTERS}"
    counters = [
        step(
            shell_command(["kubectl", "-n", "gpu-operator", "create", "configmap", "dcgm-counters", map_of]),
            "what GPUs show; name it in dcgmExporter.config.name of the GPU operator",
        )
    ]
    return [
        step(shell_command(["promtool", "check", "rules", RULES]), "the rules can be read"),
        step(shell_command(["promtool", "test", "rules", TESTS]), "each alert fires when it has to, and not else"),
        *(counters if counters_file(plan) is not None else []),
        step(
            shell_command(["kubectl", "-n", namespace, "apply", "-f", OPERATOR]),
            "where its operator runs; else rules.yml and the jobs of prometheus.yml",
        ),
        step(shell_command(["kubectl", "-n", namespace, "get", "prometheusrules,podmonitors"]), "shows both"),
        step(shell_command(["kubectl", "-n", namespace, "delete", "-f", OPERATOR]), "takes them away"),
    ]


TARGET = Target("prometheus", "Prometheus", prometheus_files, prometheus_steps)
