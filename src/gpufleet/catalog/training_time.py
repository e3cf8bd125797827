"""Constants of training steps (training_time.toml)."""

from __future__ import annotations

import sys
from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.domain.training_time import TrainingTimeConstants

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@lru_cache(maxsize=1)
def load_training_time() -> TrainingTimeConstants:
    """The shipped constants."""
    tables = tomllib.loads((DATA / "training_time.toml").read_text(encoding="utf-8"))
    return TrainingTimeConstants(
        **{name: {k: sourced(row) for k, row in rows.items()} for name, rows in tables.items()}
    )
