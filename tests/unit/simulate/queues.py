"""Replays whose truth is known: a queue with c servers, first come first served, with exact event times."""

from __future__ import annotations

import heapq

import numpy as np

from gpufleet.domain.arrays import AnyArray, FloatArray
from gpufleet.domain.replay import ANSWERED, Replay, Timeline
from gpufleet.domain.requests import Requests


def queue_replay(
    arrival_s: FloatArray,
    service_s: FloatArray,
    servers: int = 1,
    *,
    output_tokens: int = 11,
    request_class: AnyArray | None = None,
    class_names: tuple[str, ...] = ("",),
) -> Replay:
    """Each request waits for a server, has its first token as it is taken, and the others evenly until it is done."""
    number = len(arrival_s)
    free = [(0.0, server) for server in range(servers)]
    start_s, replica = np.zeros(number), np.zeros(number, dtype=np.int64)
    for i in range(number):
        at, server = heapq.heappop(free)
        start_s[i], replica[i] = max(at, arrival_s[i]), server
        heapq.heappush(free, (start_s[i] + service_s[i], server))
    finish_s = start_s + service_s
    zeros = np.zeros(number, dtype=np.int64)
    requests = Requests(
        arrival_s, zeros + 100, zeros + output_tokens, zeros if request_class is None else request_class, class_names
    )
    end_s = float(finish_s.max()) if number else 0.0
    busy_s = np.bincount(replica, weights=service_s, minlength=servers)
    return Replay(
        requests=requests,
        first_token_s=start_s,
        finish_s=finish_s,
        fate=zeros + ANSWERED,
        replica=replica,
        cached_tokens=zeros + 25,
        preemptions=zeros,
        retries=zeros,
        busy_s=busy_s,
        paid_s=np.full(servers, end_s),
        end_s=end_s,
        timeline=timeline_of(arrival_s, start_s, finish_s, servers),
    )


def timeline_of(arrival_s: FloatArray, start_s: FloatArray, finish_s: FloatArray, servers: int) -> Timeline:
    """What runs and waits after every event."""
    times = np.sort(np.concatenate((arrival_s, start_s, finish_s)))
    arrived, started, done = (
        np.searchsorted(np.sort(moments), times, side="right") for moments in (arrival_s, start_s, finish_s)
    )
    running = started - done
    copies = np.full(len(times), servers)
    return Timeline(times, running, arrived - started, running / servers, copies, copies)


def markov_replay(load: float, number: int, seed: int, servers: int = 1) -> Replay:
    """M/M/c with a mean service of one second."""
    dice = np.random.default_rng(seed)
    arrival_s = np.cumsum(dice.exponential(1 / (load * servers), number))
    return queue_replay(arrival_s, dice.exponential(1.0, number), servers)
