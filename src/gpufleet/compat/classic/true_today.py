"""The same question put to the catalog and the model of the full install."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from gpufleet.compat.classic.analysis import Analysis
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.records import dataclass

HOW_TO_GET_IT = (
    "Needs the full install: 'pip install .' in the clone, or 'make plan' there and its .venv/bin/python instead of "
    "python3. The arithmetic below needs nothing."
)


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


def true_today(answer: Analysis) -> Truth:
    """What catalog and model say of today's setup and of every option, or how to get that."""
    try:
        from gpufleet.compat.classic.comparison import comparison
    except ImportError:
        return Truth([HOW_TO_GET_IT])
    return comparison(answer)
