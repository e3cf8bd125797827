"""A verified plan keeps its limits in the replay or says that none does; draws of speed size it, up and down."""

from __future__ import annotations

import numpy as np
import pytest

import gpufleet
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.kept_plans import Tried, kept_in_replay, least_kept
from gpufleet.api.plan_basis import request_of
from gpufleet.domain.requests import Requests
from gpufleet.report.plan import headline, plan_page
from gpufleet.report.verification import sized_line
from gpufleet.simulate.generated import requests_of

FLEETS = {
    "one machine": {"rate": "4/s", "input_tokens": 600, "output_tokens": 150, "slo": "ttft.p95<1s,tpot.p95<50ms"},
    "many machines": {"rate": "60/s", "input_tokens": 1000, "output_tokens": 200, "slo": "ttft.p95<500ms"},
    "spare machines": {"rate": "20/s", "input_tokens": 500, "output_tokens": 100, "slo": "ttft.p99<2s",
                       "spare_machines": 1},
}  # fmt: skip


def asked(name: str) -> ServeAnswer:
    return gpufleet.plan_serve("llama-3.1-8b", gpus=["L40S", "H100"], rows=3, **FLEETS[name])  # type: ignore[arg-type]


def waves(rate: float, times_as_fast: float, num: int = 4_000) -> Requests:
    """Arrivals at a mean rate, a third of them in a burst."""
    gaps = np.random.default_rng(7).exponential(1.0, num)
    gaps[num // 3 : 2 * num // 3] /= times_as_fast
    times = np.cumsum(gaps)
    times *= num / times[-1] / rate
    return requests_of(times, np.full(num, 1000), np.full(num, 200))


@pytest.mark.slow
@pytest.mark.parametrize("name", FLEETS)
@pytest.mark.parametrize("times_as_fast", [1.0, 3.0])
def test_a_verified_plan_is_kept_and_cheaper_only_where_draws_say_so(name: str, times_as_fast: float) -> None:
    plan = asked(name)
    verified = kept_in_replay(plan, waves(plan.rate_requests_per_s, times_as_fast))
    assert verified.verification is not None
    assert verified.is_feasible
    assert verified.verification.is_kept
    drawn = verified.verification.drawn
    assert drawn is not None
    assert drawn.planned is not None or verified.answer.usd_per_hour >= plan.answer.usd_per_hour
    first = verified.verification.deployments[0]
    assert (first.instance, first.replicas) == (verified.answer.instance, verified.answer.replicas)


DRAWN = {
    "down": ("qwen2.5-7b", {"rate": "69/s", "input_tokens": 3888, "output_tokens": 121, "gpus": ["H100"],
                            "slo": "ttft.p95<485ms,tpot.p95<66ms"}),
    "up": ("llama-3.3-70b", {"rate": "5/s", "input_tokens": 4000, "output_tokens": 800, "gpus": ["B300"],
                             "slo": "ttft.p95<0.52s,tpot.p95<0.05s"}),
}  # fmt: skip


@pytest.mark.parametrize("way", DRAWN)
def test_draws_size_a_plan_and_its_question_gives_it_again(way: str) -> None:
    model, said = DRAWN[way]
    plan = gpufleet.plan_serve(model, rows=1, **said)  # type: ignore[arg-type]
    sized = kept_in_replay(plan, None)
    assert sized.verification is not None
    drawn = sized.verification.drawn
    assert drawn is not None
    assert drawn.planned is not None
    assert (drawn.planned.instance_count, drawn.planned.usd_per_hour) == (
        plan.answer.instance_count, plan.answer.usd_per_hour,
    )  # fmt: skip
    assert (sized.answer.instance_count < plan.answer.instance_count) == (way == "down")
    assert (sized.answer.usd_per_hour < plan.answer.usd_per_hour) == (way == "down")
    assert drawn.sufficient_instance_count is None
    assert drawn.kept_draws >= drawn.confidence * drawn.num_draws
    assert sized.answer.sure_requests_per_s >= sized.rate_requests_per_s * (1 - 1e-9)
    [words] = sized_line(sized.verification)
    assert words in plan_page(sized).leading
    assert f"instead of {drawn.planned.instance_count}x " in words
    assert f"in {drawn.kept_draws} of 20 draws" in words
    basis = sized.with_basis().basis
    assert basis is not None
    again = gpufleet.plan_serve(request_of(basis))
    assert (again.input_hash, again.answer) == (sized.input_hash, sized.answer)
    assert again.input_hash != plan.input_hash


def test_a_budget_is_kept_by_a_plan_that_draws_would_make_larger() -> None:
    model, said = DRAWN["up"]
    plan = gpufleet.plan_serve(model, rows=1, budget_usd_per_hour=450.0, **said)  # type: ignore[arg-type]
    kept = kept_in_replay(plan, None)
    assert kept.verification is not None
    drawn = kept.verification.drawn
    assert kept.answer == plan.answer
    assert drawn is not None
    assert drawn.sufficient_usd_per_hour is not None
    assert drawn.sufficient_usd_per_hour > 450.0


@pytest.mark.slow
def test_the_question_of_a_repaired_plan_says_what_its_machines_carry_and_gives_it_again() -> None:
    plan = asked("one machine")
    verified = kept_in_replay(plan, waves(4.0, 8.0))
    assert verified.answer.usd_per_hour > plan.answer.usd_per_hour
    assert "keeps every limit" in verified.notes[0]
    basis = verified.with_basis().basis
    assert basis is not None
    again = gpufleet.plan_serve(request_of(basis))
    assert (again.answer.instance, again.answer.instance_count) == (
        verified.answer.instance, verified.answer.instance_count,
    )  # fmt: skip
    assert again.busiest_requests_per_s == verified.busiest_requests_per_s


@pytest.mark.slow
def test_a_plan_that_no_number_of_machines_repairs_says_so_and_is_not_feasible() -> None:
    """Four hundred prompts in the same moment, five minutes apart: no fleet of four times the rate has them in time."""
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="2/s", input_tokens=4000, output_tokens=20, slo="ttft.p95<2s", gpus=["L40S", "A10G"]
    )
    times = np.repeat(np.arange(6) * 200.0, 400)
    verified = kept_in_replay(plan, requests_of(times, np.full(2400, 4000), np.full(2400, 20)))
    assert not verified.is_feasible
    assert "no machines keep every limit when requests are replayed" in headline(verified)
    assert "breaks ttft.p95" in headline(verified)
    assert verified.answer.usd_per_hour == plan.answer.usd_per_hour


