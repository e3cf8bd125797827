"""Laws of the files that run and watch a plan: what they cost, what bounds them, what no name and no run changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import promql_parser
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.contracts.cluster_scaling import series_of
from tests.contracts.terraform_checks import containers, module, of_type
from tests.contracts.test_deployed_round_trip import READERS, machines_of, price_of
from tests.effort import cases

import gpufleet
from gpufleet import ServePlan
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.languages import UNREADABLE
from gpufleet.results.autoscale import AutoscaleResult

IMAGE = "registry.example/engine:1"
LAWS = ("hpa", "hpa-rate", "keda-rate", "keda-cron-rate", "cron-windows", "keda-queue", "keda-kv", "schedule")
WRITERS = (
    *(("deploy_plan", to) for to in ("kubernetes", "eksctl", "terraform-ecs", "compose")),
    *(("watch_plan", to) for to in ("prometheus", "alertmanager", "grafana")),
)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)
YAML_WORDS = ("no", "1e3", "0x10", "null", "~")
HOSTILE = (*YAML_WORDS, "${x}", "%{x}", "{{x}}", "$(HF_TOKEN)", "a'b\"c\\d", "a\nb\r\tc", "\0\x1b", "é日")


@lru_cache
def plan(copies: int = 1, gpu: str = "L40S", rate: str = "10/s") -> ServePlan:
    """So many copies at least."""
    load: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 200, "slo": "ttft.p95<2s", "rows": 1}
    return gpufleet.plan_serve("llama-3.1-8b", rate=rate, gpus=[gpu], clouds=["aws"], min_replicas=copies, **load)


@lru_cache
def one_machine() -> ServePlan:
    return plan(rate="1/s")


def of(to: str) -> ServePlan:
    """A plan that the target holds."""
    return one_machine() if to == "compose" else plan()


def files_of(one: Any, writer: str, to: str, **said: Any) -> dict[str, str]:
    """Files by name, without the plan itself."""
    more: dict[str, Any] = {"image": IMAGE} if writer == "deploy_plan" else {"budget": "1000/day", "act": True}
    found = getattr(gpufleet, writer)(one, to, **{**more, **said})
    return {file.name: file.text for file in found.files if file.name != "gpufleet.json"}


@pytest.mark.parametrize("gpu", ["L40S", "A10G", "H100"])
@pytest.mark.parametrize("to", ["kubernetes", "eksctl", "terraform-ecs"])
def test_more_copies_never_cost_less_in_any_targets_files(to: str, gpu: str) -> None:
    costs = []
    for copies in (1, 2, 5, 13, 60):
        one = plan(copies, gpu)
        [read] = READERS[to](files_of(one, "deploy_plan", to))
        answer = one.answer
        assert read.replicas >= copies
        whole = read._replace(
            machines=read.machines or machines_of(read, answer), region=answer.region, price_kind=answer.price_kind
        )
        assert whole.machines is not None
        costs.append(whole.machines * price_of(answer.cloud, whole))
    assert costs == sorted(costs)
    assert costs[-1] > costs[0]


@lru_cache
def scaled(law: str, least: int | None, most: int | None) -> AutoscaleResult:
    """Two days whose rates rise to four times the night's, on machines between bounds."""
    hours = np.arange(48)
    curve = RateCurve(0.0, np.where((hours % 24 > 7) & (hours % 24 < 20), 40.0, 10.0), 3600.0)
    said: dict[str, Any] = {"policies": [law], "documented": True, "cold_start_s": 250.0, "target": 0.01}
    bounds = {name: number for name, number in (("min_machines", least), ("max_machines", most)) if number is not None}
    return gpufleet.autoscale(plan(), curve, **said, **bounds)


