"""Jobs: rules are silent while a batch or a training runs as planned and when it ends, and tell what goes wrong."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.alert_checks import (
    alerts_in,
    recorded_in,
    rules_in,
    told_by,
    unknown_metrics,
    written_to,
    yaml_of,
    yaml_text,
)
from tests.contracts.test_alerts_of_a_day import text_of

import gpufleet
from gpufleet import AlertFiles
from gpufleet.cli import main
from gpufleet.errors import GpufleetError
from gpufleet.results.job import BatchPlan
from gpufleet.results.training import TrainingPlan

NAME, METRIC, COUNTED = "llama-3-1-8b", "train_tokens_per_second", "train_tokens_total"
PODS = [f"{NAME}-{number}-abcde" for number in range(2)]
PHASE = f'kube_pod_status_phase{{namespace="serving",pod="{PODS[0]}",phase="Running"}}'
BEFORE, AFTER = 30, 90
"""Minutes before a job begins and after it has ended."""
Run = dict[str, Sequence[float]]


@lru_cache
def batch(engine: str = "vllm==0.33.0") -> BatchPlan:
    said: dict[str, Any] = {"deadline": "4h", "gpus": ["L4"], "clouds": ["aws"], "pricing": ["on_demand"], "rows": 1}
    return gpufleet.plan_batch(
        "llama-3.1-8b", requests=200_000, input_tokens=500, output_tokens=100, engine=engine, **said
    )


@lru_cache
def training() -> TrainingPlan:
    said: dict[str, Any] = {"gpus": ["H100:8"], "pricing": ["on_demand"], "rows": 1}
    return gpufleet.plan_finetune("llama-3.1-8b", tokens="400M", method="full", **said)


@lru_cache
def files(kind: str, **said: Any) -> AlertFiles:
    return gpufleet.watch_plan(batch() if kind == "batch" else training(), **said)


def of_pod(pod: str, metric: str, more: str = "") -> str:
    return f'{metric}{{namespace="serving",pod="{pod}"{more}}}'


def of_engine(metric: str, copy_number: int, more: str = "") -> str:
    return f'{metric}{{namespace="serving",deployment="{NAME}",pod="{NAME}-{copy_number}-abcde"{more}}}'


def lasting(minutes: int, value: float) -> np.ndarray:
    """A series that is there while a job runs."""
    nothing = np.full(BEFORE, np.nan)
    return np.concatenate([nothing, np.full(minutes, value), np.full(AFTER, np.nan)])


def counted(minutes: int, per_s: float) -> np.ndarray:
    running = np.cumsum(np.full(minutes, per_s * 60.0))
    return np.concatenate([np.full(BEFORE, np.nan), running, np.full(AFTER, np.nan)])


def run_of_batch(minutes: int) -> Run:
    """A batch whose engines do what its plan expects of them, and are then taken away."""
    d, found = batch().answer, {}
    for at in range(d.replicas):
        found[of_engine("up", at)] = lasting(minutes, 1.0)
        found[of_engine("vllm:generation_tokens_total", at)] = counted(
            minutes, d.output_tokens_per_s.value / d.replicas
        )
        done = counted(minutes, d.requests_per_s.value / d.replicas)
        found[of_engine("vllm:request_success_total", at, ',finished_reason="stop"')] = done
        found[of_engine("vllm:request_success_total", at, ',finished_reason="error"')] = lasting(minutes, 0.0)
        found[of_engine("vllm:num_preemptions_total", at)] = lasting(minutes, 0.0)
        found[of_engine("vllm:num_requests_running", at)] = lasting(minutes, d.batch)
        found[of_engine("vllm:num_requests_waiting", at)] = lasting(minutes, 20.0)
    return {**found, **gpus_of(batch().answer.replicas, minutes), PHASE: lasting(minutes, 1.0)}


def gpus_of(number: int, minutes: int) -> Run:
    found = {}
    healthy = {"GPU_TEMP": 60.0, "GPU_UTIL": 97.0, "POWER_USAGE": 60.0, "XID_ERRORS": 0.0, "ECC_DBE_VOL_TOTAL": 0.0}
    for at in range(number):
        for metric, value in {**healthy, "THERMAL_VIOLATION": 0.0, "POWER_VIOLATION": 0.0}.items():
            more = f',UUID="GPU-{at}",Hostname="host"'
            found[of_pod(PODS[at % 2], f"DCGM_FI_DEV_{metric}", more)] = lasting(minutes, value)
    return found


def run_of_training(minutes: int) -> Run:
    num_gpus, tokens_per_s = training().answer.layout.num_gpus, training().answer.tokens_per_s.value
    own = {of_engine(METRIC, 0): lasting(minutes, tokens_per_s)}
    return {**own, **gpus_of(num_gpus, minutes), PHASE: lasting(minutes, 1.0)}


def minutes_of(plan: BatchPlan | TrainingPlan) -> int:
    return int(plan.answer.finish_s.value / 60)


def alerts_of(series: Mapping[str, Sequence[float]], found: AlertFiles, at: Path) -> set[str]:
    """Alerts that fired at any time, from before the job until after it."""
    written_to(at, found.files)
    minutes = max(len(values) for values in series.values())
    rules = yaml_of(found, "rules.yml")
    for group in rules["groups"]:
        if group["name"].endswith("-gpus"):
            group["rules"] = [rule for rule in group["rules"] if rule["alert"] in ("GpuHot", "MetricAbsent")]
    (at / "rules.yml").write_text(yaml_text(rules), encoding="utf-8")
    query = (
        f"group by (alertname) (count_over_time(ALERTS{{alertstate='firing',alertname!='ClusterUnseen'}}[{minutes}m]))"
    )
    inputs = [{"series": name, "values": " ".join(map(text_of, values))} for name, values in series.items()]
    check = {"expr": query, "eval_time": f"{minutes}m", "exp_samples": [{"labels": '{nothing="fires"}', "value": 1}]}
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": [check]}
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (at / "run.yml").write_text(yaml_text(content), encoding="utf-8")
    said = told_by("promtool", "test", "rules", "run.yml", at=at)
    assert "got:" in said, said
    return {part.split('"')[0] for part in said.split("got:")[1].split('alertname="')[1:]}


def test_nobody_is_told_of_a_batch_that_runs_as_planned_and_ends(tmp_path: Path) -> None:
    assert batch().answer.replicas > 1
    assert alerts_of(run_of_batch(minutes_of(batch())), files("batch"), tmp_path) == set()


def test_nobody_is_told_of_a_training_that_runs_as_planned_and_ends(tmp_path: Path) -> None:
    found = files("training", throughput_metric=METRIC)
    assert alerts_of(run_of_training(minutes_of(training())), found, tmp_path) == set()


def changed(series: Run, name: str, how: Callable[[np.ndarray], np.ndarray], first: int = 60) -> Run:
    """From an hour into the job on, all series of a name otherwise."""
    hits = [key for key in series if key.startswith(name)]
    assert hits, name
    found = dict(series)
    for key in hits:
        values = np.array(series[key], dtype=float)
        values[BEFORE + first :] = how(values[BEFORE + first :])
        found[key] = values
    return found


def gone(values: np.ndarray) -> np.ndarray:
    return np.full_like(values, np.nan)


def slower(values: np.ndarray) -> np.ndarray:
    return values[0] + (values - values[0]) * 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how", "told"),
    [
        ("vllm:generation_tokens_total", slower, {"JobSlowerThanPlanned"}),
        ("vllm:num_requests_running", lambda v: v * 0.1, {"JobNotFed"}),
        ('up{namespace="serving",deployment="llama-3-1-8b",pod="llama-3-1-8b-0', lambda v: v * 0, {"JobCopyMissing"}),
        ("vllm:num_preemptions_total", lambda v: v + np.arange(len(v)) * 600, {"RequestsPreempted"}),
        ("vllm:generation_tokens_total", gone, {"MetricAbsent"}),
        ("DCGM_FI_DEV_GPU_TEMP", lambda v: v + 40, {"GpuHot"}),
    ],
)
def test_what_goes_wrong_in_a_batch_is_told(
    name: str, how: Callable[[np.ndarray], np.ndarray], told: set[str], tmp_path: Path
) -> None:
    run = changed(run_of_batch(minutes_of(batch())), name, how)
    assert told <= alerts_of(run, files("batch"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how", "told"),
    [
        (METRIC, lambda v: v * 0.3, {"JobSlowerThanPlanned"}),
        (METRIC, gone, {"MetricAbsent"}),
        ("DCGM_FI_DEV_GPU_UTIL", lambda v: v * 0.1, {"JobIdle"}),
        (of_pod(PODS[0], "DCGM_FI_DEV_GPU_TEMP")[:-1], gone, {"GpusMissing"}),
    ],
)
def test_what_goes_wrong_in_a_training_is_told(
    name: str, how: Callable[[np.ndarray], np.ndarray], told: set[str], tmp_path: Path
) -> None:
    run = changed(run_of_training(minutes_of(training())), name, how)
    assert told <= alerts_of(run, files("training", throughput_metric=METRIC), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ratio"), [("batch", 2.0), ("training", 2.0)])
def test_a_job_that_runs_on_is_late_and_dear(kind: str, ratio: float, tmp_path: Path) -> None:
    plan = batch() if kind == "batch" else training()
    run = run_of_batch if kind == "batch" else run_of_training
    longest = ratio * (plan.answer.finish_s.high or 0.0)
    said = {} if kind == "batch" else {"throughput_metric": METRIC}
    found = alerts_of(run(int(longest / 60)), files(kind, **said), tmp_path)
    late = {"JobPastItsDeadline"} if longest > plan.deadline_s else set()
    assert found == {"JobLongerThanPlanned", "JobDearerThanPlanned", *late}


def test_costs_of_a_request_a_token_and_an_epoch_are_price_over_what_is_done(tmp_path: Path) -> None:
    minutes = 120
    b, t = batch().answer, training().answer
    told = {
        "batch": (files("batch"), run_of_batch(minutes)),
        "training": (files("training", throughput_metric=METRIC, epoch_tokens="100M"), run_of_training(minutes)),
    }
    hourly = {"batch": b.price_per_instance_usd_per_hour * b.instance_count, "training": t.usd_per_hour}
    wanted = {
        "batch": {
            "deployment:usd:per_request": hourly["batch"] / 3600 / b.requests_per_s.value,
            "deployment:usd:per_million_tokens": hourly["batch"] / 3600 / b.output_tokens_per_s.value * 1e6,
            "deployment:spent:usd": hourly["batch"] * (60 + 1) / 60,
        },
        "training": {
            "deployment:usd:per_epoch": hourly["training"] / 3600 / t.tokens_per_s.value * 1e8,
            "deployment:usd:per_million_tokens": hourly["training"] / 3600 / t.tokens_per_s.value * 1e6,
            "deployment:step:s": training().global_batch * training().sequence_tokens / t.tokens_per_s.value,
        },
    }
    for kind, (found, series) in told.items():
        written_to(tmp_path, found.files)
        inputs = [{"series": name, "values": " ".join(map(text_of, values))} for name, values in series.items()]
        for record, value in wanted[kind].items():
            near = f"abs({record} / {value:.12g} - 1) < bool 0.01"
            check = {
                "expr": f"sum({near})",
                "eval_time": f"{BEFORE + 60}m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
            test = {"interval": "1m", "input_series": inputs, "promql_expr_test": [check]}
            content = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
            (tmp_path / "costs.yml").write_text(yaml_text(content), encoding="utf-8")
            assert not told_by("promtool", "test", "rules", "costs.yml", at=tmp_path), record


def shapes() -> list[tuple[str, dict[str, Any]]]:
    own: dict[str, Any] = {"throughput_metric": METRIC}
    return [
        ("batch", {}),
        ("training", {}),
        ("training", own),
        ("training", {"throughput_metric": COUNTED, "throughput_in": "samples", "epoch_tokens": "50M"}),
    ]


@pytest.mark.parametrize(("kind", "said"), shapes())
def test_rules_of_a_job_can_be_read_and_each_fires_as_it_has_to(
    kind: str, said: dict[str, Any], tmp_path: Path
) -> None:
    found = files(kind, **said)
    rules = yaml_of(found, "rules.yml")
    written_to(tmp_path, found.files)
    assert not told_by("promtool", "check", "rules", "rules.yml", at=tmp_path)
    assert not told_by("promtool", "test", "rules", "rules_test.yml", at=tmp_path)
    names = [file.name for file in found.files]
    recorded = [*recorded_in(rules), *([said["throughput_metric"]] if said else [])]
    engines = {"vllm": "0.33.0"} if kind == "batch" else {}
    assert not unknown_metrics([rule["expr"] for rule in rules_in(rules)], engines, names, recorded)
    for alert in alerts_in(rules):
        assert {"summary", "action", "command"} <= set(alert["annotations"])
        assert "deployment/" not in alert["annotations"]["command"]
        if alert["alert"] == "MetricAbsent":
            assert 'phase="Running"' in alert["expr"]


@pytest.mark.parametrize("engine", ["sglang==0.5.9", "tensorrt-llm==1.2.0", "vllm==0.8.5"])
def test_engines_of_a_batch_are_watched_by_what_their_version_measures(engine: str, tmp_path: Path) -> None:
    found = gpufleet.watch_plan(batch(engine))
    rules = yaml_of(found, "rules.yml")
    written_to(tmp_path, found.files)
    assert not told_by("promtool", "test", "rules", "rules_test.yml", at=tmp_path)
    name, version = engine.split("==")
    asked = [rule["expr"] for rule in rules_in(rules)]
    assert not unknown_metrics(asked, {name: version}, [file.name for file in found.files], recorded_in(rules))
    has_tokens = any(alert["alert"] == "JobSlowerThanPlanned" for alert in alerts_in(rules))
    assert has_tokens is not any("tokens/s of" in line for line in found.unwatched)


def test_what_nothing_tells_is_listed_and_no_metric_is_made_up() -> None:
    plain, own = files("training"), files("training", throughput_metric=METRIC)
    assert any("cost of an epoch" in line and "--throughput-metric" in line for line in plain.unwatched)
    assert not any("--throughput-metric" in line for line in own.unwatched)
    assert all(any("progress" in line for line in each.unwatched) for each in (plain, own, files("batch")))
    assert not [row for row in plain.alerts if row.name == "JobSlowerThanPlanned"]
    assert not any("per_epoch" in name or "tokens" in name for name in recorded_in(yaml_of(plain, "rules.yml")))


@pytest.mark.parametrize(
    "said",
    [
        {"throughput_metric": "tokens/s"},
        {"throughput_metric": 'x"} or vector(1'},
        {"throughput_metric": "9tokens"},
        {"throughput_metric": "tökens"},
        {"throughput_metric": METRIC, "throughput_in": "steps"},
        {"throughput_in": "tokens"},
        {"epoch_tokens": "50M"},
        {"throughput_metric": METRIC, "epoch_tokens": "0"},
        {"throughput_metric": METRIC, "epoch_tokens": "many"},
        {"act": True, "budget": "900/day"},
        {"seed_thresholds": True},
    ],
)
def test_words_that_mean_nothing_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(GpufleetError):
        gpufleet.watch_plan(training(), **said)


def test_a_metric_of_ones_own_is_for_training_alone() -> None:
    for plan in (batch(), gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=500, output_tokens=100, rows=1)):
        with pytest.raises(GpufleetError):
            gpufleet.watch_plan(plan, throughput_metric=METRIC)


def test_files_of_jobs_are_read_and_written_and_a_budget_is_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("batch.json").write_text(batch().to_json(), encoding="utf-8")
    Path("train.json").write_text(training().to_json(), encoding="utf-8")
    words = ["--throughput-metric", COUNTED, "--epoch-tokens", "50M"]
    assert main(["alerts", "train.json", *words, "--out", "one"]) == 0
    assert main(["alerts", "one/gpufleet.json", *words, "--diff", "one"]) == 0
    assert main(["alerts", "batch.json", "--budget", "5000/day", "--out", "two"]) == 0
    assert not told_by("promtool", "check", "rules", "rules.yml", at=tmp_path / "two")
    assert "suspend" in (tmp_path / "two" / "rules.yml").read_text(encoding="utf-8")
    for file in ("batch.json", "train.json"):
        for target in ("alertmanager", "grafana"):
            assert main(["alerts", file, "--to", target]) == 0
    assert main(["alerts", "batch.json", *words]) == 2
    asked = ["plan", "batch", "whisper-tiny", "--requests", "1M", "--deadline", "24h", "--clouds", "aws"]
    assert main([*asked, "--out-file", "encoder.json"]) == 0
    assert main(["alerts", "encoder.json"]) == 2


def replaced(name: str, old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def fault(content: dict[str, Any]) -> None:
        rule = next(rule for rule in rules_in(content) if name in (rule.get("alert"), rule.get("record")))
        assert old in rule["expr"], (old, rule["expr"])
        rule["expr"] = rule["expr"].replace(old, new)

    return fault


def of_alert(name: str, change: Callable[[str], str]) -> Callable[[dict[str, Any]], None]:
    def fault(content: dict[str, Any]) -> None:
        rule = next(rule for rule in rules_in(content) if rule.get("alert") == name)
        rule["expr"] = change(rule["expr"])

    return fault


FAULTS = {
    "tokens of all copies for those of one": replaced("JobSlowerThanPlanned", " * sum", " / 1000 * sum"),
    "no queue beside slow tokens": of_alert("JobSlowerThanPlanned", lambda e: e.partition(" and min_over")[0]),
    "a batch that is fed for one that is not": replaced("JobNotFed", " < on", " > on"),
    "no copy is left for one that is missing": replaced("JobCopyMissing", "> 0", "> 1000"),
    "minutes for seconds": of_alert("JobLongerThanPlanned", lambda e: re.sub(r"> (\d)", r"> 60\1", e)),
    "money of a minute for that of the run": of_alert(
        "JobDearerThanPlanned", lambda e: e.replace("spent:usd", "usd_per_hour")
    ),
    "a twin that waits for no job": replaced("MetricAbsent", 'phase="Running"', 'phase="Waiting"'),
    "a deadline that is not the plan's": of_alert("JobPastItsDeadline", lambda e: re.sub(r"> (\d)", r"> 1\1", e)),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_planted_faults_are_found(fault: str | None, tmp_path: Path) -> None:
    content = copy.deepcopy(yaml_of(files("batch"), "rules.yml"))
    written_to(tmp_path, files("batch").files)
    if fault is not None:
        FAULTS[fault](content)
    (tmp_path / "rules.yml").write_text(yaml_text(content), encoding="utf-8")
    assert bool(told_by("promtool", "test", "rules", "rules_test.yml", at=tmp_path)) is (fault is not None)
