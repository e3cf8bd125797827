"""Verbs that write files to run, asked by somebody who means harm or means nothing: an answer or one message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import gpufleet
from gpufleet import DeployedPlan, ServePlan
from gpufleet.cli import main
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.seal import SEAL

IMAGE = "registry.example/engine:1"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")
"""RFC 1123 and RFC 1035, as a cluster holds names to them, and parts of a path that need no quoting anywhere."""
NAMES = (
    *('a"b', "a'b", "a\nb", "${x}", "{{x}}", "%{x}", "$(id)", "a" * 300, "é", "日本", "no", "1e3", "0x10", "null", "~"),
    *("..", "a/../../b", "-", "--", "3d", "-a", "a-", "router", "hf-token", "serving", "copy-1", " ", "\0", "\x1b[31m"),
)


@lru_cache
def plan(rate: str = "20/s", gpu: str = "L40S") -> ServePlan:
    """A service on machines of AWS: of several, and at a lower rate of one."""
    said: dict[str, Any] = {"clouds": ["aws"], "gpus": [gpu], "slo": "ttft.p95<2s", "rows": 1}
    return gpufleet.plan_serve("llama-3.1-8b", rate=rate, input_tokens=1000, output_tokens=200, **said)


@lru_cache
def scaled(law: str) -> AutoscaleResult:
    """The same, whose machines follow two days by a law; here it is about files, and a low target keeps each law."""
    hours = np.arange(48)
    curve = RateCurve(0.0, np.where((hours % 24 > 7) & (hours % 24 < 20), 40.0, 10.0), 3600.0)
    said: dict[str, Any] = {"policies": [law], "documented": True, "cold_start_s": 250.0, "target": 0.05}
    return gpufleet.autoscale(plan(), curve, **said)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try in a folder of its own, with a plan in it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("plan.json").write_text(plan().to_json(), encoding="utf-8")


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, in one line."""
    said = capsys.readouterr()
    return " ".join((said.out + said.err).split())


NO_IMAGES = (
    *("a b", "a\nb", "$(id)", "${HOME}", "{{x}}", "%{x}", "é:1", "~", "a: b", "# x", "-x", "\0", "\x1b", "a" * 10_000),
    *("@sha256:zz", "a:", "a:b:c", "A", "a//b", "a@sha256:12", "a/../b"),
)
MOVING = ("localhost:5000/a", "x:latest", "no", "1e3", "null", "0x10")
IMAGES = {
    **dict.fromkeys(NO_IMAGES, 2),
    **dict.fromkeys((*MOVING, IMAGE, f"a@sha256:{'0' * 64}"), 0),
}


@pytest.mark.parametrize(("image", "code"), IMAGES.items(), ids=lambda value: ascii(value)[:20])
def test_an_image_is_a_name_that_a_runtime_reads(image: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "plan.json", f"--image={image}", "-o", "json"]) == code
    shown = capsys.readouterr().out
    if code:
        return
    [text] = [file["text"] for file in json.loads(shown)["files"] if file["name"] == "manifests/deployment.yaml"]
    assert yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]["image"] == image
    assert ("name a tag or a digest" in " ".join(json.loads(shown)["notes"])) == (image in MOVING)


NO_ADDRESSES = (
    *(
        "javascript:alert(1)",
        "http://a",
        "http://a:0",
        "http://a:99999",
        "http://u:p@a:9090",
        "a:1",
        "http://a:9090?x=1",
    ),
    *("http://a:9090#f", "http://$(id):1", "http://a:1/${x}", "http://a:1/{{x}}", 'http://a:1/"', "http://a:1/a b"),
    *("http://a:1\nb", "http://é:1", "file:///etc/passwd"),
)
ADDRESSES = {
    **dict.fromkeys(NO_ADDRESSES, 2),
    **dict.fromkeys(("http://a.b:9090", "https://a:9090/prom/x", "http://[::1]:9090", "http://a:9090/"), 0),
}


