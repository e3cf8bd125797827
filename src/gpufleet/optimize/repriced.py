"""The placements of a question, bought at other prices: what wins then, and which price made it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpufleet.domain.offer import Offer
from gpufleet.optimize.copies.decoder import SolvedWriter, WriterQuestion, WriterSolution
from gpufleet.optimize.market import PricedPlacement, best_of_each_type, effective_price, rank, within_budget
from gpufleet.optimize.replicas import Rejections
from gpufleet.records import dataclass

TypeKey = tuple[str, str, str]
"""A row of the ranking: cloud, machine type, price kind."""


@dataclass(frozen=True)
class Market:
    """Today's placements, to be bought at any prices."""

    question: WriterQuestion
    solution: WriterSolution

    def at(self, offers: Sequence[Offer]) -> SolvedWriter:
        """The question and its solution at these prices."""
        return replace(self.question, offers=tuple(offers)), replace(self.solution, ranked=self.ranked(offers))

    def first(self, offers: Sequence[Offer]) -> TypeKey | None:
        """The row of the ranking that wins at these prices."""
        return next((key_of_offer(row.offer) for row in self.ranked(offers)), None)

    def ranked(self, offers: Sequence[Offer]) -> list[PricedPlacement]:
        """What can be had and paid for at these prices, cheapest by now first."""
        purse = self.question.purse
        priced = best_of_each_type(rank(self.solution.placements, offers, purse.most_spot_ratio))
        return within_budget(priced, purse.most_usd_per_hour, Rejections())


def choices_by_one(
    market: Market, held: Sequence[Offer], then: Mapping[TypeKey, float], todays: Sequence[Offer]
) -> dict[TypeKey, TypeKey]:
    """What would be chosen had one price of then alone become today's, where that is another choice.

    `held`: the offers of then; `then`: the cheapest price of each row of the ranking. That of the choice of then may do
    so, and those that are chosen before it today.
    """
    was, today = market.first(held), cheapest_usd(todays)
    now = [key_of_offer(row.offer) for row in market.ranked(todays)]
    before = now[: now.index(was)] if was in now else now
    changed = [key for key in (was, *before) if key is not None and then.get(key) != today.get(key)]
    alone = {key: market.first(with_one(held, todays, key)) for key in changed}
    return {key: found for key, found in alone.items() if found is not None and found != was}


def with_one(held: Sequence[Offer], todays: Sequence[Offer], key: TypeKey) -> list[Offer]:
    """The old prices where those of one machine type and price kind are today's, or are gone."""
    return [*(o for o in held if key_of_offer(o) != key), *(o for o in todays if key_of_offer(o) == key)]


def key_of_offer(offer: Offer) -> TypeKey:
    """The row of the ranking that an offer belongs to."""
    return offer.cloud, offer.instance, offer.price_kind.value


def cheapest_usd(offers: Sequence[Offer]) -> dict[TypeKey, float]:
    """The cheapest price of each row of the ranking."""
    return {key_of_offer(o): effective_price(o) for o in sorted(offers, key=effective_price, reverse=True)}
