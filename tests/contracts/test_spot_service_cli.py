"""`gpufleet spot` of a service: one page, a fleet for Terraform, one message for every mistake."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hcl2
import pytest

import gpufleet
from gpufleet.ask.spot.service_shape import SpotServicePlan
from gpufleet.errors import UsageError
from gpufleet.results.plan import ServePlan

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PRICES = {"spot_price": 1.0, "on_demand_price": 3.0}
DRAWS = 20


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plan of some machines on AWS, as it is written."""
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="20/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<2s", gpus="L40S", clouds="aws"
    )
    path = tmp_path_factory.mktemp("service") / "plan.json"
    path.write_text(plan.model_dump_json(), encoding="utf-8")
    return str(path)


def planned(file: str, **said: Any) -> SpotServicePlan:
    """The answer in Python, of few draws."""
    return gpufleet.plan_spot_service(file, **{"draws": DRAWS, "restart_s": "10min", **PRICES, **said})


@pytest.fixture(scope="module")
def answer(file: str) -> SpotServicePlan:
    """One answer."""
    return planned(file)


def test_the_page_says_cost_saving_readiness_and_settings_at_eighty_columns(file: str, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", file, "--draws", str(DRAWS), "--restart", "10min")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    page = " ".join(done.stdout.split())
    assert page.startswith("Run ")
    for said in ("less than on demand", "of requests in time", "What to set", "maximum price", "a start takes"):
        assert said in page
    assert "Prices, never live. Spot: aws-spot-advisor, estimated" in page
    assert page.index("Warning: the price of spot is an estimate") < page.index("Policies that none beats")
    assert "gpufleet simulate PLAN.json --spot-trace FILE --on-demand" in page


def test_the_answer_saves_keeps_the_target_and_is_read_back(answer: SpotServicePlan, file: str) -> None:
    assert planned(file) == answer
    assert SpotServicePlan.model_validate_json(answer.model_dump_json()) == answer
    assert 0 < answer.saved_ratio < 1 - 1 / 3
    assert answer.answer.attained.value == pytest.approx(answer.target_ratio, abs=0.015)
    assert answer.attained_if_slow_ratio == answer.answer.attained.value, "a start that is said has no range"
    assert sum(each.time_ratio for each in answer.ready) == pytest.approx(1.0, abs=1e-4)
    parts = sum(each.time_ratio * (each.in_time_ratio or 0) for each in answer.ready)
    assert answer.answer.in_time_ratio == pytest.approx(parts)
    costs = [play.usd_per_hour.value for play in answer.frontier]
    ready = [play.attained.value for play in answer.frontier]
    assert costs == sorted(costs)
    assert ready == sorted(ready)


def test_zones_that_always_have_machines_cost_spot_alone_and_none_on_demand_alone(file: str) -> None:
    up = planned(file, availability=1.0, mean_up_s="1000h")
    assert up.answer.usd_per_hour.value == pytest.approx(up.num_machines * 1.0)
    assert (up.answer.attained.value, up.answer.losses_per_day) == (1.0, 0.0)
    assert up.most_usd_per_hour == pytest.approx(3.0)
    down = planned(file, availability=0.0, mean_up_s="1h")
    assert down.answer.usd_per_hour.value == pytest.approx(down.num_machines * 3.0)


def test_a_trace_chooses_by_its_first_half_and_tells_of_its_second(file: str, tmp_path: Path) -> None:
    trace = tmp_path / "zones.csv"
    rows = [f"{600 * i},{9 if i < 288 else 0},{9 if i % 6 else 0}" for i in range(576)]
    trace.write_text("\n".join(["t_s,a,b", *rows]), encoding="utf-8")
    plan = planned(file, trace=str(trace), target=0.9)
    assert (plan.zones, plan.grade, plan.num_draws) == (2, "measured", 2)
    assert not plan.keeps_target, "zone a had machines all through the first half and none in the second"


def test_terraform_reads_the_fleet_that_is_written(file: str, tmp_path: Path, ask_gpufleet: Run) -> None:
    """By a parser of HCL that is not ours."""
    out = tmp_path / "fleet.tf"
    done = ask_gpufleet("spot", file, "--draws", "20", "--restart", "10min", "--spot-fleet", str(out), "-o", "json")
    plan = SpotServicePlan.model_validate_json(done.stdout)
    read = hcl2.loads(out.read_text(encoding="utf-8"))
    [resource] = read["resource"]
    [[fleet]] = [list(named.values()) for named in resource.values()]
    [options], [capacity] = fleet["spot_options"], fleet["target_capacity_specification"]
    assert unquoted(options["allocation_strategy"]) == "price-capacity-optimized"
    policy = plan.answer.policy
    defaults = {name: body.get("default") for each in read["variable"] for name, body in each.items()}
    on_spot = next(value for name, value in defaults.items() if unquoted(name) == "on_spot")
    assert on_spot == plan.num_machines - policy.floor + policy.spares
    assert "var.on_spot" in str(capacity["spot_target_capacity"])
    [override] = [each for config in fleet["launch_template_config"] for each in config["dynamic"]]
    [[content]] = [each["content"] for each in override.values()]
    assert unquoted(content["instance_type"]) == plan.market.instance
    assert float(unquoted(content["max_price"])) == pytest.approx(plan.most_usd_per_hour, abs=1e-4)


def unquoted(text: str) -> str:
    """A string of HCL, which some versions of the parser leave in its quotes."""
    return text.strip('"')


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"deadline_s": "3d"}, "--deadline"),
        ({"machine": ["aws:g5.xlarge"]}, "--machine"),
        ({"target": 1.5}, "the target"),
        ({"zones": 0}, "zones"),
        ({"availability": 0.5}, "--mean-up"),
        ({"trace": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_a_service_has_not_is_refused_in_one_message(said: dict[str, Any], told: str, file: str) -> None:
    with pytest.raises(UsageError, match=told):
        planned(file, **said)


def test_a_trace_of_one_tick_and_a_plan_of_a_replica_over_machines_are_refused(file: str, tmp_path: Path) -> None:
    trace = tmp_path / "one.json"
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1]}), encoding="utf-8")
    with pytest.raises(UsageError, match="too short"):
        planned(file, trace=str(trace))
    plan = ServePlan.model_validate_json(Path(file).read_text(encoding="utf-8"))
    wide = plan.answer.model_copy(
        update={"replicas": 1, "instance_count": 2, "usd_per_hour": 2 * plan.answer.price_per_instance_usd_per_hour}
    )
    spanning = tmp_path / "wide.json"
    spanning.write_text(plan.model_copy(update={"deployments": [wide]}).model_dump_json(), encoding="utf-8")
    with pytest.raises(UsageError, match="spans machines"):
        planned(str(spanning))


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--rules", "rules.json"), "--rules writes the policy of a job"), (("--work", "3h"), "is the plan of a service")],
)
def test_words_of_a_job_are_refused(words: tuple[str, ...], said: str, file: str, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", file, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_a_fleet_of_a_job_is_refused(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", "--work", "20h", "--deadline", "30h", "--spot-fleet", "fleet.tf")
    assert (done.returncode, done.stdout) == (2, "")
    assert "fleet of a service" in " ".join(done.stderr.split())
