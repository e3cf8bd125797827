"""The service question: from a model, what is on sale and a demand to ranked, priced placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.optimize.copies.protocol import C_co, Copies, Model
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import PricedPlacement, Purse, bought
from gpufleet.optimize.placement import Placement, place_all
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.sensible import SensibleSize
from gpufleet.optimize.size import LOAD, ROOM, Capacity
from gpufleet.records import dataclass

REASONS = {LOAD: Reason("saturated"), ROOM: Reason("no_room_for_burst")}
M_co = TypeVar("M_co", bound=Model[Copies], covariant=True)


@dataclass(frozen=True)
class ServeQuestion(Generic[M_co]):
    """A model, the machine types with their offers, the demand and what may be spent.

    `undated` prices stand beside the offers: no answer rests on them, and one that they beat says so. Changes of the
    question that are told lead to plans of a sensible `size`.
    """

    model: M_co
    instances: tuple[Instance, ...]
    offers: tuple[Offer, ...]
    demand: Demand
    purse: Purse = field(default_factory=Purse)
    undated: tuple[Offer, ...] = ()
    size: SensibleSize = field(default_factory=SensibleSize)


@dataclass(frozen=True, eq=False)
class ServeSolution(Generic[C_co]):
    """Copies that run, what each sustains, and placements of them, cheapest first; `placements`: priced or not."""

    copies: C_co
    found: Capacity
    ranked: list[PricedPlacement]
    rejections: Rejections
    placements: Sequence[Placement] = ()

    @property
    def num_configurations(self) -> int:
        """Pairs of copy and batch whose latency was computed."""
        return int(self.found.curves.requests_per_s.size)


AnyQuestion: TypeAlias = ServeQuestion[Model[Copies]]
AnySolution: TypeAlias = ServeSolution[Copies]


def solve_serve(
    question: ServeQuestion[Model[C_co]], calibration: Calibration, rejections: Rejections | None = None
) -> ServeSolution[C_co]:
    """Drop what breaks a rule or does not fit, rate the rest at every batch, join the offers.

    `rejections` takes what is dropped, where the caller wants more of it kept than counts.
    """
    rejections = Rejections() if rejections is None else rejections
    copies = question.model.copies(question.instances, question.demand, calibration, rejections)
    found = copies.capacity()
    count_infeasible(copies, found, is_sold(question, copies), question.demand, rejections)
    placements = place_all(question.instances, copies, found, question.demand)
    ranked = bought(priced_by_date(placements, question), question.offers, question.purse, rejections)
    return ServeSolution(copies, found, ranked, rejections, placements)


def priced_by_date(placements: Sequence[Placement], question: AnyQuestion) -> list[Placement]:
    """Placements but those on machine types of which only undated prices are known: these have a price."""
    types = {(o.cloud, o.instance) for o in question.undated} - {(o.cloud, o.instance) for o in question.offers}
    return [p for p in placements if (p.instance.cloud, p.instance.name) not in types]


def solve_owned(
    question: ServeQuestion[Model[C_co]], calibration: Calibration, rejections: Rejections
) -> ServeSolution[C_co]:
    """Copies and what each sustains on machines that somebody has: they need no offer."""
    copies = question.model.copies(question.instances, question.demand, calibration, rejections)
    found = copies.capacity()
    count_infeasible(copies, found, np.ones(len(copies), dtype=np.bool_), question.demand, rejections)
    return ServeSolution(copies, found, [], rejections)


def is_sold(question: AnyQuestion, copies: Copies) -> BoolArray:
    """Copies that some machine with a price can host."""
    priced = {(o.cloud, o.instance) for o in (*question.offers, *question.undated)}
    hosts = {i.host: i for i in question.instances if (i.cloud, i.name) in priced}
    sold = np.zeros(len(copies), dtype=np.bool_)
    for instance in hosts.values():
        sold[copies.on(instance)] = True
    return sold


def count_infeasible(
    copies: Copies, found: Capacity, is_had: BoolArray, demand: Demand, rejections: Rejections
) -> None:
    """Count the copies that run but keep no batch within the objectives, by the objective they miss."""
    limits = {limit.label: limit.limit_s for limit in demand.workload.slo.limits}
    missed = np.flatnonzero(~found.is_feasible)
    over = {label: np.min(found.planned_s(label)[missed], axis=1) / limit_s for label, limit_s in limits.items()}
    for at, row in enumerate(int(row) for row in missed):
        of_row = {label: float(ratios[at]) for label, ratios in over.items()}
        rejections.add(missed_objective(copies.label(row), found, row, limits, of_row, bool(is_had[row])))


def missed_objective(
    name: str, found: Capacity, row: int, limits: Mapping[str, float], over: Mapping[str, float], has_price: bool
) -> Rejection:
    """The objective that a candidate misses most, or what saturates it; `over`: each over its limit at best."""
    worst = max(over, key=lambda label: over[label], default=LOAD)
    if over.get(worst, 0.0) <= 1:
        is_full = ROOM in found.breaks and found.breaks[ROOM][row].all()
        return Rejection(REASONS[ROOM if is_full else LOAD], name, None if has_price else Reason("unpriced"))
    miss = Reason.of("at_best" if has_price else "at_best_unpriced", least_s=over[worst] * limits[worst])
    return Rejection(Reason.of("over_limit", limit=worst, limit_s=limits[worst]), name, miss, over[worst])
