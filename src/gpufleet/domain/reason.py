"""Why something was rejected, as data: which rule said no, what it compared, what it was about. Words are for pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from gpufleet.records import dataclass

Figure: TypeAlias = "float | str | None"


@dataclass(frozen=True)
class Reason:
    """A rule that says no: its code, and what its sentence names, numbers in the base unit of their suffix.

    Equal reasons are counted together. `gpufleet.report.words` has the sentence of every code.

    >>> Reason.of("heads_not_divisible", heads=64, parts=3).figures
    (('heads', 64), ('parts', 3))
    """

    code: str
    figures: tuple[tuple[str, Figure], ...] = ()

    @classmethod
    def of(cls, code: str, **figures: Figure) -> Reason:
        """A reason with its figures by name."""
        return cls(code, tuple(figures.items()))

    def about(self, **figures: Figure) -> Reason:
        """The same with other figures, where it has them: that of a device for all of its generation."""
        return replace(self, figures=tuple((name, figures.get(name, value)) for name, value in self.figures))


@dataclass(frozen=True)
class Rejection:
    """One thing that a rule rejected: `subject` names it, `miss` says how far it missed, `count` what it stands for.

    `shortfall` orders those of one reason: bytes that are missing, times over the limit, USD; 0 where it has no size.
    """

    reason: Reason
    subject: str
    miss: Reason | None = None
    shortfall: float = 0.0
    count: int = 1
