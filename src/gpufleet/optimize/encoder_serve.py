"""The serving question of encoders: copies that answer a rate of requests within a latency at least cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property, partial

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Slo
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.encoder_copies import Copies, copies_of
from gpufleet.optimize.placement import Placement, place_best
from gpufleet.optimize.purchase import PricedPlacement, best_of_each_type, rank
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.serve import Purse, count_infeasible, count_unpriced, within_budget
from gpufleet.optimize.size import LOAD, QUANTILES, Capacity, capacity_within, later
from gpufleet.performance.passes import (
    arrivals_grid,
    mean_pass_requests,
    own_pass_requests,
    rest_of_pass_s,
    wait_for_others_s,
)
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO
from gpufleet.records import dataclass

LATENCY = "latency"


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
class PassLoads:
    """Copies under rising load: rows are copies, columns the mean requests of a pass, over a shared grid.

    A request is `inputs_per_request` inputs of a pass.
    """

    copies: Copies
    inputs_per_request: float

    @cached_property
    def arrivals(self) -> FloatArray:
        """Mean arrivals during a pass."""
        return arrivals_grid()

    @cached_property
    def batch(self) -> FloatArray:
        """Mean requests of a pass."""
        return mean_pass_requests(self.arrivals)

    @cached_property
    def pass_s(self) -> FloatArray:
        """Seconds of the mean pass."""
        return self.seconds_of(self.batch)

    @cached_property
    def requests_per_s(self) -> FloatArray:
        """The rate at which so many requests come during a pass."""
        return np.asarray(np.maximum.accumulate(self.arrivals / self.pass_s, axis=1))

    @cached_property
    def sustained_requests_per_s(self) -> FloatArray:
        """Requests per second in full passes."""
        return self.copies.figures("full_per_s") / self.inputs_per_request

    @cached_property
    def growth(self) -> FloatArray:
        """Seconds that a further request adds to a pass, times the rate."""
        slope = np.gradient(self.pass_s, self.batch, axis=1) if len(self.pass_s) else self.pass_s
        return np.asarray(self.requests_per_s * slope)

    @property
    def largest_batch(self) -> FloatArray:
        """Unlimited: what a pass does not hold is cut into several."""
        return np.full(len(self.copies.all), np.inf)

    def seconds_of(self, requests: FloatArray) -> FloatArray:
        """Seconds of passes over so many requests each: [copy, column], or [column] for every copy."""
        each = np.broadcast_to(requests, (len(self.copies.all), len(self.batch)))
        rows = [c.seconds_of(n * self.inputs_per_request) for c, n in zip(self.copies.all, each, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(each.shape)

    def latency_s(self, quantile: float | None) -> FloatArray:
        """From arrival to answer at a quantile of requests, or the mean; never less under more load.

        The rest of the running pass, others' work where a copy is nearly full, and the own pass   [s]
        """
        load = self.requests_per_s / self.sustained_requests_per_s[:, None]
        own = self.seconds_of(own_pass_requests(quantile, self.arrivals, self.growth))
        others = wait_for_others_s(quantile, load, 1 / self.sustained_requests_per_s[:, None])
        found = rest_of_pass_s(quantile, self.arrivals, self.pass_s) + others + own
        return np.asarray(np.maximum.accumulate(found, axis=1))


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
    priced = best_of_each_type(rank(placements, question.offers, question.purse.most_spot_ratio))
    count_unpriced(placements, priced, question.offers, question.purse.most_spot_ratio, rejections)
    ranked = within_budget(priced, question.purse.most_usd_per_hour, rejections)
    return EncoderServeSolution(copies, found, placements, ranked, rejections)


def is_copy_sold(question: EncoderServeQuestion, copies: Copies) -> BoolArray:
    """Which copies some machine type with a price hosts."""
    priced = {(o.cloud, o.instance) for o in question.offers}
    rows = [row for i in question.instances if (i.cloud, i.name) in priced for row in copies.on(i)]
    return np.isin(np.arange(len(copies.all)), rows)


def pass_capacity(loads: PassLoads, slo: Slo, caution: Caution | None) -> Capacity:
    """The highest rate of each copy that keeps every latency and 95 % of its load."""
    objectives = {label: loads.latency_s(QUANTILES[statistic]) for label, statistic in latency_figures(slo).items()}
    strains = {x.label: later(objectives[x.label], x.metric, caution) / x.limit_s for x in slo.limits}
    sustained = loads.sustained_requests_per_s
    strains[LOAD] = loads.requests_per_s / (HIGHEST_LOAD_RATIO * sustained[:, None])
    return capacity_within(loads, objectives, strains, sustained, caution)


def latency_figures(slo: Slo) -> dict[str, str]:
    """Statistic of every limit by its label, and of the 95th percentile where there is none.

    >>> latency_figures(Slo())
    {'latency.p95': 'p95'}
    """
    return {limit.label: limit.statistic for limit in slo.limits} or {f"{LATENCY}.p95": "p95"}


def place_copies(instances: Sequence[Instance], copies: Copies, found: Capacity, demand: Demand) -> list[Placement]:
    """The best placement on each machine type, a copy on each GPU."""
    placed = []
    for instance in instances:
        rows = copies.on(instance)
        rows = rows[found.is_feasible[rows]]
        placed.append(place_best(instance, rows, np.ones_like(rows), found, demand))
    return [p for p in placed if p is not None]
