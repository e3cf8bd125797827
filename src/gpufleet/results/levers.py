"""What moves the bill of a plan most: certainty, and each single change of the question."""

from __future__ import annotations

from gpufleet.results.base import Result
from gpufleet.results.flips import FlipWinner


class CertaintyPrice(Result):
    """The cheapest machines that keep every limit with a confidence; None where nothing on offer does.

    `gpu`: theirs.
    """

    confidence: float
    gpu: str = ""
    winner: FlipWinner | None
