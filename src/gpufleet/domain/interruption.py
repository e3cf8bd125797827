"""How often machines that can be taken away are taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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

    `wait_s` passes until another machine can be had; `sources` say where each figure comes from.
    """

    per_hour_of_band: Mapping[str, Spread]
    per_hour_unknown: Spread
    wait_s: Spread
    sources: tuple[str, ...] = ()

    def per_hour(self, band: str | None) -> Spread:
        """Interruptions per hour of an offer with this band; None is not known."""
        return self.per_hour_unknown if band is None else self.per_hour_of_band.get(band, self.per_hour_unknown)
