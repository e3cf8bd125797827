"""One replica, step by step: what it admits, what a step takes, what a step brings about.

Engines differ by their rules (`state.ENGINE`): prompts among steps of decoding or before them, a budget of tokens and
of sequences, blocks taken as sequences grow or set aside for whole answers. A run of steps that only decode is one
event.
"""

from __future__ import annotations

import math
from typing import Any

from gpufleet.simulate.compiled import compiled
from gpufleet.simulate.finishing import SHIFT, drop, drop_least, push
from gpufleet.simulate.kv_blocks import (
    NONE,
    blocks_of,
    growth,
    idle_among,
    known_prefix_blocks,
    kv_blocks_of_prefix,
    leave_prefix,
    phase_of,
    read_prefix,
    steps_that_fit,
    take_blocks,
)
from gpufleet.simulate.state import PREFILLS
from gpufleet.simulate.step_times import attention_at, decode_at, extra_at, idle_at, run_s, steps_in_cell, steps_until
from gpufleet.simulate.waiting import first_waiting, gives_up_s, leave_queue, put_back

LONGEST_RUN = 1 << 30


@compiled
def begin_step(state: Any, r: Any, now_s: Any) -> None:
    """Form the next step of a replica, or the next run of decode steps; without work it rests."""
    replica = state.replicas[r]
    engine = state.engines[replica.engine]
    replica.clock_s = now_s
    is_full = make_room(state, replica, engine)
    take_prompts(state, r, replica, engine, now_s, is_full)
    if replica.num_prompts > 0:
        begin_prompts(state, replica, engine)
    elif replica.running > 0:
        begin_run(state, replica, engine)
    else:
        replica.end_s = math.inf
    if replica.moved != NONE:
        first_tokens_of_moved(state, replica)


@compiled
def first_tokens_of_moved(state: Any, replica: Any) -> None:
    """Sequences whose KV was moved here have their first token with the step that admits them, one of the late ones."""
    engine = state.engines[replica.engine]
    made_s = replica.end_s if replica.num_prompts > 0 else replica.clock_s + replica.step_s
    late_steps = engine.late_steps - 1.0 if engine.late_steps > 1.0 else 0.0
    late_s = lateness_s(replica, engine, late_steps, replica.running - 1)
    while replica.moved != NONE:
        request = state.requests[replica.moved]
        replica.moved = request.next
        request.late_s = late_s
        request.first_token_s = made_s + late_s


@compiled
def end_step(state: Any, r: Any) -> None:
    """What the step or run that ends now has brought: tokens, ended answers, prompts that begin theirs."""
    replica = state.replicas[r]
    engine = state.engines[replica.engine]
    replica.busy_s += replica.end_s - replica.clock_s
    if replica.is_decoding:
        decode(state, replica, engine, replica.num_steps)
        while replica.running > 0 and state.words[replica.heap] // SHIFT <= replica.steps:
            finish_next(state, replica, engine)
    join_all(state, r, replica, engine)


@compiled
def make_room(state: Any, replica: Any, engine: Any) -> Any:
    """Preempt the newest sequences until the next decode step of all others finds blocks; whether it took any."""
    is_full = False
    while replica.running > 0 and replica.used_blocks + growth(engine, replica, state.words, 1) > engine.num_blocks:
        preempt(state, replica, engine, replica.newest)
        is_full = True
    return is_full


@compiled
def preempt(state: Any, replica: Any, engine: Any, n: Any) -> None:
    """Send a sequence back to the head of its queue: what it has so far becomes its prompt."""
    request = state.requests[n]
    if replica.partial == n:
        replica.partial = NONE
        replica.tokens_left += request.prefilled_tokens
    else:
        stop_decoding(state, replica, engine, n, request)
        replica.tokens_left += request.prompt_tokens
    request.prefilled_tokens = 0
    request.has_kv = 0
    request.preemptions += 1
    leave_running(state, replica, engine, request)
    put_back(state, replica, n)


