"""Lengths drawn one by one have the mean, the percentiles and the bounds of what is known of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.performance.token_lengths import assumed, of_percentiles, of_sample
from gpufleet.simulate.generated import requests_of
from gpufleet.simulate.token_draws import (
    clipped_normal_tokens,
    drawn_tokens,
    fixed_tokens,
    quantile_curve,
    resampled_tokens,
    spread_tokens,
    uniform_tokens,
)

NUM = 400_000
QUANTILES = (0.5, 0.9, 0.95, 0.99)


def dice(seed: int = 17) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("text", ["mean=1000,p95=3000", "p50=700,p95=3000", "mean=1200,p95=4000,max=32k"])
def test_a_sample_has_the_mean_and_the_percentiles_that_were_stated(text: str) -> None:
    counts = parse_token_counts(text)
    assert isinstance(counts, TokenCounts)
    drawn = drawn_tokens(dice(), counts, NUM)
    assert drawn.mean() == pytest.approx(counts.mean, abs=4 * drawn.std() / math.sqrt(NUM))
    assert np.quantile(drawn, QUANTILES) == pytest.approx(counts.percentiles, rel=0.03)
    assert drawn.min() >= 1
    assert drawn.max() <= math.ceil(counts.longest)


def test_the_requests_of_one_run_have_the_stated_mean_in_each_run_and_come_in_any_order() -> None:
    counts = parse_token_counts("mean=250,p50=214,p95=530")
    for seed in range(20):
        run = spread_tokens(np.random.default_rng(seed), counts, 300)
        assert run.mean() == pytest.approx(250, rel=0.02)
        assert np.quantile(run, 0.5) == pytest.approx(214, rel=0.03)
        assert not np.all(np.diff(run) >= 0)
    assert spread_tokens(np.random.default_rng(0), TokenCounts(7.0), 3).tolist() == [7, 7, 7]


def test_lengths_of_a_trace_come_back_with_every_eighth_of_it() -> None:
    seen = np.rint(np.clip(dice(1).lognormal(6.0, 1.1, 30_000), 1, 20_000)) + 3 * (np.arange(30_000) % 2)
    counts = of_sample(seen)
    curve = quantile_curve(counts)
    ordered = np.sort(curve.at((np.arange(80_000) + 0.5) / 80_000))
    assert curve.mean == pytest.approx(counts.mean, rel=1e-6)
    assert ordered.reshape(8, -1).mean(axis=1) == pytest.approx(counts.octiles, rel=0.02)
    assert curve.squared_variation == pytest.approx(counts.squared_variation, rel=0.03)


@given(
    sample=st.lists(st.integers(1, 2**20), min_size=2, max_size=60),
    ratio=st.floats(1.0, 50.0),
)
def test_the_curve_of_any_sample_rises_within_its_bounds_and_has_its_mean(sample: list[int], ratio: float) -> None:
    counts = of_sample(np.array(sample, dtype=float)).scaled(ratio)
    if counts.is_alike:
        return
    curve = quantile_curve(counts)
    assert curve.mean == pytest.approx(counts.mean, rel=1e-6)
    assert np.all(np.diff(curve.tokens) >= 0)
    assert curve.tokens[0] >= 1
    assert curve.tokens[-1] <= counts.longest * (1 + 1e-12)


@given(p50=st.floats(2.0, 1e5), up=st.floats(1.01, 100.0), further=st.floats(1.0, 20.0), mean_ratio=st.floats(0.6, 3.0))
def test_stated_percentiles_and_means_that_disagree_give_the_mean(
    p50: float, up: float, further: float, mean_ratio: float
) -> None:
    percentiles = {0.5: p50, 0.95: p50 * up, 0.99: p50 * up * further}
    counts = of_percentiles(percentiles, max(of_percentiles(percentiles, None).mean * mean_ratio, 1.5))
    assert quantile_curve(counts).mean == pytest.approx(counts.mean, rel=1e-6)


@pytest.mark.parametrize(("mean", "context"), [(1000.0, 8192.0), (1000.0, 2000.0), (40.0, 2000.0)])
def test_assumed_lengths_keep_their_mean_where_the_context_cuts_them(mean: float, context: float) -> None:
    counts = assumed(mean, 0.9, 300.0, context)
    drawn = drawn_tokens(dice(5), counts, NUM)
    assert drawn.mean() == pytest.approx(mean, abs=4 * drawn.std() / math.sqrt(NUM))
    assert np.quantile(drawn, QUANTILES) == pytest.approx(counts.percentiles, rel=0.04)
    assert drawn.max() <= math.ceil(counts.longest)


def test_images_stand_in_every_prompt() -> None:
    drawn = drawn_tokens(dice(), assumed(700.0, 0.9, 300.0, 8192.0, beside_tokens=576.0), 10_000)
    assert drawn.min() > 576


def test_requests_that_are_alike_have_one_length_and_a_share_of_a_token_is_drawn() -> None:
    assert set(drawn_tokens(dice(), TokenCounts(500.0), 100)) == {500}
    drawn = drawn_tokens(dice(), TokenCounts(2.25), NUM)
    assert set(drawn) == {2, 3}
    assert drawn.mean() == pytest.approx(2.25, abs=0.003)


def test_lengths_of_blis_stay_within_their_bounds() -> None:
    """BLIS's run of 256 +- 100 tokens within 2-800, answers within 1-1,024."""
    drawn = clipped_normal_tokens(dice(), 256, 100, 2, 800, NUM)
    assert (drawn.min(), drawn.max()) == (2, pytest.approx(740, abs=60))
    assert drawn.mean() == pytest.approx(256, abs=0.8)
    assert drawn.std() == pytest.approx(100, rel=0.01)


def test_uniform_and_fixed_lengths_reach_their_bounds() -> None:
    assert set(uniform_tokens(dice(), 3, 6, 1000)) == {3, 4, 5, 6}
    assert fixed_tokens(7, 2).tolist() == [7, 7]


def test_prompts_and_answers_of_a_trace_are_drawn_together() -> None:
    seen = requests_of(np.arange(3.0), np.array([1, 20, 300]), np.array([2, 40, 600]))
    prompts, answers = resampled_tokens(dice(), seen, 1000)
    assert set(prompts) == {1, 20, 300}
    assert np.all(answers == 2 * prompts)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda: uniform_tokens(dice(), 0, 5, 1), "bounds of tokens"),
        (lambda: uniform_tokens(dice(), 6, 5, 1), "bounds of tokens"),
        (lambda: clipped_normal_tokens(dice(), math.nan, 1, 1, 5, 1), "a mean of tokens"),
        (lambda: clipped_normal_tokens(dice(), 5, -1, 1, 5, 1), "the spread of tokens"),
        (lambda: fixed_tokens(0, 1), "a number of tokens"),
        (lambda: drawn_tokens(dice(), TokenCounts(5.0), 1e9), "too many requests"),
        (lambda: resampled_tokens(dice(), requests_of(np.array([]), *[np.array([], dtype=int)] * 2), 5), "no requests"),
    ],
)
def test_what_nobody_means_is_refused(asked: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked()  # type: ignore[operator]
