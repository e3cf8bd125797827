"""Questions and their words come from the verbs; each word that could be a path is content, a wish, or not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from typer.main import get_command

from gpufleet.cli.options import sub_verb
from gpufleet.cli.verb_words import Question, Takes, line_of, questions
from gpufleet.errors import UnknownName, UsageError
from gpufleet.table import NOT_ASKED, VERBS
from gpufleet.web.bodies import RESERVED

PATH_LIKE = re.compile(r"FILE|DIR|PATH|FOLDER|\b[A-Za-z]+\.[a-z]+\b")
SERVE = questions()["plan/serve"]
FILE = {"name": "w.yaml", "content": "model: llama-3.1-8b\n"}


def every_parameter() -> Iterator[tuple[Question, Any]]:
    """Options and arguments of every verb that is asked, as their parser knows them."""
    for question in questions().values():
        name, *sub = question.verb
        app = import_module(next(verb.module for verb in VERBS if verb.name == name)).app
        alone: Any = sub_verb(app, sub[0]) if sub else app
        yield from ((question, parameter) for parameter in get_command(alone).params)


def test_what_looks_like_a_path_is_no_text() -> None:
    path_like = [(question, p) for question, p in every_parameter() if PATH_LIKE.search(p.metavar or "")]
    assert len(path_like) > 50
    assert {
        p.opts[0]
        for question, p in path_like
        for word in question.words
        if word.name in (p.name, p.opts[0].removeprefix("--")) and word.takes is Takes.TEXT
    } == set()


def test_a_model_may_be_the_content_of_its_config_everywhere() -> None:
    assert {(q.path, w.name) for q in questions().values() for w in q.words if w.metavar == "MODEL"} == {
        (q.path, w.name) for q in questions().values() for w in q.words if w.metavar == "MODEL" and w.may_be_file
    }


@pytest.mark.parametrize(
    ("takes", "names"),
    [
        (Takes.READ, "calibration diff file fleet jobs plan rates replay spot-trace trace workload"),
        (Takes.WRITTEN, "out per-request picture routing rows rules save spot-fleet"),
    ],
)
def test_words_of_files_are_those_that_somebody_thought_about(takes: Takes, names: str) -> None:
    assert sorted({w.name for q in questions().values() for w in q.words if w.takes is takes}) == names.split()


def test_no_word_is_a_folder_an_output_or_fetched() -> None:
    names = {w.name for q in questions().values() for w in q.words}
    assert names & {"catalog", "models", "seed-config", "out-file", "output", "words"} == set()


def test_every_verb_that_answers_is_a_question() -> None:
    asked = {question.verb[0] for question in questions().values()}
    assert {verb.name for verb in VERBS} - asked == {name for name in NOT_ASKED if " " not in name}
    assert {"plan/serve", "rules/right-size", "catalog/token-prices", "spot"} <= set(questions())
    assert "catalog/update" not in questions()


def test_words_of_a_question_have_a_name_each_and_none_that_addresses_use() -> None:
    for question in questions().values():
        names = [name for word in question.words for name in (word.name, *word.aliases)]
        assert len(names) == len(set(names)), question.path
        assert set(names) & set(RESERVED) == set()


def test_words_become_the_command_line_that_says_them() -> None:
    said = {
        "model": "-m",
        "rate": "5/s",
        "in": 1000,
        "clouds": ["aws", "gcp"],
        "flips": True,
        "verify": False,
        "slo": None,
    }
    assert line_of(SERVE, {**said, "slo": None}, "json").arguments == [
        *("plan", "serve", "-o", "json", "--rate=5/s", "--in=1000", "--clouds=aws", "--clouds=gcp", "--flips"),
        *("--", "-m"),
    ]


def test_a_file_is_named_and_comes_along() -> None:
    line = line_of(SERVE, {"workload": FILE, "picture": True, "files": {"t.csv": "a\n"}}, "json")
    assert set(line.arguments[4:]) == {"--workload=w.yaml", "--picture=picture.svg"}
    assert line.files == {"w.yaml": b"model: llama-3.1-8b\n", "t.csv": b"a\n"}


@pytest.mark.parametrize(
    "said",
    [
        {"workload": "w.yaml"},
        {"workload": {"name": "../w.yaml", "content": ""}},
        {"workload": {"name": "/etc/passwd", "content": ""}},
        {"workload": {"name": "a\\b", "content": ""}},
        {"workload": {"name": "w\0", "content": ""}},
        {"workload": {"name": "w", "content": "", "mode": 1}},
        {"workload": {"name": "w", "content": 1}},
        {"workload": FILE, "files": {"w.yaml": "another"}},
        {"files": ["a"]},
        {"picture": "/tmp/p.svg"},
        {"flips": "yes"},
        {"model": ["a", "b"]},
        {"model": True},
        {"rate": "\ud800"},
        {"rate": " "},
        {"clouds": [["aws"]]},
        {"cloud": "aws", "clouds": "gcp"},
    ],
    ids=repr,
)
def test_what_makes_no_command_line_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        line_of(SERVE, said, "json")


def test_an_unknown_word_is_told_the_nearest() -> None:
    with pytest.raises(UnknownName) as told:
        line_of(SERVE, {"modle": "x"}, "json")
    assert "model" in told.value.nearest


def test_what_comes_after_a_missing_argument_is_not_taken_for_it() -> None:
    model = questions()["fit"].word("model")
    several = Question(("fit",), "", (replace(model, name="a"), replace(model, name="b")), ("json",))
    with pytest.raises(UsageError, match="a is missing"):
        line_of(several, {"b": "L4"}, "json")


def test_a_switch_is_said_to_be_off_too() -> None:
    said = {"model": "llama-3.1-8b", "enforce-eager": True}
    for chunks, flags in ((True, ["--enable-chunked-prefill"]), (False, ["--no-enable-chunked-prefill"]), (None, [])):
        line = line_of(SERVE, {**said, "enable-chunked-prefill": chunks}, "json").arguments
        assert [word for word in line if "chunk" in word] == flags
        assert "--enforce-eager" in line
