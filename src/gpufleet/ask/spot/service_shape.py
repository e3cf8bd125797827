"""A service on spot machines: how many, over how many zones, with which spares and what on demand, and how sure."""

from __future__ import annotations

from gpufleet.ask.spot.job_shape import SpotAnswer
from gpufleet.results.base import Figure, Result


class SpotServicePolicy(Result):
    """How the machines of a service are held.

    `floor` are always on demand. The others are on spot, and up to `spares` more: one for each machine in a zone that
    has lost one within `young_s`, None: always all. On demand stands in (`fallback`) for what spot does not have
    (missing), or also for what still starts there (unready), or never (none); it is given back once spot has covered
    for `hold_s`. Spot is ordered where no machine was lost for `calm_s`.
    """

    floor: int
    spares: int
    young_s: float | None = None
    fallback: str
    hold_s: float
    calm_s: float


class SpotServicePlay(Result):
    """One policy, and what it came to in draws that did not choose it; ranges are from the 10th to the 90th percentile.

    `attained`: share of time with all machines ready; `served_ratio`: mean of those that are, of those that are wanted;
    `in_time_ratio`: share of requests that keep their limits, by closed forms.
    """

    policy: SpotServicePolicy
    usd_per_hour: Figure
    attained: Figure
    served_ratio: float
    spot_machines: float
    on_demand_machines: float
    losses_per_day: float
    in_time_ratio: float | None = None


class ReadyShare(Result):
    """The share of time with so many machines ready, and of requests that keep their limits then, where known."""

    machines: int
    time_ratio: float
    in_time_ratio: float | None = None


class ZonesPlay(Result):
    """What the answer's policy comes to over fewer zones."""

    zones: int
    usd_per_hour: float
    attained_ratio: float


class SpotServicePlan(SpotAnswer):
    """A service on spot: the answer, the frontier of cost and time with all machines ready, the markets.

    `fixed`: the cheapest policy whose numbers never change and which keeps the target as far as any does.
    `attained_if_slow_ratio`: of the answer where each start takes as long as at the high end of its range.
    `alone`: all machines on demand. `ready`: how long so many machines are ready under the answer. `why_not`: why it
    stays on demand whatever spot costs, if it does; the answer is that then.
    """

    model: str
    replicas_per_machine: int
    start: Figure
    target_ratio: float
    answer: SpotServicePlay
    frontier: list[SpotServicePlay]
    fixed: SpotServicePlay
    fewer_zones: list[ZonesPlay]
    attained_if_slow_ratio: float
    ready: list[ReadyShare]
    why_not: str = ""

    @property
    def saved_ratio(self) -> float:
        """What it saves over all machines on demand where that is cheapest."""
        return 1 - self.answer.usd_per_hour.value / self.alone.usd

    @property
    def keeps_target(self) -> bool:
        """Whether all machines are ready for as much of the time as was asked."""
        return self.answer.attained.value >= self.target_ratio
