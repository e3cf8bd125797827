"""Intervals of statistics of one run: they cover what they should, and say nothing where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.simulate.queues import markov_replay

from gpufleet.domain.slo import STATISTICS
from gpufleet.simulate.intervals import mean_of, student_quantile, summary

RUNS = 400
TRUTH = {"mean": 1.0, **{name: -math.log(1 - float(name[1:]) / 100) for name in STATISTICS if name != "mean"}}


def test_student_quantiles_are_those_of_the_table() -> None:
    """Abramowitz & Stegun 1964, table 26.10, 0.9 one-sided."""
    table = {6: 1.440, 9: 1.383, 14: 1.345, 19: 1.328, 24: 1.318, 29: 1.311}
    assert {n: round(student_quantile(0.9, n), 3) for n in table} == table


@pytest.mark.slow
@pytest.mark.parametrize("number", [500, 5000])
def test_eight_of_ten_intervals_of_independent_values_cover_the_truth(number: int) -> None:
    dice = np.random.default_rng(1)
    found = [summary(dice.exponential(1.0, number)) for _ in range(RUNS)]
    for name, truth in TRUTH.items():
        known = [run[name] for run in found if run[name].low is not None and run[name].high is not None]
        covered = sum(e.low <= truth <= e.high for e in known) / len(known)  # type: ignore[operator]
        assert len(known) > RUNS / 2
        assert 0.74 < covered < 0.89, name


@pytest.mark.slow
def test_intervals_of_a_queue_are_not_those_of_independent_requests() -> None:
    """Sojourn times of M/M/1 are exponential with mean 1 / (mu - lambda), and neighbours are alike."""
    covered, naively = 0, 0
    for seed in range(100):
        latency_s = markov_replay(0.8, 20_000, seed).latency_s
        mean = mean_of(latency_s)
        assert mean is not None
        assert mean.low is not None
        assert mean.high is not None
        covered += mean.low <= 5.0 <= mean.high
        naively += abs(mean.value - 5.0) < 1.2816 * latency_s.std() / math.sqrt(len(latency_s))
    assert naively < 30
    assert 68 <= covered <= 92


def test_few_values_have_no_interval() -> None:
    few = summary(np.arange(1.0, 100.0))
    assert all((e.low, e.high) == (None, None) for e in few.values())
    assert few["p50"].value == 50.0
    assert summary(np.array([])) == {}


def test_a_percentile_that_the_values_do_not_bound_has_no_interval() -> None:
    """Of two hundred values two are beyond p99: how high it is, they do not say."""
    found = summary(np.random.default_rng(2).exponential(1.0, 200))
    assert found["p50"].high is not None
    assert found["p99"].high is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400))
def test_values_lie_in_their_intervals_and_percentiles_rise(values: list[float]) -> None:
    found = summary(np.array(values))
    percentiles = [found[name].value for name in STATISTICS if name != "mean"]
    assert percentiles == sorted(percentiles)
    for e in found.values():
        assert min(values) * (1 - 1e-9) <= e.value <= max(values) * (1 + 1e-9)
        assert e.low is None or e.high is None or 0 <= e.low <= e.value <= e.high


def test_all_values_alike_are_certain() -> None:
    assert summary(np.full(1000, 0.25))["p50"] == (0.25, 0.25, 0.25)
