"""What a replica of each layout sustains of each bucket alone, and of the requests that a mix sends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.offer import Offer
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.optimize.copies.decoder import Replicas, WriterQuestion, keep_runnable
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.mixes.reach import Reach, RegionKey, as_planned, probing, rates_over
from gpufleet.optimize.replicas import Rejections, replicas
from gpufleet.optimize.size import Capacity
from gpufleet.performance.step import StepModel
from gpufleet.performance.token_buckets import Lengths, buckets_of, joined, points_of
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class Bucket:
    """Requests of one class of a service that are alike in length, and where their users are."""

    request_class: RequestClass
    lengths: Lengths
    rate_requests_per_s: float
    is_cut_by_answer: bool = False
    users: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether requests of all lengths of the class are in it."""
        return self.lengths.share_ratio == 1

    def as_class(self) -> RequestClass:
        """A class of these requests alone, with the objectives of their class."""
        if self.is_whole:
            return replace(self.request_class, rate_requests_per_s=self.rate_requests_per_s)
        return replace(
            self.request_class,
            rate_requests_per_s=self.rate_requests_per_s,
            input_tokens=self.lengths.prompts,
            output_tokens=self.lengths.answers,
        )


@dataclass(frozen=True, eq=False)
class Service:
    """A model's question, with the buckets that its requests are cut into and every layout that the rules allow."""

    question: WriterQuestion
    calibration: Calibration
    buckets: tuple[Bucket, ...]
    reach: Reach | None = None

    @classmethod
    def of(cls, question: WriterQuestion, calibration: Calibration, by_answer: bool, is_cut: bool = True) -> Service:
        """A question's service; `is_cut`: not every class is one bucket."""
        demand = question.demand
        buckets = [b for c in classes_of(demand.workload) for b in cut(c, by_answer, is_cut)]
        return cls(question, calibration, tuple(buckets))

    @classmethod
    def of_users(cls, question: WriterQuestion, calibration: Calibration, reach: Reach) -> Service:
        """A question's service whose requests come from several places: a bucket for each class and place."""
        buckets = [
            replace(bucket, rate_requests_per_s=bucket.rate_requests_per_s * group.share_ratio, users=users)
            for c in classes_of(question.demand.workload)
            for bucket in cut(c, False, False)
            for users, group in enumerate(reach.users)
        ]
        return cls(question, calibration, tuple(buckets), reach)

    @cached_property
    def every(self) -> Candidates:
        """Every layout, one a row."""
        model = self.question.model
        return replicas(model.arch, model.choices, self.question.instances, Rejections())

    @cached_property
    def sold(self) -> frozenset[Offer]:
        """The offers that it may use."""
        return frozenset(self.question.offers)

    def at_rates(self, ratio: FloatArray) -> Service:
        """The same service with so many times the requests of each bucket, [bucket]; what replicas sustain stays."""
        parts = zip(self.buckets, ratio, strict=True)
        buckets = tuple(replace(b, rate_requests_per_s=b.rate_requests_per_s * float(r)) for b, r in parts)
        found = replace(self, buckets=buckets)
        vars(found).update(every=self.every, _from_region=self._from_region)
        return found

    @cached_property
    def requests_per_s(self) -> FloatArray:
        """What a replica sustains of each bucket alone, [bucket, row]; 0 where its objectives do not hold."""
        if len(self.buckets) == 1 and self.buckets[0].is_whole:
            return self.whole_requests_per_s[None, :]
        keys = [(b.request_class.name, b.lengths.ends) for b in self.buckets]
        alike = dict(zip(keys, self.buckets, strict=True))
        found = {key: self.sustained(b.as_class(), self.every) for key, b in alike.items()}
        return np.array([found[key] for key in keys])

    def rates_from(self, region: RegionKey, rows: Sequence[int]) -> FloatArray:
        """What a replica of some rows sustains of each bucket alone in a region, [bucket, row of `rows`].

        Where users are stated, limits hold at them, behind the network; where that is not known, nothing is served.
        """
        if self.reach is None:
            return self.requests_per_s[:, list(rows)]
        missing = [row for row in dict.fromkeys(rows) if (region, row) not in self._from_region]
        if missing:
            found = np.stack([self._reached(b, region, np.array(missing)) for b in self.buckets])
            self._from_region.update({(region, row): found[:, at] for at, row in enumerate(missing)})
        return np.stack([self._from_region[region, row] for row in rows], axis=1)

    @cached_property
    def _from_region(self) -> dict[tuple[RegionKey, int], FloatArray]:
        return {}

    @cached_property
    def _probed(self) -> dict[str, tuple[Capacity, IntArray]]:
        """Every class with all percentiles known: its capacity, and where each row stands in it (-1: nowhere)."""
        found = {}
        for c in self.classes:
            copies, kept = self.runnable(self.demand_of((probing(c),)), self.every)
            found[c.name] = copies.capacity(), np.where(kept, np.cumsum(kept) - 1, -1)
        return found

    def _reached(self, bucket: Bucket, region: RegionKey, rows: IntArray) -> FloatArray:
        """What some rows sustain of one bucket in a region."""
        rates = np.zeros(len(rows))
        network = None if self.reach is None else self.reach.between(bucket.users or 0, region)
        capacity, at = self._probed[bucket.request_class.name]
        runs = at[rows] >= 0
        if network is not None and runs.any():
            planned = as_planned(network, self.question.demand.confidence)
            rates[runs] = rates_over(capacity, at[rows[runs]], bucket.request_class.slo.limits, planned)
        return rates

    def sustained_as_sent(self, demand: Demand, share: FloatArray, row: int, region: RegionKey) -> float:
        """What a replica of a row sustains of what it is sent, limits held for the users of each place   [1/s].

        Requests of one class are alike wherever users are: the strictest limit left counts.
        """
        one = self.every.take(np.array([row]))
        if self.reach is None:
            return float(self.sustained_of(demand, one)[0])
        if len(self.classes) == 1:
            return float(self.rates_from(region, [row])[share > 0, 0].min())
        probed = replace(demand, workload=Workload.of(tuple(map(probing, demand.workload.classes))))
        copies, kept = self.runnable(probed, one)
        networks = {
            b.users: self.reach.between(b.users or 0, region) for b, s in zip(self.buckets, share, strict=True) if s > 0
        }
        if not kept.any() or None in networks.values():
            return 0.0
        found, limits = copies.capacity(), demand.workload.slo.limits
        planned = [as_planned(n, demand.confidence) for n in networks.values() if n is not None]
        return min(float(rates_over(found, np.array([0]), limits, n)[0]) for n in planned)

    def sustained_whole(self, row: int, region: RegionKey) -> float:
        """What a replica of a row sustains of all requests as they come, limits held for the users of each place."""
        if self.reach is None:
            return float(self.whole_requests_per_s[row])
        if (region, row) not in self._whole_from_region:
            everything = np.ones(len(self.buckets))
            demand = self.sent(everything)
            assert demand is not None, "a service has requests"
            self._whole_from_region[region, row] = self.sustained_as_sent(demand, everything, row, region)
        return self._whole_from_region[region, row]

    @cached_property
    def _whole_from_region(self) -> dict[tuple[RegionKey, int], float]:
        return {}

    @cached_property
    def whole_requests_per_s(self) -> FloatArray:
        """What a replica sustains of all requests as they come, [row]."""
        return self.sustained_of(self.question.demand, self.every)

    @property
    def planned_requests_per_s(self) -> FloatArray:
        """The rate of each bucket that capacity is bought for, [bucket]."""
        return np.array([b.rate_requests_per_s for b in self.buckets]) * self.question.demand.planned_ratio

    @cached_property
    def answer_tokens_per_s(self) -> FloatArray:
        """Tokens of the answers of each bucket, at the rate that is expected, [bucket]."""
        return np.array([b.rate_requests_per_s * b.as_class().output_tokens.mean for b in self.buckets])

    def sustained(self, request_class: RequestClass, candidates: Candidates) -> FloatArray:
        """What a replica of each candidate sustains of one class of requests   [1/s]."""
        return self.sustained_of(self.demand_of((request_class,)), candidates)

    def sustained_of(self, demand: Demand, candidates: Candidates) -> FloatArray:
        """What a replica of each candidate sustains of a demand   [1/s]."""
        found = np.zeros(len(candidates))
        copies, kept = self.runnable(demand, candidates)
        if kept.any():
            found[kept] = copies.capacity().requests_per_s
        return found

    def runnable(self, demand: Demand, candidates: Candidates) -> tuple[Replicas, BoolArray]:
        """The candidates that hold the requests of a demand, ready to be rated."""
        arch, nothing = self.question.model.arch, Rejections()
        space, kept = keep_runnable(arch, demand.mix, candidates, self.calibration, nothing)
        some = candidates.take(kept)
        model = StepModel.build(arch, some, self.calibration)
        copies = Replicas(demand, some, model, space.largest_batch[kept], space.limited_by_engine[kept], len(some))
        return copies, kept

    def demand_of(self, classes: tuple[RequestClass, ...]) -> Demand:
        """The demand of requests of these classes alone."""
        return replace(self.question.demand, workload=Workload.of(classes), quiet=None)

    def sent(self, share: FloatArray) -> Demand | None:
        """The demand that shares of the buckets make, [bucket]; None where nothing is sent.

        A class that is sent whole stays as it is: its lengths are those that were stated.
        """
        by_class: dict[str, list[tuple[Bucket, float]]] = {}
        for bucket, part in zip(self.buckets, share, strict=True):
            if part > 0:
                by_class.setdefault(bucket.request_class.name, []).append((bucket, float(part)))
        whole = {c.name: len([b for b in self.buckets if b.request_class is c]) for c in self.classes}
        classes = tuple(merged(parts, len(parts) == whole[name]) for name, parts in by_class.items())
        return self.demand_of(classes) if classes else None

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        """The classes of requests."""
        return tuple({id(b.request_class): b.request_class for b in self.buckets}.values())


