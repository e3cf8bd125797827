"""Policies for a service whose machines may be taken away: how many on spot and on demand, and when that changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.records import dataclass

NO_FALLBACK, FOR_MISSING, FOR_UNREADY = "none", "missing", "unready"
FALLBACKS = (NO_FALLBACK, FOR_MISSING, FOR_UNREADY)
"""On demand never stands in; for machines that spot does not have; or also for those of spot that still start."""


@dataclass(frozen=True)
class ServicePolicy:
    """How a service that wants N machines holds them.

    `floor` of them are always on demand. On spot are N - floor, and up to `spares` more: one for each machine in a zone
    that has lost one, or had none, within `young_s`; infinite: always all spares. By its `fallback` on demand stands in
    for what spot lacks; that is given back once spot has covered for `hold_s`. Spot is ordered in zones that have lost
    none, and had some, for `calm_s`.
    """

    floor: int = 0
    spares: int = 0
    young_s: float = math.inf
    fallback: str = NO_FALLBACK
    hold_s: float = 0.0
    calm_s: float = 0.0

    def __post_init__(self) -> None:
        if self.fallback not in FALLBACKS or self.floor < 0 or self.spares < 0:
            raise ValueError(f"not a policy: {self!r}")

    @property
    def is_fixed(self) -> bool:
        """Whether numbers never change: the published spares and floor."""
        return self.fallback == NO_FALLBACK and math.isinf(self.young_s) and self.calm_s == 0


@dataclass(frozen=True, eq=False)
class PolicyRows:
    """Policies as arrays, one entry a row."""

    floor: IntArray
    spares: IntArray
    young_s: FloatArray
    falls_back: BoolArray
    counts_starting: BoolArray
    hold_s: FloatArray
    calm_s: FloatArray

    @classmethod
    def of(cls, policies: Sequence[ServicePolicy]) -> PolicyRows:
        """One row for each policy."""
        return cls(
            floor=np.array([p.floor for p in policies]),
            spares=np.array([p.spares for p in policies]),
            young_s=np.array([p.young_s for p in policies]),
            falls_back=np.array([p.fallback != NO_FALLBACK for p in policies]),
            counts_starting=np.array([p.fallback == FOR_MISSING for p in policies]),
            hold_s=np.array([p.hold_s for p in policies]),
            calm_s=np.array([p.calm_s for p in policies]),
        )
