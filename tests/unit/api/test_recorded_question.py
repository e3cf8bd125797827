"""The question in a plan that somebody edited: read, or refused in one sentence."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from gpufleet.api.recorded_question import QuestionWords, request_of
from gpufleet.api.requests import RequestKind, ServeRequest
from gpufleet.errors import UsageError
from gpufleet.results.plan import PlanBasis

QUESTION = {"model": "llama-3.1-8b", "rate": 2, "input_tokens": 100, "output_tokens": 10.0}


def basis(**words: Any) -> PlanBasis:
    return PlanBasis(question={**QUESTION, **words}, digests={}, prices=[])


def test_every_field_of_a_request_can_be_read_again() -> None:
    of_kinds = {f.name for f in fields(RequestKind)}
    assert set(QuestionWords.__annotations__) - of_kinds <= {f.name for f in fields(ServeRequest)}
    assert {f.name for f in fields(ServeRequest)} - {"from_file"} <= set(QuestionWords.__annotations__)


def test_a_question_is_read_as_it_was_written() -> None:
    kinds = [{**{k: v for k, v in QUESTION.items() if k != "model"}, "name": "chat", "slo": None}]
    request = request_of(basis(gpus=["L4"], rows=3, today="2026-08-31", classes=kinds, budget_usd_per_hour=5))
    assert (request.gpus, request.rows, str(request.today), request.classes[0].name) == (
        ["L4"],
        3,
        "2026-08-31",
        "chat",
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"gpus": [["L4"]]}, "gpus.0"),
        ({"gpus": "L4"}, "gpus"),
        ({"rate": "2"}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rows": 2.5}, "rows"),
        ({"rows": True}, "rows"),
        ({"slo": {}}, "slo"),
        ({"today": 20260831}, "today"),
        ({"today": "soon"}, "soon"),
        ({"input_tokens": {"mean": [1]}}, "input_tokens"),
        ({"input_tokens": {"mean": -1}}, "positive number"),
        ({"classes": [{"rate": 1}]}, "missing"),
        ({"classes": ["chat"]}, "classes.0"),
        ({"name": "x"}, "name unknown"),
        ({"from_file": []}, "from_file unknown"),
    ],
)
def test_words_of_another_kind_are_refused(words: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match="the question of the plan cannot be read") as caught:
        request_of(basis(**words))
    assert told in str(caught.value)
