"""Latency percentiles over the grid of batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpufleet.domain.estimate import LoadCurves
from gpufleet.performance.load_curves import (
    GRID_RATIO,
    LARGEST_BATCH,
    LEAST_BATCH,
    SMALLEST_BATCH,
    batch_grid,
    crowded_batch,
    latency_percentile_s,
    sustained_requests_per_s,
    tpot_percentile_s,
    ttft_percentiles_s,
)

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def linear_curves(step_s: float = 0.01, per_sequence_s: float = 1e-4, largest: float = 256.0) -> LoadCurves:
    """One candidate whose tokens take `step_s` and a little more for each sequence; answers of 100 tokens."""
    batch = batch_grid()
    tpot = step_s + per_sequence_s * batch[None, :]
    return LoadCurves(
        batch=batch,
        idle_ttft_s=0.05 + tpot,
        prompt_service_s=np.full_like(tpot, 0.005),
        tpot_s=tpot,
        requests_per_s=batch / (100 * tpot + 0.005),
        largest_batch=np.array([largest]),
    )


def test_the_grid_reaches_from_a_tenth_to_2048_in_steps_of_at_most_a_fifth() -> None:
    grid = batch_grid()
    assert grid[:2] == pytest.approx([LEAST_BATCH, SMALLEST_BATCH])
    assert grid[-1] == pytest.approx(LARGEST_BATCH)
    assert (grid[2:] / grid[1:-1]).max() <= GRID_RATIO * (1 + 1e-9)


def test_a_crowd_is_never_smaller_than_the_mean_and_grows_with_the_percentile() -> None:
    crowds = [crowded_batch(batch_grid(), q) for q in QUANTILES]
    assert (crowds[0] == batch_grid()).all()
    assert all((later >= sooner).all() for sooner, later in pairwise(crowds))


def test_time_per_token_at_a_percentile_is_that_of_the_crowd() -> None:
    """Linear in the batch, so interpolation between knots is exact up to the last one."""
    curves = linear_curves()
    crowd = np.minimum(crowded_batch(curves.batch, 0.95), LARGEST_BATCH)
    np.testing.assert_allclose(tpot_percentile_s(curves, 0.95)[0], 0.01 + 1e-4 * crowd, rtol=5e-3)


@pytest.mark.parametrize("percentile", [tpot_percentile_s, lambda c, q: ttft_percentiles_s(c, 1.0, q)])
def test_later_percentiles_are_never_sooner(percentile) -> None:
    times = [percentile(linear_curves(), q) for q in QUANTILES]
    assert all((later >= sooner).all() for sooner, later in pairwise(times))


def test_a_time_per_token_grows_along_the_grid() -> None:
    for quantile in (None, *QUANTILES):
        assert (np.diff(tpot_percentile_s(linear_curves(), quantile)) >= 0).all()


def test_latency_is_the_first_token_and_the_steps_after_it() -> None:
    ttft_s, tpot_s = np.array([0.5]), np.array([0.01])
    np.testing.assert_allclose(latency_percentile_s(ttft_s, tpot_s, 101.0), [1.5])


def test_an_answer_of_one_token_is_its_first_token() -> None:
    first = ttft_percentiles_s(linear_curves(), 1.0, 0.95)
    np.testing.assert_allclose(latency_percentile_s(first, tpot_percentile_s(linear_curves(), 0.95), 1.0), first)


def test_more_groups_share_the_queue_for_prompts() -> None:
    one, four = (ttft_percentiles_s(linear_curves(), groups, 0.95) for groups in (1.0, 4.0))
    assert (four <= one).all()
    assert (four < one).any()


def test_what_is_sustained_counts_only_batches_that_there_is_room_for() -> None:
    small, large = (float(sustained_requests_per_s(linear_curves(largest=n))[0]) for n in (8.0, 512.0))
    assert small < large
    assert small <= 8 / (100 * (0.01 + 8e-4))
    assert float(sustained_requests_per_s(linear_curves(largest=0.0))[0]) == 0
