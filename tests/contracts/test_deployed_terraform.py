"""Terraform that starts a plan on ECS: true to the provider's schema, to the plan, and safe whatever it is called."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.terraform_checks import (
    containers,
    module,
    of_type,
    problems_of,
    resources,
    schema_problems,
    unchecked,
)
from tests.effort import cases

import gpufleet
from gpufleet import DeployedPlan, ServePlan
from gpufleet.catalog.load import load_catalog
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.results.plan import Deployment, MixedDeployment, MixPart

IMAGE, TARGET = "registry.example/engine:1", "terraform-ecs"
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "gpt-oss-120b", "mixtral-8x7b")
NUM_PLANS = 30
MIB_OF_A_GIB = 1024


@lru_cache
def plan(number: int) -> ServePlan:
    """One of many plans on machines of AWS, drawn by its number."""
    drawn = random.Random(number)
    said: dict[str, Any] = {"engine": drawn.choice(("vllm", "sglang", "tensorrt-llm")), "clouds": ["aws"], "rows": 1}
    kind, rate = drawn.choice(("on_demand", "spot", "commit_1y")), drawn.choice((1, 3, 10, 40))
    tokens = drawn.choice(((500, 100), (2000, 300), (8000, 400)))
    load = {"rate": f"{rate}/s", "input_tokens": tokens[0], "output_tokens": tokens[1]}
    return gpufleet.plan_serve(drawn.choice(MODELS), pricing=[kind], **load, **said)


@lru_cache
def deployed(number: int) -> DeployedPlan:
    return gpufleet.deploy_plan(plan(number), TARGET, image=IMAGE)


def files_of(found: DeployedPlan) -> dict[str, str]:
    return {file.name: file.text for file in found.files if file.name != "gpufleet.json"}


@pytest.mark.parametrize("number", range(cases(6, NUM_PLANS)))
def test_terraform_holds_to_the_schema_and_to_the_plan(number: int) -> None:
    files, answer = files_of(deployed(number)), plan(number).answer
    assert problems_of(files) == []
    whole = module(files)
    assert unchecked(whole) == []
    machine = load_catalog().instances["aws", answer.instance]
    [group] = of_type(whole, "aws_autoscaling_group").values()
    assert group["min_size"] == group["max_size"] == group["desired_capacity"] == answer.instance_count
    [template] = of_type(whole, "aws_launch_template").values()
    assert template["instance_type"] == answer.instance
    assert ("mixed_instances_policy" in group) is (answer.price_kind == "spot")
    [service] = of_type(whole, "aws_ecs_service").values()
    assert service["desired_count"] == answer.replicas
    assert 0 <= answer.replicas * service["deployment_minimum_healthy_percent"] <= 100 * (answer.replicas - 1)
    [engine] = containers(next(iter(of_type(whole, "aws_ecs_task_definition").values())))
    assert engine["resourceRequirements"] == [{"type": "GPU", "value": str(answer.gpus_per_replica)}]
    copies = -(-answer.replicas // answer.instance_count)
    assert machine.memory_gib is not None
    assert machine.vcpus is not None
    assert engine["memory"] * copies < MIB_OF_A_GIB * machine.memory_gib
    assert engine["cpu"] * copies < 1024 * machine.vcpus
    [quota] = [step for step in deployed(number).steps if "service-quotas" in step.command]
    assert str(machine.vcpus * answer.instance_count) in quota.purpose.split()


FAULTS = {
    "an attribute misspelt": ("instance_type ", "instance_typ ", "no instance_typ"),
    "a block misspelt": ("metadata_options {", "metadata_option {", "no metadata_option"),
    "a block as an attribute": ("metadata_options {", "metadata_options = {", "is a block"),
    "an attribute that has to be": (r"  max_size +=.*\n", "", "lacks max_size"),
    "a number as a word": (r"desired_count( +)= \d+", r'desired_count\1= "two"', "not number"),
    "a word for yes": (r"force_delete( +)= true", r'force_delete\1= "maybe"', "not boolean"),
    "GiB for MiB": (r"memory( +)= \d+", r"memory\1= 27", "memory is in MiB"),
    "everybody let in": (r"cidr_ipv4( +)= each.value", r'cidr_ipv4\1= "0.0.0.0/0"', "open to everybody"),
    "everybody allowed": (r"default( +)= \[\]", r'default\1= ["0.0.0.0/0"]', "before anybody said so"),
    "no execution role": (r"  execution_role_arn.*\n", "", "nothing lets ECS"),
    "no GPU": ("resourceRequirements", "resourcesRequired", "no GPU"),
    "a GPU as a number": (r'value = "\d+"', "value = 1", "not string"),
    "the shared memory of Docker": (r"sharedMemorySize = \d+", "sharedMemorySize = 64", "64 MiB"),
    "a member misspelt": ("sharedMemorySize", "sharedMemory", "has no sharedMemory"),
    "the latest image": (r"engine:1", "engine:latest", "any version of an image"),
    "no tag": (r"engine:1", "engine", "any version of an image"),
    "applied unasked": ("terraform apply", "terraform apply -auto-approve", "without a question"),
    "a token in a file": (r'"HF_HOME"\n', '"HF_HOME"\n          note = "hf_abcdefgh12345678"\n', "a token"),
    "metadata for whoever asks": (r'http_tokens( +)= "required"', r'http_tokens\1= "optional"', "without a token"),
    "a rollout beside": (r"maximum_percent( +)= 100", r"maximum_percent\1= 200", "needs a free GPU"),
    "zones rebalanced": ('"DISABLED"', '"ENABLED"', "needs a free GPU"),
    "stopped while it loads": (r"  health_check_grace_period.*\n", "", "while it loads"),
    "a balancer in a hurry": (r"idle_timeout( +)= \d+", r"idle_timeout\1= 30", "before an answer"),
    "a balancer outside": (r"internal( +)= true", r"internal\1= false", "open to the internet"),
    "a role that is nowhere": ("aws_iam_role.starting.arn", "aws_iam_role.stating.arn", "is nowhere"),
    "a variable that is nowhere": (r"var\.subnet_ids", "var.subnets", "is nowhere"),
    "any provider": ("~> 6.0", ">= 6.0", "any version of aws"),
    "a small disk": (r"volume_size( +)= \d+", r"volume_size\1= 8", "holds no engine"),
    "half a file": (r"\n}\n\Z", "\n", "not read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, found = FAULTS[fault]
    files = files_of(deployed(0))
    faulty = {name: re.sub(old, new, text, count=1) for name, text in files.items()}
    assert faulty != files
    assert any(found in problem for problem in problems_of(faulty))


def test_terraform_would_lay_the_files_out_no_other_way(tmp_path: Path) -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed")
    for number in range(cases(6, NUM_PLANS)):
        (tmp_path / str(number)).mkdir()
        for name, text in files_of(deployed(number)).items():
            if name.endswith(".tf"):
                (tmp_path / str(number) / name).write_text(text, encoding="utf-8")
    done = subprocess.run([terraform, "fmt", "-check", "-recursive", "-diff", str(tmp_path)], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


@settings(max_examples=cases(10, 100))
@given(st.text(min_size=1, max_size=300))
def test_no_name_leaves_its_place(name: str) -> None:
    try:
        found = gpufleet.deploy_plan(plan(0).model_copy(update={"model": name}), TARGET, image=IMAGE)
    except GpufleetError:
        return
    files = files_of(found)
    kinds = Counter(kind for kind, _, _ in resources(module(files)))
    assert kinds == Counter(kind for kind, _, _ in resources(module(files_of(deployed(0)))))
    assert list(schema_problems(module(files))) == []
    for path in files:
        assert re.fullmatch(r"[A-Za-z0-9-]+\.(tf|md)", path), path


def test_two_services_have_a_port_each_and_two_offers_of_one_share_its_requests() -> None:
    load = {"clouds": ["aws"], "input_tokens": 1000.0, "output_tokens": 200.0}
    asked = [gpufleet.ServeRequest("qwen3-32b", rate=rate, gpus=["L40S"], **load) for rate in (1.0, 2.0)]
    copies = deploy_of(gpufleet.plan_fleet(asked))
    assert sorted(one["port"] for one in of_type(copies, "aws_lb_listener").values()) == [80, 81]
    assert len(of_type(copies, "aws_ecs_service")) == 2
    [asks] = [one for one in of_type(copies, "aws_vpc_security_group_ingress_rule").values() if "for_each" in one]
    assert (asks["from_port"], asks["to_port"]) == (80, 81)


def test_two_offers_of_one_service_share_its_requests_by_weight() -> None:
    one = plan(0)
    parts = [part(one.answer, share) for share in (0.6, 0.4)]
    spent = {"usd_per_hour": 1.0, "usd_per_month": 730.0, "usd_per_million_output_tokens": 1.0}
    mixed = one.model_copy(update={"deployments": [], "mix": MixedDeployment(parts=parts, **spent)})
    whole = deploy_of(mixed)
    [listener] = of_type(whole, "aws_lb_listener").values()
    [action] = listener["default_action"]
    weights = [target["weight"] for target in action["forward"][0]["target_group"]]
    assert weights == [599, 400]
    fronts = [
        file.name for file in gpufleet.deploy_plan(mixed, "kubernetes", image=IMAGE).files if "-front" in file.name
    ]
    assert len(fronts) == 1, "what a load balancer of ECS does by itself, a router does in a cluster"


def part(deployment: Deployment, share: float) -> MixPart:
    return MixPart(share_ratio=share, requests_per_s=1.0, can_be_had=None, needed_alone=1, deployment=deployment)


def deploy_of(plans: Any) -> dict[str, list[Any]]:
    files = files_of(gpufleet.deploy_plan(plans, TARGET, image=IMAGE))
    assert problems_of(files) == []
    return module(files)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"cloud": "gcp"}, "aws alone"),
        ({"region": "us-east-1-atl-1"}, "local zone"),
        ({"region": "all"}, "prices of all regions|price of all regions"),
        ({"price_kind": "capacity_block"}, "capacity block"),
        ({"instance": "m5.large"}, "GPUs of NVIDIA"),
        ({"gpus_per_instance": 16, "gpus_per_replica": 32}, "several machines"),
    ],
)
def test_what_ecs_cannot_hold_is_refused(said: dict[str, Any], found: str) -> None:
    one = plan(0)
    changed = [one.answer.model_copy(update=said), *one.deployments[1:]]
    with pytest.raises(UsageError) as refused:
        gpufleet.deploy_plan(one.model_copy(update={"deployments": changed}), TARGET, image=IMAGE)
    assert re.search(found, f"{refused.value} {refused.value.found}", re.IGNORECASE)


def test_the_same_plan_gives_the_same_bytes() -> None:
    again = gpufleet.deploy_plan(plan(1), TARGET, image=IMAGE)
    assert again.model_dump() == deployed(1).model_dump()
