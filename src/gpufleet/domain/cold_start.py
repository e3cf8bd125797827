"""What passes from the wish for one more replica until it serves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from enum import Enum

from gpufleet.domain.interruption import Spread
from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass


class Compiled(str, Enum):
    """Whether an engine that compiles a model finds what an earlier start compiled."""

    CACHED = "cached"
    FRESH = "fresh"
    NONE = "none"


@dataclass(frozen=True)
class NodeStart:
    """How a machine comes up: from the request until the node is ready, and how its image is pulled.

    A machine's line to storage carries at most `line_bytes_per_s`, whatever its GPUs have to other machines.
    """

    ready_s: Sourced
    ready_grade: Grade
    image_bytes: Sourced
    image_bytes_per_s: Sourced
    image_grade: Grade
    line_bytes_per_s: Sourced


@dataclass(frozen=True)
class Storage:
    """Where weights lie, and how fast they come from there.

    `machine_bytes_per_s`: what one machine gets; where it is None, `line_ratio` of its line. `process_bytes_per_s`:
    what the loader of one device takes; None: as much as comes.
    """

    name: str
    title: str
    machine_bytes_per_s: Sourced | None
    line_ratio: Sourced | None
    process_bytes_per_s: Sourced | None
    grade: Grade

    def __post_init__(self) -> None:
        if (self.machine_bytes_per_s is None) == (self.line_ratio is None):
            raise ValueError(f"storage {self.name}: needs a rate of a machine or a share of its line, and not both")


@dataclass(frozen=True)
class EngineStart:
    """Seconds of one engine's start, without its weights.

    `process_s`: from the command on, what neither reads weights nor warms up. `compile_s` and `compile_s_per_layer`:
    with what an earlier start compiled at hand; `fresh_compile_s` more without; None: the engine compiles nothing.
    `warm_up_s` and `warm_up_s_per_byte` (weights of a device): profiling of memory, capture of graphs, first steps.
    """

    name: str
    process_s: Sourced
    compile_s: Sourced | None
    compile_s_per_layer: Sourced | None
    fresh_compile_s: Sourced | None
    warm_up_s: Sourced
    warm_up_s_per_byte: Sourced
    grade: Grade

    def __post_init__(self) -> None:
        parts = (self.compile_s, self.compile_s_per_layer, self.fresh_compile_s)
        if len({part is None for part in parts}) > 1:
            raise ValueError(f"engine {self.name}: compiling is described in part")


@dataclass(frozen=True)
class ColdStartFacts:
    """Everything that is known of starts: machines, storage by name, engines by name, and any other engine.

    `sources` names all documents that the figures rest on.
    """

    node: NodeStart
    storages: Mapping[str, Storage]
    engines: Mapping[str, EngineStart]
    other_engine: EngineStart
    sources: tuple[str, ...] = ()

    def engine(self, name: str) -> EngineStart:
        """The start of this engine; of one that nobody described, a prior."""
        return self.engines.get(name, self.other_engine)


@dataclass(frozen=True)
class ReplicaToStart:
    """One replica that is to be started: what it reads, on how many devices of how many machines, and what is there.

    `warm_node`: the machine runs and holds the image. `line_bytes_per_s`: what its network carries; None: not known.
    `storage_bytes_per_s`: what the storage gives each machine, where that is known; `image_bytes` likewise.
    """

    weights_bytes: float
    num_layers: int
    num_devices: int = 1
    num_machines: int = 1
    warm_node: bool = False
    compiled: Compiled = Compiled.FRESH
    line_bytes_per_s: Spread | None = None
    storage_bytes_per_s: float | None = None
    image_bytes: float | None = None

    def __post_init__(self) -> None:
        sizes = (self.weights_bytes, self.storage_bytes_per_s, self.image_bytes)
        if any(size is not None and not (math.isfinite(size) and size > 0) for size in sizes):
            raise ValueError(f"replica to start: bytes and rates are positive, found {sizes}")
        if not 1 <= self.num_machines <= self.num_devices or self.num_layers < 1:
            raise ValueError(f"replica to start: {self.num_devices} devices on {self.num_machines} machines")


@dataclass(frozen=True)
class StartStage:
    """One stage of a start, with its 10th and 90th percentile or what the sources span, and where it comes from."""

    name: str
    seconds: float
    low_s: float
    high_s: float
    source: str
    grade: Grade

    def __post_init__(self) -> None:
        if not 0 <= self.low_s <= self.seconds <= self.high_s < math.inf:
            raise ValueError(f"{self.name}: low, expected and high are out of order: {self!r}")


@dataclass(frozen=True)
class ColdStart:
    """The stages of a start, one after the other, and all of them together."""

    stages: tuple[StartStage, ...]
    seconds: float
    low_s: float
    high_s: float

    @property
    def grade(self) -> Grade:
        """The worst grade of its stages."""
        return max(stage.grade for stage in self.stages)


@dataclass(frozen=True)
class ObservedStart:
    """One start, or a stage of one, as it was published."""

    id: str
    stage: str
    seconds: float
    weights_gb: float | None
    num_layers: int | None
    num_devices: int | None
    engine: str
    version: str
    hardware: str
    storage: str
    source_id: str
    as_of: date
    evidence: str
    what: str
