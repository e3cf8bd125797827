"""What the seeds' guide shows of monitoring: a metric is found by what it was put with, and costs by their tag."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.aws_parameter_checks import command_problems, json_problems, problems, word_of
from tests.contracts.terraform_checks import module, of_type

import gpufleet
from gpufleet import DeployedPlan
from gpufleet.catalog.load import load_catalog

TOP = Path(__file__).parents[2] / "examples" / "aws-deployment"
MONITORING, CLUSTER = TOP / "monitoring", TOP / "terraform" / "modules" / "gpu_cluster"
GUIDE = (Path(__file__).parent / "seeds" / "selection.md").read_text(encoding="utf-8")
INSTANCE = "i-0123456789abcdef0"
GPUS = "87, 41, 66\n3, 0, 31\n"
FAKES = {
    "curl": f'case "$*" in *api/token*) echo t;; *instance-id*) echo {INSTANCE};; *region*) echo eu-west-1;; esac',
    "nvidia-smi": f'printf "{GPUS}"',
    "aws": f'exec {sys.executable} -c "import json, sys; print(json.dumps(sys.argv[1:]))" "$@" >>"$TOLD"',
}


def told_to_aws(script: Path, tmp_path: Path, *words: str) -> list[list[str]]:
    """What a script asks of `aws`, on a machine of two GPUs."""
    if sys.platform != "linux":
        pytest.skip("GNU date is asked for, as on the machines that it runs on")
    bin_, told = tmp_path / "bin", tmp_path / "told"
    bin_.mkdir(exist_ok=True)
    for name, text in FAKES.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "TOLD": str(told)}
    done = subprocess.run(["sh", str(script), *words], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    told.unlink()
    return lines


def word(asked: list[str], name: str) -> str:
    return asked[asked.index(f"--{name}") + 1]


def put(script: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Values that are put, each with its namespace."""
    found = []
    for asked in told_to_aws(script, tmp_path):
        assert asked[:2] == ["cloudwatch", "put-metric-data"]
        data = json.loads(word(asked, "metric-data"))
        said = {"Namespace": word(asked, "namespace"), "MetricData": data}
        assert problems("cloudwatch", "PutMetricData", said) == []
        found += [{**one, "Namespace": said["Namespace"]} for one in data]
    return found


def found_by(asked: list[str], values: list[dict[str, Any]]) -> list[float]:
    """Values that a query finds: CloudWatch takes those with just its dimensions."""
    name, value = re.fullmatch(r"Name=(.*),Value=(.*)", word(asked, "dimensions"), re.DOTALL).groups()  # type: ignore[union-attr]
    wanted = [{"Name": name, "Value": value}]
    return [
        one["Value"]
        for one in values
        if one["Namespace"] == word(asked, "namespace")
        and one["MetricName"] == word(asked, "metric-name")
        and one.get("Dimensions") == wanted
    ]


def test_the_query_of_the_guide_finds_what_the_machine_has_put(tmp_path: Path) -> None:
    values = put(MONITORING / "gpu-metrics.sh", tmp_path)
    assert {one["MetricName"] for one in values} == {"GPUUtilization", "GPUMemoryUtilization", "GPUTemperature"}
    [asked] = told_to_aws(MONITORING / "gpu-utilization.sh", tmp_path, INSTANCE)
    assert command_problems("aws " + " ".join(f"'{one}'" for one in asked)) == []
    assert found_by(asked, values) == [87, 3]
    for name in ("namespace", "metric-name"):
        assert word(asked, name) in GUIDE
    assert int(word(asked, "period")) % 60 == 0


def test_a_metric_without_its_dimension_is_not_found(tmp_path: Path) -> None:
    """The guide's own fault: it puts no InstanceId, and asks by it."""
    assert "--dimensions" not in GUIDE.partition("put-metric-data")[2].partition("```")[0]
    text = (MONITORING / "gpu-metrics.sh").read_text(encoding="utf-8")
    faulty = tmp_path / "faulty.sh"
    faulty.write_text(text.replace("InstanceId", "Host"))
    [asked] = told_to_aws(MONITORING / "gpu-utilization.sh", tmp_path, INSTANCE)
    assert found_by(asked, put(faulty, tmp_path)) == []


def test_scripts_are_sound() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    scripts = sorted(str(path) for path in MONITORING.glob("*.sh"))
    assert len(scripts) == 2
    done = subprocess.run([shellcheck, *scripts], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_a_machine_may_put_metrics_of_that_name_alone() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in CLUSTER.glob("*.tf")}
    policy = of_type(module(texts), "aws_iam_role_policy")["metrics"]
    assert policy["role"] == "${aws_iam_role.machines.id}"
    said = policy["policy"]
    assert re.findall(r'"?Action"?\s*[=:]\s*"([^"]+)"', said) == ["cloudwatch:PutMetricData"]
    script = (MONITORING / "gpu-metrics.sh").read_text(encoding="utf-8")
    [namespace] = re.findall(r"--namespace (\S+)", script)
    assert re.findall(r'cloudwatch:namespace"?\s*[=:]\s*"([^"]+)"', said) == [namespace]


