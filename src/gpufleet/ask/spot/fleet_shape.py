"""What of today's fleet could move to spot: row by row what it would cost, save and risk, or why it cannot."""

from __future__ import annotations

from gpufleet.results.base import SCHEMA_VERSION, Figure, Result
from gpufleet.results.rented import SpotPrice


class StatedSaving(Result):
    """A saving that somebody states of spot as a range."""

    name: str
    low_ratio: float
    high_ratio: float


class SpotFleetRow(Result):
    """Machines of today, and what they would be on spot.

    `price` is that of one machine today, None where nobody knows it. Where they cannot move, or it would not pay,
    `usd_per_run`: what one run of a job that says its work costs today; others run all the time.
    `why_not` says why; where they cannot, there are no figures. `saved_ratio` is of today's cost, with its range over
    draws. `short_ratio`: share of time in which not all machines of a service are ready; `late_ratio`: of draws in
    which a job ends late. `stated`: what others state of spot there.
    """

    name: str
    machines: str
    instance_count: int
    cloud: str
    instance: str
    runs: str
    price: SpotPrice | None = None
    usd_per_hour: float | None = None
    usd_per_run: float | None = None
    region: str | None = None
    spot: SpotPrice | None = None
    how: str = ""
    saved_ratio: Figure | None = None
    short_ratio: float | None = None
    late_ratio: float | None = None
    why_not: str = ""
    stated: StatedSaving | None = None

    @property
    def saved_usd_per_hour(self) -> float:
        """What moving saves of what runs all the time; nothing, where it does not pay."""
        return 0.0 if self.usd_per_run is not None else self._saved_of(self.usd_per_hour)

    @property
    def saved_usd_per_run(self) -> float:
        """What moving saves of one run of a job that says its work."""
        return self._saved_of(self.usd_per_run)

    def _saved_of(self, usd: float | None) -> float:
        return self.saved_ratio.value * (usd or 0.0) if self.saved_ratio and not self.why_not else 0.0


class SpotFleet(Result):
    """All rows of a fleet."""

    schema_version: str = SCHEMA_VERSION
    rows: list[SpotFleetRow]
    zones: int
    availability_source: str
    grade: str
    num_draws: int
    seed: int
    notes: list[str] = []

    @property
    def usd_per_hour(self) -> float:
        """What all that runs all the time costs today, as far as that is known."""
        return sum(row.usd_per_hour or 0.0 for row in self.rows if row.usd_per_run is None)

    @property
    def saved_usd_per_hour(self) -> float:
        """What the rows that can move save together."""
        return sum(row.saved_usd_per_hour for row in self.rows)
