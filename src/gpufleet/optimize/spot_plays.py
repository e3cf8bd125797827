"""What the jobs of a plan cost on spot as drawn markets play them: until their deadline, with on demand as the net."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import Offer
from gpufleet.optimize.drawn_markets import DrawnMarkets, GangWork
from gpufleet.optimize.market import effective_price, on_demand_beside
from gpufleet.optimize.spot import late_ratio
from gpufleet.records import dataclass
from gpufleet.units import DAY, HOUR

LONGEST_RATIO, LONGEST_SLACK_S = 4.0, 7 * DAY
"""A deadline later than so many times the work and so many days after it changes nothing: nobody waits so long."""
AIM_RATIO, FAR_AIM_RATIO = 1.2, 2.0
"""Ends that a job may aim at lie so far apart, up to `LONGEST_RATIO` times the work and beyond it."""
WORSE_RATIO = 1.15
"""Sooner aims are not played once one costs so many times the least: they leave less time for spot."""


@dataclass(frozen=True)
class PlannedJob:
    """Work on so many machines of one offer at once; `write_s` stops it for a checkpoint, None: as often as is best."""

    offer: Offer
    machines: int
    work_s: Spread
    startup_s: float
    write_s: float = 0.0
    checkpoint_every_s: float | None = None


@dataclass(frozen=True, eq=False)
class SpotPlay:
    """What a job came to, one entry a draw: dollars, time of each machine, time from start to end; and in the mean.

    `losses` are stops of all machines together.
    """

    usd: FloatArray
    machine_s: FloatArray
    elapsed_s: FloatArray
    losses: float
    on_demand_ratio: float
    late_ratio: float
    num_zones: int

    @property
    def mean_usd(self) -> float:
        """What it costs in the mean."""
        return float(self.usd.mean())

    def is_late(self, confidence: float) -> bool:
        """Whether more draws end after the deadline than a promise of so much confidence leaves."""
        return self.late_ratio > 1 - confidence

    def end_s(self, confidence: float) -> float:
        """The time by which so large a share of draws ends."""
        return float(np.quantile(self.elapsed_s, confidence, method="inverted_cdf"))


@dataclass(frozen=True, eq=False)
class SpotPlays:
    """Plays of the jobs of one question on drawn markets. `steady` sells machines on demand, whatever else is asked."""

    markets: DrawnMarkets
    deadline_s: float
    steady: Callable[[], Iterable[Offer]]

    @cached_property
    def net(self) -> Mapping[tuple[str, str, str], Offer]:
        """What stands in, by cloud, machine type and region: at a dated price where there is one."""
        offers = list(self.steady())
        return on_demand_beside(offers) | on_demand_beside([offer for offer in offers if offer.is_dated])

    @cached_property
    def _cheapest_net(self) -> Mapping[tuple[str, str], Offer]:
        """What stands in where a region sells nothing on demand, by cloud and machine type: where it costs least."""
        cheapest: dict[tuple[str, str], Offer] = {}
        for (cloud, instance, _), offer in self.net.items():
            known = cheapest.get((cloud, instance))
            if known is None or effective_price(offer) < effective_price(known):
                cheapest[cloud, instance] = offer
        return cheapest

    def beside(self, spot: Offer) -> Offer | None:
        """What stands in for an offer: in its own region, or else where it costs least."""
        own = self.net.get((spot.cloud, spot.instance, spot.region))
        return own or self._cheapest_net.get((spot.cloud, spot.instance))

    def play(self, job: PlannedJob, confidence: float) -> SpotPlay | None:
        """What becomes of a job that aims at the end that costs least; None where nothing stands in for spot.

        Its aims do not depend on the deadline, which only leaves out those beyond it: more time costs never more.
        """
        steady = self.beside(job.offer)
        if steady is None:
            return None
        best = self.aimed(job, steady, (aims := self.aims_s(job))[0])
        for aim_s in aims[1:]:
            found = self.aimed(job, steady, aim_s)
            best = min(best, found, key=lambda play: (play.is_late(confidence), play.mean_usd))
            if found.mean_usd > best.mean_usd * WORSE_RATIO:
                break
        return best

    def aims_s(self, job: PlannedJob) -> list[float]:
        """Ends that a job may aim at and that its deadline leaves, the last first; the soonest where it leaves none.

        From the work and a start on, each a fifth later, then each twice as late.
        """
        work_s, start_s = job.work_s, self.markets.start_ratio.expected * (job.startup_s + job.write_s)
        latest_s = max(LONGEST_RATIO * work_s.high, work_s.high + LONGEST_SLACK_S)
        aims = [work_s.expected + start_s]
        while aims[-1] < latest_s:
            aims.append(aims[-1] * (AIM_RATIO if aims[-1] < LONGEST_RATIO * aims[0] else FAR_AIM_RATIO))
        return [aim for aim in reversed(aims) if aim <= self.deadline_s] or aims[:1]

    def least_usd(self, job: PlannedJob, steady: Offer) -> float:
        """What no play of a job costs less than: all its work and one start, at the lower of both prices."""
        each = min(effective_price(job.offer), effective_price(steady))
        return self.markets.least_machine_s(job.work_s, job.startup_s) / HOUR * job.machines * each

    def aimed(self, job: PlannedJob, steady: Offer, aim_s: float) -> SpotPlay:
        """What becomes of a job that goes on demand in time to end then."""
        work = GangWork(job.machines, job.work_s, job.startup_s, job.write_s, job.checkpoint_every_s)
        prices = (job.machines * effective_price(each) for each in (job.offer, steady))
        runs = self.markets.runs(work, aim_s, *prices)
        machine_s = runs.spot_s + runs.on_demand_s
        return SpotPlay(
            runs.cost_usd,
            machine_s,
            runs.elapsed_s,
            float(runs.losses.mean()),
            float(runs.on_demand_s.sum() / machine_s.sum()),
            late_ratio(runs, self.deadline_s),
            self.markets.num_zones,
        )
