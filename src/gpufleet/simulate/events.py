"""The cluster, event by event: steps that end, replicas that change, requests that come.

At one time steps end first, then replicas change, then requests come, in this order.
"""

from __future__ import annotations

import math
from typing import Any

from gpufleet.simulate.compiled import compiled, compiled_and_kept
from gpufleet.simulate.kv_blocks import blocks_of
from gpufleet.simulate.replica import begin_step, cut_run, end_step
from gpufleet.simulate.routing import route
from gpufleet.simulate.waiting import gives_up_s, wait

NONE = -1
OFF, STARTING, READY, DRAINING = range(4)
ANSWERED, FROM_CACHE, REFUSED, TIMED_OUT, TOO_LONG, UNFINISHED = range(6)


@compiled_and_kept
def run_until(state: Any, until_s: Any, most_events: Any) -> Any:
    """Let everything happen up to a time, at most so many events; how many happened."""
    cluster = state.cluster[0]
    for event in range(most_events):
        r = first_to_end(state)
        ends_s = state.replicas[r].end_s
        changes_s = math.inf
        if cluster.next_change < cluster.num_changes:
            changes_s = state.changes[cluster.next_change].time_s
        comes_s = next_request_s(state)
        now_s = earliest(ends_s, changes_s, comes_s)
        if now_s > until_s or now_s == math.inf:
            return event
        cluster.now_s = now_s
        if ends_s <= now_s:
            end_step(state, r)
            begin_step(state, r, now_s)
            retire_if_empty(state, r, now_s)
        elif changes_s <= now_s:
            change(state, now_s)
        else:
            deliver(state, take_request(state), now_s)
        if cluster.ended != NONE:
            follow_up(state, now_s)
    return most_events


@compiled
def earliest(a: Any, b: Any, c: Any) -> Any:
    """The least of three times."""
    least = a if a < b else b
    return least if least < c else c


@compiled
def first_to_end(state: Any) -> Any:
    """The replica whose step ends first."""
    first = 0
    least = state.replicas[0].end_s
    for r in range(1, len(state.replicas)):
        if state.replicas[r].end_s < least:
            least = state.replicas[r].end_s
            first = r
    return first


@compiled
def next_request_s(state: Any) -> Any:
    """When the next request comes, new or again."""
    cluster = state.cluster[0]
    comes_s = math.inf
    if cluster.next_arrival < cluster.num_arrivals:
        comes_s = state.requests[cluster.next_arrival].ready_s
    if cluster.num_later > 0:
        later_s = state.requests[state.words[cluster.later]].ready_s
        if later_s < comes_s:
            comes_s = later_s
    return comes_s


@compiled
def take_request(state: Any) -> Any:
    """The request that comes now."""
    cluster = state.cluster[0]
    if cluster.num_later > 0:
        n = state.words[cluster.later]
        is_new_first = (
            cluster.next_arrival < cluster.num_arrivals
            and state.requests[cluster.next_arrival].ready_s <= state.requests[n].ready_s
        )
        if not is_new_first:
            cluster.num_later -= 1
            sink_later(state, 0, state.words[cluster.later + cluster.num_later])
            return n
    cluster.next_arrival += 1
    return cluster.next_arrival - 1


@compiled
def come_later(state: Any, n: Any) -> None:
    """Put a request among those that come at times of their own."""
    cluster = state.cluster[0]
    at = cluster.num_later
    while at > 0:
        parent = (at - 1) // 2
        above = state.words[cluster.later + parent]
        if not comes_before(state, n, above):
            break
        state.words[cluster.later + at] = above
        at = parent
    state.words[cluster.later + at] = n
    cluster.num_later += 1


@compiled
def sink_later(state: Any, at: Any, n: Any) -> None:
    """Put a request into the hole at a place of that heap, or below it."""
    cluster = state.cluster[0]
    words = state.words
    later = cluster.later
    while True:
        child = 2 * at + 1
        if child >= cluster.num_later:
            break
        if child + 1 < cluster.num_later and comes_before(state, words[later + child + 1], words[later + child]):
            child += 1
        if not comes_before(state, words[later + child], n):
            break
        words[later + at] = words[later + child]
        at = child
    words[later + at] = n


