"""Seconds of the steps of a replica, between the points of its tables: `step_table` says what they hold."""

from __future__ import annotations

from typing import Any

from gpufleet.simulate.compiled import compiled


@compiled
def between(low: Any, high: Any, share: Any) -> Any:
    """A value between two points, or on their line beyond them."""
    return low + (high - low) * share


@compiled
def context_cell(engine: Any, words: Any, context: Any) -> Any:
    """Between which points of the context axis a number of tokens lies."""
    whole = int(context) // engine.context_unit
    if whole > engine.last_context:
        whole = engine.last_context
    return words[engine.context_cells + whole]


@compiled
def context_share(engine: Any, grid: Any, cell: Any, context: Any) -> Any:
    """How far a context is from one point of its cell to the other."""
    low = grid[engine.contexts + cell]
    return (context - low) / (grid[engine.contexts + cell + 1] - low)


@compiled
def decode_at(engine: Any, grid: Any, words: Any, batch: Any, context: Any) -> Any:
    """One decode step of `batch` sequences at a mean context   [s], and what it grows by with each token of context."""
    cell = context_cell(engine, words, context)
    row = words[engine.batch_rows + batch]
    share = grid[engine.batch_shares + batch]
    at = engine.decode_grid + row * engine.num_contexts + cell
    above = at + engine.num_contexts
    here = between(grid[at], grid[above], share)
    there = between(grid[at + 1], grid[above + 1], share)
    width = grid[engine.contexts + cell + 1] - grid[engine.contexts + cell]
    growth = (there - here) / width
    return here + growth * (context - grid[engine.contexts + cell]), growth


@compiled
def steps_in_cell(engine: Any, grid: Any, words: Any, context: Any) -> Any:
    """Decode steps until the mean context leaves its cell of the table; each adds a token to it."""
    cell = context_cell(engine, words, context)
    if cell >= engine.num_contexts - 2:
        return 1 << 40
    return int(grid[engine.contexts + cell + 1] - context) + 1


@compiled
def extra_at(engine: Any, grid: Any, words: Any, batch: Any, tokens: Any, filled: Any) -> Any:
    """What prompts of so many tokens a group add to a decode step, but for their attention   [s].

    `filled`: from one group of ranks that has them (0) to all of them (1).
    """
    one_s = extra_in(engine, grid, words, batch, tokens, engine.extra_grid)
    if filled == 0:
        return one_s
    return between(one_s, extra_in(engine, grid, words, batch, tokens, engine.filled_extra_grid), filled)


@compiled
def extra_in(engine: Any, grid: Any, words: Any, batch: Any, tokens: Any, table: Any) -> Any:
    """The same by one of both tables."""
    cell = prompt_cell(engine, words, tokens)
    share = prompt_share(engine, grid, cell, tokens)
    row = words[engine.batch_rows + batch]
    at = table + row * engine.num_prompts + cell
    above = at + engine.num_prompts
    here = between(grid[at], grid[at + 1], share)
    return between(here, between(grid[above], grid[above + 1], share), grid[engine.batch_shares + batch])


@compiled
def idle_at(engine: Any, grid: Any, words: Any, tokens: Any, filled: Any) -> Any:
    """Prompts of so many tokens a group on an engine that decodes nothing, but for their attention   [s]."""
    cell = prompt_cell(engine, words, tokens)
    share = prompt_share(engine, grid, cell, tokens)
    at = engine.idle_grid + cell
    one_s = between(grid[at], grid[at + 1], share)
    if filled == 0:
        return one_s
    at = engine.filled_idle_grid + cell
    return between(one_s, between(grid[at], grid[at + 1], share), filled)


@compiled
def prompt_cell(engine: Any, words: Any, tokens: Any) -> Any:
    """Between which points of the axis of prompt tokens a step lies."""
    inside = tokens if tokens < engine.most_prompt_tokens else engine.most_prompt_tokens
    return words[engine.prompt_cells + inside]


@compiled
def prompt_share(engine: Any, grid: Any, cell: Any, tokens: Any) -> Any:
    """How far a step is from one point of its cell to the other."""
    low = grid[engine.prompts + cell]
    return (tokens - low) / (grid[engine.prompts + cell + 1] - low)


@compiled
def attention_at(engine: Any, grid: Any, words: Any, tokens: Any) -> Any:
    """Attention of a prompt of so many tokens to itself   [s]; that of a later chunk is a difference of two."""
    cell = context_cell(engine, words, tokens)
    at = engine.attention_grid + cell
    return between(grid[at], grid[at + 1], context_share(engine, grid, cell, tokens))


@compiled
def run_s(first_s: Any, growth_s: Any, steps: Any) -> Any:
    """Seconds of `steps` decode steps, the first of which takes `first_s` and each later one `growth_s` more.

    n t + g n (n - 1) / 2   [s]
    """
    return steps * first_s + growth_s * ((steps * (steps - 1)) // 2)


@compiled
def steps_until(first_s: Any, growth_s: Any, steps: Any, seconds: Any) -> Any:
    """The fewest steps of a run, at least one and at most `steps`, that last so long: bounds from both sides meet."""
    if run_s(first_s, growth_s, 1) >= seconds:
        return 1
    least = 1
    most = steps
    while least < most:
        guess = int(seconds / (first_s + growth_s * (most - 1) * 0.5))
        if guess <= least or guess >= most:
            guess = (least + most) // 2
        if run_s(first_s, growth_s, guess) < seconds:
            least = guess + 1
        else:
            most = guess
    return least
