"""How many machines of a service on spot, how many spares, and when on demand: chosen from a grid of policies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.spot_services import FOR_MISSING, FOR_UNREADY, NO_FALLBACK, PolicyRows, ServicePolicy
from gpufleet.records import dataclass
from gpufleet.simulate.spot_services import ServiceRuns, ZoneNodes, play_services
from gpufleet.units import DAY, HOUR

MOST_FIXED_SPARES = 4
YOUNG_S, CALM_S = (HOUR, math.inf), (0.0, HOUR / 2, 2 * HOUR, 6 * HOUR, DAY)
HOLD_S = (0.0, HOUR)
STAND_INS = ((NO_FALLBACK, 0.0), *itertools.product((FOR_MISSING, FOR_UNREADY), HOLD_S))
CAREFUL_S = 2 * HOUR
FLOOR_RATIOS, SPARE_RATIOS = (0.0, 0.25, 0.5, 0.75), (0.25, 0.5)
REFINED, SHORTLISTED, MOST_SHOWN, NEAR_RATIO = 12, 4, 8, 0.2
SAFER_RATIOS = (-1.0, -0.5, 0.0, 0.25, 0.5)
"""Of what a target leaves: candidates are looked at that keep so much more than it on few pieces, or so much less."""
MOST_PARTS, START_ROUNDING = 10, 0.1
ROUNDING_RATIO = 1e-9


def floors_for(num_machines: int) -> list[int]:
    """Numbers that may always be on demand, short of all."""
    return sorted({round(num_machines * ratio) for ratio in FLOOR_RATIOS} - {num_machines})


def fixed_policies(num_machines: int) -> list[ServicePolicy]:
    """So many spares and so many always on demand, whatever happens."""
    shapes = itertools.product(floors_for(num_machines), range(MOST_FIXED_SPARES + 1))
    return [*(ServicePolicy(floor, spares) for floor, spares in shapes), ServicePolicy(num_machines)]


def changing_policies(num_machines: int) -> list[ServicePolicy]:
    """On demand stands in for spot, spares come and go, or zones that lost machines are let alone for a while."""
    spares = {0, 1, 2, *(math.ceil(num_machines * ratio) for ratio in SPARE_RATIOS)}
    found = [
        ServicePolicy(floor, more, young_s, fallback, hold_s, calm_s)
        for floor, more, young_s, calm_s in itertools.product(floors_for(num_machines), sorted(spares), YOUNG_S, CALM_S)
        if more or math.isinf(young_s)
        for fallback, hold_s in STAND_INS
    ]
    return [policy for policy in found if not policy.is_fixed]


def policies_for(num_machines: int) -> list[ServicePolicy]:
    """All that are tried, the fixed ones first."""
    return [*fixed_policies(num_machines), *changing_policies(num_machines)]


def shapes_for(num_machines: int) -> list[ServicePolicy]:
    """Floors, spares and what stands in, each as bold and as careful in young zones, before other times are tried."""
    shapes = [p for p in changing_policies(num_machines) if p.hold_s == 0]
    bold = [p for p in shapes if p.calm_s == 0 and math.isinf(p.young_s)]
    careful = [p for p in shapes if p.calm_s == CAREFUL_S and (p.young_s == YOUNG_S[0] or not p.spares)]
    return [*fixed_policies(num_machines), *bold, *careful]


def refined(shape: ServicePolicy) -> list[ServicePolicy]:
    """A shape with all times at which something changes."""
    youngs, holds = YOUNG_S if shape.spares else (math.inf,), HOLD_S if shape.fallback != NO_FALLBACK else (0.0,)
    times = itertools.product(youngs, holds, CALM_S)
    return [replace(shape, young_s=young_s, hold_s=hold_s, calm_s=calm_s) for young_s, hold_s, calm_s in times]


class SpotAndOnDemand(NamedTuple):
    """What an hour of a machine costs on spot and on demand."""

    spot_usd_per_hour: float
    on_demand_usd_per_hour: float


class ServiceTarget(NamedTuple):
    """The share of time in which all machines shall be ready, at these prices."""

    ratio: float
    prices: SpotAndOnDemand


@dataclass(frozen=True, eq=False)
class PlayedPolicies:
    """Policies and what each came to on all pieces: the rows of a policy are its pieces."""

    policies: Sequence[ServicePolicy]
    runs: ServiceRuns
    num_pieces: int

    def by_policy(self, values: FloatArray) -> FloatArray:
        """A figure of runs, [policy, piece]."""
        return values.reshape(len(self.policies), self.num_pieces)

    def attained_ratio(self) -> FloatArray:
        """Share of time with all machines ready, over pieces."""
        return np.asarray(self.by_policy(self.runs.attained_ratio).mean(axis=1))

    def usd_per_hour(self, prices: SpotAndOnDemand) -> FloatArray:
        """Mean cost over pieces   [USD/h]."""
        return np.asarray(self.by_policy(self.runs.usd_per_hour(*prices)).mean(axis=1))


def play_policies(
    zones: ZoneNodes, num_machines: int, start_s: float, policies: Sequence[ServicePolicy]
) -> PlayedPolicies:
    """Every policy on every piece."""
    num_pieces = len(zones.nodes)
    rows = [policy for policy in policies for _ in range(num_pieces)]
    piece: IntArray = np.tile(np.arange(num_pieces), len(policies))
    return PlayedPolicies(policies, play_services(zones, num_machines, start_s, PolicyRows.of(rows), piece), num_pieces)


def cheapest_that_attains(attained: FloatArray, usd: FloatArray, target_ratio: float) -> int:
    """The cheapest that keeps the target; where none does, the cheapest of those that come nearest."""
    bar = min(target_ratio, float(attained.max())) - ROUNDING_RATIO
    return int(np.argmin(np.where(attained >= bar, usd, np.inf)))


def is_on_frontier(attained: FloatArray, usd: FloatArray) -> BoolArray:
    """Whether nothing that is as cheap is ready for more of the time, nor anything that is so ready cheaper.

    >>> is_on_frontier(np.array([0.9, 0.99, 0.95]), np.array([1.0, 2.0, 2.5])).tolist()
    [True, True, False]
    """
    order = np.lexsort((-attained, usd))
    best = np.maximum.accumulate(attained[order])
    is_kept = np.concatenate([[True], attained[order][1:] > best[:-1] + ROUNDING_RATIO])
    found = np.zeros(len(usd), dtype=bool)
    found[order] = is_kept
    return found


@dataclass(frozen=True, eq=False)
class Tried:
    """Policies with the share of time in which all machines are ready, and what they cost, as means."""

    policies: Sequence[ServicePolicy]
    attained_ratio: FloatArray
    usd_per_hour: FloatArray

    @classmethod
    def of(cls, played: PlayedPolicies, prices: SpotAndOnDemand) -> Tried:
        """Means over pieces."""
        return cls(played.policies, played.attained_ratio(), played.usd_per_hour(prices))

    def only(self, rows: BoolArray | IntArray) -> Tried:
        """Some of them."""
        kept = [self.policies[row] for row in np.arange(len(self.policies))[rows]]
        return Tried(kept, self.attained_ratio[rows], self.usd_per_hour[rows])

    def and_also(self, other: Tried) -> Tried:
        """These and others."""
        attained, usd = (
            np.concatenate(both)
            for both in ((self.attained_ratio, other.attained_ratio), (self.usd_per_hour, other.usd_per_hour))
        )
        return Tried([*self.policies, *other.policies], attained, usd)

    @property
    def fixed(self) -> Tried:
        """Those whose numbers never change."""
        return self.only(np.array([policy.is_fixed for policy in self.policies]))

    def cheapest(self, target_ratio: float) -> ServicePolicy:
        """The cheapest that keeps the target, or comes nearest."""
        return self.policies[cheapest_that_attains(self.attained_ratio, self.usd_per_hour, target_ratio)]

    def nearest(self, target_ratio: float, most: int) -> Sequence[ServicePolicy]:
        """The cheapest of those that keep the target or miss it by little, at least one."""
        bar = min(target_ratio, float(self.attained_ratio.max())) - NEAR_RATIO * (1 - target_ratio) - ROUNDING_RATIO
        near = self.only(self.attained_ratio >= bar)
        return near.only(np.argsort(near.usd_per_hour, kind="stable")[:most]).policies

    def frontier(self, most: int) -> Sequence[ServicePolicy]:
        """Those that none beats in both, as far apart as so few may be."""
        kept = self.only(is_on_frontier(self.attained_ratio, self.usd_per_hour))
        spread = np.unique(np.linspace(0, len(kept.policies) - 1, min(most, len(kept.policies))).round().astype(int))
        return kept.only(np.argsort(kept.attained_ratio)[spread]).policies


@dataclass(frozen=True)
class ChosenPolicies:
    """The answer, the best whose numbers never change, and some of the frontier."""

    answer: ServicePolicy
    fixed: ServicePolicy
    frontier: tuple[ServicePolicy, ...]


def chosen_policies(
    narrows: ZoneNodes, chooses: ZoneNodes, num_machines: int, start_s: float, asked: ServiceTarget
) -> ChosenPolicies:
    """The cheapest policy that keeps the target.

    On few pieces all shapes are tried, then the best of them, those below the target too, with all times at which
    something changes; on many those that are left.
    """

    def tried(zones: ZoneNodes, policies: Sequence[ServicePolicy]) -> Tried:
        return Tried.of(play_policies(zones, num_machines, start_s, policies), asked.prices)

    shapes, target = tried(narrows, shapes_for(num_machines)), asked.ratio
    best = [*shapes.nearest(target, REFINED), *shapes.frontier(REFINED)]
    told_apart = list(dict.fromkeys(policy for shape in best for policy in refined(shape)))
    narrowed = shapes.and_also(tried(narrows, told_apart))
    safer = [target + (1 - target) * ratio for ratio in SAFER_RATIOS]
    left = [policy for kind in (narrowed, narrowed.fixed) for bar in safer for policy in kind.nearest(bar, SHORTLISTED)]
    shown = tuple(narrowed.frontier(MOST_SHOWN))
    looked_at = tried(chooses, list(dict.fromkeys([*left, *shown])))
    return ChosenPolicies(looked_at.cheapest(target), looked_at.fixed.cheapest(target), shown)


def most_nodes(num_machines: int) -> int:
    """Machines that any of the policies may hold in one zone."""
    return max(p.spares + num_machines - p.floor for p in shapes_for(num_machines))


def tick_for(start_s: float, stands_s: float) -> float:
    """The longest part of the time that availability stands of which a start takes whole numbers, or nearly   [s].

    >>> tick_for(0.0, 600.0), tick_for(200.0, 600.0), tick_for(700.0, 600.0)
    (600.0, 200.0, 150.0)
    """
    parts = range(1, MOST_PARTS + 1)
    over = [math.ceil(start_s * n / stands_s) * stands_s / n - start_s for n in parts]
    return stands_s / next((n for n in parts if over[n - 1] <= START_ROUNDING * start_s), MOST_PARTS)


@dataclass(frozen=True, eq=False)
class ZoneSupply:
    """What zones have, in three parts: that which narrows policies down, which chooses, and which tells."""

    narrows: ZoneNodes
    chooses: ZoneNodes
    tells: ZoneNodes
    source: str
    grade: str

    def over(self, zones: int) -> ZoneNodes:
        """What tells, of the first zones alone."""
        return ZoneNodes.of(self.tells.nodes[:, :zones], self.tells.tick_s)


def told_policies(
    supply: ZoneSupply, num_machines: int, start_s: float, target: ServiceTarget, *, stays: bool
) -> PlayedPolicies:
    """What is told of a service, the answer first: that which keeps the target, or on demand alone where it `stays`."""
    chosen = chosen_policies(supply.narrows, supply.chooses, num_machines, start_s, target)
    answer = ServicePolicy(num_machines) if stays else chosen.answer
    return play_policies(supply.tells, num_machines, start_s, [answer, chosen.fixed, *chosen.frontier])
