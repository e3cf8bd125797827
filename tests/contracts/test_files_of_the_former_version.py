"""Plan files that the former version wrote are read as before: fields that came since have a value of their own.

`former/*.json` were written by the version before reasons, limits and layouts became values. They are never rewritten.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpufleet
from gpufleet.cli import main
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ServePlan

FORMER = Path(__file__).parent / "former"
PLANS = ("service", "other_service", "infeasible")
SINCE = {
    "deployments": {
        "ranks": None,
        "binding": "",
        "price_age_ratio": 1.0,
        "sure_requests_per_s": None,
        "doubt_ratio": 1.0,
        "accepted_tokens": None,
        "beside": None,
        "drafts": None,
    },
    "rejections": {"code": "", "figures": {}},
    "relaxations": {"asked_s": None, "needed_s": None},
}

OF_LAUNCH = ("benchmark", "image")


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_read_and_says_what_it_said(name: str) -> None:
    text = (FORMER / f"{name}.json").read_text(encoding="utf-8")
    written = json.loads(text)
    read = ServePlan.model_validate_json(text).model_dump(mode="json")
    for rows, fields in SINCE.items():
        for row, was in zip(read[rows], written[rows], strict=True):
            assert {key: row.pop(key) for key in fields} == fields
            launch = row.get("launch") or dict.fromkeys(OF_LAUNCH)
            assert [launch.pop(key) for key in OF_LAUNCH] == [None, None]
            assert row == was
    for price in (read["basis"] or {}).get("prices", []):
        assert price.pop("age_ratio") == 1.0
    for flip in read["flips"] or []:
        assert flip["winner"] is None or flip["winner"].pop("price_basis") == "observed"
        assert flip["winner"] is None or flip["winner"].pop("doubt_ratio") == 1.0
    for key in ("levers", "edges", "certainty", "lengths_assumed"):
        assert read[key] == []
    for key in written.keys() - SINCE.keys() - {"spot_alternative", "lower_precision_alternative", "asked_about"}:
        assert read[key] == written[key], key


def test_a_plan_of_several_models_is_read() -> None:
    fleet = FleetPlan.model_validate_json((FORMER / "fleet.json").read_text(encoding="utf-8"))
    assert [plan.model for plan in fleet.plans] == ["llama-3.1-8b", "qwen3-32b"]


@pytest.mark.parametrize("name", [*PLANS, "fleet"])
def test_a_plan_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(FORMER / f"{name}.json"), "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    models = said.get("models", [said])
    written = json.loads((FORMER / f"{name}.json").read_text(encoding="utf-8"))
    plans = written.get("plans", [written])
    for model, plan in zip(models, plans, strict=True):
        answer = next(iter(plan["deployments"]), None)
        assert (model["was"] or {}).get("instance") == (answer or {}).get("instance")
    assert main(["explain", str(FORMER / f"{name}.json")]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_two_plans_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(FORMER / "service.json"), str(FORMER / "other_service.json")]) == 0
    assert "compared" in capsys.readouterr().out.casefold()


def test_the_first_answer_is_asked_why() -> None:
    plan = ServePlan.model_validate_json((FORMER / "service.json").read_text(encoding="utf-8"))
    assert gpufleet.explain_plan(FORMER / "service.json").was == plan.answer
