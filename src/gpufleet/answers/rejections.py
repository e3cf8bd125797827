"""What was rejected and why, as users get it: the code of each reason with its figures, and both in words."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.domain.reason import Rejection
from gpufleet.optimize.replicas import Rejections
from gpufleet.report.words import nearest_miss, sentence
from gpufleet.results.plan import RejectionCount
from gpufleet.results.refused import Refused


def rejection_counts(rejections: Rejections) -> list[RejectionCount]:
    """How many candidates each reason rejected, the commonest first."""
    return [
        RejectionCount(
            code=nearest.reason.code,
            figures=dict(nearest.reason.figures),
            reason=sentence(nearest.reason),
            count=count,
            best=nearest_miss(nearest),
        )
        for count, nearest in rejections.rows()
    ]


def refusals(kept: Iterable[Rejection]) -> list[Refused]:
    """All that was rejected, the nearest miss of each reason first."""
    return [refused(r) for r in sorted(kept, key=lambda r: (r.reason.code, str(r.reason.figures), r.shortfall))]


def refused(rejection: Rejection) -> Refused:
    """One rejection: what it is about, why, and how far it missed."""
    reason, miss = rejection.reason, rejection.miss
    return Refused(
        candidate=rejection.subject,
        code=reason.code,
        figures=dict(reason.figures),
        reason=sentence(reason),
        missed_by={} if miss is None else dict(miss.figures),
        detail="" if miss is None else sentence(miss),
        shortfall=rejection.shortfall,
        count=rejection.count,
    )
