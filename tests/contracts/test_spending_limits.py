"""What stands beside the guard's rules: budgets of clouds, and limits that somebody may apply; nothing acts alone."""

from __future__ import annotations

import copy
import csv
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import hcl2
import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import RunGpufleet
from tests.contracts.test_budget_guard import copies
from tests.contracts.test_budget_guard import plan as watched

import gpufleet
from gpufleet import AlertFiles, ServePlan
from gpufleet.deploy.cloud_budgets import WRITTEN, CloudBudget, cloud_budget
from gpufleet.errors import UsageError
from gpufleet.monitor.spending_limits import limit_files

KUBERNETES = "1.37"
FIELDS = Path(__file__).parent / "fields" / "terraform_budgets.csv"
META = {"__is_block__", "__comments__"}
Fields = Mapping[tuple[str, str, str], Mapping[str, str]]


@lru_cache
def fields() -> Fields:
    """Attributes and blocks of the providers' own schemas: resource, block, name."""
    with FIELDS.open(encoding="utf-8", newline="") as lines:
        return {(row["resource"], row["block_path"], row["attribute"]): row for row in csv.DictReader(lines)}


@lru_cache
def plan(cloud: str = "aws") -> ServePlan:
    said: dict[str, Any] = {"clouds": [cloud], "rows": 1}
    return gpufleet.plan_serve("llama-3.1-8b", rate="20/s", input_tokens=1000, output_tokens=200, **said)


def guarded(cloud: str = "aws", **said: Any) -> AlertFiles:
    return gpufleet.watch_plan(plan(cloud), "prometheus", **{"budget": "500/day", **said})


def text_of(found: AlertFiles, name: str) -> str:
    return next(file.text for file in found.files if file.name == name)


def plain(value: Any) -> Any:
    """Values of HCL without the quotes of their texts."""
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items() if key not in META}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value[1:-1] if isinstance(value, str) and value.startswith('"') else value


def resource_of(text: str) -> tuple[str, dict[str, Any]]:
    """The one resource of a file: its type and what is in it."""
    [resource] = plain(hcl2.loads(text))["resource"]
    [(kind, by_name)] = resource.items()
    return kind, by_name["gpufleet"]


