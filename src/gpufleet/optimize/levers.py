"""What moves the bill of a service: one change of its question at a time, on the replicas that are found already.

A lever is a change that saves more than `LEAST_SAVING_RATIO` of the bill. A limit stands at an edge where a value
within `EDGE_RATIO` of it takes another machine type or moves the bill by more than `EDGE_BILL_RATIO`; both neighbours
are told then. The three are judgements: what somebody would change a question for, what one calls the same question.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.slo import Limit
from gpufleet.domain.token_counts import AssumedCounts, TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.optimize.certainty import at_confidence, cheapest
from gpufleet.optimize.contest import Contest, key_of
from gpufleet.optimize.copies.decoder import LONGEST, Replicas, WriterQuestion, WriterSolution
from gpufleet.optimize.dated import dated_or_all
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import Winner
from gpufleet.optimize.lengths import held_sequences
from gpufleet.optimize.looser import LEAST_SAVING_RATIO, LooserLimit, looser_limits, round_figure
from gpufleet.optimize.replicas import MemoryModel, Rejections
from gpufleet.optimize.size import Capacity, at_limit, capacity_within, without_limits
from gpufleet.records import dataclass

EDGE_RATIO, EDGE_BILL_RATIO = 0.05, 0.1
DIGITS = 3
TIGHTER, LOOSER = (0.98, 0.95, 0.9, 0.85, 0.8, 0.75), (1.02, 1.05, 1.1, 1.2, 4 / 3)
"""Values of a limit that are tried beside it, as shares of it; those within `EDGE_RATIO` tell whether it is an edge."""
LIMIT, LENGTHS, PRICE_KIND, REGIONS, CONFIDENCE = "limit", "lengths", "price_kind", "regions", "confidence"


@dataclass(frozen=True)
class Lever:
    """One change of a question: its code, the value that is changed to where it has one, and who wins then."""

    code: str
    winner: Winner
    saved_ratio: float
    value: float | str | None = None
    limit: Limit | None = None


@dataclass(frozen=True)
class LimitEdge:
    """A limit beside which the choice changes: the nearest values tried at which it does, with who wins there."""

    limit: Limit
    tighter_s: float | None
    tighter: Winner | None
    looser_s: float | None
    looser: Winner | None


@dataclass(frozen=True, eq=False)
class Bill:
    """A solved question with the contest of its offers, whose bill changes are measured against."""

    question: WriterQuestion
    solution: WriterSolution
    contest: Contest

    @property
    def found(self) -> Capacity:
        """What replicas sustain."""
        return self.solution.found

    @property
    def demand(self) -> Demand:
        """What is asked of them."""
        return self.question.demand

    @cached_property
    def usd_per_hour(self) -> float:
        """What the answer costs."""
        return self.solution.ranked[0].usd_per_hour

    def lever(
        self, code: str, winner: Winner | None, value: float | str | None = None, limit: Limit | None = None
    ) -> Iterator[Lever]:
        """The lever of a change, where it saves enough."""
        if winner is not None and self.saved_ratio(winner) > LEAST_SAVING_RATIO:
            yield Lever(code, winner, self.saved_ratio(winner), value, limit)

    def saved_ratio(self, winner: Winner) -> float:
        """The share of the bill that another winner saves; below zero where it costs more."""
        return 1 - winner.usd_per_hour / self.usd_per_hour

    @cached_property
    def looser_limits(self) -> list[LooserLimit]:
        """Limits that cost much."""
        return looser_limits(self.question, self.solution, self.contest)

    def at_limit(self, limit: Limit, limit_s: float) -> Winner | None:
        """Who wins where one limit has another value; nobody where it takes more machines than anybody rents."""
        found = at_limit(self.found, limit, limit_s)
        winner, size = cheapest(self.contest, found, self.demand), self.question.size
        if winner is None or self.num_gpus(winner) <= size.easily_had_gpus:
            return winner
        rate = self.demand.workload.rate_requests_per_s
        within, for_load = (
            self.contest.counts(each, self.demand, rate) for each in (found, without_limits(self.found))
        )
        sensible = self.contest.sensible(within, for_load, size).machines
        return winner if (sensible < math.inf).any() else None

    def num_gpus(self, winner: Winner) -> float:
        """GPUs of the machines that win."""
        sold = winner.offer.cloud, winner.offer.instance
        each = next(i.gpu_count for i in self.contest.hosts.instances if (i.cloud, i.name) == sold)
        return each * winner.instance_count


def limit_levers(bill: Bill) -> Iterator[Lever]:
    """Looser limits."""
    for x in bill.looser_limits:
        yield from bill.lever(LIMIT, x.winner, x.looser_s, x.limit)


def limit_edges(bill: Bill) -> list[LimitEdge]:
    """Limits at whose edge the plan stands."""
    found = (limit_edge(bill, limit) for limit in bill.demand.workload.slo.limits)
    return [edge for edge in found if edge is not None]


def limit_edge(bill: Bill, limit: Limit) -> LimitEdge | None:
    """The neighbours of a limit, where one of them is near."""
    near_tighter, near_looser = (nearest_other(bill, limit, near(ratios)) for ratios in (TIGHTER, LOOSER))
    if near_tighter is None and near_looser is None:
        return None
    tighter = near_tighter or nearest_other(bill, limit, TIGHTER)
    looser = near_looser or nearest_other(bill, limit, LOOSER)
    return LimitEdge(limit, *(tighter or (None, None)), *(looser or (None, None)))


def near(ratios: Sequence[float]) -> list[float]:
    """Those that count as the same question.

    >>> near(LOOSER)
    [1.02, 1.05]
    """
    return [ratio for ratio in ratios if abs(ratio - 1) <= EDGE_RATIO * (1 + 1e-9)]


def nearest_other(bill: Bill, limit: Limit, ratios: Sequence[float]) -> tuple[float, Winner | None] | None:
    """The first of these values of a limit at which another wins or the bill moves, and who wins there."""
    for ratio in ratios:
        limit_s = round_figure(limit.limit_s * ratio, DIGITS) if ratio > 1 else rounded_down(limit.limit_s * ratio)
        winner = bill.at_limit(limit, limit_s)
        if is_other(bill, winner):
            return limit_s, winner
    return None


def is_other(bill: Bill, winner: Winner | None) -> bool:
    """Whether another machine type wins than that of the answer, or the bill moves much."""
    if winner is None or abs(bill.saved_ratio(winner)) > EDGE_BILL_RATIO:
        return True
    return key_of(winner.offer) != key_of(bill.solution.ranked[0].offer)


def rounded_down(seconds: float) -> float:
    """A time in three digits, rounded down: two are too coarse beside a limit.

    >>> rounded_down(11.76), rounded_down(0.49)
    (11.7, 0.49)
    """
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(seconds)))
    return math.floor(round(seconds * scale, 6)) / scale


def slack_levers(bill: Bill, usual: Mapping[str, float]) -> Iterator[Lever]:
    """Slack of which somebody asked for more than `usual`: headroom, spare machines, zones, replicas."""
    for name, value in usual.items():
        if getattr(bill.demand, name) > value:
            changed: dict[str, Any] = {name: value}
            demand = replace(bill.demand, **changed)
            found = with_headroom(bill.found, demand.headroom_ratio)
            yield from bill.lever(name, cheapest(bill.contest, found, demand), value)


def with_headroom(found: Capacity, headroom_ratio: float) -> Capacity:
    """The same replicas with other headroom to keep."""
    if headroom_ratio == found.headroom_ratio or found.caution is None:
        return found
    sustained = found.sustained_requests_per_s
    return capacity_within(found.curves, found.objectives_s, found.strains, sustained, found.caution, headroom_ratio)


def confidence_lever(bill: Bill, usual: float) -> Iterator[Lever]:
    """More certainty than is usual, which somebody asked for."""
    if bill.demand.confidence > usual:
        found = at_confidence(bill.found, bill.demand.confidence, usual)
        demand = replace(bill.demand, confidence=usual)
        yield from bill.lever(CONFIDENCE, cheapest(bill.contest, found, demand), usual)


def lengths_lever(bill: Bill) -> Iterator[Lever]:
    """Requests of one length each, where nobody said that they differ."""
    workload = fixed_lengths(bill.demand.workload)
    if workload != bill.demand.workload:
        demand = replace(bill.demand, workload=workload, played=())
        copies = replicas_at(bill, demand)
        is_same = copies.candidates is bill.solution.copies.candidates
        contest = bill.contest if is_same else Contest.among(bill.question, copies)
        yield from bill.lever(LENGTHS, cheapest(contest, copies.capacity(), demand))


def replicas_at(bill: Bill, demand: Demand) -> Replicas:
    """The replicas under other lengths: kernels stay; those that the longest request kept out are found again."""
    copies, question = bill.solution.copies, bill.question
    if LONGEST in bill.solution.rejections.counts:
        calibration = copies.model.hardware.calibration
        return question.model.copies(question.instances, demand, calibration, Rejections())
    memory = MemoryModel.build(question.model.arch, copies.candidates)
    return replace(copies, demand=demand, largest_batch=held_sequences(memory, demand))


def fixed_lengths(workload: Workload) -> Workload:
    """The same requests, each kind of one length where nobody said that it differs; others stay as they are."""
    classes = tuple(fixed_class(c) for c in workload.classes)
    if len(classes) == 1 and not classes[0].name and not classes[0].cached_ratio and is_alike(classes[0]):
        return replace(workload, classes=())
    return replace(workload, classes=classes)


def fixed_class(c: RequestClass) -> RequestClass:
    """A class of requests whose lengths are alike where they were assumed to differ."""
    prompts, answers = (
        TokenCounts(t.mean) if isinstance(t, AssumedCounts) and not t.is_alike else t
        for t in (c.input_tokens, c.output_tokens)
    )
    return replace(c, input_tokens=prompts, output_tokens=answers)


def is_alike(c: RequestClass) -> bool:
    """Whether all requests of a class have one length."""
    return c.input_tokens.is_alike and c.output_tokens.is_alike


def market_levers(bill: Bill, offers: Sequence[Offer], code: str) -> Iterator[Lever]:
    """Machines through other offers, of one price kind at a time where the kind is what changes."""
    kinds = dict.fromkeys(o.price_kind for o in offers) if code == PRICE_KIND else {None: None}
    for kind in kinds:
        sold = dated_or_all([o for o in offers if kind in (None, o.price_kind)])
        contest = Contest.of(replace(bill.question, offers=tuple(sold), undated=()), bill.solution)
        value = kind.value if isinstance(kind, PriceKind) else None
        yield from bill.lever(code, cheapest(contest, bill.found, bill.demand), value)
