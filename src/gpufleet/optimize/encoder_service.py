"""The service question of encoders: copies that answer a rate of requests within a latency at least cost."""

from __future__ import annotations

from dataclasses import field
from functools import partial

import numpy as np

from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.copies.encoder import Copies, PassLoads, copies_of, pass_capacity, place_copies
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.market import PricedPlacement, Purse, bought
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.replicas import (
    Rejections,
)
from gpufleet.optimize.service import count_infeasible
from gpufleet.optimize.size import Capacity
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class EncoderServeQuestion:
    """A model on each GPU that may be rented, the machine types with their offers, the demand and what may be spent."""

    encoders: tuple[EncoderQuestion, ...]
    instances: tuple[Instance, ...]
    offers: tuple[Offer, ...]
    demand: Demand
    purse: Purse = field(default_factory=Purse)

    @property
    def any_encoder(self) -> EncoderQuestion:
        """The model, its input and its engine, which are the same on every GPU."""
        return self.encoders[0]


@dataclass(frozen=True, eq=False)
class EncoderServeSolution:
    """Copies that run, what each sustains, and placements of them, cheapest first."""

    copies: Copies
    found: Capacity
    placements: list[Placement]
    ranked: list[PricedPlacement]
    rejections: Rejections


def solve_encoder_serve(question: EncoderServeQuestion, calibration: Calibration) -> EncoderServeSolution:
    """Drop what does not run, rate the rest under every load, join the offers."""
    rejections, demand = Rejections(), question.demand
    copies = copies_of(question.encoders, calibration, rejections)
    loads = PassLoads(copies, question.any_encoder.num_windows)
    caution = Caution.of_passes(demand.confidence, copies.figures("high_ratio"), len(loads.batch))
    found = pass_capacity(loads, demand.workload.slo, caution)
    name, sold = (lambda row: copies.all[row].name), partial(is_copy_sold, question, copies)
    count_infeasible(name, sold, found, demand, rejections)
    placements = place_copies(question.instances, copies, found, demand)
    ranked = bought(placements, question.offers, question.purse, rejections)
    return EncoderServeSolution(copies, found, placements, ranked, rejections)


def is_copy_sold(question: EncoderServeQuestion, copies: Copies) -> BoolArray:
    """Which copies some machine type with a price hosts."""
    priced = {(o.cloud, o.instance) for o in question.offers}
    rows = [row for i in question.instances if (i.cloud, i.name) in priced for row in copies.on(i)]
    return np.isin(np.arange(len(copies.all)), rows)
