"""Flips of a serving plan: what they are asked of, and that it is enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.effort import cases
from tests.properties.random_questions import question_at

from gpufleet.api import ServeRequest
from gpufleet.api.serve_questions import prepare
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.calibration import Calibration
from gpufleet.optimize.contest import key_of
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution, capacity
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import FARTHEST_RATIO, Standing, length_flips
from gpufleet.optimize.lengths import Field, Heat, Race, at_lengths, only_of, priced_only
from gpufleet.optimize.service import solve_serve
from gpufleet.optimize.size import Capacity, at_limit

CHAT = ServeRequest("llama-3.3-70b", 50.0, 1000, 300, "ttft.p95<500ms,tpot.p95<40ms,latency.p95<30s")
QUESTIONS = range(cases(6, 12))


def solved(request: ServeRequest, tables: Catalog) -> tuple[WriterQuestion, WriterSolution]:
    """The question of a request with its solution."""
    prepared = prepare(request, tables)
    return prepared.question, prepared.served


def asked_of(request: ServeRequest) -> tuple[WriterQuestion, WriterSolution, Calibration]:
    tables = load_catalog()
    return *solved(request, tables), calibration_of(tables)


def race_of(question: WriterQuestion, calibration: Calibration) -> Race:
    """A race over the lengths of prompts and answers alike, in parts of what they are."""
    demand = question.demand
    inputs, outputs = demand.workload.input_tokens, demand.workload.output_tokens
    lightest = at_lengths(demand, inputs / FARTHEST_RATIO, outputs / FARTHEST_RATIO)
    field = Field.of(priced_only(question), lightest, calibration)
    return Race(field, calibration, lambda ratio: at_lengths(demand, ratio * inputs, ratio * outputs), {})


def winner(heat: Heat) -> tuple[tuple[str, str, str], float] | None:
    usd, first = heat.usd_per_hour, int(np.argmin(heat.usd_per_hour))
    return (key_of(heat.contest.offers[first]), float(usd[first])) if np.isfinite(usd[first]) else None


@pytest.mark.slow
@pytest.mark.parametrize("index", QUESTIONS)
def test_a_field_at_a_length_is_the_search_at_that_length(index: int) -> None:
    """What replicas have in common at all lengths is gathered once; the answer is that of planning from nothing."""
    asked = question_at(index)
    question, calibration = asked.question(), calibration_of(asked.tables)
    race = race_of(question, calibration)
    for ratio in (0.15, 0.8, 1.0, 1.7):
        best = solve_serve(replace(question, demand=race.demand_at(ratio)), calibration).ranked[:1]
        expected = [(key_of(row.offer), pytest.approx(row.counted_usd_per_hour)) for row in best]
        found = winner(race.of_all(ratio))
        assert [found] == (expected or [None])


@pytest.mark.slow
@pytest.mark.parametrize("index", QUESTIONS)
def test_who_cannot_win_between_two_lengths_does_not(index: int) -> None:
    asked = question_at(index)
    race = race_of(asked.question(), calibration_of(asked.tables))
    for shorter, longer in ((0.4, 0.5), (1.0, 1.25), (1.5, 4.0)):
        race.of_all(shorter), race.of_all(longer)
        for ratio in np.geomspace(shorter, longer, 5)[1:-1]:
            whole = race.field.heat(race.demand_at(float(ratio)))
            assert winner(race.of_leaders(float(ratio))) == winner(whole)


@pytest.mark.slow
def test_few_lengths_are_asked_of_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every flip the steps out and both sides of what was found; those that may win answer what lies between."""
    asked_rows: list[int] = []

    def counted(field: Field, demand: Demand) -> Capacity:
        asked_rows.append(len(field.model.candidates))
        return found(field, demand)

    found = Field.found
    monkeypatch.setattr(Field, "found", counted)
    question, solution, calibration = asked_of(CHAT)
    flips = list(length_flips(Standing.of(question, solution), question, calibration))
    assert sum(flip.value is not None for flip in flips) == 4
    whole = max(asked_rows)
    assert sum(rows == whole for rows in asked_rows) <= 30
    assert np.median(asked_rows) < whole / 2


@pytest.mark.slow
def test_a_flip_that_only_those_who_may_win_agree_to_is_asked_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the one that takes over left out between two lengths, the flip would still be found.

    Or, where it loses again before the next length that is tried, the one beyond.
    """
    question, solution, calibration = asked_of(replace(CHAT, clouds=["aws"]))
    standing = Standing.of(question, solution)
    true = list(length_flips(standing, question, calibration))
    taking_over = {(f.winner.offer.cloud, f.winner.offer.instance) for f in true if f.winner is not None}

    def without_them(race: Race, shorter: Heat, longer: Heat) -> Field:
        left = {(o.cloud, o.instance) for o in race.field.question.offers} - taking_over
        return Field.of(only_of(race.field.question, left), shorter.demand, race.calibration)

    monkeypatch.setattr(Race, "leaders", without_them)
    found = list(length_flips(standing, question, calibration))
    assert sum(a == b for a, b in zip(found, true, strict=True)) >= 3
    assert all(abs(a.value - a.now) >= abs(b.value - b.now) for a, b in zip(found, true, strict=True) if a.value)


def with_limit(demand: Demand, label: str, limit_s: float) -> Demand:
    slo = demand.workload.slo
    limits = tuple(replace(x, limit_s=limit_s) if x.label == label else x for x in slo.limits)
    return replace(demand, workload=replace(demand.workload, slo=replace(slo, limits=limits)))


@pytest.mark.slow
@pytest.mark.parametrize("index", QUESTIONS)
def test_another_limit_allows_what_the_whole_search_finds(index: int) -> None:
    asked = question_at(index)
    question, solution = solved(asked.request, asked.tables)
    for limit in question.demand.workload.slo.limits:
        for ratio in (0.3, 0.97, 1.0, 2.5):
            demand = with_limit(question.demand, limit.label, limit.limit_s * ratio)
            whole = capacity(solution.copies.load_curves(), demand, solution.found.caution)
            found = at_limit(solution.found, limit, limit.limit_s * ratio)
            assert np.array_equal(found.requests_per_s, whole.requests_per_s)


@pytest.mark.slow
def test_lengths_flip_within_the_context_of_the_model() -> None:
    """40,960 tokens of Qwen3: a prompt of 30,000 is not looked at ten times as long."""
    request = ServeRequest("qwen3-8b", 1.0, 30_000, 500, gpus=["H100", "L40S"], clouds=["aws"])
    question, solution = solved(request, load_catalog())
    flips = list(length_flips(Standing.of(question, solution), question, calibration_of(load_catalog())))
    limit = question.model.arch.max_context_tokens
    assert limit == 40_960
    longer = {flip.quantity: flip.searched_to for flip in flips if flip.searched_to > flip.now}
    assert longer["input tokens"] == pytest.approx(limit - 500)
    assert longer["output tokens"] == pytest.approx(5000)
