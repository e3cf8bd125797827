"""Which replica a request goes to.

round_robin      the next in turn
random           any
least_requests   the one with the fewest requests, waiting or running
least_tokens     the one with the fewest tokens to do: prompts and answers left at its last step boundary
least_kv         the one with the fewest KV blocks in use
two_choices      the one of two random ones with fewer requests (Mitzenmacher 2001)
prefix_aware     the one that holds most of the prompt; among equals the one with the fewest requests, and that one too
                 where the holder has twice as many requests
"""

from __future__ import annotations

import math
from typing import Any

from gpufleet.domain.routing import ROUTINGS
from gpufleet.simulate.compiled import compiled
from gpufleet.simulate.kv_blocks import forget_oldest, growth, known_prefix_blocks
from gpufleet.simulate.step_times import run_s, steps_until

LEAST_REQUESTS, ROUND_ROBIN, RANDOM, LEAST_TOKENS, LEAST_KV, TWO_CHOICES, PREFIX_AWARE = range(len(ROUTINGS))
NONE = -1
READY = 2
CROWDED = 2


@compiled
def route(state: Any, n: Any, now_s: Any) -> Any:
    """The replica for a request among those that are ready for it; NONE where there is none."""
    cluster = state.cluster[0]
    routing = cluster.routing
    if routing == ROUND_ROBIN:
        return next_in_turn(state, n)
    if routing in (RANDOM, TWO_CHOICES):
        return at_random(state, n, routing == TWO_CHOICES)
    if routing == PREFIX_AWARE:
        return holder_of_prefix(state, n, now_s)
    best = NONE
    least = math.inf
    for r in range(len(state.replicas)):
        if is_open(state, r, n):
            burden = burden_of(state, r, routing, now_s)
            if burden < least:
                least = burden
                best = r
    return best


@compiled
def is_open(state: Any, r: Any, n: Any) -> Any:
    """Whether a replica is ready and does what a request needs next: prefill, decode, or both."""
    replica = state.replicas[r]
    wanted = state.words[state.cluster[0].wanted_copies + state.requests[n].request_class]
    if replica.state != READY or (wanted != NONE and wanted != replica.engine):
        return False
    if replica.role == 0:
        return True
    return (replica.role == 2) == (state.requests[n].has_kv == 1)


@compiled
def burden_of(state: Any, r: Any, routing: Any, now_s: Any) -> Any:
    """What a replica has to do, by the measure of a routing."""
    replica = state.replicas[r]
    if routing == LEAST_KV:
        engine = state.engines[replica.engine]
        return float(replica.used_blocks + growth(engine, replica, state.words, steps_done(replica, now_s)))
    if routing == LEAST_TOKENS:
        return float(tokens_left(replica, now_s))
    return float(requests_of(replica))


@compiled
def requests_of(replica: Any) -> Any:
    """Requests that wait or run at a replica."""
    return replica.waiting + replica.running + replica.num_joining + (1 if replica.partial != NONE else 0)


@compiled
def tokens_left(replica: Any, now_s: Any) -> Any:
    """Tokens of prompts and answers left at the last step boundary of a replica."""
    return replica.tokens_left - steps_done(replica, now_s) * replica.running


@compiled
def steps_done(replica: Any, now_s: Any) -> Any:
    """Decode steps of the run under way that have ended."""
    if replica.is_decoding == 0 or replica.num_prompts > 0 or not replica.end_s < math.inf:
        return 0
    passed_s = now_s - replica.clock_s
    done = steps_until(replica.step_s, replica.growth_s, replica.num_steps, passed_s)
    if run_s(replica.step_s, replica.growth_s, done) > passed_s:
        done -= 1
    return done


@compiled
def give_up_within_run(state: Any, replica: Any, now_s: Any) -> None:
    """Give up the prefix blocks whose room the decode steps that have ended took, as the end of their run will."""
    engine = state.engines[replica.engine]
    taken = growth(engine, replica, state.words, steps_done(replica, now_s))
    while replica.idle_blocks > 0 and replica.used_blocks + taken + replica.idle_blocks > engine.num_blocks:
        forget_oldest(state.words, replica, engine)


@compiled
def next_in_turn(state: Any, n: Any) -> Any:
    """The open replica whose turn is longest past; so replicas that serve other requests pass nobody over."""
    cluster = state.cluster[0]
    chosen = NONE
    for r in range(len(state.replicas)):
        is_earlier = chosen == NONE or state.replicas[r].last_turn < state.replicas[chosen].last_turn
        if is_earlier and is_open(state, r, n):
            chosen = r
    if chosen != NONE:
        cluster.turn += 1
        state.replicas[chosen].last_turn = cluster.turn
    return chosen


@compiled
def at_random(state: Any, n: Any, is_of_two: Any) -> Any:
    """An open replica that the request's own random number names, or the less crowded of two."""
    open_ones = 0
    for r in range(len(state.replicas)):
        if is_open(state, r, n):
            open_ones += 1
    if open_ones == 0:
        return NONE
    scaled = state.requests[n].draw * open_ones
    first = nth_open(state, n, int(scaled))
    if not is_of_two or open_ones == 1:
        return first
    place = int((scaled - int(scaled)) * (open_ones - 1))
    second = nth_open(state, n, place if place < int(scaled) else place + 1)
    return second if requests_of(state.replicas[second]) < requests_of(state.replicas[first]) else first


@compiled
def nth_open(state: Any, n: Any, place: Any) -> Any:
    """The open replica at a place, counted from 0."""
    seen = 0
    for r in range(len(state.replicas)):
        if is_open(state, r, n):
            if seen == place:
                return r
            seen += 1
    return NONE


@compiled
def holder_of_prefix(state: Any, n: Any, now_s: Any) -> Any:
    """The open replica that holds most of a prompt, unless it is crowded; else the one with the fewest requests."""
    request = state.requests[n]
    best = NONE
    most = 0
    least = NONE
    for r in range(len(state.replicas)):
        if not is_open(state, r, n):
            continue
        replica = state.replicas[r]
        if least == NONE or requests_of(replica) < requests_of(state.replicas[least]):
            least = r
        give_up_within_run(state, replica, now_s)
        known = known_prefix_blocks(state.words, replica, request)
        if known > most or (
            known == most and best != NONE and requests_of(replica) < requests_of(state.replicas[best])
        ):
            most = known
            best = r
    if best == NONE:
        return least
    is_crowded = requests_of(state.replicas[best]) > CROWDED * (requests_of(state.replicas[least]) + 1)
    return least if is_crowded else best
