"""What a plan rents, read from its files alone and priced by the catalog, is what the plan says; or no file holds it.

Readers here share nothing with what writes the files, and open neither gpufleet.json nor the README.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
import yaml
from tests.contracts.terraform_checks import containers, module, of_type
from tests.contracts.test_deployed_terraform import IMAGE, NUM_PLANS
from tests.contracts.test_deployed_terraform import plan as plan_on_aws
from tests.effort import cases

import gpufleet
from gpufleet import ServePlan
from gpufleet.catalog.load import load_catalog
from gpufleet.results.plan import Deployment

Files = Mapping[str, str]
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
COMMITTED = ("savings_plan", "commit_1y", "commit_3y")


class Rented(NamedTuple):
    """What files say of one group; None where they say nothing."""

    instance: str | None
    machines: int | None
    replicas: int
    gpus: int
    region: str | None
    price_kind: str | None


NOT_HELD: dict[str, set[str]] = {
    "kubernetes": {"machines", "region", "price_kind", "instance where a cloud puts no label on nodes"},
    "compose": {"instance", "region", "price_kind"},
    "terraform-ecs": {"what an account has committed to"},
    "eksctl": {"what an account has committed to"},
}
"""What a target cannot hold; the table of docs/deploy.md says the same."""


def read_terraform(files: Files) -> Iterator[Rented]:
    whole = module(files)
    [region] = [block["region"]["default"] for block in whole["variable"] if "region" in block]
    for name, service in of_type(whole, "aws_ecs_service").items():
        [engine] = containers(of_type(whole, "aws_ecs_task_definition")[name])
        [gpus] = [int(one["value"]) for one in engine["resourceRequirements"] if one["type"] == "GPU"]
        group = of_type(whole, "aws_autoscaling_group")[name]
        instance = of_type(whole, "aws_launch_template")[name]["instance_type"]
        yield Rented(instance, group["max_size"], service["desired_count"], gpus, region, market_of(group))


def market_of(group: Mapping[str, Any]) -> str:
    """On spot where nothing of a group is on demand."""
    for policy in group.get("mixed_instances_policy", []):
        [shares] = policy["instances_distribution"]
        on_demand = shares["on_demand_base_capacity"] + shares["on_demand_percentage_above_base_capacity"]
        return "spot" if on_demand == 0 else "mixed"
    return "on_demand"


def pods(files: Files) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for name, text in files.items():
        if name.endswith(".yaml") and name.startswith("manifests/"):
            for each in yaml.safe_load_all(text):
                if each["kind"] == "Deployment":
                    yield each["metadata"]["name"], each["spec"]["replicas"], each["spec"]["template"]["spec"]


def gpus_of(pod: Mapping[str, Any]) -> int:
    [engine] = pod["containers"]
    return sum(int(number) for name, number in engine["resources"]["limits"].items() if name.endswith(".com/gpu"))


def read_kubernetes(files: Files) -> Iterator[Rented]:
    for _, replicas, pod in pods(files):
        yield Rented(pod["nodeSelector"].get(INSTANCE_TYPE), None, replicas, gpus_of(pod), None, None)


def read_eksctl(files: Files) -> Iterator[Rented]:
    cluster = yaml.safe_load(files["cluster.yaml"])
    groups = {group["name"]: group for group in cluster["managedNodeGroups"]}
    for name, replicas, pod in pods(files):
        group = groups[name]
        [instance] = group["instanceTypes"]
        kind, region = "spot" if group.get("spot") else "on_demand", cluster["metadata"]["region"]
        yield Rented(instance, group["maxSize"], replicas, gpus_of(pod), region, kind)


def read_compose(files: Files) -> Iterator[Rented]:
    services = yaml.safe_load(files["compose.yaml"])["services"].values()
    [gpus] = {number_of_gpus(service) for service in services}
    yield Rented(None, 1, len(services), gpus, None, None)


def number_of_gpus(service: Mapping[str, Any]) -> int:
    """By the devices of a service, or by those that it sees."""
    if "deploy" in service:
        [device] = service["deploy"]["resources"]["reservations"]["devices"]
        return len(device["device_ids"])
    return len(service["environment"]["HIP_VISIBLE_DEVICES"].split(","))


READERS: dict[str, Callable[[Files], Iterator[Rented]]] = {
    "terraform-ecs": read_terraform,
    "eksctl": read_eksctl,
    "kubernetes": read_kubernetes,
    "compose": read_compose,
}


@lru_cache
def plan_anywhere(number: int) -> ServePlan:
    drawn = random.Random(number)
    load: dict[str, Any] = {"rate": f"{drawn.choice((1, 5, 20))}/s", "input_tokens": 1000, "output_tokens": 200}
    cloud, kind = drawn.choice(("aws", "gcp", "azure", "lambda", "oci")), drawn.choice((["on_demand"], None))
    said: dict[str, Any] = {"clouds": [cloud], "rows": 1, **({} if kind is None else {"pricing": kind})}
    return gpufleet.plan_serve(drawn.choice(("llama-3.1-8b", "qwen3-32b")), **load, **said)


@lru_cache
def plan_of_one_machine(number: int) -> ServePlan:
    drawn = random.Random(number)
    rate, model = drawn.choice((0.1, 0.5, 1)), drawn.choice(("llama-3.1-8b", "qwen3-32b"))
    return gpufleet.plan_serve(model, rate=f"{rate}/s", input_tokens=500, output_tokens=100, rows=1)


PLANS = {
    "terraform-ecs": plan_on_aws,
    "eksctl": plan_on_aws,
    "kubernetes": plan_anywhere,
    "compose": plan_of_one_machine,
}


def files_alone(one: ServePlan, to: str) -> dict[str, str]:
    found = gpufleet.deploy_plan(one, to, image=IMAGE)
    return {file.name: file.text for file in found.files if file.name not in ("gpufleet.json", "README.md")}


@pytest.mark.parametrize("number", range(cases(6, NUM_PLANS)))
@pytest.mark.parametrize("to", READERS)
def test_what_is_read_from_the_files_costs_what_the_plan_says(to: str, number: int) -> None:
    one = PLANS[to](number)
    answer = one.answer
    if to == "compose" and answer.instance_count > 1:
        pytest.skip("several machines")
    [read] = READERS[to](files_alone(one, to))
    assert (read.replicas, read.gpus) == (answer.replicas, answer.gpus_per_replica)
    whole = Rented(
        instance=held(to, "instance", read.instance, answer),
        machines=machines_of(read, answer) if read.machines is None else read.machines,
        replicas=read.replicas,
        gpus=read.gpus,
        region=held(to, "region", read.region, answer),
        price_kind=held(to, "price_kind", read.price_kind, answer),
    )
    assert whole.machines == answer.instance_count
    assert whole.machines * price_of(answer.cloud, whole) == pytest.approx(answer.usd_per_hour)


def held(to: str, what: str, read: str | None, answer: Deployment) -> str:
    """What the files say where they can; the plan's own word only where the target is known not to hold it."""
    planned = str(getattr(answer, what))
    if read is not None and not (what == "price_kind" and planned in COMMITTED):
        assert read == planned
        return read
    if read is not None:
        assert read == "on_demand"
        assert "what an account has committed to" in NOT_HELD[to]
        return planned
    has_no_label = what == "instance" and answer.cloud not in ("aws", "gcp", "azure")
    assert what in NOT_HELD[to] or (has_no_label and f"{what} where a cloud puts no label on nodes" in NOT_HELD[to])
    return planned


