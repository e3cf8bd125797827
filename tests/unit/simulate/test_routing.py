"""Which replica a request goes to, of replicas whose counts are written down, by the simulator as it is written."""

from __future__ import annotations

import itertools
import math
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.properties.random_clusters import plain_modules

from gpufleet.domain.routing import ROUTINGS
from gpufleet.simulate.state import DECODES, DRAINING, NONE, OFF, PREFILLS, READY, STARTING, WHOLE

BLOCKS = 4


@pytest.fixture(scope="module")
def routing() -> ModuleType:
    return plain_modules()["routing"]


def replica_with(requests: int = 0, **how: Any) -> SimpleNamespace:
    """An idle replica that so many requests wait for; what it decodes is told beside."""
    idle = {
        "state": READY, "role": WHOLE, "engine": 0, "waiting": requests, "running": 0, "num_joining": 0,
        "joining": NONE, "partial": NONE, "is_decoding": 0, "num_prompts": 0, "end_s": math.inf, "clock_s": 0.0,
        "step_s": 0.0, "growth_s": 0.0, "num_steps": 0, "tokens_left": 0, "used_blocks": 0, "idle_blocks": 0,
        "last_turn": 0,
    }  # fmt: skip
    return SimpleNamespace(**{**idle, **how})


def decoding(**how: Any) -> SimpleNamespace:
    """A replica within a run of five steps of a second: two sequences, with ten tokens left when it began."""
    run = {
        "is_decoding": 1, "running": 2, "end_s": 15.0, "clock_s": 10.0, "step_s": 1.0, "num_steps": 5, "tokens_left": 10
    }  # fmt: skip
    return replica_with(**{**run, **how})


def state_of(
    name: str, *replicas: SimpleNamespace, draw: float = 0.0, known: tuple[int, ...] = (), **request: Any
) -> SimpleNamespace:
    """A cluster with one request for it; `known`: leading blocks of its prompt that each replica holds."""
    words = [NONE, NONE, *range(BLOCKS)]
    for replica, count in itertools.zip_longest(replicas, known, fillvalue=0):
        replica.prefix = len(words)
        words += [1 if block < count else NONE for block in range(BLOCKS) for _ in range(3)]
    asked = {"request_class": 0, "has_kv": 0, "draw": draw, "num_prefix_blocks": BLOCKS, "first_block": 2}
    return SimpleNamespace(
        cluster=[SimpleNamespace(routing=ROUTINGS.index(name), wanted_copies=0, turn=0)], replicas=list(replicas),
        requests=[SimpleNamespace(**{**asked, **request})], words=words,
        engines=[SimpleNamespace(reserves_answers=True, num_blocks=100)] * 2,
    )  # fmt: skip


