"""A cluster that eksctl makes for a plan: by its schema, with the nodes of the plan, and manifests that fit them."""

from __future__ import annotations

import copy
import re
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.eksctl_checks import cluster_problems
from tests.contracts.test_deployed_terraform import IMAGE, NUM_PLANS, plan
from tests.effort import cases

import gpufleet
from gpufleet import DeployedPlan
from gpufleet.errors import GpufleetError, UsageError

KUBERNETES = "1.37"


def deployed(number: int) -> DeployedPlan:
    return gpufleet.deploy_plan(plan(number), "eksctl", image=IMAGE)


def cluster_of(found: DeployedPlan) -> dict[str, Any]:
    [text] = [file.text for file in found.files if file.name == "cluster.yaml"]
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def manifests_of(found: DeployedPlan) -> list[dict[str, Any]]:
    return [yaml.safe_load(file.text) for file in found.files if file.name.startswith("manifests/")]


@pytest.mark.parametrize("number", range(cases(6, NUM_PLANS)))
def test_a_cluster_holds_to_the_schema_and_its_nodes_take_the_pods(number: int) -> None:
    found, answer = deployed(number), plan(number).answer
    cluster = cluster_of(found)
    assert cluster_problems(cluster) == []
    assert cluster["metadata"]["region"] == answer.region
    [nodes] = [group for group in cluster["managedNodeGroups"] if group.get("taints")]
    assert nodes["instanceTypes"] == [answer.instance]
    assert nodes["desiredCapacity"] == answer.instance_count
    assert nodes.get("spot", False) is (answer.price_kind == "spot")
    for each in manifests_of(found):
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    [pod] = [each["spec"]["template"]["spec"] for each in manifests_of(found) if each["kind"] == "Deployment"]
    labels = {**nodes["labels"], "node.kubernetes.io/instance-type": nodes["instanceTypes"][0]}
    assert pod["nodeSelector"].items() <= labels.items()
    borne = {toleration["key"] for toleration in pod["tolerations"]}
    assert {taint["key"] for taint in nodes["taints"]} <= borne
    disk = int(pod["containers"][0]["resources"]["limits"]["ephemeral-storage"].removesuffix("Gi"))
    assert nodes["volumeSize"] > disk * -(-answer.replicas // answer.instance_count)


FAULTS = {
    "a field misspelt": lambda c: c["managedNodeGroups"][1].__setitem__("instanceTyps", ["g5.xlarge"]),
    "a field of the cluster misspelt": lambda c: c.__setitem__("managedNodegroups", []),
    "no region": lambda c: c["metadata"].pop("region"),
    "a number as a word": lambda c: c["managedNodeGroups"][1].__setitem__("desiredCapacity", "4"),
    "spot as a word": lambda c: c["managedNodeGroups"][1].__setitem__("spot", "yes"),
    "one type where a list stands": lambda c: c["managedNodeGroups"][1].__setitem__("instanceTypes", "g5.xlarge"),
    "a family that is none": lambda c: c["managedNodeGroups"][1].__setitem__("amiFamily", "AmazonLinux2023GPU"),
    "a kind of disk that is none": lambda c: c["managedNodeGroups"][1].__setitem__("volumeType", "gp4"),
    "the older version": lambda c: c.__setitem__("apiVersion", "eksctl.io/v1alpha4"),
    "a taint misspelt": lambda c: c["managedNodeGroups"][1]["taints"][0].__setitem__("effects", "NoSchedule"),
    "a taint of no effect": lambda c: c["managedNodeGroups"][1]["taints"][0].__setitem__("effect", "Never"),
    "no group without a GPU": lambda c: c["managedNodeGroups"].pop(0),
    "more nodes than planned": lambda c: c["managedNodeGroups"][1].__setitem__("maxSize", 99),
    "a small disk": lambda c: c["managedNodeGroups"][1].__setitem__("volumeSize", 20),
    "two groups of one name": lambda c: c["managedNodeGroups"].append(dict(c["managedNodeGroups"][1])),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    cluster = copy.deepcopy(cluster_of(deployed(0)))
    FAULTS[fault](cluster)
    assert cluster_problems(cluster)


@settings(max_examples=cases(10, 100))
@given(st.text(min_size=1, max_size=300))
def test_no_name_leaves_its_place(name: str) -> None:
    try:
        found = gpufleet.deploy_plan(plan(0).model_copy(update={"model": name}), "eksctl", image=IMAGE)
    except GpufleetError:
        return
    assert cluster_problems(cluster_of(found)) == []


def test_machines_of_another_cloud_are_refused_with_what_can_hold_them() -> None:
    one = plan(0)
    elsewhere = [one.answer.model_copy(update={"cloud": "gcp", "instance": "g2-standard-4"})]
    with pytest.raises(UsageError) as refused:
        gpufleet.deploy_plan(one.model_copy(update={"deployments": elsewhere}), "eksctl", image=IMAGE)
    assert "kubernetes" in str(refused.value.expected)
    assert not re.search("eksctl|terraform-ecs", str(refused.value.expected))
