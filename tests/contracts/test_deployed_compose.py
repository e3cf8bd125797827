"""Files of Docker Compose: held to its fields, true to the plan, each GPU and port given once."""

from __future__ import annotations

import copy
import random
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest
import yaml
from tests.contracts.compose_faults import faults
from tests.effort import cases

import gpufleet
from gpufleet import DeployedPlan, ServePlan
from gpufleet.errors import Infeasible, UsageError
from gpufleet.results.fleet import FleetPlan, MissingMachines

IMAGE = "registry.example/engine:1"
MODELS = ("llama-3.1-8b", "qwen3-32b", "gpt-oss-20b")


@lru_cache
def on_one_machine(number: int) -> ServePlan:
    """A plan whose answer is one machine, drawn by its number, at a rate that one carries, by an engine that has it."""
    drawn = random.Random(number)
    engine, gpus = drawn.choice(("vllm", "sglang", "tensorrt-llm")), drawn.choice((["A100"], ["H100"], ["MI300X"]))
    said: dict[str, Any] = {"engine": "vllm" if gpus == ["MI300X"] else engine, "gpus": gpus, "rows": 20}
    model, rate = drawn.choice(MODELS), drawn.choice((2.0, 8.0, 20.0, 40.0))
    while True:
        plan = gpufleet.plan_serve(model, rate=rate, input_tokens=500, output_tokens=100, **said)
        alone = [d for d in plan.deployments if d.instance_count == 1]
        if alone:
            return plan.model_copy(update={"deployments": [max(alone, key=lambda d: d.replicas)]})
        if not plan.deployments:
            said["engine"] = "vllm"
        rate /= 2


def compose(found: DeployedPlan) -> Any:
    [content] = [yaml.safe_load(file.text) for file in found.files if file.name == "compose.yaml"]
    return content


@pytest.mark.parametrize("number", range(cases(6, 30)))
def test_files_hold_what_the_plan_rents_and_nothing_twice(number: int) -> None:
    plan = on_one_machine(number)
    content = compose(gpufleet.deploy_plan(plan, "compose", image=IMAGE))
    assert faults(content) == []
    engines = [each for each in content["services"].values() if each["image"] == IMAGE]
    assert len(engines) == plan.answer.replicas
    names = {port.split(":")[1] for each in engines for port in each["ports"]}
    assert len(names) == len(engines)
    if plan.answer.gpu.startswith("MI"):
        given = [each["environment"]["HIP_VISIBLE_DEVICES"].split(",") for each in engines]
    else:
        given = [each["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for each in engines]
    assert all(len(gpus) == plan.answer.gpus_per_replica for gpus in given)
    assert max(Counter(gpu for gpus in given for gpu in gpus).values()) == 1
    assert {int(gpu) for gpus in given for gpu in gpus} <= set(range(int(plan.answer.gpus_per_instance)))


def test_copies_in_containers_are_not_told_ports_and_gpus_by_hand() -> None:
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="60/s", input_tokens=500, output_tokens=100, gpus=["A100"], clouds=["aws"], rows=20
    )
    one = next(d for d in plan.deployments if d.instance_count == 1 and d.replicas > 1)
    assert any("CUDA_VISIBLE_DEVICES" in note for note in (one.launch.notes if one.launch else []))
    found = gpufleet.deploy_plan(plan.model_copy(update={"deployments": [one]}), "compose", image=IMAGE)
    assert not any("CUDA_VISIBLE_DEVICES" in note for note in found.notes)


FAULTS = {
    "misspelt key": lambda s: s.__setitem__("enviroment", {}),
    "number as a port": lambda s: s.__setitem__("ports", [8000]),
    "port open to all": lambda s: s.__setitem__("ports", ["8000:8000"]),
    "period without a unit": lambda s: s.__setitem__("stop_grace_period", "60"),
    "shared memory of no size": lambda s: s.__setitem__("shm_size", "64"),
    "restart by another word": lambda s: s.__setitem__("restart", "forever"),
    "waits for nobody": lambda s: s.__setitem__("depends_on", ["copy-99"]),
    "mounts nothing": lambda s: s.__setitem__("volumes", ["elsewhere:/models"]),
    "retries as text": lambda s: s["healthcheck"].__setitem__("retries", "3"),
    "GPU of another copy": lambda s: device(s).__setitem__("device_ids", ["1"]),
    "GPUs that are counted by name": lambda s: device(s).__setitem__("device_ids", ["all"]),
    "no GPU": lambda s: device(s).__setitem__("capabilities", ["compute"]),
}


def device(service: Any) -> Any:
    return service["deploy"]["resources"]["reservations"]["devices"][0]


@lru_cache
def of_two_copies() -> Any:
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="60/s", input_tokens=500, output_tokens=100, gpus=["A100"], clouds=["aws"], rows=20
    )
    one = next(d for d in plan.deployments if d.instance_count == 1 and d.replicas > 1)
    return compose(gpufleet.deploy_plan(plan.model_copy(update={"deployments": [one]}), "compose", image=IMAGE))


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    content = copy.deepcopy(of_two_copies())
    assert faults(content) == []
    FAULTS[fault](content["services"]["copy-1"])
    assert faults(content)