@pytest.mark.parametrize("enough", [1.01, 1.3, 2.2, 3.9])
@pytest.mark.parametrize("each", [0.01, 0.4, 1.0])
def test_the_least_rate_that_is_kept_is_found_within_two_percent_or_one_machine(enough: float, each: float) -> None:
    """Machines of one kind that carry `each`; so much of the first plan's capacity is enough."""
    calls = []

    def at(rate: float) -> Tried:
        calls.append(rate)
        carried = np.ceil(rate / each - 1e-9) * each
        return Tried(None, carried, () if carried >= enough else ("ttft.p95",))  # type: ignore[arg-type]

    found = least_kept(at, Tried(None, 1.0, ("ttft.p95",)))  # type: ignore[arg-type]
    assert found is not None
    least = np.ceil(enough / each - 1e-9) * each
    assert least <= found.carried_per_s * (1 + 1e-9)
    assert found.carried_per_s <= max(least * 1.02, least + 1e-9) + (each if each < 0.02 else 0.0)
    assert len(calls) <= 16, "work is counted, not timed"


def test_what_nothing_keeps_ends_after_few_tries() -> None:
    calls = []

    def at(rate: float) -> Tried:
        calls.append(rate)
        return Tried(None, rate, ("ttft.p95",))  # type: ignore[arg-type]

    assert least_kept(at, Tried(None, 1.0, ("ttft.p95",))) is None  # type: ignore[arg-type]
    assert len(calls) <= 8
