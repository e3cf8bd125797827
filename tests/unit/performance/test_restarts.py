"""Runs that stop and go on from a checkpoint: published figures, laws and edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.domain.interruption import NEVER, Spread
from gpufleet.performance.checkpoints import checkpoint_s, restart_s
from gpufleet.performance.restarts import (
    checkpoint_interval_s,
    elapsed_run_s,
    first_order_interval_s,
    lost_ratio,
    machine_mtbf_hours,
    mean_between_s,
    stops_in,
    stops_per_s,
)
from gpufleet.units import DAY, HOUR, MINUTE

WORK = st.floats(1.0, 1e8)
RATES = st.floats(0.0, 1e-2)
SECONDS = st.floats(0.0, 1e4)
BETWEEN = st.floats(1.0, 1e12)
ROUNDING = 1e-9


@pytest.mark.parametrize(("between_min", "interval_min"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_intervals_of_daly_2006_figures_3_to_5(between_min: float, interval_min: float) -> None:
    """Writes of 5 min; the paper names the interval to two or three digits."""
    found = checkpoint_interval_s(5 * MINUTE, between_min * MINUTE) / MINUTE
    assert found == pytest.approx(interval_min, abs=0.5 if interval_min > 10 else 0.05)


def test_daly_reduces_to_young_where_writes_are_short() -> None:
    assert checkpoint_interval_s(1.0, 30 * DAY) == pytest.approx(first_order_interval_s(1.0, 30 * DAY), rel=1e-3)


@given(write=st.floats(1e-3, 1e4), between=BETWEEN)
def test_no_interval_loses_noticeably_less_than_the_one_of_daly(write: float, between: float) -> None:
    chosen = float(checkpoint_interval_s(write, between))
    others = chosen * np.geomspace(0.2, 5.0, 41)
    work = 100 * others.max()
    elapsed = elapsed_run_s(work, 1 / between, write, 60.0, np.array([chosen, *others]))
    assert elapsed[0] <= 1.0021 * elapsed.min()


def test_llama_3_trained_more_than_nine_tenths_of_its_time() -> None:
    """arXiv:2407.21783: 419 unexpected stops in 54 days on 16,384 GPUs, effective training time above 90 %.

    A checkpoint of 405 billion parameters with 12 bytes each, on the storage that the paper describes. How fast Meta
    restarts is not published: at the expected figure 92 % come out, at the low one 96 %; the tolerance is two points
    around what was published as a bound.
    """
    runs, machines, work_s = load_training_runs(), 16_384 / 8, 49 * DAY
    rate = stops_per_s(16_384, load_failures().per_gpu_hour("Hopper").expected, machines, 0.0)
    assert stops_in(54 * DAY, rate) == pytest.approx(419)
    write_s = checkpoint_s(
        405e9 * 12, machines, runs.write_bytes_per_s_per_machine.value, runs.shared_bytes_per_s.high or 0.0
    )
    interval_s = checkpoint_interval_s(write_s, mean_between_s(rate))
    recoveries = np.array([runs.recovery_s.low, runs.recovery_s.value])
    elapsed_s = elapsed_run_s(work_s, rate, write_s, restart_s(recoveries, write_s), interval_s)
    assert 1 - lost_ratio(work_s, elapsed_s) == pytest.approx([0.96, 0.92], abs=0.02)
    assert elapsed_s[1] / DAY == pytest.approx(54, rel=0.03)


def test_the_longer_restart_of_people_who_must_notice_costs_a_large_run_a_third() -> None:
    runs = load_training_runs()
    rate = 419 / (54 * DAY)
    assert runs.recovery_s.high is not None
    elapsed_s = elapsed_run_s(DAY, rate, 3.0, runs.recovery_s.high, checkpoint_interval_s(3.0, mean_between_s(rate)))
    assert 0.2 < lost_ratio(DAY, elapsed_s) < 0.4


def test_one_spot_machine_that_is_taken_stops_all_so_rates_add_up_over_machines() -> None:
    reclaims = load_interruptions().per_hour(None).expected
    one, eight = stops_per_s(8, 2e-5, 1, reclaims), stops_per_s(64, 2e-5, 8, reclaims)
    assert eight == pytest.approx(8 * one)
    assert mean_between_s(eight) / HOUR == pytest.approx(1 / (8 * (reclaims + 8 * 2e-5)))


def test_sixteen_spot_machines_at_the_worst_rate_hardly_advance() -> None:
    reclaims = load_interruptions().per_hour(None).high
    rate = stops_per_s(128, 2e-5, 16, reclaims)
    elapsed_s = elapsed_run_s(DAY, rate, 60.0, 1200.0, checkpoint_interval_s(60.0, mean_between_s(rate)))
    assert lost_ratio(DAY, elapsed_s) > 0.9


def test_without_stops_a_run_is_its_work_and_one_write_at_the_end() -> None:
    interval_s = checkpoint_interval_s(300.0, mean_between_s(0.0))
    assert np.isinf(interval_s)
    assert elapsed_run_s(DAY, 0.0, 300.0, 600.0, interval_s) == pytest.approx(DAY + 300.0)


def test_without_stops_regular_checkpoints_cost_their_writes() -> None:
    assert elapsed_run_s(DAY, 0.0, 60.0, 600.0, HOUR) == pytest.approx(DAY + 24 * 60.0)


def test_where_writing_takes_no_time_only_restarts_cost() -> None:
    assert checkpoint_interval_s(0.0, HOUR) == 0.0
    assert elapsed_run_s(DAY, 1 / HOUR, 0.0, 360.0, 0.0) == pytest.approx(DAY * np.exp(0.1))


def test_work_that_never_ends_takes_for_ever_and_loses_everything() -> None:
    elapsed_s = elapsed_run_s(DAY, 1.0, 1e4, 1e4, 1e4)
    assert np.isinf(elapsed_s)
    assert lost_ratio(DAY, elapsed_s) == 1.0


def test_no_work_takes_no_time() -> None:
    assert elapsed_run_s(0.0, 1e-3, 60.0, 60.0, 600.0) == 0.0
    assert lost_ratio(0.0, 0.0) == 0.0


def test_where_a_write_outlasts_two_mean_times_between_stops_the_interval_is_one() -> None:
    assert checkpoint_interval_s(np.array([2.0, 3.0]) * HOUR, HOUR) == pytest.approx([HOUR, HOUR])


def test_many_runs_are_asked_at_once() -> None:
    rates = np.array([0.0, 1e-6, 1e-4])
    intervals = checkpoint_interval_s(60.0, mean_between_s(rates))
    elapsed = elapsed_run_s(DAY, rates, 60.0, 600.0, intervals)
    one_by_one = [float(elapsed_run_s(DAY, r, 60.0, 600.0, t)) for r, t in zip(rates, intervals, strict=True)]
    assert elapsed.tolist() == one_by_one


@given(write=SECONDS, between=BETWEEN)
def test_an_interval_lies_between_nothing_and_the_mean_time_between_stops(write: float, between: float) -> None:
    assert 0.0 <= checkpoint_interval_s(write, between) <= between


@given(work=WORK, rate=RATES, write=SECONDS, restart=SECONDS, interval=st.floats(1.0, 1e7))
def test_a_run_takes_no_less_than_its_work(
    work: float, rate: float, write: float, restart: float, interval: float
) -> None:
    elapsed = elapsed_run_s(work, rate, write, restart, interval)
    assert elapsed >= work * (1 - ROUNDING)
    assert -ROUNDING <= lost_ratio(work, elapsed) <= 1.0


@given(work=WORK, rates=st.tuples(RATES, RATES), write=SECONDS, restart=SECONDS, interval=st.floats(1.0, 1e7))
def test_more_stops_never_shorten_a_run(
    work: float, rates: tuple[float, float], write: float, restart: float, interval: float
) -> None:
    fewer, more = elapsed_run_s(work, np.array(sorted(rates)), write, restart, interval)
    assert more >= fewer * (1 - ROUNDING)


@given(work=WORK, rates=st.tuples(RATES, RATES), write=SECONDS, restart=SECONDS)
def test_more_stops_do_not_shorten_a_run_that_saves_as_often_as_is_best(
    work: float, rates: tuple[float, float], write: float, restart: float
) -> None:
    """But for what Daly's interval misses of the best one: 0.2 %."""
    rate = np.array(sorted(rates))
    intervals = checkpoint_interval_s(write, mean_between_s(rate))
    fewer, more = elapsed_run_s(work, rate, write, restart, intervals)
    assert more >= fewer * (1 - 0.0021)


@given(st.tuples(RATES, RATES, RATES).map(sorted), st.integers(1, 72))
def test_a_machine_of_more_gpus_fails_sooner_and_the_ends_change_places(rates: list[float], gpus: int) -> None:
    one, several = (machine_mtbf_hours(Spread(*rates), number) for number in (1, gpus))
    assert one.low <= one.expected <= one.high
    for end in ("low", "expected", "high"):
        assert getattr(several, end) * gpus == pytest.approx(getattr(one, end))
    if rates[2] > 0:
        assert one.low == pytest.approx(1 / rates[2])


def test_what_never_fails_has_no_end() -> None:
    assert machine_mtbf_hours(NEVER, 8) == Spread(np.inf, np.inf, np.inf)
