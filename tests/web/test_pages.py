"""Pages for people: a form and an answer for every question, without a script, on a phone and at a desk."""

from __future__ import annotations

import re

import httpx
import pytest
from tools.browser import chromium, what_is_wrong

from gpufleet.cli.verb_words import Takes, questions

PAGE = {"accept": "text/html"}
ANSWERED = "/ask/fit?model=llama-3.1-8b&gpus=L4:1"
SEEN = {
    "the index": "/",
    "a form": "/ask/plan/serve",
    "an answer": "/ask/plan/serve?model=llama-3.1-8b&rate=5/s&in=100&out=10&clouds=aws&gpus=L4",
    "a problem": f"/ask/fit?gpus=L4&model={'m' * 12}",
    "where one signs in": "/sign-in",
}


def test_every_question_has_a_form_with_all_its_words(client: httpx.Client) -> None:
    index = client.get("/", headers=PAGE).text
    for path, question in questions().items():
        assert f'href="/ask/{path}"' in index
        form = client.get(f"/ask/{path}", headers=PAGE).text
        assert "<script" not in form
        fields = set(re.findall(r'<input type="(\w+)" name="([\w-]+)"', form))
        assert {name for _, name in fields} == {word.name for word in question.words}
        assert {name for kind, name in fields if kind == "file"} >= {
            word.name for word in question.words if word.takes is Takes.READ
        }


def test_the_address_is_the_question_and_shows_its_answer_above_the_form(client: httpx.Client) -> None:
    told = client.get(ANSWERED, headers=PAGE)
    assert (told.status_code, told.headers["x-exit-code"]) == (200, "0")
    assert 'value="llama-3.1-8b"' in told.text
    assert '<div class="gpufleet">' in told.text
    assert (
        client.get(f"{ANSWERED}&format=json").json()
        == client.post("/api/v1/fit", json={"model": "llama-3.1-8b", "gpus": "L4:1"}).json()
    )


def test_empty_fields_say_nothing_and_lists_may_be_given_again(client: httpx.Client) -> None:
    address = "/ask/plan/serve?model=llama-3.1-8b&rate=5/s&in=100&out=10&clouds=aws&clouds=gcp&gpus=L4&slo=&trace="
    told = client.get(address, headers=PAGE)
    assert told.status_code == 200
    assert 'value="aws,gcp"' in told.text


def test_what_is_wrong_stands_above_the_form_at_its_field(client: httpx.Client) -> None:
    told = client.get("/ask/fit?model=llama-3.1-8x&gpus=L4", headers=PAGE)
    assert told.status_code == 422
    assert 'role="alert"' in told.text
    assert re.search(r'class="concerned">\s*<label>model', told.text)


def test_a_file_in_an_address_is_refused_with_a_hint(client: httpx.Client) -> None:
    told = client.get("/ask/plan/serve?workload=w.yaml", headers=PAGE)
    assert told.status_code == 422
    assert "Ask with files" in told.text


def test_further_files_stand_below_the_answer(client: httpx.Client) -> None:
    told = client.get("/ask/estimate?model=llama-3.1-8b&gpus=L4:1&in=9&out=9&batch=1&picture=yes", headers=PAGE)
    assert "<summary>picture.svg</summary><pre>&lt;svg" in told.text


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="Chromium is not installed")
def test_pages_can_be_read_on_a_phone_and_at_a_desk(client: httpx.Client) -> None:
    pages = {name: client.get(address, headers=PAGE).text for name, address in SEEN.items()}
    assert what_is_wrong(pages, (390, 1280)) == {}
