"""Closed forms for requests that differ, against requests that are drawn and queue one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.performance.handmade_curves import curves_of

from gpufleet.domain.estimate import PromptTimes
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.performance.latencies import ttft_s
from gpufleet.performance.load_curves import crowded_batch
from gpufleet.performance.queueing import mean_wait_s
from gpufleet.performance.request_mix import deviations, mix_of
from gpufleet.performance.token_lengths import of_sample

NUM_REQUESTS, MEAN_S = 200_000, 0.05
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def drawn(sigma: float, seed: int = 3) -> np.ndarray:
    """Log-normal prompts around 1,000 tokens."""
    tokens = np.random.default_rng(seed).lognormal(0.0, sigma, NUM_REQUESTS)
    return 1000 * tokens / tokens.mean()


def first_tokens_s(prompts: np.ndarray, load: float) -> np.ndarray:
    """Wait for the prompts before, and the own one, of a server that takes MEAN_S for 1,000 tokens (Lindley)."""
    service = MEAN_S * prompts / 1000
    gaps = np.random.default_rng(5).exponential(MEAN_S / load, len(prompts))
    steps = np.concatenate([[0.0], (service - np.roll(gaps, -1))[:-1]])
    walk = np.cumsum(steps)
    return walk - np.minimum.accumulate(walk) + service


@pytest.mark.parametrize("sigma", [0.5, 0.9])
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("statistic", QUANTILES)
def test_the_first_token_comes_when_it_is_planned(sigma: float, load: float, statistic: str) -> None:
    """A prompt's own time and its wait, on a server that takes prompts alone: within a fifth of what is drawn."""
    prompts = drawn(sigma)
    counts = of_sample(prompts)
    one, quantile = np.ones((1, 1)), QUANTILES[statistic]
    wait_s = float(mean_wait_s(load, MEAN_S, counts.squared_variation))
    times = {("", name): prompt_of(counts, name) for name in ("mean", "p95", statistic)}
    curves = curves_of(
        np.array([1e-9]), one * load / MEAN_S, one * 1e-9, running_ratio=np.zeros(1) + 1e-12,
        queue_s=one * wait_s, queue_ratio=one * load, prompts=times,
    )  # fmt: skip
    seen = float(np.quantile(first_tokens_s(prompts, load), quantile))
    assert ttft_s(curves, quantile, "", statistic)[0, 0] == pytest.approx(seen, rel=0.2)


def prompt_of(counts: TokenCounts, statistic: str) -> PromptTimes:
    """A prompt that takes MEAN_S for 1,000 tokens."""
    tokens = counts.at(statistic)
    own = np.array([MEAN_S * tokens / 1000])
    return PromptTimes(own, np.zeros(1), tokens / counts.mean, deviations(counts, tokens))


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.0])
def test_a_burst_of_requests_that_differ_holds_what_a_compound_poisson_sum_does(sigma: float) -> None:
    dice = np.random.default_rng(11)
    for batch in (20.0, 200.0):
        counts = dice.poisson(batch, 4000)
        sizes = np.exp(dice.normal(0.0, sigma, counts.sum()))
        sums = np.add.reduceat(sizes, np.concatenate([[0], np.cumsum(counts)[:-1]])) / sizes.mean()
        variation = float(sizes.var() / sizes.mean() ** 2)
        planned = float(crowded_batch(np.array([batch]), 0.95, variation)[0])
        assert planned == pytest.approx(np.quantile(sums, 0.95), rel=0.06)


def test_running_sequences_hold_what_a_renewal_process_says() -> None:
    """Answers of any spread: at a random step of the service the prompt stands, and half of a longer answer."""
    dice = np.random.default_rng(13)
    prompts, answers = of_sample(dice.lognormal(6.0, 0.8, 50_000)), dice.lognormal(5.0, 0.9, 50_000)
    mix = mix_of(Workload.of((RequestClass("", 1.0, prompts, of_sample(answers)),)))
    met = prompts.mean + float((answers * answers / 2).sum() / answers.sum())
    assert mix.lengths.mean_decode_context_tokens == pytest.approx(met, rel=1e-9)


def test_a_cached_prefix_saves_no_more_than_its_share_of_the_prefill() -> None:
    plain, cached = (
        mix_of(Workload.of((RequestClass("", 1.0, TokenCounts(4000.0), TokenCounts(9.0), cached_ratio=share),)))
        for share in (0.0, 0.5)
    )
    assert cached.lengths.input_tokens == plain.lengths.input_tokens / 2
    assert cached.prompts is not None
    assert cached.prompts.tokens.tolist() == [4000.0]
    assert cached.prompts.cached.tolist() == [2000.0]
