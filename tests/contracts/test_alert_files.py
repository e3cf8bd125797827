"""Rules, routes and dashboards of a plan: valid for what reads them, true to the plan, and alerts that fire."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.alert_checks import (
    alerts_in,
    faults_of,
    limits_missing,
    recorded_in,
    rules_in,
    selectors,
    told_by,
    unknown_fields,
    unknown_metrics,
    written_to,
    yaml_of,
    yaml_text,
)
from tests.effort import cases

import gpufleet
from gpufleet import AlertFiles, ServePlan
from gpufleet.cli import main
from gpufleet.errors import GpufleetError

NUM_PLANS = 30
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "gpt-oss-120b")
VERSIONS = (
    ("vllm", "0.8.5"), ("vllm", "0.19.1"), ("vllm", "0.33.0"), ("sglang", "0.4.6"), ("sglang", "0.5.9"),
    ("tensorrt-llm", "1.2.0"),
)  # fmt: skip
LIMITS = ("ttft.p95<1s", "ttft.p99<2s,tpot.p95<80ms", "latency.p90<45s", "ttft.mean<800ms,latency.p95<60s", None)
TARGETS = ("prometheus", "alertmanager", "grafana")


def version_of(number: int) -> tuple[str, str]:
    return VERSIONS[number % len(VERSIONS)]


@lru_cache
def plan(number: int) -> ServePlan:
    """One of many plans, drawn by its number: the versions in turn."""
    drawn = random.Random(number)
    engine, version = version_of(number)
    said: dict[str, Any] = {"engine": f"{engine}=={version}", "rows": 1}
    while True:
        limit = drawn.choice(LIMITS)
        rate, tokens = f"{drawn.choice((1, 3, 10, 40))}/s", drawn.choice(((500, 100), (2000, 300)))
        asked = {**said, "rate": rate, "input_tokens": tokens[0], "output_tokens": tokens[1]}
        found = gpufleet.plan_serve(drawn.choice(MODELS), **asked, **({"slo": limit} if limit else {}))
        if found.deployments:
            return found


@lru_cache
def written(number: int, to: str = "prometheus", *, seeds: bool = False) -> AlertFiles:
    return gpufleet.watch_plan(plan(number), to, seed_thresholds=seeds)


def watched_objectives(number: int) -> dict[str, float]:
    """Objectives that the page does not list as not watched."""
    missing = " ".join(written(number).unwatched)
    return {name: limit_s for name, limit_s in plan(number).objectives.items() if f"{name} of" not in missing}


@pytest.mark.parametrize("number", range(cases(6, NUM_PLANS)))
def test_rules_can_be_read_and_ask_for_what_the_version_has(number: int, tmp_path: Path) -> None:
    found = written(number)
    rules = yaml_of(found, "rules.yml")
    written_to(tmp_path, found.files)
    names = [file.name for file in found.files]
    assert not told_by("promtool", "check", "rules", "rules.yml", at=tmp_path)
    assert not unknown_metrics(
        [rule["expr"] for rule in rules_in(rules)], dict([version_of(number)]), names, recorded_in(rules)
    )
    assert not faults_of(rules)
    assert not limits_missing(rules, watched_objectives(number))
    assert yaml_of(found, "operator/rules.yaml")["spec"] == rules
    assert not unknown_fields(yaml_of(found, "operator/rules.yaml"))
    for monitor in yaml_of(found, "operator/pods.yaml")["items"]:
        assert not unknown_fields(monitor)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, cases(6, NUM_PLANS)))
def test_each_alert_fires_on_what_breaks_it_and_not_on_what_keeps_it(number: int, tmp_path: Path) -> None:
    found = written(number, seeds=True)
    written_to(tmp_path, found.files)
    assert not told_by("promtool", "test", "rules", "rules_test.yml", at=tmp_path)
    tests = yaml_of(found, "rules_test.yml")["tests"]
    told = [(check["expr"], bool(check["exp_samples"])) for test in tests for check in test["promql_expr_test"]]
    for alert in alerts_in(yaml_of(found, "rules.yml")):
        labels = alert["labels"]
        mine = {
            fires
            for query, fires in told
            if f'"{alert["alert"]}"' in query
            and f'"{labels["deployment"]}"' in query
            and ("metric" not in labels or f'"{labels["metric"]}"' in query)
        }
        assert mine == {True, False}, alert["alert"]


@pytest.mark.parametrize("number", range(cases(6, NUM_PLANS)))
def test_a_dashboard_asks_for_what_the_version_has_and_shows_cost_first(number: int) -> None:
    found = written(number, "grafana")
    [dashboard] = [json.loads(file.text) for file in found.files if file.name == "dashboards/plan.json"]
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for query in queries:
        promql_parser.parse(query)
    assert not unknown_metrics(queries, dict([version_of(number)]), [])
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert titles[1].startswith("Cost per hour")
    measured = {"GPU in use", "GPU memory in use", "GPU temperature", "GPU power", "Copies available"}
    assert measured <= set(titles)
    if version_of(number)[0] == "vllm":
        assert {"Cost per 1M output tokens", "Cost per 1,000 requests", "KV room in use"} <= set(titles)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    for at, one in enumerate(places):
        assert one["x"] + one["w"] <= 24
        assert not any(overlap(one, other) for other in places[at + 1 :])
    for name, figure in plan(number).answer.latency.items():
        shown = [panel for panel in dashboard["panels"] if panel["title"] == name]
        for panel in shown:
            legends = {target["legendFormat"]: target["expr"] for target in panel["targets"]}
            assert float(legends["predicted at least"][7:-1]) == pytest.approx(figure.low, rel=1e-5)
    assert {"providers"} <= yaml_of(found, "provisioning/dashboards.yml").keys()


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    return not (apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"])


def test_routes_call_somebody_for_what_is_critical_and_hold_no_secret(tmp_path: Path) -> None:
    found = written(0, "alertmanager")
    written_to(tmp_path, found.files)
    assert not told_by("amtool", "check-config", "alertmanager.yml", at=tmp_path)
    name = alerts_in(yaml_of(written(0), "rules.yml"))[0]["labels"]["deployment"]
    for severity, receiver in (("critical", "on-call"), ("warning", "team"), ("info", "costs")):
        words = ["config", "routes", "test", "--config.file=alertmanager.yml", f"--verify.receivers={receiver}"]
        assert not told_by("amtool", *words, f"severity={severity}", f"deployment={name}", at=tmp_path)
    content = yaml_of(found, "alertmanager.yml")
    for receiver in content["receivers"]:
        keys = {key for kind, how in receiver.items() if kind != "name" for each in how for key in each}
        assert not {key for key in keys if any(word in key for word in ("key", "url", "password", "token"))} - {
            "routing_key_file", "api_url_file",
        }  # fmt: skip
    [down, _] = content["inhibit_rules"]
    assert down["source_matchers"] == ['alertname="TooFewCopies"']
    assert "latency" in down["target_matchers"][0]


def first(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The first alert of a name, or what is recorded by it."""
    return next(rule for rule in rules_in(content) if rule.get("alert", rule.get("record")) == name)


