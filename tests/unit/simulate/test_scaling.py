"""A scaled service in ticks: nothing is lost, waits are what a queue makes of them, starts take their time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulate.scaled_services import small_service

from gpufleet.simulate.perfect import needed_replicas, perfect_play
from gpufleet.simulate.predictive import Forecasting, Predictive
from gpufleet.simulate.scaling import NONE_AT_ALL, Played, Policy, Seen, Service, play, waits_s
from gpufleet.simulate.scaling_policies import Hpa, Keda, QueueDepth, SkyServe, Static, Utilisation, Wva

LAWS: dict[str, Callable[[Service], Policy]] = {
    "static": lambda service: Static(3),
    "hpa": Hpa,
    "keda": Keda,
    "keda to zero": lambda service: Keda(service, min_replicas=0),
    "wva": Wva,
    "skyserve": SkyServe,
    "utilisation": Utilisation,
    "queue depth": QueueDepth,
    "seasonal naive": Forecasting.seasonal_naive,
    "holt-winters": Forecasting.holt_winters,
    "predictive": Predictive,
    "predictive to zero": lambda service: Predictive(service, min_replicas=0),
}
COUNTS = st.lists(st.integers(0, 2000), min_size=2, max_size=80).map(lambda rows: np.array(rows, dtype=np.float64))


class Listed:
    """As many replicas as a list says, tick by tick."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = iter(numbers)

    def decide(self, seen: Seen) -> int:
        """The next number."""
        return next(self.numbers)


def played(service: Service, arrivals: np.ndarray, law: Policy, initial: int = 1) -> Played:
    return play(service, arrivals, law, initial)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.sampled_from(sorted(LAWS)), st.integers(0, 3), st.integers(3, 8), st.floats(0.0, 400.0))
def test_requests_are_conserved_and_machines_stay_within_bounds(
    arrivals: np.ndarray, law: str, least: int, most: int, cold_s: float
) -> None:
    service = small_service(cold_s, min_replicas=least, max_replicas=most)
    run = played(service, arrivals, LAWS[law](service), max(least, 1))
    assert run.served.sum() + run.queue[-1] == pytest.approx(arrivals.sum())
    assert np.all(run.paid >= run.ready)
    assert np.all((run.kept >= 0) & (run.kept <= run.arrivals * (1 + 1e-12)))
    assert np.all(run.ready <= most)
    settled = run.paid[service.drain_ticks + 1 :]
    assert np.all(settled >= min(least, 1))
    assert np.all(run.cold <= run.arrivals)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.lists(st.integers(0, 12), min_size=80, max_size=80), st.integers(0, 12))
def test_a_perfect_forecast_is_never_dearer_than_what_keeps_every_tick_without_a_backlog(
    arrivals: np.ndarray, numbers: list[int], initial: int
) -> None:
    service = small_service(30.0)
    needed = needed_replicas(service, arrivals)
    run = played(service, arrivals, Listed(numbers), initial)
    if np.any(run.ready < needed) or needed.max() > 50:
        lead = service.lead_ticks
        ahead = [int(needed[tick : tick + lead + 2].max(initial=0)) for tick in range(len(arrivals))]
        numbers = [max(a, b) for a, b in zip(numbers, ahead, strict=False)]
        run = played(service, arrivals, Listed(numbers), int(needed[: lead + 2].max()))
    assert np.all(run.ready >= needed)
    assert np.all(run.queue == 0)
    assert perfect_play(service, arrivals).paid.sum() <= run.paid.sum()


def test_a_perfect_forecast_keeps_the_target_in_every_tick() -> None:
    service = small_service(60.0)
    arrivals = np.random.default_rng(1).poisson(400, 500).astype(np.float64)
    run = perfect_play(service, arrivals)
    assert np.all(run.kept >= 0.95 * arrivals * (1 - 1e-9))
    assert np.all(run.paid >= run.ready)


