"""Claimed flips and reasons for rejections, against planning from nothing and against equations written out again.

Random questions, the same in every run. GPUFLEET_RANDOM_QUESTIONS=200 asks more of them than the usual 30.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest

from gpufleet.api import ServeRequest
from gpufleet.api.estimates import calibration_of
from gpufleet.api.inquiries import solved
from gpufleet.api.plans import architecture_of, plan_serve, serve_question
from gpufleet.api.setups import narrowed, parse_setup
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.layout import Layout
from gpufleet.domain.slo import Limit, Slo
from gpufleet.errors import DataMissing
from gpufleet.layout.support import engine_refusal, weight_refusal
from gpufleet.memory.fit import Demand as MemoryDemand
from gpufleet.memory.fit import memory_budget
from gpufleet.memory.overhead import EngineMemory
from gpufleet.optimize.flips import (
    INPUT,
    OTHER_PRICE,
    OUTPUT,
    PRICE,
    RATE,
    Flip,
    Standing,
    cheap_flips,
    length_flips,
    limit_flips,
    nearest_change,
)
from gpufleet.optimize.replicas import Rejections, replicas
from gpufleet.optimize.serve import ServeQuestion, solve_serve
from gpufleet.optimize.size import QUANTILES, effective_price
from gpufleet.performance.queueing import normal_quantile, wait_percentile_s
from gpufleet.performance.serving import (
    Lengths,
    carried_requests_per_s,
    idle_ttft_s,
    lone_ttft_s,
    phases,
    prompt_service_s,
    tpot_s,
)
from gpufleet.performance.step import StepModel
from gpufleet.results.plan import Refused, WhyNot

NUM_QUESTIONS = int(os.environ.get("GPUFLEET_RANDOM_QUESTIONS", "30"))
LENGTHS_EVERY, BETWEEN = 10, 3
MOST_OF_A_REASON = 4
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "deepseek-v2-lite", "gemma-3-12b-text")
GPUS = ("L4", "A10G", "L40S", "A100-SXM-80GB", "H100", "H200-SXM", "B200", "MI300X", "A100-PCIe-80GB", "T4")
Key = tuple[str, str, str]


def questions(seed: int) -> ServeRequest:
    """One random question about a handful of GPUs."""
    dice = random.Random(seed)
    limits = {"ttft.p95": (0.2, 4.0), "tpot.p95": (0.02, 0.15), "latency.p90": (4.0, 60.0), "tpot.mean": (0.02, 0.2)}
    chosen = dice.sample(sorted(limits), dice.randint(1, 3))
    slo = Slo(tuple(Limit(*label.split("."), round(dice.uniform(*limits[label]), 3)) for label in chosen))
    return ServeRequest(
        dice.choice(MODELS),
        round(10 ** dice.uniform(-1.5, 2.0), 3),
        float(dice.randint(50, 6000)),
        float(dice.randint(20, 900)),
        slo,
        gpus=dice.sample(GPUS, dice.randint(3, 6)),
        pricing=dice.choice([None, None, ["on_demand", "spot"]]),
        headroom=dice.choice([0.0, 0.2, 0.5]),
        min_replicas=dice.choice([None, None, 2, 5]),
        allow_lower_precision=dice.random() < 0.2,
    )


@lru_cache(maxsize=1)
def tables() -> Catalog:
    return load_catalog()


@dataclass(frozen=True)
class Brute:
    """A question that is planned again from nothing whenever something about it changes."""

    request: ServeRequest

    def question(self, **changes: object) -> ServeQuestion:
        changed = replace(self.request, **changes)
        return serve_question(changed, architecture_of(changed), tables())[0]

    def winner(self, question: ServeQuestion) -> Key | None:
        ranked = solve_serve(question, calibration_of(tables())).ranked
        return (ranked[0].offer.cloud, ranked[0].offer.instance, ranked[0].offer.price_kind.value) if ranked else None

    def at(self, flip: Flip, value: float) -> Key | None:
        """Who wins when the quantity of a flip has a value."""
        if flip.quantity in (PRICE, OTHER_PRICE):
            return self.winner(self.at_price(flip, value))
        if flip.quantity == RATE:
            return self.winner(self.question(rate=value))
        if flip.quantity in (INPUT, OUTPUT):
            name = "input_tokens" if flip.quantity == INPUT else "output_tokens"
            return self.winner(self.question(**{name: value}))
        return self.winner(self.question(slo=self.slo_with(flip.quantity, value)))

    def slo_with(self, label: str, limit_s: float) -> Slo:
        assert isinstance(self.request.slo, Slo)
        return Slo(tuple(replace(x, limit_s=limit_s) if x.label == label else x for x in self.request.slo.limits))

    def at_price(self, flip: Flip, usd_per_hour: float) -> ServeQuestion:
        """All regions of the machine type move together: the cheapest has the price."""
        assert flip.of is not None
        question, of = self.question(), (flip.of.cloud, flip.of.instance, flip.of.price_kind)
        same = [o for o in question.offers if (o.cloud, o.instance, o.price_kind) == of]
        ratio = usd_per_hour / min(effective_price(o) for o in same)
        moved = tuple(
            replace(o, price_per_instance_usd_per_hour=o.price_per_instance_usd_per_hour * ratio) if o in same else o
            for o in question.offers
        )
        return replace(question, offers=moved)


@lru_cache(maxsize=1)
def answered() -> tuple[tuple[int, ServeRequest], ...]:
    """The first random questions that have an answer."""
    found: list[tuple[int, ServeRequest]] = []
    for seed in range(20 * NUM_QUESTIONS):
        request = questions(seed)
        try:
            question = serve_question(request, architecture_of(request), tables())[0]
        except DataMissing:
            continue
        if solve_serve(question, calibration_of(tables())).ranked:
            found.append((seed, request))
        if len(found) == NUM_QUESTIONS:
            break
    return tuple(found)


def flips_of(request: ServeRequest, with_lengths: bool) -> list[Flip]:
    question, solution = solved(request, tables())
    standing = Standing.of(question, solution)
    found = cheap_flips(standing)
    for limit in question.demand.workload.slo.limits:
        found += limit_flips(standing, solution, limit)
    return [*found, *(length_flips(standing, calibration_of(tables())) if with_lengths else [])]


def test_there_are_enough_questions_with_an_answer() -> None:
    assert len(answered()) == NUM_QUESTIONS


@pytest.mark.parametrize("index", range(NUM_QUESTIONS))
def test_a_claimed_flip_flips_the_choice_and_one_percent_less_does_not(index: int) -> None:
    _, request = answered()[index]
    brute = Brute(request)
    now = brute.winner(brute.question())
    for flip in flips_of(request, index % LENGTHS_EVERY == 0):
        if flip.value is None:
            continue
        then = brute.at(flip, flip.value)
        assert then != now, (flip.quantity, flip.value)
        expected = flip.winner and (flip.winner.offer.cloud, flip.winner.offer.instance, flip.winner.offer.price_kind)
        assert then == expected, (flip.quantity, flip.value)
        nearer = max(flip.value / 1.01, flip.now) if flip.value > flip.now else min(flip.value * 1.01, flip.now)
        assert brute.at(flip, nearer) == now, (flip.quantity, flip.value, nearer)


@pytest.mark.parametrize("index", range(0, NUM_QUESTIONS, 3))
def test_no_rate_between_now_and_a_claimed_flip_flips_the_choice(index: int) -> None:
    """Where no flip is claimed, none is found on the way to where the search ended."""
    seed, request = answered()[index]
    brute, dice = Brute(request), random.Random(seed)
    now = brute.winner(brute.question())
    for flip in (f for f in flips_of(request, with_lengths=False) if f.quantity == RATE):
        end = flip.searched_to if flip.value is None else flip.value
        for _ in range(BETWEEN):
            rate = flip.now * (end / flip.now) ** dice.uniform(0.02, 0.98)
            assert brute.at(flip, rate) == now, (flip.value, rate)


def test_a_search_finds_the_first_of_several_changes() -> None:
    assert nearest_change(lambda x: 1.5 < x < 1.6 or x > 3, 1.0, 10.0, 1.05) == pytest.approx(1.5, rel=1e-3)
    assert nearest_change(lambda x: x < 0.4, 1.0, 0.1, 1.25) == pytest.approx(0.4, rel=1e-3)
    assert nearest_change(lambda x: False, 1.0, 0.1, 1.25) is None


@pytest.mark.parametrize("index", range(NUM_QUESTIONS))
def test_every_reason_for_a_rejection_is_derived_again(index: int) -> None:
    seed, request = answered()[index]
    dice = random.Random(seed)
    setup = dice.choice(GPUS) + dice.choice(["", "", ":1", ":4", ":8"])
    asked = plan_serve(request, tables()).why_not(setup)
    again = Derived.of(request, setup)
    for reason in {refused.reason for refused in asked.refused}:
        of_reason = [refused for refused in asked.refused if refused.reason == reason]
        for refused in dice.sample(of_reason, min(len(of_reason), MOST_OF_A_REASON)):
            again.check(refused)
    assert asked.cheapest is None or asked.wins_below_usd_per_hour is not None
    assert asked.cheapest is not None or asked.refused or not again.question.choices.instances or too_large(asked)


def too_large(asked: WhyNot) -> bool:
    return asked.largest_machine_gpus is not None and (asked.gpus_per_replica or 0) > asked.largest_machine_gpus


@dataclass(frozen=True)
class Derived:
    """One narrowed question, whose rejections are derived by other means than the search."""

    request: ServeRequest
    question: ServeQuestion

    @classmethod
    def of(cls, request: ServeRequest, setup: str) -> Derived:
        asked = parse_setup(setup, tables())
        return cls(request, narrowed(request, architecture_of(request), tables(), asked)[0])

    def check(self, refused: Refused) -> None:
        reason = refused.reason
        if reason == "does not fit in memory":
            self.check_memory(refused)
        elif reason.endswith("at any load"):
            self.check_objective(refused)
        elif reason.startswith("no price"):
            cloud, name = refused.candidate.split("x ", 1)[1].split(" ", 1)
            assert not [o for o in self.question.offers if (o.cloud, o.instance) == (cloud, name)]
        elif reason == "the link between the GPUs is not known":
            size = int(refused.candidate.split("x ")[0])
            assert [i for i in self.question.choices.instances if not i.fabric.bytes_per_s and i.gpu_count >= size]
        elif reason.startswith("no kernel curve"):
            assert not StepModel.build(
                self.question.arch, self.rows(refused), calibration_of(tables())
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
            assert not self.question.arch.is_moe
            return
        self.check_format(refused)

    def check_format(self, refused: Refused) -> None:
        palette = self.question.choices.palette
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
        every = replicas(self.question.arch, self.question.choices, Rejections())
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

    def check_memory(self, refused: Refused) -> None:
        """The scalar budget of one replica holds not one sequence."""
        one = self.rows(refused).take(np.array([0]))
        palette = one.palette
        engine = EngineMemory.of(palette.engines[one.engine[0]], palette.accelerators[one.accelerator[0]])
        workload = self.question.demand.workload
        budget = memory_budget(
            self.question.arch,
            palette.weight_formats[one.weight_format[0]],
            engine,
            MemoryDemand(
                palette.kv_precisions[one.kv_precision[0]].bytes_per_element,
                workload.input_tokens + workload.output_tokens,
                int(one.tp[0]), int(one.pp[0]), int(one.ep[0]), int(one.attention_dp[0]),
                prompt_tokens=workload.input_tokens,
            ),
        )  # fmt: skip
        assert not budget.fits or float(budget.max_sequences.expected) < 1
        assert max(float(budget.short_by_bytes), 0.0) == pytest.approx(refused.shortfall, rel=1e-6, abs=1.0)

    def check_objective(self, refused: Refused) -> None:
        """No batch of a fine grid, each solved alone, keeps the objective; the claimed best is not far from theirs."""
        label = refused.reason.split(" above ")[0]
        assert isinstance(self.request.slo, Slo)
        limit_s = next(x.limit_s for x in self.request.slo.limits if x.label == label)
        best = [self.best_s(self.rows(refused).take(np.array([i])), label) for i in range(len(self.rows(refused)))]
        assert max(best) > limit_s * 0.999, refused
        assert any(seconds == pytest.approx(refused.shortfall * limit_s, rel=0.05) for seconds in best), refused

    def best_s(self, one: Candidates, label: str) -> float:
        """The least of an objective over mean batches from 0.1 to 200 sequences, written out from the equations."""
        metric, statistic = label.split(".")
        quantile, workload = QUANTILES[statistic], self.question.demand.workload
        lengths = Lengths(workload.input_tokens, workload.output_tokens)
        model = StepModel.build(self.question.arch, one, calibration_of(tables()))
        grid = np.geomspace(0.1, 200.0, 60)
        crowd = grid if quantile is None else np.maximum(grid + normal_quantile(quantile) * np.sqrt(grid), grid)
        slow = np.array(
            [tpot_s(model, phases(model, np.array([b]), lengths), np.array([b]), lengths)[0] for b in crowd]
        )
        if metric == "tpot":
            return float(slow.min())
        first = np.array([self.first_token_s(model, b, lengths, quantile) for b in grid])
        return float(first.min() if metric == "ttft" else (first + (lengths.output_tokens - 1) * slow).min())

    def first_token_s(self, model: StepModel, mean: float, lengths: Lengths, quantile: float | None) -> float:
        batch = np.array([mean])
        at = phases(model, batch, lengths)
        service = prompt_service_s(model, at)
        rate = carried_requests_per_s(model, batch, service, tpot_s(model, at, batch, lengths), lengths)
        load = rate / model.candidates.attention_dp * service
        wait = load / (1 - load) / 2 * service if quantile is None else wait_percentile_s(quantile, load, service)
        others = batch / model.candidates.attention_dp
        return float((idle_ttft_s(model, at, lone_ttft_s(model, lengths), others) + wait)[0])