@compiled
def comes_before(state: Any, n: Any, other: Any) -> Any:
    """Whether one request comes before another; at one time the one that was asked first."""
    ready_s = state.requests[n].ready_s
    other_s = state.requests[other].ready_s
    return ready_s < other_s or (ready_s == other_s and n < other)


@compiled
def deliver(state: Any, n: Any, now_s: Any) -> None:
    """A request comes: to a replica, or to wait until one is ready."""
    cluster = state.cluster[0]
    request = state.requests[n]
    r = route(state, n, now_s)
    if r == NONE:
        await_replica(state, n)
        return
    replica = state.replicas[r]
    engine = state.engines[replica.engine]
    whole = request.input_tokens + request.output_tokens
    if whole > engine.longest_tokens or blocks_of(engine, whole) > engine.num_blocks:
        end_as(state, n, TOO_LONG)
        return
    if replica.waiting >= cluster.most_waiting:
        end_as(state, n, REFUSED)
        return
    wait(state, replica, n)
    replica.tokens_left += request.left_tokens + (0 if request.has_kv else request.prompt_tokens)
    if replica.end_s == math.inf:
        begin_step(state, r, now_s)
    else:
        let_join(state, replica, engine, n, now_s)


@compiled
def let_join(state: Any, replica: Any, engine: Any, n: Any, now_s: Any) -> None:
    """Shorten a run of decode steps for a request that comes: so that it may join, or that it may give up."""
    is_next = is_served_next(state, replica, n)
    if is_next:
        replica.is_blocked = 0
    if not replica.is_blocked and replica.running < engine.largest_batch:
        cut_run(replica, engine, now_s)
    elif is_next:
        cut_run(replica, engine, gives_up_s(state, n))


@compiled
def is_served_next(state: Any, replica: Any, n: Any) -> Any:
    """Whether a request that comes goes before all that wait: it may find room where the first of them does not."""
    request_class = state.requests[n].request_class
    for earlier in range(request_class):
        if state.words[replica.queues + 2 * earlier] != NONE:
            return False
    return state.words[replica.queues + 2 * request_class] == n


@compiled
def end_as(state: Any, n: Any, fate: Any) -> None:
    """A request ends without an answer."""
    cluster = state.cluster[0]
    state.requests[n].fate = fate
    state.requests[n].next = cluster.ended
    cluster.ended = n


@compiled
def await_replica(state: Any, n: Any) -> None:
    """No replica is ready: the request waits in front of them."""
    cluster = state.cluster[0]
    state.requests[n].next = NONE
    if cluster.unrouted == NONE:
        cluster.unrouted = n
    else:
        state.requests[cluster.last_unrouted].next = n
    cluster.last_unrouted = n
    cluster.num_unrouted += 1


@compiled
def deliver_awaiting(state: Any, now_s: Any) -> None:
    """A replica is ready: those that wait in front go where they can."""
    cluster = state.cluster[0]
    n = cluster.unrouted
    cluster.unrouted = NONE
    cluster.num_unrouted = 0
    while n != NONE:
        following = state.requests[n].next
        deliver(state, n, now_s)
        n = following


@compiled
def follow_up(state: Any, now_s: Any) -> None:
    """What follows when requests end: KV moves on, clients try again or send their next."""
    cluster = state.cluster[0]
    while cluster.ended != NONE:
        n = cluster.ended
        request = state.requests[n]
        cluster.ended = request.next
        if request.fate == UNFINISHED:
            move_kv(state, n, request)
        elif request.fate >= REFUSED and request.fate != TOO_LONG and request.retries < cluster.most_retries:
            try_again(state, n, request, now_s)
        else:
            cluster.num_ended += 1
            if cluster.is_closed:
                send_next(state, request, now_s)


@compiled
def move_kv(state: Any, n: Any, request: Any) -> None:
    """The KV of a prefilled prompt is on its way to a replica that decodes."""
    cluster = state.cluster[0]
    request.ready_s = request.finish_s + cluster.transfer_fixed_s + cluster.transfer_s_per_token * request.prompt_tokens
    request.finish_s = math.nan
    come_later(state, n)


