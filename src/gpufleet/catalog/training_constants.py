"""Loads what is fitted of the memory of training (training_memory.toml)."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.training_constants import TrainingMemoryConstants


@lru_cache(maxsize=1)
def load_training_memory_constants() -> TrainingMemoryConstants:
    """The shipped constants, each with its source."""
    table = toml_of(SHIPPED / "calibration" / "training_memory.toml")
    return TrainingMemoryConstants(**{name: sourced(row) for name, row in table.items()})
