"""One exchange with the server of a price feed: where a question may be sent on to, and how its answer is unpacked.

A key goes to the server that was asked and to no other, and never in plain text. An answer comes in small pieces,
however much a server packed into one, so that whoever reads it can stop.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from gpufleet.errors import DataMissing
from gpufleet.records import dataclass
from gpufleet.units import MIB

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 5
MOST_REDIRECTS = 5
REDIRECTS, REDIRECTS_AS_GET = (301, 302, 303, 307, 308), (301, 302, 303)
TLS = "https://"
LAST_PORT = 65535
PIECE_BYTES = int(MIB)
GZIP = zlib.MAX_WBITS + 16
LONGEST_ADDRESS = 200


class BrokenFeed(DataMissing):
    """A price feed that does not answer, or not in the form that is understood."""


class Unreachable(BrokenFeed):
    """A feed that cannot be reached now; pages that arrived are sound."""


class Temporary(Exception):
    """A trouble that may pass; `wait_s` is what the server asks for, `attempts` how often it is worth trying."""

    def __init__(self, trouble: str, wait_s: float | None = None, attempts: int = ATTEMPTS):
        super().__init__(trouble)
        self.wait_s, self.attempts = wait_s, attempts


@dataclass(frozen=True)
class Question:
    """What is asked of a server: a page, or with a body the answer to it. `is_secret`: a key travels with it.

    `key_stays`: a redirect to another server is followed without what stands in `headers`, as to the store of a hub.
    `first_bytes`: only the beginning of the page is wanted, as it lies there.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    is_secret: bool = False
    key_stays: bool = False
    first_bytes: int | None = None

    @property
    def about_form(self) -> dict[str, str]:
        """Headers that say in which form the answer may come; they hold no key."""
        if self.first_bytes is None:
            return {"Accept-Encoding": "gzip"}
        return {"Accept-Encoding": "identity", "Range": f"bytes=0-{self.first_bytes - 1}"}


@contextmanager
def answer_to(question: Question, client: httpx.Client) -> Iterator[httpx.Response]:
    """The answer, after as many redirects as are allowed."""
    asked = question
    for _ in range(MOST_REDIRECTS + 1):
        refuse_unsafe(asked)
        headers = {**asked.headers, **asked.about_form}
        method = "GET" if asked.body is None else "POST"
        with client.stream(method, asked.url, headers=headers, json=asked.body, follow_redirects=False) as answer:
            if answer.status_code not in REDIRECTS:
                yield answer
                return
            asked = redirected(asked, answer.status_code, answer.headers.get("Location", ""))
    raise BrokenFeed(f"{without_query(question.url)} is redirected more than {MOST_REDIRECTS} times")


def redirected(question: Question, status: int, location: str) -> Question:
    """The question as it may be asked where the server points to.

    >>> redirected(Question("https://a.example/prices"), 302, "/v2/prices").url
    'https://a.example/v2/prices'
    >>> redirected(Question("https://a.example/prices", is_secret=True), 307, "https://b.example/prices")
    Traceback (most recent call last):
    gpufleet.catalog.exchange.BrokenFeed: https://a.example/prices redirects a request with a key to another server; \
found 'https://b.example'; expected https://a.example.
    """
    asked = without_query(question.url)
    if not location:
        raise BrokenFeed(f"{asked} answers {status}, a redirect to nowhere")
    url = joined(question.url, location)
    here, there = origin(question.url), origin(url)
    if there not in (here, with_tls(here)):
        if question.is_secret and not question.key_stays:
            raise BrokenFeed(f"{asked} redirects a request with a key to another server", found=there, expected=here)
        if not (there.startswith(TLS) or (is_here(here) and is_here(there))):
            raise BrokenFeed(f"{asked} redirects to another server without TLS", found=there, expected=TLS)
        question = replace(question, headers={}, is_secret=False)
    return replace(question, url=url, body=None if status in REDIRECTS_AS_GET else question.body)