@compiled
def stop_decoding(state: Any, replica: Any, engine: Any, n: Any, request: Any) -> None:
    """Take a sequence out of those that decode, with all tokens that it has as its prompt."""
    drop(state.words, replica.heap, replica.running, request.finish_step * SHIFT + n)
    request.left_tokens = request.finish_step - replica.steps
    forget_sequence(state, replica, engine, request)
    request.prompt_tokens = tokens_of(request)


@compiled
def forget_sequence(state: Any, replica: Any, engine: Any, request: Any) -> None:
    """One sequence less that decodes: its context, and the blocks it would grow by."""
    tokens = tokens_of(request)
    replica.running -= 1
    replica.context_tokens -= tokens
    if not engine.reserves_answers:
        state.words[replica.phases + phase_of(engine, replica, tokens)] -= 1
        request.held_blocks = blocks_of(engine, tokens) - request.shared_prefix_blocks * kv_blocks_of_prefix(engine)


@compiled
def tokens_of(request: Any) -> Any:
    """Tokens that a sequence has: its prompt and what was generated."""
    return request.input_tokens + request.output_tokens - request.left_tokens


@compiled
def leave_running(state: Any, replica: Any, engine: Any, request: Any) -> None:
    """Give a sequence's blocks back and take it out of the list of those that were admitted."""
    replica.used_blocks -= request.held_blocks
    request.held_blocks = 0
    if request.shared_prefix_blocks > 0:
        leave_prefix(state.words, replica, engine, request)
    if request.newer == NONE:
        replica.newest = request.older
    else:
        state.requests[request.newer].older = request.older
    if request.older != NONE:
        state.requests[request.older].newer = request.newer


@compiled
def take_prompts(state: Any, r: Any, replica: Any, engine: Any, now_s: Any, is_full: Any) -> None:
    """Fill the next step with prompts: the one that was begun, then those that wait, while budget and room last."""
    replica.num_prompts = 0
    replica.prompt_tokens = 0
    replica.largest_chunk = 0
    replica.prompt_attention_s = 0.0
    replica.is_blocked = 0
    budget = engine.step_tokens - (replica.running if engine.mixes_prompts else 0)
    if replica.partial != NONE and budget > 0:
        begun = replica.partial
        replica.partial = NONE
        budget -= take_chunk(state, replica, engine, begun, budget)
    if is_full or replica.waiting == 0 or not looks_for_requests(replica, engine):
        return
    while budget > 0 and replica.partial == NONE and replica.waiting > 0:
        n = first_waiting(state, replica, now_s)
        if n == NONE:
            return
        if engine.awaits_room and not state.requests[n].has_kv and state.requests[n].prompt_tokens > budget:
            return
        if not is_admitted(state, replica, engine, n):
            replica.is_blocked = 1
            return
        budget -= admit(state, r, replica, engine, n, budget)


@compiled
def looks_for_requests(replica: Any, engine: Any) -> Any:
    """Whether the engine looks at its queue in this step."""
    if replica.running == 0:
        return True
    if engine.is_static:
        return False
    if (replica.steps - replica.first_step) % engine.poll_steps != 0:
        return False
    if engine.gather_steps > 0 and replica.waiting < engine.groups:
        return has_waited(replica, engine.gather_steps)
    if engine.batch_wait_steps > 0 and replica.waiting_tokens + replica.running < engine.batch_wait_tokens:
        return has_waited(replica, engine.batch_wait_steps)
    replica.held_since = NONE
    return True


@compiled
def has_waited(replica: Any, most_steps: Any) -> Any:
    """Whether prompts have waited long enough for others: groups of ranks for one each, a step for what fills it."""
    if replica.held_since == NONE:
        replica.held_since = replica.steps
    if replica.steps - replica.held_since < most_steps:
        return False
    replica.held_since = NONE
    return True


