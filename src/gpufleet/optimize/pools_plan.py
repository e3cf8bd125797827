"""The cheapest pools that prefill and that decode: whole copies with matched rates, on machines of one region."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.calibration import HandoverFormula
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.slo import Limit
from gpufleet.optimize.caution import slow_ratio
from gpufleet.optimize.copies.decoder import Replicas, WriterQuestion, WriterSolution
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.pools import beyond_means_s
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.optimize.size import ADMISSION_QUANTILE, QUANTILES
from gpufleet.performance.load_curves import crowded_batch
from gpufleet.performance.pools import (
    Passage,
    PoolCurves,
    Pools,
    crowded_step_s,
    first_token_s,
    handed_over_bytes,
    handover_s,
    open_passage,
)
from gpufleet.performance.request_mix import prompt_work_ratio
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO, request_host_s
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import time_bounds
from gpufleet.records import dataclass

KEPT_PER_REGION, MOST_TRIED = 4, 100
LONE_RATIOS = (0.9, 0.5)


@dataclass(frozen=True)
class PlacedPool:
    """Copies of one row on machines of one type."""

    row: int
    copies: int
    instance: Instance
    offer: Offer


@dataclass(frozen=True, eq=False)
class PooledPlacement:
    """Both pools in one region, what they cost, and what requests meet at the planned rate.

    `machines` of each pool; where both stand on one machine type they share them, and the first counts all.
    """

    prefill: PlacedPool
    decode: PlacedPool
    machines: tuple[int, int]
    usd_per_hour: float
    planned_s: Mapping[str, float]
    carried_per_s: tuple[float, float]
    handover_s: float


def machines_for_both(gpus: int, copies: tuple[int, int], sizes: tuple[int, int]) -> int:
    """Machines of so many GPUs that hold copies of two sizes, the larger ones spread evenly first.

    >>> machines_for_both(8, (2, 1), (2, 4)), machines_for_both(8, (3, 1), (4, 8)), machines_for_both(8, (1, 1), (4, 4))
    (1, 3, 1)
    """
    (large, size), (small, other) = sorted(zip(copies, sizes, strict=True), key=lambda pair: -pair[1])
    machines = max(math.ceil((large * size + small * other) / gpus), 1)
    while not holds_both(gpus, machines, (large, size), (small, other)):
        machines += 1
    return machines


def holds_both(gpus: int, machines: int, large: tuple[int, int], small: tuple[int, int]) -> bool:
    """Whether so many machines hold `large` and `small` (copies, GPUs of each)."""
    least, more = divmod(large[0], machines)
    free = [gpus - (least + (i < more)) * large[1] for i in range(machines)]
    return min(free) >= 0 and sum(room // small[1] for room in free) >= small[0]


@dataclass(frozen=True)
class Choice:
    """A row on one machine type of a region, as many copies to a machine, and what one copy carries."""

    row: int
    instance: Instance
    offer: Offer
    copies_each: int
    carried_per_s: float

    @property
    def usd_per_rate(self) -> float:
        """Price of a machine over what its copies carry."""
        return effective_price(self.offer) / (self.copies_each * self.carried_per_s)


@dataclass(frozen=True, eq=False)
class PoolsSearch:
    """The replicas of a solved service question as copies of either pool.

    `network_bytes_per_s` of a GPU of each machine type, by (cloud, name). Limits hold with the confidence of the
    demand: steps `slow` times as slow serve a rate as the expected ones serve `slow` times that rate.
    """

    question: WriterQuestion
    copies: Replicas
    network_bytes_per_s: Mapping[tuple[str, str], float]
    handover: HandoverFormula

    @cached_property
    def curves(self) -> PoolCurves:
        """Every replica as one copy that prefills and as one that decodes."""
        mix, model = self.question.demand.mix, self.copies.model
        budget = MemoryModel.build(model.arch, model.candidates).engine.prefill_budget_tokens
        each = np.maximum(np.floor(np.asarray(budget) / mix.lengths.input_tokens), 1.0)
        most = np.asarray(model.candidates.num_groups * each)
        pools = Pools(model, model, 1.0, 1.0, most, self.copies.largest_batch, 0.0)
        return PoolCurves(pools, mix.lengths, mix.prompt_squared_variation, prompt_work_ratio(model, mix))

    @cached_property
    def slow(self) -> FloatArray:
        """How many times as slow as expected steps are planned to be, of each replica."""
        bounds = time_bounds(self.copies.model, np.ones(len(self.copies)), self.question.demand.lengths)
        return slow_ratio(self.question.demand.confidence, bounds["tpot"].high_ratio)

    @cached_property
    def prefill_per_s(self) -> FloatArray:
        """The most that one copy prefills, at the load that is kept free of endless queues."""
        return np.asarray(HIGHEST_LOAD_RATIO * self.curves.prefill_per_s[-1] / self.slow)

    @cached_property
    def lone_ratio(self) -> FloatArray:
        """First tokens without any wait over their tightest limit, of each replica: above 1 no more copies help."""
        curves, workload = self.curves, self.question.demand.workload
        model, worst = curves.pools.prefill, np.zeros(len(self.copies))
        alone_s = 2 * request_host_s(model, curves.lengths) + curves.prefill_s[0] + curves.lone_beyond_busy_s
        for limit in (x for x in self.limits if x.metric == "ttft"):
            differs = bool(workload.classes) and QUANTILES[limit.statistic] is not None
            beyond_s = beyond_means_s(model, workload, limit.statistic) if differs else 0.0
            worst = np.maximum(worst, self.slow * (alone_s + beyond_s) / limit.limit_s)
        return worst

    @cached_property
    def decode_per_s(self) -> FloatArray:
        """The most that one copy decodes within its room and the limits of TPOT; 0 where none keeps them."""
        rates = np.where(self.keeps_tpot, self.curves.decode_per_s / self.slow, 0.0)
        return np.asarray(HIGHEST_LOAD_RATIO * np.max(rates, axis=0))

    @cached_property
    def keeps_tpot(self) -> BoolArray:
        """Batches whose crowd has room and keeps every limit of TPOT: [batch, replica]."""
        batch, mix = self.curves.batch, self.question.demand.mix
        held = np.maximum(batch, 1e-3)
        crowd = crowded_batch(held, ADMISSION_QUANTILE, mix.held_squared_variation)
        kept = crowd <= self.copies.largest_batch
        for limit in (x for x in self.question.demand.workload.slo.limits if x.metric == "tpot"):
            kept &= self.curves.step_s * self.slow <= limit.limit_s
        return np.asarray(kept)

    def choices(self, machines: Iterable[tuple[Instance, Offer]], carried: FloatArray) -> list[Choice]:
        """The replica that carries most for its price on each machine type, the cheapest types first."""
        found = []
        for instance, offer in machines:
            rows = self.copies.on(instance)
            rows = rows[carried[rows] > 0]
            if len(rows):
                found.append(self.best_on(instance, offer, rows, carried))
        return sorted(found, key=lambda choice: choice.usd_per_rate)[:KEPT_PER_REGION]

    def best_on(self, instance: Instance, offer: Offer, rows: IntArray, carried: FloatArray) -> Choice:
        """The replica of which a machine carries most."""
        each = np.floor(instance.gpu_count / self.copies.num_devices[rows])
        best = int(np.argmax(each * carried[rows]))
        return Choice(int(rows[best]), instance, offer, int(each[best]), float(carried[rows[best]]))

    @cached_property
    def pairs(self) -> list[tuple[Choice, Choice]]:
        """Pairs of pools that may stand in one region: copies of both weights formats and engines are the same."""
        types = {(i.cloud, i.name): i for i in self.question.instances}
        regions: dict[tuple[str, str, PriceKind], list[tuple[Instance, Offer]]] = defaultdict(list)
        for offer in self.question.offers:
            if (offer.cloud, offer.instance) in types:
                key = (offer.cloud, offer.region, offer.price_kind)
                regions[key].append((types[offer.cloud, offer.instance], offer))
        found = []
        for machines in regions.values():
            decode = self.choices(machines, self.decode_per_s)
            for most in LONE_RATIOS:
                quick = np.where(self.lone_ratio <= most, self.prefill_per_s, 0.0)
                prefill = self.choices(machines, quick)
                found += [(p, d) for p in prefill for d in decode if self.are_alike(p.row, d.row)]
        return found

    def are_alike(self, first: int, second: int) -> bool:
        """Whether two replicas hand a cache on: one engine, one format of weights and of KV."""
        c = self.copies.candidates
        return all(column[first] == column[second] for column in (c.engine, c.weight_format, c.kv_precision))

    def cost(self, pair: tuple[Choice, Choice], copies: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        """Price of both pools and their machines; unlimited where too few can be had."""
        prefill, decode = pair
        if prefill.instance is decode.instance and prefill.offer is decode.offer:
            sizes = tuple(int(self.copies.num_devices[choice.row]) for choice in pair)
            both = machines_for_both(int(prefill.instance.gpu_count), copies, (sizes[0], sizes[1]))
            usd = both * effective_price(prefill.offer) if prefill.offer.can_supply(both) else math.inf
            return usd, (both, 0)
        machines = tuple(math.ceil(n / choice.copies_each) for n, choice in zip(copies, pair, strict=True))
        can = all(choice.offer.can_supply(n) for n, choice in zip(machines, pair, strict=True))
        usd = sum(n * effective_price(choice.offer) for n, choice in zip(machines, pair, strict=True))
        return usd if can else math.inf, (machines[0], machines[1])

    def cheapest(self) -> PooledPlacement | None:
        """The cheapest pools that keep every limit: copies are added to the pool whose limit breaks."""
        rate, count = self.question.demand.planned_requests_per_s, 0
        heap: list[tuple[float, int, int, tuple[int, int]]] = []
        seen: set[tuple[int, tuple[int, int]]] = set()

        def push(at: int, copies: tuple[int, int]) -> None:
            usd = self.cost(self.pairs[at], copies)[0]
            if math.isfinite(usd) and (at, copies) not in seen:
                seen.add((at, copies))
                heapq.heappush(heap, (usd, len(seen), at, copies))

        for at, pair in enumerate(self.pairs):
            push(at, (math.ceil(rate / pair[0].carried_per_s), math.ceil(rate / pair[1].carried_per_s)))
        while heap and count < MOST_TRIED:
            usd, _, at, copies = heapq.heappop(heap)
            count += 1
            placed, broken = self.placed(self.pairs[at], copies, usd)
            if not broken:
                return placed
            if "tpot" not in broken:
                push(at, (copies[0] + 1, copies[1]))
            if broken & {"tpot", "latency"}:
                push(at, (copies[0], copies[1] + 1))
        return None

    def placed(
        self, pair: tuple[Choice, Choice], copies: tuple[int, int], usd: float
    ) -> tuple[PooledPlacement, set[str]]:
        """Both pools at the planned rate, and the metrics of the limits that break."""
        curves, hand_s = self.curves_of(pair, copies)
        slow = float(np.max(self.slow[[choice.row for choice in pair]]))
        rate = np.minimum(self.question.demand.planned_requests_per_s * slow, HIGHEST_LOAD_RATIO * curves.carried_per_s)
        found = open_passage(curves, rate)
        planned = {limit.label: slow * self.figure_s(curves, found, limit) for limit in self.limits}
        broken = {limit.metric for limit in self.limits if planned[limit.label] > limit.limit_s}
        pools = [PlacedPool(c.row, n, c.instance, c.offer) for c, n in zip(pair, copies, strict=True)]
        carried = float(curves.prefill_pool_per_s[0]), float(curves.decode_pool_per_s[0])
        machines = self.cost(pair, copies)[1]
        return PooledPlacement(pools[0], pools[1], machines, usd, planned, carried, hand_s), broken

    @property
    def limits(self) -> Sequence[Limit]:
        """What was asked of latencies."""
        return self.question.demand.workload.slo.limits

    def figure_s(self, curves: PoolCurves, found: Passage, limit: Limit) -> float:
        """The expected figure that a limit speaks of."""
        workload, quantile = self.question.demand.workload, QUANTILES[limit.statistic]
        first, later = found.ttft_s, found.tpot_s
        if quantile is not None:
            first, later = first_token_s(curves, found, quantile), crowded_step_s(curves, found, quantile)
            if curves.prompt_squared_variation:
                first = np.maximum(first, found.ttft_s)
                first = first + beyond_means_s(curves.pools.prefill, workload, limit.statistic)
        if limit.metric != "latency":
            return float((first if limit.metric == "ttft" else later)[0])
        answer = workload.classes[0].output_tokens.at(limit.statistic) if workload.classes else workload.output_tokens
        return float((first + max(answer - 1, 0.0) * later)[0])

    def curves_of(self, pair: tuple[Choice, Choice], copies: tuple[int, int]) -> tuple[PoolCurves, float]:
        """One pair of pools under rising load, and the seconds of its hand-over."""
        every, mix, rows = self.curves, self.question.demand.mix, [choice.row for choice in pair]
        model = self.copies.model
        calibration = model.hardware.calibration
        first, second = (StepModel.build(model.arch, model.candidates.take(np.array([r])), calibration) for r in rows)
        rates = [self.network_bytes_per_s[choice.instance.cloud, choice.instance.name] for choice in pair]
        handed = handed_over_bytes(first, second, mix.lengths.input_tokens)
        hand_s = handover_s(handed, min(rates), self.handover.link_ratio.value, self.handover.overlap_ratio.value)
        most, largest = every.pools.most_prompts[rows[:1]], every.pools.largest_batch[rows[1:]]
        pools = Pools(first, second, float(copies[0]), float(copies[1]), most, largest, hand_s)
        work = prompt_work_ratio(first, mix)
        return PoolCurves(pools, mix.lengths, mix.prompt_squared_variation, work), float(hand_s[0])


def not_tried(question: WriterQuestion) -> str | None:
    """What of a question pools are not planned for."""
    demand, kinds = question.demand, question.demand.workload.classes
    asked = {
        "several classes of requests": len(kinds) > 1,
        "a prefix cache": any(c.cached_ratio > 0 for c in kinds),
        "quiet hours": demand.quiet is not None,
        "zones": demand.zones > 1,
        "spare machines": demand.spare_machines > 0,
        "a share of spot": question.purse.most_spot_ratio < 1,
    }
    return next((what for what, is_asked in asked.items() if is_asked), None)


def cheapest_pools(
    question: WriterQuestion,
    solution: WriterSolution,
    network_bytes_per_s: Mapping[tuple[str, str], float],
    handover: HandoverFormula,
) -> PooledPlacement | None:
    """The cheapest pools for a question that `not_tried` lets pass; None where none keeps every limit."""
    if not len(solution.copies):
        return None
    return PoolsSearch(question, solution.copies, network_bytes_per_s, handover).cheapest()
