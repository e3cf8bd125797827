"""A plan's figures beside those of its requests replayed one by one."""

from __future__ import annotations

from gpufleet.results.base import Figure, Result
from gpufleet.results.levers import FlipWinner


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


class VerifiedObjective(Result):
    """An objective as it was planned and as it came out."""

    planned: Figure
    replayed: SimulatedObjective


class VerifiedDeployment(Result):
    """A deployment under Poisson arrivals, or those of a trace at the planned rate.

    `needed_replicas` keep every objective where those of the plan do not, on `needed_instance_count` machines for
    `needed_usd_per_hour`; None where those of the plan suffice, or where not even `most_replicas` do.
    """

    cloud: str
    region: str
    instance: str
    instance_count: int
    replicas: int
    arrivals: str
    num_requests: int
    objectives: list[VerifiedObjective]
    is_kept: bool
    needed_replicas: int | None = None
    needed_instance_count: int | None = None
    needed_usd_per_hour: float | None = None
    most_replicas: int


class DrawnSpeeds(Result):
    """The answer in draws of its engine's speed from the range of its steps, one draw for all copies.

    `kept_draws` keep every limit under all arrivals. `sufficient_instance_count` machines, the fewest, keep them as
    surely as was asked, and the headroom as expected; None where it takes those of the plan, or over thrice as many.
    `planned`: the answer of the closed form, where the draws made another of it.
    """

    num_draws: int
    kept_draws: int
    confidence: float
    sufficient_instance_count: int | None = None
    sufficient_usd_per_hour: float | None = None
    planned: FlipWinner | None = None


class Verification(Result):
    """Deployments of a plan, replayed: the answer first, under each kind of arrivals; what the plan charges for them.

    `routing`: how requests are dealt out among replicas.
    """

    deployments: list[VerifiedDeployment]
    routing: str
    seed: int
    drawn: DrawnSpeeds | None = None

    @property
    def of_answer(self) -> list[VerifiedDeployment]:
        """The answer under each kind of arrivals."""
        first = self.deployments[0] if self.deployments else None
        return [d for d in self.deployments if first and (d.instance, d.region) == (first.instance, first.region)]

    @property
    def is_kept(self) -> bool:
        """Whether the answer keeps every objective under all arrivals."""
        return all(d.is_kept for d in self.of_answer)
