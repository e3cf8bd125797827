"""What a job takes beside its work, from `data/spot_jobs.toml`."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.interruption import Spread
from gpufleet.records import dataclass
from gpufleet.units import HOUR, MINUTE


@dataclass(frozen=True)
class JobHabits:
    """A start, the write of a checkpoint and a job where nobody says them, and how far a planned start may be off."""

    restart_s: Spread
    planned_restart_ratio: Spread
    checkpoint_write_s: Spread
    usual_work_s: float
    usual_deadline_s: float


@lru_cache(maxsize=1)
def load_job_habits() -> JobHabits:
    """The shipped table.

    >>> load_job_habits().restart_s.expected
    720.0
    """
    table = toml_of(SHIPPED / "spot_jobs.toml")
    work_s, deadline_s = (hours * HOUR for hours in table["usual_job"]["hours"])
    return JobHabits(
        restart_s=Spread(*(minutes * MINUTE for minutes in table["restart"]["minutes"])),
        planned_restart_ratio=Spread(*table["planned_restart"]["ratio"]),
        checkpoint_write_s=Spread(*map(float, table["checkpoint_write"]["seconds"])),
        usual_work_s=work_s,
        usual_deadline_s=deadline_s,
    )
