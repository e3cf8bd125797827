"""Copies that come and go: rules that follow a law of scaling are silent on its day, and tell what breaks it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.catalog.price_server import ask_this_machine_alone
from tests.contracts.alert_checks import (
    alerts_in,
    faults_of,
    recorded_in,
    rules_in,
    told_by,
    unknown_metrics,
    written_to,
    yaml_of,
    yaml_text,
)
from tests.contracts.fake_prometheus import AS_PLANNED, FakeServer, serving
from tests.contracts.test_alerts_of_a_day import text_of
from tests.contracts.test_scaled_files import LAWS, answer, curve, plan, scaler
from tests.effort import cases

import gpufleet
from gpufleet import AlertFiles
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.cli import main
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.units import MINUTE

NAME, POD, MINUTES = "llama-3-1-8b", "llama-3-1-8b-7c9f8d6b5-abcde", 24 * 60
OWN, IN_CLUSTER = f'namespace="serving",deployment="{NAME}",pod="{POD}"', f'namespace="serving",deployment="{NAME}"'
AVAILABLE, WANTED = (
    f"kube_deployment_{name}{{{IN_CLUSTER}}}" for name in ("status_replicas_available", "spec_replicas")
)
STEADY = ("keda-rate", "cron-windows", "hpa-rate", "keda-cron-rate")
"""Laws that hold what they need on the curve of the test; those on queues and KV use swing there, as documented."""
SHOWN = ("keda-queue", "hpa", *(law for law in LAWS if law not in ("keda-queue", "hpa")))
FIRST_S, TOKEN_S, IN_FLIGHT_S = 0.2, 0.02, 6.0
Day = dict[str, Sequence[float]]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked, and no proxy."""
    ask_this_machine_alone(monkeypatch)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@lru_cache
def files(law: str, **said: Any) -> AlertFiles:
    return gpufleet.watch_plan(answer(law), **said)


def engine_version() -> str:
    return metrics_of("vllm").version


def minutes_of(result: AutoscaleResult) -> tuple[np.ndarray, np.ndarray]:
    """Copies that are paid and that serve in each minute of the first day, as the answer says them."""
    rows, copies = result.recommendation.machines, result.machine.copies
    starts = [row.t_s - rows[0].t_s for row in rows]
    at = np.searchsorted(starts, np.arange(MINUTES + 1) * MINUTE, side="right") - 1
    paid, ready = (np.array([getattr(row, name) for row in rows])[at] * copies for name in ("machines", "ready"))
    return paid.astype(float), ready.astype(float)


def day_of(law: str) -> Day:
    """The series of a day that the law plays: copies by its answer, an engine that keeps its limits."""
    result = answer(law)
    paid, ready = minutes_of(result)
    rates = curve(2)
    per_s = np.interp(np.arange(MINUTES + 1) * MINUTE, np.arange(len(rates)) * rates.bin_s, rates.rate_per_s)
    machine, per_copy = result.machine, result.machine.requests_per_s_planned / result.machine.copies
    busy = np.minimum(per_s / per_copy / np.maximum(ready, 1), 1.0)
    running = busy * machine.requests_planned / machine.copies * ready
    done = np.concatenate([[0.0], np.cumsum(per_s[:-1] * MINUTE)])
    found: Day = {
        AVAILABLE: ready,
        WANTED: paid,
        f'vllm:request_success_total{{{OWN},finished_reason="stop"}}': done,
        f"vllm:generation_tokens_total{{{OWN}}}": done * 200,
        f"vllm:num_requests_waiting{{{OWN}}}": np.where(busy < 1.0, 0.0, 1.0),
        f"vllm:num_requests_running{{{OWN}}}": running,
        f"vllm:kv_cache_usage_perc{{{OWN}}}": 0.5 * busy,
        f"vllm:num_preemptions_total{{{OWN}}}": done * 0,
    }
    for metric, seconds in (
        ("vllm:time_to_first_token_seconds", FIRST_S),
        ("vllm:request_time_per_output_token_seconds", TOKEN_S),
        ("vllm:e2e_request_latency_seconds", IN_FLIGHT_S),
    ):
        for bound in (*metrics_of("vllm").by_name[metric].buckets, float("inf")):
            le = "+Inf" if bound == float("inf") else str(bound)
            found[f'{metric}_bucket{{{OWN},le="{le}"}}'] = done if seconds <= bound else done * 0
        found[f"{metric}_count{{{OWN}}}"] = done
    return found


