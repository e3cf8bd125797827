"""Pages of a public price feed: fetched with patience, kept on disk until the snapshot stands, so that a run resumes.

A page counts once it arrived whole: it is written beside its place and renamed. What is temporary (429, a server's
fault, a line that breaks, half a page) is tried again; what is not is named at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpufleet.errors import DataMissing, shorten
from gpufleet.units import MIB, MINUTE

if TYPE_CHECKING:
    import httpx

ATTEMPTS, ATTEMPTS_WITHOUT_ADDRESS = 5, 2
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, MINUTE
MAX_PAGE_BYTES = 64 * MIB
TOO_MANY, FIRST_ERROR, FIRST_SERVER_FAULT, NOT_ALLOWED = 429, 400, 500, (401, 403)

Say = Callable[[str], None]


class BrokenFeed(DataMissing):
    """A price feed that does not answer, or not in the form that is understood."""


class Unreachable(BrokenFeed):
    """A feed that cannot be reached now; pages that arrived are sound."""


class Temporary(Exception):
    """A trouble that may pass; `wait_s` is what the server asks for, `attempts` how often it is worth trying."""

    def __init__(self, trouble: str, wait_s: float | None = None, attempts: int = ATTEMPTS):
        super().__init__(trouble)
        self.wait_s, self.attempts = wait_s, attempts


@dataclass
class Download:
    """Pages of one feed; `folder` holds those that arrived."""

    folder: Path
    client: httpx.Client
    sleep: Callable[[float], None]
    on_page: Say = field(default=lambda what: None)

    def json(self, url: str, headers: Mapping[str, str] | None = None, body: object = None) -> Any:
        """A JSON page."""
        place = self.folder / page_name(url, body)
        if not place.exists():
            text = self.patiently(url, lambda: self.whole_page(url, headers or {}, body))
            write_whole(place, text)
        self.on_page(url)
        return json.loads(place.read_text(encoding="utf-8"))

    def lines(self, url: str, keep: Callable[[int, str], bool]) -> list[str]:
        """Those lines of a long page that `keep` accepts by number and text; the rest is never stored."""
        place = self.folder / page_name(url, None)
        if not place.exists():
            write_whole(place, self.patiently(url, lambda: "\n".join(self.kept_lines(url, keep))))
        self.on_page(url)
        return place.read_text(encoding="utf-8").split("\n")

    def secret(self, url: str, body: object) -> Any:
        """A JSON answer that is never stored, such as a token."""
        return json.loads(self.patiently(url, lambda: self.whole_page(url, {}, body)))

    def patiently(self, url: str, fetch: Callable[[], str]) -> str:
        """What `fetch` brings, tried again while the trouble may pass."""
        for attempt, wait_s in enumerate((*waits_s(), None), start=1):
            try:
                return fetch()
            except Temporary as trouble:
                if wait_s is None or attempt >= trouble.attempts:
                    problem = f"{without_query(url)} failed {attempt} times, at last: {trouble}"
                    raise Unreachable(problem, hint="Run it again: pages that arrived are kept.") from None
                self.sleep(wait_s if trouble.wait_s is None else min(trouble.wait_s, LONGEST_WAIT_S))
        raise AssertionError("the last attempt returns or raises")

    def whole_page(self, url: str, headers: Mapping[str, str], body: object) -> str:
        """The text of a page that is JSON to its end."""
        pieces = "".join(self.stream(url, headers, body, "iter_text"))
        try:
            json.loads(pieces)
        except ValueError:
            raise Temporary(f"half a page, or no JSON: {len(pieces)} characters, {shorten(pieces)}") from None
        return pieces

    def kept_lines(self, url: str, keep: Callable[[int, str], bool]) -> Iterator[str]:
        """Lines worth keeping of a page that is read to its end."""
        return (line for number, line in enumerate(self.stream(url, {}, None, "iter_lines")) if keep(number, line))

    def stream(self, url: str, headers: Mapping[str, str], body: object, how: str) -> Iterator[str]:
        """Pieces of an answer; a connection that ends early is temporary."""
        import httpx

        method = "GET" if body is None else "POST"
        try:
            with self.client.stream(method, url, headers=dict(headers), json=body) as answer:
                refuse_status(url, answer)
                yield from limited(getattr(answer, how)(), url, how)
        except httpx.TransportError as error:
            attempts = ATTEMPTS_WITHOUT_ADDRESS if has_no_address(error) else ATTEMPTS
            raise Temporary(f"{type(error).__name__}: {error}", attempts=attempts) from None
        except (UnicodeDecodeError, httpx.DecodingError) as error:
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


def limited(pieces: Iterable[str], url: str, how: str) -> Iterator[str]:
    """The pieces of a page; one that does not end is refused (a long list of lines may)."""
    received = 0
    for piece in pieces:
        received += len(piece) if how == "iter_text" else 0
        if received > MAX_PAGE_BYTES:
            raise BrokenFeed(f"{without_query(url)} sends a page of more than {MAX_PAGE_BYTES:.0f} bytes")
        yield piece


def refuse_status(url: str, answer: httpx.Response) -> None:
    """Raise what a status other than success means."""
    status = answer.status_code
    if status == TOO_MANY or status >= FIRST_SERVER_FAULT:
        raise Temporary(f"status {status}", asked_wait_s(answer.headers.get("Retry-After")))
    if status in NOT_ALLOWED:
        raise Unreachable(f"{without_query(url)} answers {status}: the key is missing or not accepted")
    if status >= FIRST_ERROR:
        raise BrokenFeed(f"{without_query(url)} answers {status}", expected="a page", hint="Has the address moved?")


def asked_wait_s(header: str | None) -> float | None:
    """Seconds of a Retry-After header; a date, which some servers send, is not read.

    >>> asked_wait_s("7"), asked_wait_s("Wed, 21 Oct 2026 07:28:00 GMT")
    (7.0, None)
    """
    return float(header) if header is not None and header.isdecimal() else None


def page_name(url: str, body: object) -> str:
    """The file name of a page: a hash of what was asked."""
    return hashlib.sha256(f"{url}\n{json.dumps(body)}".encode()).hexdigest()[:32]


def without_query(url: str) -> str:
    """An address as an error shows it: what stands in a query may be secret, and is long."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    with partial.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
