"""Blocks of the KV pool of a replica: what sequences hold, grow by and share.

A sequence of x tokens holds ceil(x / b) blocks of b tokens, and takes another with the step that follows a multiple of
b. Sequences that decode move in step, so that their number by (x - steps) mod b, the phase, says what a run of steps
will take, without a look at any of them.

Blocks that begin prompts alike stand once, however many requests read them; those that nobody reads are kept, oldest
first out, while the pool has room.
"""

from __future__ import annotations

from typing import Any

from gpufleet.simulate.compiled import compiled

NONE = -1


@compiled
def blocks_of(engine: Any, tokens: Any) -> Any:
    """Blocks that hold so many tokens."""
    return (tokens + engine.block_tokens - 1) // engine.block_tokens


@compiled
def phase_of(engine: Any, replica: Any, tokens: Any) -> Any:
    """Where in its last block a sequence of so many tokens stands, whatever step it is."""
    return (tokens - replica.steps) % engine.block_tokens


@compiled
def growth(engine: Any, replica: Any, words: Any, steps: Any) -> Any:
    """Blocks that the sequences of a replica take with its next `steps` decode steps."""
    if engine.reserves_answers:
        return 0
    size = engine.block_tokens
    rounds = steps // size
    taken = rounds * replica.running
    for later in range(steps - rounds * size):
        taken += words[replica.phases + (-(replica.steps + later)) % size]
    return taken


@compiled
def steps_that_fit(engine: Any, replica: Any, words: Any, steps: Any) -> Any:
    """How many of the next `steps` decode steps of a replica that decodes find blocks.

    Those that nobody reads are given up for them. Steps that surely fit are not counted one by one.
    """
    free = engine.num_blocks - replica.used_blocks
    if engine.reserves_answers or (steps // engine.block_tokens + 1) * replica.running <= free:
        return steps
    size = engine.block_tokens
    fitting = 0
    rounds = free // replica.running
    if rounds > 0:
        fitting = (rounds - 1) * size
        free -= (rounds - 1) * replica.running
    while fitting < steps:
        free -= words[replica.phases + (-(replica.steps + fitting)) % size]
        if free < 0:
            return fitting
        fitting += 1
    return steps


@compiled
def take_blocks(state: Any, replica: Any, engine: Any, blocks: Any) -> None:
    """Blocks in use, for which as many that nobody reads are given up as it takes."""
    replica.used_blocks += blocks
    while replica.idle_blocks > 0 and replica.used_blocks + replica.idle_blocks > engine.num_blocks:
        forget_oldest(state.words, replica, engine)


@compiled
def prefix_word(replica: Any, block: Any) -> Any:
    """Where three words on a prefix block of a replica stand: readers (-1: not held), place in a queue of idle ones."""
    return replica.prefix + 3 * block


@compiled
def kv_blocks_of_prefix(engine: Any) -> Any:
    """Blocks of the pool that one block of a prefix takes, which holds a whole number of them."""
    return engine.prefix_tokens // engine.block_tokens


@compiled
def forget_oldest(words: Any, replica: Any, engine: Any) -> None:
    """Give up the prefix block that nobody has read for longest."""
    block = replica.oldest_idle
    leave_idle(words, replica, engine, block)
    words[prefix_word(replica, block)] = NONE


@compiled
def leave_idle(words: Any, replica: Any, engine: Any, block: Any) -> None:
    """Take a prefix block out of the queue of those that nobody reads."""
    at = prefix_word(replica, block)
    older = words[at + 1]
    newer = words[at + 2]
    if older == NONE:
        replica.oldest_idle = newer
    else:
        words[prefix_word(replica, older) + 2] = newer
    if newer == NONE:
        replica.newest_idle = older
    else:
        words[prefix_word(replica, newer) + 1] = older
    replica.idle_blocks -= kv_blocks_of_prefix(engine)


@compiled
def become_idle(words: Any, replica: Any, engine: Any, block: Any) -> None:
    """Put a prefix block behind all others that nobody reads."""
    at = prefix_word(replica, block)
    words[at + 1] = replica.newest_idle
    words[at + 2] = NONE
    if replica.newest_idle == NONE:
        replica.oldest_idle = block
    else:
        words[prefix_word(replica, replica.newest_idle) + 2] = block
    replica.newest_idle = block
    replica.idle_blocks += kv_blocks_of_prefix(engine)


@compiled
def known_prefix_blocks(words: Any, replica: Any, request: Any) -> Any:
    """Leading blocks of a prompt that a replica holds."""
    for i in range(request.num_prefix_blocks):
        if words[prefix_word(replica, words[request.first_block + i])] == NONE:
            return i
    return request.num_prefix_blocks


@compiled
def idle_among(words: Any, replica: Any, request: Any, known: Any) -> Any:
    """How many of the known leading blocks nobody reads: they are held but not in use."""
    idle = 0
    for i in range(known):
        if words[prefix_word(replica, words[request.first_block + i])] == 0:
            idle += 1
    return idle


@compiled
def read_prefix(state: Any, replica: Any, engine: Any, request: Any) -> None:
    """Let a request read its prefix blocks: those that are held, and the others, which it fills."""
    words = state.words
    size = kv_blocks_of_prefix(engine)
    for i in range(request.num_prefix_blocks):
        block = words[request.first_block + i]
        at = prefix_word(replica, block)
        readers = words[at]
        if readers > 0:
            words[at] = readers + 1
            continue
        if readers == 0:
            leave_idle(words, replica, engine, block)
        words[at] = 1
        take_blocks(state, replica, engine, size)
    request.shared_prefix_blocks = request.num_prefix_blocks


@compiled
def leave_prefix(words: Any, replica: Any, engine: Any, request: Any) -> None:
    """End a request's reading of its prefix blocks, the last first: they are the first to be given up."""
    size = kv_blocks_of_prefix(engine)
    i = request.shared_prefix_blocks - 1
    while i >= 0:
        block = words[request.first_block + i]
        at = prefix_word(replica, block)
        words[at] -= 1
        if words[at] == 0:
            replica.used_blocks -= size
            become_idle(words, replica, engine, block)
        i -= 1
    request.shared_prefix_blocks = 0