def machines_of(read: Rented, answer: Deployment) -> int:
    """Machines that so many copies fill, by GPUs of the machine type in the catalog."""
    instance = answer.instance if read.instance is None else read.instance
    return -(-read.replicas // int(load_catalog().instances[answer.cloud, instance].gpu_count // read.gpus))


def price_of(cloud: str, read: Rented) -> float:
    """What the catalog asks for one machine."""
    where = (cloud, read.region, read.instance, read.price_kind)
    offers = load_catalog().offers
    found = {
        offer.price_per_instance_usd_per_hour
        for offer in offers
        if (offer.cloud, offer.region, offer.instance, offer.price_kind.value) == where
    }
    assert found, where
    return min(found)


@pytest.mark.parametrize("fault", ["one machine fewer", "another type", "another region", "on demand for spot"])
def test_files_that_rent_something_else_are_told_apart(fault: str) -> None:
    number = next(n for n in range(NUM_PLANS) if plan_on_aws(n).answer.price_kind == "spot")
    files, answer = files_alone(plan_on_aws(number), "terraform-ecs"), plan_on_aws(number).answer
    old, new = {
        "one machine fewer": (f"max_size                  = {answer.instance_count}", "max_size = 0"),
        "another type": (f'"{answer.instance}"', '"g4dn.metal"'),
        "another region": (f'"{answer.region}"', '"us-gov-west-1"'),
        "on demand for spot": ("above_base_capacity = 0", "above_base_capacity = 100"),
    }[fault]
    faulty = {name: text.replace(old, new) for name, text in files.items()}
    assert faulty != files
    assert list(read_terraform(faulty)) != list(read_terraform(files))