def scaler(files: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(files["manifests/autoscaler.yaml"])["spec"]
    return spec


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("bounds", [(None, None), (2, None), (None, 6), (3, 6), (4, 4)], ids=str)
def test_limits_of_scaling_hold_all_machines_that_were_played(law: str, bounds: tuple[int | None, int | None]) -> None:
    """Never fewer than the least that is asked for, never more than the most, the mean and every window between."""
    result = scaled(law, *bounds)
    files = files_of(result, "deploy_plan", "eksctl")
    spec, copies = scaler(files), result.machine.copies
    if "minReplicaCount" in spec:
        least, most = spec["minReplicaCount"], spec["maxReplicaCount"]
    else:
        least, most = spec["minReplicas"], spec["maxReplicas"]
    assert 0 <= least <= most
    assert most >= 1
    assert bounds[0] is None or least >= copies * bounds[0]
    assert bounds[1] is None or most <= copies * bounds[1]
    played = [row.machines * copies for row in result.recommendation.machines]
    assert least <= result.recommended.mean_machines * copies + 1e-9
    assert least <= min(played[1:] or played), "the first are those that the play began with"
    assert "fallback" not in spec or max(least, 1) <= spec["fallback"]["replicas"] <= most
    windows = [int(t["metadata"]["desiredReplicas"]) for t in spec.get("triggers", ()) if t["type"] == "cron"]
    assert all(least <= number <= most for number in windows)
    thresholds = [float(t["metadata"]["threshold"]) for t in spec.get("triggers", ()) if t["type"] == "prometheus"]
    assert all(limit > 0 for limit in thresholds)
    group = yaml.safe_load(files["cluster.yaml"])["managedNodeGroups"][-1]
    assert group["minSize"] <= group["desiredCapacity"] <= group["maxSize"]
    assert (group["minSize"] - 1) * copies < least <= group["minSize"] * copies
    assert (group["maxSize"] - 1) * copies < most <= group["maxSize"] * copies


@settings(max_examples=cases(12, 100), deadline=None)
@given(st.floats(0.001, 3.0), st.sampled_from(["day", "mo"]))
@example(0.999, "day")
@example(1.0, "mo")
def test_a_budget_guards_nothing_below_one_machines_hour(share: float, period: str) -> None:
    price = plan().answer.price_per_instance_usd_per_hour
    said = f"{share * price:.12f}/{period}"
    if float(said.partition("/")[0]) >= price:
        assert gpufleet.watch_plan(plan(), budget=said).alerts
        return
    with pytest.raises(UsageError, match="does not pay one"):
        gpufleet.watch_plan(plan(), budget=said)
    with pytest.raises(UsageError, match="does not pay one"):
        gpufleet.watch_now(plan(), prometheus="http://127.0.0.1:1", budget=said)


BYTES = """
import hashlib
from tests.properties import test_laws_of_files as laws
written = [laws.files_of(laws.of(to), writer, to) for writer, to in laws.WRITERS]
written.append(laws.files_of(laws.scaled("keda-cron-rate", 2, None), "deploy_plan", "eksctl"))
for files in written:
    print(hashlib.sha256(repr(files).encode()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_plan_gives_the_same_bytes_in_every_process() -> None:
    told = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        told.add(subprocess.check_output([sys.executable, "-c", BYTES], env=environment, text=True))
    [one] = told
    assert len(set(one.split())) == len(WRITERS) + 1


@lru_cache
def fleet() -> gpufleet.FleetPlan:
    load: dict[str, Any] = {"clouds": ["aws"], "gpus": ["L40S"], "input_tokens": 500.0, "output_tokens": 100.0}
    return gpufleet.plan_fleet([gpufleet.ServeRequest(m, rate=9.0, **load) for m in ("llama-3.1-8b", "qwen3-8b")])


def called(one: Any, name: str) -> Any:
    """A plan whose first model is called so: a name that no table knows, where both sides of a law are."""
    if isinstance(one, ServePlan):
        return one.model_copy(update={"model": name})
    first, *others = one.plans
    return one.model_copy(update={"plans": [called(first, name), *others]})


def spelled_back(text: str) -> str:
    """The second name as the first, as it is and as tools write it; digests of a text follow from it."""
    for old, new in (("omega-9.9", "alpha-1.1"), ("omega-9-9", "alpha-1-1"), ("omega_9_9", "alpha_1_1")):
        text = text.replace(old, new)
    return re.sub(r"(gpufleet/config: '?)[0-9a-f]{16}", r"\1digest", text)


@pytest.mark.parametrize(("writer", "to"), WRITERS)
@pytest.mark.parametrize("several", [False, True], ids=["one model", "two models"])
def test_another_name_of_a_model_changes_names_alone(writer: str, to: str, several: bool) -> None:
    if several and to == "compose":
        pytest.skip("several machines")
    one = fleet() if several else of(to)
    said: dict[str, Any] = {"router": "weights"} if to in ("kubernetes", "eksctl") else {}
    first, second = (files_of(called(one, name), writer, to, **said) for name in ("alpha-1.1", "omega-9.9"))
    assert list(first) == [spelled_back(name) for name in second]
    for (name, text), other in zip(first.items(), second.values(), strict=True):
        assert spelled_back(text) == spelled_back(other), name
    assert any("omega" in text for text in second.values()) or to == "compose"


PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")


def every(test: Any) -> Any:
    for text in HOSTILE:
        test = example(text)(test)
    return settings(max_examples=cases(4, 200), deadline=None)(given(TEXTS)(test))


@pytest.mark.slow
@every
def test_every_file_stays_in_its_folder_whatever_a_model_is_called(name: str) -> None:
    for writer, to in WRITERS:
        for file in files_of(called(of(to), name), writer, to):
            assert all(PART.fullmatch(part) for part in file.split("/")), file


def with_name(one: ServePlan, name: str) -> ServePlan:
    """A plan of a model called so, whose engine is told to call it so."""
    d = one.answer
    assert d.launch is not None
    launch = d.launch.model_copy(update={"arguments": [*d.launch.arguments, "--served-model-name", name]})
    return called(one, name).model_copy(update={"deployments": [d.model_copy(update={"launch": launch})]})


def as_kubernetes_expands(word: str) -> str:
    """k8s.io/kubernetes/third_party/forked/golang/expansion: `$$` is one dollar, `$(NAME)` the environment's."""
    return re.sub(r"\$\$|\$\([^)]*\)", lambda found: "$" if found[0] == "$$" else "filled in", word)


def as_compose_expands(word: str) -> str:
    """docs.docker.com/compose, interpolation: `$$` is one dollar, `$NAME` and `${NAME}` the shell's."""
    return re.sub(r"\$\$|\$\w+|\$\{[^}]*\}", lambda found: "$" if found[0] == "$$" else "filled in", word)


def words_of(files: Mapping[str, str], to: str) -> Iterator[list[str]]:
    """The words with which a target starts each copy, as its tool reads them."""
    if to == "compose":
        for each in yaml.safe_load(files["compose.yaml"])["services"].values():
            yield [as_compose_expands(word) for word in each["entrypoint"]]
        return
    if to == "terraform-ecs":
        for task in of_type(module(files), "aws_ecs_task_definition").values():
            yield from ([*each["entryPoint"], *each["command"]] for each in containers(task))
        return
    pod = yaml.safe_load(files["manifests/deployment.yaml"])["spec"]["template"]["spec"]
    yield from ([as_kubernetes_expands(word) for word in each["command"]] for each in pod["containers"])


@pytest.mark.slow
@every
def test_a_word_of_a_user_is_what_the_engine_is_told_on_each_target(name: str) -> None:
    for writer, to in WRITERS[:4]:
        if to == "terraform-ecs" and re.search(r"[$%]\{", name):
            continue  # its reader here takes every text with a template in it for code: see the next law
        told = list(words_of(files_of(with_name(of(to), name), writer, to), to))
        assert told
        held = name.replace("\0", UNREADABLE) if to == "terraform-ecs" else name  # HCL has no way to write it
        assert all(held in words for words in told), to


def names_in(node: Any) -> Iterator[str]:
    """Values of labels that a query asks for by equality."""
    if isinstance(node, promql_parser.VectorSelector):
        yield from (each.value for each in node.matchers.matchers if each.name == "model_name")
    for part in ("lhs", "rhs", "expr", "vector_selector"):
        if hasattr(node, part):
            yield from names_in(getattr(node, part))
    for each in getattr(node, "args", ()):
        yield from names_in(each)


@pytest.mark.slow
@every
def test_a_name_is_what_queries_rules_and_dashboards_ask_for(name: str) -> None:
    result = scaled("keda-cron-rate", None, None)
    assert result.plan is not None
    files = files_of(result.model_copy(update={"plan": with_name(result.plan, name)}), "deploy_plan", "kubernetes")
    [trigger] = [each["metadata"] for each in scaler(files)["triggers"] if each["type"] == "prometheus"]
    query = promql_parser.parse(trigger["query"])
    assert set(names_in(query)) == {name}
    assert list(series_of(query))
    for to in ("prometheus", "alertmanager", "grafana"):
        for file, text in files_of(with_name(plan(), name), "watch_plan", to).items():
            if file.endswith((".yml", ".yaml")):
                list(yaml.safe_load_all(text))
            if file.endswith(".json"):
                json.loads(text)
            if file == "rules.yml":
                for rule in (rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]):
                    promql_parser.parse(rule["expr"])


@pytest.mark.slow
@settings(max_examples=cases(4, 60), deadline=None)
@given(TEXTS)
@example("a\n$(id)")
@example("a'b")
def test_a_shell_reads_the_commands_of_every_page(name: str) -> None:
    for writer, to in WRITERS:
        files = files_of(with_name(of(to), name), writer, to)
        scripts = [text for file, text in files.items() if file.endswith(".sh")]
        [page] = re.findall(r"```sh\n(.*?)\n```", files["README.md"], re.DOTALL)
        for script in [page, *scripts]:
            subprocess.run(["sh", "-n"], input=script, text=True, check=True, capture_output=True)
            plain = [line for line in script.split("\n") if not line.startswith("#")]
            assert not any("$(id)" in line for line in plain)
