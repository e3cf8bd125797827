"""The unit that times are compared with, so that figures of different machines can be: one NumPy matrix product."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

MATRIX_SIZE, RUNS = 1024, 5


def timed_unit_s() -> float:
    """Median seconds of the product, said on a line of its own."""
    unit_s = median_s(lambda: matrix_product(MATRIX_SIZE))
    print(f"one product of {MATRIX_SIZE} x {MATRIX_SIZE} float64 matrices: {unit_s * 1e3:.1f} ms = 1 unit")
    return unit_s


def matrix_product(size: int) -> float:
    """Seconds of one product."""
    numbers = np.random.default_rng(0).random((size, size))
    start = time.perf_counter()
    product = numbers @ numbers
    elapsed = time.perf_counter() - start
    assert product.shape == (size, size)
    return elapsed


def median_s(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median seconds of some runs; a run that returns its own seconds is taken at its word."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        own = work()
        seconds.append(own if isinstance(own, float) else time.perf_counter() - start)
    return statistics.median(seconds)