def replaced(name: str, old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def fault(content: dict[str, Any]) -> None:
        rule = first(content, name)
        assert old in rule["expr"], (old, rule["expr"])
        rule["expr"] = rule["expr"].replace(old, new)

    return fault


def without_twins(content: dict[str, Any]) -> None:
    for group in content["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") != "MetricAbsent"]


FAULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a metric that the version dropped": replaced(
        "deployment:kv_use:avg", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"
    ),
    "a counter without its end": replaced("deployment:output_tokens:rate5m", "tokens_total", "tokens"),
    "no time for which it holds": lambda c: first(c, "TtftP95AboveLimit").pop("for"),
    "a time without unit": lambda c: first(c, "TtftP95AboveLimit").__setitem__("for", "five"),
    "milliseconds for seconds": replaced("TtftP95AboveLimit", "> 1", "> 1000"),
    "a limit that is not the plan's": replaced("TtftP95AboveLimit", "> 1", "> 2"),
    "above taken for below": replaced("TtftP95AboveLimit", ">", "<"),
    "a percentile without its buckets": replaced("deployment:ttft_seconds:p95", ", le)", ")"),
    "no twin": without_twins,
    "a misspelt key": lambda c: first(c, "RequestsWait").__setitem__("expresion", "1"),
    "no severity": lambda c: first(c, "RequestsWait")["labels"].pop("severity"),
    "no action": lambda c: first(c, "RequestsWait")["annotations"].pop("action"),
    "percent for a share": replaced("KvFull", "> 0.9", "> 90"),
    "a query that ends too soon": replaced("KvFull", "> 0.9", "> (0.9"),
    "another deployment": replaced("TooFewCopies", 'deployment="', 'deployment="x'),
    "fewer copies taken for more": replaced("TooFewCopies", "<", ">"),
    "a template that does not end": lambda c: first(c, "RequestsWait")["annotations"].__setitem__("summary", "{{ .x"),
    "a recorded name that nobody records": replaced("TtftP95AboveLimit", "seconds:p95", "seconds:p96"),
    "the exporter's memory total": replaced("GpuHot", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_TOTAL"),
    "power of another card": replaced("GpuAboveItsCard", "> ", "> 1"),
    "a rate of a gauge's end": replaced("deployment:requests_waiting:sum", "sum by (namespace, deployment) ", "sum "),
}


