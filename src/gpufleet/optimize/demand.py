"""What is asked of machines: a workload, the slack to keep, and quiet hours."""

from __future__ import annotations

from functools import cached_property

from gpufleet.domain.arrays import Floats
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.workload import Workload
from gpufleet.performance.request_mix import RequestMix, mix_of
from gpufleet.performance.serving import Lengths
from gpufleet.records import dataclass


@dataclass(frozen=True)
class QuietHours:
    """The part of the time in which requests come at a lower rate: machines are given back for it."""

    time_ratio: float
    rate_requests_per_s: float


@dataclass(frozen=True)
class Demand:
    """A workload and how much slack to keep: capacity for rate x (1 + headroom), at least `min_replicas`.

    The busiest stretch of the time has `busiest_requests_per_s`, which capacity is bought for too, without headroom.
    The capacity holds also without `spare_machines` of the machines, or without any one of `zones` that they are
    spread over. Every limit holds with `confidence`: 0.5 is the expected value, 0.9 the high end of its range. In a
    choice, up to `steady_ratio` more is paid for what holds more surely. `played`: copies by name of which a replay
    showed that each carries so many times what the closed form says.
    """

    workload: Workload
    headroom_ratio: float = 0.0
    min_replicas: int = 1
    spare_machines: int = 0
    zones: int = 1
    quiet: QuietHours | None = None
    confidence: float = EXPECTED
    busiest_requests_per_s: float = 0.0
    steady_ratio: float = 0.0
    played: tuple[tuple[str, float], ...] = ()

    @cached_property
    def mix(self) -> RequestMix:
        """The requests as an engine meets them."""
        return mix_of(self.workload)

    @property
    def lengths(self) -> Lengths:
        """Mean tokens of a request."""
        return self.mix.lengths

    @property
    def planned_requests_per_s(self) -> float:
        """The rate that capacity is bought for."""
        return self.workload.rate_requests_per_s * self.planned_ratio

    @property
    def planned_ratio(self) -> float:
        """The rate that capacity is bought for over the mean rate: of a busiest stretch, or with the headroom."""
        wanted = 1 + self.headroom_ratio
        if not self.busiest_requests_per_s:
            return wanted
        return max(wanted, self.busiest_requests_per_s / self.workload.rate_requests_per_s)

    @property
    def busy_ratio(self) -> float:
        """The part of the time at the full rate."""
        return 1.0 if self.quiet is None else 1.0 - self.quiet.time_ratio

    @property
    def quiet_requests_per_s(self) -> float:
        """What the quiet hours add to the rate over all hours."""
        return 0.0 if self.quiet is None else self.quiet.time_ratio * self.quiet.rate_requests_per_s

    @property
    def mean_requests_per_s(self) -> float:
        """The rate over all hours: what a day is charged, heated and billed for."""
        return self.busy_ratio * self.workload.rate_requests_per_s + self.quiet_requests_per_s

    def peak_requests_per_s(self, mean_requests_per_s: Floats) -> Floats:
        """The full rate at which the rate over all hours is this, with the quiet hours as they are."""
        return (mean_requests_per_s - self.quiet_requests_per_s) / self.busy_ratio
