"""Constants of training steps (training_time.toml)."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import toml_of
from gpufleet.domain.training_time import TrainingTimeConstants


@lru_cache(maxsize=1)
def load_training_time() -> TrainingTimeConstants:
    """The shipped constants."""
    tables = toml_of(DATA / "training_time.toml")
    return TrainingTimeConstants(
        **{name: {k: sourced(row) for k, row in rows.items()} for name, rows in tables.items()}
    )
