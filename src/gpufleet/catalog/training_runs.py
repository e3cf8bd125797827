"""What stands around a training run, from `data/calibration/training_runs.toml`."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import toml_of
from gpufleet.domain.training_runs import TrainingRuns


@lru_cache(maxsize=1)
def load_training_runs() -> TrainingRuns:
    """The shipped table.

    >>> load_training_runs().recovery_s.value
    600.0
    """
    return TrainingRuns(**{name: sourced(row) for name, row in toml_of(DATA / "training_runs.toml").items()})
