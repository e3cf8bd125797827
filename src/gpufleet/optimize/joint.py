"""Which machines each of several models gets where they draw on the same quota, reservation or rack.

Limits hold for the sum of all models. Every model has its offers in all regions, cheapest first, up to the first that
nothing bounds; of all choices of one offer each, the cheapest that no limit forbids is looked for, branch by branch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpufleet.domain.offer import GpuQuota, Offer
from gpufleet.optimize.market import PricedPlacement, Purse, rank
from gpufleet.optimize.placement import Placement, place_all
from gpufleet.optimize.service import AnyQuestion, AnySolution

MOST_BRANCHES = 50_000
BoundKey = tuple[str, ...]
Uses = Mapping[BoundKey, float]
Left = dict[BoundKey, float]


@dataclass(frozen=True)
class Shortfall:
    """More machines of an offer than can be had: how many all models together would take.

    `quota`: where machines of several types share GPUs, of which there are too few; then both numbers are of GPUs.
    """

    offer: Offer
    needed: float
    quota: GpuQuota | None = None

    @property
    def can_be_had(self) -> float:
        """How many there are."""
        return self.quota.max_gpus if self.quota is not None else self.offer.max_instances or 0


@dataclass(frozen=True)
class Option:
    """Machines of its own that serve a model, and how many of them are of offers that something bounds."""

    priced: PricedPlacement
    usd_per_hour: float
    uses: Uses


@dataclass
class Search:
    """The cheapest choice found so far, and how many were begun."""

    options: Sequence[Sequence[Option]]
    usd_per_hour: float = math.inf
    chosen: list[Option] | None = None
    branches: int = 0
    floor_usd: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """`floor_usd[i]`: what the models from the i-th on cost at least."""
        self.floor_usd = [0.0]
        for options in reversed(self.options):
            self.floor_usd.insert(0, self.floor_usd[0] + min((o.usd_per_hour for o in options), default=math.inf))

    def extend(self, chosen: list[Option], usd_per_hour: float, left: Left) -> None:
        """Try every offer of the next model that what is left supplies."""
        if len(chosen) == len(self.options):
            self.usd_per_hour, self.chosen = usd_per_hour, list(chosen)
            return
        for option in self.options[len(chosen)]:
            self.branches += 1
            cost = usd_per_hour + option.usd_per_hour
            too_dear = cost + self.floor_usd[len(chosen) + 1] >= self.usd_per_hour
            if too_dear or self.branches > MOST_BRANCHES:
                return
            if supplies(left, option.uses):
                self.extend([*chosen, option], cost, without(left, option.uses))


def bounds_of(offer: Offer) -> dict[BoundKey, tuple[float, float, GpuQuota | None]]:
    """What bounds an offer: how many there are, how many one machine takes, and the quota where they are GPUs."""
    own: BoundKey = offer.cloud, offer.region, offer.instance, offer.price_kind.value
    shared: dict[BoundKey, tuple[float, float, GpuQuota | None]] = {
        (quota.name,): (quota.max_gpus, quota.gpus_per_machine, quota) for quota in offer.gpu_quotas
    }
    return shared if offer.max_instances is None else {**shared, own: (offer.max_instances, 1, None)}


def supply_of_all(questions: Iterable[AnyQuestion]) -> Left:
    """How many machines of every bounded offer can be had, and GPUs of every quota that is shared."""
    bounds = (bounds_of(offer) for question in questions for offer in question.offers)
    return {key: most for found in bounds for key, (most, _, _) in found.items()}


def supplies(left: Left, uses: Uses) -> bool:
    """Whether what is left is enough."""
    return all(left[key] >= count for key, count in uses.items())


def without(left: Left, uses: Uses) -> Left:
    """What is left after some use; below zero where it is more than there was."""
    return {key: most - uses.get(key, 0) for key, most in left.items()}


def bounded_uses(counts: Iterable[tuple[Offer, int]]) -> Uses:
    """Machines of each bounded offer, and GPUs of each quota that is shared."""
    used: defaultdict[BoundKey, float] = defaultdict(float)
    for offer, count in counts:
        for key, (_, each, _) in bounds_of(offer).items() if count else ():
            used[key] += each * count
    return dict(used)


def options_of(question: AnyQuestion, solution: AnySolution) -> list[Option]:
    """Machines of its own for one model, cheapest first, up to the first offer that nothing bounds."""
    placements = place_all(question.instances, solution.copies, solution.found, question.demand)
    return options_through(placements, question.offers, question.purse)


def options_through(placements: Sequence[Placement], offers: Sequence[Offer], purse: Purse) -> list[Option]:
    """Placements through every offer that can supply them, cheapest first, up to the first that nothing bounds."""
    options = []
    for priced in rank(placements, offers, purse.most_spot_ratio):
        if priced.usd_per_hour > purse.most_usd_per_hour:
            break
        options.append(option_of(priced))
        if not options[-1].uses:
            break
    return options


def option_of(priced: PricedPlacement) -> Option:
    """A priced placement with what it takes of bounded offers."""
    count = priced.placement.instance_count
    steady = priced.steady_count(count)
    beside = [(priced.steady, steady)] if priced.steady is not None else []
    return Option(priced, priced.usd_per_hour, bounded_uses([(priced.offer, count - steady), *beside]))


def cheapest_choice(options: Sequence[Sequence[Option]], supply: Left) -> list[Option] | None:
    """One option for every model, the cheapest together that the supply allows; None where none is found.

    Where very many are possible the search ends at the best of the first ones, which it tries cheapest first.
    """
    search = Search(options)
    search.extend([], 0.0, supply)
    return search.chosen


def shortfalls(options: Sequence[Option], others: Iterable[Uses], supply: Left) -> list[Shortfall]:
    """Offers of which these options, beside what others use, take more than there are."""
    needed: defaultdict[BoundKey, float] = defaultdict(float)
    for uses in (*others, *(option.uses for option in options)):
        for key, count in uses.items():
            needed[key] += count
    offers = [o for option in options for o in (option.priced.offer, option.priced.steady) if o]
    bounds = {key: (o, quota) for o in offers for key, (_, _, quota) in bounds_of(o).items()}
    return [
        Shortfall(bounds[key][0], count, bounds[key][1])
        for key, count in sorted(needed.items())
        if count > supply[key] and key in bounds
    ]
