"""An objective as a replay kept it."""

from __future__ import annotations

from gpufleet.results.base import Figure, Result


class SimulatedObjective(Result):
    """A limit, the share of requests within its seconds, and the figure that it limits.

    Requests that were refused, timed out or were too long are outside. `is_kept`: of a percentile, that as large a
    share as it names is within; `is_sure`: both ends of the 80 % range of that share say the same.
    """

    label: str
    limit_s: float
    figure: Figure | None
    within_ratio: Figure
    is_kept: bool
    is_sure: bool
