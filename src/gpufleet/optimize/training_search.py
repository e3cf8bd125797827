"""The layouts of a training run on every number of machines of every kind: which of them is fastest, and fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from gpufleet.architecture.parameters import num_active_parameters
from gpufleet.domain.accelerator import Accelerator, pcie_bytes_per_s
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.confidence import HIGH_END
from gpufleet.domain.failures import Failures
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Interruptions
from gpufleet.domain.network import WHOLE_MACHINE_GPUS, Network
from gpufleet.domain.offer import Offer
from gpufleet.domain.own_stack import OwnStack
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.domain.training_runs import TrainingRuns
from gpufleet.domain.training_time import TrainingTimeConstants
from gpufleet.layout.training import FINE, Cluster, Grid, joined, rows_of, training_layouts
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.optimize.own_steps import own_steps
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.spot_plays import SpotPlays
from gpufleet.optimize.training_machines import trains_on
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_bounds import time_bounds
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime
from gpufleet.records import dataclass
from gpufleet.units import GIB

TOO_LARGE, NO_LAYOUT = Reason("training_too_large"), Reason("training_no_layout")
HOST_TOO_SMALL = Reason("training_host_too_small")
HostKey = tuple[str, float, bool, float, float, float, bool]
MACHINE_COUNTS = (1, *(n for power in range(14) for n in (2 << power, 3 << power)))
"""Numbers of machines that are tried: 1, 2, 3, 4, 6, 8, 12, ..."""
LEAST_USE_RATIO = 1 / 16
"""Machines are tried up to this part of what arithmetic alone would reach: beyond it more of them only cost more."""
ALWAYS_TRIED_GPUS = 64
"""GPUs up to which every number is tried: what one holds with recomputing, several may hold without."""
MOST_GPUS, MOST_SMALL_MACHINES = 65_536, 16
"""Machines of fewer GPUs are joined only where their network is published, and no more than so many of them."""


@dataclass(frozen=True)
class TrainingGoal:
    """What is to be trained, by when, on how much: `counts` fixes the GPUs of a type, the others are searched.

    `deadline_s` runs from the start of the machines, which take `startup_s`; infinite: none. The run is done in time
    with `confidence`. At most `most_gpus` of a type; GPUs may stay idle where `may_idle`. Machines of few GPUs work
    together where `joins_small_machines`: who fine-tunes takes a larger one. Many
    machines are on spot at once where it `takes_spot_gangs`.
    """

    tokens: float
    global_batch: int
    deadline_s: float = math.inf
    startup_s: float = 0.0
    headroom_ratio: float = 0.0
    confidence: float = 0.5
    most_usd: float = math.inf
    most_gpus: int = MOST_GPUS
    counts: Mapping[str, int] | None = None
    may_idle: bool = False
    most_machines: float = math.inf
    joins_small_machines: bool = True
    takes_spot_gangs: bool = True

    def steps(self, recipe: Recipe) -> float:
        """Steps of the whole run."""
        return math.ceil(self.tokens / (self.global_batch * recipe.sequence_tokens))


@dataclass(frozen=True)
class Surroundings:
    """What stands around a run: failures, spot machines, storage, and the network of each machine type.

    `num_rows` of the answer are looked at: so many are played on drawn spot markets, by `plays`.
    """

    failures: Failures
    interruptions: Interruptions
    runs: TrainingRuns
    networks: Mapping[tuple[str, str], Network]
    plays: SpotPlays | None = None
    num_rows: int = 1


@dataclass(frozen=True)
class TrainingQuestion:
    """A model under a recipe, the goal, and what may be rented."""

    arch: Architecture
    recipe: Recipe
    goal: TrainingGoal
    accelerators: Mapping[str, Accelerator]
    instances: tuple[Instance, ...]
    offers: tuple[Offer, ...]
    around: Surroundings
    time: TrainingTimeConstants
    memory: TrainingMemoryConstants
    software_year: float | None = None
    own: OwnStack | None = None
    grid: Grid = FINE
    is_layout_fixed: bool = False


@dataclass(frozen=True, eq=False)
class RatedCluster:
    """A cluster with its fastest layout: a row of `time`, its step and how far that may be off."""

    cluster: Cluster
    time: TrainingTime
    row: int
    step_s: float
    low_ratio: float
    high_ratio: float


@dataclass(frozen=True, eq=False)
class TrainingSearch:
    """The search for one question: clusters of every host, their layouts, what they take."""

    question: TrainingQuestion
    calibration: Calibration

    @cached_property
    def hosts(self) -> dict[HostKey, int]:
        """Machines that differ, by what decides how fast they train, and the place of each among `machines`."""
        found: dict[HostKey, int] = {}
        for instance in self.question.instances:
            if self.runs_on(instance):
                found.setdefault(self.host_of(instance), len(found))
        return found

    @cached_property
    def machines(self) -> tuple[TrainingMachine, ...]:
        """One machine of each host."""
        return tuple(self.machine_of(*host) for host in self.hosts)

    @cached_property
    def model(self) -> KernelModel:
        """The model on all machines."""
        return KernelModel(self.question.arch, self.question.recipe, self.machines, self.calibration)

    def runs_on(self, instance: Instance) -> bool:
        """Whether a training stack runs on a machine's GPUs in the arithmetic of the recipe."""
        gpu = self.question.accelerators[instance.accelerator]
        return instance.gpu_count >= 1 and trains_on(gpu, self.question.recipe.formats.peak)

    def host_of(self, instance: Instance) -> HostKey:
        """What decides how fast machines of a type train together: their own memory too, where anything lies there."""
        network = self.question.around.networks[instance.cloud, instance.name]
        has_known = self.question.recipe.uses_host_memory and instance.memory_gib is not None
        host_bytes = (instance.memory_gib or 0.0) * GIB if has_known else math.inf
        gpu, gpu_count, is_switched, _, link = instance.host
        return gpu, gpu_count, is_switched, link, host_bytes, network.bytes_per_s.expected, network.is_known

    def machine_of(
        self,
        accelerator: str,
        gpu_count: float,
        is_switched: bool,
        link: float,
        host_bytes: float,
        network: float,
        is_known: bool,
    ) -> TrainingMachine:
        """The machine of a host; GPUs whose link nobody knows exchange through their slots."""
        gpu = self.question.accelerators[accelerator]
        known = link or pcie_bytes_per_s(gpu.pcie_generation)
        is_pcie = not (is_switched and link)
        return TrainingMachine(gpu, int(gpu_count), is_pcie, known, network, not is_known, host_bytes)

    def most_joined(self, device: int) -> float:
        """How many machines of a host work together."""
        goal, is_whole = self.question.goal, self.machines[device].num_gpus >= WHOLE_MACHINE_GPUS
        is_published = list(self.hosts)[device][-1]
        joins = is_whole or (is_published and (goal.joins_small_machines or goal.counts is not None))
        if not joins:
            return 1
        return min(math.inf if is_whole else MOST_SMALL_MACHINES, goal.most_machines)

    def clusters(self) -> list[Cluster]:
        """Every number of machines of every host that is worth trying; the most of a host of which none is enough."""
        return [
            Cluster(device, machine, num_gpus, self.question.goal.may_idle)
            for device, machine in enumerate(self.machines)
            for num_gpus in self.joined_counts(device)
        ]

    def joined_counts(self, device: int) -> list[int]:
        """GPUs of a host that are tried and work together; where they are too few, the answer says what is missing."""
        goal, machine = self.question.goal, self.machines[device]
        joined_gpus = self.most_joined(device) * machine.num_gpus
        if goal.counts is not None:
            return [num_gpus for num_gpus in self.gpu_counts(machine) if num_gpus <= joined_gpus]
        most = min(joined_gpus, goal.most_gpus)
        counts = [num_gpus for num_gpus in self.gpu_counts(machine) if num_gpus <= most]
        if counts:
            return counts
        return [n * machine.num_gpus for n in MACHINE_COUNTS if n * machine.num_gpus <= most][-1:]

    def gpu_counts(self, machine: TrainingMachine) -> Iterator[int]:
        """GPUs of a host that are tried: as asked, else enough for the deadline and the model, and not far more."""
        goal, gpu = self.question.goal, machine.accelerator
        if goal.counts is not None:
            wanted = goal.counts.get(gpu.name)
            if wanted is not None and (wanted % machine.num_gpus == 0 or wanted < machine.num_gpus):
                yield wanted
            return
        least = max(self.least_gpus_in_time(machine), self.least_gpus_in_memory(machine))
        most = max(least / LEAST_USE_RATIO, machine.num_gpus, ALWAYS_TRIED_GPUS)
        for count in MACHINE_COUNTS:
            if least <= count * machine.num_gpus <= most:
                yield count * machine.num_gpus

    def least_gpus_in_time(self, machine: TrainingMachine) -> float:
        """GPUs that would be in time at their peak; fewer are never.

        passes x 2 x active weights x tokens / (peak x time)   [GPUs]
        """
        goal, recipe = self.question.goal, self.question.recipe
        left_s = goal.deadline_s - goal.startup_s
        if math.isinf(left_s):
            return 1.0
        peaks = machine.accelerator.peak_flop_per_s
        peak = max(peaks.get(name, 0.0) for name in (recipe.formats.peak, "bf16", "fp16"))
        passes = 2 if recipe.is_frozen_base else 3
        flop = passes * 2 * num_active_parameters(self.question.arch) * goal.tokens
        return flop / ((peak or math.inf) * left_s)

    def least_gpus_in_memory(self, machine: TrainingMachine) -> float:
        """GPUs whose memory holds the states once."""
        q = self.question
        one = single_layout(machine)
        states = training_memory(q.arch, q.recipe, one, machine.accelerator.memory_bytes, q.memory)
        held = states.weights + states.gradients + states.optimizer + states.adapters
        return float(np.asarray(held)[0]) / 2 / machine.accelerator.memory_bytes

    def best(self, clusters: Sequence[Cluster], grid: Grid, rejections: Rejections | None) -> Best:
        """The fastest layout of each cluster that fits."""
        q = self.question
        parts = []
        for cluster in clusters:
            layouts, drops = training_layouts(q.arch, q.recipe, cluster, q.goal.global_batch, grid)
            parts.append(layouts)
            if rejections is not None:
                if not len(layouts) and not drops:
                    rejections.add(Rejection(NO_LAYOUT, gpus_words(cluster)))
                for drop in drops:
                    rejections.add(Rejection(drop.reason, gpus_words(cluster), count=drop.count))
        if not parts:
            return Best({}, 0)
        layouts, part = joined(parts), rows_of(parts)
        fits = self.fitting(layouts, part, clusters, rejections)
        kept, part = layouts.take(fits), part[fits]
        own = own_steps(q.own, q.arch.name, q.recipe, kept, self.machines)
        time = TrainingTime(self.model, kept, q.time, q.software_year, *own)
        found = fastest(time, part, clusters) if len(kept) else {}
        return Best(found, len(layouts))

    def fitting(
        self, layouts: TrainingLayouts, part: IntArray, clusters: Sequence[Cluster], rejections: Rejections | None
    ) -> BoolArray:
        """Which layouts have room with the confidence of the goal; the others are counted."""
        q = self.question
        sizes = np.array([m.accelerator.memory_bytes for m in self.machines])
        hosts = np.array([m.host_memory_bytes for m in self.machines])
        memory = training_memory(q.arch, q.recipe, layouts, sizes, q.memory, hosts)
        expected, high = np.asarray(memory.total.expected), np.asarray(memory.total.high)
        surer = normal_quantile(q.goal.confidence) / normal_quantile(HIGH_END)
        short = expected + surer * (high - expected) - memory.device_bytes
        has_room = short <= 0
        if rejections is not None:
            self.count_short(short, memory, part, clusters, rejections)
        return np.asarray(has_room & memory.fits_host)

    def count_short(
        self,
        short: FloatArray,
        memory: TrainingMemory,
        part: IntArray,
        clusters: Sequence[Cluster],
        rejections: Rejections,
    ) -> None:
        """Count layouts for which a GPU is too small, and those for which the machine beside it is."""

        def of_gpu(row: int) -> Reason:
            return Reason.of("short_by", missing_bytes=float(short[row]))

        def of_host(row: int) -> Reason:
            need, has = float(memory.host_need_bytes[row]), float(memory.host_memory_bytes[row])
            return Reason.of("needs_host_memory", need_bytes=need, has_bytes=has)

        beside = np.where(short <= 0, memory.host_need_bytes - memory.host_memory_bytes, np.nan)
        count_short(TOO_LARGE, short, of_gpu, part, clusters, rejections)
        count_short(HOST_TOO_SMALL, beside, of_host, part, clusters, rejections)


