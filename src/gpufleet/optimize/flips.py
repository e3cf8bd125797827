"""What flips a choice: the nearest price, rate, limit or length at which another machine type wins.

Prices and rates have exact answers, since the machines of a type are a step function of the rate. Limits and lengths
are searched outward in steps, and the first interval in which the winner changes is halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Limit
from gpufleet.optimize.contest import NOBODY, Contest, Thresholds, winners
from gpufleet.optimize.serve import ServeQuestion, ServeSolution, solve_serve
from gpufleet.optimize.size import Capacity, Demand, capacity

FARTHEST_RATIO = 10.0
JUST_BEYOND = 1e-9
CLOSE_RATIO, LESS_RATIO, MOST_TRIES = 1.0001, 1.01, 8
LIMIT_STEP_RATIO, LENGTH_STEP_RATIO = 1.03, 1.25
RATES_AT_A_TIME = 256
SHOWN_DIGITS, WHOLE_FROM = 4, 100.0
PRICE, OTHER_PRICE, RATE, INPUT, OUTPUT = "price", "another's price", "rate", "input tokens", "output tokens"


@dataclass(frozen=True)
class Winner:
    """A machine type that wins somewhere: how many of it, and what they cost by the hour."""

    offer: Offer
    instance_count: int
    usd_per_hour: float


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

    question: ServeQuestion
    found: Capacity
    contest: Contest
    chosen: int

    @classmethod
    def of(cls, question: ServeQuestion, solution: ServeSolution) -> Standing:
        """The standing of a question with an answer; the contest must name the answer that the ranking names."""
        contest = Contest.of(question.choices.instances, question.offers, solution.candidates)
        rate = question.demand.workload.rate_requests_per_s
        chosen = int(winners(contest.costs(solution.found.requests_per_s, question.demand, rate))[0])
        best = solution.ranked[0].offer
        assert chosen != NOBODY, "the ranking has an answer and the contest none"
        assert key_of(contest.offers[chosen]) == key_of(best), "contest and ranking disagree"
        return cls(question, solution.found, contest, chosen)

    def winner(self, contest: Contest, requests_per_s: FloatArray, demand: Demand) -> Winner | None:
        """Who wins a contest under a demand."""
        machines = contest.machines(requests_per_s, demand, demand.workload.rate_requests_per_s)
        first = int(winners(machines * contest.usd_per_hour[:, None])[0])
        if first == NOBODY:
            return None
        count = float(machines[first, 0])
        return Winner(contest.offers[first], int(count), count * float(contest.usd_per_hour[first]))

    def is_other(self, winner: Winner | None) -> bool:
        """Whether this is not the machine type and price kind of the answer."""
        return winner is None or key_of(winner.offer) != key_of(self.contest.offers[self.chosen])


def key_of(offer: Offer) -> tuple[str, str, str]:
    """What a row of the ranking stands for: a machine type at a price kind, in any region."""
    return offer.cloud, offer.instance, offer.price_kind.value


def all_flips(question: ServeQuestion, solution: ServeSolution, calibration: Calibration) -> list[Flip]:
    """Every flip of an answer: prices, rate, each limit, both lengths."""
    standing = Standing.of(question, solution)
    return [
        *cheap_flips(standing),
        *(flip for limit in question.demand.workload.slo.limits for flip in limit_flips(standing, solution, limit)),
        *length_flips(standing, calibration),
    ]


def cheap_flips(standing: Standing) -> list[Flip]:
    """Flips by price and rate, which need no new solution."""
    return [*price_flips(standing), *rate_flips(standing)]


def price_flips(standing: Standing) -> list[Flip]:
    """How dear the answer's machines may become (in all regions), and how cheap the nearest other must become."""
    contest, demand = standing.contest, standing.question.demand
    rate = demand.workload.rate_requests_per_s
    machines = contest.machines(standing.found.requests_per_s, demand, rate)[:, 0]
    costs = machines * contest.usd_per_hour
    others = np.where(np.arange(len(costs)) == standing.chosen, np.inf, costs)
    if not np.isfinite(others).any():
        return []
    nearest, cost = int(np.argmin(others)), float(costs[standing.chosen])
    up = float(others[nearest]) / float(machines[standing.chosen]) * (1 + JUST_BEYOND)
    down = cost / float(machines[nearest]) * (1 - JUST_BEYOND)
    return [price_flip(standing, PRICE, standing.chosen, up), price_flip(standing, OTHER_PRICE, nearest, down)]


def price_flip(standing: Standing, quantity: str, entrant: int, usd_per_hour: float) -> Flip:
    """The flip at one price of one entrant's machines."""
    contest, now = standing.contest, float(standing.contest.usd_per_hour[entrant])
    found = standing.found.requests_per_s

    def wins(price: float) -> Winner | None:
        return standing.winner(contest.with_price(entrant, price), found, standing.question.demand)

    value = shown_value(usd_per_hour, now, lambda price: standing.is_other(wins(price)))
    return Flip(quantity, now, value, value, wins(value), contest.offers[entrant])


