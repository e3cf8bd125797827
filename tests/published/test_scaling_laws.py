"""Auto-scaling laws against the worked examples of their documents.

HPA: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale ("Algorithm details", "Scaling policies",
"Default Behavior"); KEP-853 (kubernetes/enhancements, stories 1, 3, 5, 6). KEDA: keda.sh ScaledObject specification and
concepts/scaling-deployments. WVA: llm-d-workload-variant-autoscaler, docs/saturation-analyzer.md. SkyServe:
docs.skypilot.co/en/stable/serving/autoscaling.html.
"""

from __future__ import annotations

import pytest
from tests.unit.simulate.scaled_services import seen_at, small_service

from gpufleet.simulate.scaling_policies import (
    Behaviour,
    Hpa,
    HpaRate,
    Keda,
    QueueDepth,
    RatePolicy,
    RollingExtreme,
    Schedule,
    SkyServe,
    Stabilised,
    Utilisation,
    Wva,
    hpa_desired,
    hpa_desired_of_total,
)
from gpufleet.units import HOUR

MINUTE_S = 60.0


@pytest.mark.parametrize(("metric", "replicas", "wanted"), [(200, 1, 2), (200, 3, 6), (50, 4, 2), (50, 3, 2)])
def test_hpa_doubles_at_200m_of_100m_and_halves_at_50m(metric: float, replicas: int, wanted: int) -> None:
    assert hpa_desired(replicas, 0, metric, 100.0) == wanted


@pytest.mark.parametrize("metric", [90.0, 95.0, 100.0, 105.0, 110.0])
def test_hpa_skips_a_ratio_within_a_tenth_of_one(metric: float) -> None:
    assert hpa_desired(7, 0, metric, 100.0) == 7


def test_hpa_acts_just_beyond_the_tolerance() -> None:
    assert (hpa_desired(7, 0, 110.1, 100.0), hpa_desired(10, 0, 89.0, 100.0)) == (8, 9)


def test_pods_that_start_count_as_nothing_on_the_way_up() -> None:
    assert hpa_desired(2, 0, 200.0, 100.0) == 4
    assert hpa_desired(2, 1, 200.0, 100.0) == 4
    assert hpa_desired(2, 2, 200.0, 100.0) == 4, "with two on their way the ratio is 1: nothing more is started"
    assert hpa_desired(2, 3, 150.0, 100.0) == 5, "a ratio that turns round changes nothing"


def test_pods_that_start_count_as_the_target_on_the_way_down() -> None:
    assert hpa_desired(2, 2, 50.0, 100.0) == 3


def test_an_external_metric_with_a_target_per_pod_is_divided_and_rounded_up() -> None:
    assert hpa_desired_of_total(1, 250.0, 100.0) == 3, "keda.sh http-add-on: ceil(250 / 100) = 3"
    assert hpa_desired_of_total(3, 320.0, 100.0) == 3, "within the tolerance"


def test_requests_per_second_over_a_threshold_are_the_replicas_of_kedas_own_example() -> None:
    """keda.sh scalers/prometheus: sum(rate(http_requests_total[2m])), threshold 100; External, AverageValue."""
    service = small_service(tick_s=15.0)
    law = HpaRate(service, target_ratio=100.0 / service.planned_per_s)
    assert law.target_per_s == pytest.approx(100.0)
    path = [law.decide(seen_at(15.0 * tick, 2, rate_per_s=550.0)) for tick in range(3)]
    assert path == [6, 6, 6], "ceil(550 / 100), at once: four more or twice as many in 15 s"
    assert law.decide(seen_at(45.0, 6, rate_per_s=600.0)) == 6, "562.5 on average, within a tenth of 6 x 100"
    later = [law.decide(seen_at(60.0 + 15.0 * tick, 6, rate_per_s=150.0)) for tick in range(40)]
    assert later[0] == 6, "the highest of 300 s holds"
    assert later[-1] == 2
    assert law.decide(seen_at(660.0, 2, rate_per_s=0.0)) >= 1


def test_scaling_down_takes_the_highest_recommendation_of_the_window() -> None:
    steady = Stabilised(Behaviour(down_window_s=10 * MINUTE_S, down=(RatePolicy("pods", 5, MINUTE_S),)))
    replicas = 10
    for minute, said in enumerate([10, 9, 8, 9, 9, 8, 9, 8, 9, 8]):
        replicas = steady.next(minute * MINUTE_S, replicas, said)
        assert replicas == 10
    assert steady.next(10 * MINUTE_S, replicas, 7) == 9


