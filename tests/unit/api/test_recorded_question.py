"""The question in a plan that somebody edited: read, or refused in one sentence."""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from typing import Any

import pytest

from gpufleet.api.plan_basis import NOT_WRITTEN, request_of, request_words
from gpufleet.domain.images import Images
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.questions.fields import RequestKind, ServeRequest
from gpufleet.results.plan import PlanBasis

QUESTION = {"model": "llama-3.1-8b", "rate": 2, "input_tokens": 100, "output_tokens": 10.0}


def basis(**words: Any) -> PlanBasis:
    return PlanBasis(question={**QUESTION, **words}, digests={}, prices=[])


SAID = {
    "float": 0.5, "int": 3, "bool": True, "str": "x", "date": date(2026, 8, 31), "Sequence[str]": ["x", "y"],
    "Collection[str]": ["x"], "float | TokenCounts": TokenCounts(100.0, 0.5, (90.0, 150.0, 200.0, 300.0)),
    "str | Slo": "ttft<1s", "Images": Images(2, 1024, 768), "str | NamedPath | Architecture": "llama-3.1-8b",
    "str | NamedPath | OwnStack": "mine.toml",
    "Mapping[str, float]": {"1x L4 TP1 bf16 vllm": 1.25},
    "Sequence[RequestKind]": (RequestKind("chat", 2.0, 100.0, TokenCounts(10.0), "ttft<1s", 0.5, 0.25),),
}  # fmt: skip


def test_every_field_of_a_request_can_be_read_again() -> None:
    said = {
        f.name: SAID[str(f.type).removesuffix(" | None")] for f in fields(ServeRequest) if f.name not in NOT_WRITTEN
    }
    asked = ServeRequest(**said)
    words = request_words(asked)
    assert set(words) == set(said)
    assert request_of(PlanBasis(question=words, digests={}, prices=[])) == asked


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