def rate_flips(standing: Standing) -> Iterator[Flip]:
    """The nearest lower and higher rate at which another wins.

    On the way up only a machine more of the answer lets another pass; on the way down a machine less of any other does.
    """
    demand, found = standing.question.demand, standing.found.requests_per_s
    now = demand.workload.rate_requests_per_s
    yield rate_flip(standing, standing.contest.thresholds(found, demand, now * FARTHEST_RATIO, standing.chosen))
    yield rate_flip(standing, standing.contest.thresholds(found, demand, now / FARTHEST_RATIO))


def rate_flip(standing: Standing, full: Thresholds) -> Flip:
    """The first of these rates beyond which another wins."""
    now, demand = standing.question.demand.workload.rate_requests_per_s, standing.question.demand
    rates = full.requests_per_s * (1 + JUST_BEYOND * (1 if full.searched_to > now else -1))

    def wins(rate: float) -> Winner | None:
        return standing.winner(standing.contest, standing.found.requests_per_s, at_rate(demand, rate))

    for begin in range(0, len(rates), RATES_AT_A_TIME):
        some = rates[begin : begin + RATES_AT_A_TIME]
        first = winners(standing.contest.costs(standing.found.requests_per_s, demand, some))
        others = np.flatnonzero(first != standing.chosen)
        if len(others):
            value = shown_value(float(some[others[0]]), now, lambda rate: standing.is_other(wins(rate)))
            return Flip(RATE, now, value, full.searched_to, wins(value))
    return Flip(RATE, now, None, full.searched_to)


def limit_flips(standing: Standing, solution: ServeSolution, limit: Limit) -> Iterator[Flip]:
    """The nearest tighter and looser value of one limit at which another wins, or nothing serves."""
    curves, candidates, caution = solution.found.curves, solution.candidates, solution.found.caution

    def wins(limit_s: float) -> Winner | None:
        demand = with_limit(standing.question.demand, limit, limit_s)
        return standing.winner(standing.contest, capacity(curves, candidates, demand, caution).requests_per_s, demand)

    for farthest in (limit.limit_s / FARTHEST_RATIO, limit.limit_s * FARTHEST_RATIO):
        yield searched_flip(standing, limit.label, limit.limit_s, farthest, LIMIT_STEP_RATIO, wins)


def length_flips(standing: Standing, calibration: Calibration) -> Iterator[Flip]:
    """The nearest shorter and longer prompt and answer at which another wins."""
    workload, question = standing.question.demand.workload, priced_only(standing.question)

    def wins(input_tokens: float, output_tokens: float) -> Winner | None:
        asked = with_lengths(question, input_tokens, output_tokens)
        solved = solve_serve(asked, calibration)
        contest = Contest.of(asked.choices.instances, asked.offers, solved.candidates)
        return standing.winner(contest, solved.found.requests_per_s, asked.demand)

    lengths = {
        INPUT: (workload.input_tokens, lambda n: wins(n, workload.output_tokens)),
        OUTPUT: (workload.output_tokens, lambda n: wins(workload.input_tokens, n)),
    }
    for quantity, (now, wins_at) in lengths.items():
        for farthest in (max(now / FARTHEST_RATIO, 1.0), now * FARTHEST_RATIO):
            yield searched_flip(standing, quantity, now, farthest, LENGTH_STEP_RATIO, wins_at)


def searched_flip(
    standing: Standing,
    quantity: str,
    now: float,
    farthest: float,
    step_ratio: float,
    wins: Callable[[float], Winner | None],
) -> Flip:
    """The flip of a quantity whose winner is known only where it is asked."""

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


def halved(is_other: Callable[[float], bool], near: float, far: float) -> float:
    """The flipped end of the interval, once both ends are close."""
    while max(far / near, near / far) > CLOSE_RATIO:
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
    """The same demand at another rate."""
    return replace(demand, workload=replace(demand.workload, rate_requests_per_s=requests_per_s))


def with_limit(demand: Demand, limit: Limit, limit_s: float) -> Demand:
    """The same demand with another value of one limit."""
    slo = demand.workload.slo
    limits = tuple(replace(x, limit_s=limit_s) if x.label == limit.label else x for x in slo.limits)
    return replace(demand, workload=replace(demand.workload, slo=replace(slo, limits=limits)))


def with_lengths(question: ServeQuestion, input_tokens: float, output_tokens: float) -> ServeQuestion:
    """The same question for requests of other lengths."""
    workload = replace(question.demand.workload, input_tokens=input_tokens, output_tokens=output_tokens)
    return replace(question, demand=replace(question.demand, workload=workload))


def priced_only(question: ServeQuestion) -> ServeQuestion:
    """The same question without machines that have no price: they never win."""
    priced = {(o.cloud, o.instance) for o in question.offers}
    kept = tuple(i for i in question.choices.instances if (i.cloud, i.name) in priced)
    return replace(question, choices=replace(question.choices, instances=kept))
