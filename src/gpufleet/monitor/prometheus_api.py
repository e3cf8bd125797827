"""One reader of Prometheus and of engines' metrics over HTTP: the only place of `monitor` that reaches the network.

Queries go to `/api/v1/query` (prometheus.io/docs/prometheus/latest/querying/api). Whatever comes back instead of an
answer - a page of HTML, a redirect, ten megabytes, nothing in time - is one `DataMissing`.
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from gpufleet.errors import DataMissing, UsageError
from gpufleet.records import dataclass
from gpufleet.units import MB

TIMEOUT_S, CHUNK_BYTES, LARGEST_BYTES = 10.0, 65536, 5 * MB
"""Judgements: an instant query is answered in milliseconds, the metrics of an engine are some 100 kB."""
LONGEST_ERROR_BYTES = 4096
OPENER_HEADERS = [("User-Agent", "gpufleet"), ("Accept", "application/json, text/plain;version=0.0.4")]
BY_HAND = "Look at it with a browser or curl."


@dataclass(frozen=True)
class Sample:
    """One series of an answer, its labels and its value; what is no number, or has no end, is None."""

    labels: Mapping[str, str]
    value: float | None


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Another address is named by whoever asks, not by what answers."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is asked instead."""


def opener() -> urllib.request.OpenerDirector:
    """What speaks HTTP and HTTPS, through the proxies of this machine, and nothing else: no file, no FTP."""
    director = urllib.request.OpenerDirector()
    handlers: Sequence[urllib.request.BaseHandler] = (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        NoRedirects(),
    )
    for handler in handlers:
        director.add_handler(handler)
    director.addheaders = OPENER_HEADERS
    return director


def web_address(url: str, word: str) -> str:
    """An address of HTTP without what is secret in it, or an error that names the word it was said with.

    >>> web_address("http://localhost:9090/", "--prometheus")
    'http://localhost:9090'
    """
    try:
        parts = urlsplit(url.strip())
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or any(c.isspace() or not c.isprintable() or ord(c) > 126 for c in url.strip()):
        raise UsageError(f"{word} names no address", found=url, expected="such as http://localhost:9090")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"{word} takes an address alone",
            found="a user, a query or a fragment in it",
            expected="http://host:port/path",
        )
    return url.strip().rstrip("/")


def text_at(url: str, what: str, timeout_s: float = TIMEOUT_S) -> str:
    """The text at an address, read whole within the time; `what` names it in errors."""
    try:
        with opener().open(url, timeout=timeout_s) as answer:
            content = read_whole(answer, what, time.monotonic() + timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            raise DataMissing(f"{what} answers {error.code}", found=said_by(error), hint=BY_HAND) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DataMissing(f"{what} cannot be reached", found=str(reason), hint=BY_HAND) from None
    return content.decode("utf-8", errors="replace")


def read_whole(answer: IO[bytes], what: str, until_s: float) -> bytes:
    """All bytes of an answer, of which there may be so many and which may take so long."""
    parts: list[bytes] = []
    size = 0
    read = getattr(answer, "read1", answer.read)
    while chunk := read(CHUNK_BYTES):
        size += len(chunk)
        parts.append(chunk)
        if size > LARGEST_BYTES:
            raise DataMissing(f"{what} answers too much", expected=f"{LARGEST_BYTES / MB:g} MB at most")
        if time.monotonic() > until_s:
            raise DataMissing(f"{what} takes too long to answer", expected=f"an answer within {TIMEOUT_S:g} s")
    return b"".join(parts)


def said_by(error: urllib.error.HTTPError) -> str:
    """Why a server refuses, in its own words where it is Prometheus."""
    where = error.headers.get("Location")
    if where is not None:
        return f"a redirect to {where}"
    try:
        body = json.loads(error.read(LONGEST_ERROR_BYTES))
        return str(body["error"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return str(error.reason)


def asked(url: str, query: str, timeout_s: float = TIMEOUT_S) -> list[Sample]:
    """The series that a query gives now: an instant vector, or a scalar as one series without labels."""
    text = text_at(f"{url}/api/v1/query?{urlencode({'query': query})}", f"Prometheus at {url}", timeout_s)
    try:
        return samples_of(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise DataMissing(
            f"what answers at {url} is no Prometheus", found=text[:200], expected="JSON of /api/v1/query"
        ) from None


def samples_of(answer: Any) -> list[Sample]:
    """Samples of a parsed answer.

    >>> samples_of({"status": "success", "data": {"resultType": "scalar", "result": [0, "2"]}})
    [Sample(labels={}, value=2.0)]
    """
    if answer["status"] != "success":
        raise DataMissing("Prometheus refuses a query", found=str(answer["error"]))
    data = answer["data"]
    if data["resultType"] == "scalar":
        return [Sample({}, finite(data["result"][1]))]
    if data["resultType"] != "vector":
        raise ValueError(data["resultType"])
    return [Sample(labels_of(each["metric"]), finite(each["value"][1])) for each in data["result"]]


def labels_of(metric: Mapping[Any, Any]) -> dict[str, str]:
    """Labels as texts, whatever was sent."""
    return {str(name): str(value) for name, value in metric.items()}


def finite(text: object) -> float | None:
    """A number as Prometheus writes it, in a text; NaN and infinities are unknown.

    >>> finite("1.5e3"), finite("NaN"), finite("+Inf")
    (1500.0, None, None)
    """
    if not isinstance(text, str):
        raise TypeError(text)
    value = float(text)
    return value if math.isfinite(value) else None