def test_nvidia_smi_comes_with_the_driver_and_no_package_of_another_name_is_installed() -> None:
    page = (TOP / "README.md").read_text(encoding="utf-8")
    assert "nvidia-utils" in GUIDE
    assert re.search(r"docker exec -it \S+ nvidia-smi -l 1", page)
    texts = [path.read_text(encoding="utf-8") for path in TOP.rglob("*") if path.is_file()]
    assert not [text for text in texts if "nvidia-utils" in text]


@lru_cache
def deployed() -> DeployedPlan:
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="20/s", input_tokens=1000, output_tokens=200, clouds=["aws"], rows=1
    )
    return gpufleet.deploy_plan(plan, "terraform-ecs", image="registry.example/engine:1")


def tags_on_what_costs(files: Mapping[str, str]) -> dict[str, set[str]]:
    """Tags of what the bill counts: machines by their group, disks by their template, the rest by default."""
    whole = module(files)
    [group] = of_type(whole, "aws_autoscaling_group").values()
    [template] = of_type(whole, "aws_launch_template").values()
    [provider] = [one["aws"] for one in whole["provider"]]
    volumes = [one["tags"] for one in template.get("tag_specifications", []) if one["resource_type"] == "volume"]
    return {
        "machines": {tag["key"] for tag in group["tag"] if tag["propagate_at_launch"]},
        "disks": set().union(*volumes),
        "the rest": set(provider["default_tags"][0]["tags"]),
    }


def test_costs_are_asked_for_by_a_tag_that_all_that_costs_has() -> None:
    """AWS's own words: GetCostAndUsage with a filter by tag."""
    found = deployed()
    files = {file.name: file.text for file in found.files if file.name.endswith(".tf")}
    commands = [step.command for step in found.steps if step.command.startswith("aws ce ")]
    [turned_on, asked] = commands
    assert [problem for command in commands for problem in command_problems(command)] == []
    assert json_problems(asked, "Filter") == []
    said = json.loads(word_of(asked, "filter"))["Tags"]
    assert word_of(turned_on, "cost-allocation-tags-status") == f"TagKey={said['Key']},Status=Active"
    for what, tags in tags_on_what_costs(files).items():
        assert said["Key"] in tags, what
    [variable] = [block["name"] for block in module(files)["variable"] if "name" in block]
    assert said["Values"] == [variable["default"]]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (r'    key                 = "gpufleet"', '    key                 = "project"', "machines"),
        (r'resource_type = "volume"', 'resource_type = "instance"', "disks"),
    ],
)
def test_a_cost_without_the_tag_is_found(old: str, new: str, what: str) -> None:
    files = {file.name: file.text for file in deployed().files if file.name.endswith(".tf")}
    faulty = {name: re.sub(old, new, text) for name, text in files.items()}
    assert faulty != files
    assert "gpufleet" not in tags_on_what_costs(faulty)[what]


def test_a_filter_of_another_shape_is_found() -> None:
    [_, asked] = [step.command for step in deployed().steps if step.command.startswith("aws ce ")]
    assert json_problems(asked.replace('"Key"', '"Name"'), "Filter")
    assert command_problems(asked.replace("--metrics", "--metric"))


def said_of_sagemaker() -> dict[str, set[str]]:
    """Families and types of each row of the page, by what they do on SageMaker."""
    page = (TOP.parents[1] / "docs" / "deploy_aws.md").read_text(encoding="utf-8").partition("## On SageMaker")[2]
    rows = re.findall(r"^\| (`.*`) \| ([a-z ]+) \|$", page, re.MULTILINE)
    return {what: set(re.findall(r"`([^`]+)`", names)) for names, what in rows}


def on_sagemaker(name: str) -> str:
    """What AWS's own client lets a type do there."""
    with (Path(__file__).parent / "fields" / "sagemaker_instances.csv").open(encoding="utf-8", newline="") as file:
        known = {row["name"]: (row["trains"], row["serves"]) for row in csv.DictReader(file)}
    ways = {("yes", "yes"): "train and serve", ("yes", "no"): "train alone", ("no", "yes"): "serve alone"}
    return ways.get(known.get(f"ml.{name}", ("no", "no")), "are not there")


def test_names_of_sagemaker_are_told_for_every_type_of_the_catalog() -> None:
    page = said_of_sagemaker()
    assert sum(map(len, page.values())) > 20
    held = [name for cloud, name in load_catalog().instances if cloud == "aws"]
    for name in held:
        told = [what for what, names in page.items() if name in names]
        told = told or [what for what, names in page.items() if name.partition(".")[0] in names]
        assert told == [on_sagemaker(name)], name
    families = {name.partition(".")[0] for name in held}
    assert {one.partition(".")[0] for names in page.values() for one in names} == families
    assert "ml.p3.8xlarge" in GUIDE
    assert on_sagemaker("p3.8xlarge") == "train and serve", "its name holds; EC2 no longer starts it"