@dataclass(frozen=True, eq=False)
class Best:
    """The fastest layout by position of its cluster, and how many layouts were rated."""

    rated: dict[int, RatedCluster]
    num_configurations: int


def single_layout(machine: TrainingMachine) -> TrainingLayouts:
    """One sequence on one GPU."""
    names = TrainingLayouts.__dataclass_fields__
    values = {**dict.fromkeys(names, 1), "device": 0, "sharding": 0, "recompute": 2, "ranks_per_node": machine.num_gpus}
    columns = {name: np.array([value]) for name, value in values.items()}
    return TrainingLayouts(**{**columns, "sequence_parallel": np.array([False])})


def gpus_words(cluster: Cluster) -> str:
    """So many GPUs of a kind."""
    return f"{cluster.num_gpus}x {cluster.machine.accelerator.name}"


def count_short(
    reason: Reason,
    short_bytes: FloatArray,
    miss_of: Callable[[int], Reason],
    part: IntArray,
    clusters: Sequence[Cluster],
    rejections: Rejections,
) -> None:
    """Count layouts that do not fit by cluster; where none of a cluster fits, how far the nearest misses.

    What is not a number is not asked of a layout.
    """
    for index, cluster in enumerate(clusters):
        own = np.flatnonzero(part == index)
        dropped = int((short_bytes[own] > 0).sum())
        if dropped:
            nearest = int(own[np.nanargmin(short_bytes[own])])
            is_short = bool(short_bytes[nearest] > 0)
            miss = miss_of(nearest) if is_short else None
            size = float(short_bytes[nearest]) if is_short else math.inf
            rejections.add(Rejection(reason, gpus_words(cluster), miss, size, dropped))


def fastest(time: TrainingTime, part: IntArray, clusters: Sequence[Cluster]) -> dict[int, RatedCluster]:
    """The layout of each cluster with the shortest step; of equals the first."""
    total = step_terms(time).total
    bounds = time_bounds(time)
    order = np.lexsort((np.arange(len(part)), total, part))
    first = np.flatnonzero(np.diff(part[order], prepend=-1))
    found = {}
    for place in order[first]:
        index, step = int(part[place]), float(total[place])
        ends = float(bounds.low_ratio[place]), float(bounds.high_ratio[place])
        found[index] = RatedCluster(clusters[index], time, int(place), step, *ends)
    return found
