"""A Prometheus and an engine on this machine, which answer as they are told, or badly."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

JSON = "application/json"
AS_PLANNED = {
    r"^time\(\) - max\(timestamp": 12.0,
    r"^sum by \(namespace, deployment\) \(up": 5.0,
    r"histogram_quantile\(0\.95.*time_to_first_token": 0.42,
    r"histogram_quantile\(0\.95.*time_per_output_token": 0.055,
    r"histogram_quantile\(0\.95.*e2e_request": 22.0,
    r"rate\(vllm:request_success_total": 18.5,
    r"rate\(vllm:generation_tokens_total": 3650.0,
    r"\(vllm:num_requests_running": 160.0,
    r"\(vllm:num_requests_waiting": 0.0,
    r"avg\(vllm:kv_cache_usage_perc": 0.31,
    r"^count\(count by \(UUID\)": 5.0,
    r"^max\(label_replace": 5.0,
    r"^clamp_min": 36000.0,
    r"^\(86400": 50400.0,
    r"^sum\(gpufleet:spend:usd_today": 93.0,
}
"""What a plan of five copies at 20 requests a second shows at 10:00: patterns of queries and values."""


@dataclass
class FakeServer:
    """What is answered: to each query by the first pattern that is found in it, or the same to all."""

    values: Mapping[str, float | str | None] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def value(self, query: str) -> float | str | None:
        """The value of a query, in the order of patterns."""
        return next((value for pattern, value in self.values.items() if re.search(pattern, query)), None)

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """One answer."""
        parts = urlsplit(handler.path)
        if self.answer is not None:
            self.answer(handler)
        elif parts.path in self.pages:
            send(handler, self.pages[parts.path], "text/plain; version=0.0.4")
        elif parts.path == "/api/v1/query":
            [query] = parse_qs(parts.query)["query"]
            self.asked.append(query)
            value = self.value(query)
            result = [] if value is None else [{"metric": {}, "value": [1.7e9, str(value)]}]
            send(handler, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}))
        else:
            send(handler, "not here", "text/plain", 404)


def send(handler: BaseHTTPRequestHandler, text: str | bytes, kind: str = JSON, status: int = 200) -> None:
    body = text if isinstance(text, bytes) else text.encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """The server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                server.respond(self)
            except (BrokenPipeError, ConnectionResetError):
                return

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        server.url = f"http://127.0.0.1:{listener.server_port}"
        thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


def redirect(to: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def same(text: str | bytes, kind: str = JSON, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, text, kind, status)


def dripping(seconds: float) -> Callable[[BaseHTTPRequestHandler], None]:
    """A byte now and then, for ever so long."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    return answer


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """The line is cut in the middle of the answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"status":')
    handler.wfile.flush()
    handler.connection.close()
