"""Requests in buckets, machines that may carry them, and which machines do: what a mix is asked and what it answers.

A *bucket* is requests of one service that are alike: their lengths, and where their users are. A *way* is one layout of
a service's model on machines of one offer, bought in *units*: a whole machine full of replicas, or one replica where
services share machines. Shares of a bucket over ways are continuous, since a router splits it; units are whole.
"""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.records import dataclass

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class MachineLimit:
    """A sum over machines that stays between two ends: a quota, a budget, carbon, a cloud's share of the cost.

    least <= sum_o per_machine[o] n[o] <= most.   `per_machine`: [offer], in the limit's own unit.
    """

    name: str
    per_machine: FloatArray
    most: float = math.inf
    least: float = -math.inf

    @property
    def scale(self) -> float:
        """What giving way is relative to: its own size, one at least."""
        end = self.most if math.isfinite(self.most) else self.least
        return max(abs(end), 1.0) if math.isfinite(end) else 1.0

    def beyond(self, machines: FloatArray) -> FloatArray:
        """By how much machines break it, [candidate]; `machines`: [candidate, offer]."""
        total, slack = machines @ self.per_machine, ROUNDING * max(1.0, float(np.max(np.abs(self.per_machine))))
        over = np.maximum(total - self.most, self.least - total)
        return np.asarray(np.where(over > slack, over, 0.0))

    def holds(self, machines: FloatArray) -> bool:
        """Whether so many machines of every offer keep it."""
        return bool(self.beyond(machines[None, :])[0] == 0)


@dataclass(frozen=True, eq=False)
class Loss:
    """What a fleet has to survive: of x units of a way, floor(x (1 - lost_ratio)) - lost_units are left.

    Both [way]. A region lost is a ratio of 1, one of z zones 1 / z (the fullest), failed machines are units. Where
    there are losses, a unit is a whole machine.
    """

    name: str
    lost_ratio: FloatArray
    lost_units: FloatArray

    def left(self, units: FloatArray) -> FloatArray:
        """Units that are left of so many, [way].

        >>> Loss("a zone of three", np.array([1 / 3]), np.array([0.0])).left(np.array([4.0]))
        array([2.])
        """
        kept = np.floor(units * (1 - self.lost_ratio) + ROUNDING)
        return np.asarray(np.maximum(kept - self.lost_units, 0.0))


@dataclass(frozen=True, eq=False)
class Share:
    """Offers that together carry a stated share of the cost or of another weight, within a tolerance.

    |sum_{o in members} weight[o] n[o] - share sum_o weight[o] n[o]| <= tolerance_ratio of the sum, or where that is
    None the weight of one machine of the members: the heaviest that is bought, else the lightest that could be.
    `is_member`, `weight`: [offer].
    """

    name: str
    is_member: BoolArray
    weight: FloatArray
    share_ratio: float
    tolerance_ratio: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share_ratio <= 1:
            raise ValueError(f"{self.name}: a share must be between 0 and 1, found {self.share_ratio!r}")

    @property
    def lightest(self) -> float:
        """The weight of the lightest machine of a member."""
        return float(np.min(self.weight[self.is_member], initial=math.inf)) if np.any(self.is_member) else 0.0

    def beyond(self, machines: FloatArray) -> FloatArray:
        """By what weight machines break it, [candidate]; `machines`: [candidate, offer]."""
        total = machines @ self.weight
        if self.tolerance_ratio is None:
            bought = np.where((machines > 0) & self.is_member, self.weight, 0.0)
            heaviest = np.max(bought, axis=1, initial=0.0)
            tolerance = np.where(heaviest > 0, heaviest, self.lightest)
        else:
            tolerance = self.tolerance_ratio * total
        over = np.abs(machines @ (self.weight * (self.is_member - self.share_ratio))) - tolerance
        return np.asarray(np.where(over > ROUNDING * np.maximum(total, 1.0), over, 0.0))

    def holds(self, machines: FloatArray) -> bool:
        """Whether so many machines of every offer keep it."""
        return bool(self.beyond(machines[None, :])[0] == 0)


