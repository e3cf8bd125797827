"""What was asked about and rejected, with its reason."""

from __future__ import annotations

from gpufleet.results.base import Result


class Refused(Result):
    """One candidate that was asked about and rejected: `candidate` is a replica, or what else the reason is about.

    `code` names the rule, `figures` what it compared and `missed_by` what this lacks, in base units; `reason` and
    `detail` say both in words.

    `shortfall`: bytes that are missing per GPU, or how many times over its limit an objective is; 0 where the reason
    has no size. `count`: layouts that it stands for.
    """

    candidate: str
    code: str = ""
    figures: dict[str, float | str | None] = {}
    missed_by: dict[str, float | str | None] = {}
    reason: str
    detail: str
    shortfall: float
    count: int

    @property
    def rule(self) -> tuple[object, ...]:
        """The rule with its figures: equal where the same rule rejected."""
        return (self.code, *self.figures.items())