def test_scaling_up_takes_the_lowest_recommendation_of_its_window() -> None:
    steady = Stabilised(Behaviour(up_window_s=6 * MINUTE_S, up=(RatePolicy("pods", 20, MINUTE_S),)))
    replicas = 2
    for minute, said in enumerate([2, 3, 19, 10, 3, 4]):
        replicas = steady.next(minute * MINUTE_S, replicas, said)
        assert replicas == 2
    assert steady.next(6 * MINUTE_S, replicas, 7) == 3


def test_80_replicas_on_their_way_to_10_lose_8_then_8_then_4_at_a_time_from_40_on() -> None:
    policies = (RatePolicy("pods", 4, MINUTE_S), RatePolicy("percent", 10, MINUTE_S))
    steady = Stabilised(Behaviour(down_window_s=0.0, down=policies))
    replicas, steps = 80, []
    for minute in range(12):
        after = steady.next(minute * MINUTE_S, replicas, 10)
        steps.append(replicas - after)
        replicas = after
    assert steps[:2] == [8, 8], "10 % of 72 is 7.2 and is rounded up"
    assert replicas <= 40
    assert steps[-2:] == [4, 4]


def test_by_default_the_larger_of_a_doubling_and_four_pods_may_start_in_15_s() -> None:
    steady, replicas, path = Stabilised(Behaviour()), 1, []
    for tick in range(5):
        replicas = steady.next(15.0 * tick, replicas, 100)
        path.append(replicas)
    assert path == [5, 10, 20, 40, 80]


def test_900_percent_a_minute_is_1_10_100_1000() -> None:
    steady, replicas, path = Stabilised(Behaviour(up=(RatePolicy("percent", 900, MINUTE_S),))), 1, []
    for minute in range(3):
        replicas = steady.next(minute * MINUTE_S, replicas, 5000)
        path.append(replicas)
    assert path == [10, 100, 1000]


def test_one_pod_in_five_minutes_counts_what_was_added_within_them() -> None:
    steady = Stabilised(Behaviour(up=(RatePolicy("pods", 1, 5 * MINUTE_S),)))
    replicas = 1
    path = [replicas := steady.next(minute * MINUTE_S, replicas, 9) for minute in range(11)]
    assert path == [2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4]


def test_by_default_all_may_stop_at_once_after_five_minutes() -> None:
    steady = Stabilised(Behaviour())
    assert steady.next(0.0, 9, 9) == 9
    assert [steady.next(15.0 * tick, 9, 1) for tick in range(1, 20)] == [9] * 19
    assert steady.next(300.0, 9, 1) == 1


def test_a_rolling_extreme_forgets_what_is_as_old_as_its_window() -> None:
    highest = RollingExtreme(30.0, 1.0)
    assert [highest.add(15.0 * tick, value) for tick, value in enumerate([5, 3, 2, 4, 1, 1])] == [5, 5, 3, 4, 4, 1]


def test_hpa_holds_as_many_in_flight_per_replica_as_its_target() -> None:
    service = small_service()
    law = Hpa(service, target_ratio=0.8)
    assert law.target == pytest.approx(0.8 * service.planned_batch)
    assert law.decide(seen_at(15.0, 2, batch=2 * law.target)) == 4
    assert Hpa(service).decide(seen_at(15.0, 2, batch=0.0)) == 2, "what it found counts for five minutes"


def test_keda_takes_the_larger_of_its_triggers() -> None:
    law = Keda(small_service(), waiting=5.0, kv_ratio=0.6)
    assert law.decide(seen_at(15.0, 2, queue=24.0, kv_ratio=0.3)) == 5
    law = Keda(small_service(), waiting=30.0, kv_ratio=0.6)
    assert law.decide(seen_at(15.0, 4, queue=24.0, kv_ratio=0.9)) == 6


def test_keda_goes_to_none_after_the_cool_down_and_back_when_a_request_waits() -> None:
    law = Keda(small_service(), cooldown_s=300.0, min_replicas=0)
    assert law.decide(seen_at(0.0, 1, rate_per_s=1.0)) == 1
    assert [law.decide(seen_at(float(s), 1)) for s in (15, 150, 285)] == [1, 1, 1]
    assert law.decide(seen_at(300.0, 1)) == 0
    assert law.decide(seen_at(315.0, 0)) == 0
    assert law.decide(seen_at(330.0, 0, queue=1.0)) == 1


def test_kedas_cool_down_is_of_the_last_replica_alone() -> None:
    law = Keda(small_service(), cooldown_s=300.0, min_replicas=1)
    assert [law.decide(seen_at(15.0 * tick, 3)) for tick in range(40)][-1] == 1


