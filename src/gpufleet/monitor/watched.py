"""What is watched of a plan: equal copies of a model, what they promise and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Range:
    """What is expected of a figure, and what it is between at the plan's confidence; base units."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ScalingLaw:
    """Copies that a controller (KEDA, HorizontalPodAutoscaler) keeps from `least` to `most`, by targets of one copy.

    `waiting` requests wait, `in_flight` run or wait, `requests_per_s` come, `kv_ratio` of its KV room is taken; None
    where the law does not read it. Fewer copies come `settles_s` after fewer were enough. `machines` of them run on
    average, as it was played; a machine holds `per_machine` copies.
    """

    name: str
    controller: str
    least: int
    most: int
    per_machine: int
    machines: float
    settles_s: float
    waiting: float | None = None
    kv_ratio: float | None = None
    in_flight: float | None = None
    requests_per_s: float | None = None


@dataclass(frozen=True)
class WatchedJob:
    """What a job of batch or training is to take, give and cost.

    `tokens_per_s` are those of all copies: answered ones of a batch, trained ones of a training. `throughput_metric` is
    the user's own; one of it is `tokens_of_one` tokens, and it `is_counter`, or tells a rate itself. A step takes
    `step_tokens`. It comes again every `period_s`; None: once.
    """

    kind: str
    num_gpus: int
    usd: Range
    is_paid_by_the_hour: bool
    finish_s: Range
    deadline_s: float
    period_s: float | None
    tokens_per_s: Range
    step_tokens: float = 0.0
    checkpoint_write_s: float = 0.0
    throughput_metric: str | None = None
    tokens_of_one: float = 1.0
    is_counter: bool = False
    epoch_tokens: float | None = None


@dataclass(frozen=True, eq=False)
class WatchedCopies:
    """Equal copies of one model on machines of one offer.

    `name` and `namespace` are those of its deployment. `objectives` are limits of latency, as `ttft.p95`, in seconds;
    `requests_per_s` is the rate that was asked for, `requests_per_s_capacity` what the copies carry. `usd_per_hour` is
    of one machine. `most_running` is how many requests a copy answers at once. What `drafts` gives each sequence a step
    is `accepted_tokens`. `port` and `metrics_path` are where a scraper reads the engine's metrics. `least_machines` and
    `most_machines` are those of the `law` of scaling, where one runs: `replicas` on `machines` are then the plan's for
    its whole rate. Without one they are all that are meant. Copies of a `job` end with it.
    Groups of one `pool` share its machines.
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
    least_machines: int | None = None
    law: ScalingLaw | None = None
    job: WatchedJob | None = None

    @property
    def usual_machines(self) -> float:
        """Machines on average."""
        return self.machines if self.law is None else self.law.machines

    @property
    def most_copies(self) -> int:
        """As many copies as there may ever be."""
        if self.law is not None:
            return self.law.most
        most = self.machines if self.most_machines is None else self.most_machines
        return ceil(self.replicas * most / self.machines)


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
        """What all machines cost; of those that come and go, on average."""
        return sum(each.usd_per_hour * each.usual_machines for each in self.copies)
