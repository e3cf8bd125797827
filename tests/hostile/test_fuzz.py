"""Two hundred and fifty hostile commands: an answer or one message each. `make fuzz` asks as many as you like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.effort import cases
from tests.hostile import fuzz
from tests.hostile.fuzz import Outcome, Report, Tries, faults, tried
from tests.hostile.mutations import every_option
from tests.hostile.valid_questions import SERVE, Question

SEED, TRIES = 3, cases(250, 1000)
SOUND = Question((*SERVE, "-o", "json"))


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> Tries:
    return Tries(SEED, tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def report(tries: Tries) -> Report:
    return tried(tries, range(TRIES))


def test_whatever_is_asked_is_answered_or_refused_in_one_message(report: Report) -> None:
    assert not report.failures, report.told(SEED)


def test_the_tries_get_past_the_first_check(report: Report) -> None:
    assert report.codes.total() == TRIES
    assert report.shares[0] > 0.2
    assert {0, 2, 3, 5} <= set(report.codes)


def test_every_valid_question_is_answered(tries: Tries) -> None:
    refused = [
        (kind, question.words, got.err)
        for kind, questions in tries.questions.items()
        for question in questions
        if (got := tries.outcome(question)).code not in (0, 3) and "nowhere" not in question.words
    ]
    assert refused == []


def test_a_try_depends_on_its_seed_and_number_alone(tries: Tries) -> None:
    alone = [tries.question(number) for number in (7, 3)]
    assert [tries.question(number) for number in (3, 7)] == alone[::-1]


def test_every_option_of_every_verb_is_known() -> None:
    options = every_option()
    assert {"--slo", "--today"} <= {flag for option in options["plan", "serve"] for flag in option.flags}
    assert len(options) > 20
    assert all(options[verb] for verb in options if verb not in (("demo",), ("mcp",)))


@pytest.mark.parametrize(
    ("got", "told"),
    [
        (Outcome(1, "", "gpufleet: error: this is our bug: KeyError: 1.\n"), "exit code 1; a traceback"),
        (Outcome(2, "", ""), "0 messages"),
        (Outcome(2, "", "gpufleet: error: a.\ngpufleet: error: b.\n"), "2 messages"),
        (Outcome(2, "{}", "gpufleet: error: a.\n"), "an answer beside exit code 2"),
        (Outcome(0, "{}", "gpufleet: error: a.\n"), "1 messages beside an answer"),
        (Outcome(0, '{"a": NaN}', ""), "no number"),
        (Outcome(0, '{"a": -Infinity}', ""), "not json"),
        (Outcome(0, '{"a": 1', ""), "not json"),
        (Outcome(0, '{"a": "inf"}', ""), "no number"),
        (Outcome(0, '{"a": 1' + "0" * 300 + "}", ""), "too many digits"),
        (Outcome(0, '"\x1b[31m"', ""), "control characters"),
        (Outcome(0, '"\u202e"', ""), "control characters"),
        (Outcome(0, "{}", "x.py:3: RuntimeWarning: overflow\n"), "a warning"),
        (Outcome(2, "", f"gpufleet: error: {'a' * 5000}.\n"), "too long"),
    ],
)
def test_what_is_wrong_is_seen(got: Outcome, told: str) -> None:
    assert told in "; ".join(faults(SOUND, got))


def test_a_sound_answer_is_sound() -> None:
    assert faults(SOUND, Outcome(0, json.dumps({"a": [1.5, "information", "of Infinity"]}), "wrote a\n")) == []


def test_memory_beyond_the_limit_is_a_failure(tries: Tries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "main", lambda _: len(bytearray(int(3 * fuzz.MOST_MEMORY_BYTES))) and 0)
    with pytest.raises(MemoryError), fuzz.limited_memory():
        tries.outcome(SOUND, tmp_path / "try")
