"""What to do with the machines that run today: keep, shrink or grow them, or move to what a plan chose.

Machines of a few types serve together, each in its best layout. What they cost and carry is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.errors import UsageError
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import ROUNDING
from gpufleet.records import dataclass

MOST_SUBSETS = 1_000_000
Counts = tuple[int, ...]


class Step(str, Enum):
    """What is to be done with the machines."""

    KEEP = "keep"
    SHRINK = "shrink"
    GROW = "grow"
    REPLACE = "replace"
    NOTHING = "nothing fits"


@dataclass(frozen=True)
class Held:
    """Machines of one type: how many run, what one carries and costs (None: unknown), and its replicas.

    `most` can be had at all, where a quota or one's own rack bounds them.
    """

    count: int
    requests_per_s: float
    replicas: int
    usd_per_hour: float | None
    most: float = math.inf


@dataclass(frozen=True)
class Needs:
    """Machines of every type that the demand takes: as asked, and at both ends of the range of speeds.

    None: no number of them serves.
    """

    asked: Counts | None
    fast: Counts | None
    slow: Counts | None


@dataclass(frozen=True)
class PlanCost:
    """What the machines of a plan cost, and where they turn out slow; `runs_alike`: they are of today's make.

    `is_same`: they are today's own type, bought the same way at another price.
    """

    usd_per_hour: float
    slow_usd_per_hour: float
    runs_alike: bool = False
    is_same: bool = False

    def is_surely_below(self, usd_per_hour: float) -> bool:
        """Whether it is cheaper at the slow end too; machines of the same make are as slow on both sides."""
        return self.is_below(usd_per_hour) and (self.runs_alike or self.slow_usd_per_hour < usd_per_hour)

    def is_below(self, usd_per_hour: float) -> bool:
        """Whether it is cheaper as expected."""
        return self.usd_per_hour < usd_per_hour * (1 - ROUNDING)


@dataclass(frozen=True)
class Verdict:
    """A step, and whether the range of speeds leaves it open."""

    step: Step
    is_close: bool = False


def running(held: Sequence[Held]) -> Counts:
    """What runs today."""
    return tuple(h.count for h in held)


def cost_usd_per_hour(held: Sequence[Held], counts: Counts | None) -> float | None:
    """What so many machines of each type cost; None where a price is unknown, infinite where no number serves."""
    if counts is None:
        return math.inf
    prices = [h.usd_per_hour for h in held]
    return None if None in prices else sum(n * p for n, p in zip(counts, prices, strict=True) if p is not None)


def needed(held: Sequence[Held], demand: Demand) -> Counts | None:
    """Machines that the demand takes: the cheapest of those that run, or these and more of one type."""
    return cheapest_kept(held, demand) if serves(held, demand) else grown(held, demand)


def serves(held: Sequence[Held], demand: Demand) -> bool:
    """Whether what runs carries rate x (1 + headroom) in at least the wanted number of replicas."""
    planned = demand.planned_requests_per_s * (1 - ROUNDING)
    return carried(held) >= planned and num_replicas(held) >= demand.min_replicas


def carried(held: Sequence[Held]) -> float:
    """What all machines that run carry   [1/s]."""
    return sum(h.count * h.requests_per_s for h in held)


def num_replicas(held: Sequence[Held]) -> int:
    """Copies of the model on all machines that run."""
    return sum(h.count * h.replicas for h in held)


def cheapest_kept(held: Sequence[Held], demand: Demand) -> Counts:
    """The cheapest of the machines that run which serve; the fewest, where a price is unknown.

    Every number of all types but the most numerous is tried; of that one as many as the rest of the demand takes.
    """
    last = max(range(len(held)), key=lambda i: held[i].count if held[i].requests_per_s else -1)
    others = [i for i in range(len(held)) if i != last]
    tried = every_count([held[i] for i in others])
    rates = tried @ np.array([held[i].requests_per_s for i in others])
    copies = tried @ np.array([held[i].replicas for i in others], dtype=np.float64)
    lasts = machines_to_fill(held[last], rates, copies, demand)
    prices = weights(held)
    usd = tried @ np.array([prices[i] for i in others]) + lasts * prices[last]
    usd = np.where(lasts <= held[last].count, usd, np.inf)
    best = int(np.lexsort((tried.sum(axis=1) + lasts, usd))[0])
    kept = {**{i: int(n) for i, n in zip(others, tried[best], strict=True)}, last: int(lasts[best])}
    return tuple(kept[i] for i in range(len(held)))


def every_count(held: Sequence[Held]) -> FloatArray:
    """Every combination of machines [combination, type]; none of what carries nothing."""
    most = [h.count if h.requests_per_s else 0 for h in held]
    if math.prod(n + 1 for n in most) > MOST_SUBSETS:
        expected = "fewer types, or fewer machines of all but one"
        raise UsageError("today's fleet has too many machines of several types to weigh", expected=expected)
    grids = np.meshgrid(*(np.arange(n + 1.0) for n in most), indexing="ij")
    return np.stack([g.ravel() for g in grids], axis=1) if grids else np.zeros((1, 0))


def machines_to_fill(held: Held, requests_per_s: FloatArray, replicas: FloatArray, demand: Demand) -> FloatArray:
    """Machines of a type that carry what others leave; infinite where they carry nothing and something is left.

    n = ceil(max((rate (1 + headroom) - carried) / rate of one, (least replicas - replicas) / replicas of one))   [1]
    """
    rate = np.maximum(demand.planned_requests_per_s * (1 - ROUNDING) - requests_per_s, 0.0)
    copies = np.maximum(demand.min_replicas - replicas, 0.0)
    if not held.requests_per_s:
        return np.where((rate == 0) & (copies == 0), 0.0, np.inf)
    return np.asarray(np.ceil(np.maximum(rate / held.requests_per_s, copies / held.replicas)))


def grown(held: Sequence[Held], demand: Demand) -> Counts | None:
    """What runs and carries anything, and as many more of the type that is cheapest to add; None where none can be."""
    kept = [h.count if h.requests_per_s else 0 for h in held]
    rate, copies = np.array([carried(held)]), np.array([float(num_replicas(held))])
    prices, carrying = weights(held), [i for i, h in enumerate(held) if h.requests_per_s]
    more = {i: int(machines_to_fill(held[i], rate, copies, demand)[0]) for i in carrying}
    able = [i for i in carrying if kept[i] + more[i] <= max(held[i].most, kept[i])]
    if not able:
        return None
    chosen = min(able, key=lambda i: (more[i] * prices[i], i))
    return tuple(n + more[i] if i == chosen else n for i, n in enumerate(kept))


def weights(held: Sequence[Held]) -> list[float]:
    """What a machine of each type counts: its price; the same for all where one is unknown."""
    prices = [h.usd_per_hour for h in held if h.usd_per_hour is not None]
    return prices if len(prices) == len(held) else [1.0] * len(held)


def verdict(
    now: Counts,
    needs: Needs,
    own_usd_per_hour: float | None,
    plan: PlanCost | None,
    bill_usd_per_hour: float | None = None,
) -> Verdict:
    """What to do: move only where the plan is cheaper than what today's machines can become, at the slow end too.

    Nobody moves to the machines that run: their other price is a matter of what is paid for them.

    `own_usd_per_hour`: what today's types cost in the number that is needed, None where a price is unknown. Then the
    plan is held to the bill of today: what moving saves is known, what fewer of today's machines save is not.
    """
    if needs.asked is None:
        return Verdict(Step.NOTHING if plan is None else Step.REPLACE)
    step = step_to(needs.asked, now)
    known = bill_usd_per_hour if own_usd_per_hour is None else own_usd_per_hour
    rival, own = (None, math.inf) if known is None else (plan, known)
    rival = None if rival is None or rival.is_same else rival
    if rival is not None and rival.is_surely_below(own):
        return Verdict(Step.REPLACE)
    if step is Step.KEEP:
        return Verdict(step, rival is not None and rival.is_below(own))
    return Verdict(step, is_open(step, needs, now))


def step_to(counts: Counts, now: Counts) -> Step:
    """From what runs to so many of each type."""
    if counts == now:
        return Step.KEEP
    return Step.SHRINK if is_within(counts, now) else Step.GROW


def is_open(step: Step, needs: Needs, now: Counts) -> bool:
    """Whether an end of the range asks for no such step."""
    if step is Step.SHRINK:
        return needs.slow is None or needs.slow == now or not is_within(needs.slow, now)
    return needs.fast is not None and is_within(needs.fast, now)


def is_within(counts: Counts, now: Counts) -> bool:
    """Whether no type takes more machines than run."""
    return all(n <= had for n, had in zip(counts, now, strict=True))