def alerts_of(series: Mapping[str, Sequence[float]], found: AlertFiles, at: Path) -> set[str]:
    """Alerts that fired at any time of a day, but for those on GPUs and on metrics that this day does not have."""
    content = yaml_of(found, "rules.yml")
    content["groups"] = [group for group in content["groups"] if not group["name"].endswith("-gpus")]
    (at / "rules.yml").write_text(yaml_text(content), encoding="utf-8")
    query = f"group by (alertname) (count_over_time(ALERTS{{alertstate='firing',about!='absence'}}[{MINUTES}m]))"
    inputs = [{"series": name, "values": " ".join(map(text_of, values))} for name, values in series.items()]
    check = {"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": [{"labels": '{nothing="fires"}', "value": 1}]}
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": [check]}
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (at / "day.yml").write_text(yaml_text(tests), encoding="utf-8")
    said = told_by("promtool", "test", "rules", "day.yml", at=at)
    assert "got:" in said, said
    return {part.split('"')[0] for part in said.split("got:")[1].split('alertname="')[1:]}


@pytest.mark.slow
@pytest.mark.parametrize("law", SHOWN[: cases(3, len(SHOWN))])
def test_rules_of_a_law_can_be_read_and_each_fires_as_it_has_to(law: str, tmp_path: Path) -> None:
    found = files(law)
    rules = yaml_of(found, "rules.yml")
    written_to(tmp_path, found.files)
    assert not told_by("promtool", "check", "rules", "rules.yml", at=tmp_path)
    assert not told_by("promtool", "test", "rules", "rules_test.yml", at=tmp_path)
    names = [file.name for file in found.files]
    assert not unknown_metrics(
        [r["expr"] for r in rules_in(rules)], {"vllm": engine_version()}, names, recorded_in(rules)
    )
    assert not faults_of(rules)


@pytest.mark.slow
@pytest.mark.parametrize("law", STEADY[: cases(2, len(STEADY))])
def test_nobody_is_told_on_a_day_on_which_copies_come_and_go_by_their_law(law: str, tmp_path: Path) -> None:
    series = day_of(law)
    assert max(series[WANTED]) > 2 * min(series[WANTED])
    assert alerts_of(series, files(law), tmp_path) == set()


@pytest.mark.slow
def test_a_law_that_swings_between_its_bounds_is_told_of_its_most_alone(tmp_path: Path) -> None:
    assert alerts_of(day_of("keda-queue"), files("keda-queue"), tmp_path) == {"CopiesAtTheMost"}


@pytest.mark.slow
def test_rules_of_the_plan_alone_are_not_silent_on_that_day(tmp_path: Path) -> None:
    fixed = gpufleet.watch_plan(plan())
    assert {"TooFewCopies", "PaidButIdle"} & alerts_of(day_of("keda-rate"), fixed, tmp_path)


