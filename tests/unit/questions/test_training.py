"""Words of training questions."""

from __future__ import annotations

import pytest

from gpufleet.questions.fields import BATCH, words_of
from gpufleet.questions.training import FinetuneRequest, TrainRequest, words_of_training


def test_what_a_job_has_that_training_has_not_is_no_word_of_it() -> None:
    for kind in (TrainRequest, FinetuneRequest):
        words = words_of_training(kind)
        assert not {"trace", "engine", "every", "requests", "rate"} & set(words)
        assert {"model", "tokens", "seq", "deadline", "budget", "clouds", "gpus", "owned", "layout"} <= set(words)


def test_adapters_are_words_of_fine_tuning_alone() -> None:
    assert set(words_of_training(FinetuneRequest)) - set(words_of_training(TrainRequest)) == {
        "method",
        "rank",
        "modules",
    }


def test_training_has_no_slack_beyond_its_confidence_unless_it_is_said() -> None:
    assert "default 0%" in words_of_training(TrainRequest)["headroom"].says
    assert "default 20%" in words_of(*BATCH)["headroom"].says


@pytest.mark.parametrize(
    ("word", "text", "value"),
    [
        ("tokens", "2T", 2e12),
        ("tokens", "50M", 5e7),
        ("seq", "8k", 8192.0),
        ("deadline", "3d", 3 * 86400.0),
        ("batch", "512", 512),
        ("gpus", "H100:256", ("H100:256",)),
    ],
)
def test_amounts_are_typed_as_people_say_them(word: str, text: str, value: object) -> None:
    row = words_of_training(TrainRequest)[word]
    assert row.kind.read(text, word) == value
