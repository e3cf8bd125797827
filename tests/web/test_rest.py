"""Questions over HTTP are answered as on the command line, and what is wrong with them is told by its parts."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
from tests.corpus.asked import of_command
from tests.corpus.commands import commands
from tests.corpus.faces import ALONE, Outcome, at_once
from tests.corpus.faces import WRONG as OF_WRONG
from tests.web.serving import LLAMA

from gpufleet.cli.verb_words import questions
from gpufleet.web.problems import field_of

VALID = (
    "fit", "fit-lora", "fit-no-room", "estimate-batch", "encode", "rules-memory", "rules-scaling", "catalog-gpus",
    "catalog-tokens", "catalog-discounts", "catalog-prices", "catalog-coverage", "compare", "serve-fixed",
    "workload-service", "trace-plain", "encoder-serve", "spot-fleet",
)  # fmt: skip
WRONG = (
    "wrong-model", "wrong-gpu", "wrong-cloud", "wrong-engine", "wrong-rate", "wrong-rate-unit", "wrong-tokens",
    "wrong-slo", "wrong-missing-model", "wrong-missing-gpus", "wrong-kind-of-file", "wrong-config",
)  # fmt: skip


@pytest.mark.parametrize("name", [*VALID, *WRONG])
def test_command_line_python_and_http_answer_alike(client: httpx.Client, name: str, tmp_path: Path) -> None:
    asked = of_command(commands()[name])
    assert asked is not None
    assert asked.body is not None
    with patch.dict(os.environ, ALONE):
        found = Outcome.of(asked, at_once(client, asked, asked.body, tmp_path / name))
    assert found.differences == []
    assert (found.kind == OF_WRONG) is (name in WRONG)


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
