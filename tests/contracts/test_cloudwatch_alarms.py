"""Alarms of CloudWatch: true to the provider's schema, to what AWS reports, and to the plan.

`cloudwatch_metrics.csv` says of each metric its unit, statistics, dimensions and when it is reported, from the pages of
AWS that it names.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import RunGpufleet
from tests.contracts.aws_parameter_checks import command_problems, problems
from tests.contracts.terraform_checks import module, of_type, parsed, problems_of, unchecked
from tests.effort import cases

import gpufleet
from gpufleet import AlertFiles, ServePlan
from gpufleet.errors import GpufleetError, UsageError

IMAGE = "registry.example/engine:1"
TABLE = Path(__file__).parent / "cloudwatch_metrics.csv"
SLOS = ("ttft.p95<1s,latency.p95<45s", "latency.p99<60s", "ttft.p95<2s", "latency.mean<40s", None)
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b")
DAY_S = 86400
OPERATORS = {"LessThanThreshold", "GreaterThanThreshold"}
STATISTICS = {"Average", "Minimum", "Maximum", "Sum", "SampleCount"}
DIMENSIONS = {
    "LoadBalancer": r"\$\{aws_lb\.serving\.arn_suffix\}|aws_lb\.serving\.arn_suffix",
    "TargetGroup": r"(\$\{)?aws_lb_target_group\.\w+\.arn_suffix\}?",
    "AutoScalingGroupName": r"(\$\{)?aws_autoscaling_group\.\w+\.name\}?",
}
SILENT_WITHOUT_REQUESTS = {"nonzero"}


@lru_cache
def metrics() -> list[Mapping[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@lru_cache
def plan(number: int = 0) -> ServePlan:
    """Plans with each kind of limit in turn, of several copies and of one."""
    slo, rate = SLOS[number % len(SLOS)], (20, 2, 5)[number % 3]
    said: dict[str, Any] = {"clouds": ["aws"], "rows": 1, "rate": f"{rate}/s", **({"slo": slo} if slo else {})}
    return gpufleet.plan_serve(MODELS[number % len(MODELS)], input_tokens=1000, output_tokens=200, **said)


@lru_cache
def written(number: int = 0) -> AlertFiles:
    return gpufleet.watch_plan(plan(number), "cloudwatch")


@lru_cache
def deployed(number: int = 0) -> dict[str, str]:
    found = gpufleet.deploy_plan(plan(number), "terraform-ecs", image=IMAGE)
    return {file.name: file.text for file in found.files if file.name.endswith(".tf")}


def terraform(found: AlertFiles) -> dict[str, str]:
    return {file.name: file.text for file in found.files if file.name.endswith(".tf")}


def alarms_in(files: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Alarms by the end of their names."""
    found = of_type(module(files), "aws_cloudwatch_metric_alarm")
    return {name.rpartition("_")[2]: alarm for name, alarm in found.items()}


def measured_by(alarm: Mapping[str, Any]) -> Iterator[tuple[str, str, str, set[str]]]:
    """Namespace, metric, statistic and dimensions of all that an alarm reads."""
    if "metric_name" in alarm:
        statistic = alarm.get("statistic", alarm.get("extended_statistic", ""))
        yield alarm["namespace"], alarm["metric_name"], statistic, set(alarm.get("dimensions", {}))
    for query in alarm.get("metric_query", []):
        for metric in query.get("metric", []):
            yield metric["namespace"], metric["metric_name"], metric["stat"], set(metric.get("dimensions", {}))


def row_of(namespace: str, metric: str, dimensions: set[str]) -> Mapping[str, str] | None:
    for row in metrics():
        if (row["namespace"], row["metric"], set(row["dimensions"].split())) == (namespace, metric, dimensions):
            return row
    return None