def joined(url: str, location: str) -> str:
    """The address that a redirect names, in full or beside the one that was asked."""
    import httpx

    try:
        return str(httpx.URL(url).join(location))
    except (httpx.InvalidURL, ValueError):
        raise BrokenFeed(f"{without_query(url)} redirects to no address", found=without_query(location)) from None


def origin(url: str) -> str:
    """Scheme, host and port of an address: what is one server.

    >>> origin("https://user:word@Prices.example:443/page?key=1")
    'https://prices.example'
    """
    import httpx

    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    is_web = address.scheme in ("http", "https") and address.host and (address.port or 0) <= LAST_PORT
    if not is_web:
        raise BrokenFeed("no address of a price feed", found=without_query(url), expected="such as https://host/path")
    return f"{address.scheme}://{address.netloc.decode()}"


def with_tls(server: str) -> str:
    """The same server behind TLS.

    >>> with_tls("http://prices.example"), with_tls("https://prices.example")
    ('https://prices.example', 'https://prices.example')
    """
    return TLS + server.partition("://")[2]


def refuse_unsafe(question: Question) -> None:
    """A key is one that a request can carry, and goes over TLS or stays on this machine."""

    for name, value in question.headers.items():
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            raise BrokenFeed(f"the key in {name} holds what no request can carry", hint="Is there a line end in it?")
    server = origin(question.url)
    if question.is_secret and not server.startswith(TLS) and not is_here(server):
        raise BrokenFeed("a key is not sent in plain text", found=server, expected=TLS)


def is_here(server: str) -> bool:
    """Whether a server is one of this machine.

    >>> is_here("http://127.0.0.1:8080"), is_here("http://a.example")
    (True, False)
    """
    import httpx

    return is_this_machine(httpx.URL(server).host)


def is_this_machine(host: str) -> bool:
    """Whether a host is the machine itself.

    >>> is_this_machine("127.0.0.1"), is_this_machine("localhost"), is_this_machine("10.0.0.1")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def without_query(url: str) -> str:
    """An address as an error shows it: what stands in a query or before the host may be secret, and is long.

    >>> without_query("https://user:word@prices.example/page?key=1")
    'https://prices.example/page'
    """
    scheme, _, rest = url.partition("?")[0].partition("//")
    host, slash, path = rest.partition("/")
    return f"{scheme}//{host.rpartition('@')[2]}{slash}{path}"[:LONGEST_ADDRESS]


def pieces_of(answer: httpx.Response) -> Iterator[bytes]:
    """The bytes of an answer, unpacked, in small pieces."""
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "gzip":
        return unpacked(answer.iter_raw())
    if encoding != "identity":
        raise BrokenFeed("a page is packed in a way that was not asked for", found=encoding, expected="gzip")
    return answer.iter_raw()


def unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What gzip packed, never more than a piece at once; a stream that ends early is temporary.

    >>> import gzip
    >>> b"".join(unpacked([gzip.compress(b"on_demand,") + gzip.compress(b"2.29")]))
    b'on_demand,2.29'
    """
    inflate = zlib.decompressobj(GZIP)
    for piece in pieces:
        while piece:
            inflate = zlib.decompressobj(GZIP) if inflate.eof else inflate
            yield inflate.decompress(piece, PIECE_BYTES)
            piece = inflate.unconsumed_tail or inflate.unused_data
    yield inflate.flush()
    if not inflate.eof:
        raise Temporary("the page is cut: what was packed does not end")


def lines_of(pieces: Iterable[bytes], longest_bytes: float) -> Iterator[bytes]:
    """Lines without their ends; one that does not end is refused.

    >>> list(lines_of([b"a,b\\nc", b",d\\n"], 80))
    [b'a,b', b'c,d']
    """
    rest = bytearray()
    for piece in pieces:
        rest += piece
        lines: list[bytearray] = []
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
        if max(map(len, (*lines, rest))) > longest_bytes:
            raise BrokenFeed(f"a line of more than {longest_bytes:,.0f} bytes")
        yield from map(bytes, lines)
    if rest:
        yield bytes(rest)