@compiled
def is_admitted(state: Any, replica: Any, engine: Any, n: Any) -> Any:
    """Whether a sequence more finds a place and blocks, beside those that the running ones take in this step."""
    request = state.requests[n]
    if replica.running + replica.num_joining >= engine.largest_batch:
        return False
    needed = blocks_of(engine, tokens_after_admission(engine, request))
    if request.num_prefix_blocks > 0:
        known = known_prefix_blocks(state.words, replica, request)
        needed -= (known - idle_among(state.words, replica, request, known)) * kv_blocks_of_prefix(engine)
    if replica.used_blocks > 0:
        needed += engine.spare_blocks
    return replica.used_blocks + growth(engine, replica, state.words, 1) + needed <= engine.num_blocks


@compiled
def tokens_after_admission(engine: Any, request: Any) -> Any:
    """Tokens that a sequence needs blocks for with its first step; KV that was moved here grows in it already."""
    if engine.reserves_answers:
        return request.prompt_tokens + request.left_tokens
    return request.prompt_tokens + 1


@compiled
def tokens_at_admission(engine: Any, request: Any) -> Any:
    """Tokens that a sequence is given blocks for when it is admitted."""
    if engine.reserves_answers:
        return request.prompt_tokens + request.left_tokens
    return request.prompt_tokens + (0 if request.has_kv else 1)


@compiled
def admit(state: Any, r: Any, replica: Any, engine: Any, n: Any, budget: Any) -> Any:
    """Admit the first of the queue; how much of the step's budget its prompt takes."""
    request = state.requests[n]
    leave_queue(state, replica, n)
    request.replica = r
    request.older = replica.newest
    request.newer = NONE
    if replica.newest != NONE:
        state.requests[replica.newest].newer = n
    replica.newest = n
    if request.num_prefix_blocks > 0:
        reuse_prefix(state, replica, engine, request)
    private = blocks_of(engine, tokens_at_admission(engine, request))
    request.held_blocks = private - request.shared_prefix_blocks * kv_blocks_of_prefix(engine)
    take_blocks(state, replica, engine, request.held_blocks)
    if request.has_kv:
        start_decoding(state, replica, engine, n, request)
        request.next = replica.moved
        replica.moved = n
        return 1
    return take_chunk(state, replica, engine, n, budget)


@compiled
def reuse_prefix(state: Any, replica: Any, engine: Any, request: Any) -> None:
    """Skip what the pool holds of a prompt, but for its last token, which says what comes next."""
    known = known_prefix_blocks(state.words, replica, request)
    read_prefix(state, replica, engine, request)
    if request.has_kv:
        return
    cached = known * engine.prefix_tokens
    if cached >= request.prompt_tokens:
        cached = request.prompt_tokens - 1
    if request.preemptions == 0:
        request.cached_tokens = cached
    request.prefilled_tokens = cached
    replica.tokens_left -= cached


@compiled
def take_chunk(state: Any, replica: Any, engine: Any, n: Any, budget: Any) -> Any:
    """Put as much of a prompt into the step as the budget holds; its tokens."""
    request = state.requests[n]
    rest = request.prompt_tokens - request.prefilled_tokens
    chunk = rest if rest <= budget or engine.is_static else budget
    before = attention_at(engine, state.grid, state.words, request.prefilled_tokens)
    request.prefilled_tokens += chunk
    after = attention_at(engine, state.grid, state.words, request.prefilled_tokens)
    replica.prompt_attention_s += after - before
    replica.prompt_tokens += chunk
    replica.num_prompts += 1
    replica.tokens_left -= chunk
    if chunk > replica.largest_chunk:
        replica.largest_chunk = chunk
    if chunk == rest:
        request.next = replica.joining
        replica.joining = n
        replica.num_joining += 1
    else:
        replica.partial = n
    return chunk


