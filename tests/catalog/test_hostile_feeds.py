"""A feed that lies, never ends or meets a bug of ours fails alone, with its reason; the others are kept and shown."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.catalog.price_server import (
    Answer,
    PriceServer,
    ask_this_machine_alone,
    azure_item,
    azure_pages,
    azure_spot_of_shipped,
    every_feed,
    serving,
    shipped,
)

from gpufleet.catalog import update
from gpufleet.catalog.exchange import PIECE_BYTES, BrokenFeed, Temporary, lines_of, unpacked
from gpufleet.catalog.load import load_shipped_and_refreshed
from gpufleet.catalog.providers.every import FEEDS
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit
from gpufleet.catalog.transport import Bounds
from gpufleet.catalog.update import Refresh, read_feed, update_catalog
from gpufleet.results.catalog_update import FeedUpdate

NOW = datetime(2026, 11, 21, 17, 0, tzinfo=timezone.utc)
[AZURE] = [feed for feed in FEEDS if feed.cloud == "azure"]
[LAMBDA] = [feed for feed in FEEDS if feed.cloud == "lambda"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PriceServer]:
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path))
    with serving(PriceServer(every_feed())) as running:
        yield running


def run(
    server: PriceServer, root: Path, *feeds: Feed, clock: Callable[[], float] = lambda: 0.0, **bounds: float
) -> dict[str, FeedUpdate]:
    """Feeds under bounds; no time passes but that of the clock."""
    with httpx.Client(timeout=5) as client:
        refresh = Refresh(
            catalog=load_shipped_and_refreshed(),
            client=client,
            root=root,
            now=NOW,
            environment=server.environment(),
            sleep=lambda s: None,
            clock=clock,
            bounds=Bounds()._replace(**bounds),  # type: ignore[arg-type]
        )
        return {found.feed: found for found in update_catalog(feeds, refresh).feeds}


def answering(start: str, answer: Answer) -> Callable[[str, Answer], Answer | None]:
    return lambda path, sound: answer if path.startswith(start) else None


def packed(text: str, level: int = 9) -> Answer:
    return Answer(gzip.compress(text.encode(), level), headers={"Content-Encoding": "gzip"})


def azure_page() -> str:
    [page] = azure_pages(
        [*(azure_item(offer) for offer in shipped("azure")), *azure_spot_of_shipped()], per_page=1000
    ).values()
    return page


# --- a failure of any kind stays with its feed -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer("[" * 200_000), "nested too deeply"),
        (Answer('{"Items": ' + "1" * 5000 + "}"), "no JSON"),
        (Answer(b"\x1f\x8bnonsense", headers={"Content-Encoding": "gzip"}), "unreadable bytes"),
        (Answer(gzip.compress(b"{}")[:-9], headers={"Content-Encoding": "gzip"}), "what was packed does not end"),
        (Answer(gzip.compress(gzip.compress(b"{}")), headers={"Content-Encoding": "gzip, gzip"}), "not asked for"),
        (Answer(b'{"Items": "\xff"}'), "unreadable bytes"),
        (Answer(status=304), "answers 304"),
        (Answer(status=200, body=""), "half a page"),
    ],
)
def test_a_page_that_is_none_costs_its_own_feed_alone(
    server: PriceServer, tmp_path: Path, answer: Answer, said: str
) -> None:
    server.faults = [answering("/azure", answer)]
    found = run(server, tmp_path, AZURE, LAMBDA)
    assert (found[AZURE.name].status, found[LAMBDA.name].status) == ("failed", "updated")
    assert said in found[AZURE.name].reason


@pytest.mark.parametrize("price", ["1e999", "-1e999", "NaN", "Infinity", "1" * 400])
def test_a_price_without_end_is_no_price(server: PriceServer, tmp_path: Path, price: str) -> None:
    server.faults = [answering("/azure", Answer(azure_page().replace(": 98.32", f": {price}")))]
    found = run(server, tmp_path, AZURE)[AZURE.name]
    assert (found.status, found.num_without_price, found.num_vanished) == ("updated", 4, 4)


@pytest.mark.parametrize("name", ["", "east\nus,1", "\ud800", "east\x1b[2J", "e" * 81])
@pytest.mark.parametrize("column", ["armRegionName", "armSkuName"])
def test_a_name_that_no_table_can_hold_is_refused(server: PriceServer, tmp_path: Path, column: str, name: str) -> None:
    items = [azure_item(offer) for offer in shipped("azure")]
    items[0][column] = name
    [page] = azure_pages(items, per_page=1000).values()
    server.faults = [answering("/azure", Answer(page))]
    assert re.search("has no name|is no text", run(server, tmp_path, AZURE)[AZURE.name].reason)


def test_a_packed_page_is_read_as_the_plain_one(server: PriceServer, tmp_path: Path) -> None:
    server.faults = [answering("/azure", packed(azure_page()))]
    assert run(server, tmp_path, AZURE)[AZURE.name].num_prices == len(shipped("azure")) + len(azure_spot_of_shipped())


def test_a_cell_that_swallows_the_lines_after_it_is_named(server: PriceServer, tmp_path: Path) -> None:
    [path] = [path for path in server.pages if path.startswith("/aws/") and "/us-east-1/" in path]
    server.pages[path] += '"p5.48xlarge","' + "x" * 200_000
    reason = run(server, tmp_path, aws_list())[aws_list().name].reason
    assert reason.startswith("aws price list of us-east-1: field larger than field limit")


def broken_feed(error: Exception) -> Feed:
    def read(visit: Visit) -> Iterator[ListedPrice]:
        raise error

    return replace(AZURE, read=read)


def test_a_bug_of_ours_in_a_feed_is_said_and_costs_no_other(server: PriceServer, tmp_path: Path) -> None:
    found = run(server, tmp_path, broken_feed(KeyError("sizes")), LAMBDA)
    assert found[AZURE.name].reason.startswith("this is our bug: KeyError: 'sizes'.")
    assert found[LAMBDA.name].status == "updated"


def test_to_look_for_a_bug_it_is_raised(server: PriceServer, tmp_path: Path) -> None:
    environment = {**server.environment(), "GPUFLEET_DEBUG": "1"}
    server.environment = lambda: environment  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        run(server, tmp_path, broken_feed(KeyError("sizes")), LAMBDA)


def test_a_full_disk_is_said_and_the_pages_that_came_are_kept(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(update, "write_snapshot", full)
    found = run(server, tmp_path, LAMBDA)[LAMBDA.name]
    assert found.reason == f"cannot write to {tmp_path}: No space left on device"
    assert list((tmp_path / LAMBDA.name / ".download").iterdir())


def test_a_page_that_was_kept_and_is_damaged_is_asked_for_again_in_the_next_run(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_a_full_disk_is_said_and_the_pages_that_came_are_kept(server, tmp_path, monkeypatch)
    monkeypatch.undo()
    [page] = (tmp_path / LAMBDA.name / ".download").iterdir()
    page.write_text("[" * 200_000, encoding="utf-8")
    ask_this_machine_alone(monkeypatch)
    assert "kept is damaged: nested too deeply" in run(server, tmp_path, LAMBDA)[LAMBDA.name].reason
    assert run(server, tmp_path, LAMBDA)[LAMBDA.name].status == "updated"


ODD = (None, True, -1, 10**400, float("inf"), "x", "", "\ud800", [], {}, [[]], {"a": None})


def mutated(page: Any) -> Iterator[Any]:
    """The page with each of its parts replaced by something odd, or left out."""
    yield from ODD
    if isinstance(page, dict):
        for name, part in page.items():
            yield from ({**page, name: odd} for odd in mutated(part))
            yield {key: value for key, value in page.items() if key != name}
    if isinstance(page, list) and page:
        yield from ([odd] for odd in mutated(page[0]))


def shortened(page: Any) -> Any:
    """The page with one entry of each list and of each table of tables."""
    if isinstance(page, list):
        return [shortened(part) for part in page[:1]]
    if isinstance(page, dict):
        tables = [part for part in page.values() if isinstance(part, dict)]
        kept = 1 if len(tables) == len(page) else None
        return {name: shortened(part) for name, part in list(page.items())[:kept]}
    return page


@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: feed.name)
def test_whatever_stands_in_a_page_a_feed_fails_as_a_feed(
    feed: Feed, server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No odd part of a page is a bug of ours: it is read, or refused as a broken feed."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    start = server.environment()[feed.endpoint_variable].removeprefix(server.origin)
    path = next(path for path in server.pages if path.startswith(start) and "token" not in path)
    odd_pages = list(mutated(shortened(json.loads(server.pages[path]))))
    catalog, environment = load_shipped_and_refreshed(), server.environment()
    for number, page in enumerate(odd_pages):
        transport = httpx.MockTransport(partial(page_of, {**server.pages, path: json.dumps(page)}))
        with httpx.Client(transport=transport, trust_env=False) as client, suppress(BrokenFeed):
            refresh = Refresh(catalog, client, tmp_path, NOW, environment, sleep=lambda s: None)
            read_feed(feed, refresh, tmp_path / str(number))
    assert len(odd_pages) > 30


def page_of(pages: dict[str, str], request: httpx.Request) -> httpx.Response:
    content = pages.get(request.url.raw_path.decode(), "{}")
    return httpx.Response(200, stream=httpx.ByteStream(content.encode()))


# --- bounds ----------------------------------------------------------------------------------------------------------


def aws_list() -> Feed:
    return next(feed for feed in FEEDS if feed.name == "aws-ec2-price-list")


def test_a_packed_line_without_end_is_refused_before_it_is_held(server: PriceServer, tmp_path: Path) -> None:
    sent = itertools.count()

    def without_end() -> Iterator[bytes]:
        packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS + 16)
        for _ in range(64):
            next(sent)
            yield packer.compress(b"x" * PIECE_BYTES) + packer.flush(zlib.Z_SYNC_FLUSH)

    index = '{"regions": {"us-east-1": {"currentVersionUrl": "/list.json"}}}'
    server.faults = [
        answering("/aws/list.csv", Answer(without_end(), headers={"Content-Encoding": "gzip"})),
        answering("/aws/", Answer(index)),
    ]
    found = run(server, tmp_path, aws_list(), LAMBDA)
    assert found[aws_list().name].reason == "a line of more than 1,048,576 bytes."
    assert found[LAMBDA.name].status == "updated"


def test_what_is_packed_a_thousandfold_comes_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(16 * PIECE_BYTES))
    assert len(bomb) < PIECE_BYTES / 50
    lengths = [len(piece) for piece in unpacked([bomb])]
    assert max(lengths) == PIECE_BYTES
    assert sum(lengths) == 16 * PIECE_BYTES


def test_a_stream_of_packed_bytes_is_unpacked_wherever_it_is_cut() -> None:
    text = b"p5.48xlarge,55.04\n" * 1000
    stream = gzip.compress(text[:9000]) + gzip.compress(text[9000:])
    for size in (1, 7, len(stream)):
        assert b"".join(unpacked([stream[i : i + size] for i in range(0, len(stream), size)])) == text
    with pytest.raises(Temporary):
        list(unpacked([stream[:-1]]))


def test_lines_are_the_same_wherever_the_pieces_are_cut() -> None:
    text = b"a\r\n\nbb\nccc"
    for size in (1, 2, 3, len(text)):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        assert list(lines_of(pieces, 3)) == [b"a\r", b"", b"bb", b"ccc"]
    with pytest.raises(BrokenFeed, match="a line of more than 2 bytes"):
        list(lines_of([b"a\nccc\n"], 2))


@pytest.mark.parametrize(
    ("feed", "bounds", "said"),
    [
        (AZURE, {"page_bytes": 5000.0}, "more than 5,000 bytes in a page"),
        (AZURE, {"kept_bytes": 250_000.0}, "more than 250,000 bytes to keep of the feed"),
        (AZURE, {"pages": 2}, "more than 2 pages of the feed"),
        (aws_list(), {"line_bytes": 100.0}, "a line of more than 100 bytes"),
        (aws_list(), {"list_bytes": 5000.0}, "more than 5,000 bytes in a page"),
        (aws_list(), {"kept_bytes_per_list": 3000.0}, "more than 3,000 bytes to keep of a list"),
    ],
)
def test_a_feed_is_taken_up_to_its_bounds_and_says_which_it_reached(
    server: PriceServer, tmp_path: Path, feed: Feed, bounds: dict[str, float], said: str
) -> None:
    assert said in run(server, tmp_path, feed, **bounds)[feed.name].reason
    assert run(server, tmp_path, feed)[feed.name].status == "updated"


def test_pages_in_a_circle_end(server: PriceServer, tmp_path: Path) -> None:
    first = next(path for path in server.pages if path.startswith("/azure"))
    server.pages[first] = server.pages[first].replace("ORIGIN/azure?skip=1", f"ORIGIN{first}")
    assert "more than 5 pages of the feed" in run(server, tmp_path, AZURE, pages=5)[AZURE.name].reason


def test_more_prices_than_any_feed_has_are_refused(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "MOST_PRICES", 100)
    assert "more than 100 prices and types" in run(server, tmp_path, AZURE)[AZURE.name].reason


def test_a_page_that_drips_is_given_up_and_the_pages_before_it_are_kept(server: PriceServer, tmp_path: Path) -> None:
    """The clock shows a second more whenever it is read; the second page never ends."""

    def drip() -> Iterator[bytes]:
        while True:
            yield b" "

    seconds = itertools.count()
    server.faults = [answering("/azure?skip=1", Answer(drip()))]
    found = run(server, tmp_path, AZURE, clock=lambda: next(seconds), seconds=60)[AZURE.name]
    assert "the feed is not at its end after 60 s. Run it again: pages that arrived are kept." in found.reason
    assert len(list((tmp_path / AZURE.name / ".download").iterdir())) == 1


def test_a_feed_that_holds_its_thread_is_left_alone_and_never_writes(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "SETTLING_S", 0.0)
    let_go, now_s = threading.Event(), [0.0]

    def held(visit: Visit) -> Iterator[ListedPrice]:
        let_go.wait(20)
        for offer in shipped("lambda"):
            price = offer.price_per_instance_usd_per_hour
            yield ListedPrice(offer.region, offer.instance, offer.price_kind, price)

    found = run(server, tmp_path, replace(LAMBDA, read=held), clock=lambda: now_s[0], seconds=0)
    assert "not at its end after 0 s" in found[LAMBDA.name].reason
    [thread] = [thread for thread in threading.enumerate() if thread.name == LAMBDA.name]
    now_s[0] = 1.0
    let_go.set()
    thread.join(20)
    assert list(tmp_path.glob("*/2*")) == []
