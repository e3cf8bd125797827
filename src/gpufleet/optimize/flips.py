"""What flips a choice: the nearest price, rate, limit or length at which another machine type wins.

Prices and rates have exact answers, since costs are linear in a price and the machines of a type are a step function of
the rate: with spare machines, zones, quiet hours, quotas, a budget or a spot share too. Limits and lengths are searched
outward in steps, and the first interval in which the winner changes is halved; for lengths among those that may win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, cached_property

import numpy as np

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Limit
from gpufleet.optimize.contest import NOBODY, Contest, Counts, Key, Thresholds, key_of, winners
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.lengths import Field, Heat, Race, at_lengths, priced_only
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import Capacity, at_limit, without_limits
from gpufleet.records import dataclass

FARTHEST_RATIO = 10.0
JUST_BEYOND = 1e-9
CLOSE_RATIO, LESS_RATIO, MOST_TRIES = 1.0001, 1.01, 8
PRICE_CLOSE_RATIO, MOST_DOUBLINGS = 1 + JUST_BEYOND, 20
LIMIT_STEP_RATIO, LENGTH_STEP_RATIO = 1.03, 1.25
RATES_AT_A_TIME = 256
SHOWN_DIGITS, WHOLE_FROM = 4, 100.0
QUOTA, MOST_QUOTAS = "machines to be had", 3
PRICE, OTHER_PRICE, RATE, INPUT, OUTPUT = "price", "another's price", "rate", "input tokens", "output tokens"


@dataclass(frozen=True)
class Winner:
    """A machine type that wins somewhere: how many of it, what they cost by the hour, how often that counts."""

    offer: Offer
    instance_count: int
    usd_per_hour: float
    doubt_ratio: float = 1.0

    @classmethod
    def of(cls, contest: Contest, entrant: int, counts: Counts, demand: Demand) -> Winner:
        """An entrant, with so many machines at the price of its list."""
        own = counts.of(np.array([entrant]))
        usd = contest.listed_usd_of(np.array([entrant]), own, demand)
        return cls(contest.offers[entrant], int(own.machines[0, 0]), float(usd[0, 0]), float(own.doubt_ratio[0, 0]))


@dataclass(frozen=True)
class Flip:
    """Where the choice changes when one quantity moves and all else stays.

    `value` is the nearest place found, None where the choice stays the same up to `searched_to`; `winner` is who wins
    there, None where nothing on offer serves.
    """

    quantity: str
    now: float
    value: float | None
    searched_to: float
    winner: Winner | None = None
    of: Offer | None = None


@dataclass(frozen=True, eq=False)
class Standing:
    """A solved question as a contest: who wins now, and who would under another demand."""

    question: AnyQuestion
    found: Capacity
    contest: Contest
    chosen: int

    @classmethod
    def of(cls, question: AnyQuestion, solution: AnySolution) -> Standing:
        """The standing of a question with an answer; the contest must name the answer that the ranking names."""
        contest = Contest.of(question, solution)
        rate = question.demand.workload.rate_requests_per_s
        chosen = int(winners(contest.costs(solution.found, question.demand, rate))[0])
        best = solution.ranked[0].offer
        assert chosen != NOBODY, "the ranking has an answer and the contest none"
        assert key_of(contest.offers[chosen]) == key_of(best), "contest and ranking disagree"
        return cls(question, solution.found, contest, chosen)

    @property
    def key(self) -> Key:
        """The machine type and price kind of the answer."""
        return key_of(self.contest.offers[self.chosen])

    def winner(self, found: Capacity, demand: Demand) -> Winner | None:
        """Who wins where replicas sustain so much, under a demand."""
        counts = self.contest.counts(found, demand, demand.workload.rate_requests_per_s)
        return self.winner_of(self.contest, counts, demand)

    def winner_of(self, contest: Contest, counts: Counts, demand: Demand) -> Winner | None:
        """Who wins a contest with so many machines of each entrant."""
        costs = contest.usd_of(np.arange(len(contest.offers)), counts, demand)
        first = int(winners(costs)[0])
        if first == NOBODY:
            return None
        return Winner.of(contest, first, counts, demand)

    @cached_property
    def counts(self) -> Counts:
        """Machines of each entrant at the rate that is asked."""
        demand = self.question.demand
        return self.contest.counts(self.found, demand, demand.workload.rate_requests_per_s)

    @cached_property
    def sensible_counts(self) -> Counts:
        """The same of those that somebody would rent."""
        demand, unlimited = self.question.demand, without_limits(self.found)
        for_load = self.contest.counts(unlimited, demand, demand.workload.rate_requests_per_s)
        return self.contest.sensible(self.counts, for_load, self.question.size)

    def is_other(self, winner: Winner | None) -> bool:
        """Whether this is not the machine type and price kind of the answer."""
        return winner is None or key_of(winner.offer) != self.key


def all_flips(question: WriterQuestion, solution: WriterSolution, calibration: Calibration) -> list[Flip]:
    """Every flip of an answer: prices, quotas, rate, each limit, both lengths."""
    standing = Standing.of(question, solution)
    return [
        *cheap_flips(standing),
        *quota_flips(standing),
        *(flip for limit in question.demand.workload.slo.limits for flip in limit_flips(standing, solution, limit)),
        *length_flips(standing, question, calibration),
    ]


def cheap_flips(standing: Standing) -> list[Flip]:
    """Flips by price and rate, which need no new solution."""
    return [*price_flips(standing), *rate_flips(standing)]


def price_flips(standing: Standing) -> list[Flip]:
    """How dear the answer's machines may become (in all regions), and how cheap the nearest other must become.

    The nearest of those that somebody would rent: a price at which ten thousand machines win is none.
    """
    contest, counts = standing.contest, standing.counts
    costs = contest.usd_of(np.arange(len(contest.offers)), standing.sensible_counts, standing.question.demand)[:, 0]
    others = np.where(contest.members(standing.key), np.inf, costs)
    found = [price_flip(standing, counts, PRICE, standing.chosen, MOST_DOUBLINGS)]
    if np.isfinite(others).any():
        found.append(price_flip(standing, counts, OTHER_PRICE, int(np.argmin(others)), -MOST_DOUBLINGS))
    return [flip for flip in found if flip is not None]


def price_flip(standing: Standing, counts: Counts, quantity: str, entrant: int, most_doublings: int) -> Flip | None:
    """The nearest price of one entrant's machines at which another wins; None where no price does it.

    Costs are linear in a price, so that the choice changes once on the way: the last doubling (or halving) is halved.
    """
    contest, offer = standing.contest, standing.contest.offers[entrant]
    now = float(contest.usd_per_hour[entrant])

    def wins(price: float) -> Winner | None:
        moved = contest.at_price_ratio(key_of(offer), price / now)
        return standing.winner_of(moved, counts, standing.question.demand)

    def is_other(price: float) -> bool:
        return standing.is_other(wins(price))

    near, step = now, 1 if most_doublings > 0 else -1
    for far in (now * 2.0**n for n in range(step, most_doublings + step, step)):
        if is_other(far):
            value = shown_value(halved(is_other, near, far, PRICE_CLOSE_RATIO), now, is_other)
            return Flip(quantity, now, value, value, wins(value), offer)
        near = far
    return None


def quota_flips(standing: Standing) -> list[Flip]:
    """Of how many machines more could be had so that they win, the cheapest first; each machine type once."""
    contest, demand, counts = standing.contest, standing.question.demand, standing.sensible_counts
    every = np.arange(len(contest.offers))
    usd = contest.without_bounds().usd_of(every, counts, demand)[:, 0]
    now = contest.usd_of(every, standing.counts, demand)[standing.chosen, 0]
    flips: dict[Key, Flip] = {}
    for entrant in (int(e) for e in np.argsort(usd, kind="stable") if usd[e] < now):
        offer, needed = contest.offers[entrant], int(counts.machines[entrant, 0])
        had = contest.supply[entrant]
        if needed > had and key_of(offer) != standing.key:
            winner = Winner.of(contest, entrant, counts, demand)
            flips.setdefault(key_of(offer), Flip(QUOTA, float(had), float(needed), float(needed), winner, offer))
    return list(flips.values())[:MOST_QUOTAS]


def rate_flips(standing: Standing) -> Iterator[Flip]:
    """The nearest higher and lower rate at which another wins; quiet hours keep their rate, and no peak is below it.

    On the way up only a machine more of the answer lets another pass, where no other becomes cheaper with the rate.
    """
    demand, found = standing.question.demand, standing.found
    now = demand.workload.rate_requests_per_s
    only_own = demand.quiet is None and standing.question.purse.most_spot_ratio >= 1
    entrant = standing.chosen if only_own else None
    yield rate_flip(standing, standing.contest.thresholds(found, demand, now * FARTHEST_RATIO, entrant))
    least = max(now / FARTHEST_RATIO, quiet_rate(demand))
    if least < now:
        yield rate_flip(standing, standing.contest.thresholds(found, demand, least))


def quiet_rate(demand: Demand) -> float:
    """The rate of quiet hours, below which no peak lies."""
    return 0.0 if demand.quiet is None else demand.quiet.rate_requests_per_s


def rate_flip(standing: Standing, full: Thresholds) -> Flip:
    """The first of these rates beyond which another wins."""
    now, demand = standing.question.demand.workload.rate_requests_per_s, standing.question.demand
    rates = full.requests_per_s * (1 + JUST_BEYOND * (1 if full.searched_to > now else -1))
    keys = np.array([key_of(o) == standing.key for o in standing.contest.offers])

    rates = rates[rates >= quiet_rate(demand)]

    def wins(rate: float) -> Winner | None:
        return standing.winner(standing.found, at_rate(demand, rate))

    def is_other(rate: float) -> bool:
        return rate >= quiet_rate(demand) and standing.is_other(wins(rate))

    for begin in range(0, len(rates), RATES_AT_A_TIME):
        some = rates[begin : begin + RATES_AT_A_TIME]
        first = winners(standing.contest.costs(standing.found, demand, some))
        others = np.flatnonzero(~((first != NOBODY) & keys[first]))
        if len(others):
            value = shown_value(float(some[others[0]]), now, is_other)
            return Flip(RATE, now, value, full.searched_to, wins(value))
    return Flip(RATE, now, None, full.searched_to)


def limit_flips(standing: Standing, solution: AnySolution, limit: Limit) -> Iterator[Flip]:
    """The nearest tighter and looser value of one limit at which another wins, or nothing serves."""

    def wins(limit_s: float) -> Winner | None:
        return standing.winner(at_limit(solution.found, limit, limit_s), standing.question.demand)

    for farthest in (limit.limit_s / FARTHEST_RATIO, limit.limit_s * FARTHEST_RATIO):
        yield searched_flip(standing, limit.label, limit.limit_s, farthest, LIMIT_STEP_RATIO, wins)


def length_flips(standing: Standing, question: WriterQuestion, calibration: Calibration) -> Iterator[Flip]:
    """The nearest shorter and longer prompts and answers (all alike, by their mean) at which another wins."""
    demand = question.demand
    inputs, outputs = demand.workload.input_tokens, demand.workload.output_tokens
    lightest = at_lengths(demand, inputs / FARTHEST_RATIO, outputs / FARTHEST_RATIO)
    field = Field.of(priced_only(question), lightest, calibration)
    now_of_all = field.heat(demand)
    races = {
        INPUT: (inputs, Race(field, calibration, lambda n: at_lengths(demand, n, outputs), {inputs: now_of_all})),
        OUTPUT: (outputs, Race(field, calibration, lambda n: at_lengths(demand, inputs, n), {outputs: now_of_all})),
    }
    for quantity, (now, race) in races.items():
        most_ratio = min(FARTHEST_RATIO, context_ratio(question, quantity))
        for farthest in (max(now / FARTHEST_RATIO, 1.0), now * most_ratio):
            yield length_flip(standing, quantity, now, farthest, race)


def context_ratio(question: WriterQuestion, quantity: str) -> float:
    """How many times as long prompts, or answers, may get before the model takes some of them no more."""
    workload, limit = question.demand.workload, question.model.arch.taken_tokens
    means = [(c.input_tokens.mean, c.output_tokens.mean) for c in workload.classes]
    lengths = means or [(workload.input_tokens, workload.output_tokens)]
    moved = [(own, other) if quantity == INPUT else (other, own) for own, other in lengths]
    return max(min((limit - other) / own for own, other in moved), 1.0)


def length_flip(standing: Standing, quantity: str, now: float, farthest: float, race: Race) -> Flip:
    """The flip of a length, asked of those that may win; of all of them where both sides of it do not hold of all."""

    def wins_of(heat: Heat) -> Winner | None:
        return standing.winner_of(heat.contest, heat.counts, heat.demand)

    def wins(tokens: float) -> Winner | None:
        return wins_of(race.of_leaders(tokens))

    def wins_of_all(tokens: float) -> Winner | None:
        return wins_of(race.of_all(tokens))

    flip = searched_flip(standing, quantity, now, farthest, LENGTH_STEP_RATIO, wins)
    is_true = flip.value is None or (
        wins_of_all(flip.value) == flip.winner
        and not standing.is_other(wins_of_all(one_percent_nearer(flip.value, now)))
    )
    return flip if is_true else searched_flip(standing, quantity, now, farthest, LENGTH_STEP_RATIO, wins_of_all)


def searched_flip(
    standing: Standing,
    quantity: str,
    now: float,
    farthest: float,
    step_ratio: float,
    wins: Callable[[float], Winner | None],
) -> Flip:
    """The flip of a quantity whose winner is known only where it is asked."""
    wins = cache(wins)

    def is_other(value: float) -> bool:
        return standing.is_other(wins(value))

    value = nearest_change(is_other, now, farthest, step_ratio)
    if value is None:
        return Flip(quantity, now, None, farthest)
    value = shown_value(value, now, is_other)
    return Flip(quantity, now, value, farthest, wins(value))


def nearest_change(is_other: Callable[[float], bool], now: float, farthest: float, step_ratio: float) -> float | None:
    """The value nearest to `now` at which `is_other` holds: steps outward, then the first interval halved.

    >>> round(nearest_change(lambda x: x > 1.37, 1.0, 10.0, 1.25), 3)
    1.37
    """
    near, away = now, 1 if farthest > now else -1
    while away * (farthest - near) > 0:
        far = near * step_ratio**away
        far = farthest if away * (far - farthest) > 0 else far
        if is_other(far):
            return without_nearer(is_other, now, far := halved(is_other, near, far))
        near = far
    return None


def halved(is_other: Callable[[float], bool], near: float, far: float, close_ratio: float = CLOSE_RATIO) -> float:
    """The flipped end of the interval, once both ends are close."""
    while max(far / near, near / far) > close_ratio:
        middle = math.sqrt(near * far)
        near, far = (near, middle) if is_other(middle) else (middle, far)
    return far


def without_nearer(is_other: Callable[[float], bool], now: float, value: float) -> float:
    """The value, or a nearer one where a step of 1 % back finds that the choice changed and changed back."""
    for _ in range(MOST_TRIES):
        less = one_percent_nearer(value, now)
        if less == now or not is_other(less):
            break
        value = halved(is_other, now, less)
    return value


def one_percent_nearer(value: float, now: float) -> float:
    """1 % back towards where we are, and never past it.

    >>> one_percent_nearer(2.02, 1.0), one_percent_nearer(1.005, 1.0)
    (2.0, 1.0)
    """
    return max(value / LESS_RATIO, now) if value > now else min(value * LESS_RATIO, now)


def shown_value(value: float, now: float, is_other: Callable[[float], bool]) -> float:
    """The value in four digits (whole from 100 on), rounded away from `now`, where the choice has flipped there too."""
    digits = SHOWN_DIGITS - 1 - math.floor(math.log10(value))
    digits = min(digits, 0) if value >= WHOLE_FROM and now >= WHOLE_FROM and now == round(now) else digits
    scale = 10.0**digits
    rounded = (math.ceil(value * scale) if value > now else math.floor(value * scale)) / scale
    nearer = one_percent_nearer(rounded, now) if rounded > 0 else now
    return rounded if rounded > 0 and is_other(rounded) and (nearer == now or not is_other(nearer)) else value


def at_rate(demand: Demand, requests_per_s: float) -> Demand:
    """The same demand at another rate, of which every class and the busiest stretch keep their share."""
    busiest = demand.busiest_requests_per_s * (requests_per_s / demand.workload.rate_requests_per_s)
    return replace(demand, workload=demand.workload.at_rate(requests_per_s), busiest_requests_per_s=busiest)
