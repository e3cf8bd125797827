"""What catalog and model of the full install say of the same question: lines, and a verdict on each setup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Verdict:
    """What catalog and model say of one setup: why it is refuted (nothing: it stands), and what the move would do."""

    against: tuple[str, ...] = ()
    saving_usd_per_month: float | None = None
    speed_ratio: float | None = None


@dataclass(frozen=True)
class Truth:
    """Lines for people, and a verdict on each setup; a setup that was not checked has none."""

    lines: Sequence[str] = ()
    verdicts: Mapping[Setup, Verdict] = field(default_factory=dict)

    def against(self, setup: Setup) -> tuple[str, ...]:
        """Why a setup is refuted; nothing where it stands or was not checked."""
        verdict = self.verdicts.get(setup)
        return () if verdict is None else verdict.against
