"""Requests of which only the mean is known spread as published traces do, within the context of their model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.api.estimates import estimate
from gpufleet.catalog.calibration import load_habits
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.performance.token_lengths import assumed, at_means, log_normal

means = st.floats(2.0, 60_000.0)
spreads = st.floats(0.3, 1.4)
PUBLISHED_P95_OVER_MEAN = {
    # Azure LLM inference 2023, code and chat (Splitwise, ISCA 2024); Mooncake conversation and synthetic (FAST 2025)
    "prompts": (3.48, 3.23, 3.27, 3.33),
    "answers": (3.10, 2.19, 2.05, 3.03),
}


@given(means, spreads, st.floats(1.05, 50.0))
def test_the_mean_stays_what_was_said_and_nothing_is_beyond_the_cut(mean: float, spread: float, room: float) -> None:
    counts = log_normal(mean, spread, mean * room)
    assert counts.mean == mean
    assert np.mean(counts.octiles) == pytest.approx(mean, rel=1e-6)
    assert list(counts.percentiles) == sorted(counts.percentiles)
    assert max(counts.most, *counts.percentiles) <= mean * room * (1 + 1e-9)
    assert min(counts.percentiles) >= 1.0


@given(means, spreads)
def test_an_uncut_spread_is_that_of_the_logarithms(mean: float, spread: float) -> None:
    counts = log_normal(mean, spread)
    if counts.at("p50") > 1:
        assert np.log(counts.at("p95") / counts.at("p50")) == pytest.approx(1.6449 * spread, rel=1e-3)
    assert counts.beyond_ratio == pytest.approx(0.001)


@given(st.floats(50.0, 3000.0), st.floats(20.0, 900.0), st.floats(0.3, 3.0))
def test_lengths_that_move_are_those_that_are_assumed_there(prompt: float, answer: float, ratio: float) -> None:
    prompts, answers = assumed(prompt, 0.9, answer, 131_072.0), assumed(answer, 0.77, prompt, 131_072.0)
    longer, _ = at_means(prompts, answers, (prompt * ratio, answer))
    assert longer == assumed(prompt * ratio, 0.9, answer, 131_072.0)


def test_the_usual_spread_lies_among_the_published_traces() -> None:
    habits = load_habits()
    for spread, published in (
        (habits.prompt_log_spread, PUBLISHED_P95_OVER_MEAN["prompts"]),
        (habits.answer_log_spread, PUBLISHED_P95_OVER_MEAN["answers"]),
    ):
        assert spread.low <= spread.value <= spread.high
        assert spread.points == len(published)
        ratio = log_normal(1000.0, spread.value).at("p95") / 1000.0
        assert min(published) * 0.8 <= ratio <= max(published)


def test_a_tail_of_prompts_and_answers_comes_later_than_requests_all_alike() -> None:
    alike = ServeRequest("llama-3.1-8b", 4.0, TokenCounts(1000.0), TokenCounts(200.0), gpus=["H100"], rows=1)
    spread = ServeRequest("llama-3.1-8b", 4.0, 1000, 200, gpus=["H100"], rows=1)
    fixed, usual = (plan_serve(request).answer.latency for request in (alike, spread))
    assert usual["ttft.p95"].value > 1.5 * fixed["ttft.p95"].value
    assert usual["latency.p95"].value > 2.0 * fixed["latency.p95"].value
    assert usual["tpot.p95"].value == pytest.approx(fixed["tpot.p95"].value, rel=0.2)


def test_the_page_says_what_was_assumed_and_nothing_of_lengths_that_are_fixed() -> None:
    said = {i.name: i for i in plan_serve("llama-3.1-8b", rate="1/s", input_tokens="1000", output_tokens="200").inputs}
    assert said["spread of lengths"].value == "p95 2,931 in, 528 out"
    assert said["spread of lengths"].origin == "default"
    fixed = plan_serve("llama-3.1-8b", rate="1/s", input_tokens="fixed=1000", output_tokens="fixed=200")
    assert "spread of lengths" not in {i.name for i in fixed.inputs}


def test_batches_are_alike_and_clients_are_where_lengths_are_said_to_be_fixed() -> None:
    asked = {"input_tokens": TokenCounts(1000.0), "output_tokens": TokenCounts(200.0)}
    alone = {"input_tokens": 1000, "output_tokens": 200}
    batches, clients = (
        [estimate("llama-3.1-8b", "H100:1", **words, **load).ttft_s.value for words in (asked, alone)]
        for load in ({"batch": 8}, {"concurrency": 8})
    )
    assert batches[0] == batches[1]
    assert clients[0] > clients[1]
    with pytest.raises(UsageError, match="lengths that differ are estimated at a rate"):
        estimate("llama-3.1-8b", "H100:1", **{**asked, "concurrency": 8, "input_tokens": log_normal(1000.0, 0.9)})
