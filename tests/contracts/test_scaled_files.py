"""Files of a law of scaling: valid for KEDA and Kubernetes, and run by a cluster they give the machines of the play."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import numpy as np
import promql_parser
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.cluster_scaling import Cluster, faults, fields, series_of
from tests.effort import cases

import gpufleet
from gpufleet import DeployedPlan, ServePlan
from gpufleet.api.autoscaling import Bounds, traffic_of
from gpufleet.api.scaled_plans import one_plan, scaled_plan
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import GpufleetError
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.units import DAY, HOUR

IMAGE, KUBERNETES = "registry.example/engine:1", "1.37"
LAWS = ("hpa", "hpa-rate", "keda-rate", "keda-cron-rate", "cron-windows", "keda-queue", "keda-kv")
MONDAY, THURSDAY = (datetime(2026, 11, day, tzinfo=timezone.utc) for day in (2, 5))
UNDATED, EPOCH = (datetime(1970, 1, day, tzinfo=timezone.utc) for day in (5, 1))
TARGET = 0.05
"""A target that every law keeps: here it is about files."""
BINS_PER_DAY = 48


@lru_cache
def plan(engine: str = "vllm", gpu: str | None = None) -> ServePlan:
    said: dict[str, Any] = {"engine": engine, "slo": "ttft.p95<1s,tpot.p95<60ms", "clouds": ["aws"], "rows": 1}
    if gpu is not None:
        said["gpus"] = [gpu]
    return gpufleet.plan_serve("llama-3.1-8b", rate="40/s", input_tokens=1000, output_tokens=200, **said)


def curve(num_days: int, start: datetime | None = None) -> RateCurve:
    """Days that rise and fall, quieter weekends, with noise: from a Thursday on unless said."""
    generator = np.random.default_rng(7)
    hours = np.arange(BINS_PER_DAY * num_days) * 24 / BINS_PER_DAY
    rates = 60 + 50 * np.cos(2 * np.pi * (hours - 14) / 24) + generator.normal(0, 4, len(hours))
    rates *= np.where((hours // 24 + 3) % 7 >= 5, 0.5, 1.0)
    start_s = 0.0 if start is None else start.timestamp()
    return RateCurve(start_s, np.maximum(rates, 2.0), DAY / BINS_PER_DAY)


@lru_cache
def answer(law: str, num_days: int = 2, start: datetime | None = None, engine: str = "vllm") -> AutoscaleResult:
    said = {"policies": [law], "documented": True, "cold_start_s": 250.0}
    return gpufleet.autoscale(plan(engine), curve(num_days, start), target=TARGET, **said)


def deployed(law: str, **said: Any) -> DeployedPlan:
    return gpufleet.deploy_plan(answer(law), image=IMAGE, **said)


def scaler(found: DeployedPlan) -> dict[str, Any]:
    [text] = [file.text for file in found.files if file.name == "manifests/autoscaler.yaml"]
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def names_of(engine: str, version: str | None) -> dict[str, str]:
    """Metrics of the table by name, those that there are at a version or at the newest: what they measure."""
    known = {"finished_requests": "finished", "running_requests": "running", "waiting_requests": "waiting"}
    measured = {**known, "kv_use": "kv"}
    return {m.name: measured[m.what] for m in metrics_of(engine, version).by_name.values() if m.what in measured}


@pytest.mark.parametrize("law", LAWS)
def test_the_autoscaler_is_valid_and_asks_for_metrics_of_the_engines_version(law: str) -> None:
    found, manifest = deployed(law), scaler(deployed(law))
    if manifest["kind"] == "ScaledObject":
        assert faults(manifest) == []
        queries = [t["metadata"]["query"] for t in manifest["spec"]["triggers"] if t["type"] == "prometheus"]
        asked = {name for query in queries for name in series_of(promql_parser.parse(query))}
    else:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        [rules] = [yaml.safe_load(file.text) for file in found.files if file.name == "prometheus-adapter.yaml"]
        [rule] = rules["rules"]["custom"]
        assert rule["name"]["as"] == manifest["spec"]["metrics"][0]["pods"]["metric"]["name"]
        plain = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'pod="a"').replace("<<.GroupBy>>", "pod")
        asked = set(series_of(promql_parser.parse(plain)))
    version = plan().basis.question.get("engine_version") if plan().basis is not None else None
    assert asked <= names_of("vllm", version).keys()
    assert bool(asked) is (law != "cron-windows")
    [deployment] = [yaml.safe_load(f.text) for f in found.files if f.name == "manifests/deployment.yaml"]
    kubernetes_validate.validate(deployment, KUBERNETES, strict=True)
    assert "replicas" not in deployment["spec"]
    target = manifest["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert any(file.name == "manifests/disruption.yaml" for file in found.files)


FAULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "misspelt key": lambda s: s.__setitem__("minReplicas", 1),
    "number as text": lambda s: s.__setitem__("maxReplicaCount", "9"),
    "no target": lambda s: s.pop("scaleTargetRef"),
    "threshold as number": lambda s: s["triggers"][0]["metadata"].__setitem__("threshold", 5),
    "no query": lambda s: s["triggers"][0]["metadata"].pop("query"),
    "old word of a trigger": lambda s: s["triggers"][0]["metadata"].__setitem__("metricName", "rate"),
    "window without time zone": lambda s: s["triggers"][-1]["metadata"].pop("timezone"),
    "unknown fallback": lambda s: s["fallback"].__setitem__("behavior", "most"),
    "fallback without number": lambda s: s["fallback"].pop("replicas"),
    "policy without period": lambda s: up_of(s)["policies"][0].pop("periodSeconds"),
    "window misspelt": lambda s: up_of(s).__setitem__("stabilisationWindowSeconds", 0),
    "least above most": lambda s: s.__setitem__("minReplicaCount", 10_000),
}


def up_of(spec: dict[str, Any]) -> dict[str, Any]:
    up: dict[str, Any] = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleUp"]
    return up


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    manifest = copy.deepcopy(scaler(deployed("keda-cron-rate")))
    assert faults(manifest) == []
    FAULTS[fault](manifest["spec"])
    assert faults(manifest)


def test_a_metric_that_the_version_does_not_have_is_found() -> None:
    query = scaler(deployed("keda-kv"))["spec"]["triggers"][1]["metadata"]["query"]
    old = query.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
    assert old != query
    assert not set(series_of(promql_parser.parse(old))) <= names_of("vllm", None).keys()


WEEKS = [("cron-windows", 12, THURSDAY), ("cron-windows", 13, None), ("keda-cron-rate", 12, MONDAY)]


@pytest.mark.parametrize(
    ("law", "num_days", "start"),
    [*((law, 2, None) for law in LAWS if law != "cron-windows"), *WEEKS[: cases(1, len(WEEKS))]],
)
def test_a_cluster_that_runs_the_files_has_the_machines_of_the_play(
    law: str, num_days: int, start: datetime | None
) -> None:
    """Every tick of all days: thresholds and windows are read back from the files, the arithmetic is the cluster's."""
    result = answer(law, num_days, start)
    manifest = scaler(gpufleet.deploy_plan(result, image=IMAGE))
    held = scaled_plan(one_plan(plan(), load_catalog()), load_catalog())
    traffic = traffic_of(held, curve(num_days, start), Bounds(250.0, TARGET, 0, None, 15.0), 0)
    cluster = Cluster(manifest, names_of("vllm", None), UNDATED if start is None else EPOCH)
    played = traffic.played(cluster)
    assert played.paid.max() > played.paid.min()
    changes = [(row.t_s, row.machines, row.ready) for row in result.recommendation.machines]
    both = np.stack([played.paid, played.ready])
    at = [0, *(np.flatnonzero(np.any(np.diff(both, axis=1), axis=0)) + 1).tolist()]
    assert changes == [(played.start_s + 15.0 * tick, *both[:, tick].tolist()) for tick in at]