@lru_cache
def sound() -> AlertFiles:
    """A plan of vLLM 0.19.1 with a limit on the first token."""
    asked: dict[str, Any] = {
        "rate": "20/s",
        "input_tokens": 1000,
        "output_tokens": 200,
        "slo": "ttft.p95<1s",
        "rows": 1,
    }
    return gpufleet.watch_plan(gpufleet.plan_serve("llama-3.1-8b", engine="vllm==0.19.1", **asked))


def found_wrong(content: dict[str, Any], folder: Path) -> str:
    """What any of the checks says of rules: the cheap ones first, then promtool by the unit tests that were written."""
    written_to(folder, sound().files)
    (folder / "rules.yml").write_text(yaml_text(content), encoding="utf-8")
    said = told_by("promtool", "check", "rules", "rules.yml", at=folder)
    if said:
        return said
    names = [file.name for file in sound().files]
    own = [
        *faults_of(content),
        *unknown_metrics([r["expr"] for r in rules_in(content)], {"vllm": "0.19.1"}, names, recorded_in(content)),
        *limits_missing(content, {"ttft.p95": 1.0}),
    ]
    return "\n".join(own) or told_by_tests(content, folder)


def told_by_tests(content: dict[str, Any], folder: Path) -> str:
    """What the unit tests say of the groups that are not as they were written; of all where all are."""
    as_written = yaml_of(sound(), "rules.yml")["groups"]
    kept = [group for group in content["groups"] if group not in as_written] or as_written
    names = {f'"{alert["alert"]}"' for alert in alerts_in({"groups": kept})}
    tests = yaml_of(sound(), "rules_test.yml")
    for test in tests["tests"]:
        test["promql_expr_test"] = [c for c in test["promql_expr_test"] if any(name in c["expr"] for name in names)]
    tests["tests"] = [test for test in tests["tests"] if test["promql_expr_test"]]
    (folder / "rules.yml").write_text(yaml_text({"groups": kept}), encoding="utf-8")
    (folder / "rules_test.yml").write_text(yaml_text(tests), encoding="utf-8")
    return told_by("promtool", "test", "rules", "rules_test.yml", at=folder)


def test_sound_rules_are_found_sound(tmp_path: Path) -> None:
    assert not found_wrong(yaml_of(sound(), "rules.yml"), tmp_path)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, tmp_path: Path) -> None:
    content = copy.deepcopy(yaml_of(sound(), "rules.yml"))
    FAULTS[fault](content)
    assert found_wrong(content, tmp_path)


