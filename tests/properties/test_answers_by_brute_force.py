"""Claimed flips and reasons for rejections, against planning from nothing and against equations written out again.

Random questions of every kind, the same in every run: `make brute-force` asks 200 of them, all tests together fewer.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from tests.conftest import Tally
from tests.effort import cases
from tests.properties.random_questions import GPUS, Asked, Key, question_at

from gpufleet.api.plans import plan_serve
from gpufleet.api.serve_questions import prepare
from gpufleet.api.setups import narrowed, parse_setup, whole_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.layout import Layout
from gpufleet.domain.offer import Offer
from gpufleet.domain.workload import Workload
from gpufleet.layout.support import engine_refusal, weight_refusal
from gpufleet.memory.fit import Demand as MemoryDemand
from gpufleet.memory.fit import MemoryBudget, memory_budget
from gpufleet.memory.overhead import EngineMemory
from gpufleet.optimize.contest import Contest, key_of
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution, figure_s
from gpufleet.optimize.flips import Flip, Standing, cheap_flips, length_flips, limit_flips, nearest_change
from gpufleet.optimize.front import pareto_front
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.replicas import Rejections, replicas
from gpufleet.optimize.service import solve_serve
from gpufleet.performance.load_curves import load_curves_of
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import time_bounds
from gpufleet.questions.fields import ServeRequest
from gpufleet.results.plan import Deployment, Refused, WhyNot

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("rows_alone")]
LENGTHS_EVERY, BETWEEN = 7, cases(1, 3)
MOST_OF_A_REASON, KEPT = 4, 10
SHOWN_EXACTLY = 1.001  # values are told in four digits


def solved(request: ServeRequest, tables: Catalog) -> tuple[WriterQuestion, WriterSolution]:
    """The question of a request with its solution."""
    prepared = prepare(request, tables)
    return prepared.question, prepared.served


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every question asks for itself: `--questions 200` asks two hundred."""
    if "index" in metafunc.fixturenames:
        metafunc.parametrize("index", range(metafunc.config.getoption("questions")))


@lru_cache(maxsize=KEPT)
def solved_at(index: int) -> tuple[WriterQuestion, WriterSolution]:
    """A question with its solution, which several tests look at."""
    question = question_at(index)
    return solved(question.request, question.tables)


@lru_cache(maxsize=KEPT)
def cheap_flips_at(index: int) -> list[Flip]:
    return list(cheap_flips(Standing.of(*solved_at(index))))


@lru_cache(maxsize=KEPT)
def winner_at(index: int) -> Key | None:
    question = question_at(index)
    return question.winner(question.question())


def flips_of(index: int, with_lengths: bool) -> list[Flip]:
    question, (asked, solution) = question_at(index), solved_at(index)
    standing, found = Standing.of(asked, solution), [*cheap_flips_at(index)]
    for limit in asked.demand.workload.slo.limits:
        found += limit_flips(standing, solution, limit)
    return [*found, *(length_flips(standing, asked, calibration_of(question.tables)) if with_lengths else [])]


def test_a_claimed_flip_flips_the_choice_and_one_percent_less_does_not(index: int, tally: Tally) -> None:
    question, now = question_at(index), winner_at(index)
    for flip in flips_of(index, index % LENGTHS_EVERY == 0):
        if flip.value is None:
            tally[question.kind, "searched, none claimed"] += 1
            continue
        then = question.at(flip, flip.value)
        assert then != now, (flip.quantity, flip.value)
        expected = flip.winner and (flip.winner.offer.cloud, flip.winner.offer.instance, flip.winner.offer.price_kind)
        assert then == expected, (flip.quantity, flip.value)
        nearer = max(flip.value / 1.01, flip.now) if flip.value > flip.now else min(flip.value * 1.01, flip.now)
        assert question.at(flip, nearer) == now, (flip.quantity, flip.value, nearer)
        tally[question.kind, "flips held"] += 1


def test_no_rate_or_price_between_now_and_a_claimed_flip_flips_the_choice(index: int, tally: Tally) -> None:
    """Where no flip is claimed, none is found on the way to where the search ended."""
    question, now, dice = question_at(index), winner_at(index), random.Random(index)
    for flip in cheap_flips_at(index):
        end = flip.searched_to if flip.value is None else flip.value
        for _ in range(BETWEEN):
            value = flip.now * (end / flip.now) ** dice.uniform(0.02, 0.98)
            if max(end / value, value / end) < SHOWN_EXACTLY:
                continue
            assert question.at(flip, value) == now, (flip.quantity, flip.value, value)
            tally[question.kind, "points between"] += 1


