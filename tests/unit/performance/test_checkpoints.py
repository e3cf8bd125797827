"""Writing and reading of checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.performance.checkpoints import checkpoint_s, restart_s, storage_bytes_per_s
from gpufleet.units import GB, TB


def test_the_storage_of_llama_3_writes_its_checkpoint_in_seconds() -> None:
    """1 MB to 4 GB for each of 16,384 GPUs, 2 TB/s sustained (arXiv:2407.21783)."""
    assert checkpoint_s(16_384 * 4 * GB, 16_384 / 8, 2.3 * GB, 2 * TB) == pytest.approx(32.8, abs=0.1)


def test_a_restart_is_recovery_reading_and_waiting() -> None:
    assert restart_s(600.0, 30.0, np.array([0.0, 4500.0])).tolist() == [630.0, 5130.0]


@given(machines=st.integers(1, 10_000), rate=st.floats(1e6, 1e10), shared=st.floats(1e8, 1e13))
def test_more_machines_write_no_slower_and_never_faster_than_storage(machines: int, rate: float, shared: float) -> None:
    fewer, more = storage_bytes_per_s(np.array([machines, machines + 1]), rate, shared)
    assert fewer <= more <= shared