@compiled
def try_again(state: Any, n: Any, request: Any, now_s: Any) -> None:
    """A client sends again what was refused or not begun in time."""
    request.retries += 1
    request.ready_s = now_s + state.cluster[0].backoff_s
    start_over(request)
    come_later(state, n)


@compiled
def start_over(request: Any) -> None:
    """A request as it was sent."""
    request.fate = UNFINISHED
    request.prompt_tokens = request.input_tokens
    request.left_tokens = request.output_tokens
    request.prefilled_tokens = 0
    request.has_kv = 0
    request.first_token_s = math.nan
    request.late_s = 0.0
    request.held_blocks = 0
    request.shared_prefix_blocks = 0
    request.replica = NONE


@compiled
def send_next(state: Any, request: Any, now_s: Any) -> None:
    """A client that is answered sends its next: `arrival_s` held its pause, `ready_s` what handling takes."""
    cluster = state.cluster[0]
    n = cluster.next_client
    if n >= len(state.requests):
        return
    cluster.next_client = n + 1
    following = state.requests[n]
    ended_s = request.finish_s if request.fate == ANSWERED else now_s
    following.arrival_s += ended_s
    following.ready_s += following.arrival_s
    come_later(state, n)


@compiled
def change(state: Any, now_s: Any) -> None:
    """A replica is switched on, ready, drained or lost."""
    cluster = state.cluster[0]
    event = state.changes[cluster.next_change]
    cluster.next_change += 1
    r = event.replica
    replica = state.replicas[r]
    if replica.state == OFF and event.state != OFF:
        replica.paid_from_s = now_s
    if event.state == OFF:
        lose(state, r, now_s)
    replica.state = event.state
    if event.state == READY:
        deliver_awaiting(state, now_s)
    retire_if_empty(state, r, now_s)


@compiled
def retire_if_empty(state: Any, r: Any, now_s: Any) -> None:
    """A replica that takes no more requests and has done its last is given back."""
    replica = state.replicas[r]
    if replica.state == DRAINING and replica.end_s == math.inf and replica.waiting == 0:
        stop_paying(replica, now_s)
        replica.state = OFF


@compiled
def stop_paying(replica: Any, now_s: Any) -> None:
    """A replica is given back."""
    if replica.state != OFF:
        replica.paid_s += now_s - replica.paid_from_s


@compiled
def lose(state: Any, r: Any, now_s: Any) -> None:
    """A replica is gone with all that it held: its requests are sent again at once."""
    replica = state.replicas[r]
    engine = state.engines[replica.engine]
    stop_paying(replica, now_s)
    if replica.end_s < math.inf:
        replica.busy_s += now_s - replica.clock_s
    n = replica.newest
    while n != NONE:
        older = state.requests[n].older
        send_again(state, n, now_s)
        n = older
    for request_class in range(state.cluster[0].num_classes):
        n = state.words[replica.queues + 2 * request_class]
        while n != NONE:
            following = state.requests[n].next
            send_again(state, n, now_s)
            n = following
    empty(state, replica, engine)


@compiled
def send_again(state: Any, n: Any, now_s: Any) -> None:
    """A request whose replica is gone comes again."""
    request = state.requests[n]
    request.retries += 1
    request.ready_s = now_s
    start_over(request)
    come_later(state, n)


@compiled
def empty(state: Any, replica: Any, engine: Any) -> None:
    """A replica as it starts: nothing runs, waits or is held."""
    words = state.words
    replica.running = 0
    replica.context_tokens = 0
    replica.used_blocks = 0
    replica.idle_blocks = 0
    replica.waiting = 0
    replica.tokens_left = 0
    replica.num_prompts = 0
    replica.first_step = replica.steps
    replica.num_joining = 0
    replica.joining = NONE
    replica.partial = NONE
    replica.newest = NONE
    replica.held_since = NONE
    replica.oldest_idle = NONE
    replica.newest_idle = NONE
    replica.end_s = math.inf
    for i in range(engine.block_tokens):
        words[replica.phases + i] = 0
    for i in range(2 * state.cluster[0].num_classes):
        words[replica.queues + i] = NONE
    for i in range(state.cluster[0].num_prefix_blocks):
        words[replica.prefix + 3 * i] = NONE
