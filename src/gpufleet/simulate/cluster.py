"""Replicas behind a router, and requests replayed on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.replay import UNFINISHED, Replay, Timeline
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.domain.routing import ROUTINGS
from gpufleet.records import dataclass
from gpufleet.simulate.compiled import IS_COMPILED
from gpufleet.simulate.events import run_until
from gpufleet.simulate.reshape import selected, with_times
from gpufleet.simulate.state import (
    CHANGE,
    CLUSTER,
    ENGINE,
    NONE,
    OFF,
    READY,
    REPLICA,
    REQUEST,
    State,
    back,
    plain,
)
from gpufleet.simulate.step_table import CONTEXT_UNIT, StepTable

SAMPLES = 240
FEWEST_EVENTS = 1000
EVENTS_PER_REQUEST = 4
UNLIMITED = 1 << 40
DRAWN_ROUTINGS = ("random", "two_choices")


@dataclass(frozen=True)
class EngineRules:
    """How an engine makes steps of requests, and the constants that the closed form uses for them.

    A prompt costs `prompt_alone_ratio` of what it adds to a step of decoding, each that shares the step with it
    `prompt_among_ratio`, `idle_prompt_ratio` of its kernels where nothing decodes, or where steps of prompts stand
    apart and the device waits for the host before each (`waits_for_host`). A step with prompts takes the host
    `launches_s` at least, `piece_launches_s` if it has up to `piece_tokens`; `busy_launch_ratio` of that where others
    decode in it.
    A request takes `request_s` + `token_s` x prompt to reach the engine; among others, first tokens are seen
    `late_steps` steps of decoding and `late_s` late, and `stream_s` for each answer that streams beside it.
    `step_tokens` is the budget of a step, of all groups together as `largest_batch` is; `longest_tokens` what a model
    takes. Where it `awaits_room`, no prompt is cut. Where others run, a prompt is admitted that leaves `spare_blocks`.
    """

    largest_batch: int
    step_tokens: int
    num_blocks: int
    spare_blocks: int = 0
    block_tokens: int = 16
    groups: int = 1
    mixes_prompts: bool = True
    awaits_room: bool = False
    waits_for_host: bool = False
    is_static: bool = False
    reserves_answers: bool = False
    prompt_alone_ratio: float = 1.0
    prompt_among_ratio: float = 1.0
    idle_prompt_ratio: float = 1.0
    launches_s: float = 0.0
    busy_launch_ratio: float = 1.0
    piece_launches_s: float = 0.0
    piece_tokens: int = 0
    request_s: float = 0.0
    token_s: float = 0.0
    late_steps: float = 0.0
    late_s: float = 0.0
    stream_s: float = 0.0
    poll_steps: int = 1
    gather_steps: int = 0
    batch_wait_steps: int = 0
    batch_wait_tokens: int = 0
    longest_tokens: int = UNLIMITED

    def __post_init__(self) -> None:
        if min(self.largest_batch, self.step_tokens, self.num_blocks, self.block_tokens, self.groups) < 1:
            raise ValueError("engine rules: a limit below 1")


@dataclass(frozen=True, eq=False)
class Copy:
    """A model on its GPUs: rules of its engine and seconds of its steps."""

    rules: EngineRules
    table: StepTable


@dataclass(frozen=True)
class Member:
    """One replica: which of the copies it runs; it prefills and decodes (role 0), only prefills (1) or decodes (2)."""

    copy: int = 0
    role: int = 0
    is_ready: bool = True


@dataclass(frozen=True)
class Change:
    """A replica switched on, ready, drained or lost (off) at a time; see `state`."""

    time_s: float
    replica: int
    state: int


@dataclass(frozen=True, eq=False)
class Cluster:
    """Replicas of some copies behind a router.

    `clients`: each sends its next request `think_s` after it is answered, and arrival times of requests say nothing
    after the first of each; None: requests come at their times. A request that has not begun after `timeout_s`, or that
    meets `most_waiting` others, is sent again up to `retries` times, `backoff_s` later. KV of a prompt moves between
    pools in `transfer_fixed_s` + `transfer_s_per_token` x prompt. `copy_of_class`: the copy that alone serves
    the requests of each class; without it all copies serve all.
    """

    copies: tuple[Copy, ...]
    members: tuple[Member, ...] = (Member(),)
    routing: str = "least_requests"
    clients: int | None = None
    think_s: float = 0.0
    timeout_s: float = math.inf
    most_waiting: int | None = None
    retries: int = 0
    backoff_s: float = 0.0
    transfer_fixed_s: float = 0.0
    transfer_s_per_token: float = 0.0
    changes: tuple[Change, ...] = field(default=())
    keeps_prefixes: bool = True
    copy_of_class: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.members or not self.copies or self.routing not in ROUTINGS:
            raise ValueError("cluster: no replicas, no copies or no such routing")
        if [change.time_s for change in self.changes] != sorted(change.time_s for change in self.changes):
            raise ValueError("cluster: changes out of order")


def replicas_of(copy: Copy, count: int, routing: str = "least_requests") -> Cluster:
    """So many replicas of one copy, all ready."""
    return Cluster((copy,), (Member(),) * count, routing)


def replay(
    cluster: Cluster,
    requests: Requests,
    generator: np.random.Generator | None = None,
    on_progress: Callable[[float], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Replay:
    """What comes of requests on a cluster: the same for the same cluster, requests and generator, to the last bit.

    `on_progress` hears the share that is done; where `should_stop` says so, what is done so far is returned.
    """
    running = Running(cluster, requests, generator)
    while running.go_on():
        if on_progress is not None:
            on_progress(running.done_ratio)
        if should_stop is not None and should_stop():
            break
    return running.replay()


class Running:
    """A simulation under way: it can be continued, looked at and ended at any time."""

    def __init__(self, cluster: Cluster, requests: Requests, generator: np.random.Generator | None = None) -> None:
        self.cluster, self.requests = cluster, requests
        self.order, self.records = begun(cluster, requests, generator)
        self.state = self.records if IS_COMPILED else plain(self.records)
        self.is_over = not len(requests)
        self.step_s = requests.span_s / SAMPLES
        begin_s = 0.0 if self.is_over else float(requests.arrival_s[0])
        self.next_s = begin_s + self.step_s
        self.samples = [self.sample(begin_s)]
        self.num_events = max(FEWEST_EVENTS, EVENTS_PER_REQUEST * len(requests) // SAMPLES)

    def go_on(self) -> bool:
        """Let a part of it happen; whether anything is left."""
        if not self.is_over:
            if self.cluster.clients is None and self.is_before_last_arrival:
                self.run(self.next_s, UNLIMITED)
                self.next_s += self.step_s
            else:
                self.is_over = self.run(math.inf, self.num_events) < self.num_events
        return not self.is_over

    @property
    def is_before_last_arrival(self) -> bool:
        """Whether requests are still to come."""
        return self.step_s > 0 and self.next_s < float(self.requests.arrival_s[-1])

    def run(self, until_s: float, most_events: int) -> int:
        """Let everything happen until a time, but no more events than that; how many happened."""
        done = int(run_until(self.state, until_s, most_events))
        self.samples.append(self.sample(until_s))
        return done

    def sample(self, until_s: float) -> tuple[float, ...]:
        """The cluster at this moment."""
        now_s = until_s if math.isfinite(until_s) else self.shared("now_s")
        names = ("running", "num_joining", "partial", "waiting", "used_blocks", "state")
        running, joining, partial, waiting, used, states = (self.of_replicas(name) for name in names)
        there = np.sum(self.num_blocks, where=states != OFF)
        return (
            now_s,
            float(np.sum(running + joining + (partial != NONE))),
            float(np.sum(waiting)) + self.shared("num_unrouted"),
            float(np.sum(used) / there) if there else 0.0,
            float(np.sum(states != OFF)),
            float(np.sum(states == READY)),
        )

    @property
    def num_blocks(self) -> IntArray:
        """Blocks of every replica."""
        engines = self.records.engines["num_blocks"]
        return np.asarray(engines[self.records.replicas["engine"]])

    def of_replicas(self, name: str) -> IntArray:
        """A figure of every replica."""
        if self.state is self.records:
            return np.asarray(self.state.replicas[name])
        return np.array([getattr(replica, name) for replica in self.state.replicas])

    def shared(self, name: str) -> float:
        """A figure of the cluster."""
        one = self.state.cluster[0]
        return float(one[name] if self.state is self.records else getattr(one, name))

    @property
    def done_ratio(self) -> float:
        """Share of requests that have ended."""
        return self.shared("num_ended") / max(len(self.requests), 1)

    def replay(self) -> Replay:
        """What has come of the requests so far."""
        end_s = self.shared("now_s")
        if self.state is not self.records:
            for objects, records in zip(self.state[:3], self.records[:3], strict=True):
                back(objects, records)
        return replay_of(self, end_s)

    def column(self, name: str) -> Any:
        """A figure of every request in the order in which they were asked."""
        values = self.records.requests[name]
        if self.order is None:
            return values.copy()
        in_order = np.empty(len(values), values.dtype)
        in_order[self.order] = values
        return in_order

    @property
    def sent_s(self) -> FloatArray:
        """When clients of a closed loop sent each request; one not sent yet comes with the last that was."""
        sent_s: FloatArray = self.records.requests["arrival_s"].copy()
        sent = int(self.shared("next_client"))
        sent_s[sent:] = sent_s[:sent].max(initial=self.shared("now_s"))
        return sent_s


def replay_of(running: Running, end_s: float) -> Replay:
    """The records as a replay; closed loops have found out when and in what order their requests came."""
    each, requests, column = running.records.replicas, running.requests, running.column
    if running.cluster.clients is not None:
        order = np.argsort(running.sent_s, kind="stable")
        requests = selected(replace(requests, arrival_s=np.zeros(len(requests))), order)
        requests = with_times(requests, running.sent_s[order])

        def column(name: str) -> Any:
            return running.records.requests[name][order]

    paid_s = each["paid_s"] + np.where(each["state"] != OFF, end_s - each["paid_from_s"], 0.0)
    return Replay(
        requests=requests,
        first_token_s=column("first_token_s"),
        finish_s=column("finish_s"),
        fate=column("fate"),
        replica=column("replica"),
        cached_tokens=column("cached_tokens"),
        preemptions=column("preemptions"),
        retries=column("retries"),
        busy_s=each["busy_s"].copy(),
        paid_s=paid_s,
        end_s=end_s,
        timeline=timeline_of(running.samples),
        is_partial=not running.is_over,
    )


def timeline_of(samples: Sequence[tuple[float, ...]]) -> Timeline:
    """Samples as columns."""
    columns = np.array(samples, dtype=np.float64).reshape(-1, 6).T
    time_s, running, waiting, kv, replicas, ready = columns
    counts: list[IntArray] = [column.astype(np.int64) for column in (running, waiting, replicas, ready)]
    return Timeline(time_s, counts[0], counts[1], kv, counts[2], counts[3])


def begun(cluster: Cluster, requests: Requests, generator: np.random.Generator | None) -> tuple[IntArray | None, State]:
    """The records of a simulation in which nothing has happened, and where each request stands in them."""
    if generator is None and cluster.routing in DRAWN_ROUTINGS:
        raise ValueError("cluster: a routing that draws needs a generator")
    order, rows = request_records(cluster, requests, generator)
    grid, words = Flat(np.float64), Flat(np.int64)
    shared_tokens = prefix_tokens(cluster, requests)
    engines = np.concatenate([engine_record(copy, grid, words, shared_tokens) for copy in cluster.copies])
    add_prefixes(cluster, requests, order, rows, words)
    replicas = replica_records(cluster, requests, engines, words)
    shared = cluster_record(cluster, requests, rows, words)
    changes = np.array([(c.time_s, c.replica, c.state) for c in cluster.changes], dtype=CHANGE)
    return order, State(rows, replicas, engines, shared, changes, grid.array(), words.array())


class Flat:
    """Arrays put end to end."""

    def __init__(self, kind: type[np.generic]) -> None:
        self.kind, self.parts, self.size = kind, list[Any](), 0

    def add(self, values: Any) -> int:
        """Where the values begin."""
        part = np.asarray(values, dtype=self.kind).ravel()
        self.parts.append(part)
        self.size += len(part)
        return self.size - len(part)

    def array(self) -> Any:
        """All of them."""
        return np.concatenate(self.parts) if self.parts else np.zeros(1, self.kind)


def request_records(
    cluster: Cluster, requests: Requests, generator: np.random.Generator | None
) -> tuple[IntArray | None, Any]:
    """One record for each request in the order in which engines get them, and that order where it is another."""
    ready_s = ready_times_s(cluster, requests)
    order: Any = None
    if cluster.clients is None and not np.all(ready_s[1:] >= ready_s[:-1]):
        order = np.argsort(ready_s, kind="stable").astype(np.int32)
    columns = {
        "arrival_s": sent_s(cluster, requests, generator),
        "ready_s": ready_s,
        "input_tokens": requests.input_tokens,
        "output_tokens": requests.output_tokens,
        "prompt_tokens": requests.input_tokens,
        "left_tokens": requests.output_tokens,
        "request_class": requests.request_class,
    }
    if generator is not None:
        columns["draw"] = generator.random(len(requests))
    rows = np.zeros(len(requests), REQUEST)
    for name, column in columns.items():
        rows[name] = column if order is None else column[order]
    rows["first_token_s"] = rows["finish_s"] = np.nan
    rows["replica"] = rows["next"] = rows["older"] = rows["newer"] = NONE
    rows["fate"] = UNFINISHED
    return order, rows


def ready_times_s(cluster: Cluster, requests: Requests) -> FloatArray:
    """When engines get requests; of those that a client sends once it is answered, how long handling takes   [s]."""
    rules = cluster.copies[0].rules
    handling_s: FloatArray = rules.request_s + rules.token_s * requests.input_tokens.astype(np.float64)
    first = len(requests) if cluster.clients is None else cluster.clients
    handling_s[:first] += requests.arrival_s[:first]
    return handling_s


def sent_s(cluster: Cluster, requests: Requests, generator: np.random.Generator | None) -> FloatArray:
    """When requests are sent; of those that a client sends once it is answered, how long it takes to."""
    if cluster.clients is None:
        return requests.arrival_s
    pauses_s = np.full(len(requests), cluster.think_s)
    if generator is not None:
        pauses_s *= generator.exponential(size=len(requests))
    pauses_s[: cluster.clients] = requests.arrival_s[: cluster.clients]
    return pauses_s


def prefix_tokens(cluster: Cluster, requests: Requests) -> int:
    """Tokens of a block that prompts share, whole blocks of the trace and of every KV pool; 1 where none are shared.

    lcm(tokens of a block of the trace, of each pool)   [tokens]
    """
    if requests.prefix is None:
        return 1
    return math.lcm(requests.prefix.block_tokens, *(copy.rules.block_tokens for copy in cluster.copies))


def add_prefixes(cluster: Cluster, requests: Requests, order: IntArray | None, rows: Any, words: Flat) -> None:
    """The blocks of each prompt that are whole: engines share no others."""
    if requests.prefix is None or not cluster.keeps_prefixes:
        return
    tokens = prefix_tokens(cluster, requests)
    given = wider_blocks(requests.prefix, tokens // requests.prefix.block_tokens)
    first = words.add(given.block) + given.first
    whole = np.minimum(np.diff(given.first), requests.input_tokens // tokens)
    rows["first_block"] = first[:-1] if order is None else first[:-1][order]
    rows["num_prefix_blocks"] = whole if order is None else whole[order]


def wider_blocks(prefix: PrefixBlocks, times: int) -> PrefixBlocks:
    """Blocks so many times as long: each goes by the name of the last in it, which stands for all before too.

    >>> wider_blocks(PrefixBlocks(16, np.array([0, 5, 6]), np.array([7, 8, 9, 10, 11, 7])), 2).block.tolist()
    [8, 10]
    """
    if times == 1:
        return prefix
    place = np.arange(len(prefix.block)) - np.repeat(prefix.first[:-1], np.diff(prefix.first))
    first = np.concatenate([[0], np.cumsum(np.diff(prefix.first) // times)])
    return PrefixBlocks(times * prefix.block_tokens, first, prefix.block[place % times == times - 1])


def engine_record(copy: Copy, grid: Flat, words: Flat, prefix_tokens: int) -> Any:
    """The rules of an engine, and where its table stands."""
    rules, table = copy.rules, copy.table
    row = np.zeros(1, ENGINE)
    for name in EngineRules.__dataclass_fields__:
        if name in (ENGINE.names or ()):
            row[name] = getattr(rules, name)
    units = (table.contexts / CONTEXT_UNIT).astype(np.int64)
    row["prefix_tokens"] = prefix_tokens
    row["context_unit"], row["last_context"] = CONTEXT_UNIT, units[-1]
    row["num_contexts"], row["num_prompts"] = len(table.contexts), len(table.prompts)
    row["most_prompt_tokens"] = table.prompts[-1]
    for name, values in (
        ("decode_grid", table.decode_s),
        ("extra_grid", table.extra_s),
        ("idle_grid", table.idle_s),
        ("filled_extra_grid", table.extra_s if table.filled_extra_s is None else table.filled_extra_s),
        ("filled_idle_grid", table.idle_s if table.filled_idle_s is None else table.filled_idle_s),
        ("attention_grid", table.attention_s),
        ("contexts", table.contexts),
        ("prompts", table.prompts),
    ):
        row[name] = grid.add(values)
    batches = np.arange(rules.largest_batch + 1)
    cells = cells_of(table.batches, rules.largest_batch)
    low, high = table.batches[cells], table.batches[cells + 1]
    row["batch_shares"] = grid.add((batches - low) / (high - low))
    row["batch_rows"] = words.add(cells)
    row["context_cells"] = words.add(cells_of(units, int(units[-1])))
    row["prompt_cells"] = words.add(cells_of(table.prompts, int(table.prompts[-1])))
    return row


def cells_of(points: IntArray, most: int) -> IntArray:
    """For every whole number up to `most`, after which point of an axis it lies.

    >>> cells_of(np.array([0, 2, 5]), 5).tolist()
    [0, 0, 1, 1, 1, 1]
    """
    found = np.searchsorted(points, np.arange(most + 1), side="right") - 1
    return np.minimum(found, len(points) - 2)


def replica_records(cluster: Cluster, requests: Requests, engines: Any, words: Flat) -> Any:
    """One record for each replica, with nothing to do."""
    rows = np.zeros(len(cluster.members), REPLICA)
    distinct = num_prefix_blocks(cluster, requests)
    for row, member in zip(rows, cluster.members, strict=True):
        engine = engines[member.copy]
        row["engine"], row["role"] = member.copy, member.role
        row["state"] = READY if member.is_ready else OFF
        row["heap"] = words.add(np.zeros(int(engine["largest_batch"]) + 1))
        row["phases"] = words.add(np.zeros(int(engine["block_tokens"])))
        row["queues"] = words.add(np.full(2 * len(requests.class_names), NONE))
        row["prefix"] = words.add(np.full(3 * distinct, NONE))
    rows["end_s"] = np.inf
    rows["paid_from_s"] = begins_s(cluster, requests)
    for name in ("partial", "joining", "moved", "newest", "held_since", "oldest_idle", "newest_idle"):
        rows[name] = NONE
    return rows


def num_prefix_blocks(cluster: Cluster, requests: Requests) -> int:
    """Different blocks of shared prompts that a replica may hold."""
    return 0 if requests.prefix is None or not cluster.keeps_prefixes else requests.prefix.num_distinct


def cluster_record(cluster: Cluster, requests: Requests, rows: Any, words: Flat) -> Any:
    """What all replicas share, before anything has happened."""
    row = np.zeros(1, CLUSTER)
    is_closed = cluster.clients is not None
    count = len(requests) if cluster.clients is None else min(cluster.clients, len(requests))
    comes_later = is_closed or cluster.retries or cluster.changes or has_pools(cluster)
    row["now_s"] = begins_s(cluster, requests)
    for name in ("timeout_s", "backoff_s", "transfer_fixed_s", "transfer_s_per_token"):
        row[name] = getattr(cluster, name)
    row["next_client"] = count
    row["num_later" if is_closed else "num_arrivals"] = count
    later = np.zeros(len(requests) + 1 if comes_later else 1)
    if is_closed:
        later[:count] = np.argsort(rows["ready_s"][:count], kind="stable")
    row["later"] = words.add(later)
    row["unrouted"] = row["last_unrouted"] = row["ended"] = NONE
    row["num_classes"] = len(requests.class_names)
    row["wanted_copies"] = words.add(cluster.copy_of_class or [NONE] * len(requests.class_names))
    row["num_prefix_blocks"] = num_prefix_blocks(cluster, requests)
    row["most_waiting"] = UNLIMITED if cluster.most_waiting is None else cluster.most_waiting
    row["most_retries"] = cluster.retries
    row["routing"] = ROUTINGS.index(cluster.routing)
    row["num_changes"] = len(cluster.changes)
    row["is_closed"] = is_closed
    return row


def begins_s(cluster: Cluster, requests: Requests) -> float:
    """When the first request comes or the first replica changes   [s]."""
    times_s = [float(requests.arrival_s[0])] if len(requests) else []
    return min([*times_s, *(change.time_s for change in cluster.changes[:1])], default=0.0)


def has_pools(cluster: Cluster) -> bool:
    """Whether prompts are prefilled and decoded on different replicas."""
    return any(member.role for member in cluster.members)