@pytest.mark.parametrize(
    "fault",
    [
        lambda c: c["route"]["routes"][0].__setitem__("receiver", "nobody-knows"),
        lambda c: c["route"].__setitem__("recievers", []),
        lambda c: c["receivers"][0]["pagerduty_configs"][0].pop("routing_key_file"),
        lambda c: c["inhibit_rules"][0]["source_matchers"].append('severity=~"("'),
    ],
)
def test_faults_planted_in_routes_are_found(fault: Callable[[Any], Any], tmp_path: Path) -> None:
    content = yaml_of(written(0, "alertmanager"), "alertmanager.yml")
    fault(content)
    (tmp_path / "alertmanager.yml").write_text(yaml_text(content), encoding="utf-8")
    assert told_by("amtool", "check-config", "alertmanager.yml", at=tmp_path)


def test_faults_planted_in_objects_of_the_operator_are_found() -> None:
    rule = yaml_of(sound(), "operator/rules.yaml")
    rule["spec"]["groups"][0]["rules"][0]["exp"] = rule["spec"]["groups"][0]["rules"][0].pop("expr")
    assert unknown_fields(rule) == ["spec.groups[].rules[].exp"]
    [monitor] = yaml_of(sound(), "operator/pods.yaml")["items"]
    monitor["spec"].pop("selector")
    monitor["spec"]["podMetricsEndpoints"][0]["ports"] = "http"
    assert unknown_fields(monitor) == ["spec.podMetricsEndpoints[].ports", "spec.selector"]


def test_what_a_version_does_not_measure_is_said_and_not_made_up() -> None:
    asked: dict[str, Any] = {"rate": "2/s", "input_tokens": 500, "output_tokens": 100, "rows": 1}
    old = gpufleet.watch_plan(gpufleet.plan_serve("llama-3.1-8b", engine="vllm==0.8.5", slo="tpot.p95<90ms", **asked))
    assert any("measures no tpot" in line for line in old.unwatched)
    assert not [row for row in old.alerts if row.name.startswith("Tpot")]
    new = gpufleet.watch_plan(gpufleet.plan_serve("llama-3.1-8b", engine="vllm==0.19.1", slo="tpot.p95<90ms", **asked))
    assert [row.severity for row in new.alerts if row.name == "TpotP95AboveLimit"] == ["critical"]
    assert not [line for line in new.unwatched if "tpot" in line]


def test_a_limit_below_the_first_bucket_or_above_the_last_is_said_and_not_watched() -> None:
    """sglang/srt/metrics/collector.py: buckets of the first token from 0.1 s to 400 s."""
    asked: dict[str, Any] = {"rate": "1/s", "input_tokens": 100, "output_tokens": 20, "rows": 1}
    for limit, word in (("ttft.p50<95ms", "below the first bound"), ("ttft.p95<500s", "not below the last bound")):
        found = gpufleet.watch_plan(gpufleet.plan_serve("llama-3.1-8b", engine="sglang==0.5.9", slo=limit, **asked))
        assert any(word in line for line in found.unwatched), found.unwatched
        assert not [row for row in found.alerts if row.name.endswith("AboveLimit")]