@pytest.mark.parametrize(("url", "code"), ADDRESSES.items(), ids=lambda value: ascii(value)[:30])
@pytest.mark.parametrize("law", ["hpa", "keda-rate"])
def test_an_address_of_prometheus_has_a_host_a_port_and_a_path_alone(
    law: str, url: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.json").write_text(scaled(law).to_json(), encoding="utf-8")
    assert main(["deploy", "a.json", "--prometheus", url, "-o", "json"]) == code
    said = capsys.readouterr()
    assert ":p@" not in said.err
    if code or law != "hpa":
        return
    [text] = [each["text"] for each in json.loads(said.out)["files"] if each["name"] == "prometheus-adapter.yaml"]
    values = yaml.safe_load(text)["prometheus"]
    assert f"{values['url']}:{values['port']}{values.get('path', '')}" == url.rstrip("/")


def test_a_zone_that_each_machine_has_for_itself_is_none() -> None:
    Path("a.json").write_text(scaled("keda-rate").to_json(), encoding="utf-8")
    assert main(["deploy", "a.json", "--timezone", "localtime"]) == 2


def objects(found: DeployedPlan) -> Iterator[dict[str, Any]]:
    for file in found.files:
        if file.name.startswith("manifests/"):
            yield from yaml.safe_load_all(file.text)


def deployed(name: str) -> Iterator[DeployedPlan]:
    """A model of that name on each target, and scaled."""
    for to, rate in (("kubernetes", "20/s"), ("eksctl", "20/s"), ("terraform-ecs", "20/s"), ("compose", "1/s")):
        yield gpufleet.deploy_plan(plan(rate).model_copy(update={"model": name}), to)
    one = scaled("keda-rate")
    assert one.plan is not None
    yield gpufleet.deploy_plan(one.model_copy(update={"plan": one.plan.model_copy(update={"model": name})}))


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_whatever_a_model_is_called_a_cluster_takes_the_names_that_are_made_of_it(name: str) -> None:
    for found in deployed(name):
        for file in found.files:
            assert all(PLACE.fullmatch(part) for part in file.name.split("/")), file.name
        for each in objects(found):
            form = SERVICE if each["kind"] == "Service" else LABEL
            assert form.fullmatch(each["metadata"]["name"])
            assert all(isinstance(v, str) and LABEL.fullmatch(v) for v in each["metadata"]["labels"].values())
        for file in found.files:
            content = yaml.safe_load(file.text) if file.name in ("compose.yaml", "cluster.yaml") else {}
            groups = [group["name"] for group in content.get("managedNodeGroups", [])]
            assert all(map(LABEL.fullmatch, groups))
            assert file.name != "compose.yaml" or LABEL.fullmatch(content["name"])


@pytest.mark.parametrize("name", ["a\nrm -rf b", "a\r\x0brm -rf b", "a\u2028rm -rf b"])
def test_no_name_begins_a_line_of_the_commands_that_a_reader_copies(name: str) -> None:
    pages = [*deployed(name), gpufleet.watch_plan(plan().model_copy(update={"model": name}))]
    for found in pages:
        [page] = [file.text for file in found.files if file.name == "README.md"]
        assert not [line for line in page.splitlines() if line.startswith("rm")]
        assert page.splitlines()[0].startswith("# a")


def test_a_model_that_is_called_as_a_router_or_as_nodes_of_the_system_keeps_both_apart() -> None:
    load: dict[str, Any] = {"clouds": ["aws"], "gpus": ["L40S"], "input_tokens": 500.0, "output_tokens": 100.0}
    fleet = gpufleet.plan_fleet([gpufleet.ServeRequest(m, rate=9.0, **load) for m in ("llama-3.1-8b", "qwen3-8b")])
    one, two = fleet.plans
    for second in ("llama-3.1-8b-front", "gpufleet-system"):
        plans = [one, two.model_copy(update={"model": second})]
        found = gpufleet.deploy_plan(fleet.model_copy(update={"plans": plans}), "eksctl", router="weights")
        names = [(each["kind"], each["metadata"]["name"]) for each in objects(found)]
        assert len(set(names)) == len(names)
        [cluster] = [yaml.safe_load(file.text) for file in found.files if file.name == "cluster.yaml"]
        groups = [group["name"] for group in cluster["managedNodeGroups"]]
        assert len(set(groups)) == len(groups)


def test_a_fixed_number_of_machines_does_not_come_and_go() -> None:
    found = gpufleet.deploy_plan(scaled("static"), "terraform-ecs")
    machines = scaled("static").recommended.settings["replicas"]
    [text] = [file.text for file in found.files if file.name.startswith("copies-")]
    assert re.findall(r"(?:min_size|max_size|desired_capacity|desired_count) += (\d+)", text) == [f"{machines:.0f}"] * 4


def test_a_law_that_does_not_say_whether_it_was_edited_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(scaled("keda-rate").to_json())
    del content[SEAL]
    Path("a.json").write_text(json.dumps(content), encoding="utf-8")
    assert main(["deploy", "a.json"]) == 2
    assert "does not say whether it was edited" in told(capsys)


@pytest.mark.parametrize("words", [("deploy",), ("alerts",)])
def test_a_plan_that_does_not_say_whether_it_was_edited_is_said_to(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(plan().to_json())
    del content[SEAL]
    Path("a.json").write_text(json.dumps(content), encoding="utf-8")
    assert main([words[0], "a.json", *words[1:]]) == 0
    assert "does not say whether it was edited" in told(capsys)


def test_a_part_of_a_gpu_is_not_rented_by_files_whose_images_have_no_driver_for_it() -> None:
    """The catalog says it of the machine, whatever the plan calls its GPU."""
    said: dict[str, Any] = {"clouds": ["aws"], "gpus": ["L4"], "fractions": True, "rows": 1}
    one = gpufleet.plan_serve("qwen3-0.6b", rate="1/s", input_tokens=500, output_tokens=100, **said)
    assert one.answer.instance.startswith("g6f.")
    for to in ("eksctl", "terraform-ecs"):
        with pytest.raises(UsageError, match="cannot hold this plan"):
            gpufleet.deploy_plan(one, to)
    assert gpufleet.deploy_plan(one, "kubernetes").files


def test_machines_of_ones_own_are_not_said_to_be_rented() -> None:
    said: dict[str, Any] = {"owned": "2 x 8 RTX-4090", "pricing": ["owned"], "rows": 1}
    one = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200, **said)
    assert one.answer.price_kind == "owned"
    assert not [note for note in gpufleet.deploy_plan(one, "compose").notes if "rent" in note]


def test_so_few_requests_that_no_machine_is_needed_are_played_and_started() -> None:
    """Fewer than one in the whole curve: a fixed number of machines is none, and saves nothing."""
    curve = RateCurve(0.0, np.tile([1e-9, 2e-9, 3e-9], 16), 3600.0)
    said: dict[str, Any] = {"policies": ["keda-rate", "static"], "cold_start_s": 300.0, "target": 0.01}
    result = gpufleet.autoscale(plan(), curve, documented=True, **said)
    assert 0 <= result.recommendation.saved_ratio <= 1
    assert gpufleet.deploy_plan(result).files


@pytest.mark.parametrize(
    "verb", [("deploy",), ("alerts",), ("watch", "--prometheus", "http://127.0.0.1:1")], ids=" ".join
)
def test_other_answers_are_said_to_be_no_plan_of_a_service(
    verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("plan", "serve", "bge-m3", "--rate", "5/s", "--in", "64", "--gpus", "L4", "--out-file", "a.json")
    assert main(list(asked)) == 0
    capsys.readouterr()
    assert main([verb[0], "a.json", *verb[1:]]) == 2
    said = told(capsys)
    assert "encoder" in said
    assert "planned again" not in said


def test_a_mix_is_named_where_a_plan_is_scaled(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rates.csv").write_text("t_s,rate_rps\n0,1\n3600,2\n", encoding="utf-8")
    load = ("--rate", "5/s", "--in", "500", "--out", "100", "--clouds", "aws", "--gpus", "L4,L40S")
    assert main(["mix", "llama-3.1-8b", *load, "--out-file", "mix.json"]) == 0
    capsys.readouterr()
    assert main(["autoscale", "mix.json", "--trace", "rates.csv"]) == 2
    assert "a mix of machines" in told(capsys)