def classes_of(workload: Workload) -> tuple[RequestClass, ...]:
    """The classes of a workload; one of requests that are all alike where it has none."""
    if workload.classes:
        return workload.classes
    counts = TokenCounts(workload.input_tokens), TokenCounts(workload.output_tokens)
    return (RequestClass("", workload.rate_requests_per_s, *counts, workload.slo),)


def cut(c: RequestClass, by_answer: bool, is_cut: bool) -> list[Bucket]:
    """The buckets of a class."""
    if not is_cut:
        return [Bucket(c, whole_lengths(c), c.rate_requests_per_s)]
    found = buckets_of(c.input_tokens, c.output_tokens, by_answer)
    return [Bucket(c, x, c.rate_requests_per_s * x.share_ratio, by_answer) for x in found]


def whole_lengths(c: RequestClass) -> Lengths:
    """All lengths of a class in one bucket."""
    return Lengths(1.0, points_of(c.input_tokens), points_of(c.output_tokens))


def merged(parts: Sequence[tuple[Bucket, float]], has_all: bool) -> RequestClass:
    """One class of what is sent of its buckets."""
    c = parts[0][0].request_class
    rates = [bucket.rate_requests_per_s * share for bucket, share in parts]
    if parts[0][0].is_whole or (has_all and len({round(share, 9) for _, share in parts}) == 1):
        return replace(c, rate_requests_per_s=sum(rates))
    prompts = joined([(r, bucket.lengths.prompt_points) for r, (bucket, _) in zip(rates, parts, strict=True)])
    answers = joined([(r, bucket.lengths.answer_points) for r, (bucket, _) in zip(rates, parts, strict=True)])
    return replace(c, rate_requests_per_s=sum(rates), input_tokens=prompts, output_tokens=answers)