@lru_cache
def two_models() -> FleetPlan:
    """Two small models, each of which would leave seven of eight GPUs idle."""
    load = {"rate": 2.0, "input_tokens": 500.0, "output_tokens": 100.0, "gpus": ["A100"], "clouds": ["aws"]}
    return gpufleet.plan_fleet([gpufleet.ServeRequest(model, **load) for model in ("llama-3.1-8b", "qwen3-8b")])


def test_models_that_share_a_machine_start_on_it_and_are_paid_once() -> None:
    plan = two_models()
    [shared] = plan.shared
    found = gpufleet.deploy_plan(plan, "compose", image=IMAGE)
    assert found.usd_per_hour == pytest.approx(plan.usd_per_hour)
    assert len(found.machines) == 1
    content = compose(found)
    assert faults(content) == []
    assert len(content["services"]) == sum(tenant.replicas for tenant in shared.tenants)
    pods = [
        yaml.safe_load(file.text)["spec"]["template"]["spec"]
        for file in gpufleet.deploy_plan(plan, "kubernetes", image=IMAGE).files
        if file.name.endswith("deployment.yaml")
    ]
    assert len({str(pod["nodeSelector"]) for pod in pods}) == 1
    memory = [int(pod["containers"][0]["resources"]["requests"]["memory"].removesuffix("Gi")) for pod in pods]
    assert sum(memory) <= shared.gpus_per_instance * max(memory)
    assert max(memory) <= 1152 / shared.gpus_per_instance, "an eighth of the machine for one of eight GPUs"


def test_a_cluster_has_one_group_of_nodes_for_models_that_share_them() -> None:
    plan = two_models()
    [shared] = plan.shared
    files = {file.name: file.text for file in gpufleet.deploy_plan(plan, "eksctl", image=IMAGE).files}
    groups = yaml.safe_load(files["cluster.yaml"])["managedNodeGroups"]
    [nodes] = [group for group in groups if group["instanceTypes"] == [shared.instance]]
    assert nodes["desiredCapacity"] == shared.instance_count
    with pytest.raises(UsageError, match="cannot hold this plan"):
        gpufleet.deploy_plan(plan, "terraform-ecs", image=IMAGE)


def test_models_with_too_few_machines_together_are_not_written() -> None:
    lack = MissingMachines(
        cloud="aws", region="us-east-1", instance="p4de.24xlarge", price_kind="on_demand", can_be_had=1, needed=2
    )
    with pytest.raises(Infeasible, match="too few machines"):
        gpufleet.deploy_plan(two_models().model_copy(update={"missing": [lack], "shared": []}), image=IMAGE)
