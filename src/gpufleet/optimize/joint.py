"""Which machines each of several models gets where they draw on the same quota, reservation or rack.

Limits hold for the sum of all models. Every model has its offers in all regions, cheapest first, up to the first that
nothing bounds; of all choices of one offer each, the cheapest that no limit forbids is looked for, branch by branch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpufleet.domain.offer import Offer
from gpufleet.optimize.encoder_serve import EncoderServeQuestion, EncoderServeSolution
from gpufleet.optimize.serve import Purse, ServeQuestion, ServeSolution, place_all
from gpufleet.optimize.size import Placement, PricedPlacement, rank

MOST_BRANCHES = 50_000
OfferKey = tuple[str, str, str, str]
Uses = Mapping[OfferKey, int]


@dataclass(frozen=True)
class Shortfall:
    """More machines of an offer than can be had: how many all models together would take."""

    offer: Offer
    needed: int


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

    def extend(self, chosen: list[Option], usd_per_hour: float, left: Counter[OfferKey]) -> None:
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


def key_of_offer(offer: Offer) -> OfferKey:
    """What a limit bounds: one offer."""
    return offer.cloud, offer.region, offer.instance, offer.price_kind.value


def supply_of_all(questions: Iterable[ServeQuestion | EncoderServeQuestion]) -> Counter[OfferKey]:
    """How many machines of every bounded offer can be had."""
    offers = (offer for question in questions for offer in question.offers)
    return Counter({key_of_offer(o): o.max_instances for o in offers if o.max_instances is not None})


def supplies(left: Mapping[OfferKey, int], uses: Uses) -> bool:
    """Whether what is left is enough."""
    return all(left[key] >= count for key, count in uses.items())


def without(left: Counter[OfferKey], uses: Uses) -> Counter[OfferKey]:
    """What is left after some use; below zero where it is more than there was."""
    rest = left.copy()
    rest.subtract(uses)
    return rest


def bounded_uses(counts: Iterable[tuple[Offer, int]]) -> Uses:
    """Machines of each bounded offer."""
    used: Counter[OfferKey] = Counter()
    for offer, count in counts:
        if offer.max_instances is not None and count:
            used[key_of_offer(offer)] += count
    return used


def options_of(question: ServeQuestion, solution: ServeSolution) -> list[Option]:
    """Machines of its own for one model, cheapest first, up to the first offer that nothing bounds."""
    return options_through(place_all(question, solution.candidates, solution.found), question.offers, question.purse)


def encoder_options(question: EncoderServeQuestion, solution: EncoderServeSolution) -> list[Option]:
    """The same for a model that is not a decoder."""
    return options_through(solution.placements, question.offers, question.purse)


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


def cheapest_choice(options: Sequence[Sequence[Option]], supply: Counter[OfferKey]) -> list[Option] | None:
    """One option for every model, the cheapest together that the supply allows; None where none is found.

    Where very many are possible the search ends at the best of the first ones, which it tries cheapest first.
    """
    search = Search(options)
    search.extend([], 0.0, supply)
    return search.chosen


def shortfalls(options: Sequence[Option], others: Iterable[Uses], supply: Mapping[OfferKey, int]) -> list[Shortfall]:
    """Offers of which these options, beside what others use, take more than there are."""
    needed: Counter[OfferKey] = Counter()
    for uses in (*others, *(option.uses for option in options)):
        needed.update(uses)
    offers = {key_of_offer(o): o for option in options for o in (option.priced.offer, option.priced.steady) if o}
    return [
        Shortfall(offers[key], count) for key, count in sorted(needed.items()) if count > supply[key] and key in offers
    ]
