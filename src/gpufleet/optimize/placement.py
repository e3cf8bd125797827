"""How many machines of one type carry a demand, and which candidate they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.instance import Instance
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.size import Capacity
from gpufleet.records import dataclass

Found = TypeVar("Found")


@dataclass(frozen=True)
class Placement:
    """Replicas of one candidate on one instance type: as many as needed, packed whole into machines.

    `quiet_instance_count` are kept in quiet hours, `busy_ratio` of the time all are. In a choice it counts
    `doubt_ratio` times what it costs.
    """

    instance: Instance
    row: int
    replicas: int
    instance_count: int
    gpus_per_replica: int
    quiet_instance_count: int = 0
    busy_ratio: float = 1.0
    doubt_ratio: float = 1.0

    @property
    def idle_gpus(self) -> int:
        """GPUs that are paid for and hold no replica."""
        return round(self.instance.gpu_count * self.instance_count) - self.replicas * self.gpus_per_replica


class Hosted(Protocol):
    """Copies of a model that stand on machines, one kind of copy a row."""

    @property
    def num_devices(self) -> IntArray:
        """GPUs of one copy of each row."""

    def on(self, instance: Instance) -> IntArray:
        """Rows that one machine of a type holds."""


def once_per_host(instances: Iterable[Instance], find: Callable[[Instance], Found]) -> list[tuple[Instance, Found]]:
    """What is found for every machine type, asked once of those with as many of the same GPUs on the same link."""
    of_host = {instance.host: instance for instance in instances}
    found = {host: find(instance) for host, instance in of_host.items()}
    return [(instance, found[instance.host]) for instance in instances]


def place_all(instances: Iterable[Instance], copies: Hosted, found: Capacity, demand: Demand) -> list[Placement]:
    """The best placement on each machine type."""
    placed = once_per_host(instances, lambda instance: place(instance, copies, found, demand))
    return [replace(p, instance=instance) for instance, p in placed if p is not None]


def place(instance: Instance, copies: Hosted, found: Capacity, demand: Demand) -> Placement | None:
    """The copy that needs the fewest machines of this type; among equals the one with most capacity to spare."""
    hosted = copies.on(instance)
    rows = hosted[found.is_feasible[hosted]]
    if not len(rows):
        return None
    num_devices = copies.num_devices[rows]
    per_instance = np.floor(instance.gpu_count / num_devices)
    carried = per_instance * found.requests_per_s[rows]
    machines = machines_for(demand.planned_requests_per_s, per_instance, found.requests_per_s[rows], demand)
    quiet = machines
    if demand.quiet is not None:
        planned = demand.quiet.rate_requests_per_s * (1 + demand.headroom_ratio)
        quiet = machines_for(planned, per_instance, found.requests_per_s[rows], demand)
    doubt, surely = np.ones(len(rows)), weighed_requests_per_s(found, demand)
    if surely is not None:
        with np.errstate(divide="ignore"):
            surer = machines_for(demand.planned_requests_per_s, per_instance, surely[rows], demand)
        doubt = doubt_ratio(machines, surer, demand.steady_ratio)
    paid = np.asarray(over_hours(demand.busy_ratio, machines, quiet))
    chosen = np.lexsort((rows, -machines * carried, paid, paid * doubt))[0]
    row, count = int(rows[chosen]), int(machines[chosen])
    return Placement(
        instance,
        row,
        count * int(per_instance[chosen]),
        count,
        int(num_devices[chosen]),
        int(quiet[chosen]),
        demand.busy_ratio,
        float(doubt[chosen]),
    )


def weighed_requests_per_s(found: Capacity, demand: Demand) -> FloatArray | None:
    """What each candidate sustains halfway to certainty, where a choice weighs it."""
    return found.surer_requests_per_s if demand.steady_ratio else None


def doubt_ratio(machines: FloatArray, surer: FloatArray, steady_ratio: float) -> FloatArray:
    """How many times its cost a plan counts in a choice, where it takes `surer` machines halfway to certainty   [1].

    min((1 + surer / machines) / 2, 1 + steady): what holds more surely may cost so much more and be chosen still.

    >>> doubt_ratio(np.array([4.0, 4.0, 4.0]), np.array([4.0, 5.0, np.inf]), 0.2)
    array([1.   , 1.125, 1.2  ])
    """
    more = np.where(np.isfinite(machines), surer / np.where(np.isfinite(machines), machines, 1.0), 1.0)
    return np.asarray(np.minimum((1 + more) / 2, 1 + steady_ratio))


def over_hours(busy_ratio: float, busy: Floats, quiet: Floats) -> Floats:
    """The mean over all hours of what there is in busy ones and in quiet ones."""
    return busy if busy_ratio == 1 else busy_ratio * busy + (1 - busy_ratio) * quiet


def machines_for(rate: Floats, replicas_each: FloatArray, replica_rate: FloatArray, demand: Demand) -> FloatArray:
    """Machines that carry a rate, also without the spare ones or without a zone.

    n = ceil(max(ceil(rate / replica rate), least replicas) / replicas of a machine); n + spare, or ceil(n z / (z - 1))
    over z zones: what is left without the fullest of them is n.   [1]
    """
    needed = np.ceil(np.maximum(np.ceil(rate / replica_rate), demand.min_replicas) / replicas_each)
    spread = np.ceil(needed * demand.zones / (demand.zones - 1)) if demand.zones > 1 else needed
    return np.asarray(spread + demand.spare_machines)
