"""Several models planned together: machines that one leaves partly idle hold replicas of another.

Every model begins on machines of its own, the cheapest together that all limits allow. Then the two groups that save
most by moving onto machines of one offer are joined, as long as any pair saves: what is planned together never costs
more than apart. Where limits forbid machines of their own, groups are joined until they do not, if they can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.optimize.certainty import held_confidence
from gpufleet.optimize.joint import (
    Left,
    Option,
    Shortfall,
    Uses,
    bounded_uses,
    cheapest_choice,
    options_of,
    shortfalls,
    supplies,
    supply_of_all,
    without,
)
from gpufleet.optimize.market import PricedPlacement, effective_price
from gpufleet.optimize.service import AnyQuestion, AnySolution

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
    """Models that are served on the same machines; `shared` is None where a model has its own, which is `own`."""

    models: frozenset[int]
    usd_per_hour: float
    shared: SharedMachines | None = None
    own: PricedPlacement | None = None


@dataclass(frozen=True)
class Together:
    """How several models are served within all limits.

    `apart`: what each would take on machines of its own, None where limits forbid that. `missing`: where nothing was
    found within the limits, of what too little can be had; then there are no groups.
    """

    groups: list[Group]
    apart: list[PricedPlacement] | None
    missing: list[Shortfall]

    @property
    def own_machines(self) -> dict[int, PricedPlacement]:
        """Machines of its own for each model: those that it gets, else those that it would take apart."""
        own = {model: group.own for group in self.groups for model in group.models if group.own is not None}
        return {**dict(enumerate(self.apart or ())), **own}

    @property
    def usd_per_hour_apart(self) -> float | None:
        """What machines of their own would cost."""
        return None if self.apart is None else sum(priced.usd_per_hour for priced in self.apart)


Solved = tuple[AnyQuestion, AnySolution]
MachineKey = tuple[str, str]


@dataclass(frozen=True)
class Arrangement:
    """Groups that share machines; all other models have machines of their own within what is left."""

    shared: tuple[Group, ...]
    own: dict[int, Option]
    missing: tuple[Shortfall, ...]

    @property
    def rank(self) -> tuple[float, float]:
        """What is better is less: machines that are missing, then cost."""
        usd = sum(g.usd_per_hour for g in self.shared) + sum(o.usd_per_hour for o in self.own.values())
        return sum(s.needed - s.can_be_had for s in self.missing), usd

    @property
    def parts(self) -> list[frozenset[int]]:
        """The models of every group, and each model alone."""
        return [*(g.models for g in self.shared), *(frozenset([model]) for model in self.own)]

    @property
    def groups(self) -> list[Group]:
        """Every group, and every model with machines of its own."""
        own = (Group(frozenset([m]), o.usd_per_hour, own=o.priced) for m, o in sorted(self.own.items()))
        return [*own, *self.shared]


@dataclass
class Landlord:
    """What arrangements are made of: options of each model alone, and of models that share machines.

    Encoders are numbered after the models that write; they keep machines of their own.
    """

    solved: Sequence[Solved]
    supply: Left
    options: list[list[Option]]
    tenants: list[dict[MachineKey, Tenant]]
    shared: dict[frozenset[int], list[SharedMachines]] = field(default_factory=dict)

    @classmethod
    def of(cls, solved: Sequence[Solved], encoders: Sequence[Solved]) -> Landlord:
        """All of these models."""
        tenants = [tenants_of(i, *pair) if may_share(pair[0]) else {} for i, pair in enumerate(solved)]
        return cls(
            solved,
            supply_of_all(question for question, _ in (*solved, *encoders)),
            [options_of(*pair) for pair in (*solved, *encoders)],
            [*tenants, *({} for _ in encoders)],
        )

    def arranged(self, shared: tuple[Group, ...]) -> Arrangement:
        """These groups, and the other models on the cheapest machines of their own that are left."""
        left = self.supply
        for group in shared:
            left = without(left, uses_of(group))
        alone = [model for model in range(len(self.options)) if not any(model in g.models for g in shared)]
        chosen = cheapest_choice([self.options[model] for model in alone], left)
        if chosen is not None:
            return Arrangement(shared, dict(zip(alone, chosen, strict=True)), ())
        first = [self.options[model][0] for model in alone]
        missing = shortfalls(first, map(uses_of, shared), self.supply)
        return Arrangement(shared, dict(zip(alone, first, strict=True)), tuple(missing))

    def joined(self, before: Arrangement) -> Iterator[Arrangement]:
        """The same with any two parts on shared machines, of the cheapest offers that what is left supplies."""
        for one, other in combinations(before.parts, 2):
            models, rest = one | other, tuple(g for g in before.shared if g.models not in (one, other))
            left = self.supply
            for group in rest:
                left = without(left, uses_of(group))
            for machines in self.sharing(models):
                group = Group(models, machines.usd_per_hour, machines)
                if supplies(left, uses_of(group)):
                    yield self.arranged((*rest, group))

    def sharing(self, models: frozenset[int]) -> list[SharedMachines]:
        """Machines that all of these may share, cheapest first, up to the first offer that nothing bounds."""
        if not all(self.tenants[model] for model in models):
            return []
        if models not in self.shared:
            self.shared[models] = within_reach(shareable(sorted(models), self.solved, self.tenants))
        return self.shared[models]


def planned_together(solved: Sequence[Solved], encoders: Sequence[Solved] = ()) -> Together:
    """Groups of models within all limits, those that share machines first joined where that saves most."""
    landlord = Landlord.of(solved, encoders)
    apart = best = landlord.arranged(())
    while True:
        found = min(landlord.joined(best), key=lambda arrangement: arrangement.rank, default=None)
        if found is None or not is_better(found, best):
            break
        best = found
    own = None if apart.missing else [apart.own[model].priced for model in range(len(landlord.options))]
    return Together([] if best.missing else best.groups, own, list(best.missing))


def is_better(one: Arrangement, other: Arrangement) -> bool:
    """Fewer machines missing, or as many for less money."""
    (missing, usd), (missing_before, usd_before) = one.rank, other.rank
    return missing < missing_before or (missing == missing_before and usd < usd_before - LEAST_SAVING_USD_PER_HOUR)


def uses_of(group: Group) -> Uses:
    """Machines of bounded offers that a group takes."""
    shared = group.shared
    return {} if shared is None else bounded_uses([(shared.offer, shared.instance_count)])


def within_reach(machines: Iterable[SharedMachines]) -> list[SharedMachines]:
    """Up to the first offer that nothing bounds."""
    kept = []
    for shared in machines:
        kept.append(shared)
        if shared.offer.most_instances is None:
            break
    return kept


def may_share(question: AnyQuestion) -> bool:
    """Whether machines may be shared: not those kept spare, spread over zones, given back off peak or partly spot."""
    d = question.demand
    return d.spare_machines == 0 and d.zones == 1 and d.quiet is None and question.purse.most_spot_ratio >= 1


def tenants_of(model: int, question: AnyQuestion, solution: AnySolution) -> dict[MachineKey, Tenant]:
    """The replicas of a model on each machine type, with the fewest GPUs in all."""
    found, copies, demand = solution.found, solution.copies, question.demand
    tenants = {}
    for instance in question.instances:
        hosted = copies.on(instance)
        rows = hosted[found.is_feasible[hosted]]
        if len(rows):
            needed = np.maximum(
                np.ceil(demand.planned_requests_per_s / found.requests_per_s[rows]), demand.min_replicas
            )
            gpus = needed * copies.num_devices[rows]
            chosen = np.lexsort((rows, gpus))[0]
            row = int(rows[chosen])
            tenant = Tenant(model, row, int(needed[chosen]), int(copies.num_devices[row]))
            tenants[(instance.cloud, instance.name)] = tenant
    return tenants


def shareable(
    models: Sequence[int], solved: Sequence[Solved], tenants: Sequence[dict[MachineKey, Tenant]]
) -> list[SharedMachines]:
    """All replicas of these models on machines of every offer that each of them may use, cheapest first."""
    keys = set.intersection(*(set(tenants[i]) for i in models))
    offers = set.intersection(*(set(solved[i][0].offers) for i in models)) if keys else set()
    instances = {(i.cloud, i.name): i for i in solved[models[0]][0].instances}
    machines = {key: packed(instances[key], [tenants[i][key] for i in models]) for key in keys}
    found = [
        SharedMachines(instances[key], o, machines[key], tuple(tenants[i][key] for i in models))
        for o in offers
        if (key := (o.cloud, o.instance)) in machines and o.can_supply(machines[key])
    ]
    return sorted(found, key=lambda s: (s.usd_per_hour, s.offer.cloud, s.offer.instance, s.offer.region))


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


def held_by_models(
    solved: Sequence[tuple[AnyQuestion, AnySolution]], together: Together
) -> list[tuple[tuple[str, str], float]]:
    """Of each model what its speed rests on, an engine on a GPU, and how surely it keeps its limits."""
    kept: dict[int, tuple[Instance, int, int]] = {}
    for group in together.groups:
        if group.own is not None:
            p = group.own.placement
            kept |= dict.fromkeys(group.models, (p.instance, p.row, p.replicas))
        if group.shared is not None:
            kept |= {t.model: (group.shared.instance, t.row, t.replicas) for t in group.shared.tenants}
    return [held_by_model(solved[model], *kept[model]) for model in sorted(kept)]


def held_by_model(
    solved: tuple[AnyQuestion, AnySolution], instance: Instance, row: int, replicas: int
) -> tuple[tuple[str, str], float]:
    """The same of one model on so many replicas of a candidate."""
    question, solution = solved
    found, demand, copies = solution.found, question.demand, solution.copies
    bounds = copies.time_ratios(found.curves.batch[np.maximum(found.best, 0)])
    rate = demand.workload.rate_requests_per_s / replicas
    return (copies.engine(row), instance.accelerator), held_confidence(found, row, rate, bounds, demand.confidence)
