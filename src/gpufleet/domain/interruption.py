"""How often machines that can be taken away are taken away."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.records import dataclass

USUAL_ZONES, USUAL_SEED = 3, 0
"""Zones that a job may move between, and the seed of what is drawn, where nobody says."""


@dataclass(frozen=True)
class Spread:
    """An expected value between a low and a high one."""

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.expected <= self.high:
            raise ValueError(f"low, expected and high are out of order: {self!r}")


NEVER = Spread(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Interruptions:
    """Interruptions per hour that a spot machine runs, by the band that its offer names, and of those without one.

    `wait_s` passes until another machine can be had. `source_of_bands` and `source_of_unknown` name the sources of the
    expected rates, `sources` those of all figures.
    """

    per_hour_of_band: Mapping[str, Spread]
    per_hour_unknown: Spread
    wait_s: Spread
    source_of_bands: str
    source_of_unknown: str
    sources: tuple[str, ...] = ()

    def is_published(self, band: str | None) -> bool:
        """Whether the cloud says how often; else a prior is taken."""
        return band in self.per_hour_of_band

    def per_hour(self, band: str | None) -> Spread:
        """Interruptions per hour of an offer with this band; None is not known."""
        return self.per_hour_unknown if band is None else self.per_hour_of_band.get(band, self.per_hour_unknown)

    def source_of(self, band: str | None) -> str:
        """The source of the expected rate."""
        return self.source_of_bands if self.is_published(band) else self.source_of_unknown
