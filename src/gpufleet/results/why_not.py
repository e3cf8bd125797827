"""Why some GPUs are not the answer of a plan."""

from __future__ import annotations

from gpufleet.optimize.replicas import EveryRejection, Rejection
from gpufleet.optimize.serve import ServeQuestion, ServeSolution
from gpufleet.results.plan import Deployment, Refused
from gpufleet.results.serve_plan import Context, deployment


def best_of(question: ServeQuestion, solution: ServeSolution) -> Deployment | None:
    """The cheapest that a question leads to."""
    return deployment(Context.of(question, solution), solution.ranked[0]) if solution.ranked else None


def price_to_win(cheapest: Deployment | None, answer: Deployment | None) -> float | None:
    """The price of a machine at which what was asked about costs as much as the answer.

    p = cost of the answer / machines needed   [USD/hour]
    """
    if cheapest is None or answer is None:
        return None
    return answer.usd_per_hour / cheapest.instance_count


def refusals(rejections: EveryRejection) -> list[Refused]:
    """All that was rejected, the nearest miss of each reason first."""
    return [refused(r) for r in sorted(rejections.kept, key=lambda r: (r.reason, r.shortfall))]


def refused(rejection: Rejection) -> Refused:
    """One rejection, what it is about parted from how far it missed."""
    candidate, _, detail = rejection.what.partition(": ")
    return Refused(
        candidate=candidate,
        reason=rejection.reason,
        detail=detail,
        shortfall=rejection.shortfall,
        count=rejection.count,
    )
