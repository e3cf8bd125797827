"""The service question: from models, what is on sale and a demand to ranked, priced placements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.offer import Offer
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.copies.decoder import all_had, keep_runnable
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import PricedPlacement, Purse, bought
from gpufleet.optimize.placement import Placement, is_host, once_per_host, place
from gpufleet.optimize.replicas import (
    Choices,
    Rejections,
    describe,
    replicas,
)
from gpufleet.optimize.size import LOAD, ROOM, Capacity, capacity
from gpufleet.performance.load_curves import load_curves_of
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass

REASONS = {LOAD: Reason("saturated"), ROOM: Reason("no_room_for_burst")}


@dataclass(frozen=True)
class ServeQuestion:
    """A model, what may be combined, the offers to buy from, the demand and what may be spent."""

    arch: Architecture
    choices: Choices
    offers: tuple[Offer, ...]
    demand: Demand
    purse: Purse = field(default_factory=Purse)


@dataclass(frozen=True)
class ServeSolution:
    """Candidates that fit, what each sustains, and placements of them, cheapest first."""

    candidates: Candidates
    model: StepModel
    limited_by_engine: BoolArray
    curves: LoadCurves
    found: Capacity
    ranked: list[PricedPlacement]
    rejections: Rejections
    num_layouts: int

    @property
    def num_configurations(self) -> int:
        """Candidate x batch combinations whose latency was computed."""
        return int(self.found.curves.requests_per_s.size)


def solve_serve(
    question: ServeQuestion, calibration: Calibration, rejections: Rejections | None = None
) -> ServeSolution:
    """Enumerate, drop what breaks a rule or does not fit, rate the rest at every batch, join the offers.

    `rejections` takes what is dropped, where the caller wants more of it kept than counts.
    """
    rejections = Rejections() if rejections is None else rejections
    rated = rate_replicas(question, calibration, rejections, partial(is_sold, question))
    counted = sum(rejections.counts.values())
    placements = place_all(question, rated.candidates, rated.found)
    ranked = bought(placements, question.offers, question.purse, rejections)
    unsold = sum(rejections.counts.values()) - counted
    return replace(rated, ranked=ranked, num_layouts=rated.num_layouts + unsold)


def rate_replicas(
    question: ServeQuestion,
    calibration: Calibration,
    rejections: Rejections,
    is_had: Callable[[Candidates], BoolArray] = all_had,
) -> ServeSolution:
    """Candidates that run and what each sustains, before any offer; `is_had`: which have machines to run on."""
    every = replicas(question.arch, question.choices, rejections)
    space, kept = keep_runnable(question.arch, question.demand.mix, every, calibration, rejections)
    candidates = every.take(kept)
    model = StepModel.build(question.arch, candidates, calibration)
    curves = load_curves_of(model, question.demand.workload, space.largest_batch[kept])
    caution = Caution.at(question.demand.confidence, model, curves.batch, question.demand.lengths)
    found = capacity(curves, candidates, question.demand, caution)
    count_infeasible(partial(describe, candidates), partial(is_had, candidates), found, question.demand, rejections)
    num_layouts = len(every) + sum(rejections.counts.values())
    limited = space.limited_by_engine[kept]
    return ServeSolution(candidates, model, limited, curves, found, [], rejections, num_layouts)


def is_sold(question: ServeQuestion, candidates: Candidates) -> BoolArray:
    """Candidates that some machine with a price can host."""
    priced = {(o.cloud, o.instance) for o in question.offers}
    machines = [i for i in question.choices.instances if (i.cloud, i.name) in priced]
    sold = [rows for _, rows in once_per_host(machines, lambda i: is_host(i, candidates))]
    return np.asarray(np.any(sold, axis=0)) if sold else np.zeros(len(candidates), dtype=np.bool_)


def place_all(question: ServeQuestion, candidates: Candidates, found: Capacity) -> list[Placement]:
    """The best placement on each instance type."""
    placed = once_per_host(question.choices.instances, lambda i: place(i, candidates, found, question.demand))
    return [replace(p, instance=instance) for instance, p in placed if p is not None]


def count_infeasible(
    name: Callable[[int], str], sold: Callable[[], BoolArray], found: Capacity, demand: Demand, rejections: Rejections
) -> None:
    """Count the candidates that fit but keep no batch within the objectives, by the objective they miss."""
    missed = np.flatnonzero(~found.is_feasible)
    if not len(missed):
        return
    has_price, limits = sold(), {limit.label: limit.limit_s for limit in demand.workload.slo.limits}
    over = {label: np.min(found.planned_s(label), axis=1) / limit_s for label, limit_s in limits.items()}
    for row in missed:
        of_row = {label: float(ratios[row]) for label, ratios in over.items()}
        rejections.add(missed_objective(name(int(row)), found, int(row), limits, of_row, bool(has_price[row])))


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
