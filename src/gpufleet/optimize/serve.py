"""The serving question: from an architecture, what is on sale and a demand to ranked, priced placements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.offer import Offer
from gpufleet.optimize.replicas import Choices, Rejections, describe, keep_fitting, replicas, room
from gpufleet.optimize.size import (
    LOAD,
    ROOM,
    Capacity,
    Demand,
    Placement,
    PricedPlacement,
    best_of_each_type,
    capacity,
    is_host,
    place,
    rank,
)
from gpufleet.performance.load_curves import load_curves
from gpufleet.performance.step import StepModel
from gpufleet.units import MILLISECOND

REASONS = {
    LOAD: "saturated before any request is admitted",
    ROOM: "KV room for fewer sequences than a burst needs",
}


@dataclass(frozen=True)
class ServeQuestion:
    """A model, what may be combined, the offers to buy from, and the demand."""

    arch: Architecture
    choices: Choices
    offers: tuple[Offer, ...]
    demand: Demand


@dataclass(frozen=True)
class ServeSolution:
    """Candidates that fit, what each sustains, and placements of them, cheapest first."""

    candidates: Candidates
    model: StepModel
    limited_by_engine: BoolArray
    found: Capacity
    ranked: list[PricedPlacement]
    rejections: Rejections
    num_layouts: int

    @property
    def num_configurations(self) -> int:
        """Candidate x batch combinations whose latency was computed."""
        return int(self.found.curves.tpot_s.size)


def solve_serve(
    question: ServeQuestion, calibration: Calibration, rejections: Rejections | None = None
) -> ServeSolution:
    """Enumerate, drop what breaks a rule or does not fit, rate the rest at every batch, join the offers.

    `rejections` takes what is dropped, where the caller wants more of it kept than counts.
    """
    rejections = Rejections() if rejections is None else rejections
    every = replicas(question.arch, question.choices, rejections)
    lengths = question.demand.lengths
    space = room(question.arch, every, lengths, lengths.input_tokens + lengths.output_tokens)
    kept = keep_fitting(every, space, rejections)
    kept &= keep_supported(StepModel.build(question.arch, every, calibration), kept, rejections)
    candidates = every.take(kept)
    largest = space.largest_batch[kept]
    curves = load_curves(question.arch, candidates, calibration, lengths, largest)
    found = capacity(curves, candidates, question.demand)
    count_infeasible(candidates, found, question.demand, rejections)
    placements = place_all(question, candidates, found)
    ranked = best_of_each_type(rank(placements, question.offers))
    count_unpriced(placements, ranked, rejections)
    model = StepModel.build(question.arch, candidates, calibration)
    num_layouts = len(every) + sum(rejections.counts.values())
    return ServeSolution(candidates, model, space.limited_by_engine[kept], found, ranked, rejections, num_layouts)


def keep_supported(model: StepModel, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """Candidates whose kernels are known; of those that fit, the others are counted."""
    supported = model.is_supported
    for row in np.flatnonzero(fits & ~supported):
        rejections.add("no kernel curve for this format on this device", describe(model.candidates, int(row)))
    return supported


def is_sold(question: ServeQuestion, candidates: Candidates) -> BoolArray:
    """Candidates that some machine with a price can host."""
    priced = {(o.cloud, o.instance) for o in question.offers}
    sold = [is_host(i, candidates) for i in question.choices.instances if (i.cloud, i.name) in priced]
    return np.asarray(np.any(sold, axis=0)) if sold else np.zeros(len(candidates), dtype=np.bool_)


def place_all(question: ServeQuestion, candidates: Candidates, found: Capacity) -> list[Placement]:
    """The best placement on each instance type."""
    placements = (place(i, candidates, found, question.demand) for i in question.choices.instances)
    return [p for p in placements if p is not None]


def count_infeasible(candidates: Candidates, found: Capacity, demand: Demand, rejections: Rejections) -> None:
    """Count the candidates that fit but keep no batch within the objectives, by the objective they miss."""
    for row in np.flatnonzero(~found.is_feasible):
        rejections.add(*missed_objective(candidates, found, demand, int(row)))


def missed_objective(candidates: Candidates, found: Capacity, demand: Demand, row: int) -> tuple[str, str, float]:
    """(reason, nearest miss in words, how many times over the limit) of one candidate."""
    over = {
        limit.label: float(np.min(found.objectives_s[limit.label][row]) / limit.limit_s)
        for limit in demand.workload.slo.limits
    }
    worst = max(over, key=lambda label: over[label], default=LOAD)
    if over.get(worst, 0.0) <= 1:
        reason = ROOM if found.breaks[ROOM][row].all() else LOAD
        return REASONS[reason], describe(candidates, row), 0.0
    limit = next(x for x in demand.workload.slo.limits if x.label == worst)
    what = f"{describe(candidates, row)}: {in_ms(over[worst] * limit.limit_s)} at best"
    return f"{worst} above {in_ms(limit.limit_s)} at any load", what, over[worst]


def in_ms(seconds: float) -> str:
    """Milliseconds as an SLO can take them: whole ones from 10 ms on.

    >>> in_ms(0.5), in_ms(0.0005)
    ('500 ms', '0.5 ms')
    """
    milliseconds = seconds / MILLISECOND
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.3g} ms"


def count_unpriced(placements: Sequence[Placement], ranked: Sequence[PricedPlacement], rejections: Rejections) -> None:
    """Count instance types that would serve the demand but have no price under the chosen terms."""
    priced = {(p.offer.cloud, p.offer.instance) for p in ranked}
    for p in placements:
        if (p.instance.cloud, p.instance.name) not in priced:
            what = f"{p.instance_count}x {p.instance.cloud} {p.instance.name}"
            rejections.add("no price under the chosen clouds, regions and price kinds", what, p.instance_count)