def faults(kind: str, body: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """What the provider's schema does not know, and what it misses."""
    for name, value in body.items():
        row = fields().get((kind, path, name))
        if row is None:
            yield f"{path}.{name} is unknown"
            continue
        is_block = row["kind"] == "block"
        if is_block != (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
            yield f"{path}.{name} is a {row['kind']}"
        elif is_block:
            for each in value:
                yield from faults(kind, each, f"{path}.{name}".lstrip("."))
        elif row["type"] == "number" and not (isinstance(value, (int, float)) or str(value).startswith("${")):
            yield f"{path}.{name} is no number"
    needed = {
        name for (of, at, name), row in fields().items() if of == kind and at == path and row["required"] == "yes"
    }
    yield from (f"{path}.{name} is missing" for name in sorted(needed - set(body)))


def budget(cloud: str = "aws", usd: float = 500.0, period: str = "month") -> tuple[str, dict[str, Any]]:
    return resource_of(cloud_budget(CloudBudget("gpufleet", cloud, usd, period)))


@pytest.mark.parametrize("period", ["day", "month"])
@pytest.mark.parametrize("cloud", sorted(WRITTEN))
def test_budgets_of_clouds_are_what_their_providers_take(cloud: str, period: str) -> None:
    kind, body = budget(cloud, period=period)
    assert list(faults(kind, body)) == []


PLANTED = {
    "misspelt": lambda body: body.__setitem__("limit_amout", body.pop("limit_amount")),
    "no unit of time": lambda body: body.pop("time_unit"),
    "a word for a number": lambda body: body["notification"][0].__setitem__("threshold", "half"),
    "a block as an attribute": lambda body: body.__setitem__("cost_filter", "Service"),
    "a notification of no kind": lambda body: body["notification"][1].pop("notification_type"),
    "another provider's word": lambda body: body["notification"][0].__setitem__("contact_emails", []),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault: str) -> None:
    kind, body = budget()
    body = copy.deepcopy(body)
    PLANTED[fault](body)
    assert len(list(faults(kind, body))) >= 1


def test_a_daily_budget_of_aws_has_no_forecast_and_no_action_stops_what_a_group_would_start_again() -> None:
    _, of_day = budget(period="day")
    _, of_month = budget(period="month")
    assert of_day["time_unit"] == "DAILY"
    assert {each["notification_type"] for each in of_day["notification"]} == {"ACTUAL"}
    assert [each["threshold"] for each in of_day["notification"]] == [50, 80, 100]
    assert [each["notification_type"] for each in of_month["notification"]].count("FORECASTED") == 1
    texts = [cloud_budget(CloudBudget("a", cloud, 500.0, period)) for cloud in WRITTEN for period in ("day", "month")]
    texts += [file.text for file in guarded(act=True).files]
    assert not any("aws_budgets_budget_action" in text or "STOP_EC2" in text for text in texts)


def test_clouds_without_a_budget_of_a_day_get_its_month() -> None:
    """24,000 USD in 30 days are 800 a day; a month is 730 hours."""
    _, google = budget("gcp", 800.0, "day")
    _, azure = budget("azure", 800.0, "day")
    assert int(google["amount"][0]["specified_amount"][0]["units"]) == round(800 * 730 / 24)
    assert azure["amount"] == round(800 * 730 / 24)
    assert budget("azure", 800.0, "month")[1]["amount"] == 800
    found = guarded("gcp", budget="800/day")
    assert any("24,333" in note for note in found.notes)


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_the_page_says_how_late_the_cloud_is_and_what_nobody_sees(cloud: str) -> None:
    found = guarded(cloud)
    said = " ".join(found.notes)
    assert "late" in said
    assert "exporter" in said
    assert "egress" in said
    assert [file.name for file in found.files if file.name.startswith("cloud-budget")] == [
        f"cloud-budget/{cloud}/main.tf"
    ]


@given(st.text(max_size=300))
def test_no_name_leaves_its_string(name: str) -> None:
    text = cloud_budget(CloudBudget(name, "aws", 500.0, "day"))
    kind, body = resource_of(text)
    assert kind == "aws_budgets_budget"
    assert set(body) == set(budget(period="day")[1])


def test_terraform_finds_nothing_to_lay_out_otherwise(tmp_path: Path) -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed")
    for cloud in WRITTEN:
        (tmp_path / f"{cloud}.tf").write_text(cloud_budget(CloudBudget("gpufleet", cloud, 500.0, "month")))
    done = subprocess.run(
        [terraform, "fmt", "-check", "-diff"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


def test_limits_are_valid_and_allow_just_what_the_plan_has() -> None:
    found = guarded(act=True)
    objects = [
        each for name in ("act/limit.yaml", "act/role.yaml") for each in yaml.safe_load_all(text_of(found, name))
    ]
    for each in objects:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    by_kind = {each["kind"]: each for each in objects}
    d = plan().deployments[0]
    assert by_kind["ResourceQuota"]["spec"]["hard"] == {"requests.nvidia.com/gpu": str(d.replicas * d.gpus_per_replica)}
    verbs = {
        (resource, verb)
        for kind in ("Role", "ClusterRole")
        for rule in by_kind[kind]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not {verb for _, verb in verbs} & {"*", "delete", "escalate", "bind", "impersonate"}
    assert {resource for resource, _ in verbs} == {"deployments", "deployments/scale", "resourcequotas", "nodes"}
    assert by_kind["Role"]["rules"][0]["resourceNames"] == ["llama-3-1-8b"]


def test_an_autoscaled_plan_may_have_as_many_as_its_law_allows() -> None:
    """Five copies on five machines, nine of them at most; two copies of two GPUs on a machine of four."""
    of_one = watched(copies(most_machines=9))
    of_two = watched(copies(replicas=4, machines=2, gpus_per_replica=2, gpus_per_machine=4.0, most_machines=3))
    quotas = [yaml.safe_load(next(limit_files(each)).text)["spec"]["hard"] for each in (of_one, of_two)]
    assert [quota["requests.nvidia.com/gpu"] for quota in quotas] == ["9", "12"]


def test_scripts_are_sound_and_stop_at_the_first_fault(tmp_path: Path) -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    hostile = watched(copies(instance="a'b $(id)\n; rm -rf /"))
    scripts = [file for each in (watched(), hostile) for file in limit_files(each) if file.name.endswith(".sh")]
    assert len(scripts) == 4
    for number, script in enumerate(scripts):
        (tmp_path / f"{number}.sh").write_text(script.text)
        assert script.text.startswith("#!/bin/sh\nset -eu\n")
    words = [shellcheck, "--severity=warning", *(str(path) for path in tmp_path.glob("*.sh"))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_without_act_nothing_is_written_that_could_stop_anything() -> None:
    names = {file.name for file in guarded().files}
    assert not any(name.startswith("act/") for name in names)
    assert {file.name for file in guarded(act=True).files} - names == {
        "act/limit.yaml",
        "act/role.yaml",
        "act/cordon.sh",
        "act/stop.sh",
    }


def test_the_guards_rules_are_among_those_of_the_plan_and_every_test_of_them_holds(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    found = guarded()
    for name in ("rules.yml", "rules_test.yml"):
        (tmp_path / name).write_text(text_of(found, name))
    for words in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "duplicate" not in done.stdout + done.stderr
    names = {row.name for row in found.alerts}
    assert {"Budget50Percent", "Budget80Percent", "Budget100Percent", "BudgetGoneEarly", "MachineRunaway"} <= names
    without = {row.name for row in gpufleet.watch_plan(plan(), "prometheus").alerts}
    assert not {name for name in without if name.startswith(("Budget", "Machine"))}


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert guarded(act=True).files == guarded(act=True).files


@pytest.mark.parametrize(
    "words",
    [("--act",), ("--utc-offset", "+02:00"), ("--budget", "1/day"), ("--budget", "1000"), ("--budget", "1e30/day")],
    ids=repr,
)
def test_words_that_guard_nothing_are_refused(
    words: tuple[str, ...], ask_gpufleet: RunGpufleet, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text(plan().to_json(), encoding="utf-8")
    done = ask_gpufleet("alerts", "plan.json", *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_python_refuses_a_budget_below_one_machines_hour() -> None:
    with pytest.raises(UsageError):
        guarded(budget="1/mo")