@pytest.mark.parametrize("change", ["threshold", "drain", "window", "stabilisation"])
def test_a_cluster_that_is_told_other_numbers_has_other_machines(change: str) -> None:
    result = answer("keda-cron-rate")
    manifest = scaler(gpufleet.deploy_plan(result, image=IMAGE))
    spec = manifest["spec"]
    rate, clock = (t["metadata"] for t in (spec["triggers"][0], spec["triggers"][-1]))
    if change == "threshold":
        rate["threshold"] = str(1.3 * float(rate["threshold"]))
    elif change == "drain":
        rate["query"] = f"{rate['query'].rpartition('/')[0]}/ 1"
    elif change == "window":
        clock["desiredReplicas"] = str(int(clock["desiredReplicas"]) + 5)
    else:
        spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 0
    held = scaled_plan(one_plan(plan(), load_catalog()), load_catalog())
    traffic = traffic_of(held, curve(2), Bounds(250.0, TARGET, 0, None, 15.0), 0)
    played = traffic.played(Cluster(manifest, names_of("vllm", None), UNDATED))
    assert played.replica_s / HOUR != pytest.approx(result.recommended.machine_hours, rel=1e-6)


def test_the_schedule_of_the_seeds_is_a_window_and_goes_to_none() -> None:
    spec = scaler(deployed("schedule"))["spec"]
    [trigger] = spec["triggers"]
    assert (trigger["metadata"]["start"], trigger["metadata"]["end"]) == ("0 6 * * *", "0 22 * * *")
    assert (spec["minReplicaCount"], spec["cooldownPeriod"]) == (0, 0)


def test_a_fixed_number_is_a_deployment_without_an_autoscaler() -> None:
    found = deployed("static")
    [deployment] = [yaml.safe_load(f.text) for f in found.files if f.name == "manifests/deployment.yaml"]
    assert deployment["spec"]["replicas"] == answer("static").recommended.settings["replicas"]
    assert not [file.name for file in found.files if "autoscaler" in file.name]


@pytest.mark.parametrize(
    ("law", "said"),
    [("predictive", "no controller"), ("skyserve", "SkyServe"), ("wva", "WVA"), ("keda-zero", "first copy")],
)
def test_a_law_that_no_file_can_hold_is_refused_with_who_runs_it(law: str, said: str) -> None:
    with pytest.raises(GpufleetError, match=said):
        deployed(law)


