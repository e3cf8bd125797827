"""One configuration: what is computed once, what together, and where arrivals settle."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.api.configured import configured
from gpufleet.api.demands import checked_lengths
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.workload import Workload
from gpufleet.optimize.estimate import (
    EVERY_FIGURE,
    EstimateQuestion,
    EstimateSolution,
    Load,
    best_queue,
    solve_estimate,
    sustained,
    whole_batches,
)
from gpufleet.optimize.replicas import MemoryModel, room
from gpufleet.performance.foreseen import ForeseenSteps
from gpufleet.performance.serving import Client, busy_loads, cycle_s, full_queue, phases, prompts_load
from gpufleet.performance.shared_steps import step_room_tokens
from gpufleet.performance.step import StepModel

ARCH = shipped_architecture("llama-3.1-8b")
ENGINE = load_engine("vllm")
LENGTHS = checked_lengths(1000, 200)
WORKLOAD = Workload(1000.0, 200.0, slo=EVERY_FIGURE)


def candidates() -> Candidates:
    return configured(load_catalog(), ARCH, "H100", ENGINE, (1, None, 1, None, 1), None, None, None).candidates


def solve(scenario: str, amount: float = np.inf) -> EstimateSolution:
    question = EstimateQuestion(ARCH, candidates(), WORKLOAD, Load(scenario, amount), Client())
    return solve_estimate(question, calibration_of(load_catalog()))


@pytest.mark.parametrize(
    ("scenario", "amount", "evaluations"),
    [("closed_loop", 16.0, 1), ("static_batch", 16.0, 1), ("full_queue", np.inf, 1), ("open_loop", 2.0, 2)],
)
def test_kernels_are_evaluated_once_for_all_loads_of_an_answer(
    scenario: str, amount: float, evaluations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an estimate takes is mostly the evaluation of kernels: `busy_loads` names what the equations ask for."""
    loads, evaluate = [], StepModel.evaluated
    monkeypatch.setattr(StepModel, "evaluated", lambda model, load: loads.append(load) or evaluate(model, load))
    sustained.cache_clear()
    solve(scenario, amount).decode_terms(LENGTHS)
    assert len(loads) == evaluations


def test_another_rate_asks_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a replica sustains of some lengths is known; what it finds is that of a replica that was never asked."""
    solve("open_loop", 2.0)
    loads, evaluate = [], StepModel.evaluated
    monkeypatch.setattr(StepModel, "evaluated", lambda model, load: loads.append(load) or evaluate(model, load))
    kept = solve("open_loop", 3.0).serving
    assert not loads
    sustained.cache_clear()
    anew = solve("open_loop", 3.0).serving
    assert kept is not None
    assert anew is not None
    assert (kept.batch, kept.tpot_s, kept.ttft_s) == (anew.batch, anew.tpot_s, anew.ttft_s)


def test_a_queue_that_serves_more_in_smaller_batches_is_told_without_asking_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The batch that is best was among those asked for; its figures are those of a queue at this batch alone."""
    lengths, loads, evaluate = checked_lengths(50, 10), [], StepModel.evaluated
    model = ForeseenSteps.of(StepModel.build(ARCH, candidates(), calibration_of(load_catalog())))
    largest = np.array([600.0])
    monkeypatch.setattr(StepModel, "evaluated", lambda m, load: loads.append(load) or evaluate(m, load))
    model.foresee([*busy_loads(model, whole_batches(largest), lengths), prompts_load(np.ones(1), lengths)])
    best = best_queue(model, largest, lengths)
    assert len(loads) == 1
    assert best.batch[0] < largest[0]
    alone = full_queue(model, best.batch, lengths)
    for figure in ("tpot_s", "ttft_s", "requests_per_s"):
        assert getattr(best, figure) == pytest.approx(getattr(alone, figure), rel=1e-12)
    assert best.requests_per_s[0] > full_queue(model, largest, lengths).requests_per_s[0]


@pytest.mark.parametrize("rate", [0.001, 0.1, 1.0, 5.0, 15.0])
def test_arrivals_settle_where_the_batch_carries_them(rate: float) -> None:
    """Between the columns of the grid of batches, 20 % apart, all is taken for straight."""
    solution = solve("open_loop", rate)
    assert solution.serving is not None
    model, batch = solution.model, solution.serving.batch
    at = phases(model, batch, LENGTHS)
    carried = batch / cycle_s(model, at, batch, LENGTHS)
    assert carried[0] == pytest.approx(rate, rel=0.003 if batch[0] > 0.1 else 0.03)


def test_the_rooms_of_two_contexts_are_those_of_each() -> None:
    one = candidates()
    both = MemoryModel.build(ARCH, one.take(np.zeros(2, dtype=np.int64))).room(LENGTHS, np.array([1200.0, 1100.0]))
    for row, context in enumerate((1200.0, 1100.0)):
        alone = room(ARCH, one, LENGTHS, context)
        assert both.largest_batch[row] == alone.largest_batch[0]
        assert both.budget.verdict[row] == alone.budget.verdict[0]
        assert both.budget.total_bytes.high[row] == alone.budget.total_bytes.high[0]


def test_a_replica_is_read_once_and_asked_often() -> None:
    assert candidates() is candidates()
    assert solve("closed_loop", 16.0) is not solve("closed_loop", 16.0)
    near, far = solve("closed_loop", 1.0).serving, solve("closed_loop", 64.0).serving
    assert near is not None
    assert far is not None
    assert far.tpot_s > near.tpot_s


@pytest.mark.parametrize(("engine", "tokens"), [("vllm", 8192.0), ("transformers", np.inf)])
def test_a_step_takes_a_chunk_of_a_prompt_or_all_of_it(engine: str, tokens: float) -> None:
    """vLLM on a large card: --max-num-batched-tokens 8192; transformers cuts no prompt."""
    parts = (1, None, 1, None, 1)
    placed = configured(load_catalog(), ARCH, "H100", load_engine(engine), parts, None, None, None).candidates
    assert step_room_tokens(placed) == [tokens]
