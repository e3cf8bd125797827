"""Who wins where prompts and answers are longer or shorter: replicas, kernels and machines stay, their rates do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field as dataclass_field
from dataclasses import replace
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.workload import RequestClass
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.contest import Contest, Counts
from gpufleet.optimize.copies.decoder import WriterQuestion, capacity, holds_longest, mixed_room
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.replicas import MemoryModel, Rejections, replicas
from gpufleet.optimize.size import Capacity
from gpufleet.performance.load_curves import load_curves_of
from gpufleet.performance.step import StepModel
from gpufleet.performance.token_lengths import at_means
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class Field:
    """The replicas of a question and what no length changes: weights in memory, kernels, who sells their machines."""

    question: WriterQuestion
    memory: MemoryModel
    model: StepModel
    contest: Contest

    @classmethod
    def of(cls, question: WriterQuestion, lightest: Demand, calibration: Calibration) -> Field:
        """Every replica with kernels that holds the lightest requests in question."""
        every = replicas(question.model.arch, question.model.choices, question.instances, Rejections())
        runs = StepModel.build(question.model.arch, every, calibration).is_supported
        holds = held_sequences(MemoryModel.build(question.model.arch, every), lightest) >= 1
        candidates = every.take(runs & holds)
        return cls(
            question,
            MemoryModel.build(question.model.arch, candidates),
            StepModel.build(question.model.arch, candidates, calibration),
            Contest.among(question, candidates),
        )

    def found(self, demand: Demand) -> Capacity:
        """What each replica sustains within the objectives; 0 where it does not fit."""
        curves = load_curves_of(self.model, demand.workload, held_sequences(self.memory, demand))
        caution = Caution.at(demand.confidence, self.model, curves.batch, demand.lengths)
        return capacity(curves, demand, caution)

    def heat(self, demand: Demand) -> Heat:
        """Who runs under a demand, and how many machines each then needs."""
        rate = demand.workload.rate_requests_per_s
        return Heat(self.contest, self.contest.counts(self.found(demand), demand, rate), demand)


@dataclass(frozen=True, eq=False)
class Heat:
    """A contest under one demand: how many machines each entrant needs."""

    contest: Contest
    counts: Counts
    demand: Demand

    @cached_property
    def usd_per_hour(self) -> FloatArray:
        """What every entrant costs; infinite where it does not serve."""
        every = np.arange(len(self.contest.offers))
        return self.contest.usd_of(every, self.counts, self.demand)[:, 0]


@dataclass(frozen=True, eq=False)
class Race:
    """A field as one length of the requests moves; `known` is what all of it did at a length."""

    field: Field
    calibration: Calibration
    demand_at: Callable[[float], Demand]
    known: dict[float, Heat]
    narrower: dict[tuple[float, float], Field] = dataclass_field(default_factory=dict)

    def of_all(self, tokens: float) -> Heat:
        """All entrants at a length."""
        if tokens not in self.known:
            self.known[tokens] = self.field.heat(self.demand_at(tokens))
        return self.known[tokens]

    def of_leaders(self, tokens: float) -> Heat:
        """Those that may win at a length; all of them where it is not between two that are known."""
        shorter = max((n for n in self.known if n <= tokens), default=None)
        longer = min((n for n in self.known if n >= tokens), default=None)
        if shorter is None or longer is None or shorter == longer:
            return self.of_all(tokens)
        if (shorter, longer) not in self.narrower:
            self.narrower[shorter, longer] = self.leaders(self.known[shorter], self.known[longer])
        return self.narrower[shorter, longer].heat(self.demand_at(tokens))

    def leaders(self, shorter: Heat, longer: Heat) -> Field:
        """Machine types that may win between two lengths.

        Between two lengths an entrant costs what lies between: longer requests cost more, or shorter answers where TPOT
        is limited, as they spread others' prompts over fewer tokens. Who costs more at both ends than another does at
        either loses all the way. Where not all machines may be spot, more of them may be the first that do, and all
        take part.
        """
        contest, ends = self.field.contest, np.stack([shorter.usd_per_hour, longer.usd_per_hour])
        least = ends.min(axis=0)
        may_win = np.isfinite(least) & (least <= ends.max(axis=0).min())
        if may_win.all() or not may_win.any() or contest.is_mixed.any():
            return self.field
        types = {(o.cloud, o.instance) for o, leads in zip(contest.offers, may_win, strict=True) if leads}
        return Field.of(only_of(self.field.question, types), shorter.demand, self.calibration)


def held_sequences(memory: MemoryModel, demand: Demand) -> FloatArray:
    """The most sequences of each candidate that decode together; 0 where not one does, or the longest does not fit."""
    largest = mixed_room(memory, demand.mix).largest_batch
    return np.where((largest >= 1) & holds_longest(memory, demand.mix), largest, 0.0)


def only_of(question: WriterQuestion, types: set[tuple[str, str]]) -> WriterQuestion:
    """The same question about these machine types alone."""
    machines = tuple(i for i in question.instances if (i.cloud, i.name) in types)
    offers = tuple(o for o in question.offers if (o.cloud, o.instance) in types)
    return replace(question, instances=machines, offers=offers)


def priced_only(question: WriterQuestion) -> WriterQuestion:
    """The same question without machines that have no price: they never win."""
    return only_of(question, {(o.cloud, o.instance) for o in question.offers})


def at_lengths(demand: Demand, input_tokens: float, output_tokens: float) -> Demand:
    """The same demand where every prompt and every answer is longer or shorter, to these means."""
    workload = demand.workload
    longer = input_tokens / workload.input_tokens, output_tokens / workload.output_tokens
    classes = tuple(at_ratios(c, longer) for c in workload.classes)
    moved = replace(workload, input_tokens=input_tokens, output_tokens=output_tokens, classes=classes)
    return replace(demand, workload=moved)


def at_ratios(c: RequestClass, longer: tuple[float, float]) -> RequestClass:
    """A class whose prompts and answers are so many times as long."""
    means = c.input_tokens.mean * longer[0], c.output_tokens.mean * longer[1]
    prompts, answers = at_means(c.input_tokens, c.output_tokens, means)
    return replace(c, input_tokens=prompts, output_tokens=answers)