def test_what_turns_a_metric_on_is_written() -> None:
    counters = next(file.text for file in sound().files if file.name == "dcgm-counters.csv")
    shown = {line.split(",")[0] for line in counters.splitlines()}
    queries = [rule["expr"] for rule in rules_in(yaml_of(sound(), "rules.yml"))]
    asked = {each.name for query in queries for each in selectors(query) if each.name.startswith("DCGM")}
    assert asked <= shown
    assert {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_THERMAL_VIOLATION"} <= asked


def test_the_seeds_thresholds_are_theirs_and_said_to_mislead() -> None:
    found = written(1, seeds=True)
    seeds = {
        alert["alert"]: alert for alert in alerts_in(yaml_of(found, "rules.yml")) if alert["alert"].startswith("Seed")
    }
    assert seeds["SeedGpuBusy"]["expr"].endswith("> 90")
    assert seeds["SeedGpuBusy"]["for"] == "10m"
    assert seeds["SeedMemoryFull"]["expr"].endswith("> 85")
    assert seeds["SeedMemoryFull"]["for"] == "5m"
    assert seeds["SeedSlow"]["expr"].endswith("> 1")
    assert seeds["SeedDailyCost"]["expr"].endswith("> 1000")
    actions = {name: alert["annotations"]["action"] for name, alert in seeds.items()}
    assert actions["SeedGpuBusy"].startswith("Scale up instances")
    assert actions["SeedMemoryFull"].startswith("Reduce batch size or scale up")
    assert actions["SeedSlow"].startswith("Check model optimization")
    assert actions["SeedDailyCost"].startswith("Review and optimize usage")
    assert {line.split(":")[0] for line in found.unwatched} >= set(seeds)
    assert not [row for row in written(1).alerts if row.name.startswith("Seed")]


@pytest.mark.parametrize("to", TARGETS)
def test_the_same_plan_gives_the_same_bytes(to: str) -> None:
    again = gpufleet.watch_plan(plan(1), to)
    assert again.files == written(1, to).files


def test_power_is_held_to_the_cards_own_limit() -> None:
    asked: dict[str, Any] = {"rate": "5/s", "input_tokens": 500, "output_tokens": 100, "rows": 1}
    most = {}
    for gpu in ("L4", "H100"):
        found = gpufleet.watch_plan(gpufleet.plan_serve("llama-3.1-8b", gpus=[gpu], **asked))
        query = first(yaml_of(found, "rules.yml"), "GpuAboveItsCard")["expr"]
        most[gpu] = float(query.rpartition(">")[2])
    assert 72 < most["L4"] < 80
    assert 700 < most["H100"] < 800


HOSTILE = ('a"b', "a\nb: c", "${HOME}", "{{ .x }}", "$(id)", "x" * 300, "模型", "no", "1e3", "0x10", "..", "\ud800")


@settings(max_examples=cases(12, 200), deadline=None)
@given(st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=300)), st.sampled_from(TARGETS))
def test_no_name_leaves_its_place(name: str, to: str) -> None:
    try:
        found = gpufleet.watch_plan(plan(0).model_copy(update={"model": name}), to)
    except GpufleetError:
        return
    for file in found.files:
        assert ".." not in file.name.split("/")
        if file.name.endswith((".yml", ".yaml")):
            assert type(yaml.safe_load(file.text)) is dict
        if file.name == "dashboards/plan.json":
            assert json.loads(file.text)["schemaVersion"] == 39
    if to == "prometheus":
        for rule in rules_in(yaml_of(found, "rules.yml")):
            promql_parser.parse(rule["expr"])
            assert all("{{" not in text for text in rule.get("annotations", {}).values())


def test_models_of_a_fleet_are_watched_apart() -> None:
    load = {"rate": 1.0, "input_tokens": 500.0, "output_tokens": 100.0}
    asked = [gpufleet.ServeRequest(model, gpus=["L40S"], **load) for model in ("llama-3.1-8b", "qwen3-32b")]
    rules = yaml_of(gpufleet.watch_plan(gpufleet.plan_fleet(asked)), "rules.yml")
    assert {alert["labels"]["deployment"] for alert in alerts_in(rules)} == {"llama-3-1-8b", "qwen3-32b"}
    assert not faults_of(rules)


def test_a_folder_is_written_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan(0).to_json(), encoding="utf-8")
    folder = tmp_path / "out"
    said = ["alerts", str(file), "--out", str(folder)]
    assert main(said) == 0
    assert (folder / "rules.yml").is_file()
    assert main(said) == 2
    assert main([*said, "--force"]) == 0
    capsys.readouterr()
    assert main(["alerts", str(file), "--diff", str(folder)]) == 0
    assert not capsys.readouterr().out.strip()
    (folder / "rules.yml").write_text("groups: []\n", encoding="utf-8")
    assert main(["alerts", str(file), "--diff", str(folder)]) == 0
    assert "-groups: []" in capsys.readouterr().out
    assert main(["alerts", str(file), "--to", "nagios"]) == 2
