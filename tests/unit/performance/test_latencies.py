"""Latencies of arrivals over the grid of batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.unit.performance.handmade_curves import curves_of, linear_curves

from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.performance.latencies import latency_s, tpot_s, ttft_s
from gpufleet.performance.load_curves import batch_grid
from gpufleet.performance.token_lengths import log_normal

STATISTICS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
ALIKE, SPREAD = TokenCounts(100.0), log_normal(100.0, 0.77)


def figures(curves: LoadCurves, answers: TokenCounts, statistic: str, quantile: float | None) -> list[np.ndarray]:
    return [
        ttft_s(curves, quantile, "", statistic),
        tpot_s(curves, quantile, answers),
        latency_s(curves, quantile, "", statistic, answers),
    ]


@pytest.mark.parametrize("answers", [ALIKE, SPREAD], ids=["alike", "spread"])
def test_later_percentiles_are_never_sooner(answers: TokenCounts) -> None:
    every = [figures(linear_curves(), answers, *each) for each in STATISTICS.items()]
    for sooner, later in pairwise(every):
        assert all((b >= a * (1 - 1e-9)).all() for a, b in zip(sooner, later, strict=True))


@pytest.mark.parametrize("answers", [ALIKE, SPREAD], ids=["alike", "spread"])
def test_no_figure_falls_with_the_batch_where_a_busy_engine_takes_no_less(answers: TokenCounts) -> None:
    for statistic, quantile in {"mean": None, **STATISTICS}.items():
        assert all((np.diff(seconds) >= 0).all() for seconds in figures(linear_curves(), answers, statistic, quantile))


def test_a_lone_request_of_one_length_takes_its_prefill_and_its_steps() -> None:
    """Hardly anything runs beside it: no step under way, no prompt, no late token."""
    for statistic, quantile in {"mean": None, **STATISTICS}.items():
        first, later, whole = (x[0, 0] for x in figures(linear_curves(), ALIKE, statistic, quantile))
        assert (first, later) == (pytest.approx(0.05, rel=2e-3), pytest.approx(0.0101, rel=2e-2))
        assert whole == pytest.approx(0.05 + 99 * 0.0101, rel=2e-2)


def test_an_answer_of_one_token_is_its_first_token() -> None:
    for statistic, quantile in {"mean": None, **STATISTICS}.items():
        first, _, whole = figures(linear_curves(), TokenCounts(1.0), statistic, quantile)
        np.testing.assert_allclose(whole, first)


def test_short_answers_spread_a_neighbours_prompt_over_fewer_tokens() -> None:
    short, long = (tpot_s(linear_curves(), 0.99, TokenCounts(tokens))[0] for tokens in (20.0, 1000.0))
    assert (short[20:] > long[20:]).all()


def test_percentiles_of_latency_are_those_of_the_sum() -> None:
    """Above what either part has at the median of the other, below both at the percentile."""
    curves = linear_curves()
    first, later, whole = figures(curves, SPREAD, "p95", 0.95)
    together = first + (SPREAD.at("p95") - 1) * later
    alone = (SPREAD.at("p95") - 1) * curves.step_s
    assert (whole < together).all()
    assert (whole > alone).all()


def test_a_server_of_prompts_alone_is_met_as_it_is_drawn() -> None:
    """Answers of 50 tokens on a server that takes prompts first: TPOT against a walk through its busy periods."""
    step_s, service_s, load, tokens = 0.01, 0.1, 0.4, 50
    drawn = drawn_tpots_s(step_s, service_s, load, tokens)
    batch, one = batch_grid()[:1], np.ones((1, 1))
    curves = curves_of(
        batch, one * load / service_s, one * step_s, own_step_s=one * 0, prompt_service_s=one * service_s,
        prompt_load_ratio=one * load, queue_s=one * load / (1 - load) * service_s / 2, queue_ratio=one * load,
    )  # fmt: skip
    assert tpot_s(curves, None, TokenCounts(tokens))[0, 0] == pytest.approx(drawn.mean(), rel=0.03)
    for quantile, within in ((0.5, 0.1), (0.95, 0.1), (0.99, 0.15)):
        assert tpot_s(curves, quantile, TokenCounts(tokens))[0, 0] == pytest.approx(
            np.quantile(drawn, quantile), rel=within
        )


def drawn_tpots_s(step_s: float, service_s: float, load: float, tokens: int, num: int = 20_000) -> np.ndarray:
    """Time per token after a prompt that a FIFO server (Lindley) took, while later prompts go before decoding."""
    dice = np.random.default_rng(3)
    waits, wait = np.empty(num), 0.0
    for i, gap in enumerate(dice.exponential(service_s / load, num)):
        wait = max(wait + service_s - gap, 0.0)
        waits[i] = wait + dice.uniform(0, step_s)
    rate, times = load / service_s, np.full(num, step_s * (tokens - 1))
    left = dice.poisson(rate * (waits + service_s)) + dice.poisson(rate * times)
    while left.any():
        times += left * service_s
        left = dice.poisson(rate * left * service_s)
    return times / (tokens - 1)
