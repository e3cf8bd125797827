"""Several models planned together: machines that one leaves partly idle hold replicas of another.

Every model begins on its own cheapest machines. Then the two groups that save most by moving onto machines of one
offer are joined, as long as any pair saves: what is planned together never costs more than apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.optimize.serve import ServeQuestion, ServeSolution
from gpufleet.optimize.size import effective_price, is_host

LEAST_SAVING_USD_PER_HOUR = 1e-9


@dataclass(frozen=True)
class Tenant:
    """The replicas of one model on a machine type: of the candidate that needs the fewest GPUs."""

    model: int
    row: int
    replicas: int
    gpus_per_replica: int


@dataclass(frozen=True)
class SharedMachines:
    """Machines of one offer that hold replicas of several models."""

    instance: Instance
    offer: Offer
    instance_count: int
    tenants: tuple[Tenant, ...]

    @property
    def usd_per_hour(self) -> float:
        """What all machines cost."""
        return self.instance_count * effective_price(self.offer)

    @property
    def idle_gpus(self) -> int:
        """GPUs that are paid for and hold no replica."""
        held = sum(t.replicas * t.gpus_per_replica for t in self.tenants)
        return round(self.instance.gpu_count * self.instance_count) - held


@dataclass(frozen=True)
class Group:
    """Models that are served on the same machines; `shared` is None where a model has its own."""

    models: frozenset[int]
    usd_per_hour: float
    shared: SharedMachines | None = None


Solved = tuple[ServeQuestion, ServeSolution]
MachineKey = tuple[str, str]


def planned_together(solved: Sequence[Solved]) -> list[Group]:
    """Groups of models, those that share machines first joined where that saves most."""
    groups = [
        Group(frozenset([i]), solution.ranked[0].usd_per_hour) for i, (_, solution) in enumerate(solved)
    ]  # fmt: skip
    tenants = [tenants_of(i, *pair) if may_share(pair[0]) else {} for i, pair in enumerate(solved)]
    joined: dict[frozenset[int], SharedMachines | None] = {}
    while True:
        best = max(savings(groups, solved, tenants, joined), key=lambda found: found[0], default=None)
        if best is None or best[0] <= LEAST_SAVING_USD_PER_HOUR:
            return groups
        _, (one, other), shared = best
        groups = [g for g in groups if g not in (one, other)]
        groups.append(Group(one.models | other.models, shared.usd_per_hour, shared))


def savings(
    groups: Sequence[Group],
    solved: Sequence[Solved],
    tenants: Sequence[dict[MachineKey, Tenant]],
    joined: dict[frozenset[int], SharedMachines | None],
) -> Iterable[tuple[float, tuple[Group, Group], SharedMachines]]:
    """What each pair of groups would save by sharing machines; what was found is kept in `joined`."""
    for one, other in combinations(groups, 2):
        models = one.models | other.models
        if models not in joined:
            joined[models] = cheapest_shared(sorted(models), solved, tenants)
        shared = joined[models]
        if shared is not None:
            yield one.usd_per_hour + other.usd_per_hour - shared.usd_per_hour, (one, other), shared


def may_share(question: ServeQuestion) -> bool:
    """Whether machines may be shared: not those kept spare, spread over zones, given back off peak or partly spot."""
    d = question.demand
    return d.spare_machines == 0 and d.zones == 1 and d.quiet is None and question.purse.most_spot_ratio >= 1


def tenants_of(model: int, question: ServeQuestion, solution: ServeSolution) -> dict[MachineKey, Tenant]:
    """The replicas of a model on each machine type, with the fewest GPUs in all."""
    found, candidates, demand = solution.found, solution.candidates, question.demand
    tenants = {}
    for instance in question.choices.instances:
        rows = np.flatnonzero(is_host(instance, candidates) & found.is_feasible)
        if len(rows):
            needed = np.maximum(
                np.ceil(demand.planned_requests_per_s / found.requests_per_s[rows]), demand.min_replicas
            )
            gpus = needed * candidates.num_devices[rows]
            chosen = np.lexsort((rows, gpus))[0]
            row = int(rows[chosen])
            tenant = Tenant(model, row, int(needed[chosen]), int(candidates.num_devices[row]))
            tenants[(instance.cloud, instance.name)] = tenant
    return tenants


def cheapest_shared(
    models: Sequence[int], solved: Sequence[Solved], tenants: Sequence[dict[MachineKey, Tenant]]
) -> SharedMachines | None:
    """All replicas of these models on machines of the cheapest offer that every one of them may use."""
    keys = set.intersection(*(set(tenants[i]) for i in models))
    offers = set.intersection(*(set(solved[i][0].offers) for i in models)) if keys else set()
    instances = {(i.cloud, i.name): i for i in solved[models[0]][0].choices.instances}
    machines = {key: packed(instances[key], [tenants[i][key] for i in models]) for key in keys}
    found = (
        SharedMachines(instances[key], o, machines[key], tuple(tenants[i][key] for i in models))
        for o in offers
        if (key := (o.cloud, o.instance)) in machines
    )
    return min(found, key=lambda s: (s.usd_per_hour, s.offer.cloud, s.offer.instance, s.offer.region), default=None)


def packed(instance: Instance, tenants: Iterable[Tenant]) -> int:
    """Machines that hold all replicas whole, the largest first into the first machine with room.

    >>> from gpufleet.catalog.load import load_catalog
    >>> p5 = load_catalog().instances["aws", "p5.48xlarge"]
    >>> packed(p5, [Tenant(0, 0, 3, 4), Tenant(1, 0, 5, 1)])
    3
    """
    room: dict[int, int] = {}
    machines, gpus = 0, math.floor(instance.gpu_count)
    for tenant in sorted(tenants, key=lambda t: -t.gpus_per_replica):
        size, left = tenant.gpus_per_replica, tenant.replicas
        for free in sorted(free for free in room if free >= size):
            left -= fill(room, free, min(room[free], math.ceil(left / (free // size))), left, size)
        new = math.ceil(left / (gpus // size))
        machines += new
        room[gpus] = room.get(gpus, 0) + new
        fill(room, gpus, new, left, size)
    return machines


def fill(room: dict[int, int], free: int, machines: int, replicas: int, size: int) -> int:
    """Put replicas into so many machines with `free` GPUs each; returns how many found room."""
    if not machines:
        return 0
    each = free // size
    full, rest = divmod(min(replicas, machines * each), each)
    room[free] -= full + (1 if rest else 0)
    room[free - each * size] = room.get(free - each * size, 0) + full
    if rest:
        room[free - rest * size] = room.get(free - rest * size, 0) + 1
    return full * each + rest
