"""The grid of batches, the crowd in it, and what is sustained."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.performance.handmade_curves import linear_curves

from gpufleet.performance.load_curves import (
    GRID_RATIO,
    LARGEST_BATCH,
    LEAST_BATCH,
    SMALLEST_BATCH,
    batch_grid,
    crowded_batch,
    sustained_requests_per_s,
)

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def test_the_grid_reaches_from_a_tenth_to_2048_in_steps_of_at_most_a_fifth() -> None:
    grid = batch_grid()
    assert grid[:2] == pytest.approx([LEAST_BATCH, SMALLEST_BATCH])
    assert grid[-1] == pytest.approx(LARGEST_BATCH)
    assert (grid[2:] / grid[1:-1]).max() <= GRID_RATIO * (1 + 1e-9)


def test_a_crowd_is_never_smaller_than_the_mean_and_grows_with_the_percentile() -> None:
    crowds = [crowded_batch(batch_grid(), q) for q in QUANTILES]
    assert (crowds[0] == batch_grid()).all()
    assert all((later >= sooner).all() for sooner, later in pairwise(crowds))


def test_what_is_sustained_counts_only_batches_that_there_is_room_for() -> None:
    small, large = (float(sustained_requests_per_s(linear_curves(largest=n))[0]) for n in (8.0, 512.0))
    assert small < large
    assert small <= 8 / (100 * (0.01 + 8e-4))
    assert float(sustained_requests_per_s(linear_curves(largest=0.0))[0]) == 0
