"""Windows of a week: what they are learnt from, when they are begun, and what KEDA makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.simulate.scaled_services import seen_at, small_service

from gpufleet.simulate.keda_policies import CronWindows, KedaRate
from gpufleet.simulate.week_of_windows import Learnt, WeekOfWindows
from gpufleet.units import DAY, HOUR

TICK_S, PER_DAY = 300.0, 288
THURSDAY_S = 20_000 * 7 * DAY


def days(rates: list[float], noon: float = 0.0) -> np.ndarray:
    """Requests of each tick of days of so many requests/s, more from 10:00 to 14:00."""
    hours = np.arange(PER_DAY) / 12
    return np.concatenate([TICK_S * (rate + noon * ((hours >= 10) & (hours < 14))) for rate in rates])


def learnt(rates: list[float], noon: float = 0.0, start_s: float = 0.0) -> Learnt:
    return Learnt.of(days(rates, noon), TICK_S, start_s)


def test_each_hour_has_the_machines_of_its_rate_and_they_are_started_a_cold_start_before() -> None:
    """8 requests/s a machine: 1 for 8, 3 for 24, from 09:56 on where a start takes four minutes."""
    week = learnt([8.0] * 3, 16.0).week(small_service(230.0), 1.0, 7.0, 0.0)
    assert week.machines[2, 9:15].tolist() == [1, 3, 3, 3, 3, 1]
    assert [week.at(10 * HOUR - early) for early in (241, 240, 15)] == [1, 3, 3]
    assert [week.at(14 * HOUR + late) for late in (-15, 0)] == [3, 1]
    assert [(w.days, w.start_s, w.end_s, w.machines) for w in week.windows()] == [
        (tuple(range(7)), 10 * HOUR, 12 * HOUR, 3),
        (tuple(range(7)), 12 * HOUR, 14 * HOUR, 3),
    ]


def test_days_of_the_week_are_told_apart_from_a_week_on() -> None:
    quiet = [24.0] * 5 + [8.0] * 2
    service = small_service(60.0)
    for kinds, expected in ((1.0, [3] * 7), (2.0, [3] * 5 + [1] * 2), (7.0, [3] * 5 + [1] * 2)):
        assert learnt(quiet).week(service, 1.0, kinds, 0.0).machines[:, 12].tolist() == expected
    assert learnt(quiet[2:]).week(service, 1.0, 7.0, 0.0).machines[:, 12].tolist() == [3] * 7


def test_a_dated_trace_has_its_own_days_of_the_week() -> None:
    """1970-01-01 and every seventh day after it is a Thursday: its third day is a Saturday."""
    found = learnt([24.0, 24.0, 8.0, 8.0, 24.0, 24.0, 24.0], start_s=THURSDAY_S)
    assert found.is_dated
    assert found.week(small_service(60.0), 1.0, 7.0, 0.0).machines[:, 12].tolist() == [3] * 5 + [1] * 2


def test_a_day_that_is_held_out_teaches_nothing_of_itself() -> None:
    """One busy Wednesday: held out, it is as other working days are; one of those is as busy as the busiest of them."""
    rates = [8.0, 8.0, 40.0, 8.0, 8.0, 8.0, 8.0]
    held = learnt(rates).held_out(small_service(60.0), 1.0, 7.0, 0.0)
    noon = 12 * HOUR
    assert [held.at(day * DAY + noon) for day in range(7)] == [5, 5, 1, 5, 5, 1, 1]
    assert held.at(9 * DAY + noon) == 5
    assert [held.whole.at(day * DAY + noon) for day in range(7)] == [1, 1, 5, 1, 1, 1, 1]


@pytest.mark.parametrize("machines", [[1] * 24, [1] * 8 + [4] * 16, list(range(1, 25))])
def test_windows_end_before_they_begin_again(machines: list[int]) -> None:
    week = WeekOfWindows(np.array([machines] * 7), 6 * HOUR, is_dated=False)
    for window in week.windows():
        assert window.end_s - window.start_s + week.lead_s < DAY
    for hour, number in enumerate(machines):
        held = [w.machines for w in week.windows() if w.start_s <= hour * HOUR < w.end_s]
        assert max([week.least, *held]) == number


def test_windows_move_machines_but_for_what_a_tenth_allows() -> None:
    """KEDA's cron trigger is a metric with a target of one: an autoscaler leaves alone what is within a tenth."""
    week = WeekOfWindows(np.array([[20] * 12 + [21] * 6 + [30] * 6] * 7), 0.0, is_dated=False)
    law = CronWindows(week)
    assert [law.decide(seen_at(hour * HOUR, 20)) for hour in (11, 13, 19)] == [20, 20, 30]


def test_who_waits_is_counted_as_if_he_came_within_the_drain() -> None:
    """8 requests/s and 120 who wait, within 15 s: 16/s, two machines at a target of all that the plan allows."""
    service = small_service(60.0)
    law = KedaRate(service, target_ratio=1.0, drain_s=15.0)
    assert law.decide(seen_at(15.0, 1, rate_per_s=8.0)) == 1
    assert law.decide(seen_at(30.0, 1, rate_per_s=8.0, queue=120)) == 2
    assert law.decide(seen_at(45.0, 2, rate_per_s=8.0, queue=0)) == 2


def test_the_most_of_windows_and_rate_counts() -> None:
    week = WeekOfWindows(np.array([[1] * 12 + [4] * 12] * 7), 0.0, is_dated=False)
    law = KedaRate(small_service(60.0), 1.0, 60.0, 0.0, windows=week)
    assert [law.decide(seen_at(hour * HOUR, 2, rate_per_s=rate)) for hour, rate in ((6, 8.0), (13, 8.0))] == [1, 4]
    assert law.decide(seen_at(14 * HOUR, 4, rate_per_s=300.0)) == 8
