"""Files that start a plan: valid for the tool that reads them, true to the plan, and safe with any name."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import cases

import gpufleet
from gpufleet import DeployedPlan, ServePlan
from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.deploy.serving_copies import room_of_node
from gpufleet.errors import GpufleetError

IMAGE, KUBERNETES = "registry.example/engine:1", "1.37"
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "gpt-oss-120b", "mixtral-8x7b")
NUM_PLANS = 30


@lru_cache
def plan(number: int) -> ServePlan:
    """One of many plans, drawn by its number."""
    drawn = random.Random(number)
    engine = drawn.choice(("vllm", "sglang", "tensorrt-llm"))
    said: dict[str, Any] = {"engine": engine, "pricing": [drawn.choice(("on_demand", "spot"))], "rows": 1}
    rate, tokens = f"{drawn.choice((1, 3, 10, 40))}/s", drawn.choice(((500, 100), (2000, 300), (8000, 400)))
    model = drawn.choice(MODELS)
    return gpufleet.plan_serve(model, rate=rate, input_tokens=tokens[0], output_tokens=tokens[1], **said)


def deployed(number: int, to: str = "kubernetes") -> DeployedPlan:
    return gpufleet.deploy_plan(plan(number), to, image=IMAGE)


def objects(found: DeployedPlan) -> Iterator[dict[str, Any]]:
    """Manifests of the files, read as a cluster reads them."""
    for file in found.files:
        if file.name.startswith("manifests/"):
            yield from yaml.safe_load_all(file.text)


def of_kind(found: DeployedPlan, kind: str) -> list[dict[str, Any]]:
    return [each for each in objects(found) if each["kind"] == kind]


@pytest.mark.parametrize("number", range(cases(6, NUM_PLANS)))
def test_manifests_are_valid_and_hold_what_the_plan_rents(number: int) -> None:
    found, answer = deployed(number), plan(number).answer
    for each in objects(found):
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    [deployment] = of_kind(found, "Deployment")
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    [engine] = pod["containers"]
    limits = engine["resources"]["limits"]
    assert spec["replicas"] == answer.replicas
    assert limits["nvidia.com/gpu"] == engine["resources"]["requests"]["nvidia.com/gpu"] == answer.gpus_per_replica
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["progressDeadlineSeconds"] > engine["startupProbe"]["failureThreshold"] * 10 - 10
    assert pod["terminationGracePeriodSeconds"] > 60
    machine = load_catalog().instances[answer.cloud, answer.instance]
    cores, gib = room_of_node(machine)
    copies = -(-answer.replicas // answer.instance_count)
    assert cores is None or float(engine["resources"]["requests"]["cpu"]) * copies <= cores + 0.1 * copies
    assert gib is None or int(limits["memory"].removesuffix("Gi")) * copies <= gib + copies
    [service] = of_kind(found, "Service")
    assert service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    assert service["spec"]["type"] == "ClusterIP"
    assert found.usd_per_hour == pytest.approx(answer.usd_per_hour)


FAULTS = {
    "misspelt key": lambda d: d["spec"].__setitem__("replica", 2),
    "no selector": lambda d: d["spec"].pop("selector"),
    "number as text": lambda d: d["spec"].__setitem__("replicas", "two"),
    "probe of two kinds of words": lambda d: engine_of(d)["startupProbe"].__setitem__("failures", 3),
    "no image name": lambda d: engine_of(d).pop("name"),
    "toleration misspelt": lambda d: d["spec"]["template"]["spec"]["tolerations"][0].__setitem__("effects", "x"),
    "grace as text": lambda d: d["spec"]["template"]["spec"].__setitem__("terminationGracePeriodSeconds", "60s"),
    "environment without name": lambda d: engine_of(d)["env"][0].pop("name"),
}


def engine_of(deployment: dict[str, Any]) -> dict[str, Any]:
    engine: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return engine


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    [deployment] = copy.deepcopy(of_kind(deployed(0), "Deployment"))
    FAULTS[fault](deployment)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES, strict=True)


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert deployed(1).model_dump() == deployed(1).model_dump()


@given(st.text(min_size=1, max_size=300))
@settings(max_examples=cases(30, 300))
def test_no_name_leaves_its_place(name: str) -> None:
    hostile = with_word(plan(0).model_copy(update={"model": name}), name)
    for to in ("kubernetes", "compose"):
        try:
            found = gpufleet.deploy_plan(hostile, to, image=IMAGE)
        except GpufleetError:
            continue
        for file in found.files:
            assert ".." not in file.name.split("/")
            if file.name.endswith(".yaml"):
                assert [type(each) for each in yaml.safe_load_all(file.text)] == [dict]
        for each in objects(found):
            kubernetes_validate.validate(each, KUBERNETES, strict=True)
        for each in of_kind(found, "Deployment"):
            assert name in map(as_kubernetes_expands, engine_of(each)["command"])


def test_models_of_two_clouds_have_a_folder_each_and_are_said_to_stand_apart() -> None:
    load = {"rate": 1.0, "input_tokens": 500.0, "output_tokens": 100.0}
    on = [("llama-3.1-8b", "gcp", "L4"), ("qwen3-32b", "aws", "L40S")]
    asked = [gpufleet.ServeRequest(model, gpus=[gpu], clouds=[cloud], **load) for model, cloud, gpu in on]
    found = gpufleet.deploy_plan(gpufleet.plan_fleet(asked), image=IMAGE)
    folders = {file.name.split("/")[1] for file in found.files if file.name.startswith("manifests/")}
    assert folders == {"llama-3-1-8b", "qwen3-32b"}
    assert any("a cluster for each" in note for note in found.notes)
    labels = [each["spec"]["template"]["spec"]["nodeSelector"] for each in of_kind(found, "Deployment")]
    assert {next(iter(label)) for label in labels} == {"node.kubernetes.io/instance-type"}


def test_two_services_of_one_model_are_two_groups_with_names_of_their_own() -> None:
    load = {"clouds": ["aws"], "gpus": ["L40S"], "input_tokens": 500.0, "output_tokens": 100.0}
    asked = [gpufleet.ServeRequest("qwen3-32b", rate=rate, **load) for rate in (1.0, 3.0)]
    found = gpufleet.deploy_plan(gpufleet.plan_fleet(asked), image=IMAGE)
    assert len({file.name for file in found.files}) == len(found.files)
    names = [each["metadata"]["name"] for each in of_kind(found, "Deployment")]
    assert len(set(names)) == len(names)
    assert {"qwen3-32b-1", "qwen3-32b-2"} <= set(names)


@lru_cache
def of_several() -> ServePlan:
    """A plan of several copies."""
    return gpufleet.plan_serve("llama-3.1-8b", rate="30/s", input_tokens=1000, output_tokens=200, gpus=["L4"], rows=1)


def test_weights_on_a_volume_and_a_token_of_another_name() -> None:
    found = gpufleet.deploy_plan(of_several(), image=IMAGE, secret="my-hub", volume="weights")
    [deployment] = of_kind(found, "Deployment")
    kubernetes_validate.validate(deployment, KUBERNETES, strict=True)
    pod = deployment["spec"]["template"]["spec"]
    [models] = [volume for volume in pod["volumes"] if volume["name"] == "models"]
    assert models["persistentVolumeClaim"]["claimName"] == "weights"
    token = next(each for each in engine_of(deployment)["env"] if each["name"] == "HF_TOKEN")
    assert token["valueFrom"]["secretKeyRef"]["name"] == "my-hub"
    own = engine_of(of_kind(gpufleet.deploy_plan(of_several(), image=IMAGE), "Deployment")[0])["resources"]["requests"][
        "ephemeral-storage"
    ]
    assert gib(engine_of(deployment)["resources"]["requests"]["ephemeral-storage"]) < gib(own), "no weights on the node"
    assert any("ReadWriteMany" in note for note in found.notes)
    for said in ({"volume": "Weights"}, {"secret": "a" * 64}, {"secret": "a\nb"}):
        with pytest.raises(GpufleetError, match="is no name"):
            gpufleet.deploy_plan(of_several(), image=IMAGE, **said)
    with pytest.raises(GpufleetError, match="no objects of Kubernetes"):
        gpufleet.deploy_plan(of_several(), "compose", image=IMAGE, volume="weights")


@pytest.mark.parametrize(
    ("cloud", "gpu", "command", "needed"),
    [
        ("aws", "L40S", "service-quotas", "vCPUs"),
        ("gcp", "L4", "regions describe", " L4"),
        ("azure", "H100", "list-usage", " vCPUs"),
    ],
)
def test_the_quota_that_a_plan_needs_is_named(cloud: str, gpu: str, command: str, needed: str) -> None:
    said = {"rate": "3/s", "input_tokens": 500, "output_tokens": 100, "clouds": [cloud], "gpus": [gpu], "rows": 1}
    asked = gpufleet.plan_serve("llama-3.1-8b", **said)
    [step] = [each for each in gpufleet.deploy_plan(asked, image=IMAGE).steps if command in each.command]
    assert needed in step.purpose
    assert asked.answer.region in step.command
    machine = load_catalog().instances[cloud, asked.answer.instance]
    number = asked.answer.instance_count * (asked.answer.gpus_per_instance if cloud == "gcp" else machine.vcpus or 0)
    assert f"needed: {number:g}" in step.purpose


def gib(quantity: str) -> int:
    return int(quantity.removesuffix("Gi"))


def test_compose_holds_one_machine_alone() -> None:
    one = gpufleet.plan_serve("llama-3.1-8b", rate="0.5/s", input_tokens=500, output_tokens=100, rows=1)
    found = gpufleet.deploy_plan(one, "compose", image=IMAGE)
    [content] = [yaml.safe_load(file.text) for file in found.files if file.name == "compose.yaml"]
    assert len(content["services"]) == one.answer.replicas
    several = next(number for number in range(NUM_PLANS) if plan(number).answer.instance_count > 1)
    with pytest.raises(GpufleetError, match="cannot hold this plan"):
        deployed(several, "compose")


def test_an_engine_is_started_with_its_metrics_on() -> None:
    for engine in ("sglang", "tensorrt-llm"):
        asked: dict[str, Any] = {"rate": "1/s", "input_tokens": 500, "output_tokens": 100, "rows": 1, "engine": engine}
        found = gpufleet.deploy_plan(gpufleet.plan_serve("llama-3.1-8b", **asked), image=IMAGE)
        [deployment] = of_kind(found, "Deployment")
        if engine == "sglang":
            assert "--enable-metrics" in engine_of(deployment)["command"]
        else:
            [options] = of_kind(found, "ConfigMap")
            [text] = options["data"].values()
            assert yaml.safe_load(text)["return_perf_metrics"] is True


def test_a_version_that_stands_with_its_engine_is_not_told_flags_of_the_newest() -> None:
    """--shutdown-timeout came after vLLM 0.8.5."""
    asked: dict[str, Any] = {"rate": "1/s", "input_tokens": 500, "output_tokens": 100, "rows": 1}
    for engine, knows in (("vllm==0.8.5", False), ("vllm==0.33.0", True)):
        found = gpufleet.deploy_plan(gpufleet.plan_serve("llama-3.1-8b", engine=engine, **asked), image=IMAGE)
        [deployment] = of_kind(found, "Deployment")
        assert ("--shutdown-timeout" in engine_of(deployment)["command"]) == knows


@pytest.mark.parametrize("word", ["a$(HF_TOKEN)b${HOME}$HOME", "$$", "$", "$(", "a$$(HF_HOME)"])
def test_no_variable_of_a_container_or_of_a_shell_is_filled_into_a_word(word: str) -> None:
    [deployment] = of_kind(gpufleet.deploy_plan(with_word(plan(0), word), "kubernetes", image=IMAGE), "Deployment")
    assert word in map(as_kubernetes_expands, engine_of(deployment)["command"])
    found = gpufleet.deploy_plan(with_word(plan(0), word), "compose", image=IMAGE)
    [content] = [yaml.safe_load(file.text) for file in found.files if file.name == "compose.yaml"]
    assert all(word in map(as_compose_expands, each["entrypoint"]) for each in content["services"].values())


def with_word(one: ServePlan, word: str) -> ServePlan:
    """A plan whose command ends in a word of a user."""
    d = one.answer
    assert d.launch is not None
    launch = d.launch.model_copy(update={"arguments": [*d.launch.arguments, word]})
    return one.model_copy(update={"deployments": [d.model_copy(update={"launch": launch})]})


def as_kubernetes_expands(word: str) -> str:
    """k8s.io/kubernetes/third_party/forked/golang/expansion: `$$` is one dollar, `$(NAME)` the environment's."""
    told = {"HF_TOKEN": "secret", "HF_HOME": "/models"}
    return re.sub(r"\$\$|\$\(([^)]*)\)", lambda m: "$" if m[0] == "$$" else told.get(m[1], m[0]), word)


