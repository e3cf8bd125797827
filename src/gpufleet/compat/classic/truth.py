"""What catalog and model of the full install say of the same question: lines, and a verdict on each setup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.options import Option
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Verdict:
    """What catalog and model say of one setup: why it is refuted (nothing: it stands), and what the move would do.

    `understated` says by how much a cost is that does not refute it.
    """

    against: tuple[str, ...] = ()
    understated: str = ""
    saving_usd_per_month: float | None = None
    speed_ratio: float | None = None
    month_usd: float | None = None
    tokens_per_s: float | None = None
    works: bool = True


@dataclass(frozen=True)
class Truth:
    """Lines for people, a verdict on each setup that was checked, and the best one that is not refuted."""

    lines: Sequence[str] = ()
    verdicts: Mapping[Setup, Verdict] = field(default_factory=dict)
    best: Option | None = None

    def against(self, setup: Setup) -> tuple[str, ...]:
        """Why a setup is refuted; nothing where it stands or was not checked."""
        verdict = self.verdicts.get(setup)
        return () if verdict is None else verdict.against

    def understated(self, setup: Setup) -> str:
        """By how much the cost of a setup that stands is understated; nothing where it is not."""
        verdict = self.verdicts.get(setup)
        return "" if verdict is None else verdict.understated

    def works(self, setup: Setup) -> bool | None:
        """Whether a setup holds the model and carries the load; None where it was not checked."""
        verdict = self.verdicts.get(setup)
        return None if verdict is None else verdict.works
