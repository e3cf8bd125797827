"""Small clusters with every rule that the simulator knows, and requests for them: what laws are asked of."""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpufleet.domain.replay import Replay
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.domain.routing import ROUTINGS
from gpufleet.simulate.cluster import Change, Cluster, Copy, EngineRules, Member
from gpufleet.simulate.state import DRAINING, OFF, READY, STARTING
from gpufleet.simulate.step_table import StepTable

NEVER_CUT = 1 << 20
LAUNCHES = {"launches_s": 0.05, "piece_launches_s": 0.02, "piece_tokens": 64}
COLUMNS = ("first_token_s", "finish_s", "fate", "replica", "cached_tokens", "preemptions", "retries")


@lru_cache(maxsize=None, typed=True)
def among(*values: Any) -> st.SearchStrategy[Any]:
    """One of these: a strategy is checked when it is first drawn from, so that one of them serves all draws."""
    return st.sampled_from(values)


def table_of(
    step_s: float, sequence_s: float = 0.0, context_s: float = 0.0, prompt_s: float = 0.0, attention_s: float = 0.0
) -> StepTable:
    """Steps of `step_s`, more for each sequence, each token of context of each and each token of a prompt."""
    batches, contexts = np.array([0, 1, 2, 4, 8, 64]), np.array([0, 1, 2, 4, 8, 16]) * 64.0
    prompts = np.array([0, 8, 32, 128, 1024])
    extra_s = prompt_s * prompts[None, :] ** 0.95 / (1 + 0.01 * batches[:, None])
    idle_s = step_s + prompt_s * prompts**0.95
    return StepTable(
        batches=batches,
        contexts=contexts,
        prompts=prompts,
        decode_s=step_s + sequence_s * batches[:, None] + context_s * batches[:, None] * contexts[None, :] ** 0.9,
        extra_s=extra_s,
        idle_s=idle_s,
        attention_s=attention_s * contexts**2,
        filled_extra_s=1.4 * extra_s,
        filled_idle_s=1.3 * idle_s,
    )


@st.composite
def tables(draw: st.DrawFn) -> StepTable:
    """Steps of tens of milliseconds."""
    number = st.floats(0.1, 3.0)
    return table_of(0.02 * draw(number), 1e-3 * draw(number), 1e-5 * draw(number), 1e-3 * draw(number), 1e-7)


@st.composite
def rules(draw: st.DrawFn, num_blocks: int, waits_for_batches: bool) -> EngineRules:
    """Rules of an engine, small enough for every limit to be met."""
    mixes_prompts = draw(st.booleans())
    return EngineRules(
        largest_batch=draw(among(1, 2, 5, 16)),
        step_tokens=draw(among(1, 3, 16, 64, NEVER_CUT)),
        num_blocks=num_blocks,
        spare_blocks=draw(among(0, 0, 2)),
        block_tokens=draw(among(1, 4, 16)),
        groups=draw(among(1, 1, 2)),
        mixes_prompts=mixes_prompts,
        waits_for_host=not mixes_prompts and draw(st.booleans()),
        is_static=draw(among(False, False, False, True)),
        reserves_answers=draw(among(False, False, True)),
        prompt_alone_ratio=draw(among(0.5, 1.0, 1.3)),
        **(LAUNCHES if draw(among(False, True)) else {}),
        busy_launch_ratio=float(mixes_prompts),
        request_s=draw(among(0.0, 0.01)),
        token_s=draw(among(0.0, 1e-4)),
        late_steps=draw(among(0.0, 1.5)),
        late_s=draw(among(0.0, 0.01)),
        poll_steps=draw(among(1, 1, 4)),
        gather_steps=draw(among(0, 3)) if waits_for_batches else 0,
        batch_wait_steps=draw(among(0, 4)) if waits_for_batches else 0,
        batch_wait_tokens=draw(among(100, 1000)),
    )


@st.composite
def copies(draw: st.DrawFn, waits_for_batches: bool = False) -> Copy:
    """A model on GPUs whose pool holds everything, or hardly more than one request."""
    blocks = draw(among(1, 8, 20, 20, 60, 100_000))
    return Copy(draw(rules(blocks, waits_for_batches)), draw(tables()))


@st.composite
def changes(draw: st.DrawFn, members: int) -> tuple[Change, ...]:
    """Replicas that drain, are lost and come back."""
    states = among(OFF, STARTING, READY, DRAINING)
    one = st.builds(Change, st.floats(-0.5, 12.0), st.integers(0, members - 1), states)
    return tuple(sorted(draw(st.lists(one, max_size=4)), key=lambda change: change.time_s))


@st.composite
def members(draw: st.DrawFn, num_copies: int) -> tuple[Member, ...]:
    """One to four replicas that do all, or pools that prefill and decode."""
    copy = st.integers(0, num_copies - 1)
    alike = st.builds(Member, copy, is_ready=among(True, True, True, False))
    if not draw(among(False, False, True)):
        return tuple(draw(st.lists(alike, min_size=1, max_size=4)))
    pools = ((draw(st.integers(1, 2)), 1), (draw(st.integers(1, 2)), 2))
    return tuple(Member(draw(copy), role) for count, role in pools for _ in range(count))