def metric_problems(alarm: Mapping[str, Any]) -> Iterator[str]:
    """What AWS does not report, or not so."""
    for namespace, metric, statistic, dimensions in measured_by(alarm):
        row = row_of(namespace, metric, dimensions)
        if row is None:
            yield f"no {namespace} {metric} by {sorted(dimensions)}"
            continue
        if alarm.get("unit", row["unit"]) != row["unit"]:
            yield f"{metric} is in {row['unit']}"
        kind = "percentile" if re.fullmatch(r"p\d+(\.\d+)?", statistic) else statistic
        if kind not in row["statistics"].split():
            yield f"{statistic} of {metric} means nothing"
        for name, value in alarm.get("dimensions", {}).items():
            if not re.fullmatch(DIMENSIONS[name], value):
                yield f"{name} is {value}"
    if alarm.get("statistic", "Sum") not in STATISTICS:
        yield "a percentile is an extended statistic"
    if alarm.get("extended_statistic", "p50") in STATISTICS or ("statistic" in alarm and "extended_statistic" in alarm):
        yield "one statistic, in its own field"


def time_problems(alarm: Mapping[str, Any]) -> Iterator[str]:
    """Periods that CloudWatch does not take, or more of them than it looks back."""
    periods = [alarm["period"]] if "period" in alarm else []
    periods += [metric["period"] for query in alarm.get("metric_query", []) for metric in query.get("metric", [])]
    for period in periods:
        if period <= 0 or period % 60:
            yield f"a period of {period} s"
        elif alarm["evaluation_periods"] * period > DAY_S:
            yield "looks back more than a day"
    if not 1 <= alarm.get("datapoints_to_alarm", 1) <= alarm["evaluation_periods"]:
        yield "more points than periods"


def absence_problems(alarm: Mapping[str, Any]) -> Iterator[str]:
    """What is reported at all times is broken where it is not; what idle services do not report is not."""
    if alarm.get("treat_missing_data") not in {"breaching", "notBreaching"}:
        yield "nobody hears of a metric that is gone"
    told = [row_of(namespace, metric, dimensions) for namespace, metric, _, dimensions in measured_by(alarm)]
    silent = all(row is not None and row["reported"] in SILENT_WITHOUT_REQUESTS for row in told)
    if silent and alarm.get("treat_missing_data") == "breaching":
        yield "fires where nobody asks"
    if alarm["comparison_operator"] == "LessThanThreshold" and alarm.get("treat_missing_data") != "breaching":
        yield "silent where none is left"