def changed(law: str, name: str, how: Callable[[np.ndarray], np.ndarray]) -> Day:
    """The day with other values of one series from noon to two hours later."""
    series = day_of(law)
    [key] = [each for each in series if each.startswith(name)]
    values = np.array(series[key], dtype=float)
    noon = slice(12 * 60, 14 * 60)
    values[noon] = how(values[noon])
    return {**series, key: values}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "name", "how", "told"),
    [
        ("keda-rate", "kube_deployment_spec", lambda v: v * 0 + files_most("keda-rate"), "CopiesAtTheMost"),
        ("keda-rate", "kube_deployment_spec", lambda v: v * 0 + files_most("keda-rate") + 5, "CopiesOutsideTheLaw"),
        ("keda-rate", "kube_deployment_status", lambda v: v - 2, "CopyMissing"),
        ("keda-rate", "kube_deployment_status", lambda v: v * 0, "TooFewCopies"),
        ("keda-queue", "vllm:num_requests_waiting", lambda v: v * 0 + 5000, "QueueAboveTarget"),
        ("keda-kv", "vllm:kv_cache_usage_perc", lambda v: v * 0 + 99, "KvAboveTarget"),
        ("hpa", "vllm:num_requests_running", lambda v: v * 0 + 9e4, "InFlightAboveTarget"),
        ("cron-windows", "vllm:num_requests_waiting", lambda v: v * 0 + 5000, "RequestsWait"),
    ],
)
def test_what_breaks_a_law_is_told_by_its_name(
    law: str, name: str, how: Callable[[np.ndarray], np.ndarray], told: str, tmp_path: Path
) -> None:
    found = alerts_of(changed("keda-rate", name, how), files(law), tmp_path)
    assert told in found


def files_most(law: str) -> int:
    result = answer(law)
    return result.most_machines * result.machine.copies


@pytest.mark.parametrize("law", ["keda-rate", "hpa"])
def test_bounds_are_those_that_the_controller_is_told(law: str) -> None:
    manifest = scaler(gpufleet.deploy_plan(answer(law), image="registry.example/engine:1"))
    spec = manifest["spec"]
    least, most = (spec.get(f"{word}ReplicaCount", spec.get(f"{word}Replicas")) for word in ("min", "max"))
    [at_most] = [alert for alert in alerts_in(yaml_of(files(law), "rules.yml")) if alert["alert"] == "CopiesAtTheMost"]
    [too_few] = [alert for alert in alerts_in(yaml_of(files(law), "rules.yml")) if alert["alert"] == "TooFewCopies"]
    assert at_most["expr"].endswith(f">= {most}")
    assert at_most["for"] == "15m"
    assert too_few["expr"].endswith(f"< {least}")
    name, kind = manifest["metadata"]["name"], "scaledobject" if manifest["kind"] == "ScaledObject" else "hpa"
    command = at_most["annotations"]["command"]
    assert f"patch {kind}/{name}" in command
    patch = json.loads(command.partition(" -p ")[2].strip("'"))["spec"]
    [(field, value)] = patch.items()
    assert field in spec
    assert value > most


def test_a_runaway_is_more_than_the_most_of_the_law_and_a_stop_holds_its_controller() -> None:
    result = answer("keda-rate")
    found = files("keda-rate", budget="900/day", act=True)
    [alert] = [each for each in alerts_in(yaml_of(found, "rules.yml")) if each["alert"] == "MachineRunaway"]
    assert alert["expr"].endswith(f"> {result.most_machines}")
    act = {file.name: file.text for file in found.files if file.name.startswith("act/")}
    assert "paused-replicas=0" in act["act/stop.sh"]
    [quota] = [each for each in yaml.safe_load_all(act["act/limit.yaml"]) if each["kind"] == "ResourceQuota"]
    gpus = plan().answer.gpus_per_replica * files_most("keda-rate")
    assert list(quota["spec"]["hard"].values()) == [str(gpus)]
    roles = [each for each in yaml.safe_load_all(act["act/role.yaml"]) if each["kind"] == "Role"]
    assert any("scaledobjects" in rule["resources"] for role in roles for rule in role["rules"])
    mean = result.recommended.mean_machines * plan().answer.price_per_instance_usd_per_hour
    assert found.usd_per_hour == pytest.approx(mean)


