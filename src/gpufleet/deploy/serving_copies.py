"""Equal copies of a model as files start them: what each asks of its machine, how it is reached and stopped."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from gpufleet.domain.engine_metrics import EngineMetric
from gpufleet.domain.instance import Instance
from gpufleet.errors import UsageError
from gpufleet.records import dataclass
from gpufleet.units import GIB, HOUR

RESERVED_CORES = ((1.0, 0.06), (1.0, 0.01), (2.0, 0.005), (math.inf, 0.0025))
RESERVED_GIB = ((4.0, 0.25), (4.0, 0.20), (8.0, 0.10), (112.0, 0.06), (math.inf, 0.02))
"""What a node keeps of so many cores and GiB, slice by slice: the most of the managed services, of Google's
(cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, read 2026-11-29)."""
EVICTION_GIB = 0.1
OF_DAEMONS_CORES, OF_DAEMONS_GIB = 0.5, 1.0
"""What agents of the node take beside: logs, metrics, the device plugin; a judgement."""
SHARED_GIB = 8.0
"""/dev/shm of a copy over several GPUs, in memory: NCCL and workers of an engine exchange through it; a judgement."""
IMAGE_GIB, SPARE_DISK_RATIO = 20.0, 1.2
"""Disk of an engine's image once unpacked, and room beside weights for what a download leaves; judgements."""
LEAST_START_S, LEAST_GRACE_S, MOST_GRACE_S = 300, 60, int(HOUR)
LEAVING_S, STOPPING_S = 15, 15
"""How long a copy answers on after it has left the service, and what an engine needs to end after its last answer."""
RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
INSTANCE_LABEL, OWN_LABEL = "node.kubernetes.io/instance-type", "gpufleet/pool"
ROUTINGS = LEAST_BUSY, WEIGHTS, PRIORITY, PREFIX = "least_busy", "weights", "priority", "prefix"
"""How a router deals requests out."""
TOKEN_SECRET = "hf-token"
HOST, PATH = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?/)?", r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
IMAGE = re.compile(rf"{HOST}{PATH}(?:/{PATH})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?")
MOST_OF_AN_IMAGE = 255 + 1 + 128
"""A name has so many characters at most, and a tag behind it."""
LABELLED_CLOUDS = ("aws", "gcp", "azure")
"""Clouds whose managed Kubernetes puts the machine type on nodes, as a label of its own."""


@dataclass(frozen=True)
class Reached:
    """Where an engine listens, and what it is told so that others than its own machine reach it and its metrics.

    `options` are lines of its options file. `metrics` is where a scraper reads them.
    """

    port: int
    words: tuple[str, ...] = ()
    ready: str = "/health"
    metrics: str = "/metrics"
    options: str = ""


REACHED = {
    "vllm": Reached(8000),
    "sglang": Reached(30000, ("--host", "0.0.0.0", "--port", "30000", "--enable-metrics")),
    "tensorrt-llm": Reached(
        8000,
        ("--host", "0.0.0.0", "--port", "8000"),
        metrics="/prometheus/metrics",
        options="return_perf_metrics: true\n",
    ),
}
"""Metrics are off by default in two: enable_metrics of sglang/srt/server_args.py; TensorRT-LLM shows them at
/prometheus/metrics with return_perf_metrics (NVIDIA/TensorRT-LLM pull/5785)."""


@dataclass(frozen=True)
class ScaledWindow:
    """Copies from `start_s` to `end_s` after midnight, on days of the week from Monday = 1 on."""

    days: tuple[int, ...]
    start_s: float
    end_s: float
    copies: int


@dataclass(frozen=True, eq=False)
class Scaling:
    """How many copies there are: between `least` and `most`, by what a law reads; None where it does not read it.

    Windows are of `timezone` and start `lead_s` early. `in_flight` requests run or wait per copy on average;
    `rate_per_s` requests come per copy over `rate_window_s`, with those that wait as if they came within `drain_s`;
    `waiting` requests wait per copy, `kv_ratio` of its KV cache is in use. Fewer copies after `down_window_s` that
    wanted no more, none after `cooldown_s` where `least` is none. `fallback` copies where nothing can be read;
    `metrics` are those of the engine's version, by what they measure.
    """

    law: str
    controller: str
    least: int
    most: int
    per_machine: int
    fallback: int
    windows: tuple[ScaledWindow, ...] = ()
    lead_s: float = 0.0
    timezone: str = "UTC"
    in_flight: float | None = None
    rate_per_s: float | None = None
    rate_window_s: float = 0.0
    drain_s: float | None = None
    waiting: float | None = None
    kv_ratio: float | None = None
    down_window_s: float = 0.0
    poll_s: float = 15.0
    cooldown_s: float = 300.0
    prometheus: str = ""
    metrics: Mapping[str, EngineMetric] = field(default_factory=dict)

    @property
    def reads_metrics(self) -> bool:
        """Whether it asks Prometheus."""
        return any(limit is not None for limit in (self.in_flight, self.rate_per_s, self.waiting, self.kv_ratio))