def as_compose_expands(word: str) -> str:
    """docs.docker.com/compose, interpolation: `$$` is one dollar, `$NAME` and `${NAME}` the shell's."""
    return re.sub(r"\$\$|\$\w+|\$\{[^}]*\}", lambda m: "$" if m[0] == "$$" else "filled in", word)


def test_a_folder_is_written_whole_and_not_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan(0).to_json(), encoding="utf-8")
    folder = tmp_path / "out"
    said = ["deploy", str(file), "--to", "kubernetes", "--image", IMAGE, "--out", str(folder)]
    assert main(said) == 0
    assert {path.name for path in folder.iterdir()} == {"README.md", "gpufleet.json", "manifests"}
    assert main(said) == 2
    assert main([*said, "--force"]) == 0
    capsys.readouterr()
    assert main([*said[:-2], "--diff", str(folder)]) == 0
    assert not capsys.readouterr().out.strip()
    (folder / "manifests" / "older.yaml").write_text("kind: Old\n", encoding="utf-8")
    (folder / "manifests" / "service.yaml").unlink()
    assert main([*said[:-2], "--diff", str(folder)]) == 0
    changed = capsys.readouterr().out.splitlines()
    assert {"-kind: Old", "+kind: Service"} <= set(changed)
    (tmp_path / "taken").write_text("", encoding="utf-8")
    assert main([*said[:-1], str(tmp_path / "taken")]) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]
