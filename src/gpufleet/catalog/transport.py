"""Pages of a public price feed: fetched with patience, kept on disk until the snapshot stands, so that a run resumes.

A page counts once it arrived whole: it is written beside its place and renamed. What is temporary (429, a server's
fault, a line that breaks, half a page) is tried again; what is not is named at once. How much of a feed is taken, and
for how long, is bounded: a server that never ends is one that fails.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpufleet.catalog.exchange import (
    ATTEMPTS,
    BrokenFeed,
    Question,
    Temporary,
    Unreachable,
    answer_to,
    lines_of,
    pieces_of,
    without_query,
)
from gpufleet.errors import shorten
from gpufleet.units import GIB, MIB, MINUTE

if TYPE_CHECKING:
    import httpx

ATTEMPTS_WITHOUT_ADDRESS = 2
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, MINUTE
TOO_MANY, FIRST_NO_PAGE, FIRST_SERVER_FAULT, NOT_ALLOWED = 429, 300, 500, (401, 403)
RESUMES = "Run it again: pages that arrived are kept."

Say = Callable[[str], None]
Keep = Callable[[int, str], bool]


class Bounds(NamedTuple):
    """How much of a feed is taken at most, unpacked: several times what the longest are known to send.

    The longest is AWS's list: some forty regions, each a quarter of a million lines of about 1 KiB, of which one in ten
    is about machines with GPUs. A page of GCP is some 10 MiB, and Azure's list some hundred pages. In `seconds` AWS's
    list comes in over 100 Mbit/s; whoever has less goes on in the next run.
    """

    line_bytes: float = MIB
    page_bytes: float = 64 * MIB
    list_bytes: float = 4 * GIB
    kept_bytes_per_list: float = 256 * MIB
    kept_bytes: float = 4 * GIB
    pages: int = 1000
    seconds: float = 20 * MINUTE


@dataclass
class Download:
    """Pages of one feed; `folder` holds those that arrived. `refuse` raises what a status means to who asks."""

    folder: Path
    client: httpx.Client
    sleep: Callable[[float], None]
    on_page: Say = field(default=lambda what: None)
    bounds: Bounds = field(default=Bounds())
    is_late: Callable[[], bool] = field(default=lambda: False)
    refuse: Callable[[str, httpx.Response], None] = field(default=lambda url, answer: refuse_status(url, answer))
    num_pages: int = 0
    kept_bytes: int = 0

    def json(self, url: str, headers: Mapping[str, str] | None = None, body: object = None) -> Any:
        """A JSON page; what stands in `headers` is a key."""
        question = Question(url, headers or {}, body, is_secret=bool(headers))
        text = self.page(question, lambda: self.whole_page(question))
        try:
            return parsed(text)
        except ValueError as error:
            raise BrokenFeed(f"{without_query(url)}: the page that was kept is damaged: {error}") from None

    def lines(self, url: str, keep: Keep) -> list[str]:
        """Those lines of a long page that `keep` accepts by number and text; the rest is never stored."""
        question = Question(url)
        return self.page(question, lambda: "\n".join(self.kept_lines(question, keep))).split("\n")

    def secret(self, url: str, body: object) -> Any:
        """A JSON answer to a key in `body`; it is never stored, such as a token."""
        question = Question(url, body=body, is_secret=True)
        return parsed(self.patiently(url, lambda: self.whole_page(question)))

    def page(self, question: Question, fetch: Callable[[], str]) -> str:
        """The text of a page, as it was kept or as `fetch` brings it."""
        where = without_query(question.url)
        self.num_pages += 1
        refuse_over(self.num_pages, self.bounds.pages, "pages of the feed", where)
        place = self.folder / page_name(question)
        is_kept = place.is_file()
        text = place.read_text(encoding="utf-8") if is_kept else self.patiently(question.url, fetch)
        self.kept_bytes += len(text.encode())
        refuse_over(self.kept_bytes, self.bounds.kept_bytes, "bytes to keep of the feed", where)
        if not is_kept:
            write_whole(place, text)
        self.on_page(where)
        return text

    def patiently(self, url: str, fetch: Callable[[], str]) -> str:
        """What `fetch` brings, tried again while the trouble may pass."""
        for attempt, wait_s in enumerate((*waits_s(), None), start=1):
            self.refuse_late(url)
            try:
                with troubles_that_pass():
                    return fetch()
            except Temporary as trouble:
                if wait_s is None or attempt >= trouble.attempts:
                    problem = f"{without_query(url)} failed {attempt} times, at last: {trouble}"
                    raise Unreachable(problem, hint=RESUMES) from None
                self.sleep(wait_s if trouble.wait_s is None else min(trouble.wait_s, LONGEST_WAIT_S))
        raise AssertionError("the last attempt returns or raises")

    def whole_page(self, question: Question, limit_bytes: float | None = None) -> str:
        """The text of a page that is JSON to its end; what answers a key may hold one and is not shown."""
        text = b"".join(self.received(question, limit_bytes or self.bounds.page_bytes)).decode("utf-8-sig")
        try:
            parsed(text)
        except ValueError as error:
            excerpt = "" if question.is_secret else f", {shorten(text)}"
            raise Temporary(f"half a page, or no JSON ({error}): {len(text)} characters{excerpt}") from None
        return text

    def beginning(self, question: Question, num_bytes: int) -> bytes:
        """The first bytes of a file, however long it is: a server that sends more is not read further."""
        start = bytearray()
        with closing(self.received(replace(question, first_bytes=num_bytes), math.inf)) as pieces:
            for piece in pieces:
                start += piece
                if len(start) >= num_bytes:
                    break
        return bytes(start[:num_bytes])

    def kept_lines(self, question: Question, keep: Keep) -> Iterator[str]:
        """Lines worth keeping of a page that is read to its end."""
        pieces, kept_bytes = self.received(question, self.bounds.list_bytes), 0
        where = without_query(question.url)
        for number, content in enumerate(lines_of(pieces, self.bounds.line_bytes)):
            line = content.decode("utf-8").removesuffix("\r")
            if keep(number, line):
                kept_bytes += len(content)
                refuse_over(kept_bytes, self.bounds.kept_bytes_per_list, "bytes to keep of a list", where)
                yield line

    def received(self, question: Question, limit_bytes: float) -> Generator[bytes, None, None]:
        """Pieces of an answer, unpacked, up to a bound."""
        where, received_bytes = without_query(question.url), 0
        with answer_to(question, self.client) as answer:
            self.refuse(question.url, answer)
            for piece in pieces_of(answer):
                received_bytes += len(piece)
                refuse_over(received_bytes, limit_bytes, "bytes in a page", where)
                self.refuse_late(question.url)
                yield piece

    def refuse_late(self, url: str) -> None:
        """A feed that takes longer than its time is given up; what arrived is kept."""
        if self.is_late():
            problem = f"{without_query(url)}: the feed is not at its end after {self.bounds.seconds:,.0f} s"
            raise Unreachable(problem, hint=RESUMES)


@contextmanager
def troubles_that_pass() -> Iterator[None]:
    """A connection that ends early and bytes that cannot be read are temporary."""
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        attempts = ATTEMPTS_WITHOUT_ADDRESS if has_no_address(error) else ATTEMPTS
        raise Temporary(f"{type(error).__name__}: {error}", attempts=attempts) from None
    except (UnicodeDecodeError, zlib.error) as error:
        raise Temporary(f"unreadable bytes: {error}") from None


def has_no_address(error: BaseException | None) -> bool:
    """Whether a name has no address: then waiting does not help, the machine is offline or the name is wrong.

    >>> has_no_address(socket.gaierror(-2, "Name or service not known")), has_no_address(ConnectionResetError())
    (True, False)
    """
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None


def waits_s() -> Iterable[float]:
    """How long to wait after each failed attempt but the last.

    >>> list(waits_s())
    [1.0, 2.0, 4.0, 8.0]
    """
    return (FIRST_WAIT_S * 2**attempt for attempt in range(ATTEMPTS - 1))


def refuse_over(found: float, bound: float, of_what: str, where: str) -> None:
    """A feed that sends more than its bound is refused, with the bound."""
    if found > bound:
        raise BrokenFeed(f"{where}: more than {bound:,.0f} {of_what}", hint="Does it run in a circle, or never end?")


def refuse_status(url: str, answer: httpx.Response) -> None:
    """Raise what a status other than success means."""
    status = answer.status_code
    if status == TOO_MANY or status >= FIRST_SERVER_FAULT:
        raise Temporary(f"status {status}", asked_wait_s(answer.headers.get("Retry-After")))
    if status in NOT_ALLOWED:
        raise Unreachable(f"{without_query(url)} answers {status}: the key is missing or not accepted")
    if status >= FIRST_NO_PAGE:
        raise BrokenFeed(f"{without_query(url)} answers {status}", expected="a page", hint="Has the address moved?")


def asked_wait_s(header: str | None) -> float | None:
    """Seconds of a Retry-After header; a date, which some servers send, is not read.

    >>> asked_wait_s("7"), asked_wait_s("Wed, 21 Oct 2026 07:28:00 GMT")
    (7.0, None)
    """
    return float(header) if header is not None and header.isdecimal() else None


def parsed(text: str) -> Any:
    """JSON; what is none, or is nested deeper than can be read, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def page_name(question: Question) -> str:
    """The file name of a page: a hash of what was asked."""
    return hashlib.sha256(f"{question.url}\n{json.dumps(question.body)}".encode()).hexdigest()[:32]


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    with partial.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
