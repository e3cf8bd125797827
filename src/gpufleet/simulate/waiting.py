"""Requests that wait at a replica: one queue for each class, served first come first served, earlier classes first."""

from __future__ import annotations

import math
from typing import Any

from gpufleet.simulate.compiled import compiled

NONE = -1
TIMED_OUT = 3


@compiled
def wait(state: Any, replica: Any, n: Any) -> None:
    """Put a request behind all others of its class."""
    request = state.requests[n]
    at = replica.queues + 2 * request.request_class
    request.next = NONE
    last = state.words[at + 1]
    if last == NONE:
        state.words[at] = n
    else:
        state.requests[last].next = n
    state.words[at + 1] = n
    replica.waiting += 1
    replica.waiting_tokens += request.prompt_tokens


@compiled
def put_back(state: Any, replica: Any, n: Any) -> None:
    """Put a request before all others of its class."""
    request = state.requests[n]
    at = replica.queues + 2 * request.request_class
    request.next = state.words[at]
    if request.next == NONE:
        state.words[at + 1] = n
    state.words[at] = n
    replica.waiting += 1
    replica.waiting_tokens += request.prompt_tokens


@compiled
def leave_queue(state: Any, replica: Any, n: Any) -> None:
    """Take the first request of its class out of the queue."""
    request = state.requests[n]
    at = replica.queues + 2 * request.request_class
    state.words[at] = request.next
    if request.next == NONE:
        state.words[at + 1] = NONE
    replica.waiting -= 1
    replica.waiting_tokens -= request.prompt_tokens


@compiled
def first_waiting(state: Any, replica: Any, now_s: Any) -> Any:
    """The request that is served next; those whose clients have given up are left out of the queue."""
    cluster = state.cluster[0]
    for request_class in range(cluster.num_classes):
        at = replica.queues + 2 * request_class
        while state.words[at] != NONE:
            n = state.words[at]
            request = state.requests[n]
            if now_s <= gives_up_s(state, n):
                return n
            leave_queue(state, replica, n)
            replica.tokens_left -= request.left_tokens + (0 if request.has_kv else request.prompt_tokens)
            request.fate = TIMED_OUT
            request.next = cluster.ended
            cluster.ended = n
    return NONE


@compiled
def gives_up_s(state: Any, n: Any) -> Any:
    """When the client of a request that waits gives it up, unless it has begun."""
    request = state.requests[n]
    return math.inf if request.prompt_tokens != request.input_tokens else request.ready_s + state.cluster[0].timeout_s
