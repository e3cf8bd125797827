"""The simulator against what theory says of queues, and against the closed forms of `estimate`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.effort import IS_THOROUGH
from tests.properties.random_clusters import table_of

from gpufleet.domain.requests import Requests
from gpufleet.performance.queueing import mean_wait_s
from gpufleet.simulate.cluster import Cluster, Copy, EngineRules, Member, Running, replay
from gpufleet.simulate.compiled import IS_COMPILED
from gpufleet.simulate.step_table import StepTable

STEP_S, MEAN_TOKENS = 1e-3, 1000
BATCH = 50_000
"""Waits follow each other for some hundreds of services at these loads: means of so many are nearly independent."""
Draw = Callable[[np.random.Generator, int], np.ndarray]


def constant_table() -> StepTable:
    """Every step takes the same: an answer of n tokens is a service of n steps."""
    axis, steps = np.array([0, 64]), np.full((2, 2), STEP_S)
    return StepTable(axis, 1.0 * axis, axis, steps, 0 * steps, np.full(2, STEP_S), np.zeros(2))


ONE_AT_A_TIME = Cluster((Copy(EngineRules(1, 1 << 20, 1 << 30), constant_table()),))


def geometric(rng: np.random.Generator, count: int) -> np.ndarray:
    """Whole numbers nearest to exponential services: c^2 = 1 - 1 / mean."""
    return rng.geometric(1 / MEAN_TOKENS, count)


def alike(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.full(count, MEAN_TOKENS)


def short_or_long(rng: np.random.Generator, count: int) -> np.ndarray:
    """Nine of ten short, the tenth long: mean 1,000 tokens, c^2 = 1.44."""
    return np.where(rng.random(count) < 0.9, 600, 4600)


VARIATION = {geometric: 1 - 1 / MEAN_TOKENS, alike: 0.0, short_or_long: (0.9 * 600**2 + 0.1 * 4600**2) / 1000**2 - 1}
MILLIONS = {0.3: 1, 0.6: 2, **({0.9: 14} if IS_THOROUGH else {0.8: 4})}
"""Waits that vary more take more of them: at a load of 0.9 by `make brute-force`."""


def asked_at(load: float, draw: Draw, count: int, rng: np.random.Generator) -> Requests:
    """Poisson arrivals of prompts of one token."""
    ones = np.ones(count, np.int64)
    gaps_s = rng.exponential(MEAN_TOKENS * STEP_S / load, count)
    return Requests(np.cumsum(gaps_s), ones, draw(rng, count).astype(np.int64), 0 * ones)


def waits_s(asked: Requests) -> np.ndarray:
    """Seconds until the first step of each request."""
    return replay(ONE_AT_A_TIME, asked).ttft_s - STEP_S


def mean_and_half_width(load: float, draw: Draw, count: int) -> tuple[float, float]:
    """The mean wait, helped by the known means of services and gaps (control variates), and its 95 % interval.

    Source: Lavenberg & Welch 1981, Management Science 27(3).
    """
    rows = []
    for seed in range(max(count // 1_000_000, 1)):
        asked = asked_at(load, draw, min(count, 1_000_000), np.random.default_rng([seed, int(10 * load)]))
        services_s, gaps_s = STEP_S * asked.output_tokens, np.diff(asked.arrival_s, prepend=0.0)
        columns = (waits_s(asked), services_s - MEAN_TOKENS * STEP_S, gaps_s - MEAN_TOKENS * STEP_S / load)
        rows.append(np.array([np.add.reduceat(c, np.arange(0, len(c), BATCH)) / BATCH for c in columns]).T)
    means = np.concatenate(rows)
    known = means[:, 1:][:, np.ptp(means[:, 1:], axis=0) > 1e-12]
    design = np.column_stack([np.ones(len(means)), known])
    found, *_ = np.linalg.lstsq(design, means[:, 0], rcond=None)
    spread = np.sum((means[:, 0] - design @ found) ** 2) / (len(means) - design.shape[1])
    return float(found[0]), 1.96 * float(np.sqrt(spread * np.linalg.inv(design.T @ design)[0, 0]))


@pytest.mark.skipif(not IS_COMPILED, reason="Numba is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("load", MILLIONS)
@pytest.mark.parametrize("draw", VARIATION, ids=["M/M/1", "M/D/1", "M/G/1"])
def test_mean_waits_are_those_of_pollaczek_and_khinchine(draw: Draw, load: float) -> None:
    mean_s, half_width_s = mean_and_half_width(load, draw, MILLIONS[load] * 1_000_000)
    assert half_width_s < 0.01 * mean_s
    assert mean_s == pytest.approx(float(mean_wait_s(load, MEAN_TOKENS * STEP_S, VARIATION[draw])), rel=0.02)


@pytest.mark.parametrize("load", MILLIONS)
@pytest.mark.parametrize("draw", VARIATION, ids=["M/M/1", "M/D/1", "M/G/1"])
def test_every_wait_is_that_of_the_recursion_of_lindley(draw: Draw, load: float) -> None:
    """W_n+1 = max(W_n + S_n - T_n+1, 0)   Source: Lindley 1952, Proc. Cambridge Phil. Soc. 48(2)."""
    asked = asked_at(load, draw, 5_000, np.random.default_rng(1))
    drift_s = np.cumsum(STEP_S * asked.output_tokens[:-1] - np.diff(asked.arrival_s))
    walk_s = np.concatenate([[0.0], drift_s])
    np.testing.assert_allclose(waits_s(asked), walk_s - np.minimum.accumulate(walk_s), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("routing", ["round_robin", "least_tokens"])
def test_littles_law_is_exact_from_empty_to_empty(routing: str) -> None:
    """What replicas hold at each moment, over time, is what requests spend there: L = lambda W (Little 1961)."""
    rng = np.random.default_rng(4)
    table = table_of(0.01, 1e-3, 1e-6, 1e-4, 1e-9)
    copy = Copy(EngineRules(8, 256, 100), table)
    tokens = rng.integers(1, 200, (2, 600))
    asked = Requests(np.sort(rng.uniform(0, 60, 600)), *tokens, np.zeros(600, np.int64))
    running = Running(Cluster((copy,), (Member(),) * 3, routing), asked)
    held, before_s = 0.0, running.shared("now_s")
    inside = 0.0
    while running.run(np.inf, 1):
        now_s = running.shared("now_s")
        held += inside * (now_s - before_s)
        before_s, inside = now_s, running.samples[-1][1] + running.samples[-1][2]
    done = running.replay()
    assert inside == 0
    assert done.preemptions.sum() > 0
    assert held == pytest.approx(float(done.latency_s.sum()), rel=1e-9)
