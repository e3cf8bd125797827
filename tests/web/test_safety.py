"""What a server of questions does not do, whoever asks: each is seen to be refused, or to end."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.hostile.mutations import HOSTILE
from tests.web.serving import ENDLESS, LLAMA, PATIENCE_S, serving

from gpufleet.cli.usage import as_user_error
from gpufleet.cli.verb_words import Takes, questions
from gpufleet.web import bodies, jobs
from gpufleet.web.guard import COOKIE, LOOPBACK, Rights
from gpufleet.web.workers import Limits

FIT = "/api/v1/fit"
PAGE, AS_JSON = {"accept": "text/html"}, {"content-type": "application/json"}
TOKEN = secrets.token_urlsafe(16)
SCRIPT = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>'\"=cmd|' /C calc'!A0"
SECONDS_TO_END, HOSTILE_BODIES = 2.0, 150


@pytest.fixture(scope="module")
def guarded(alone: None) -> Iterator[httpx.Client]:
    """A server that wants a token and gives an answer half a second."""
    with serving(Rights(frozenset(LOOPBACK), TOKEN), Limits(answer_s=0.5, waiting=1)) as asking:
        yield asking


def refused(told: httpx.Response, status: int, code: str) -> None:
    """The reply is a problem of this code."""
    assert (told.status_code, told.headers["content-type"]) == (status, "application/problem+json"), told.text
    assert (told.json()["code"], told.json()["status"]) == (code, status)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"])
def test_another_host_is_refused(client: httpx.Client, host: str) -> None:
    refused(client.get("/", headers={"host": host}), 403, "foreign")


def test_names_of_this_machine_are_answered(client: httpx.Client) -> None:
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"):
        assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://"]
)
def test_another_origin_is_refused(client: httpx.Client, origin: str) -> None:
    refused(client.post(FIT, json=LLAMA, headers={"origin": origin}), 403, "foreign")


def test_pages_of_this_server_are_no_other_origin(client: httpx.Client) -> None:
    assert client.post(FIT, json=LLAMA, headers={"origin": str(client.base_url).rstrip("/")}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_an_image_of_another_page_asks_nothing(client: httpx.Client, site: str) -> None:
    image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    refused(client.get("/ask/fit?model=llama-3.1-8b&gpus=L4:1", headers=image), 403, "foreign")


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/yaml", ""],
)
def test_only_json_is_read_as_a_question(client: httpx.Client, kind: str) -> None:
    refused(client.post(FIT, content=json.dumps(LLAMA), headers={"content-type": kind}), 415, "no_json")


def test_nothing_packed_is_read(client: httpx.Client) -> None:
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    refused(client.post(FIT, content=b"{}", headers=packed), 415, "no_json")


def test_no_other_site_may_read_answers(client: httpx.Client) -> None:
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    told = client.request("OPTIONS", FIT, headers=asked)
    assert told.status_code == 403
    for reply in (told, client.get("/"), client.post(FIT, json=LLAMA), client.get("/none")):
        assert not [name for name in reply.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("path", ["/", "/ask/fit", "/none", "/api/v1/openapi.json", "/healthz", "/sign-in"])
def test_browsers_are_told_what_not_to_do(client: httpx.Client, path: str) -> None:
    headers = client.get(path, headers=PAGE).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    for what in ("default-src", "base-uri", "object-src", "frame-ancestors"):
        assert policy[what] == "'none'"
    assert "unsafe" not in str(policy)
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers or "uvicorn" in headers["server"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer \xe9".encode("latin-1")},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": f"{COOKIE}="},
        {"cookie": "=;;"},
    ],
    ids=["none", "short", "long", "empty", "basic", "no text", "cookie", "empty cookie", "broken cookie"],
)
@pytest.mark.parametrize("path", ["/metrics", "/api/v1/openapi.json", "/api/v1/jobs/x", "/answers/x", "/none"])
def test_nothing_is_told_without_the_token(guarded: httpx.Client, given: dict[str, Any], path: str) -> None:
    refused(guarded.get(path, headers=given), 401, "no_token")


def test_a_token_in_the_address_is_none(guarded: httpx.Client) -> None:
    refused(guarded.get(f"/metrics?token={TOKEN}&{COOKIE}={TOKEN}"), 401, "no_token")


def test_the_token_opens(guarded: httpx.Client) -> None:
    assert guarded.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/healthz").status_code == 200


def test_a_page_signs_in_once_and_the_cookie_is_no_token(guarded: httpx.Client) -> None:
    asked = guarded.get("/ask/fit", headers=PAGE)
    assert (asked.status_code, asked.headers["location"]) == (303, "/sign-in")
    form = form_of(guarded.get("/sign-in").text)
    fields = {"form": (None, form), "token": (None, TOKEN)}
    assert guarded.post("/sign-in", files={**fields, "token": (None, "wrong")}).status_code == 401
    refused(guarded.post("/sign-in", files={**fields, "form": (None, "wrong")}), 403, "foreign")
    refused(guarded.post("/sign-in", data={"form": form, "token": TOKEN}), 415, "no_json")
    told = guarded.post("/sign-in", files=fields)
    assert told.status_code == 303
    said = told.headers["set-cookie"]
    assert TOKEN not in said
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in said.split(";")}
    cookie = said.partition(";")[0]
    guarded.cookies.clear()
    assert guarded.get("/ask/fit", headers={**PAGE, "cookie": cookie}).status_code == 200
    refused(guarded.get("/ask/fit", headers={**PAGE, "cookie": cookie, "sec-fetch-site": "cross-site"}), 403, "foreign")


def form_of(page: str) -> str:
    """What shows that a form is the server's."""
    found = re.search(r'name="form" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_files_of_a_form_are_read_from_this_servers_pages_alone(client: httpx.Client) -> None:
    form = form_of(client.get("/ask/plan/serve", headers=PAGE).text)
    workload = ("w.yaml", b"model: llama-3.1-8b\nrate: 1/s\nin: 100\nout: 10\nclouds: aws\ngpus: L4\n")
    told = client.post("/ask/plan/serve", files={"workload": workload}, headers=PAGE)
    assert (told.status_code, 'role="alert"' in told.text) == (403, True)
    asked = {"workload": workload, "form": (None, form), "rate": (None, "2/s")}
    told = client.post(
        "/ask/plan/serve", files=asked, headers={**PAGE, "origin": "null", "sec-fetch-site": "same-origin"}
    )
    assert (told.status_code, told.headers["location"][:9]) == (303, "/answers/")
    assert "2 requests/s" in client.get(told.headers["location"]).text


@pytest.mark.parametrize(
    "path",
    [
        "/..%2f..%2fetc/passwd",
        "/ask/..%2f..%2fetc/passwd",
        "/ask/%2e%2e/%2e%2e/etc/passwd",
        "/answers/..%2f..%2fx",
        "/ask//etc/passwd",
    ],
)
def test_no_path_leads_anywhere(client: httpx.Client, path: str) -> None:
    refused(client.get(path), 404, "not_found")


@pytest.mark.parametrize("name", ["/etc/hostname", "../../../../etc/hostname", "~/.bashrc", "/proc/self/environ"])
def test_no_word_opens_a_file_of_this_machine(client: httpx.Client, name: str) -> None:
    told = client.post(FIT, json={"model": name, "gpus": "L4:1"})
    assert told.status_code == 422
    refused(client.post("/api/v1/plan/serve", json={"workload": {"name": name, "content": "x"}}), 422, "usage")


OPENING = """
import json, os, sys
from gpufleet.cli.answered import answered
from gpufleet.files import PACKAGE
from gpufleet.web.worker import WARM_UP, own_tables
answered(WARM_UP)
opened, is_asked = [], False
def heard(event, arguments):
    if is_asked and event in ("open", "os.listdir", "os.scandir", "subprocess.Popen", "socket.connect"):
        opened.append(str(arguments[0]))
sys.addaudithook(heard)
is_asked = True
for words, files in json.loads(sys.argv[1]):
    answered(words, {name: content.encode() for name, content in files.items()})
is_asked = False
code = tuple(os.path.realpath(p) + os.sep for p in (PACKAGE, *filter(None, sys.path), sys.base_prefix, sys.prefix))
print(json.dumps([name for name in opened if not os.path.realpath(name).startswith(code)]))
"""


def test_nothing_outside_of_the_package_is_opened_for_an_answer(tmp_path: Path) -> None:
    (tmp_path / "gpufleet.toml").write_text('clouds = ["nowhere"]\n')
    words = ["--rate", "1/s", "--in", "100", "--out", "10", "--clouds", "aws", "--gpus", "L4"]
    asked = [
        [["plan", "serve", "llama-3.1-8b", *words, "-o", "html"], {}],
        [["plan", "serve", "--workload", "w.yaml", *words], {"w.yaml": "model: llama-3.1-8b\n"}],
        [["plan", "serve", "/etc/hostname", *words], {}],
        [["plan", "serve", "--workload", "/etc/passwd", *words], {}],
        [["fit", "~/config.json", "--gpus", "L4"], {}],
        [["explain", "../../etc/passwd"], {}],
        [["accuracy", "/etc/passwd"], {}],
        [["schedule", "/etc"], {}],
    ]
    alone = {"GPUFLEET_CONFIG": "", "GPUFLEET_PRICES": os.devnull, "GPUFLEET_MODELS": os.devnull, "GPUFLEET_CACHE": ""}
    of_compiler = ("/proc/cpuinfo", str(tmp_path / "compiled"))
    done = subprocess.run(
        [sys.executable, "-c", OPENING, json.dumps(asked)],
        env={**os.environ, **alone, "NUMBA_CACHE_DIR": of_compiler[1]},
        cwd=os.sep,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not [name for name in json.loads(done.stdout) if not name.startswith(of_compiler)]


def test_a_large_body_is_refused(client: httpx.Client) -> None:
    refused(client.post(FIT, json={"model": "x" * 2**21}), 413, "body_too_large")
    keys = json.dumps({f"k{n}": n for n in range(1_000_000)})
    refused(client.post(FIT, content=keys, headers=AS_JSON), 413, "body_too_large")


def chunks(size: int) -> Iterator[bytes]:
    """A body that says no length."""
    yield from (b" " * 65_536 for _ in range(size // 65_536))


def test_a_large_body_without_a_length_is_refused(client: httpx.Client) -> None:
    told = client.post(FIT, content=chunks(2**21), headers=AS_JSON)
    refused(told, 413, "body_too_large")


@pytest.mark.parametrize(
    "body",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        '{"model": ' + "[" * 40 + "]" * 40 + "}",
        '{"model": "a", "model": "b"}',
        '{"workload": {"name": "a", "name": "b", "content": ""}}',
        '{"in": NaN}',
        '{"in": Infinity}',
        '{"in": 1e999}',
        '{"in": ' + "9" * 5_000 + "}",
        "model: llama",
        "",
        "[]",
        "null",
        '{"model": "a"} x',
        b"\xff\xfe",
        b'{"model": "\xff"}',
    ],
    ids=lambda body: str(body)[:24],
)
def test_what_is_no_plain_json_is_refused(client: httpx.Client, body: str | bytes) -> None:
    refused(client.post(FIT, content=body, headers=AS_JSON), 400, "bad_body")


def test_the_brackets_of_a_text_are_no_depth(client: httpx.Client) -> None:
    assert client.post(FIT, json={**LLAMA, "model": '"[' * 99}).json()["code"] == "unknown_name"


def test_a_hundred_thousand_keys_are_one_message(client: httpx.Client) -> None:
    begun_s = time.monotonic()
    keys = json.dumps({f"{n}": 0 for n in range(90_000)}, separators=(",", ":"))
    refused(client.post(FIT, content=keys, headers=AS_JSON), 422, "unknown_name")
    assert time.monotonic() - begun_s < 5


def test_a_slow_body_ends(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.2)

    def slowly() -> Iterator[bytes]:
        yield b"{"
        time.sleep(0.6)
        yield b"}"

    told = client.post(FIT, content=slowly(), headers=AS_JSON)
    refused(told, 408, "slow_body")


def test_a_question_without_end_is_ended_and_the_next_is_answered(guarded: httpx.Client) -> None:
    token = {"authorization": f"Bearer {TOKEN}"}
    told = guarded.post("/api/v1/simulate", json=ENDLESS, headers=token)
    refused(told, 503, "took_too_long")
    assert told.headers["retry-after"]
    assert guarded.post(FIT, json=LLAMA, headers=token).status_code == 200


BOUND = """
from gpufleet.web.worker import bound_memory
bound_memory(2**26)
try:
    bytearray(2**32)
except MemoryError:
    print("refused")
"""


def test_memory_beyond_the_bound_is_refused_and_told_as_too_large() -> None:
    done = subprocess.run([sys.executable, "-c", BOUND], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "refused"
    assert (told := as_user_error(MemoryError())) is not None
    assert told.code == "too_large"


def test_questions_beyond_those_that_wait_are_refused(guarded: httpx.Client) -> None:
    token = {"authorization": f"Bearer {TOKEN}"}
    with ThreadPoolExecutor(5) as asking:
        told = list(asking.map(lambda _: guarded.post("/api/v1/simulate", json=ENDLESS, headers=token), range(5)))
    assert {reply.status_code for reply in told} == {429, 503}
    assert sum(reply.status_code == 429 for reply in told) == 2


def test_hostile_words_are_answered_or_refused(client: httpx.Client) -> None:
    dice = random.Random(1)
    for _ in range(HOSTILE_BODIES):
        question = dice.choice(list(questions().values()))
        words = dice.sample(question.words, min(len(question.words), dice.randint(1, 5)))
        said = {word.name: hostile_value(word.takes, dice) for word in words}
        told = client.post(f"/api/v1/{question.path}", content=json.dumps(said), headers=AS_JSON)
        assert told.status_code < 500 or told.json()["code"] == "took_too_long", (question.path, said, told.text)


def hostile_value(takes: Takes, dice: random.Random) -> object:
    """What a word should not be given, or what it should."""
    text = dice.choice(HOSTILE)
    a_file = {"name": dice.choice(("a.yaml", "b.json", text[:9] or "x")), "content": text}
    return dice.choice((text, a_file, True)) if takes is not Takes.FLAG else dice.choice((True, True, text))


def test_two_hundred_connections_are_answered(client: httpx.Client) -> None:
    with (
        httpx.Client(
            base_url=client.base_url, trust_env=False, limits=httpx.Limits(max_connections=200), timeout=60
        ) as many,
        ThreadPoolExecutor(200) as asking,
    ):
        told = list(asking.map(lambda _: many.post(FIT, json=LLAMA).status_code, range(200)))
    assert set(told) <= {200, 429}
    assert told.count(200) >= 18
    assert client.get("/healthz").status_code == 200


def test_jobs_are_few_and_forgotten(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST", 2)
    names = []
    for _ in range(3):
        names.append(client.post(f"{FIT}?as=job", json=LLAMA).json()["id"])
        while client.get(f"/api/v1/jobs/{names[-1]}").json()["status"] == "running":
            time.sleep(0.01)
    assert len(set(names)) == 3
    assert all(len(name) >= 22 for name in names)
    refused(client.get(f"/api/v1/jobs/{names[0]}"), 404, "not_found")
    assert client.get(f"/api/v1/jobs/{names[2]}").status_code == 200
    monkeypatch.setattr(jobs, "KEPT_S", 0.0)
    refused(client.get(f"/api/v1/jobs/{names[2]}/answer"), 404, "not_found")


def test_a_job_that_is_canceled_ends_its_process(client: httpx.Client) -> None:
    job = client.post("/api/v1/simulate?as=job", json=ENDLESS).json()["id"]
    time.sleep(0.2)
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204
    refused(client.get(f"/api/v1/jobs/{job}/answer"), 410, "canceled")
    assert client.post(FIT, json=LLAMA).status_code == 200


class Tags(HTMLParser):
    """Elements that a page has, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, name) for name, _ in attrs] or [(tag, "")]


def test_no_text_of_a_question_becomes_part_of_a_page(client: httpx.Client) -> None:
    question = questions()["fit"]
    for word in question.words:
        if word.takes is Takes.TEXT:
            said = {"model": "llama-3.1-8b", "gpus": "L4:1", word.name: SCRIPT}
            page = client.get("/ask/fit", params=said, headers=PAGE)
            tags = Tags()
            tags.feed(page.text)
            assert {tag for tag, _ in tags.found}.isdisjoint({"script", "img", "iframe", "object"}), word.name
            assert not [name for _, name in tags.found if name.startswith("on")]
            assert "<script" not in page.text.lower()
            assert "'unsafe" not in page.headers["content-security-policy"]


def test_a_name_that_is_a_script_is_text_in_every_format(client: httpx.Client) -> None:
    config = json.dumps(
        {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
         "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 2048}
    )  # fmt: skip
    name = "=1<script>alert(1)<script>.json"
    said = {
        "model": {"name": name, "content": config},
        "rate": "1/s",
        "in": 100,
        "out": 10,
        "clouds": "aws",
        "gpus": "L4",
    }
    told = {f: client.post(f"/api/v1/plan/serve?format={f}", json=said) for f in ("html", "svg", "csv", "json")}
    assert {reply.status_code for reply in told.values()} == {200}
    assert all("<script" not in told[f].text for f in ("html", "svg"))
    assert name.removesuffix(".json") in told["json"].json()["model"]
    cells = [cell for row in csv.reader(io.StringIO(told["csv"].text)) for cell in row]
    assert not [cell for cell in cells if cell[:1] in "=+@" and cell[:1]]


def test_a_signal_ends_the_server_and_its_processes_within_two_seconds(tmp_path: Path) -> None:
    started = [sys.executable, "-m", "gpufleet", "serve", "--port", "0"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        assert server.stderr is not None
        address = server.stderr.readline().split()[0]
        ask = threading.Thread(target=ask_and_forget, args=(f"{address}api/v1/simulate",))
        ask.start()
        children, until_s = [], time.monotonic() + PATIENCE_S
        while not children and time.monotonic() < until_s:
            children = children_of(server.pid)
        begun_s = time.monotonic()
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=10)
        took_s = time.monotonic() - begun_s
        ask.join()
        assert children
        assert took_s < SECONDS_TO_END
        assert not [child for child in children if Path(f"/proc/{child}").exists()]
        assert server.stderr.read() == ""


def ask_and_forget(address: str) -> None:
    """Ask a question whose answer nobody waits for."""
    with suppress(httpx.HTTPError):
        httpx.post(address, json=ENDLESS, trust_env=False, timeout=30)


def children_of(process: int) -> list[str]:
    """Processes that a process started."""
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()
