"""Who is cheaper at which rates, as users get it."""

from __future__ import annotations

from gpufleet.optimize.crossover import FIRST, NEITHER, SECOND, Stretch
from gpufleet.results.comparison import RateRange


def rate_ranges(found: list[Stretch], first: str, second: str) -> list[RateRange]:
    """The stretches with the names of who is cheaper."""
    return [
        RateRange(
            from_requests_per_s=s.from_requests_per_s,
            to_requests_per_s=s.to_requests_per_s,
            cheaper={FIRST: first, SECOND: second}.get(s.cheaper),
            is_served=s.cheaper != NEITHER,
        )
        for s in found
    ]
