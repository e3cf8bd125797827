"""What was asked about and rejected, with its reason."""

from __future__ import annotations

from gpufleet.results.base import Result


class Refused(Result):
    """One candidate that was asked about and rejected: `candidate` is a replica, or what else the reason is about.

    `shortfall`: bytes that are missing per GPU, or how many times over its limit an objective is; 0 where the reason
    has no size. `count`: layouts that it stands for.
    """

    candidate: str
    reason: str
    detail: str
    shortfall: float
    count: int
