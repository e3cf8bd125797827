"""The serving question: from an architecture, what is on sale and a demand to ranked, priced placements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.placement import Placement, is_host, once_per_host, place
from gpufleet.optimize.purchase import PricedPlacement, best_of_each_type, rank
from gpufleet.optimize.replicas import (
    NO_CURVE,
    Choices,
    MemoryModel,
    Rejections,
    Room,
    describe,
    keep_fitting,
    replicas,
)
from gpufleet.optimize.size import LOAD, ROOM, Capacity, capacity
from gpufleet.performance.load_curves import load_curves_of
from gpufleet.performance.request_mix import RequestMix
from gpufleet.performance.step import StepModel
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.records import dataclass

NO_PRICE, BEYOND_QUOTA, LONGEST = Reason("no_price"), Reason("beyond_quota"), Reason("longest_too_long")
REASONS = {LOAD: Reason("saturated"), ROOM: Reason("no_room_for_burst")}


@dataclass(frozen=True)
class Purse:
    """What may be spent, and how much of it on machines that can be taken away."""

    most_usd_per_hour: float = math.inf
    most_spot_ratio: float = 1.0


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


def all_had(candidates: Candidates) -> BoolArray:
    """Every candidate: machines that somebody has need no price."""
    return np.ones(len(candidates), dtype=np.bool_)


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
    priced = best_of_each_type(rank(placements, question.offers, question.purse.most_spot_ratio))
    count_unpriced(placements, priced, question.offers, question.purse.most_spot_ratio, rejections)
    ranked = within_budget(priced, question.purse.most_usd_per_hour, rejections)
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
    space, kept = keep_runnable(question, every, calibration, rejections)
    candidates = every.take(kept)
    model = StepModel.build(question.arch, candidates, calibration)
    curves = load_curves_of(model, question.demand.workload, space.largest_batch[kept])
    caution = Caution.at(question.demand.confidence, model, curves.batch, question.demand.lengths)
    found = capacity(curves, candidates, question.demand, caution)
    count_infeasible(partial(describe, candidates), partial(is_had, candidates), found, question.demand, rejections)
    num_layouts = len(every) + sum(rejections.counts.values())
    limited = space.limited_by_engine[kept]
    return ServeSolution(candidates, model, limited, curves, found, [], rejections, num_layouts)


def keep_runnable(
    question: ServeQuestion, every: Candidates, calibration: Calibration, rejections: Rejections
) -> tuple[Room, BoolArray]:
    """The memory of every candidate, and which hold their requests and have kernels."""
    mix, memory = question.demand.mix, MemoryModel.build(question.arch, every)
    space = mixed_room(memory, mix)
    kept = keep_fitting(every, space, rejections)
    kept &= keep_holding_longest(memory, mix, kept, rejections)
    kept &= keep_supported(StepModel.build(question.arch, every, calibration), kept, rejections)
    return space, kept


def mixed_room(memory: MemoryModel, mix: RequestMix) -> Room:
    """Room for sequences of the size that is held on average, less what a shared prefix takes once."""
    space = memory.room(mix.lengths, mix.held_tokens)
    if not mix.shared_tokens:
        return space
    once = memory.candidates.attention_dp * mix.shared_tokens / mix.held_tokens
    return replace(space, largest_batch=np.maximum(space.largest_batch - once, 0.0))


def holds_longest(memory: MemoryModel, mix: RequestMix) -> BoolArray:
    """Candidates that hold the longest request too; where requests differ, the mean alone does not say so."""
    if mix.longest_tokens <= mix.held_tokens:
        return all_had(memory.candidates)
    return np.asarray(memory.room(mix.lengths, mix.longest_tokens).largest_batch >= 1)


def keep_holding_longest(memory: MemoryModel, mix: RequestMix, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """The same; of those that fit, the others are counted."""
    holds = holds_longest(memory, mix)
    for row in np.flatnonzero(fits & ~holds):
        miss = Reason.of("needs_tokens", longest_tokens=mix.longest_tokens)
        rejections.add(Rejection(LONGEST, describe(memory.candidates, int(row)), miss))
    return holds


def within_budget(
    priced: Sequence[PricedPlacement], most_usd_per_hour: float, rejections: Rejections
) -> list[PricedPlacement]:
    """What the budget pays for; the rest is counted with its price."""
    month = float(usd_per_month(most_usd_per_hour))
    budget = Reason.of("over_budget", budget_usd_per_hour=most_usd_per_hour, budget_usd_per_month=month)
    for p in (p for p in priced if p.usd_per_hour > most_usd_per_hour):
        machines = f"{p.placement.instance_count}x {p.offer.cloud} {p.offer.instance}"
        cost = Reason.of("costs_per_hour", usd_per_hour=p.usd_per_hour)
        rejections.add(Rejection(budget, machines, cost, p.usd_per_hour))
    return [p for p in priced if p.usd_per_hour <= most_usd_per_hour]


def keep_supported(model: StepModel, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """Candidates whose kernels are known; of those that fit, the others are counted."""
    supported = model.is_supported
    for row in np.flatnonzero(fits & ~supported):
        rejections.add(Rejection(NO_CURVE, describe(model.candidates, int(row))))
    return supported


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


def count_unpriced(
    placements: Sequence[Placement],
    ranked: Sequence[PricedPlacement],
    offers: Sequence[Offer],
    most_spot_ratio: float,
    rejections: Rejections,
) -> None:
    """Count instance types that would serve the demand but have no price, or cannot be had in that number."""
    bought = {(p.offer.cloud, p.offer.instance) for p in ranked}
    for p in placements:
        key = p.instance.cloud, p.instance.name
        if key in bought:
            continue
        name, own = f"{p.instance_count}x {p.instance.cloud} {p.instance.name}", sold_as(key, offers)
        if own:
            rejections.add(Rejection(BEYOND_QUOTA, name, shortage(p, own, most_spot_ratio), p.instance_count))
        else:
            rejections.add(Rejection(NO_PRICE, name, shortfall=p.instance_count))


def sold_as(key: tuple[str, str], offers: Sequence[Offer]) -> list[Offer]:
    """Offers of one machine type."""
    return [offer for offer in offers if (offer.cloud, offer.instance) == key]


def shortage(placement: Placement, offers: Sequence[Offer], most_spot_ratio: float) -> Reason | None:
    """How many of these machines can be had, and what all that are needed would cost at these prices."""
    bounds = [offer.most_instances for offer in offers]
    if None in bounds:
        return None
    most = max(bound for bound in bounds if bound is not None)
    free = [replace(offer, max_instances=None, gpu_quotas=()) for offer in offers]
    priced = rank([placement], free, most_spot_ratio)
    if not priced:
        return Reason.of("to_be_had", to_be_had=most)
    cost = priced[0].usd_per_hour
    return Reason.of("to_be_had_at", to_be_had=most, needed=placement.instance_count, usd_per_hour=cost)
