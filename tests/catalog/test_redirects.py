"""Where a key goes: to the server that was asked and to no other, never in plain text, and into no message."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import httpx
import pytest
from tests.catalog.price_server import (
    L4_SKUS,
    Answer,
    PriceServer,
    ask_this_machine_alone,
    every_feed,
    gcp_pages,
    serving,
)

from gpufleet.catalog.exchange import BrokenFeed, Question, redirected, refuse_unsafe, without_query
from gpufleet.catalog.load import load_shipped_and_refreshed
from gpufleet.catalog.providers.every import FEEDS
from gpufleet.catalog.update import Refresh, update_catalog
from gpufleet.cli.catalog_refresh import connection
from gpufleet.results.catalog_update import FeedUpdate

NOW = datetime(2026, 11, 21, 17, 0, tzinfo=timezone.utc)
KEY = "s3cret"
TO_ANOTHER = "redirects a request with a key to another server"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PriceServer]:
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path))
    with serving(PriceServer(every_feed())) as running:
        yield running


@pytest.fixture
def other() -> Iterator[PriceServer]:
    with serving(PriceServer({"/": "{}"})) as running:
        yield running


def run(server: PriceServer, root: Path, *clouds: str, **changes: str) -> dict[str, FeedUpdate]:
    """The feeds of some clouds, each with the key that no message may hold."""
    keys = {name: KEY for feed in FEEDS for name in feed.key_variables}
    with httpx.Client(timeout=5, follow_redirects=True) as client:
        refresh = Refresh(
            catalog=load_shipped_and_refreshed(),
            client=client,
            root=root,
            now=NOW,
            environment={**server.environment(), **keys, **changes},
            sleep=lambda s: None,
            accept_losses=True,
        )
        updates = update_catalog([feed for feed in FEEDS if feed.cloud in clouds], refresh).feeds
    assert not any(KEY in update.model_dump_json() for update in updates)
    return {update.cloud: update for update in updates}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_key_follows_a_redirect_to_another_server(
    server: PriceServer, other: PriceServer, tmp_path: Path, status: int
) -> None:
    """In a header (GCP, Lambda) and in a body (Verda's client secret)."""
    server.faults = [lambda path, sound: Answer(status=status, headers={"Location": other.origin})]
    found = run(server, tmp_path, "gcp", "lambda", "verda")
    assert all(TO_ANOTHER in update.reason for update in found.values())
    assert len(found) == 3
    assert other.asked == []


def test_a_key_follows_a_redirect_on_the_server_that_was_asked(server: PriceServer, tmp_path: Path) -> None:
    pages = gcp_pages(L4_SKUS)
    server.pages = {path.replace("/gcp", "/moved"): page for path, page in pages.items()}

    def moved(path: str, sound: Answer) -> Answer | None:
        there = {"Location": path.replace("/gcp", "/moved")}
        return Answer(status=307, headers=there) if path.startswith("/gcp") else None

    server.faults = [moved]
    assert run(server, tmp_path, "gcp")["gcp"].status == "updated"
    assert {headers["X-Goog-Api-Key"] for headers in server.headers} == {KEY}


def test_redirects_in_a_circle_end_and_cost_no_other_feed(server: PriceServer, tmp_path: Path) -> None:
    circle = Answer(status=302, headers={"Location": "/azure"})
    server.faults = [lambda path, sound: circle if path.startswith("/azure") else None]
    found = run(server, tmp_path, "azure", "lambda")
    assert found["azure"].reason.endswith("is redirected more than 5 times.")
    assert found["lambda"].status == "updated"
    assert sum(path.startswith("/azure") for path in server.asked) == 6


def test_an_address_in_a_page_stays_on_the_server_that_was_asked(server: PriceServer, tmp_path: Path) -> None:
    """What stands before an @ would be a user, and what stands after it the host."""
    index = '{"regions": {"us-east-1": {"currentVersionUrl": "@b.example/list.json"}}}'
    server.faults = [lambda path, sound: Answer(index) if path.endswith("region_index.json") else None]
    run(server, tmp_path, "aws", GPUFLEET_ENDPOINT_AWS_EC2_PRICE_LIST=server.origin)
    assert "/@b.example/list.csv" in server.asked


@pytest.mark.parametrize("host", ["203.0.113.9", "127.0.0.1:1"])
def test_a_next_page_on_another_server_is_not_followed(server: PriceServer, tmp_path: Path, host: str) -> None:
    server.pages = {path: page.replace("ORIGIN", f"http://{host}") for path, page in server.pages.items()}
    assert "the next page lies on another server" in run(server, tmp_path, "azure")["azure"].reason


OPEN, SECRET = Question("http://a.example/p"), Question("http://a.example/p", {"Authorization": KEY}, is_secret=True)
SAFE = Question("https://a.example/p", {"Authorization": KEY}, is_secret=True)


@pytest.mark.parametrize(
    ("question", "location", "there"),
    [
        (SAFE, "/q", "https://a.example/q"),
        (SAFE, "q", "https://a.example/q"),
        (SAFE, "https://A.example:443/q", "https://a.example/q"),
        (SECRET, "https://a.example/q", "https://a.example/q"),
        (OPEN, "https://b.example/q", "https://b.example/q"),
    ],
)
def test_a_question_goes_on_to_the_same_server_or_gains_tls(question: Question, location: str, there: str) -> None:
    assert redirected(question, 307, location).url == there


@pytest.mark.parametrize(
    ("question", "location", "said"),
    [
        (SAFE, "http://a.example/q", TO_ANOTHER),
        (SAFE, "https://a.example:8443/q", TO_ANOTHER),
        (SAFE, "https://b.example/q", TO_ANOTHER),
        (SAFE, "//b.example/q", TO_ANOTHER),
        (SAFE, "https://a.example@b.example/q", TO_ANOTHER),
        (SAFE, "https://a.example.b.example/q", TO_ANOTHER),
        (OPEN, "http://b.example/q", "without TLS"),
        (Question("https://a.example/p"), "http://a.example/q", "without TLS"),
        (OPEN, "file:///etc/passwd", "no address of a price feed"),
        (OPEN, "https://b.example:99999/q", "no address of a price feed"),
        (OPEN, "http://[::1", "redirects to no address"),
        (OPEN, "", "a redirect to nowhere"),
    ],
)
def test_a_redirect_that_leads_away_is_refused(question: Question, location: str, said: str) -> None:
    with pytest.raises(BrokenFeed, match=said):
        redirected(question, 307, location)


def test_a_body_is_repeated_only_where_the_status_says_so() -> None:
    question = Question("https://a.example/p", body={"query": "prices"})
    assert redirected(question, 308, "/q").body == {"query": "prices"}
    assert redirected(question, 303, "/q").body is None


def test_a_key_is_sent_over_tls_or_on_this_machine_alone(server: PriceServer, tmp_path: Path) -> None:
    refuse_unsafe(SAFE)
    refuse_unsafe(OPEN)
    for host in ("127.0.0.1:80", "localhost", "[::1]"):
        refuse_unsafe(Question(f"http://{host}/p", is_secret=True))
    found = run(server, tmp_path, "lambda", GPUFLEET_ENDPOINT_LAMBDA_CLOUD_API="http://mirror.example/types")
    assert "a key is not sent in plain text; found 'http://mirror.example'" in found["lambda"].reason


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nHost: b", f" {KEY}", f"{KEY}\xe9"])
def test_a_key_that_no_request_can_carry_is_said_and_not_shown(server: PriceServer, tmp_path: Path, key: str) -> None:
    found = run(server, tmp_path, "gcp", "verda", GCP_API_KEY=key)
    assert "the key in X-Goog-Api-Key holds what no request can carry" in found["gcp"].reason
    assert found["verda"].status == "updated"


def test_a_key_that_the_server_repeats_is_not_shown(server: PriceServer, tmp_path: Path) -> None:
    server.faults = [lambda path, sound: Answer(f'{{"data": ["no such key: {KEY}"]}}')]
    assert "no such key: ***" in run(server, tmp_path, "lambda")["lambda"].reason


def test_a_token_that_comes_in_half_is_not_shown(server: PriceServer, tmp_path: Path) -> None:
    server.faults = [lambda path, sound: Answer('{"access_token": "t0ken') if "token" in path else None]
    reason = run(server, tmp_path, "verda")["verda"].reason
    assert "half a page" in reason
    assert "t0ken" not in reason


def test_words_of_a_mirror_are_not_shown(server: PriceServer, tmp_path: Path) -> None:
    server.faults = [lambda path, sound: Answer("gone", 404)]
    mirror = server.origin.replace("//", "//me:password@") + "/azure?sig=pa55"
    for endpoint in (mirror, mirror.replace("http", "ftp"), mirror.replace("127.0.0.1", "[::1")):
        reason = run(server, tmp_path, "azure", GPUFLEET_ENDPOINT_AZURE_RETAIL_PRICES=endpoint)["azure"].reason
        assert "password" not in reason
        assert "pa55" not in reason
    assert without_query(mirror) == f"{server.origin}/azure"


def test_no_log_holds_a_whole_address() -> None:
    """httpx logs addresses with their queries at level INFO."""
    logger = logging.getLogger("httpx")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        with connection():
            assert not logger.isEnabledFor(logging.INFO)
    finally:
        logger.setLevel(before)
