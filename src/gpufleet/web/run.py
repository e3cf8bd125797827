"""The server itself: it listens, says where, and ends when it is told to."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress

import uvicorn

from gpufleet.errors import UsageError
from gpufleet.report.output_stream import remark
from gpufleet.web.app import application
from gpufleet.web.guard import Rights
from gpufleet.web.workers import Limits

LEAVE_S = 1
WAITING_CONNECTIONS = 256


def run(host: str, port: int, rights: Rights, limits: Limits, environment: Mapping[str, str]) -> int:
    """Serve until a signal comes; nothing of questions is logged, and what a proxy says of its clients is not heard."""
    listening = listener(host, port)
    config = uvicorn.Config(
        application(rights, limits, environment),
        access_log=False,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=LEAVE_S,
    )
    where = f"[{host}]" if ":" in host else host
    remark(f"http://{where}:{listening.getsockname()[1]}/ (Ctrl-C ends it)")
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def listener(host: str, port: int) -> socket.socket:
    """A socket that listens: who is told the address may ask, though the server is not there yet."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(WAITING_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"cannot listen on {host}, port {port}", found=str(error), hint="'--port 0' takes a free one."
        ) from None
    return listening
