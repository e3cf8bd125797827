"""Questions over HTTP are answered as on the command line, and what is wrong with them is told by its parts."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from tests.hostile.valid_questions import SERVE, Question, valid_questions
from tests.web.serving import LLAMA

from gpufleet.cli import verb_words as words
from gpufleet.cli.answered import answered
from gpufleet.cli.verb_words import Takes, questions
from gpufleet.web.problems import CODES, field_of

KINDS = ("words", "config.json", "workload", "trace", "measurements", "plan.json", "jobs", "answers")
SLOW = {"catalog/models", "rules/runtime", "rules/right-size", "regions", "simulate"}
ASKED = [path for path in questions() if path not in SLOW]
FEWEST_QUESTIONS, EACH_OF_A_VERB = 30, 1


def said_of(question: Question) -> tuple[str, dict[str, Any]] | None:
    """A command line as a body; None where it is no question of the server: a folder, an output."""
    path = next((p for p in ASKED if tuple(p.split("/")) == question.words[: p.count("/") + 1]), None)
    if path is None or question.environment or any("/" in name for name in question.files) or "-o" in question.words:
        return None
    known = {f"--{n}": w for w in questions()[path].words for n in (w.name, *w.aliases)}
    places = [word for word in questions()[path].words if word.flag is None]
    said: dict[str, Any] = {}
    rest = list(question.words[path.count("/") + 1 :])
    while rest:
        typed = rest.pop(0)
        word = known.get(typed) if typed.startswith("--") else places[0] if places[0].is_list else places.pop(0)
        if word is None:
            return None
        value: Any = True if word.takes is Takes.FLAG else rest.pop(0) if typed.startswith("--") else typed
        value = True if word.takes is Takes.WRITTEN else value
        content = question.files.get(value) if isinstance(value, str) else None
        value = value if content is None else {"name": value, "content": content}
        said[word.name] = [*said.get(word.name, []), value] if word in places and word.is_list else value
    return path, said


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, Any], Question]]:
    """Thirty and more valid questions: no more than a few of a verb for each kind of file."""
    folder = tmp_path_factory.mktemp("plans")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        by_kind = valid_questions(folder)
    found = []
    by_kind["words"].append(Question(("mix", *SERVE[2:])))
    for kind in KINDS:
        seen: dict[str, int] = {}
        for question in by_kind[kind]:
            body = said_of(question)
            if body is not None and seen.setdefault(body[0], 0) < EACH_OF_A_VERB:
                seen[body[0]] += 1
                found.append((*body, question))
    return found


def test_valid_questions_are_answered_as_on_the_command_line(
    client: httpx.Client, valid: list[tuple[str, dict[str, Any], Question]]
) -> None:
    assert len(valid) >= FEWEST_QUESTIONS
    assert {path.split("/")[0] for path, *_ in valid} == {path.split("/")[0] for path in ASKED}
    for path, said, question in valid:
        typed = answered([*question.words, "-o", "json"], {n: c.encode() for n, c in question.files.items()})
        asked = client.post(f"/api/v1/{path}", json=said)
        code = asked.headers.get("x-exit-code")
        assert (asked.status_code, code) == (200, str(typed.code)), (question.words, asked.text)
        answer = asked.json()
        assert set(answer.pop("further_files", {}).values()) == set(typed.files.values())
        assert answer == json.loads(typed.text), question.words


WRONG: list[tuple[str, Mapping[str, Any], str | None]] = [
    ("fit", {"model": "llama-3.1-8x", "gpus": "L4:1"}, "model"),
    ("fit", {"model": "llama-3.1-8b", "gpus": "L5:1"}, "gpus"),
    ("plan/serve", {"model": "llama-3.1-8b", "rate": "5x", "in": 100, "out": 10}, "rate"),
    ("plan/serve", {"model": "llama-3.1-8b", "rate": "5/s", "in": "long", "out": 10}, "in"),
    ("plan/serve", {"model": "llama-3.1-8b", "rate": "5/s", "in": 100, "out": 10, "clouds": "awz"}, "clouds"),
    ("plan/serve", {"model": "llama-3.1-8b", "rate": "5/s", "in": 100, "out": 10, "slo": "ttft<"}, "slo"),
    ("plan/serve", {"model": "llama-3.1-8b", "rate": "5/s", "in": 100, "out": 10, "headroom": "much"}, "headroom"),
    (
        "estimate",
        {"model": "llama-3.1-8b", "gpus": "L4:1", "in": 100, "out": 9, "batch": 1, "engine": "vlm"},
        "engine",
    ),
    ("estimate", {"model": "llama-3.1-8b", "gpus": "L4:1"}, None),
    ("simulate", {"model": "llama-3.1-8b", "gpus": "H100:1", "rate": "5/s"}, None),
    ("catalog/prices", {"limit": 0}, "limit"),
    ("explain", {}, "plan"),
]


@pytest.mark.parametrize(("path", "said", "field"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_questions_are_told_as_on_the_command_line(
    client: httpx.Client, path: str, said: Mapping[str, Any], field: str | None
) -> None:
    typed = answered(words.line_of(questions()[path], said, "json").arguments).error
    told = client.post(f"/api/v1/{path}", json=said)
    assert typed is not None
    assert (told.status_code, told.headers["content-type"]) == (422, "application/problem+json")
    problem = told.json()
    assert (problem["code"], problem["detail"]) == (CODES[type(typed)], str(typed))
    assert (problem["hint"], problem["expected"]) == (typed.hint, typed.expected)
    assert field is None or problem["field"] == field


def test_a_field_is_told_only_where_it_is_one() -> None:
    question = questions()["plan/serve"]
    assert field_of(question, {"clouds": ["aws", "nix"], "model": "m"}, "unknown cloud 'nix'", None) == "clouds"
    assert field_of(question, {"clouds": "same", "regions": "same"}, "unknown name 'same'", None) is None
    assert field_of(question, {}, "--rate is missing", None) == "rate"


def test_a_question_without_an_answer_has_one_all_the_same(client: httpx.Client) -> None:
    told = client.post("/api/v1/fit", json={"model": "llama-3.3-70b", "gpus": "L4:1"})
    assert (told.status_code, told.headers["x-exit-code"], told.json()["verdict"]) == (200, "3", "does not fit")


@pytest.mark.parametrize(
    ("named", "accepted", "begins", "media"),
    [
        ("", "*/*", "{", "application/json"),
        ("?format=csv", "*/*", "weights,", "text/csv"),
        ("?format=text", "text/html", "llama", "text/plain"),
        ("", "text/html,*/*", "<!doctype html>", "text/html"),
        ("", "text/markdown", "", "text/markdown"),
    ],
)
def test_the_format_is_named_in_the_address_or_accepted(
    client: httpx.Client, named: str, accepted: str, begins: str, media: str
) -> None:
    told = client.post(f"/api/v1/fit{named}", json=LLAMA, headers={"accept": accepted})
    assert told.text.startswith(begins)
    assert told.headers["content-type"].partition(";")[0] == media


def test_an_unknown_format_is_refused(client: httpx.Client) -> None:
    told = client.post("/api/v1/fit?format=xml", json=LLAMA)
    assert (told.status_code, told.json()["code"], told.json()["field"]) == (406, "no_format", "format")


def test_further_files_come_beside_the_answer_or_as_a_zip(client: httpx.Client) -> None:
    said = {**LLAMA, "in": 100, "out": 10, "batch": 1, "picture": True}
    beside = client.post("/api/v1/estimate", json=said).json()["further_files"]
    packed = client.post("/api/v1/estimate", json=said, headers={"accept": "application/zip"})
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert sorted(archive.namelist()) == ["answer.json", "picture.svg"]
        assert archive.read("picture.svg").decode() == beside["picture.svg"]


def test_two_files_of_one_name_in_turn_are_each_read(client: httpx.Client) -> None:
    for rate in (1, 7):
        workload = {
            "name": "w.yaml",
            "content": f"model: llama-3.1-8b\nrate: {rate}/s\nin: 100\nout: 10\nclouds: aws\n",
        }
        answer = client.post("/api/v1/plan/serve", json={"workload": workload, "gpus": "L4"}).json()
        assert next(each for each in answer["inputs"] if each["name"] == "rate")["value"] == f"{rate}/s"


def test_a_job_is_answered_later_and_can_be_ended(client: httpx.Client) -> None:
    begun = client.post("/api/v1/fit?as=job", json=LLAMA)
    job = begun.json()
    assert (begun.status_code, begun.headers["location"]) == (202, f"/api/v1/jobs/{job['id']}")
    while client.get(begun.headers["location"]).json()["status"] == "running":
        pass
    assert client.get(job["answer"]).json() == client.post("/api/v1/fit", json=LLAMA).json()
    assert client.delete(begun.headers["location"]).status_code == 204
    unknown = client.get("/api/v1/jobs/none")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")


def test_the_description_has_every_question_and_its_words(client: httpx.Client) -> None:
    told = client.get("/api/v1/openapi.json").json()
    assert told["openapi"].startswith("3.1")
    assert {path.removeprefix("/api/v1/") for path in told["paths"]} > set(questions())
    body = told["paths"]["/api/v1/plan/serve"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["flips"]["type"] == "boolean"
    assert set(body["properties"]) == {*(w.name for w in questions()["plan/serve"].words), "files"}


def test_counts_say_how_many_and_nothing_of_what(client: httpx.Client) -> None:
    client.post("/api/v1/fit", json={**LLAMA, "model": "a-secret"})
    told = client.get("/metrics").text
    assert 'gpufleet_answers_total{outcome="unknown_name",question="fit"}' in told
    assert "secret" not in told
    assert client.get("/healthz").json() == {"status": "ok"}
