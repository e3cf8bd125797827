"""What the seeds' guide to GPUs on AWS shows, in `examples/aws-deployment`: it starts, and asks before it rents."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.contracts.eksctl_checks import object_problems
from tests.contracts.terraform_checks import containers, module, of_type, parsed, problems_of, resources, unchecked

from gpufleet.catalog.load import load_catalog

TOP = Path(__file__).parents[2] / "examples" / "aws-deployment"
GUIDE = (Path(__file__).parent / "seeds" / "selection.md").read_text(encoding="utf-8")
ROOT, CLUSTER = TOP / "terraform", TOP / "terraform" / "modules" / "gpu_cluster"
CLUSTERS = ("gpu_t4_cluster", "gpu_a10g_cluster", "gpu_cluster")
KUBERNETES, PORT = "1.37", 50051


def texts_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.tf"))}


def variables_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {name: said for block in module(texts_of(folder))["variable"] for name, said in block.items()}


def manifests() -> dict[str, dict[str, Any]]:
    paths = sorted((TOP / "kubernetes").glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def deployments() -> dict[str, dict[str, Any]]:
    return {name: one for name, one in manifests().items() if one["kind"] == "Deployment"}


def node_groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = manifests()["nodegroups"]["managedNodeGroups"]
    return groups


def test_terraform_of_the_guide_holds_to_the_schema() -> None:
    for folder in (ROOT, CLUSTER):
        assert problems_of(texts_of(folder)) == []
        assert unchecked(module(texts_of(folder))) == []
    assert len(list(resources(module(texts_of(CLUSTER))))) > 20


def test_terraform_of_the_guide_is_laid_out_as_terraform_does() -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed")
    done = subprocess.run([terraform, "fmt", "-check", "-recursive", "-diff", str(ROOT)], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


def test_variables_and_clusters_have_the_names_that_the_guides_commands_say() -> None:
    said = re.findall(r'-var="(\w+)=', GUIDE)
    assert set(said) == {"gpu_instance_type", "gpu_count"}
    assert {*said, "min_gpu_instances", "max_gpu_instances"} <= set(variables_of(ROOT))
    modules = {name: content for block in module(texts_of(ROOT))["module"] for name, content in block.items()}
    assert set(re.findall(r"-target=module\.(\w+)", GUIDE)) <= set(modules) == set(CLUSTERS)
    for content in modules.values():
        assert set(content) - {"source", "count"} == set(variables_of(CLUSTER))


def test_the_settings_of_the_guide_are_those_of_the_example() -> None:
    block = re.search(r"# terraform/terraform\.tfvars\n(.*?)```", GUIDE, re.DOTALL)
    assert block is not None
    example = parsed((ROOT / "terraform.tfvars.example").read_text(encoding="utf-8"))
    assert parsed(block[1]).items() <= example.items()
    needed = {name for name, said in variables_of(ROOT).items() if "default" not in said}
    assert needed <= set(example)


def test_machines_of_the_guide_are_still_sold_and_retired_ones_are_refused() -> None:
    [rule] = variables_of(ROOT)["gpu_instance_type"]["validation"]
    [families] = re.findall(r"\^\(([^)]*)\)", rule["condition"])
    sold = {name.split(".")[0] for cloud, name in load_catalog().instances if cloud == "aws"}
    assert set(families.split("|")) <= sold
    assert "p3" not in families.split("|")
    assert variables_of(ROOT)["gpu_instance_type"]["default"] == "g4dn.xlarge"


def test_the_image_of_machines_is_looked_up_as_the_gpu_image_of_ecs() -> None:
    whole = module(texts_of(CLUSTER))
    [(_, name, looked_up)] = [one for one in resources(whole, "data") if one[0] == "aws_ssm_parameter"]
    assert name == "ecs_gpu_optimized"
    assert re.fullmatch(r"/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id", looked_up["name"])
    [template] = of_type(whole, "aws_launch_template").values()
    assert f"data.aws_ssm_parameter.{name}." in template["image_id"]


def test_a_task_asks_for_gpus_and_says_which_model_has_which() -> None:
    whole = module(texts_of(CLUSTER))
    [engine] = containers(next(iter(of_type(whole, "aws_ecs_task_definition").values())))
    assert engine["resourceRequirements"] == [{"type": "GPU", "value": "${tostring(var.gpu_count)}"}]
    assert "local.devices" in engine["environment"]
    assert "CUDA_VISIBLE_DEVICES" in texts_of(CLUSTER)["main.tf"]
    assert variables_of(ROOT)["cuda_devices"]["default"] == {}


def test_no_machine_stands_from_22_to_6_of_a_time_zone_that_is_said() -> None:
    schedules = of_type(module(texts_of(CLUSTER)), "aws_autoscaling_schedule")
    assert set(schedules) == {"scale_down_night", "scale_up_morning"}
    for name, said in schedules.items():
        assert said["time_zone"] == "${var.time_zone}"
        assert said["autoscaling_group_name"] == "${aws_autoscaling_group.gpu_workers.name}"
        assert f'"{said["scheduled_action_name"]}"' in GUIDE
        assert f'"{said["recurrence"]}"' in GUIDE, name
    hours = {name: int(said["recurrence"].split()[1]) for name, said in schedules.items()}
    assert (hours["scale_up_morning"] - hours["scale_down_night"]) % 24 == 8
    night = schedules["scale_down_night"]
    assert (night["min_size"], night["max_size"], night["desired_capacity"]) == (0, 0, 0)
    morning = schedules["scale_up_morning"]
    assert (morning["min_size"], morning["max_size"]) == ("${var.min_gpu_instances}", "${var.max_gpu_instances}")
    [group] = of_type(module(texts_of(CLUSTER)), "aws_autoscaling_group").values()
    assert "protect_from_scale_in" not in group


def test_spot_is_a_share_without_an_end_and_not_of_the_cheapest_pool() -> None:
    [group] = of_type(module(texts_of(CLUSTER)), "aws_autoscaling_group").values()
    [policy] = group["mixed_instances_policy"]
    [shares] = policy["instances_distribution"]
    assert shares["on_demand_percentage_above_base_capacity"] == "${100 - var.spot_percent}"
    assert shares["spot_allocation_strategy"] == "price-capacity-optimized"
    assert "fallback_instance_types" in json.dumps(policy)
    assert not re.search("valid_until|spot_price|lowestPrice", "".join(texts_of(CLUSTER).values()))


def test_commands_ask_before_they_rent_and_look_where_gpus_are_listed() -> None:
    page = (TOP / "README.md").read_text(encoding="utf-8")
    assert "-auto-approve" not in page
    assert "aws ecs describe-container-instances" in page
    assert "describe-clusters" not in page
    targets = set(re.findall(r"-target=module\.(\w+)", page))
    assert targets == set(re.findall(r"-target=module\.(\w+)", GUIDE))
    assert set(re.findall(r'-var=[\'"](\w+)=', page)) <= set(variables_of(ROOT))


def test_manifests_of_the_guide_are_valid_and_select_the_pods_that_they_make() -> None:
    for name, one in deployments().items():
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
        assert one["metadata"]["name"] == name
        assert one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        [container] = one["spec"]["template"]["spec"]["containers"]
        assert not re.search(r":latest$|/[^:]*$", container["image"])
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert f"- name: {container['name']}" in GUIDE
    named = {name for name in deployments() if f"name: {name}" in GUIDE}
    assert named == {"remotemedia-whisper-large", "whisper-base-t4", "whisper-large-a10g"}
    assert (
        deployments()["whisper-base-t4"]["spec"]["replicas"],
        deployments()["whisper-large-a10g"]["spec"]["replicas"],
    ) == (3, 2)


def test_pods_go_to_nodes_whose_labels_and_taints_the_groups_have() -> None:
    for one in deployments().values():
        pod = one["spec"]["template"]["spec"]
        [container] = pod["containers"]
        fitting = [group for group in node_groups() if pod["nodeSelector"].items() <= labels_of(group).items()]
        gpus = container["resources"]["limits"]["nvidia.com/gpu"]
        assert any(gpus <= gpus_of(group) for group in fitting)
        borne = {(toleration["key"], toleration["effect"]) for toleration in pod["tolerations"]}
        assert all({(taint["key"], taint["effect"]) for taint in group["taints"]} <= borne for group in fitting)
        named = {each["name"]: each["value"] for each in container.get("env", [])}
        devices = {int(value) for name, value in named.items() if name.endswith("_CUDA_DEVICE")}
        visible = {int(value) for value in named.get("CUDA_VISIBLE_DEVICES", "0").split(",")}
        assert devices <= visible <= set(range(gpus))


def labels_of(group: dict[str, Any]) -> dict[str, str]:
    [instance] = group["instanceTypes"]
    return {**group["labels"], "node.kubernetes.io/instance-type": instance}


def gpus_of(group: dict[str, Any]) -> float:
    return load_catalog().instances["aws", group["instanceTypes"][0]].gpu_count


def test_three_models_of_a_task_have_a_gpu_each_as_in_the_guide() -> None:
    [container] = deployments()["multi-model-a10g"]["spec"]["template"]["spec"]["containers"]
    block = re.search(r"```yaml\nenvironment:\n(.*?)```", GUIDE, re.DOTALL)
    assert block is not None
    assert container["env"] == yaml.safe_load(block[1])


def test_groups_of_nodes_are_those_of_the_guides_command() -> None:
    assert list(object_problems("ClusterConfig", manifests()["nodegroups"])) == []
    first = node_groups()[0]
    said = dict(re.findall(r"--([a-z-]+) \"?([\w.,=/:-]+)\"? ?\\?\n", GUIDE[GUIDE.index("eksctl create nodegroup") :]))
    assert said["cluster"] == manifests()["nodegroups"]["metadata"]["name"]
    assert (first["name"], first["instanceTypes"]) == (said["name"], [said["node-type"]])
    numbers = (first["desiredCapacity"], first["minSize"], first["maxSize"])
    assert numbers == tuple(int(said[key]) for key in ("nodes", "nodes-min", "nodes-max"))
    assert dict(pair.split("=") for pair in said["node-labels"].split(",")).items() <= first["labels"].items()
    assert {"accelerator", "gpu-type"} <= set(first["labels"])
    [taint] = first["taints"]
    assert f"{taint['key']}={taint['value']}:{taint['effect']}" == said["node-taints"]


def test_pipelines_of_the_guide_are_read_as_they_stand() -> None:
    shown = [json.loads(re.sub(r"//.*", "", block)) for block in re.findall(r"```json\n(\{.*?)```", GUIDE, re.DOTALL)]
    ours = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((TOP / "pipelines").glob("*.json"))]
    assert sorted(ours, key=lambda one: one["id"]) == sorted(shown, key=lambda one: one["id"])
    assert {one["node_type"] for one in ours} == {"RemotePipelineNode"}
    asked = [one["params"].get("endpoints", [one["params"].get("endpoint")]) for one in ours]
    assert all(endpoint.endswith(f":{PORT}") for endpoints in asked for endpoint in endpoints)
    [several] = [one["params"] for one in ours if "endpoints" in one["params"]]
    assert several["routing_strategy"] == "least_busy"
    assert f"port = {PORT}" in texts_of(CLUSTER)["main.tf"]


FAULTS = {
    "the strategy of the guide": ("price-capacity-optimized", "lowestPrice"),
    "a schedule without a time zone": (r"  time_zone .*\n", ""),
    "no GPU": (r"resourceRequirements", "resourceRequirement"),
    "no role that starts": (r"  execution_role_arn.*\n", ""),
    "everybody let in": (r"each\.value", '"0.0.0.0/0"'),
    "an override of what is none": (r"instance_type = override.value", "instance_typ = override.value"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_guide_are_found_where_they_are_planted(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = FAULTS[fault]
    faulty = {name: re.sub(old, new, text) for name, text in texts_of(CLUSTER).items()}
    assert faulty != texts_of(CLUSTER)
    monkeypatch.setattr("tests.contracts.test_seed_deployment.texts_of", lambda _: faulty, raising=True)
    found = list(problems_of(faulty))
    checks = (
        test_no_machine_stands_from_22_to_6_of_a_time_zone_that_is_said,
        test_spot_is_a_share_without_an_end_and_not_of_the_cheapest_pool,
    )
    assert found or any(fails(check) for check in checks)


def fails(check: Any) -> bool:
    try:
        check()
    except (AssertionError, KeyError):
        return True
    return False
