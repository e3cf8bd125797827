"""Ranges of sources that no fit has seen, from those that were left out in turn."""

from __future__ import annotations

import numpy as np
import pytest
from tools.calibrate.between_sources import Sources


def drawn(rng: np.random.Generator, sources: int, between: float, within: float) -> tuple[list[float], list[str]]:
    """Eight errors of each source about what it has of its own."""
    own = rng.normal(0.0, between, sources)
    errors = own[:, None] + rng.normal(0.0, within, (sources, 8))
    return errors.ravel().tolist(), [f"source {i}" for i in range(sources) for _ in range(8)]


@pytest.mark.parametrize(("sources", "between", "within"), [(4, 0.15, 0.05), (6, 0.1, 0.1), (12, 0.02, 0.1)])
def test_eight_in_ten_rows_of_new_sources_are_held_however_few_were_seen(
    sources: int, between: float, within: float
) -> None:
    rng = np.random.default_rng(3)
    held = []
    for _ in range(400):
        low, high = Sources.of(*drawn(rng, sources, between, within)).range_of_a_new_one()
        new = rng.normal(rng.normal(0.0, between), within, 8)
        held.append(np.mean((low <= new) & (new <= high)))
    assert np.mean(held) == pytest.approx(0.8, abs=0.04)


def test_a_source_of_many_rows_counts_as_one_of_few() -> None:
    few = Sources.of([0.1, 0.2, -0.1, -0.2, 0.0, 0.1], ["a", "a", "b", "b", "c", "c"])
    many = Sources.of([0.1, 0.2, -0.1, -0.2, *[0.0, 0.1] * 100], ["a", "a", "b", "b", *["c"] * 200])
    assert many.between_log == pytest.approx(few.between_log, rel=0.1)
    assert many.means == pytest.approx(few.means)


def test_one_source_takes_what_its_parents_sources_are_apart() -> None:
    alone = Sources.of([0.02, -0.02, 0.01], ["a"] * 3)
    narrow, wide = alone.range_of_a_new_one(), alone.range_of_a_new_one(beside_log=0.2)
    assert wide[1] > 4 * narrow[1] > 0
    assert wide[0] < 4 * narrow[0] < 0


def test_a_range_holds_what_is_expected_where_every_source_is_off_on_one_side() -> None:
    low, high = Sources.of([0.3, 0.31, 0.29, 0.3], ["a", "b", "c", "d"]).range_of_a_new_one()
    assert low == 0.0 < 0.3 < high