def test_requests_go_round_the_replicas(routing: ModuleType) -> None:
    state = state_of("round_robin", *(replica_with() for _ in range(3)))
    assert [routing.route(state, 0, 0.0) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_whose_turn_was_missed_comes_first(routing: ModuleType) -> None:
    """The second is away for two turns and then next; it has not two in a row."""
    state = state_of("round_robin", *(replica_with() for _ in range(3)))
    gone = state.replicas[1]
    found = []
    for is_there in (True, False, False, True, True, True):
        gone.state = READY if is_there else STARTING
        found.append(routing.route(state, 0, 0.0))
    assert found == [0, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("name", ROUTINGS)
def test_only_those_that_are_ready_for_it_get_a_request(routing: ModuleType, name: str) -> None:
    away = [replica_with(state=state) for state in (OFF, STARTING, DRAINING)]
    assert routing.route(state_of(name, *away, draw=0.999), 0, 0.0) == NONE
    assert routing.route(state_of(name, *away, replica_with(9), draw=0.999), 0, 0.0) == 3
    pools = [replica_with(role=DECODES), replica_with(role=PREFILLS)]
    assert routing.route(state_of(name, *pools), 0, 0.0) == 1
    assert routing.route(state_of(name, *pools, has_kv=1), 0, 0.0) == 0
    other = state_of(name, replica_with(), replica_with(5, engine=1), request_class=1)
    other.words[1] = 1
    assert routing.route(other, 0, 0.0) == 1, "its class is served by the second copy alone"


def test_the_one_with_fewest_requests_waiting_joining_begun_or_running_and_of_equals_the_first(
    routing: ModuleType,
) -> None:
    kinds: list[dict[str, int]] = [{"waiting": 1}, {"running": 1}, {"num_joining": 1}, {"partial": 7}]
    for kind in kinds:
        assert routing.requests_of(replica_with(**kind)) == 1
        state = state_of("least_requests", replica_with(**kind), replica_with(), replica_with())
        assert routing.route(state, 0, 0.0) == 1
    busy = state_of("least_requests", replica_with(3), replica_with(1, running=2, partial=7), replica_with(2))
    assert routing.route(busy, 0, 0.0) == 2


@pytest.mark.parametrize(
    ("now_s", "done"), [(10.0, 0), (10.9, 0), (11.0, 1), (12.5, 2), (13.0, 3), (14.99, 4), (15.0, 5)]
)
def test_steps_of_a_run_count_when_they_have_ended(routing: ModuleType, now_s: float, done: int) -> None:
    assert routing.steps_done(decoding(), now_s) == done
    assert routing.tokens_left(decoding(), now_s) == 10 - 2 * done


def test_steps_that_grow_end_later(routing: ModuleType) -> None:
    """Steps of 1, 2 and 3 s end after 1, 3 and 6 s."""
    grows = decoding(growth_s=1.0, end_s=25.0)
    assert [routing.steps_done(grows, 10.0 + s) for s in (0.9, 1.0, 2.9, 3.0, 5.9, 6.0)] == [0, 1, 1, 2, 2, 3]


def test_no_step_of_a_run_has_ended_where_prompts_run_beside_or_nothing_does(routing: ModuleType) -> None:
    others: list[dict[str, Any]] = [{"is_decoding": 0}, {"num_prompts": 1}, {"end_s": math.inf}]
    for other in others:
        assert routing.steps_done(decoding(**other), 13.0) == 0


def test_the_fewest_tokens_and_the_fewest_blocks_are_those_at_the_last_boundary(routing: ModuleType) -> None:
    tokens = [decoding(), replica_with(tokens_left=5)]
    assert [routing.route(state_of("least_tokens", *tokens), 0, now_s) for now_s in (12.9, 13.0)] == [1, 0]
    grown = state_of("least_kv", decoding(used_blocks=4, steps=0, phases=0), replica_with(used_blocks=9))
    grown.engines = [SimpleNamespace(reserves_answers=False, num_blocks=100, block_tokens=1)] * 2
    assert [routing.route(grown, 0, now_s) for now_s in (12.9, 13.0)] == [0, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_random_one_is_told_by_the_draw_and_all_are_as_likely(routing: ModuleType, count: int) -> None:
    draws = (np.arange(60) + 0.5) / 60
    found = [routing.route(state_of("random", *(replica_with() for _ in range(count)), draw=x), 0, 0.0) for x in draws]
    assert found == [int(x * count) for x in draws]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_of_two_different_random_ones_the_less_crowded_and_every_pair_is_as_likely(
    routing: ModuleType, count: int
) -> None:
    """Replica r has r requests: the lesser of each ordered pair, each drawn as often; of equals the first drawn."""
    draws = (np.arange(3 * count * (count - 1)) + 0.5) / (3 * count * (count - 1))
    rising = [
        routing.route(state_of("two_choices", *(replica_with(r) for r in range(count)), draw=x), 0, 0.0) for x in draws
    ]
    pairs = [min(pair) for pair in itertools.permutations(range(count), 2) for _ in range(3)]
    assert rising == pairs
    alike = [
        routing.route(state_of("two_choices", *(replica_with(1) for _ in range(count)), draw=x), 0, 0.0) for x in draws
    ]
    assert alike == [int(x * count) for x in draws]


@pytest.mark.parametrize(
    ("requests", "known", "chosen"),
    [
        ((2, 1, 1), (0, 0, 0), 1),
        ((2, 1, 0), (2, 1, 0), 0),
        ((2, 1, 0), (1, 2, 2), 2),
        ((1, 1, 0), (2, 2, 0), 0),
        ((2, 0, 2), (1, 0, 1), 0),
        ((3, 0, 9), (1, 0, 0), 1),
        ((4, 1, 9), (1, 0, 0), 0),
        ((5, 1, 9), (1, 0, 0), 1),
    ],
    ids=["nobody", "most", "fewer requests", "the first", "twice one", "crowded", "twice two", "crowded too"],
)
def test_whoever_holds_most_of_the_prompt_unless_it_is_crowded(
    routing: ModuleType, requests: tuple[int, ...], known: tuple[int, ...], chosen: int
) -> None:
    state = state_of("prefix_aware", *(replica_with(each) for each in requests), known=known)
    assert routing.route(state, 0, 0.0) == chosen