def test_the_contest_costs_what_the_ranking_costs(index: int, tally: Tally) -> None:
    """Every row of the real ranking counts as much in the contest, of the same machines."""
    question, (asked, solution) = question_at(index), solved_at(index)
    contest = Contest.of(asked, solution)
    costs = contest.costs(solution.found, asked.demand, asked.demand.workload.rate_requests_per_s)[:, 0]
    least: dict[Key, float] = {}
    for offer, cost in zip(contest.offers, costs, strict=True):
        least[key_of(offer)] = min(float(cost), least.get(key_of(offer), np.inf))
    ranked = {key_of(row.offer): row.counted_usd_per_hour for row in solution.ranked}
    assert {key: cost for key, cost in least.items() if np.isfinite(cost)} == pytest.approx(ranked)
    tally[question.kind, "rows of rankings"] += len(ranked)


def test_the_front_begins_at_the_answer(index: int, tally: Tally) -> None:
    """The cheapest of all layouts and machine types is the answer by cost alone; latency only falls from there."""
    question = question_at(index)
    asked, solution = solved(replace(question.request, steady=0.0), question.tables)
    figure = next(iter(solution.found.objectives_s))
    front = pareto_front(asked, solution, figure)
    assert front[0].priced.usd_per_hour == pytest.approx(solution.ranked[0].usd_per_hour)
    assert all(a.priced.likely_usd_per_hour < b.priced.likely_usd_per_hour for a, b in pairwise(front))
    assert all(a.latency_s > b.latency_s for a, b in pairwise(front))
    tally[question.kind, "points of fronts"] += len(front)


def test_a_search_finds_the_first_of_several_changes() -> None:
    assert nearest_change(lambda x: 1.5 < x < 1.6 or x > 3, 1.0, 10.0, 1.05) == pytest.approx(1.5, rel=1e-3)
    assert nearest_change(lambda x: x < 0.4, 1.0, 0.1, 1.25) == pytest.approx(0.4, rel=1e-3)
    assert nearest_change(lambda x: False, 1.0, 0.1, 1.25) is None


def test_every_reason_for_a_rejection_is_derived_again(index: int, tally: Tally) -> None:
    question, dice = question_at(index), random.Random(index)
    setup = dice.choice(GPUS) + dice.choice(["", "", ":1", ":4", ":8"])
    asked = plan_serve(question.request, question.tables).why_not(setup)
    again = Derived.of(question, setup)
    for reason in {refused.reason for refused in asked.refused}:
        of_reason = [refused for refused in asked.refused if refused.reason == reason]
        for refused in dice.sample(of_reason, min(len(of_reason), MOST_OF_A_REASON)):
            again.check(refused)
            tally[question.kind, "reasons derived again"] += 1
    if asked.cheapest is not None and asked.wins_below_usd_per_hour is not None:
        assert asked.answer is not None
        counted = asked.answer.counted_usd_per_hour
        assert again.counted_usd_at(asked.cheapest, asked.wins_below_usd_per_hour) == pytest.approx(counted)
        tally[question.kind, "prices to win"] += 1
    assert asked.cheapest is None or asked.wins_below_usd_per_hour is not None or question.request.max_spot is not None
    assert asked.cheapest is not None or asked.refused or not again.question.instances or too_large(asked)


def too_large(asked: WhyNot) -> bool:
    return asked.largest_machine_gpus is not None and (asked.gpus_per_replica or 0) > asked.largest_machine_gpus