def expected(number: int) -> dict[str, tuple[str, float]]:
    """What the plan says of each alarm: the way and the limit, worked out from the plan alone."""
    found = plan(number)
    d = found.answer
    rate = (20, 2, 5)[number % 3]
    least = min(max(-(-rate * d.replicas // d.requests_per_s_capacity.value), 1), d.replicas)
    limits = {
        "RequestsFail": ("Greater", 1.0),
        "RequestsRefused": ("Greater", 1.0),
        "MoreThanCarried": ("Greater", 60 * d.requests_per_s_capacity.value),
        "TooFewCopies": ("Less", least),
        "CopyDoesNotAnswer": ("Greater", 0),
        "MachineMissing": ("Less", d.instance_count),
        "PaidButIdle": ("Less", 0.25 * rate * 3600),
        "GpuHot": ("Greater", 85.0),
    }
    limits |= {"CopyMissing": ("Less", d.replicas)} if d.replicas > 1 else {}
    for name, limit in found.objectives.items():
        if name.startswith("latency."):
            limits[f"Latency{name.split('.')[1].title()}AboveLimit"] = ("Greater", limit)
    for name, figure in d.latency.items():
        limit = found.objectives.get(name, float("inf"))
        if name.startswith("latency.") and figure.high is not None and figure.high < limit:
            limits[f"Latency{name.split('.')[1].title()}WorseThanPredicted"] = ("Greater", figure.high)
    return limits


def plan_problems(alarms: Mapping[str, Mapping[str, Any]], number: int) -> Iterator[str]:
    """Alarms whose limit is not the plan's, and limits of the plan without an alarm."""
    limits = expected(number)
    yield from (f"nothing watches {name}" for name in limits if name not in alarms)
    for name, alarm in alarms.items():
        if name == "GpuAboveItsCard":
            continue
        if name not in limits:
            yield f"{name} is not of the plan"
            continue
        way, limit = limits[name]
        if not alarm["comparison_operator"].startswith(way):
            yield f"{name} the wrong way"
        if alarm["threshold"] != pytest.approx(limit, rel=1e-5):
            yield f"{name} at {alarm['threshold']}, not {limit}"


def faults(files: Mapping[str, str], number: int = 0) -> list[str]:
    """All that is wrong with alarms beside the module that they name."""
    unread = problems_of({**deployed(number), **files})
    if unread:
        return unread
    alarms = alarms_in(files)
    checks = (metric_problems, time_problems, absence_problems)
    found = [f"{name}: {problem}" for name, alarm in alarms.items() for check in checks for problem in check(alarm)]
    found += [f"{name}: tells nobody" for name, alarm in alarms.items() if not alarm.get("alarm_actions")]
    found += [
        f"{name}: {alarm['comparison_operator']}"
        for name, alarm in alarms.items()
        if alarm["comparison_operator"] not in OPERATORS
    ]
    enabled = {
        m for g in of_type(module(deployed(number)), "aws_autoscaling_group").values() for m in g["enabled_metrics"]
    }
    asked = {metric for a in alarms.values() for space, metric, *_ in measured_by(a) if space == "AWS/AutoScaling"}
    return [*found, *(f"{metric} is off" for metric in asked - enabled), *plan_problems(alarms, number)]


@pytest.mark.parametrize("number", range(cases(5, 15)))
def test_alarms_hold_to_the_schema_to_what_aws_reports_and_to_the_plan(number: int) -> None:
    files = terraform(written(number))
    assert faults(files, number) == []
    assert unchecked(module(files)) == []


FAULTS = {
    "milliseconds for seconds": ('"TargetResponseTime"', '"TargetResponseTime"\n  unit = "Milliseconds"', "in Seconds"),
    "a limit in milliseconds": (r"threshold( +)= 45\n", r"threshold\1= 45000\n", "not 45"),
    "no target group": (r"    TargetGroup +=.*\n", "", "no AWS/ApplicationELB"),
    "the group's whole ARN": (r"(aws_lb_target_group\.\w+)\.arn_suffix", r"\1.arn", "TargetGroup is"),
    "the wrong way": (r'"LessThanThreshold"', '"GreaterThanThreshold"', "the wrong way"),
    "a percentile as a statistic": (r"extended_statistic  = ", "statistic  = ", "extended statistic"),
    "a period of 90 seconds": (r"period( +)= 60\n", r"period\1= 90\n", "a period of 90"),
    "a limit of somebody else": (r"threshold( +)= 1719\S*", r"threshold\1= 1000", "not 17"),
    "silence taken for health": (r'"breaching"', '"notBreaching"', "silent where none is left"),
    "idleness taken for a fault": (r'"notBreaching"', '"breaching"', "fires where nobody asks"),
    "a metric that is not": ("HealthyHostCount", "HealthyHosts", "no AWS/ApplicationELB HealthyHosts"),
    "the agent's section for its name": ("nvidia_smi_temperature_gpu", "nvidia_gpu_temperature_gpu", "no CWAgent"),
    "a mean of requests": (r'("RequestCount"\n  statistic +)= "Sum"', r'\1= "Average"', "means nothing"),
    "nobody told": (r"  alarm_actions +=.*\n", "", "tells nobody"),
    "another module's balancer": (r"aws_lb\.serving", "aws_lb.other", "is nowhere"),
    "an attribute misspelt": ("evaluation_periods ", "evaluation_period ", "no evaluation_period"),
    "two days of looking back": (r"evaluation_periods  = 29", "evaluation_periods  = 2900", "more than a day"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, found = FAULTS[fault]
    files = terraform(written())
    faulty = {name: re.sub(old, new, text, count=1) for name, text in files.items()}
    assert faulty != files
    assert any(found in problem for problem in faults(faulty)), faults(faulty)


def test_a_share_is_made_of_queries_that_are_there_and_one_is_returned() -> None:
    shares = [alarm for alarm in alarms_in(terraform(written())).values() if "metric_query" in alarm]
    assert len(shares) == 2
    for alarm in shares:
        assert not set(alarm) & {"metric_name", "namespace", "period", "statistic", "extended_statistic", "dimensions"}
        ids = {query["id"] for query in alarm["metric_query"] if "metric" in query}
        [share] = [query for query in alarm["metric_query"] if query.get("return_data")]
        assert set(re.findall(r"[a-z][a-z0-9_]*", share["expression"])) == ids == {"failed", "asked"}


def test_no_time_to_a_first_token_is_watched_and_the_page_says_why() -> None:
    found = written(2)
    assert "ttft.p95" in plan(2).objectives
    assert not [row for row in found.alerts if "Ttft" in row.name or "Tpot" in row.name]
    assert any(line.startswith("ttft and tpot") and "headers" in line for line in found.unwatched)


def test_the_agent_reads_what_the_alarms_ask_for_and_may_report_it() -> None:
    files = terraform(written())
    whole = module({**deployed(), **files})
    [parameter] = of_type(whole, "aws_ssm_parameter").values()
    code = re.fullmatch(r"\$\{jsonencode\((.*)\)\}", parameter["value"], re.DOTALL)
    assert code is not None
    said = parsed(f"a = {code[1]}\n")["a"]["metrics"]
    read = {f"nvidia_smi_{name}" for name in said["metrics_collected"]["nvidia_gpu"]["measurement"]}
    asked = {metric for a in alarms_in(files).values() for space, metric, *_ in measured_by(a) if space == "CWAgent"}
    assert read == asked
    assert said["namespace"] == "CWAgent"
    assert said["aggregation_dimensions"] == [["AutoScalingGroupName"]]
    assert "AutoScalingGroupName" in said["append_dimensions"]
    assert r"\u0024{aws:AutoScalingGroupName}" in files["agent.tf"], "Terraform would take it for an expression"
    assert str(parameter["name"]).startswith("AmazonCloudWatch-"), "what its policy lets it read"
    attached = [one["policy_arn"] for one in of_type(whole, "aws_iam_role_policy_attachment").values()]
    assert any(str(arn).endswith("policy/CloudWatchAgentServerPolicy") for arn in attached)
    names = {tag["value"] for tag in next(iter(of_type(whole, "aws_autoscaling_group").values()))["tag"]}
    for association in of_type(whole, "aws_ssm_association").values():
        [targets] = association["targets"]
        assert targets["key"] == "tag:Name"
        assert set(targets["values"]) <= names


def test_what_terraform_asks_of_aws_has_the_shape_that_aws_takes() -> None:
    """The parameters of PutMetricAlarm and CreateAssociation, worked out of the files."""
    files = terraform(written())
    for name, alarm in alarms_in(files).items():
        said = {"AlarmName": name, **{camel(key): value for key, value in alarm.items() if key in PLAIN}}
        dimensions = [{"Name": key, "Value": str(value)} for key, value in alarm.get("dimensions", {}).items()]
        said |= {"Dimensions": dimensions} if dimensions else {}
        assert not problems("cloudwatch", "PutMetricAlarm", said)
        assert len(alarm["alarm_description"]) <= 1024
    for association in of_type(module(files), "aws_ssm_association").values():
        parameters = {key: [str(value)] for key, value in association["parameters"].items()}
        assert not problems("ssm", "CreateAssociation", {"Name": association["name"], "Parameters": parameters})
    assert problems("cloudwatch", "PutMetricAlarm", {"AlarmName": "a", "EvaluationPeriod": 1}), "a fault is found"


PLAIN = {
    "alarm_description", "comparison_operator", "evaluation_periods", "datapoints_to_alarm", "threshold",
    "treat_missing_data", "metric_name", "namespace", "statistic", "extended_statistic", "period",
}  # fmt: skip


def camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


def test_commands_are_those_that_the_client_of_aws_knows() -> None:
    found = written()
    commands = [row.command for row in found.alerts] + [step.command for step in found.steps]
    asked = [command for command in commands if command.startswith("aws ") and not command.startswith("aws logs tail ")]
    assert len(asked) > 5
    assert [problem for command in asked for problem in command_problems(command)] == []
    assert command_problems("aws cloudwatch describe-alarm --alarm-name-prefix a")
    assert command_problems("aws cloudwatch describe-alarms --alarm-prefix a")


def test_two_groups_have_alarms_of_their_own_and_one_on_what_they_share() -> None:
    load = {"clouds": ["aws"], "input_tokens": 1000.0, "output_tokens": 200.0}
    asked = [gpufleet.ServeRequest("qwen3-32b", rate=rate, gpus=["L40S"], **load) for rate in (1.0, 2.0)]
    fleet = gpufleet.plan_fleet(asked)
    beside = {file.name: file.text for file in gpufleet.deploy_plan(fleet, "terraform-ecs", image=IMAGE).files}
    files = terraform(gpufleet.watch_plan(fleet, "cloudwatch"))
    assert problems_of({**{n: t for n, t in beside.items() if n.endswith(".tf")}, **files}) == []
    names = list(of_type(module(files), "aws_cloudwatch_metric_alarm"))
    assert sum(name.endswith("TooFewCopies") for name in names) == 2
    assert sum(name.endswith("RequestsRefused") for name in names) == 1


def test_terraform_would_lay_the_files_out_no_other_way(tmp_path: Path) -> None:
    tool = shutil.which("terraform")
    if tool is None:
        pytest.skip("terraform is not installed")
    for number in range(len(SLOS)):
        (tmp_path / str(number)).mkdir()
        for name, text in terraform(written(number)).items():
            (tmp_path / str(number) / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [tool, "fmt", "-check", "-recursive", "-diff", str(tmp_path)], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"")


@settings(max_examples=cases(10, 100))
@given(st.text(min_size=1, max_size=300))
def test_no_name_leaves_its_place(name: str) -> None:
    try:
        found = gpufleet.watch_plan(plan().model_copy(update={"model": name}), "cloudwatch")
    except GpufleetError:
        return
    assert set(alarms_in(terraform(found))) == set(alarms_in(terraform(written())))


@pytest.mark.parametrize("words", [("--seed-thresholds",), ("--budget", "500/day")], ids=repr)
def test_what_has_to_be_a_rule_of_prometheus_is_refused(
    words: tuple[str, ...], ask_gpufleet: RunGpufleet, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text(plan().to_json(), encoding="utf-8")
    done = ask_gpufleet("alerts", "plan.json", "--to", "cloudwatch", *words)
    assert done.returncode == 2
    assert "--to prometheus" in done.stderr
    assert "Traceback" not in done.stderr


def test_machines_of_another_cloud_are_refused() -> None:
    elsewhere = gpufleet.plan_serve(
        "llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200, clouds=["gcp"], rows=1
    )
    with pytest.raises(UsageError):
        gpufleet.watch_plan(elsewhere, "cloudwatch")


def test_models_that_share_machines_are_refused_as_deploy_refuses_them() -> None:
    load = {"rate": 2.0, "input_tokens": 500.0, "output_tokens": 100.0, "gpus": ["A100"], "clouds": ["aws"]}
    shared = gpufleet.plan_fleet([gpufleet.ServeRequest(model, **load) for model in ("llama-3.1-8b", "qwen3-8b")])
    assert shared.shared
    for refuse in (
        lambda: gpufleet.watch_plan(shared, "cloudwatch"),
        lambda: gpufleet.deploy_plan(shared, "terraform-ecs", image=IMAGE),
    ):
        with pytest.raises(UsageError) as refused:
            refuse()
        assert "share machines" in f"{refused.value} {refused.value.found}"


def test_the_same_plan_gives_the_same_bytes_and_alerts_say_which_fire_when_absent() -> None:
    again = gpufleet.watch_plan(plan(), "cloudwatch")
    assert again.model_dump() == written().model_dump()
    own = {row.name for row in again.alerts if row.fires_when_absent}
    assert own == {"TooFewCopies", "CopyMissing", "MachineMissing", "PaidButIdle", "GpuHot"}
    assert again.num_twins == len(own)
    assert json.loads(again.to_json())["num_twins"] == 5
