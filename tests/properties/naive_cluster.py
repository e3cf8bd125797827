"""The simulator's rules once more, told step by step: what `gpufleet.simulate` has to agree with.

Every iteration of every engine is one event, every figure (blocks, tokens left, contexts) is counted anew from the
sequences that are there, and nothing is kept but who stands where. Engines that wait for batches are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gpufleet.domain.replay import ANSWERED, REFUSED, TIMED_OUT, TOO_LONG, UNFINISHED
from gpufleet.domain.requests import Requests
from gpufleet.simulate.cluster import Cluster, Copy, EngineRules, Running
from gpufleet.simulate.state import DECODES, DRAINING, NONE, OFF, PREFILLS, READY, WHOLE
from gpufleet.simulate.step_table import StepTable


@dataclass(eq=False)
class Sequence:
    """A request on its way."""

    number: int
    sent_s: float
    ready_s: float
    draw: float
    given_tokens: int
    answer_tokens: int
    request_class: int
    prefix: list[int]
    prompt_tokens: int = 0
    left_tokens: int = 0
    prefilled_tokens: int = 0
    has_kv: bool = False
    decodes: bool = False
    reads: list[int] = field(default_factory=list)
    first_token_s: float = math.nan
    finish_s: float = math.nan
    late_s: float = 0.0
    fate: int = UNFINISHED
    replica: int = NONE
    cached_tokens: int = 0
    preemptions: int = 0
    retries: int = 0

    def __post_init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        self.fate, self.replica, self.has_kv, self.decodes = UNFINISHED, NONE, False, False
        self.prompt_tokens, self.left_tokens, self.prefilled_tokens = self.given_tokens, self.answer_tokens, 0
        self.first_token_s, self.late_s, self.reads = math.nan, 0.0, []

    @property
    def tokens(self) -> int:
        return self.given_tokens + self.answer_tokens - self.left_tokens


def between(axis: np.ndarray, values: np.ndarray, at: float) -> float:
    """On the line of the two points around, or of the last two beyond them."""
    cell = min(int(np.searchsorted(axis, at, side="right")) - 1, len(axis) - 2)
    return float(values[cell] + (values[cell + 1] - values[cell]) * (at - axis[cell]) / (axis[cell + 1] - axis[cell]))


def at_batch(table: StepTable, axis: np.ndarray, values: np.ndarray, batch: int, at: float) -> float:
    return between(table.batches, np.array([between(axis, row, at) for row in values]), batch)


class Server:
    """One replica: who waits, who was admitted in which order, which beginnings of prompts stand in its pool."""

    def __init__(self, place: int, copy: Copy, number: int, role: int, is_ready: bool, prefix_tokens: int) -> None:
        self.place, self.rules, self.table, self.copy, self.role = place, copy.rules, copy.table, number, role
        self.state, self.prefix_tokens = READY if is_ready else OFF, prefix_tokens
        self.steps, self.busy_s, self.turn, self.clock_s = 0, 0.0, 0, 0.0
        self.paid_s, self.paid_from_s = 0.0, math.nan
        self.forget_all()

    def forget_all(self) -> None:
        self.first_step = self.steps
        self.queues: dict[int, list[Sequence]] = {}
        self.admitted: list[Sequence] = []
        self.idle: list[int] = []
        self.prompts: list[Sequence] = []
        self.end_s = math.inf

    @property
    def waiting(self) -> list[Sequence]:
        return [each for name in sorted(self.queues) for each in self.queues[name]]

    @property
    def decoding(self) -> list[Sequence]:
        return [each for each in self.admitted if each.decodes]

    @property
    def num_requests(self) -> int:
        return len(self.waiting) + len(self.admitted)

    @property
    def tokens_left(self) -> int:
        waiting = sum(each.left_tokens + (0 if each.has_kv else each.prompt_tokens) for each in self.waiting)
        rest = sum(0 if e.decodes else e.prompt_tokens - e.prefilled_tokens for e in self.admitted)
        return waiting + rest + sum(each.left_tokens for each in self.admitted)

    def blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.rules.block_tokens)

    @property
    def prefix_size(self) -> int:
        return self.blocks_of(self.prefix_tokens)

    def private_blocks(self, each: Sequence) -> int:
        whole = each.tokens if each.decodes else each.prompt_tokens + 1
        if self.rules.reserves_answers:
            whole = each.given_tokens + each.answer_tokens
        return self.blocks_of(whole) - len(each.reads) * self.prefix_size

    @property
    def read(self) -> set[int]:
        return {block for each in self.admitted for block in each.reads}

    @property
    def used(self) -> int:
        return sum(self.private_blocks(each) for each in self.admitted) + self.prefix_size * len(self.read)

    @property
    def growth(self) -> int:
        if self.rules.reserves_answers:
            return 0
        return sum(each.tokens % self.rules.block_tokens == 0 for each in self.decoding)

    def give_up_idle(self, in_use: int) -> None:
        while self.idle and in_use + len(self.idle) * self.prefix_size > self.rules.num_blocks:
            self.idle.pop(0)

    def known(self, each: Sequence) -> int:
        held = {*self.read, *self.idle}
        return next((i for i, block in enumerate(each.prefix) if block not in held), len(each.prefix))

    def leave(self, each: Sequence) -> None:
        self.admitted.remove(each)
        self.idle += [block for block in reversed(each.reads) if block not in self.read]
        each.decodes, each.reads = False, []


class NaiveCluster:
    """Servers behind a router, and what came of the requests."""

    def __init__(self, cluster: Cluster, asked: Requests, generator: np.random.Generator) -> None:
        self.cluster = cluster
        rows, order = (begun := Running(cluster, asked, generator)).records.requests, begun.order
        tokens, prefixes = shared_beginnings(cluster, asked)
        self.sequences = [
            Sequence(
                n, *(float(row[name]) for name in ("arrival_s", "ready_s", "draw")),
                *(int(row[name]) for name in ("input_tokens", "output_tokens", "request_class")),
                prefixes[n if order is None else int(order[n])],
            )
            for n, row in enumerate(rows)
        ]  # fmt: skip
        self.servers = [
            Server(place, cluster.copies[m.copy], m.copy, m.role, m.is_ready, tokens)
            for place, m in enumerate(cluster.members)
        ]
        self.sent = len(rows) if cluster.clients is None else min(cluster.clients, len(rows))
        self.new = [] if cluster.clients is not None else list(self.sequences)
        self.later = [] if cluster.clients is None else self.sequences[: self.sent]
        self.unrouted: list[Sequence] = []
        self.ended: list[Sequence] = []
        self.changes = list(cluster.changes)
        self.turns, self.now_s = 0, min([*asked.arrival_s[:1], *(change.time_s for change in self.changes)])
        for server in self.servers:
            server.paid_from_s = self.now_s

    def run(self) -> None:
        while self.happen():
            while self.ended:
                self.follow_up(self.ended.pop())
        for server in self.servers:
            self.become(server, OFF)

    def happen(self) -> bool:
        """At one time steps end first, then replicas change, then requests come."""
        server = min(self.servers, key=lambda s: s.end_s)
        comes = min(
            [*self.new[:1], *self.later], key=lambda e: (e.ready_s, e not in self.new[:1], e.number), default=None
        )
        comes_s = math.inf if comes is None else comes.ready_s
        changes_s = self.changes[0].time_s if self.changes else math.inf
        next_s = min(server.end_s, comes_s, changes_s)
        if next_s == math.inf:
            return False
        self.now_s = next_s
        if server.end_s == self.now_s:
            self.end_step(server)
            self.begin_step(server)
            self.retire(server)
        elif changes_s == self.now_s:
            change = self.changes.pop(0)
            self.change(self.servers[change.replica], change.state)
        elif comes is not None:
            (self.new if comes in self.new[:1] else self.later).remove(comes)
            self.deliver(comes)
        return True

    def follow_up(self, each: Sequence) -> None:
        if each.fate == UNFINISHED:
            moved_s = self.cluster.transfer_fixed_s + self.cluster.transfer_s_per_token * each.prompt_tokens
            each.ready_s, each.finish_s = each.finish_s + moved_s, math.nan
            self.later.append(each)
        elif each.fate in (REFUSED, TIMED_OUT) and each.retries < self.cluster.retries:
            self.send_again(each, self.now_s + self.cluster.backoff_s)
        elif self.cluster.clients is not None and self.sent < len(self.sequences):
            following = self.sequences[self.sent]
            self.sent += 1
            following.sent_s += each.finish_s if each.fate == ANSWERED else self.now_s
            following.ready_s += following.sent_s
            self.later.append(following)

    def send_again(self, each: Sequence, ready_s: float) -> None:
        each.start_over()
        each.retries, each.ready_s = each.retries + 1, ready_s
        self.later.append(each)

    def end_as(self, each: Sequence, fate: int) -> None:
        each.fate = fate
        self.ended.append(each)

    def change(self, server: Server, state: int) -> None:
        if state == OFF:
            self.lose(server)
        self.become(server, state)
        if state == READY:
            waited, self.unrouted = self.unrouted, []
            for each in waited:
                self.deliver(each)
        self.retire(server)

    def become(self, server: Server, state: int) -> None:
        """A replica is paid for from the moment that it is switched on to the moment that it is off."""
        if server.state == OFF:
            server.paid_from_s = self.now_s
        else:
            server.paid_s, server.paid_from_s = server.paid_s + self.now_s - server.paid_from_s, self.now_s
        server.state = state

    def lose(self, server: Server) -> None:
        if server.end_s < math.inf:
            server.busy_s += self.now_s - server.clock_s
        for each in [*reversed(server.admitted), *server.waiting]:
            self.send_again(each, self.now_s)
        server.forget_all()

    def retire(self, server: Server) -> None:
        if server.state == DRAINING and server.end_s == math.inf and not server.waiting:
            self.become(server, OFF)

    def deliver(self, each: Sequence) -> None:
        server = self.route(each)
        if server is None:
            self.unrouted.append(each)
            return
        whole, limit = each.given_tokens + each.answer_tokens, self.cluster.most_waiting
        if whole > server.rules.longest_tokens or server.blocks_of(whole) > server.rules.num_blocks:
            self.end_as(each, TOO_LONG)
        elif limit is not None and len(server.waiting) >= limit:
            self.end_as(each, REFUSED)
        else:
            server.queues.setdefault(each.request_class, []).append(each)
            if server.end_s == math.inf:
                self.begin_step(server)

    def route(self, each: Sequence) -> Server | None:
        routing, servers = self.cluster.routing, [server for server in self.servers if self.is_open(server, each)]
        if not servers:
            return None
        if routing in ("random", "two_choices"):
            return drawn(servers, each.draw, routing == "two_choices")
        if routing == "prefix_aware":
            return holder(servers, each)
        burdens = {
            "round_robin": lambda s: s.turn,
            "least_requests": lambda s: s.num_requests,
            "least_tokens": lambda s: s.tokens_left,
            "least_kv": lambda s: s.used,
        }
        chosen = min(servers, key=burdens[routing])
        self.turns += 1
        chosen.turn = self.turns
        return chosen

    def is_open(self, server: Server, each: Sequence) -> bool:
        if server.state != READY:
            return False
        if self.cluster.copy_of_class and self.cluster.copy_of_class[each.request_class] != server.copy:
            return False
        return server.role in (WHOLE, DECODES if each.has_kv else PREFILLS)

    def begin_step(self, server: Server) -> None:
        """Preempt, admit, and say when the step ends; a server without work rests."""
        server.clock_s, server.prompts, self.chunks = self.now_s, [], dict[Sequence, tuple[int, int]]()
        rules, is_full, self.moved = server.rules, False, list[Sequence]()
        while server.decoding and server.used + server.growth > rules.num_blocks:
            self.preempt(server)
            is_full = True
        self.budget = rules.step_tokens - (len(server.decoding) if rules.mixes_prompts else 0)
        for begun in [each for each in server.admitted if not each.decodes]:
            if self.budget > 0:
                self.take_chunk(server, begun)
        if not is_full and self.looks(server):
            self.admit_all(server)
        self.time_step(server)
        others = len(server.decoding) - 1
        for each in self.moved:
            each.late_s = self.late_s(server, max(rules.late_steps - 1, 0.0), others)
            each.first_token_s = (server.end_s if server.prompts else server.clock_s + server.step_s) + each.late_s

    def late_s(self, server: Server, steps: float, others: int) -> float:
        late = (steps * server.step_s + server.rules.late_s) * others / (others + 1)
        return late + server.rules.stream_s * others

    def looks(self, server: Server) -> bool:
        if not server.decoding:
            return True
        return not server.rules.is_static and (server.steps - server.first_step) % server.rules.poll_steps == 0

    def preempt(self, server: Server) -> None:
        each = server.admitted[-1]
        if each.decodes:
            each.prompt_tokens = each.tokens
        server.leave(each)
        each.prefilled_tokens, each.has_kv, each.preemptions = 0, False, each.preemptions + 1
        server.queues.setdefault(each.request_class, []).insert(0, each)

    def first_waiting(self, server: Server) -> Sequence | None:
        for queue in (server.queues[name] for name in sorted(server.queues)):
            while queue:
                begun = queue[0].prompt_tokens != queue[0].given_tokens
                if begun or self.now_s <= queue[0].ready_s + self.cluster.timeout_s:
                    return queue[0]
                self.end_as(queue.pop(0), TIMED_OUT)
        return None

    def admit_all(self, server: Server) -> None:
        while self.budget > 0 and all(e.decodes or e.prefilled_tokens == e.prompt_tokens for e in server.admitted):
            each = self.first_waiting(server)
            if each is None or not self.finds_room(server, each):
                return
            self.admit(server, each)

    def finds_room(self, server: Server, each: Sequence) -> bool:
        whole = each.given_tokens + each.answer_tokens if server.rules.reserves_answers else each.prompt_tokens + 1
        in_use = sum(block in server.read for block in each.prefix[: server.known(each)])
        needed = server.blocks_of(whole) - in_use * server.prefix_size
        spare = server.rules.spare_blocks if server.used else 0
        has_place = len(server.admitted) < server.rules.largest_batch
        return has_place and server.used + server.growth + needed + spare <= server.rules.num_blocks

    def admit(self, server: Server, each: Sequence) -> None:
        server.queues[each.request_class].remove(each)
        known, each.replica, each.decodes = server.known(each), server.place, each.has_kv
        in_use, read = server.used, server.read
        for block in each.prefix:
            if block in server.idle:
                server.idle.remove(block)
            if block not in read:
                read.add(block)
                in_use += server.prefix_size
            server.give_up_idle(in_use)
        each.reads = list(each.prefix)
        server.admitted.append(each)
        server.give_up_idle(server.used)
        if each.has_kv:
            self.moved.append(each)
            self.budget -= 1
            return
        each.prefilled_tokens = min(known * server.prefix_tokens, each.prompt_tokens - 1)
        if each.preemptions == 0:
            each.cached_tokens = each.prefilled_tokens
        self.take_chunk(server, each)

    def take_chunk(self, server: Server, each: Sequence) -> None:
        before, rest = each.prefilled_tokens, each.prompt_tokens - each.prefilled_tokens
        chunk = rest if server.rules.is_static else min(rest, self.budget)
        each.prefilled_tokens += chunk
        self.budget -= chunk
        self.chunks[each] = (before, before + chunk)
        server.prompts.append(each)

    def time_step(self, server: Server) -> None:
        """Seconds of the step; `step_s` is what decoding alone takes of it."""
        decoding, table, rules = server.decoding, server.table, server.rules
        self.ended_s, server.step_s, server.end_s = server.end_s, 0.0, math.inf
        if decoding:
            context = sum(each.tokens for each in decoding) / len(decoding)
            server.step_s = at_batch(table, table.contexts, table.decode_s, len(decoding), context)
        if server.prompts:
            prompts_s, tokens = self.prompts_s(server, rules, table, len(decoding))
            tokens += len(decoding) // rules.groups if rules.mixes_prompts else 0
            least_s = rules.piece_launches_s if tokens <= rules.piece_tokens else rules.launches_s
            least_s *= rules.busy_launch_ratio if decoding and not rules.waits_for_host else 1.0
            beside_s = server.step_s if rules.mixes_prompts else 0.0
            server.end_s = server.clock_s + max(prompts_s + beside_s, least_s)
        elif decoding:
            server.end_s = server.clock_s + server.step_s

    def prompts_s(self, server: Server, rules: EngineRules, table: StepTable, batch: int) -> tuple[float, int]:
        spans = list(self.chunks.values())
        tokens, largest = sum(b - a for a, b in spans), max(b - a for a, b in spans)
        attention = [between(table.contexts, table.attention_s, b) - between(table.contexts, table.attention_s, a)
                     for a, b in spans]  # fmt: skip
        of_rank = max(-(-tokens // rules.groups), largest)
        share = 1 / rules.groups if -(-tokens // rules.groups) >= largest else largest / tokens
        attention_s = float(table.attention_s[0]) + share * sum(attention)
        if batch == 0 or rules.waits_for_host:
            alone_s = partly(rules, tokens / of_rank, between(table.prompts, table.idle_s, of_rank),
                             between(table.prompts, filled(table.filled_idle_s), of_rank)) + attention_s  # fmt: skip
            idle_s = rules.idle_prompt_ratio * alone_s
            follows = server.role == PREFILLS and self.ended_s == server.clock_s
            return (min(rules.prompt_alone_ratio * alone_s, idle_s) if follows else idle_s), of_rank
        first = min(rules.groups / len(spans), 1.0)
        ratio = first * rules.prompt_alone_ratio + (1 - first) * rules.prompt_among_ratio
        extra_s = partly(rules, tokens / of_rank, at_batch(table, table.prompts, table.extra_s, batch, of_rank),
                         at_batch(table, table.prompts, filled(table.filled_extra_s), batch, of_rank))  # fmt: skip
        return ratio * (extra_s + attention_s), of_rank

    def end_step(self, server: Server) -> None:
        """A token for all that decode, the first for prompts that are done."""
        server.busy_s += server.end_s - server.clock_s
        decoding, joining = server.decoding, [e for e in server.prompts if e.prefilled_tokens == e.prompt_tokens]
        if server.rules.mixes_prompts or not server.prompts:
            server.steps += 1
            for each in decoding:
                each.left_tokens -= 1
            server.give_up_idle(server.used)
            for each in sorted((e for e in decoding if e.left_tokens == 0), key=lambda e: e.number):
                self.answer(server, each)
        others = len(server.decoding)
        for each in reversed(joining):
            self.join(server, each, others)

    def join(self, server: Server, each: Sequence, others: int) -> None:
        if server.role == PREFILLS:
            server.leave(each)
            each.has_kv, each.finish_s = True, server.end_s
            self.ended.append(each)
            return
        if math.isnan(each.first_token_s):
            each.late_s = self.late_s(server, server.rules.late_steps, others)
            each.first_token_s = server.end_s + each.late_s
        each.left_tokens -= 1
        each.decodes = True
        if each.left_tokens == 0:
            self.answer(server, each)

    def answer(self, server: Server, each: Sequence) -> None:
        server.leave(each)
        each.finish_s = server.end_s + each.late_s
        self.end_as(each, ANSWERED)


def filled(values: np.ndarray | None) -> np.ndarray:
    assert values is not None
    return values


def partly(rules: EngineRules, groups: float, one_s: float, all_s: float) -> float:
    """Where so many of the groups of ranks have prompts: on the line from one to all of them."""
    return one_s if rules.groups == 1 else one_s + (all_s - one_s) * (groups - 1) / (rules.groups - 1)


def drawn(servers: list[Server], draw: float, is_of_two: bool) -> Server:
    scaled = draw * len(servers)
    first = servers.pop(int(scaled))
    if not is_of_two or not servers:
        return first
    second = servers[int((scaled - int(scaled)) * len(servers))]
    return second if second.num_requests < first.num_requests else first


def holder(servers: list[Server], each: Sequence) -> Server:
    least = min(servers, key=lambda s: s.num_requests)
    best = min(servers, key=lambda s: (-s.known(each), s.num_requests))
    is_crowded = best.num_requests > 2 * (least.num_requests + 1)
    return least if is_crowded or best.known(each) == 0 else best


def shared_beginnings(cluster: Cluster, asked: Requests) -> tuple[int, list[list[int]]]:
    """Tokens of a block that every pool can share whole, and each prompt's blocks by the name of their end."""
    if asked.prefix is None or not cluster.keeps_prefixes:
        return 1, [[] for _ in range(len(asked))]
    own = asked.prefix.block_tokens
    tokens = next(
        own * times for times in range(1, 1000) if all(own * times % c.rules.block_tokens == 0 for c in cluster.copies)
    )
    times, found = tokens // own, list[list[int]]()
    for i, prompt in enumerate(asked.input_tokens):
        names = asked.prefix.block[asked.prefix.first[i] : asked.prefix.first[i + 1]].tolist()
        found.append(names[times - 1 :: times][: int(prompt) // tokens])
    return tokens, found
