"""A run of so many requests: answered at any load, with percentiles, in the words of an estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import ServingEstimate, estimate
from gpufleet.api.request_runs import Replayed, generator_of
from gpufleet.api.simulated_copies import copy_of
from gpufleet.catalog.run_ranges import RunRange, load_run_ranges
from gpufleet.domain.requests import Requests
from gpufleet.errors import UsageError
from gpufleet.optimize.request_runs import Experiment, Pace, results_of, statistic_of, times_of
from gpufleet.questions.estimate import CopyQuestion
from gpufleet.report.estimate import estimate_page
from gpufleet.report.text import page_as_text
from gpufleet.simulate.cluster import Copy

COPY = {"model": "llama-3.1-8b", "gpus": "H100:1", "input_tokens": 1000, "output_tokens": 200}


def run_of(**said: object) -> ServingEstimate:
    return estimate(**{**COPY, **said})  # type: ignore[arg-type]


def test_requests_that_wait_do_not_decode() -> None:
    """A thousand clients, of whom the pool of an RTX 4090 holds a fifth."""
    asked = {"gpus": "RTX-4090:1", "input_tokens": "fixed=128", "output_tokens": "fixed=128", "concurrency": 1024}
    crowded = run_of(**asked, requests=2000)
    assert 1 < crowded.batch <= crowded.largest_batch * 1.1


@pytest.mark.parametrize("load", [{"rate": "8.5/s", "requests": 20}, {"concurrency": 4, "requests": 60}])
def test_ends_of_ranges_rise_with_the_percentile_as_figures_do(load: dict[str, object]) -> None:
    found = run_of(**load).percentiles
    for time in ("ttft_s", "tpot_s", "latency_s"):
        for end in ("low", "value", "high"):
            ends = [getattr(getattr(each, time), end) for each in found]
            assert ends == sorted(ends), (time, end)


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


@pytest.mark.slow
@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_a_burst_is_less_sure_than_a_steady_state(quantile: float) -> None:
    burst, steady = (run_of(rate=rate, requests=300) for rate in ("100/s", "1/s"))
    assert width_of(burst, quantile) > width_of(steady, quantile)


def test_queues_widen_the_range_of_a_busy_copy() -> None:
    idle, busy = (run_of(rate=rate, requests=2000) for rate in ("1/s", "28/s"))
    assert width_of(busy, 0.5) > 1.3 * width_of(idle, 0.5)
    assert busy.latency_s.high is not None
    assert idle.latency_s.high is not None
    assert busy.latency_s.high / busy.latency_s.value > idle.latency_s.high / idle.latency_s.value


def test_steps_as_long_as_expected_give_the_run_itself() -> None:
    copy, calm = played()
    as_expected, itself = Pace.of(1.0, copy, calm), times_of(results_of(copy, calm)[0], 0)
    assert as_expected.draws[0]["ttft"] == pytest.approx(itself["ttft"])
    assert as_expected.beyond_ratio("ttft", "p50", statistic_of(itself["ttft"], "p50")) == pytest.approx(1.0)


@pytest.mark.parametrize(("step_ratio", "least", "most"), [(1.3, 1.0, 5.0), (0.7, 0.2, 1.0)])
def test_long_steps_add_queues_and_short_ones_take_some_away(step_ratio: float, least: float, most: float) -> None:
    copy, calm = played()
    expected_s = statistic_of(times_of(results_of(copy, calm)[0], 0)["latency"], "p95")
    assert least <= Pace.of(step_ratio, copy, calm).beyond_ratio("latency", "p95", expected_s) <= most


def played() -> tuple[Copy, Experiment]:
    requests = Requests(np.arange(200) / 10.0, np.full(200, 500), np.full(200, 100), np.zeros(200, dtype=np.int64))
    return copy_of(CopyQuestion("llama-3.1-8b", "H100:1"), requests).copy, Experiment([requests], generator_of)


def width_of(found: ServingEstimate, quantile: float) -> float:
    first = next(each.ttft_s for each in found.percentiles if each.quantile == quantile)
    assert first.low
    assert first.high
    return first.high / first.low


@given(ratio=st.floats(0.05, 20.0), beside=st.floats(0.0, 2.0), kept=st.floats(0.5, 2.0))
def test_an_end_says_how_far_that_of_its_steps_lies(ratio: float, beside: float, kept: float) -> None:
    learnt, is_above = RunRange(beside, beside, kept, kept), ratio > 1
    steps_log = abs(math.log(ratio))
    assert learnt.steps_log(learnt.width_log(steps_log, is_above=is_above), is_above=is_above) == pytest.approx(
        steps_log, abs=1e-6
    )


@given(ratio=st.floats(0.05, 20.0), low=st.floats(0.0, 2.0), high=st.floats(0.0, 2.0))
def test_what_lies_beside_the_range_of_steps_widens_its_own_end_alone(ratio: float, low: float, high: float) -> None:
    end = RunRange(low, high).end(ratio)
    assert abs(math.log(end)) >= abs(math.log(ratio)) - 1e-9
    assert (end - 1.0) * (ratio - 1.0) >= 0
    assert RunRange(low_log=low).end(max(ratio, 1.01)) == pytest.approx(max(ratio, 1.01))


def test_every_kind_of_run_has_what_lies_beside_each_of_its_figures() -> None:
    assert {len(ranges) for ranges in load_run_ranges().values()} == {6}
    assert all(
        each.low_log >= 0 and each.high_log >= 0 for ranges in load_run_ranges().values() for each in ranges.values()
    )


def test_more_than_ten_times_above_a_figure_nothing_is_known() -> None:
    seconds = {"ttft": np.array([1.0]), "tpot": np.array([0.01]), "latency": np.array([3.0])}
    doubt = {"ttft_centre": RunRange(high_log=math.log(11)), "tpot_centre": RunRange(high_log=math.log(2))}
    physics = estimate("llama-3.1-8b", "H100:1", input_tokens=500, output_tokens=100, concurrency=4)
    found = Replayed([seconds], physics, doubt)
    ends = [figure.high for time in ("ttft", "tpot") if (figure := found.figure(time, "p50"))]
    assert [math.isinf(end or 0.0) for end in ends] == [True, False]
