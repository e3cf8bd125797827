"""A question is solved once: what else is asked of it stands on the same solution, or differs from it by name."""

from __future__ import annotations

import sys

import pytest

from gpufleet.api.answers import asked_further
from gpufleet.api.plans import plan_serve
from gpufleet.domain.calibration import Calibration
from gpufleet.optimize import service as serve
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.replicas import Rejections
from gpufleet.questions.fields import ServeRequest

ASKED = ServeRequest("llama-3.1-8b", 20.0, 1000, 200, "tpot.p95<50ms")


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[WriterQuestion]:
    """Every question that is solved, in order."""
    questions: list[WriterQuestion] = []
    solve = serve.solve_serve

    def noted(
        question: WriterQuestion, calibration: Calibration, rejections: Rejections | None = None
    ) -> WriterSolution:
        questions.append(question)
        return solve(question, calibration, rejections)

    for module in list(sys.modules.values()):
        if getattr(module, "solve_serve", None) is solve:
            monkeypatch.setattr(module, "solve_serve", noted)
    return questions


def test_a_plan_with_four_follow_ups_solves_the_question_fp8_the_other_gpus_and_all_engines(
    solved: list[WriterQuestion],
) -> None:
    plan = plan_serve(ASKED)
    asked, lower = solved
    assert {w.name for w in asked.model.choices.palette.weight_formats} == {"bf16", "fp16"}
    assert "fp8" in {w.name for w in lower.model.choices.palette.weight_formats}
    assert (lower.offers, lower.demand) == (asked.offers, asked.demand)
    asked_further(plan, why_not=["L40S:4"], flips=True, front=True, token_price="0.6/1.2")
    narrowed, every_engine = solved[2:]
    assert {i.accelerator for i in narrowed.instances} == {"L40S"}
    assert narrowed.model.choices.gpus_per_replica == (4,)
    assert len(every_engine.model.choices.palette.engines) > 1


def test_writing_a_plan_down_solves_nothing(solved: list[WriterQuestion]) -> None:
    plan = plan_serve(ASKED)
    before = len(solved)
    plan.to_json()
    assert len(solved) == before
