"""Laws of scaling that KEDA runs from triggers of a clock and of Prometheus: each asks for machines, the most counts.

KEDA hands each trigger to one HorizontalPodAutoscaler as an External metric with a target per replica, which computes
replicas of each metric by itself and takes the most.   Source: keda.sh/docs/latest/reference/scaledobject-spec,
scalers/cron, scalers/prometheus
"""

from __future__ import annotations

from collections import deque

from gpufleet.simulate.scaling import Seen, Service
from gpufleet.simulate.scaling_policies import Behaviour, Stabilised, hpa_desired_of_total
from gpufleet.simulate.week_of_windows import Clocked
from gpufleet.units import MINUTE

RATE_WINDOW_S = MINUTE
OF_A_CLOCK = 1.0
"""The target per replica of a cron trigger, whose metric is the number of replicas itself."""


class CronWindows:
    """Machines by the clock alone; one at the least."""

    def __init__(self, windows: Clocked) -> None:
        self.windows = windows
        self.steady = Stabilised(Behaviour(down_window_s=0.0))

    def decide(self, seen: Seen) -> int:
        """The law, once in a sync period, which is a tick."""
        wanted = hpa_desired_of_total(seen.replicas, self.windows.at(seen.time_s), OF_A_CLOCK)
        return max(self.steady.next(seen.time_s, seen.replicas, wanted), 1)


class KedaRate:
    """Requests per second that come, and those that wait, to be worked off within `drain_s`; windows beside it.

    One Prometheus trigger: (rate over a minute + waiting / drain_s) over a share of the rate that the plan gives a
    replica. Who waits is late already, and so is everybody behind: a rate alone never catches up.
    """

    def __init__(
        self,
        service: Service,
        target_ratio: float = 0.8,
        drain_s: float = MINUTE,
        down_window_s: float = 300.0,
        windows: Clocked | None = None,
    ) -> None:
        self.target_per_s, self.drain_s, self.windows = target_ratio * service.planned_per_s, drain_s, windows
        self.rates: deque[float] = deque(maxlen=max(round(RATE_WINDOW_S / service.tick_s), 1))
        self.steady = Stabilised(Behaviour(down_window_s=down_window_s))

    def decide(self, seen: Seen) -> int:
        """The law, once in a sync period, which is a tick."""
        self.rates.append(seen.rate_per_s)
        load_per_s = sum(self.rates) / len(self.rates) + seen.waiting_in_all / self.drain_s
        wanted = hpa_desired_of_total(seen.replicas, load_per_s, self.target_per_s)
        if self.windows is not None:
            clock = hpa_desired_of_total(seen.replicas, self.windows.at(seen.time_s), OF_A_CLOCK)
            wanted = max(wanted, clock)
        return max(self.steady.next(seen.time_s, seen.replicas, wanted), 1)