@dataclass(frozen=True, eq=False)
class ServingCopies:
    """`replicas` equal copies, `per_machine` on each of `machines`, as any tool starts them.

    Groups of one `service` answer its requests together. Groups of one `pool` share its machines; the GPUs of this one
    begin at `first_gpu` there.

    `cpus` and `memory_gib` are what a copy may have of its node beside the others and what the node keeps; None where
    the machine's own are not known; `vcpus` are all of a machine. `start_s` is how long a start may take, `grace_s` how
    long one that is told to stop may answer what it has begun. `options` is a file that the command reads, by
    `options_file`. `usd_per_hour` is of all machines; `requests_per_s` is what a copy carries, `most_requests` how many
    it answers at once. `shares` are those of the model's requests that all copies of the group get, by the longest
    prompt in tokens; None: of any length. A router deals them out by `routing`; None: there is none. `scaling` says how
    many there are where that changes; None: `replicas` at any time. The token of the hub is in `secret`; weights are on
    the volume of `claim`, None: each copy loads them for itself.
    """

    name: str
    service: str
    model: str
    engine: str
    image: str
    arguments: Sequence[str]
    replicas: int
    machines: int
    gpus: int
    vendor: str
    reached: Reached
    pool: int
    node_labels: Mapping[str, str]
    cloud: str
    region: str
    instance: str
    price_kind: str
    usd_per_hour: float
    gpu: str
    gpus_per_machine: float
    vcpus: int | None
    requests_per_s: float
    most_requests: int
    shares: Mapping[float | None, float]
    cpus: float | None
    memory_gib: int | None
    shared_gib: float
    disk_gib: int
    start_s: int
    grace_s: int
    first_gpu: int = 0
    routing: str | None = None
    options_file: str | None = None
    options: str | None = None
    secret: str = TOKEN_SECRET
    claim: str | None = None
    scaling: Scaling | None = None

    @property
    def varies(self) -> bool:
        """Whether copies come and go: a law may say that there are always as many."""
        return self.scaling is not None and self.scaling.least != self.scaling.most

    @property
    def most(self) -> int:
        """The most copies that there are at any time."""
        return self.replicas if self.scaling is None else self.scaling.most

    @property
    def least_machines(self) -> int:
        """The fewest machines at any time."""
        return self.machines if self.scaling is None else math.ceil(self.scaling.least / self.per_machine)

    @property
    def most_machines(self) -> int:
        """The most machines at any time."""
        return self.machines if self.scaling is None else math.ceil(self.scaling.most / self.per_machine)

    @property
    def share_ratio(self) -> float:
        """The share of the model's requests of any length that the copies get."""
        return self.shares[None]

    @property
    def per_machine(self) -> int:
        """Copies on one machine."""
        return self.scaling.per_machine if self.scaling is not None else math.ceil(self.replicas / self.machines)

    @property
    def gpu_resource(self) -> str:
        """GPUs as Kubernetes counts them."""
        return RESOURCES[self.vendor]


def room_of_node(machine: Instance) -> tuple[float | None, float | None]:
    """Cores and GiB that pods may have of a machine: less what the node keeps, and what its agents take.

    >>> from gpufleet.catalog.load import load_catalog
    >>> cores, gib = room_of_node(load_catalog().instances["aws", "g5.12xlarge"])
    >>> round(cores, 2), round(gib, 1)
    (47.31, 180.3)
    """
    cores, gib = machine.vcpus, machine.memory_gib
    left = None if cores is None else cores - reserved(cores, RESERVED_CORES) - OF_DAEMONS_CORES
    room = None if gib is None else gib - reserved(gib, RESERVED_GIB) - EVICTION_GIB - OF_DAEMONS_GIB
    return left, room


def reserved(amount: float, slices: Sequence[tuple[float, float]]) -> float:
    """The share that is kept of each slice of an amount.

    >>> round(reserved(16.0, RESERVED_GIB), 2)
    2.6
    """
    kept, rest = 0.0, float(amount)
    for size, share in slices:
        taken = min(rest, size)
        kept, rest = kept + taken * share, rest - taken
    return kept


def share_of_node(machine: Instance, share: float) -> tuple[float | None, int | None]:
    """Cores, to a tenth, and whole GiB that a copy may have that gets such a share of a machine."""
    cores, gib = room_of_node(machine)
    return (
        None if cores is None else max(math.floor(10 * cores * share) / 10, 0.1),
        None if gib is None else max(math.floor(gib * share), 1),
    )


def disk_gib(weights_bytes: float) -> int:
    """Disk of a node for a copy: image and weights, with room to spare."""
    return math.ceil(SPARE_DISK_RATIO * weights_bytes / GIB + IMAGE_GIB)


def node_labels(cloud: str, instance: str, pool: str) -> dict[str, str]:
    """The label by which pods find nodes of a machine type: the cloud's own, else one that is put on them."""
    return {INSTANCE_LABEL: instance} if cloud in LABELLED_CLOUDS else {OWN_LABEL: pool}


def routing_named(name: str) -> str:
    """A way to deal out requests, as it is told apart.

    >>> routing_named("least-busy")
    'least_busy'
    """
    found = name.strip().casefold().replace("-", "_")
    if found not in ROUTINGS:
        raise UsageError("unknown routing", found=name, expected=f"one of {', '.join(ROUTINGS)}")
    return found


def image_named(name: str) -> str:
    """An image as a container runtime reads its name, or an error: github.com/distribution/reference, its grammar.

    >>> image_named("registry.example:5000/team/engine:1.2")
    'registry.example:5000/team/engine:1.2'
    """
    if len(name) > MOST_OF_AN_IMAGE or not IMAGE.fullmatch(name):
        raise UsageError("--image names no image", found=name, expected="such as registry.example/engine:1.2")
    return name


def is_pinned(image: str) -> bool:
    """Whether the name of an image means the same one tomorrow: by a digest, or a tag other than the newest's.

    >>> is_pinned("a:5000/b"), is_pinned("b:latest"), is_pinned("b:1.2"), is_pinned("b@sha256:0")
    (False, False, True, True)
    """
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@" in image or tag not in ("", "latest")