def test_a_perfect_forecast_keeps_a_machine_over_a_gap_no_longer_than_a_start() -> None:
    service = small_service(45.0)
    lone = [0.0] * 5 + [100.0] + [0.0] * 3 + [100.0] + [0.0] * 20 + [100.0]
    run = perfect_play(service, np.array(lone))
    assert run.scale_ups == 2
    assert run.paid.sum() == (3 + 5) + (3 + 1)


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.lists(st.integers(1, 12), min_size=80, max_size=80), st.integers(0, 200), st.integers(0, 200))
def test_a_longer_cold_start_never_helps_a_law_that_wants_the_same(
    arrivals: np.ndarray, numbers: list[int], short_s: int, longer_s: int
) -> None:
    rising = np.maximum.accumulate(numbers).tolist()
    runs = [played(small_service(float(s)), arrivals, Listed(rising)) for s in (short_s, short_s + longer_s)]
    assert np.all(runs[0].ready >= runs[1].ready)
    assert np.all(np.cumsum(runs[0].served) >= np.cumsum(runs[1].served) - 1e-6)


def test_a_started_machine_is_paid_at_once_and_ready_after_its_cold_start() -> None:
    service = small_service(60.0)
    run = played(service, np.full(10, 15.0), Static(2), 1)
    assert run.ready.tolist() == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    assert run.paid.tolist() == [1] + [2] * 9
    assert (run.scale_ups, run.scale_downs) == (1, 0)


def test_a_machine_that_stops_is_paid_until_its_requests_are_answered() -> None:
    service = small_service(60.0)
    run = played(service, np.full(6, 15.0), Listed([1] * 6), 2)
    assert run.ready.tolist() == [2, 1, 1, 1, 1, 1]
    assert run.paid.tolist() == [2, 2, 1, 1, 1, 1]


def test_the_youngest_start_is_given_up_first_and_costs_nothing_more() -> None:
    service = small_service(60.0)
    run = played(service, np.full(5, 15.0), Listed([3, 2, 2, 2, 2]), 1)
    assert run.paid.tolist() == [1, 3, 2, 2, 2]


def test_what_meets_no_ready_replica_waits_for_the_cold_start_and_is_counted() -> None:
    service = small_service(60.0)
    run = played(service, np.array([0.0, 30.0, 0, 0, 0, 0, 0, 0]), Keda(service, waiting=30.0, min_replicas=0), 0)
    assert run.cold.sum() == 30
    assert run.kept.sum() == 0
    assert run.ready.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert run.queue.tolist() == [0, 30, 30, 30, 30, 30, 0, 0]


def test_waits_are_those_of_a_queue_that_is_worked_off_in_order() -> None:
    arrivals, served = np.array([300.0, 0.0, 0.0]), np.array([150.0, 150.0, 0.0])
    assert waits_s(15.0, arrivals, served, 0.25).tolist()[0] == 3.75
    assert waits_s(15.0, arrivals, served, 0.75).tolist()[0] == 11.25
    assert waits_s(15.0, arrivals, np.zeros(3), 0.5).tolist()[0] == np.inf


def test_the_share_in_time_falls_with_rate_and_wait() -> None:
    replica = small_service().replica
    rates, waits = np.linspace(0.0, 10.0, 60), np.linspace(0.0, 1.2, 40)
    kept = replica.share_within(rates[:, None], waits[None, :])
    assert np.all(np.diff(kept, axis=0) <= 1e-12)
    assert np.all(np.diff(kept, axis=1) <= 1e-12)
    assert float(replica.share_within(np.array([1.0]), np.array([np.inf]))[0]) == 0


def test_a_replica_is_planned_for_the_rate_at_which_the_target_holds() -> None:
    service = small_service()
    assert service.planned_per_s == pytest.approx(8.0, rel=1e-3)
    assert service.replicas_for(16.1) == 3
    assert service.replicas_for(16.0 * (1 - NONE_AT_ALL)) in (2, 3)


def test_the_same_arrivals_and_law_play_the_same() -> None:
    arrivals = np.random.default_rng(5).poisson(200, 2000).astype(np.float64)
    runs = [played(small_service(), arrivals, Predictive(small_service())) for _ in range(2)]
    assert np.array_equal(runs[0].paid, runs[1].paid)
    assert np.array_equal(runs[0].kept, runs[1].kept)