@compiled
def begin_prompts(state: Any, replica: Any, engine: Any) -> None:
    """A step with prompts: beside a decode step, instead of one, or on an engine that decodes nothing."""
    grid = state.grid
    words = state.words
    tokens = (replica.prompt_tokens + engine.groups - 1) // engine.groups
    share = 1.0 / engine.groups
    if tokens < replica.largest_chunk:
        share = replica.largest_chunk / replica.prompt_tokens
        tokens = replica.largest_chunk
    filled = filled_groups(replica, engine, tokens)
    attention_s = attention_at(engine, grid, words, 0) + replica.prompt_attention_s * share
    replica.num_steps = 1
    replica.is_decoding = engine.mixes_prompts
    replica.step_s = 0.0
    if replica.running > 0:
        replica.step_s = decode_at(engine, grid, words, replica.running, mean_context(replica))[0]
    if replica.running == 0 or engine.waits_for_host:
        seconds = lone_prompts_s(replica, engine, idle_at(engine, grid, words, tokens, filled) + attention_s)
    else:
        kernels_s = extra_at(engine, grid, words, replica.running, tokens, filled) + attention_s
        seconds = prompt_ratio(replica, engine) * kernels_s + (replica.step_s if engine.mixes_prompts else 0.0)
    replica.end_s = replica.clock_s + max(seconds, least_s(replica, engine, tokens))


@compiled
def least_s(replica: Any, engine: Any, tokens: Any) -> Any:
    """What the host needs to launch a step with prompts: kernel by kernel, or in pieces that were recorded   [s]."""
    if engine.mixes_prompts:
        tokens = tokens + replica.running // engine.groups
    launches_s = engine.piece_launches_s if tokens <= engine.piece_tokens else engine.launches_s
    is_alone = replica.running == 0 or engine.waits_for_host
    return launches_s if is_alone else engine.busy_launch_ratio * launches_s


@compiled
def filled_groups(replica: Any, engine: Any, tokens: Any) -> Any:
    """Groups of ranks beyond the first that have as many tokens of prompts as the fullest, over all of them   [1]."""
    if engine.groups == 1:
        return 0.0
    return (replica.prompt_tokens / tokens - 1.0) / (engine.groups - 1)


@compiled
def lone_prompts_s(replica: Any, engine: Any, kernels_s: Any) -> Any:
    """A step of prompts alone: as on an idle engine, or less where the last step of a copy that only prefills ended.

    k_p t, at most phi t: the host prepared this step while the device ran that one   [s]
    """
    idle_s = engine.idle_prompt_ratio * kernels_s
    busy_s = engine.prompt_alone_ratio * kernels_s
    follows = replica.role == PREFILLS and replica.end_s == replica.clock_s
    return busy_s if follows and busy_s < idle_s else idle_s


@compiled
def prompt_ratio(replica: Any, engine: Any) -> Any:
    """What the prompts of a step cost over what they add: a group's first costs more than each that shares the step."""
    more = engine.prompt_alone_ratio - engine.prompt_among_ratio
    if replica.num_prompts > engine.groups:
        more *= engine.groups / replica.num_prompts
    return engine.prompt_among_ratio + more


@compiled
def mean_context(replica: Any) -> Any:
    """Tokens of context that a sequence has on average."""
    return replica.context_tokens / replica.running


@compiled
def begin_run(state: Any, replica: Any, engine: Any) -> None:
    """Decode until a sequence ends, blocks run out, the engine looks at its queue or the table turns."""
    words = state.words
    context = mean_context(replica)
    replica.step_s, replica.growth_s = decode_at(engine, state.grid, words, replica.running, context)
    steps = words[replica.heap] // SHIFT - replica.steps
    inside = steps_in_cell(engine, state.grid, words, context)
    if inside < steps:
        steps = inside
    if replica.partial != NONE:
        steps = 1
    elif replica.waiting > 0 and not replica.is_blocked:
        waited = until_it_looks(replica, engine)
        if waited < steps:
            steps = waited
    replica.num_steps = steps_that_fit(engine, replica, words, steps)
    replica.is_decoding = 1
    replica.end_s = replica.clock_s + run_s(replica.step_s, replica.growth_s, replica.num_steps)
    if replica.is_blocked and replica.waiting > 0:
        cut_run(replica, engine, gives_up_s(state, first_waiting(state, replica, replica.clock_s)))