@st.composite
def clusters(draw: st.DrawFn, is_open: bool = False, waits_for_batches: bool = False) -> Cluster:
    """Replicas behind a router, with clients that lose patience."""
    made = tuple(draw(st.lists(copies(waits_for_batches), min_size=1, max_size=2)))
    some = draw(members(len(made)))
    return Cluster(
        copies=made,
        members=some,
        routing=draw(among(*ROUTINGS)),
        clients=None if is_open else draw(among(None, None, 1, 5)),
        think_s=draw(among(0.0, 0.3)),
        timeout_s=draw(among(math.inf, math.inf, 0.5)),
        most_waiting=draw(among(None, None, 2)),
        retries=draw(among(0, 2)),
        backoff_s=draw(among(0.0, 0.7)),
        transfer_fixed_s=draw(among(0.0, 0.01)),
        transfer_s_per_token=draw(among(0.0, 1e-4)),
        changes=draw(changes(len(some))),
        keeps_prefixes=draw(among(True, True, False)),
        copy_of_class=draw(among((), (), (0, len(made) - 1))),
    )


@st.composite
def crowded_clusters(draw: st.DrawFn) -> Cluster:
    """Pools that hold a few short requests, whose every block counts, and clients that often give up."""
    cluster = draw(clusters())
    copies = tuple(replace(copy, rules=draw(crowded_rules(copy.rules))) for copy in cluster.copies)
    return replace(
        cluster,
        copies=copies,
        timeout_s=draw(among(math.inf, 0.1, 0.3)),
        routing=draw(among("least_tokens", "least_kv", "prefix_aware", "round_robin")),
    )


@st.composite
def crowded_rules(draw: st.DrawFn, given: EngineRules) -> EngineRules:
    """Blocks taken as sequences grow, few and small ones."""
    return replace(
        given,
        largest_batch=draw(among(2, 5, 16)),
        step_tokens=draw(among(16, 64, NEVER_CUT)),
        num_blocks=draw(st.integers(10, 40)),
        block_tokens=draw(among(1, 2, 4)),
        is_static=False,
        reserves_answers=False,
    )


@st.composite
def requests(draw: st.DrawFn, longest_tokens: tuple[int, ...] = (3, 40, 40, 120)) -> Requests:
    """Up to forty requests: some at once, some longer than a pool, some with the beginning of another."""
    count = draw(among(1, 8, 40, 40))
    dice = np.random.default_rng(draw(st.integers(0, 2**32)))
    longest = draw(among(*longest_tokens))
    arrival_s = np.sort(dice.uniform(0, draw(among(0.0, 1.0, 10.0)), count))
    prompts, answers = dice.integers(1, longest + 1, (2, count))
    classes = dice.integers(0, draw(st.integers(1, 2)), count)
    prefix = draw(st.none() | st.builds(lambda size: prefix_of(dice, size, prompts), among(4, 10, 16)))
    return Requests(arrival_s, prompts, answers, classes, ("urgent", "other"), prefix)


def prefix_of(dice: np.random.Generator, block_tokens: int, prompts: np.ndarray) -> PrefixBlocks:
    """Blocks of prompts that are one of three conversations: request i has as many as fit in its prompt."""
    counts = prompts // block_tokens
    which = np.repeat(dice.integers(0, 3, len(prompts)), counts)
    first = np.concatenate([[0], np.cumsum(counts)])
    place = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    return PrefixBlocks(block_tokens, first, place * 3 + which)


def plain_modules() -> dict[str, ModuleType]:
    """The simulator as it is without Numba, beside the one that is loaded."""
    ours = {name: module for name, module in sys.modules.items() if name.startswith("gpufleet.simulate")}
    numba = sys.modules.get("numba")
    for name in ours:
        del sys.modules[name]
    sys.modules["numba"] = None  # type: ignore[assignment]
    try:
        names = ("cluster", "replica", "events", "finishing", "waiting", "kv_blocks", "routing")
        return {name: importlib.import_module(f"gpufleet.simulate.{name}") for name in names}
    finally:
        del sys.modules["numba"]
        if numba is not None:
            sys.modules["numba"] = numba
        for name in [name for name in sys.modules if name.startswith("gpufleet.simulate")]:
            del sys.modules[name]
        sys.modules.update(ours)


def columns_of(replay: Replay) -> dict[str, Any]:
    """All that came of requests and replicas."""
    figures = {name: getattr(replay, name) for name in (*COLUMNS, "busy_s", "paid_s")}
    return {**figures, "arrival_s": replay.requests.arrival_s, "end_s": np.array([replay.end_s])}


def digest(replay: Replay) -> dict[str, bytes]:
    """The same to the last bit."""
    return {name: np.ascontiguousarray(column).tobytes() for name, column in columns_of(replay).items()}