@dataclass(frozen=True, eq=False)
class MixProblem:
    """Buckets, ways and offers.

    `load_units` [bucket, way]: units that carry the whole bucket, infinite where its objectives do not hold there.
    `offer_of_way`, `service_of_way`, `replicas_per_unit`, `machines_per_unit`: [way]. `service_of_bucket`: [bucket].
    `usd_per_hour`, `most_machines` (infinite: any number), `machines_today`, `leaving_usd_per_hour` (what each machine
    of today that is given up costs for the hours that its change is spread over): [offer].
    `least_replicas`: [service]. `losses`: each is survived on its own, all objectives kept; so is any choice of
    `spare_machines` machines that fail together. `sending_usd_per_hour`: [bucket, way], what its answers cost on their
    way out where the whole bucket is sent that way; None: nothing.
    """

    load_units: FloatArray
    service_of_bucket: IntArray
    offer_of_way: IntArray
    service_of_way: IntArray
    replicas_per_unit: FloatArray
    machines_per_unit: FloatArray
    usd_per_hour: FloatArray
    most_machines: FloatArray
    machines_today: FloatArray
    leaving_usd_per_hour: FloatArray
    least_replicas: FloatArray
    limits: tuple[MachineLimit, ...] = ()
    shares: tuple[Share, ...] = ()
    losses: tuple[Loss, ...] = ()
    spare_machines: int = 0
    sending_usd_per_hour: FloatArray | None = None

    @classmethod
    def of_types(cls, load_units: FloatArray, usd_per_hour: FloatArray, most_machines: FloatArray) -> MixProblem:
        """One service whose ways are machine types, each offered once: the plain case of the literature."""
        num_buckets, num_types = load_units.shape
        one, none = np.ones(num_types), np.zeros(num_types)
        return cls(
            load_units,
            np.zeros(num_buckets, dtype=np.int64),
            np.arange(num_types),
            np.zeros(num_types, dtype=np.int64),
            one,
            one,
            usd_per_hour,
            most_machines,
            none,
            none,
            np.zeros(1),
        )

    @property
    def num_buckets(self) -> int:
        """Kinds of requests."""
        return int(self.load_units.shape[0])

    @property
    def num_ways(self) -> int:
        """Layouts on machines of an offer."""
        return int(self.load_units.shape[1])

    @property
    def num_offers(self) -> int:
        """Offers of machines."""
        return len(self.usd_per_hour)

    def cost_usd_per_hour(self, machines: FloatArray, share: FloatArray | None = None) -> float:
        """What machines cost, with giving up those of today and sending shares of the buckets there   [USD/h]."""
        given_up = np.maximum(self.machines_today - machines, 0.0)
        sent = 0.0 if share is None else float(np.sum(self.sending * share))
        return float(machines @ self.usd_per_hour + given_up @ self.leaving_usd_per_hour) + sent

    @property
    def least_sending_usd_per_hour(self) -> float:
        """What answers cost on their way out at least, each bucket sent the way that is cheapest for it."""
        usable = np.where(np.isfinite(self.load_units), self.sending, np.inf)
        return float(np.sum(np.min(usable, axis=1, initial=np.inf)))

    @property
    def sending(self) -> FloatArray:
        """What each bucket's answers cost on their way out of each way, [bucket, way]."""
        return np.zeros_like(self.load_units) if self.sending_usd_per_hour is None else self.sending_usd_per_hour

    def machines_of(self, units: FloatArray) -> FloatArray:
        """Machines that hold so many units of every way, [offer]."""
        held = np.bincount(self.offer_of_way, weights=self.machines_per_unit * units, minlength=self.num_offers)
        return np.asarray(np.ceil(held - ROUNDING)) + 0.0

    def allows(self, machines: FloatArray) -> bool:
        """Whether so many machines of every offer can be had within all limits and shares."""
        within = bool(np.all(machines <= self.most_machines + ROUNDING))
        kept = all(limit.holds(machines) for limit in self.limits) and all(x.holds(machines) for x in self.shares)
        return within and kept

    def used_units(self, share: FloatArray) -> FloatArray:
        """Units that shares of the buckets keep busy, [way]; `share`: [bucket, way]."""
        return np.asarray(np.sum(np.where(share > 0, self.load_units, 0.0) * share, axis=0))


@dataclass(frozen=True, eq=False)
class Mix:
    """Machines of every offer, units of every way, and how each bucket is split.

    `machines`: [offer]. `units`: [way]. `share`: [bucket, way], rows sum to 1. `least_usd_per_hour`: no mix costs less;
    0 where nothing is proved.
    """

    machines: FloatArray
    units: FloatArray
    share: FloatArray
    usd_per_hour: float
    least_usd_per_hour: float = 0.0
    is_greedy: bool = False

    @property
    def gap_ratio(self) -> float:
        """How much of the cost is not proved to be needed."""
        if self.usd_per_hour <= 0:
            return 0.0
        return max(1 - self.least_usd_per_hour / self.usd_per_hour, 0.0)