@pytest.mark.parametrize(
    ("ready", "kv", "queue", "wanted"),
    [
        (2, 0.65, 0, 2),
        (2, 0.71, 0, 3),
        (2, 0.10, 2.5, 3),
        (2, 0.85, 0, 3),
        (2, 0.10, 6, 3),
        (2, 0.34, 0, 1),
        (2, 0.36, 0, 2),
        (4, 0.52, 1.4, 3),
        (4, 0.52, 1.6, 4),
        (1, 0.00, 0, 1),
    ],
)
def test_wva_steps_by_the_spare_room_of_replicas_that_are_not_saturated(
    ready: int, kv: float, queue: float, wanted: int
) -> None:
    assert Wva(small_service()).decide(seen_at(60.0, ready, kv_ratio=kv, waiting=queue)) == wanted


def test_wva_adds_none_while_one_starts_and_looks_at_the_peak_of_the_last_minute() -> None:
    assert Wva(small_service()).decide(seen_at(60.0, 2, kv_ratio=0.9, starting=1)) == 3
    law = Wva(small_service())
    assert law.decide(seen_at(0.0, 2, kv_ratio=0.5)) == 2
    path = [law.decide(seen_at(15.0 * tick, 2, kv_ratio=kv)) for tick, kv in enumerate((0.9, 0.5, 0.5, 0.5), 1)]
    assert path == [2, 2, 2, 3]


def test_skyserve_divides_the_rate_by_its_target_once_the_delay_is_over() -> None:
    service = small_service()
    law = SkyServe(service, target_ratio=2.5 / service.planned_per_s)
    assert law.target_qps == pytest.approx(2.5)
    path = [law.decide(seen_at(15.0 * tick, 2, rate_per_s=10.0)) for tick in range(40)]
    changed = path.index(4)
    assert set(path[:changed]) == {2}
    assert 270.0 <= 15.0 * changed <= 300.0, "15 decisions of 20 s in a row"
    assert set(path[changed:]) == {4}


def test_skyserve_shrinks_after_twenty_minutes_and_one_busy_decision_starts_the_count_again() -> None:
    service = small_service()
    law = SkyServe(service, 2.5 / service.planned_per_s)
    rates = [5.0] * 4 + [1.0] * 60 + [5.0] * 8 + [1.0] * 100
    path = [law.decide(seen_at(15.0 * tick, 2, rate_per_s=rate)) for tick, rate in enumerate(rates)]
    assert path.index(1) * 15.0 >= 72 * 15.0 + 1180.0


def test_skyserve_starts_from_none_as_soon_as_requests_come() -> None:
    law = SkyServe(small_service(), min_replicas=0)
    assert law.decide(seen_at(15.0, 0)) == 0
    assert law.decide(seen_at(30.0, 0)) == 0
    assert law.decide(seen_at(45.0, 0, rate_per_s=1.0)) == 1


def test_the_seeds_alert_adds_one_after_ten_minutes_above_ninety_percent_up_to_five() -> None:
    law = Utilisation(small_service())
    path = [law.decide(seen_at(15.0 * tick, 2, busy_ratio=0.95)) for tick in range(1, 41)]
    assert path == [2] * 39 + [3]
    law = Utilisation(small_service())
    dip = [0.95] * 39 + [0.90] + [0.95] * 39
    assert {law.decide(seen_at(15.0 * tick, 2, busy_ratio=busy)) for tick, busy in enumerate(dip, 1)} == {2}
    law = Utilisation(small_service())
    assert [law.decide(seen_at(15.0 * tick, 5, busy_ratio=1.0)) for tick in range(1, 60)][-1] == 5


def test_the_seeds_queue_depth_stays_between_one_and_five() -> None:
    law = QueueDepth(small_service())
    assert law.decide(seen_at(15.0, 1, queue=25.0)) == 3
    assert law.decide(seen_at(30.0, 1, queue=900.0)) == 5
    quiet = QueueDepth(small_service())
    assert [quiet.decide(seen_at(15.0 * tick, 1)) for tick in range(60)][-1] == 1


@pytest.mark.parametrize(
    ("hour", "replicas"), [(0, 0), (5.9, 0), (6, 2), (12, 2), (21.9, 2), (22, 0), (30, 2), (46, 0)]
)
def test_the_seeds_schedule_has_two_from_six_and_none_from_ten_at_night(hour: float, replicas: int) -> None:
    assert Schedule().decide(seen_at(hour * HOUR, 2)) == replicas
