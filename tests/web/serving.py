"""A server of questions in this process, on a port that is free, and who asks it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from gpufleet.web.app import application
from gpufleet.web.guard import LOOPBACK, Rights
from gpufleet.web.run import listener
from gpufleet.web.workers import Limits, environment_of_workers

PATIENCE_S = 30.0
ALONE = Rights(frozenset(LOOPBACK))
LLAMA = {"model": "llama-3.1-8b", "gpus": "L4:1"}
ENDLESS = {"model": "llama-3.1-8b", "gpus": "H100:1", "rate": "5/s", "in": 1000, "out": 200, "requests": 5_000_000}


@contextmanager
def serving(rights: Rights = ALONE, limits: Limits = Limits()) -> Iterator[httpx.Client]:  # noqa: B008
    """Who asks a server that ends with the block."""
    environment = environment_of_workers(os.environ, Path(), with_preferences=False)
    listening = listener("127.0.0.1", 0)
    config = uvicorn.Config(
        application(rights, limits, environment), log_level="critical", timeout_graceful_shutdown=1, proxy_headers=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    until_s = time.monotonic() + PATIENCE_S
    while not server.started and time.monotonic() < until_s:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, trust_env=False, timeout=PATIENCE_S) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