def test_a_file_of_autoscale_is_read_by_both_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("law.json").write_text(answer("keda-rate").to_json(), encoding="utf-8")
    assert main(["alerts", "law.json", "--out", "watching"]) == 0
    kept = Path("watching/gpufleet.json").read_text(encoding="utf-8")
    assert json.loads(kept)["recommendation"]["policy"] == "keda-rate"
    assert main(["alerts", "watching/gpufleet.json", "--diff", "watching"]) == 0
    assert main(["watch", "law.json", "--prometheus", "http://127.0.0.1:1"]) == 5
    for target in ("alertmanager", "grafana"):
        assert main(["alerts", "law.json", "--to", target]) == 0


@pytest.mark.parametrize(
    ("copies", "state"), [(0.0, "broken"), (1.0, "as planned"), (20.0, "as planned"), (23.0, "above plan")]
)
def test_watch_holds_copies_to_the_bounds_of_the_law(copies: float, state: str) -> None:
    [targets] = [pattern for pattern in AS_PLANNED if r"deployment\) \(up" in pattern]
    with serving(FakeServer({**AS_PLANNED, targets: copies})) as server:
        found = gpufleet.watch_now(answer("keda-rate"), prometheus=server.url)
    [figure] = [each for each in found.figures if each.name == "copies"]
    assert (figure.state, figure.planned, figure.high) == (state, None, float(files_most("keda-rate")))
    assert found.spend is not None
    assert [machines.most for machines in found.spend.machines] == [answer("keda-rate").most_machines]


def replaced(name: str, old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def fault(content: dict[str, Any]) -> None:
        rule = next(rule for rule in rules_in(content) if rule.get("alert") == name)
        assert old in rule["expr"], (old, rule["expr"])
        rule["expr"] = rule["expr"].replace(old, new)

    return fault


FAULTS = {
    "the most taken for the fewest": replaced("TooFewCopies", "< ", "< 1"),
    "copies that are there taken for those wanted": replaced(
        "CopiesAtTheMost", "spec_replicas", "status_replicas_available"
    ),
    "a rise that has no time": replaced("CopyMissing", "min_over_time", "max_over_time"),
    "a target of all copies for that of one": replaced("QueueAboveTarget", "*", "+"),
    "above the most is not seen": replaced("CopiesOutsideTheLaw", " or ", " and "),
    "idle at the fewest": replaced("PaidButIdle", "<", ">"),
    "a target that is not the law's": replaced("QueueAboveTarget", " 5.5 ", " 55 "),
    "another deployment": replaced(
        "QueueAboveTarget", 'spec_replicas{namespace="serving",deployment="', 'spec_replicas{deployment="x'
    ),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_planted_faults_are_found(fault: str | None, tmp_path: Path) -> None:
    """By the unit tests of the alerts on scaling; without a fault these say nothing."""
    content = copy.deepcopy(yaml_of(files("keda-queue"), "rules.yml"))
    content["groups"] = [g for g in content["groups"] if g["name"].endswith(("-scaling", "-serving"))]
    own = [
        alert["alert"]
        for g in content["groups"]
        if g["name"].endswith("-scaling")
        for alert in alerts_in({"groups": [g]})
    ]
    tests = yaml_of(files("keda-queue"), "rules_test.yml")
    for test in tests["tests"]:
        checks = [c for c in test["promql_expr_test"] if any(f'"{name}"' in c["expr"] for name in own)]
        test["promql_expr_test"] = [c for c in checks if "MetricAbsent" not in c["expr"]]
    tests["tests"] = [test for test in tests["tests"] if test["promql_expr_test"]]
    if fault is not None:
        FAULTS[fault](content)
    (tmp_path / "rules.yml").write_text(yaml_text(content), encoding="utf-8")
    (tmp_path / "rules_test.yml").write_text(yaml_text(tests), encoding="utf-8")
    assert bool(told_by("promtool", "test", "rules", "rules_test.yml", at=tmp_path)) is (fault is not None)