@dataclass(frozen=True)
class Derived:
    """One narrowed question, whose rejections are derived by other means than the search."""

    asked: Asked
    question: WriterQuestion

    @classmethod
    def of(cls, asked: Asked, setup: str) -> Derived:
        wanted = parse_setup(setup, asked.tables)
        return cls(asked, narrowed(asked.request, whole_question(asked.request, asked.tables), asked.tables, wanted)[0])

    def counted_usd_at(self, cheapest: Deployment, usd_per_hour: float) -> float:
        """What the machines of a row count once each of them has this price, planned from nothing."""
        key, ratio = machines_of(cheapest), usd_per_hour / cheapest.price_per_instance_usd_per_hour
        offers = tuple(
            replace(o, price_per_instance_usd_per_hour=o.price_per_instance_usd_per_hour * ratio)
            if key_of(o) == key
            else o
            for o in self.question.offers
        )
        free = replace(self.question, offers=offers, purse=replace(self.question.purse, most_usd_per_hour=np.inf))
        ranked = solve_serve(free, calibration_of(self.asked.tables)).ranked
        return next(row.counted_usd_per_hour for row in ranked if key_of(row.offer) == key)

    def check(self, refused: Refused) -> None:
        reason = refused.reason
        if reason == "does not fit in memory":
            self.check_memory(refused)
        elif reason.endswith("at any load"):
            self.check_objective(refused)
        elif reason == "no KV room for the longest request":
            self.check_longest(refused)
        elif reason.startswith("more machines than"):
            self.check_supply(refused)
        elif reason.startswith("over the budget"):
            self.check_budget(refused)
        elif reason.startswith("no price"):
            cloud, name = refused.candidate.split("x ", 1)[1].split(" ", 1)
            assert not [o for o in self.question.offers if (o.cloud, o.instance) == (cloud, name)]
        elif reason == "the link between the GPUs is not known":
            size = int(refused.candidate.split("x ")[0])
            assert [i for i in self.question.instances if not i.fabric.bytes_per_s and i.gpu_count >= size]
        elif reason.startswith("no kernel curve"):
            assert not StepModel.build(
                self.question.model.arch, self.rows(refused), calibration_of(self.asked.tables)
            ).is_supported.all()
        else:
            self.check_rule(refused)

    def check_rule(self, refused: Refused) -> None:
        """The words name numbers that can be divided again, or a format that the engine's table lacks."""
        division = re.search(r"(\d+)\)? (?:\w+ )?(?:is|are) not divisible by (?:EP )?(\d+)", refused.reason)
        if division:
            assert int(division[1]) % int(division[2]) != 0
            return
        over = re.search(r"over (\d+) ranks leaves (\d+), not a multiple of the \w+ block of (\d+)", refused.reason)
        if over:
            assert int(over[2]) % int(over[3]) != 0
            return
        repeated = re.search(r"(\d+) KV heads neither divide by nor repeat over (\d+)", refused.reason)
        if repeated:
            heads, ranks = int(repeated[1]), int(repeated[2])
            assert heads % ranks
            assert ranks % heads
            return
        if refused.reason.startswith("attention data parallelism"):
            assert not self.question.model.arch.is_moe
            return
        self.check_format(refused)

    def check_format(self, refused: Refused) -> None:
        palette = self.question.model.choices.palette
        name, _, weights = refused.candidate.partition(" in ")
        gpu = next(a for a in palette.accelerators if a.name == name)
        format_ = next(w for w in palette.weight_formats if w.name == weights)
        reasons = [
            engine_refusal(e, gpu) or weight_refusal(e, gpu, format_, allow_fp16_twin=False) or ""
            for e in palette.engines
        ]
        assert any(reasons), refused

    def rows(self, refused: Refused) -> Candidates:
        """The candidates that a rejection names, over every link that they are sold with."""
        every = replicas(self.question.model.arch, self.question.model.choices, self.question.instances, Rejections())
        words = refused.candidate.split(" ")
        layout, weights = words[2], " ".join(words[3:])
        kept = [
            i
            for i in range(len(every))
            if Layout(int(every.tp[i]), int(every.pp[i]), int(every.ep[i]), int(every.attention_dp[i])).label == layout
            and every.palette.weight_formats[every.weight_format[i]].name == weights
            and every.palette.accelerators[every.accelerator[i]].name == words[1]
        ]
        assert kept, refused
        return every.take(np.array(kept))

    def most_sequences(self, one: Candidates, context_tokens: float) -> MemoryBudget:
        """The scalar budget of one replica whose sequences have this context."""
        palette = one.palette
        engine = EngineMemory.of(palette.engines[one.engine[0]], palette.accelerators[one.accelerator[0]])
        demand = MemoryDemand(
            palette.kv_precisions[one.kv_precision[0]].bytes_per_element,
            context_tokens,
            int(one.tp[0]), int(one.pp[0]), int(one.ep[0]), int(one.attention_dp[0]),
            prompt_tokens=self.question.demand.mix.lengths.input_tokens,
        )  # fmt: skip
        return memory_budget(self.question.model.arch, palette.weight_formats[one.weight_format[0]], engine, demand)

    def check_memory(self, refused: Refused) -> None:
        """The budget of one replica holds not one sequence of mean size."""
        one = self.rows(refused).take(np.array([0]))
        held, shared = held_tokens(self.question.demand.workload)
        budget = self.most_sequences(one, held)
        assert not budget.fits or float(budget.max_sequences.expected) - one.attention_dp[0] * shared / held < 1
        assert max(float(budget.short_by_bytes), 0.0) == pytest.approx(refused.shortfall, rel=1e-6, abs=1.0)

    def check_longest(self, refused: Refused) -> None:
        """One sequence of mean size has room, and the longest has none."""
        one, classes = self.rows(refused).take(np.array([0])), self.question.demand.workload.classes
        longest = max(c.input_tokens.most + c.output_tokens.most for c in classes)
        assert self.most_sequences(one, held_tokens(self.question.demand.workload)[0]).fits
        assert float(self.most_sequences(one, longest).max_sequences.expected) < 1

    def check_supply(self, refused: Refused) -> None:
        """Every offer of the machine has fewer than are needed, or leaves no machine of that number on spot."""
        count, cloud, name = machines_in(refused)
        share = self.question.purse.most_spot_ratio
        for offer in (o for o in self.question.offers if (o.cloud, o.instance) == (cloud, name)):
            too_few = offer.max_instances is not None and offer.max_instances < count
            none_on_spot = offer.price_kind == "spot" and (share * count < 1 or not self.has_steady(offer))
            assert too_few or none_on_spot, (refused, offer)

    def has_steady(self, spot: Offer) -> bool:
        same = [
            o
            for o in self.question.offers
            if (o.cloud, o.instance, o.region) == (spot.cloud, spot.instance, spot.region)
        ]
        return any(o.price_kind == "on_demand" for o in same)

    def check_budget(self, refused: Refused) -> None:
        """So many machines of the cheapest offer that has them cost more than the budget; spot counts its share."""
        count, cloud, name = machines_in(refused)
        assert refused.shortfall > self.question.purse.most_usd_per_hour
        if self.question.purse.most_spot_ratio < 1 or self.question.demand.quiet is not None:
            return
        prices = [
            effective_price(o)
            for o in self.question.offers
            if (o.cloud, o.instance) == (cloud, name) and (o.max_instances is None or o.max_instances >= count)
        ]
        assert any(count * price == pytest.approx(refused.shortfall) for price in prices)

    def check_objective(self, refused: Refused) -> None:
        """No batch of a fine grid, each solved alone, keeps the objective; the claimed best is not far from theirs."""
        label = refused.reason.split(" above ")[0]
        limit_s = next(x.limit_s for x in self.question.demand.workload.slo.limits if x.label == label)
        best = [self.best_s(self.rows(refused).take(np.array([i])), label) for i in range(len(self.rows(refused)))]
        assert max(best) > limit_s * 0.999, refused
        assert any(seconds == pytest.approx(refused.shortfall * limit_s, rel=0.05) for seconds in best), refused

    def best_s(self, one: Candidates, label: str) -> float:
        """The least of an objective over mean batches from 0.001 to 200 sequences, of this replica alone."""
        *name, metric, statistic = label.split(".")
        model = StepModel.build(self.question.model.arch, one, calibration_of(self.asked.tables))
        grid, workload = np.geomspace(1e-3, 200.0, 100), self.question.demand.workload
        curves = load_curves_of(model, workload, np.array([200.0]), grid)
        late = np.array([self.late_ratio(model, b, metric) for b in grid])
        return float((late * figure_s(curves, workload, ("".join(name), metric, statistic))[0]).min())

    def late_ratio(self, model: StepModel, mean: float, metric: str) -> float:
        """How many times later than expected a figure is planned to be: ranges are log-normal."""
        bounds = time_bounds(model, np.array([mean]), self.question.demand.mix.lengths)
        high = float(bounds["ttft" if metric == "ttft" else "tpot"].high_ratio[0])
        return high ** (normal_quantile(self.question.demand.confidence) / normal_quantile(0.9))


def machines_of(d: Deployment) -> Key:
    return d.cloud, d.instance, d.price_kind


def machines_in(refused: Refused) -> tuple[int, str, str]:
    """'3x aws p5.48xlarge' as its three parts."""
    count, machine = refused.candidate.split("x ", 1)
    cloud, name = machine.split(" ", 1)
    return int(count), cloud, name


def held_tokens(workload: Workload) -> tuple[float, float]:
    """Context that a running sequence is given room for on average, and what all hold together, by hand."""
    if not workload.classes:
        return workload.input_tokens + workload.output_tokens, 0.0
    held, running = 0.0, 0.0
    for c in workload.classes:
        steps = c.rate_requests_per_s * c.output_tokens.mean
        generated = c.output_tokens.mean * max(1.0, (1 + c.output_tokens.squared_variation) / 2)
        held += steps * (c.input_tokens.mean * (1 - c.shared_ratio) + generated)
        running += steps
    return held / running, max(c.input_tokens.mean * c.shared_ratio for c in workload.classes)
