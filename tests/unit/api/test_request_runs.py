"""A run of so many requests: answered at any load, with percentiles, in the words of an estimate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import ServingEstimate, estimate
from gpufleet.api.request_runs import widened
from gpufleet.errors import UsageError
from gpufleet.report.estimate import estimate_page
from gpufleet.report.text import page_as_text

COPY = {"model": "llama-3.1-8b", "gpus": "H100:1", "input_tokens": 1000, "output_tokens": 200}


def run_of(**said: object) -> ServingEstimate:
    return estimate(**{**COPY, **said})  # type: ignore[arg-type]


def p95_ttft_s(found: ServingEstimate) -> float:
    return next(each.ttft_s.value for each in found.percentiles if each.quantile == 0.95)


def test_a_run_that_is_long_and_calm_is_near_the_steady_state() -> None:
    steady, run = run_of(rate="5/s"), run_of(rate="5/s", requests=2000)
    assert run.tpot_s.value == pytest.approx(steady.tpot_s.value, rel=0.15)
    assert (run.scenario, run.num_requests) == ("open_loop", 2000)


def test_a_rate_beyond_what_a_copy_sustains_is_answered_and_waits_longer_the_longer_it_runs() -> None:
    short, long = (run_of(rate="500/s", requests=n) for n in (500, 4000))
    assert p95_ttft_s(long) > 2 * p95_ttft_s(short)
    assert long.requests_per_s.value < 500


def test_clients_have_percentiles_in_a_run() -> None:
    found = run_of(concurrency=16, requests=200)
    first = [each.ttft_s.value for each in found.percentiles]
    assert found.scenario == "closed_loop"
    assert first == sorted(first)
    assert len(first) == 4


def test_a_cached_prefix_is_not_prefilled_at_a_rate_nor_in_a_run() -> None:
    for said in ({"rate": "5/s"}, {"rate": "5/s", "requests": 500}):
        assert run_of(**said, prefix_cache="60%").ttft_s.value < run_of(**said).ttft_s.value


def test_a_run_says_its_load_and_what_is_counted() -> None:
    page = estimate_page(run_of(rate="5/s", requests=300))
    assert "5 requests/s, 300 requests in all" in page.headline
    assert "A run of 300 requests, replayed" in page_as_text(page, 80)


@pytest.mark.parametrize("said", [{"requests": 100}, {"batch": 4, "requests": 100}, {"rate": "5/s", "requests": 0.5}])
def test_what_is_no_run_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        run_of(**said)


def test_a_burst_is_less_sure_than_a_steady_state_and_its_tail_less_than_its_middle() -> None:
    burst, steady = (run_of(rate=rate, requests=300) for rate in ("100/s", "1/s"))
    assert width_of(burst, 0.95) > width_of(steady, 0.95)
    assert width_of(burst, 0.95) > width_of(burst, 0.5)


def width_of(found: ServingEstimate, quantile: float) -> float:
    first = next(each.ttft_s for each in found.percentiles if each.quantile == quantile)
    assert first.low
    assert first.high
    return first.high / first.low


@given(ratio=st.floats(0.05, 20.0), spread=st.floats(0.0, 2.0))
def test_another_spread_never_narrows_a_range(ratio: float, spread: float) -> None:
    assert abs(math.log(widened(ratio, spread))) >= abs(math.log(ratio)) - 1e-9
