"""Who is told of which alert, for Alertmanager: prometheus.io/docs/alerting/latest/configuration.

Secrets are files that the configuration names (`*_file`); none is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpufleet.languages import shell_command, yaml_document
from gpufleet.monitor.rules import CRITICAL, INFO, WARNING, RuleGroup
from gpufleet.monitor.target import Target, file, step
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.results.deployed import DeployedFile, DeployedStep

FILE, SECRETS = "alertmanager.yml", "/etc/alertmanager/secrets"
ON_CALL, TEAM, COSTS, NOBODY = "on-call", "team", "costs", "nobody"
RECEIVERS = {CRITICAL: ON_CALL, WARNING: TEAM, INFO: COSTS}
KEY_FILE, URL_FILE = f"{SECRETS}/pagerduty-key", f"{SECRETS}/slack-url"
AGAIN = {CRITICAL: "1h", WARNING: "12h", INFO: "24h"}
"""How soon somebody is told again of what is still so; judgements."""
TITLE = "{{ .CommonLabels.alertname }} of {{ .CommonLabels.deployment }}"
TEXT = "{{ range .Alerts }}{{ .Annotations.summary }}\n{{ .Annotations.action }}\n{{ .Annotations.command }}\n{{ end }}"


def alertmanager_files(plan: WatchedPlan, groups: Sequence[RuleGroup]) -> list[DeployedFile]:
    """One configuration, whatever is watched."""
    return [file(FILE, yaml_document(configuration()), "who is told, by severity")]


def configuration() -> dict[str, Any]:
    """Routes by severity, and what silences what."""
    return {
        "route": {
            "receiver": NOBODY,
            "group_by": ["namespace", "deployment", "about"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
            "routes": [
                {
                    "matchers": [f'severity="{severity}"', 'deployment!=""'],
                    "receiver": name,
                    "repeat_interval": AGAIN[severity],
                }
                for severity, name in RECEIVERS.items()
            ],
        },
        "inhibit_rules": list(inhibitions()),
        "receivers": [on_call(), slack(TEAM, "#gpufleet"), slack(COSTS, "#gpufleet-costs"), {"name": NOBODY}],
    }


def inhibitions() -> list[dict[str, Any]]:
    """Copies that are down explain slow answers and a queue; what is critical explains its own warnings."""
    same = ["namespace", "deployment"]
    return [
        {
            "source_matchers": ['alertname="TooFewCopies"'],
            "target_matchers": ['about=~"latency|queue|throughput"'],
            "equal": same,
        },
        {
            "source_matchers": [f'severity="{CRITICAL}"'],
            "target_matchers": [f'severity="{WARNING}"'],
            "equal": [*same, "about"],
        },
    ]


def on_call() -> dict[str, Any]:
    """Somebody is called; the key is a file."""
    return {"name": ON_CALL, "pagerduty_configs": [{"routing_key_file": KEY_FILE, "description": TITLE}]}


def slack(name: str, channel: str) -> dict[str, Any]:
    """A channel; its address is a secret, so a file."""
    how = {"api_url_file": URL_FILE, "channel": channel, "send_resolved": True, "title": TITLE, "text": TEXT}
    return {"name": name, "slack_configs": [how]}


def alertmanager_steps(plan: WatchedPlan) -> list[DeployedStep]:
    """Commands in their order."""
    which = [f"deployment={plan.copies[0].name}", f"namespace={plan.copies[0].namespace}"]
    routed = ["amtool", "config", "routes", "test", f"--config.file={FILE}", f"--verify.receivers={ON_CALL}"]
    secret = ["kubectl", "-n", "monitoring", "create", "secret", "generic", "alertmanager-secrets"]
    files = ["--from-file=pagerduty-key", "--from-file=slack-url"]
    return [
        step(shell_command(["amtool", "check-config", FILE]), "the configuration can be read"),
        step(shell_command([*routed, f"severity={CRITICAL}", *which]), "what is critical calls somebody"),
        step(shell_command([*secret, *files]), f"your keys, mounted at {SECRETS}; no file here holds any"),
        step(
            "alertmanager --config.file=alertmanager.yml",
            "or give it to the one that you run; channels are yours to name",
        ),
    ]


TARGET = Target("alertmanager", "Alertmanager", alertmanager_files, alertmanager_steps)
