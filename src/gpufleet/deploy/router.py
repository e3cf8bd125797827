"""A router in front of copies that are not alike, or of several on one machine: HAProxy's own configuration.

Words: docs.haproxy.org/3.2/configuration.html (`balance`, `hash-type`, `hash-balance-factor`, `server-template`,
`req.body_size`); tests let HAProxy itself read and run it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpufleet.deploy.serving_copies import LEAST_BUSY, PREFIX, PRIORITY, WEIGHTS, ServingCopies
from gpufleet.records import dataclass

ROUTER_IMAGE, ROUTER_PORT, CONFIG_FILE = "haproxy:3.2", 8080, "haproxy.cfg"
HEALTH = "/router-health"
HEAVIEST = 256
"""The largest weight that HAProxy takes; the least is 1."""
PREFIX_BYTES = 512
"""How much of a request's body says where it goes by prefix: what is before the first prompt, and its beginning; a
judgement."""
BOUND_PERCENT = 150
"""How many times the mean of its requests a copy may hold before a prefix goes elsewhere; 125 to 200 are advised."""
BYTES_OF_A_TOKEN = 4
"""Of English text in JSON; a judgement: what a router sees is bytes."""
BUFFER_BYTES = 65_536
ROOM_OF_SLOTS = 2
"""Addresses that may come beside those of the plan: scaling, or a copy that is replaced."""


@dataclass(frozen=True)
class Backend:
    """Equal copies at one address, or at as many as its name stands for.

    `requests_per_s` and `most_requests` are of one copy: what it carries, and how many it answers at once.
    """

    name: str
    host: str
    port: int
    copies: int
    requests_per_s: float
    most_requests: int
    share_ratio: float
    is_named: bool
    ready: str


@dataclass(frozen=True)
class Pool:
    """Copies that get the requests of some lengths of prompts, above and up to so many tokens; None: however many."""

    backends: Sequence[Backend]
    to_tokens: float | None = None


@dataclass(frozen=True, eq=False)
class Router:
    """What deals out the requests of one model: pools from the shortest prompts to the longest."""

    name: str
    routing: str
    pools: Sequence[Pool]
    longest_s: int


def routed(copies: Sequence[ServingCopies]) -> dict[str, list[ServingCopies]]:
    """The groups of each model that a router stands before, by the model."""
    found: dict[str, list[ServingCopies]] = {}
    for one in copies:
        if one.routing is not None:
            found.setdefault(one.model, []).append(one)
    return found


def pools_of(groups: Sequence[ServingCopies], backends: Callable[[ServingCopies], Sequence[Backend]]) -> list[Pool]:
    """Who gets which prompts, the shortest first; each group's backends as they are reached."""
    ends = sorted({end for group in groups for end in group.shares}, key=lambda end: math.inf if end is None else end)
    return [
        Pool(
            [
                replace(backend, share_ratio=group.shares[end] * backend.share_ratio)
                for group in groups
                if group.shares.get(end)
                for backend in backends(group)
            ],
            end,
        )
        for end in ends
    ]


def haproxy(router: Router) -> str:
    """The whole configuration."""
    lines = [
        "global",
        *indented(f"tune.bufsize {BUFFER_BYTES}", "log stdout format raw local0"),
        "defaults",
        *indented(*defaults(router)),
        "resolvers cluster",
        *indented(*RESOLVERS),
        "frontend requests",
        *indented(*frontend(router)),
        *(line for number, pool in enumerate(router.pools, 1) for line in section(router, pool, number)),
    ]
    return "\n".join([*lines, ""])


LOOKED_UP = "resolvers cluster init-addr last,libc,none"
RESOLVERS = ("parse-resolv-conf", "accepted_payload_size 8192", "hold valid 5s")
ALWAYS = (
    "mode http",
    "log global",
    "option httplog",
    "option redispatch 1",
    "retries 2",
    "timeout connect 5s",
    "timeout http-request 30s",
    "default-server check inter 5s fall 3 rise 2",
)


def indented(*lines: str) -> list[str]:
    """Lines of a section."""
    return [f"    {line}" for line in lines]


def defaults(router: Router) -> Iterator[str]:
    """What holds for all sections: a request may wait and be answered for as long as the longest takes."""
    yield from ALWAYS
    for end in ("client", "server", "queue"):
        yield f"timeout {end} {router.longest_s}s"


def frontend(router: Router) -> Iterator[str]:
    """Where requests come in; which pool they go to is by the bytes that they announce."""
    yield f"bind :{ROUTER_PORT}"
    yield f"http-request return status 200 content-type text/plain string ok if {{ path {HEALTH} }}"
    if router.routing == PREFIX:
        yield "option http-buffer-request"
    for number, pool in enumerate(router.pools, 1):
        if pool.to_tokens is not None:
            yield f"use_backend pool-{number} if {{ req.body_size le {bytes_of(pool.to_tokens)} }}"
    yield f"default_backend pool-{len(router.pools)}"


def bytes_of(tokens: float) -> int:
    """The size of a request with so many tokens of prompt.

    >>> bytes_of(364)
    1456
    """
    return math.ceil(tokens * BYTES_OF_A_TOKEN)


def section(router: Router, pool: Pool, number: int) -> Iterator[str]:
    """A pool: how its requests are dealt out, and to whom."""
    yield f"backend pool-{number}"
    yield from indented(*BALANCE[router.routing], f"option httpchk GET {pool.backends[0].ready}")
    weights = weights_of(pool.backends, by_share=router.routing == WEIGHTS or len(router.pools) > 1)
    for backend, weight in zip(pool.backends, weights, strict=True):
        where = f"{backend.host}:{backend.port} weight {weight}"
        most = f" maxconn {backend.most_requests}" if router.routing == PRIORITY else ""
        if backend.is_named:
            slots = ROOM_OF_SLOTS * backend.copies
            yield f"    server-template {backend.name}- {slots} {where}{most} {LOOKED_UP}"
        else:
            yield f"    server {backend.name} {where}{most} {LOOKED_UP}"


BALANCE = {
    LEAST_BUSY: ("balance leastconn",),
    WEIGHTS: ("balance roundrobin",),
    PRIORITY: ("balance first",),
    PREFIX: (
        f"balance hash req.body,bytes(0,{PREFIX_BYTES})",
        "hash-type consistent",
        f"hash-balance-factor {BOUND_PERCENT}",
    ),
}
"""By name: the copy with the fewest requests for what it carries; shares as planned; the first that has room, in order;
the same beginning to the same copy, unless that is busy."""


def weights_of(backends: Sequence[Backend], *, by_share: bool) -> list[int]:
    """Of each copy of a backend: by what it carries, or by the share that it is to get.

    >>> alike = dict(port=8000, most_requests=8, is_named=True, ready="/health")
    >>> two = [Backend("a", "a", copies=1, requests_per_s=4.0, share_ratio=0.5, **alike),
    ...        Backend("b", "b", copies=2, requests_per_s=1.0, share_ratio=0.5, **alike)]
    >>> weights_of(two, by_share=False), weights_of(two, by_share=True)
    ([256, 64], [256, 128])
    """
    of_copy: Callable[[Backend], float] = (
        (lambda each: each.share_ratio / each.copies) if by_share else (lambda each: each.requests_per_s)
    )
    most = max(map(of_copy, backends))
    return [max(round(HEAVIEST * of_copy(each) / most), 1) if most > 0 else 1 for each in backends]
