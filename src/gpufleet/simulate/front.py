"""What stands before the replicas: a cache of whole answers, and a router that gives easy requests to a small model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray
from gpufleet.domain.replay import FROM_CACHE, Replay
from gpufleet.domain.requests import Requests
from gpufleet.simulate.reshape import selected


def drawn_share(rng: np.random.Generator, requests: Requests, share: float) -> BoolArray:
    """Which requests are among a share of them, each by a draw of its own."""
    return np.asarray(rng.random(len(requests)) < share)


def beyond_cache(requests: Requests, is_hit: BoolArray) -> Requests:
    """The requests that a response cache has no answer to."""
    return selected(requests, np.flatnonzero(~is_hit))


def with_cached(happened: Replay, requests: Requests, is_hit: BoolArray) -> Replay:
    """The replay of all requests: those that the cache answers have their whole answer as they come."""
    passed, told = ~is_hit, happened.requests

    def column(values: AnyArray, otherwise: AnyArray | float) -> AnyArray:
        whole = np.array(np.broadcast_to(np.asarray(otherwise, dtype=values.dtype), len(requests)))
        whole[passed] = values
        return whole

    return replace(
        happened,
        requests=replace(
            requests,
            request_class=column(told.request_class, requests.request_class),
            class_names=told.class_names,
        ),
        first_token_s=column(happened.first_token_s, requests.arrival_s),
        finish_s=column(happened.finish_s, requests.arrival_s),
        fate=column(happened.fate, FROM_CACHE),
        replica=column(happened.replica, -1),
        cached_tokens=column(happened.cached_tokens, 0),
        preemptions=column(happened.preemptions, 0),
        retries=column(happened.retries, 0),
        end_s=happened.end_s if happened.is_partial else max(happened.end_s, float(requests.arrival_s[-1])),
    )


def told_apart(requests: Requests, is_small: BoolArray, name: str) -> Requests:
    """The same with the requests of the small model as classes of their own."""
    names = [f"{own} {name}".strip() for own in requests.class_names]
    large = tuple(own or "large" for own in requests.class_names)
    classes = np.where(is_small, requests.request_class + len(large), requests.request_class)
    return replace(requests, request_class=classes, class_names=(*large, *names))