def test_machines_of_several_copies_have_limits_of_one_copy_each() -> None:
    """Scaling is by machine, pods are copies: as many of them, each with its share of the limit."""
    one = answer("keda-cron-rate")
    two = one.model_copy(update={"machine": one.machine.model_copy(update={"copies": 2})})
    alone, shared = (scaler(gpufleet.deploy_plan(each, image=IMAGE))["spec"] for each in (one, two))
    assert shared["maxReplicaCount"] == 2 * alone["maxReplicaCount"]
    limits = [float(spec["triggers"][0]["metadata"]["threshold"]) for spec in (shared, alone)]
    assert limits[0] == pytest.approx(limits[1] / 2, rel=1e-4)
    windows = [
        [int(t["metadata"]["desiredReplicas"]) for t in s["triggers"] if t["type"] == "cron"] for s in (shared, alone)
    ]
    assert windows[0] == [2 * number for number in windows[1]]
    assert up_of(shared)["policies"][1]["value"] == 2 * up_of(alone)["policies"][1]["value"]


def test_other_engines_ask_for_their_own_metrics_or_say_that_they_count_nothing() -> None:
    found = gpufleet.deploy_plan(answer("keda-rate", engine="sglang"), image=IMAGE)
    query = scaler(found)["spec"]["triggers"][0]["metadata"]["query"]
    assert set(series_of(promql_parser.parse(query))) <= names_of("sglang", None).keys()
    [deployment] = [yaml.safe_load(f.text) for f in found.files if f.name == "manifests/deployment.yaml"]
    assert "--enable-metrics" in deployment["spec"]["template"]["spec"]["containers"][0]["command"]
    with pytest.raises(GpufleetError) as told:
        gpufleet.deploy_plan(answer("keda-rate", engine="tensorrt-llm==1.2.0"), image=IMAGE)
    assert told.value.exit_code == 5


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--timezone", "Europe/Berlin"), 0),
        (("--timezone", "Mars/Olympus"), 2),
        (("--timezone", "UTC\n  x: y"), 2),
        (("--prometheus", "http://prometheus.monitoring.svc:9090"), 0),
        (("--prometheus", "prometheus"), 2),
        (("--prometheus", "http://a:9090 --x"), 2),
        (("--to", "compose"), 2),
    ],
)
def test_words_of_scaling_are_held_to_what_they_mean(
    words: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "autoscale.json"
    file.write_text(answer("keda-cron-rate").to_json(), encoding="utf-8")
    assert main(["deploy", str(file), "--image", IMAGE, "-o", "json", *words]) == code
    told = capsys.readouterr()
    if not code:
        files = {each["name"]: each["text"] for each in json.loads(told.out)["files"]}
        written = yaml.safe_load(files["manifests/autoscaler.yaml"])["spec"]["triggers"]
        place = "timezone" if words[0] == "--timezone" else "serverAddress"
        assert {t["metadata"][place] for t in written if place in t["metadata"]} == {words[1]}


def test_a_plan_that_is_not_scaled_takes_no_words_of_scaling() -> None:
    with pytest.raises(GpufleetError, match="not scaled"):
        gpufleet.deploy_plan(plan(), image=IMAGE, timezone="Europe/Berlin")


def test_a_file_that_was_edited_is_refused_and_other_verbs_say_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "autoscale.json"
    content = json.loads(answer("hpa-rate").to_json())
    file.write_text(json.dumps(content), encoding="utf-8")
    assert main(["deploy", str(file), "--image", IMAGE]) == 0
    assert main(["explain", str(file)]) == 2
    content["recommendation"]["settings"]["target_ratio"] = 5.0
    file.write_text(json.dumps(content), encoding="utf-8")
    assert main(["deploy", str(file), "--image", IMAGE]) == 2
    assert "edited" in capsys.readouterr().err


@settings(max_examples=cases(15, 200))
@given(st.text(min_size=1, max_size=120))
def test_no_name_of_a_model_leaves_its_place_in_a_query(name: str) -> None:
    base = answer("keda-cron-rate")
    assert base.plan is not None
    launch = base.plan.answer.launch
    assert launch is not None
    told = launch.model_copy(update={"arguments": [*launch.arguments, "--served-model-name", name]})
    first = base.plan.answer.model_copy(update={"launch": told})
    named = base.plan.model_copy(update={"deployments": [first]})
    try:
        found = gpufleet.deploy_plan(base.model_copy(update={"plan": named}), image=IMAGE)
    except GpufleetError:
        return
    query = promql_parser.parse(scaler(found)["spec"]["triggers"][0]["metadata"]["query"])
    assert set(series_of(query)) <= names_of("vllm", None).keys()
    assert faults(scaler(found)) == []


def test_the_table_of_fields_has_what_keda_needs() -> None:
    known = fields()
    assert known["spec.triggers[].metadata"]["required"] == "yes"
    assert {row["date"] for row in known.values()} == {"2026-08-20"}