@compiled
def cut_run(replica: Any, engine: Any, at_s: Any) -> None:
    """End a run of decode steps with the one that is on its way at a time, or the next after which the engine looks."""
    if at_s >= replica.end_s or replica.num_prompts > 0 or engine.is_static:
        return
    steps = steps_until(replica.step_s, replica.growth_s, replica.num_steps, at_s - replica.clock_s)
    steps += -(replica.steps - replica.first_step + steps) % engine.poll_steps
    if steps < replica.num_steps:
        replica.num_steps = steps
        replica.end_s = replica.clock_s + run_s(replica.step_s, replica.growth_s, steps)


@compiled
def until_it_looks(replica: Any, engine: Any) -> Any:
    """Steps until the engine looks at its queue again, at least one."""
    if engine.is_static:
        return LONGEST_RUN
    return engine.poll_steps - (replica.steps - replica.first_step) % engine.poll_steps


@compiled
def decode(state: Any, replica: Any, engine: Any, steps: Any) -> None:
    """A token more for every sequence, so many times."""
    taken = growth(engine, replica, state.words, steps)
    if taken > 0:
        take_blocks(state, replica, engine, taken)
    replica.context_tokens += replica.running * steps
    replica.tokens_left -= replica.running * steps
    replica.steps += steps


@compiled
def finish_next(state: Any, replica: Any, engine: Any) -> None:
    """End the answer that is whole."""
    n = state.words[replica.heap] % SHIFT
    request = state.requests[n]
    drop_least(state.words, replica.heap, replica.running)
    request.left_tokens = 0
    forget_sequence(state, replica, engine, request)
    answered(state, replica, engine, n, request)


@compiled
def answered(state: Any, replica: Any, engine: Any, n: Any, request: Any) -> None:
    """A request has all its tokens: its blocks are free, its client may send the next."""
    leave_running(state, replica, engine, request)
    request.finish_s = replica.end_s + request.late_s
    request.fate = 0
    request.next = state.cluster[0].ended
    state.cluster[0].ended = n


@compiled
def join_all(state: Any, r: Any, replica: Any, engine: Any) -> None:
    """Prompts that are prefilled have their first token, and go on with the others or elsewhere."""
    others = replica.running
    while replica.joining != NONE:
        n = replica.joining
        request = state.requests[n]
        replica.joining = request.next
        replica.num_joining -= 1
        if replica.role == PREFILLS:
            hand_over(state, replica, engine, n, request)
        else:
            first_token(state, replica, engine, n, request, others)


@compiled
def hand_over(state: Any, replica: Any, engine: Any, n: Any, request: Any) -> None:
    """A prompt is prefilled here and decoded elsewhere: its KV is on the way."""
    leave_running(state, replica, engine, request)
    replica.tokens_left -= request.left_tokens
    request.has_kv = 1
    request.finish_s = replica.end_s
    request.next = state.cluster[0].ended
    state.cluster[0].ended = n


@compiled
def first_token(state: Any, replica: Any, engine: Any, n: Any, request: Any, others: Any) -> None:
    """A prompt has its next token; the client sees the first one some steps late where others decode."""
    if math.isnan(request.first_token_s):
        request.late_s = lateness_s(replica, engine, engine.late_steps, others)
        request.first_token_s = replica.end_s + request.late_s
    request.left_tokens -= 1
    replica.tokens_left -= 1
    if request.left_tokens == 0:
        answered(state, replica, engine, n, request)
    else:
        start_decoding(state, replica, engine, n, request)


@compiled
def lateness_s(replica: Any, engine: Any, steps: Any, others: Any) -> Any:
    """How late a client sees a first token: so many steps where others decode, and what their streams take."""
    return (steps * replica.step_s + engine.late_s) * others / (others + 1) + engine.stream_s * others


@compiled
def start_decoding(state: Any, replica: Any, engine: Any, n: Any, request: Any) -> None:
    """One sequence more that decodes."""
    tokens = tokens_of(request)
    request.finish_step = replica.steps + request.left_tokens
    push(state.words, replica.heap, replica.running, request.finish_step * SHIFT + n)
    replica.running += 1
    replica.context_tokens += tokens
    if not engine.reserves_answers:
        state.words[replica.phases + phase_of(engine, replica, tokens)] += 1
