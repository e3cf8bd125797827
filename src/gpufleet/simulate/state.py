"""What a simulation remembers: one record for each request and replica, in arrays or, uncompiled, as objects.

Numbers of whole tables stand in two flat arrays: `grid` (seconds of steps, see `step_table`) and `words` (whole
numbers: where a count falls in a grid, and the heaps and lists of replicas). Records say where theirs begin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NONE = -1
OFF, STARTING, READY, DRAINING = range(4)
WHOLE, PREFILLS, DECODES = range(3)

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),
        ("ready_s", "f8"),
        ("first_token_s", "f8"),
        ("finish_s", "f8"),
        ("late_s", "f8"),
        ("draw", "f8"),
        ("finish_step", "i8"),
        ("first_block", "i8"),
        ("input_tokens", "i4"),
        ("output_tokens", "i4"),
        ("prompt_tokens", "i4"),
        ("prefilled_tokens", "i4"),
        ("left_tokens", "i4"),
        ("held_blocks", "i4"),
        ("num_prefix_blocks", "i4"),
        ("shared_prefix_blocks", "i4"),
        ("next", "i4"),
        ("older", "i4"),
        ("newer", "i4"),
        ("replica", "i4"),
        ("cached_tokens", "i4"),
        ("preemptions", "i4"),
        ("retries", "i4"),
        ("request_class", "i2"),
        ("fate", "i1"),
        ("has_kv", "i1"),
    ],
    align=True,
)
"""A request: `prompt_tokens` are to be prefilled now (after a preemption with what was generated), `left_tokens` still
to be generated; `late_s` is what its client sees later than the engine has it.
`next` links queues, `older` and `newer` the running requests of a replica in the order of their admission."""

REPLICA = np.dtype(
    [
        ("clock_s", "f8"),
        ("end_s", "f8"),
        ("step_s", "f8"),
        ("growth_s", "f8"),
        ("prompt_attention_s", "f8"),
        ("busy_s", "f8"),
        ("paid_s", "f8"),
        ("paid_from_s", "f8"),
        ("engine", "i8"),
        ("role", "i8"),
        ("state", "i8"),
        ("num_steps", "i8"),
        ("steps", "i8"),
        ("running", "i8"),
        ("context_tokens", "i8"),
        ("used_blocks", "i8"),
        ("idle_blocks", "i8"),
        ("waiting", "i8"),
        ("waiting_tokens", "i8"),
        ("tokens_left", "i8"),
        ("is_decoding", "i8"),
        ("prompt_tokens", "i8"),
        ("largest_chunk", "i8"),
        ("num_prompts", "i8"),
        ("first_step", "i8"),
        ("is_blocked", "i8"),
        ("partial", "i8"),
        ("joining", "i8"),
        ("num_joining", "i8"),
        ("moved", "i8"),
        ("last_turn", "i8"),
        ("newest", "i8"),
        ("held_since", "i8"),
        ("heap", "i8"),
        ("phases", "i8"),
        ("queues", "i8"),
        ("prefix", "i8"),
        ("oldest_idle", "i8"),
        ("newest_idle", "i8"),
    ],
    align=True,
)
"""A replica: `clock_s` to `end_s` is its step, or its run of `num_steps` decode steps of which the first takes `step_s`
and each later one `growth_s` more. `steps` counts decode steps since the start: requests finish at a count."""

ENGINE = np.dtype(
    [
        ("prompt_alone_ratio", "f8"),
        ("prompt_among_ratio", "f8"),
        ("idle_prompt_ratio", "f8"),
        ("launches_s", "f8"),
        ("busy_launch_ratio", "f8"),
        ("piece_launches_s", "f8"),
        ("late_steps", "f8"),
        ("late_s", "f8"),
        ("stream_s", "f8"),
        ("largest_batch", "i8"),
        ("step_tokens", "i8"),
        ("piece_tokens", "i8"),
        ("groups", "i8"),
        ("block_tokens", "i8"),
        ("num_blocks", "i8"),
        ("spare_blocks", "i8"),
        ("longest_tokens", "i8"),
        ("prefix_tokens", "i8"),
        ("mixes_prompts", "i8"),
        ("awaits_room", "i8"),
        ("waits_for_host", "i8"),
        ("is_static", "i8"),
        ("reserves_answers", "i8"),
        ("poll_steps", "i8"),
        ("gather_steps", "i8"),
        ("batch_wait_steps", "i8"),
        ("batch_wait_tokens", "i8"),
        ("most_prompt_tokens", "i8"),
        ("context_unit", "i8"),
        ("last_context", "i8"),
        ("decode_grid", "i8"),
        ("extra_grid", "i8"),
        ("idle_grid", "i8"),
        ("filled_extra_grid", "i8"),
        ("filled_idle_grid", "i8"),
        ("attention_grid", "i8"),
        ("contexts", "i8"),
        ("prompts", "i8"),
        ("num_contexts", "i8"),
        ("num_prompts", "i8"),
        ("batch_shares", "i8"),
        ("batch_rows", "i8"),
        ("context_cells", "i8"),
        ("prompt_cells", "i8"),
    ],
    align=True,
)
"""An engine on its GPUs: its rules, and where its tables begin; see `step_table.StepTable`."""

CLUSTER = np.dtype(
    [
        ("now_s", "f8"),
        ("timeout_s", "f8"),
        ("backoff_s", "f8"),
        ("transfer_s_per_token", "f8"),
        ("transfer_fixed_s", "f8"),
        ("next_arrival", "i8"),
        ("num_arrivals", "i8"),
        ("later", "i8"),
        ("num_later", "i8"),
        ("unrouted", "i8"),
        ("last_unrouted", "i8"),
        ("num_unrouted", "i8"),
        ("num_classes", "i8"),
        ("wanted_copies", "i8"),
        ("num_prefix_blocks", "i8"),
        ("most_waiting", "i8"),
        ("most_retries", "i8"),
        ("routing", "i8"),
        ("turn", "i8"),
        ("next_change", "i8"),
        ("num_changes", "i8"),
        ("next_client", "i8"),
        ("is_closed", "i8"),
        ("ended", "i8"),
        ("num_ended", "i8"),
    ],
    align=True,
)
"""What all replicas share: arrivals in order, what comes `later` (retries, moved KV, the next of a client), routing."""

CHANGE = np.dtype([("time_s", "f8"), ("replica", "i8"), ("state", "i8")], align=True)
"""A replica that is switched on, ready, drained or lost at a time."""


class State(NamedTuple):
    """All that a simulation is at a moment; resumable."""

    requests: Any
    replicas: Any
    engines: Any
    cluster: Any
    changes: Any
    grid: Any
    words: Any


def plain(state: State) -> State:
    """The same as Python objects and lists, which uncompiled functions read faster."""
    requests, replicas, engines, cluster, changes = (as_objects(records) for records in state[:5])
    return State(requests, replicas, engines, cluster, changes, state.grid.tolist(), state.words.tolist())


def as_objects(records: Any) -> list[Any]:
    """One object for each record, with its fields as attributes."""
    names = records.dtype.names
    kind = type("Record", (), {"__slots__": names})
    made = []
    for values in records.tolist():
        one = kind()
        for name, value in zip(names, values, strict=True):
            setattr(one, name, value)
        made.append(one)
    return made


def back(objects: list[Any], records: Any) -> None:
    """What became of objects, written into the records that they were made of."""
    for name in records.dtype.names:
        records[name] = [getattr(one, name) for one in objects]
