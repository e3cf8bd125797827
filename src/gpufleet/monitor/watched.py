"""What is watched of a plan: equal copies of a model, what they promise and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Range:
    """What is expected of a figure, and what it is between at the plan's confidence; base units."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class WatchedCopies:
    """Equal copies of one model on machines of one offer.

    `name` and `namespace` are those of its deployment. `objectives` are limits of latency, as `ttft.p95`, in seconds;
    `requests_per_s` is the rate that was asked for, `requests_per_s_capacity` what the copies carry. `usd_per_hour` is
    of one machine. `most_running` is how many requests a copy answers at once. What `drafts` gives each sequence a step
    is `accepted_tokens`. `port` and `metrics_path` are where a scraper reads the engine's metrics. `most_machines` is
    the most that a law of scaling may rent, where one runs; without one `machines` are all that are meant. Groups of one
    `pool` share its machines.
    """

    name: str
    namespace: str
    model: str
    engine: str
    metrics: EngineMetrics
    gpu: str
    power_limit_watts: float | None
    replicas: int
    machines: int
    gpus_per_machine: float
    gpus_per_replica: int
    usd_per_hour: float
    objectives: Mapping[str, float]
    latency: Mapping[str, Range]
    requests_per_s: float
    requests_per_s_capacity: Range
    input_tokens: float
    output_tokens: float
    most_running: float
    start_s: float
    vendor: str = "nvidia"
    drafts: str | None = None
    accepted_tokens: Range | None = None
    port: int = 8000
    metrics_path: str = "/metrics"
    cloud: str = ""
    instance: str = ""
    region: str = ""
    pool: int = 0
    takes_every_length: bool = True
    most_machines: int | None = None


@dataclass(frozen=True, eq=False)
class WatchedPlan:
    """All copies of a plan, and the hash by which it is told from others.

    `gpu_metrics` and `cluster_metrics` are those of dcgm-exporter and kube-state-metrics, `xid_codes` the codes of
    each resolution of NVIDIA's catalogue.
    """

    name: str
    plan_hash: str
    copies: Sequence[WatchedCopies]
    gpu_metrics: EngineMetrics | None = None
    cluster_metrics: EngineMetrics | None = None
    xid_codes: Mapping[str, Sequence[int]] | None = None

    @property
    def usd_per_hour(self) -> float:
        """What all machines cost."""
        return sum(each.usd_per_hour * each.machines for each in self.copies)
