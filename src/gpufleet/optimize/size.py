"""Which machines serve a workload within its objectives at least cost.

Arrays have one row per candidate replica and one column per batch of the shared grid; offers join at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.slo import Limit, figure_label, metric_of
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.optimize.caution import EXPECTED, Caution
from gpufleet.performance.load_curves import (
    crowded_batch,
    latency_percentile_s,
    sustained_requests_per_s,
    tpot_percentile_s,
    ttft_percentiles_s,
)
from gpufleet.performance.request_mix import RequestMix, mix_of
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO, Lengths
from gpufleet.pricing.commitment import offer_usd_per_hour

QUANTILES = {"mean": None, "p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
ADMISSION_QUANTILE = 0.95
JUST_INSIDE = 1 - 1e-9
ROUNDING = 1e-9
BY_THE_HOUR = (PriceKind.ON_DEMAND, PriceKind.SPOT, PriceKind.FLEX_START)
LOAD, ROOM, SATURATION, UNSOLD = "load", "KV room", "throughput", "no price"


@dataclass(frozen=True)
class QuietHours:
    """The part of the time in which requests come at a lower rate: machines are given back for it."""

    time_ratio: float
    rate_requests_per_s: float


@dataclass(frozen=True)
class Demand:
    """A workload and how much slack to keep: capacity for rate x (1 + headroom), at least `min_replicas`.

    The capacity holds also without `spare_machines` of the machines, or without any one of `zones` that they are
    spread over. Every limit holds with `confidence`: 0.5 is the expected value, 0.9 the high end of its range.
    """

    workload: Workload
    headroom_ratio: float = 0.0
    min_replicas: int = 1
    spare_machines: int = 0
    zones: int = 1
    quiet: QuietHours | None = None
    confidence: float = EXPECTED

    @cached_property
    def mix(self) -> RequestMix:
        """The requests as an engine meets them."""
        return mix_of(self.workload)

    @property
    def lengths(self) -> Lengths:
        """Mean tokens of a request."""
        return self.mix.lengths

    @property
    def planned_requests_per_s(self) -> float:
        """The rate that capacity is bought for."""
        return self.workload.rate_requests_per_s * (1 + self.headroom_ratio)

    @property
    def busy_ratio(self) -> float:
        """The part of the time at the full rate."""
        return 1.0 if self.quiet is None else 1.0 - self.quiet.time_ratio

    @property
    def quiet_requests_per_s(self) -> float:
        """What the quiet hours add to the rate over all hours."""
        return 0.0 if self.quiet is None else self.quiet.time_ratio * self.quiet.rate_requests_per_s

    @property
    def mean_requests_per_s(self) -> float:
        """The rate over all hours: what a day is charged, heated and billed for."""
        return self.busy_ratio * self.workload.rate_requests_per_s + self.quiet_requests_per_s

    def peak_requests_per_s(self, mean_requests_per_s: Floats) -> Floats:
        """The full rate at which the rate over all hours is this, with the quiet hours as they are."""
        return (mean_requests_per_s - self.quiet_requests_per_s) / self.busy_ratio


class RateCurves(Protocol):
    """What rates need of candidates: [candidate, batch] over a shared grid of batches."""

    @property
    def batch(self) -> FloatArray:
        """The grid: requests at a time."""

    @property
    def requests_per_s(self) -> FloatArray:
        """The arrival rate that keeps that batch going."""

    @property
    def largest_batch(self) -> FloatArray:
        """The most that fit, of each candidate."""


@dataclass(frozen=True)
class Capacity:
    """What one replica of each candidate sustains within the objectives.

    `objectives_s` maps a figure's label (each limit's among them) to seconds [candidate, batch]; `breaks` maps a
    reason to where it forbids a batch, `strains` to what is planned over what is allowed; `best` is the last admissible
    column at the highest rate, `beyond` how far towards the next column every limit still holds (0..1),
    `requests_per_s` the rate there (0: none is admissible).
    With `caution` limits hold and the rate is served even where all is so much slower than expected.
    """

    curves: RateCurves
    objectives_s: dict[str, FloatArray]
    breaks: dict[str, BoolArray]
    best: IntArray
    beyond: FloatArray
    requests_per_s: FloatArray
    sustained_requests_per_s: FloatArray
    caution: Caution | None = None
    strains: Mapping[str, FloatArray] = field(default_factory=dict)

    def planned_s(self, label: str) -> FloatArray:
        """What a figure is planned to be: its expected value, or how late it comes with the confidence asked for."""
        return later(self.objectives_s[label], metric_of(label), self.caution)

    @property
    def is_feasible(self) -> BoolArray:
        """Candidates with an admissible batch."""
        return self.requests_per_s > 0


def figure_s(
    curves: LoadCurves, candidates: Candidates, workload: Workload, figure: tuple[str, str, str]
) -> FloatArray:
    """Seconds of one latency figure (class, metric, statistic) for every candidate at every batch."""
    request_class, metric, statistic = figure
    quantile, groups = QUANTILES[statistic], candidates.attention_dp[:, None].astype(np.float64)
    if metric == "tpot":
        return tpot_percentile_s(curves, quantile)
    ttft_s = ttft_percentiles_s(curves, groups, quantile, curves.beyond_mean_s.get((request_class, statistic)))
    if metric == "ttft":
        return ttft_s
    answer = answers(workload, request_class).at(statistic)
    return latency_percentile_s(ttft_s, tpot_percentile_s(curves, quantile), answer)


def answers(workload: Workload, request_class: str) -> TokenCounts:
    """Tokens of the answers to requests of a class."""
    own = (c.output_tokens for c in workload.classes if c.name == request_class)
    return next(own, TokenCounts(workload.output_tokens))


def capacity(curves: LoadCurves, candidates: Candidates, demand: Demand, caution: Caution | None = None) -> Capacity:
    """The highest rate of each candidate that keeps every objective, 95 % of its load and the KV room."""
    slo, workload = demand.workload.slo, demand.workload
    objectives = {figure_label(*f): figure_s(curves, candidates, workload, f) for f in workload.figures}
    sustained = sustained_requests_per_s(curves)
    strains = {x.label: later(objectives[x.label], x.metric, caution) / x.limit_s for x in slo.limits}
    with np.errstate(divide="ignore"):
        crowd = crowded_batch(curves.batch, ADMISSION_QUANTILE, demand.mix.held_squared_variation)
        strains[ROOM] = crowd[None, :] / curves.largest_batch[:, None]
        strains[LOAD] = curves.requests_per_s / (HIGHEST_LOAD_RATIO * sustained[:, None])
    return capacity_within(curves, objectives, strains, sustained, caution)


def capacity_within(
    curves: RateCurves,
    objectives: dict[str, FloatArray],
    strains: Mapping[str, FloatArray],
    sustained: FloatArray,
    caution: Caution | None = None,
) -> Capacity:
    """The highest rate of each candidate at which every strain (planned / limit) stays at or below 1."""
    breaks = {reason: ~(strain <= 1) for reason, strain in strains.items()}
    served = curves.requests_per_s if caution is None else curves.requests_per_s / caution.tpot_ratio
    best, beyond, found = highest_rate(list(strains.values()), served)
    return Capacity(curves, objectives, breaks, best, beyond, found, sustained, caution, strains)


def highest_rate(strains: Sequence[FloatArray], served: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """The last admissible column, how far beyond it all strains stay at or below 1, and the rate there."""
    rates = np.where(np.any([~(strain <= 1) for strain in strains], axis=0), 0.0, served)
    best = np.argmax(rates, axis=1)
    beyond = share_of_next_column(strains, best)
    return best, beyond, rate_between(rates, served, best, beyond)


def rate_within_limits(found: Capacity, row: int, step_ratio: float, late_ratio: Mapping[str, float]) -> float:
    """The highest rate of a replica that keeps every limit where steps take `step_ratio` times as long as expected.

    `late_ratio`: how many times later than expected each metric comes then. 0: its limits break at any load   [1/s].
    """

    def strain(reason: str) -> FloatArray:
        planned = found.strains[reason][[row]]
        if reason not in found.objectives_s:
            return planned
        metric = metric_of(reason)
        planned_ratio = 1.0 if found.caution is None else found.caution.of(metric)[[row]]
        return np.asarray(planned * late_ratio[metric] / planned_ratio)

    strains = [strain(reason) for reason in found.strains]
    return float(highest_rate(strains, found.curves.requests_per_s[[row]] / step_ratio)[2][0])


def later(expected_s: FloatArray, metric: str, caution: Caution | None) -> FloatArray:
    """A figure as it is planned: expected, or later by what caution asks for."""
    return expected_s if caution is None else expected_s * caution.of(metric)


def share_of_next_column(strains: Sequence[FloatArray], best: IntArray) -> FloatArray:
    """How far towards the next column all strains stay at or below 1, each linear in between; 0 at the last column."""
    rows, following = np.arange(len(best)), np.minimum(best + 1, strains[0].shape[1] - 1)
    share = np.where(following > best, 1.0, 0.0)
    for strain in strains:
        here, there = strain[rows, best], strain[rows, following]
        crosses = (here <= 1) & (there > 1) & np.isfinite(there)
        edge = (1 - here) / np.where(crosses, there - here, 1.0)
        share = np.minimum(share, np.where(crosses, JUST_INSIDE * edge, np.where(there > 1, 0.0, 1.0)))
    return share


def rate_between(rates: FloatArray, served: FloatArray, best: IntArray, beyond: FloatArray) -> FloatArray:
    """Rate at the edge: never less than at the best column; 0 where no column is admissible."""
    rows, following = np.arange(len(best)), np.minimum(best + 1, rates.shape[1] - 1)
    here, there = rates[rows, best], served[rows, following]
    return np.where(here > 0, here + beyond * np.maximum(there - here, 0.0), 0.0)


def binding_limit(found: Capacity, row: int) -> str:
    """What forbids the next larger batch of a candidate."""
    following = min(int(found.best[row]) + 1, len(found.curves.batch) - 1)
    broken = [reason for reason, where in found.breaks.items() if where[row, following]]
    return broken[0] if broken else SATURATION


@dataclass(frozen=True)
class Placement:
    """Replicas of one candidate on one instance type: as many as needed, packed whole into machines.

    `quiet_instance_count` are kept in quiet hours, `busy_ratio` of the time all are.
    """

    instance: Instance
    row: int
    replicas: int
    instance_count: int
    gpus_per_replica: int
    quiet_instance_count: int = 0
    busy_ratio: float = 1.0

    @property
    def idle_gpus(self) -> int:
        """GPUs that are paid for and hold no replica."""
        return round(self.instance.gpu_count * self.instance_count) - self.replicas * self.gpus_per_replica


def is_host(instance: Instance, candidates: Candidates) -> BoolArray:
    """Candidates whose replica fits into one machine of this type and was rated on its link."""
    accelerators = [a.name for a in candidates.palette.accelerators]
    if instance.accelerator not in accelerators:
        return np.zeros(len(candidates), dtype=np.bool_)
    same_gpu = candidates.accelerator == accelerators.index(instance.accelerator)
    same_link = (candidates.link_is_pcie == (not instance.fabric.is_switched)) & (
        candidates.link_bytes_per_s == (instance.fabric.bytes_per_s or 0.0)
    )
    return np.asarray(
        same_gpu & (same_link | (candidates.num_devices == 1)) & (candidates.num_devices <= instance.gpu_count)
    )


def place(instance: Instance, candidates: Candidates, found: Capacity, demand: Demand) -> Placement | None:
    """The candidate that needs the fewest machines of this type; among equals the one with most capacity to spare."""
    rows = np.flatnonzero(is_host(instance, candidates) & found.is_feasible)
    return place_best(instance, rows, candidates.num_devices[rows], found, demand)


def place_best(
    instance: Instance, rows: IntArray, num_devices: IntArray, found: Capacity, demand: Demand
) -> Placement | None:
    """The same among these rows, whose replicas take so many devices each."""
    if not len(rows):
        return None
    per_instance = np.floor(instance.gpu_count / num_devices)
    carried = per_instance * found.requests_per_s[rows]
    machines = machines_for(demand.planned_requests_per_s, per_instance, found.requests_per_s[rows], demand)
    quiet = machines
    if demand.quiet is not None:
        planned = demand.quiet.rate_requests_per_s * (1 + demand.headroom_ratio)
        quiet = machines_for(planned, per_instance, found.requests_per_s[rows], demand)
    paid = demand.busy_ratio * machines + (1 - demand.busy_ratio) * quiet
    chosen = np.lexsort((rows, -machines * carried, paid))[0]
    row, count = int(rows[chosen]), int(machines[chosen])
    replicas = count * int(per_instance[chosen])
    return Placement(instance, row, replicas, count, int(num_devices[chosen]), int(quiet[chosen]), demand.busy_ratio)


def machines_for(rate: Floats, replicas_each: FloatArray, replica_rate: FloatArray, demand: Demand) -> FloatArray:
    """Machines that carry a rate, also without the spare ones or without a zone.

    n = ceil(max(ceil(rate / replica rate), least replicas) / replicas of a machine); n + spare, or ceil(n z / (z - 1))
    over z zones: what is left without the fullest of them is n.   [1]
    """
    needed = np.ceil(np.maximum(np.ceil(rate / replica_rate), demand.min_replicas) / replicas_each)
    spread = np.ceil(needed * demand.zones / (demand.zones - 1)) if demand.zones > 1 else needed
    return np.asarray(spread + demand.spare_machines)


@dataclass(frozen=True)
class PricedPlacement:
    """A placement bought through an offer; `steady` sells the machines that may not be spot."""

    placement: Placement
    offer: Offer
    steady: Offer | None = None
    most_spot_ratio: float = 1.0

    def steady_count(self, machines: int) -> int:
        """How many of so many machines are bought from `steady`."""
        return 0 if self.steady is None else machines - math.floor(machines * self.most_spot_ratio + ROUNDING)

    def machines_usd_per_hour(self, machines: int) -> float:
        """What so many machines cost."""
        steady = self.steady_count(machines)
        beside = 0.0 if self.steady is None else steady * effective_price(self.steady)
        return (machines - steady) * effective_price(self.offer) + beside

    @property
    def quiet_instance_count(self) -> int:
        """Machines that are paid for in quiet hours: what is bought for a term is paid for round the clock."""
        p = self.placement
        return p.quiet_instance_count if self.offer.price_kind in BY_THE_HOUR else p.instance_count

    @property
    def busy_usd_per_hour(self) -> float:
        """What all machines cost."""
        return float(self.machines_usd_per_hour(self.placement.instance_count))

    @property
    def quiet_steady_count(self) -> int:
        """How many of the machines in quiet hours are bought from `steady`."""
        return self.steady_count(self.quiet_instance_count)

    @property
    def usd_per_hour(self) -> float:
        """What the machines cost over all hours."""
        busy = self.placement.busy_ratio
        if busy == 1:
            return self.busy_usd_per_hour
        return busy * self.busy_usd_per_hour + (1 - busy) * self.machines_usd_per_hour(self.quiet_instance_count)


def effective_price(offer: Offer) -> float:
    """Hourly price of one instance of an offer."""
    return offer_usd_per_hour(offer)


def rank(
    placements: Iterable[Placement], offers: Sequence[Offer], most_spot_ratio: float = 1.0
) -> list[PricedPlacement]:
    """Every placement through every offer that can supply its machines, cheapest first; ties keep a fixed order.

    Where not all may be spot, the others are bought on demand in the same region.
    """
    by_type = {(p.instance.cloud, p.instance.name): p for p in placements}
    priced = [PricedPlacement(by_type[key], o) for o in offers if (key := (o.cloud, o.instance)) in by_type]
    if most_spot_ratio < 1:
        priced = partly_steady(priced, on_demand_beside(offers), most_spot_ratio)
    had = (p for p in priced if p.offer.can_supply(p.placement.instance_count))
    return sorted(
        had, key=lambda p: (p.usd_per_hour, p.offer.cloud, p.offer.instance, p.offer.region, p.offer.price_kind)
    )


def partly_steady(
    priced: Iterable[PricedPlacement], steady: Mapping[tuple[str, str, str], Offer], most_spot_ratio: float
) -> list[PricedPlacement]:
    """The same with no more than a share of the machines on spot; what leaves no machine on spot is dropped."""
    kept = []
    for p in priced:
        if p.offer.price_kind is not PriceKind.SPOT:
            kept.append(p)
        elif (beside := steady.get((p.offer.cloud, p.offer.instance, p.offer.region))) is not None:
            mixed = replace(p, steady=beside, most_spot_ratio=most_spot_ratio)
            kept += [mixed] if mixed.steady_count(p.placement.instance_count) < p.placement.instance_count else []
    return kept


def on_demand_beside(offers: Sequence[Offer]) -> dict[tuple[str, str, str], Offer]:
    """The cheapest on-demand offer of each cloud, instance type and region."""
    found: dict[tuple[str, str, str], Offer] = {}
    for o in (o for o in offers if o.price_kind is PriceKind.ON_DEMAND):
        key = (o.cloud, o.instance, o.region)
        if key not in found or effective_price(o) < effective_price(found[key]):
            found[key] = o
    return found


def best_of_each_type(ranked: Iterable[PricedPlacement]) -> list[PricedPlacement]:
    """The cheapest region of each instance type and price kind, in order."""
    best: dict[tuple[str, str, str], PricedPlacement] = {}
    for priced in ranked:
        best.setdefault((priced.offer.cloud, priced.offer.instance, priced.offer.price_kind.value), priced)
    return list(best.values())


@dataclass(frozen=True)
class Operation:
    """One candidate at the rate that its replicas really get."""

    batch: float
    requests_per_s: float
    objectives_s: dict[str, float]


def operate(found: Capacity, row: int, requests_per_s: float) -> Operation:
    """Batch and objectives at a rate that the candidate admits, between the columns of the grid."""
    columns = min(int(found.best[row]) + 2, len(found.curves.batch))
    rates = np.maximum.accumulate(found.curves.requests_per_s[row, :columns])
    edge = float(found.best[row] + found.beyond[row])
    position = min(float(np.interp(requests_per_s, rates, np.arange(columns))), edge)
    return operation_at(found, row, requests_per_s, position)


def operate_beyond(found: Capacity, row: int, requests_per_s: float) -> Operation | None:
    """The same at any rate that the replica sustains, whatever its objectives say; None above that: queues grow."""
    rates = np.maximum.accumulate(found.curves.requests_per_s[row])
    roomy = np.flatnonzero(found.curves.batch <= found.curves.largest_batch[row])
    if not len(roomy) or requests_per_s >= rates[roomy[-1]]:
        return None
    return operation_at(found, row, requests_per_s, float(np.interp(requests_per_s, rates, np.arange(len(rates)))))


def operation_at(found: Capacity, row: int, requests_per_s: float, position: float) -> Operation:
    """Batch and objectives at a place between two columns."""
    below = min(int(position), len(found.curves.batch) - 1)
    above, share = min(below + 1, len(found.curves.batch) - 1), position - below

    def at(values: FloatArray) -> float:
        return float(values[below]) if share == 0 else float(values[below] * (1 - share) + values[above] * share)

    return Operation(
        at(found.curves.batch), requests_per_s, {name: at(values[row]) for name, values in found.objectives_s.items()}
    )


def needed_together(found: Capacity, limits: Sequence[Limit]) -> list[tuple[Limit, float, int]]:
    """What every limit would have to be for the candidate that misses the worst of them by the smallest factor."""
    if not limits:
        return []
    labels = {limit.label for limit in limits}
    barred = np.any([where for reason, where in found.breaks.items() if reason not in labels], axis=0)
    factors = np.max([found.planned_s(x.label) / x.limit_s for x in limits], axis=0)
    factors = np.where(barred, np.inf, factors)
    if not np.isfinite(factors).any():
        return []
    row, column = (int(i) for i in np.unravel_index(np.argmin(factors), factors.shape))
    seconds = [(x, float(found.planned_s(x.label)[row, column]), row) for x in limits]
    return [(limit, needed, at) for limit, needed, at in seconds if needed > limit.limit_s]


def among(found: Capacity, rows: BoolArray) -> Capacity:
    """The same capacity where only these candidates may be chosen."""
    shut = np.broadcast_to(~rows[:, None], found.curves.requests_per_s.shape)
    return replace(
        found, breaks={**found.breaks, UNSOLD: shut}, requests_per_s=np.where(rows, found.requests_per_s, 0.0)
    )


def needed_alone(found: Capacity, limits: Sequence[Limit]) -> list[tuple[Limit, float, int]]:
    """For each limit, the smallest value at which some candidate becomes feasible with the other limits kept.

    Returns (limit, needed seconds, candidate); a limit that cannot mend the plan alone is left out.
    """
    needed = []
    for limit in limits:
        others = [where for reason, where in found.breaks.items() if reason != limit.label]
        planned_s = found.planned_s(limit.label)
        seconds = np.where(~np.any(others, axis=0) & np.isfinite(planned_s), planned_s, np.inf)
        row = int(np.unravel_index(np.argmin(seconds), seconds.shape)[0])
        if math.isfinite(float(seconds.min())):
            needed.append((limit, float(seconds.min()), row))
    return needed
