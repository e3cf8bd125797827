"""A plan of several models is explained, compared and shown like a plan of one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api.comparisons import compare_plans
from gpufleet.api.fleets import FleetAnswer, plan_fleet
from gpufleet.api.plan_changes import explain_plan
from gpufleet.api.plans import plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.cli.plan_answers import fleet_answer
from gpufleet.cli.plan_words import ServeFlags
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import WorkloadFile, read_workload
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.comparison import fleet_comparison_page
from gpufleet.report.fleet_plan import fleet_page
from gpufleet.report.formats import as_json
from gpufleet.report.html import page_as_html
from gpufleet.report.plan_changes import fleet_changes_page
from gpufleet.report.text import page_as_text
from gpufleet.results.comparison import FleetComparison
from gpufleet.results.plan_changes import FleetChanges

SMALL = ServeRequest("llama-3.1-8b", 10.0, 1000, 200, "tpot.p95<60ms")
LARGE = ServeRequest("qwen3-32b", 3.0, 2000, 400, clouds=("lambda", "coreweave"))
IMPOSSIBLE = ServeRequest("qwen3-32b", 3.0, 2000, 400, "ttft.p95<1ms")


@pytest.fixture(scope="module")
def fleet() -> FleetAnswer:
    return plan_fleet([SMALL, LARGE], 100.0)


def written(folder: Path, name: str, plan: object) -> str:
    path = folder / f"{name}.json"
    path.write_text(as_json(plan), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_a_plan_of_several_models_that_was_written_is_reproduced(fleet: FleetAnswer, tmp_path: Path) -> None:
    changes = explain_plan(written(tmp_path, "fleet", fleet))
    assert isinstance(changes, FleetChanges)
    assert changes.stands
    assert all(model.is_reproduced for model in changes.models)
    assert (changes.was_hash, changes.was_usd_per_hour) == (changes.now_hash, changes.now_usd_per_hour)
    assert page_as_text(fleet_changes_page(changes), 80).startswith("The plan stands: 2 models together, still $")


@pytest.mark.slow
def test_the_model_whose_machines_became_dearer_is_the_one_that_changed(fleet: FleetAnswer) -> None:
    tables = load_catalog()
    dear = fleet.plans[0].answer
    raised = tuple(
        replace(o, price_per_instance_usd_per_hour=3 * o.price_per_instance_usd_per_hour)
        if (o.cloud, o.instance) == (dear.cloud, dear.instance) else o
        for o in tables.offers
    )  # fmt: skip
    changes = explain_plan(fleet, replace(tables, offers=raised))
    assert isinstance(changes, FleetChanges)
    assert [model.stands for model in changes.models] == [False, True]
    assert not changes.stands
    assert "The plan changed" in page_as_text(fleet_changes_page(changes), 80)


@pytest.mark.slow
def test_two_plans_of_several_models_lie_beside_each_other(fleet: FleetAnswer, tmp_path: Path) -> None:
    other = plan_fleet([replace(LARGE, rate=30.0), ServeRequest("mistral-7b-v0.1", 1.0, 100, 100)])
    result = compare_plans(written(tmp_path, "a", fleet), written(tmp_path, "b", other))
    assert isinstance(result, FleetComparison)
    assert [pair.model for pair in result.models] == ["qwen3-32b"]
    assert (result.only_first, result.only_second) == (["llama-3.1-8b"], ["mistral-7b-v0.1"])
    assert (result.first_usd_per_hour, result.second_usd_per_hour) == (fleet.usd_per_hour, other.usd_per_hour)
    assert [(c.name, c.first, c.second) for c in result.models[0].changed_inputs] == [("rate", "3/s", "30/s")]
    words = " ".join(page_as_text(fleet_comparison_page(result), 200).split())
    assert "llama-3.1-8b is only in" in words


def test_one_model_is_not_compared_with_several(fleet: FleetAnswer, tmp_path: Path) -> None:
    single = written(tmp_path, "one", plan_serve(SMALL))
    with pytest.raises(UsageError, match="a plan of one model and a plan of several cannot be compared"):
        compare_plans(single, written(tmp_path, "many", fleet))


def test_what_is_written_says_what_each_model_rests_on(fleet: FleetAnswer) -> None:
    plans = json.loads(as_json(fleet))["plans"]
    assert all(plan["basis"]["prices"] and plan["basis"]["question"]["model"] for plan in plans)


def test_the_page_says_of_each_model_what_its_own_page_says(fleet: FleetAnswer) -> None:
    page = fleet_page(fleet, today=date(2026, 11, 21))
    for shown in (page_as_text(page, 80), page_as_html(page)):
        words = " ".join(shown.split())
        for model in ("llama-3.1-8b", "qwen3-32b"):
            for part in ("Why this one", "Latency with", "To start a replica", "Rejected: "):
                assert f"{model}: {part}" in words
        assert "on demand prices" in words
        assert "20% headroom" in words
        assert "--flips" not in words


@pytest.mark.slow
def test_a_model_that_nothing_serves_says_what_would_help() -> None:
    page = " ".join(page_as_text(fleet_page(plan_fleet([SMALL, IMPOSSIBLE])), 80).split())
    assert "qwen3-32b: The smallest change that helps" in page
    assert "llama-3.1-8b: Why this one" in page


def test_a_model_that_shares_machines_is_started_in_the_layout_that_it_has_there() -> None:
    written = read_workload(Path(__file__).parents[3] / "examples" / "three-models.yaml")
    shared = fleet_answer(WorkloadFile(), written, WorkloadFile(), ServeFlags()).shared
    assert shared
    for tenant in (t for s in shared for t in s.tenants):
        assert tenant.launch is not None
        assert f"--tensor-parallel-size {tenant.layout.removeprefix('TP')} " in f"{tenant.launch.command} "
