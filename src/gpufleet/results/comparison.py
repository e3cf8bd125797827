"""Two sets of machines for one model and load, beside each other."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import Refused, Result
from gpufleet.results.plan import Deployment


class Side(Result):
    """One of the two: what was asked about, and the cheapest that it does; None where it cannot serve, with why."""

    asked: str
    deployment: Deployment | None
    refused: list[Refused] = []
    notes: list[str] = []


class RateRange(Result):
    """Rates over which one side costs less: its name, or None where both cost the same or neither `is_served`."""

    from_requests_per_s: float
    to_requests_per_s: float
    cheaper: str | None
    is_served: bool = True


class ChangedInput(Result):
    """An input in which two plans differ."""

    name: str
    first: str
    second: str


class Comparison(Answer):
    """Cost, latency, throughput and memory slack of two setups, and who is cheaper at which rates.

    `ranges` cover a hundredth to a hundred times the rate, all changes in them; where the machines of both fill up in
    turn there are many. `changed_inputs`: what two plan files ask differently; then no rates are compared.
    """

    model: str
    rate_requests_per_s: float
    objectives: dict[str, float]
    first: Side
    second: Side
    ranges: list[RateRange]
    changed_inputs: list[ChangedInput] = []

    @property
    def is_feasible(self) -> bool:
        """Whether both serve."""
        return self.first.deployment is not None and self.second.deployment is not None


class FleetComparison(Answer):
    """Two plans of several models: each model that both have, what all cost together, and models of one side alone."""

    first: str
    second: str
    first_usd_per_hour: float | None
    second_usd_per_hour: float | None
    models: list[Comparison]
    only_first: list[str] = []
    only_second: list[str] = []

    @property
    def is_feasible(self) -> bool:
        """Whether both serve all that they were asked for."""
        return self.first_usd_per_hour is not None and self.second_usd_per_hour is not None
