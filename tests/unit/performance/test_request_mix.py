"""What requests that differ mean for an engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.performance.request_mix import mix_of
from gpufleet.performance.token_lengths import of_percentiles, of_sample, spread_of

ALIKE_IN, ALIKE_OUT = TokenCounts(1000.0), TokenCounts(200.0)


def one(prompt: TokenCounts, answer: TokenCounts, **changes: float) -> Workload:
    return Workload.of((RequestClass("chat", 5.0, prompt, answer, **changes),))


def test_one_class_of_equal_requests_is_the_plain_workload() -> None:
    mixed, plain = mix_of(one(ALIKE_IN, ALIKE_OUT)), mix_of(Workload(1000.0, 200.0, 5.0))
    assert mixed.held_tokens == plain.held_tokens == 1200
    assert mixed.lengths.mean_decode_context_tokens == plain.lengths.mean_decode_context_tokens == 1100
    assert (mixed.prompt_squared_variation, mixed.held_squared_variation) == (0, 0)
    assert mixed.prompts is None


def test_long_answers_are_met_more_often_than_they_are_asked_for() -> None:
    """Half of the requests want 100 tokens, half 300: three of four steps belong to the long ones."""
    answers = of_sample(np.array([100.0, 300.0]))
    mixed = mix_of(one(TokenCounts(1e-9 + 1.0), answers))
    assert mixed.lengths.mean_decode_context_tokens == pytest.approx(1 + (100**2 + 300**2) / 2 / (100 + 300))


def test_a_class_of_twice_the_rate_and_answer_holds_four_times_the_slots() -> None:
    short = RequestClass("short", 1.0, TokenCounts(100.0), TokenCounts(100.0))
    long = RequestClass("long", 2.0, TokenCounts(1000.0), TokenCounts(200.0))
    assert mix_of(Workload.of((short, long))).held_tokens == pytest.approx((200 + 4 * 1200) / 5)


def test_a_cache_saves_prefill_and_what_is_shared_is_held_once() -> None:
    mixed = mix_of(one(ALIKE_IN, ALIKE_OUT, cached_ratio=0.6, shared_ratio=0.5))
    assert mixed.lengths.input_tokens == pytest.approx(400)
    assert mixed.held_tokens == pytest.approx(500 + 200)
    assert mixed.shared_tokens == pytest.approx(500)
    assert mixed.lengths.mean_decode_context_tokens == pytest.approx(1100)


def test_a_log_normal_is_found_again_from_its_percentiles() -> None:
    """mu = ln 1000, sigma = 0.8: mean exp(mu + 0.32), squared variation exp(0.64) - 1."""
    quantiles = {q: 1000 * np.exp(0.8 * z) for q, z in ((0.5, 0.0), (0.9, 1.2815516), (0.99, 2.3263479))}
    counts = of_percentiles(quantiles, None)
    assert counts.mean == pytest.approx(1000 * np.exp(0.32), rel=0.01)
    assert counts.squared_variation == pytest.approx(np.exp(0.64) - 1, rel=0.06)
    assert counts.at("p95") == pytest.approx(1000 * np.exp(0.8 * 1.6448536), rel=1e-3)


@given(st.floats(0.05, 1.5), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_mean_and_one_percentile_say_the_spread(sigma: float, quantile: float) -> None:
    from statistics import NormalDist

    z = NormalDist().inv_cdf(quantile)
    if 0 < z < sigma:
        return
    assert spread_of(z, z * sigma - sigma**2 / 2) == pytest.approx(sigma, rel=1e-6)


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=300))
def test_a_sample_keeps_its_mean_in_its_eighths(tokens: list[float]) -> None:
    counts = of_sample(np.array(tokens))
    assert np.mean(counts.equal_parts) == pytest.approx(np.mean(tokens))
    assert counts.most == pytest.approx(max(tokens))
    assert list(counts.percentiles) == sorted(counts.percentiles)


@pytest.mark.parametrize("changes", [{"mean": 0.0}, {"mean": float("nan")}, {"mean": 1.0, "percentiles": (1.0,)}])
def test_counts_that_no_requests_have_are_refused_at_birth(changes: dict) -> None:
    with pytest.raises(ValueError, match=r"token|percentiles"):
        TokenCounts(**changes)
