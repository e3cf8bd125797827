"""A job on spot by hand: what checkpoints cost it, what the net counts on, and what its runs came to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import ON_DEMAND, ON_SPOT, WAITING, AgedHazards, DeadlineJob, SlackRules, SpotLog, SpotMarket
from gpufleet.optimize.slack_rules import (
    Grid,
    Shift,
    Tick,
    straight_rules,
    tick_of,
)
from gpufleet.optimize.spot import (
    LEAST_WORK_RATIO,
    SpotDraws,
    SpotQuestion,
    drawn,
    drawn_luck,
    late_ratio,
    most_usd_per_hour,
    played_alone,
    usual_interval_s,
)
from gpufleet.optimize.spot_audit import should_have_run
from gpufleet.simulate.spot_jobs import Luck, SpotRuns
from gpufleet.units import HOUR

QUESTION = SpotQuestion(Spread(9 * HOUR, 10 * HOUR, 13 * HOUR), Spread(100.0, 200.0, 600.0), 20 * HOUR, 60.0, 540.0)
TICK_S = 600.0
STEADY = AgedHazards(TICK_S, (), (0.0,), (0.0,))


def runs(**told: list[float]) -> SpotRuns:
    columns = {name: np.zeros(2) for name in SpotRuns.__dataclass_fields__}
    return SpotRuns(**{**columns, **{name: np.array(values) for name, values in told.items()}})  # type: ignore[arg-type]


def test_checkpoints_stretch_the_work_and_bound_what_is_lost() -> None:
    """A minute of writing after each nine of work."""
    assert QUESTION.expected == DeadlineJob(10 * HOUR * 10 / 9, 20 * HOUR, 200.0, 600.0)
    short = replace(QUESTION, work_s=Spread(0.0, 90.0, 90.0))
    assert short.expected.loss_s == pytest.approx(100.0), "never more than all there is"
    unwritten = replace(QUESTION, checkpoint_write_s=0.0, checkpoint_interval_s=0.0)
    assert unwritten.stretch == 1.0
    assert QUESTION.alone == DeadlineJob(10 * HOUR, 20 * HOUR, 200.0)


def test_the_net_counts_on_work_at_its_high_end_and_a_start_twice_as_far_out_as_its() -> None:
    worst = replace(QUESTION, reserve_s=50.0).worst
    assert worst == DeadlineJob(13 * HOUR * 10 / 9, 20 * HOUR, 200.0 + 2 * 400.0 + 50.0, 600.0)


def test_spot_needs_time_for_the_work_the_slowest_start_and_a_tick() -> None:
    needed_s = 10 * HOUR * 10 / 9 + 1000.0 + 600.0
    assert replace(QUESTION, deadline_s=needed_s).leaves_time_for_spot(600.0)
    assert not replace(QUESTION, deadline_s=needed_s - 1).leaves_time_for_spot(600.0)


def test_checkpoints_lie_as_far_apart_as_young_says_and_no_farther_than_the_work() -> None:
    """sqrt(2 x 50 s x 10,000 s), of which writing is small."""
    assert usual_interval_s(50.0, 10_000.0, 1e9) == pytest.approx(1000.0, rel=0.1)
    assert usual_interval_s(50.0, 10_000.0, 300.0) == 300.0
    assert usual_interval_s(50.0, math.inf, 1e9) == 1e9


def test_one_draw_in_ten_lies_beyond_each_end_and_half_below_what_is_expected() -> None:
    found = drawn(np.random.default_rng(0), Spread(1.0, 2.0, 5.0), 40_000)
    assert [np.mean(found < end) for end in (1.0, 2.0, 5.0)] == pytest.approx([0.1, 0.5, 0.9], abs=0.01)


def test_luck_has_work_with_its_checkpoints_starts_and_a_refusal_each_and_none_below_nothing() -> None:
    wild = replace(QUESTION, work_s=Spread(0.0, HOUR, 9 * HOUR), restart_s=Spread(0.0, 10.0, 900.0))
    luck = drawn_luck(np.random.default_rng(0), wild, 1000, refused_s=7.0)
    assert luck.work_s.min() == pytest.approx(LEAST_WORK_RATIO * HOUR * 10 / 9)
    assert luck.restart_s.min() == 0.0
    assert set(luck.refused_s) == {7.0}
    again = drawn(np.random.default_rng(0), wild.work_s, 1000)
    assert luck.work_s.max() == pytest.approx(again.max() * 10 / 9)


def test_on_demand_alone_writes_no_checkpoints_and_pays_for_one_start() -> None:
    market = SpotMarket(np.ones((1, 300), dtype=bool), TICK_S, np.array([1.0]), 3.0)
    draws = SpotDraws(market, np.array([0, 100]), Luck.none(QUESTION.expected, 2), STEADY)
    ran = played_alone(QUESTION, draws)
    assert ran.elapsed_s == pytest.approx([10 * HOUR + 200.0] * 2)
    assert ran.cost_usd == pytest.approx([3 * (10 + 200 / 3600)] * 2)


def test_spot_pays_up_to_the_price_at_which_the_same_runs_cost_what_on_demand_does() -> None:
    """Of $30 a mean of 2 h at $3 on demand leave $24 for a mean of 8 h on spot."""
    ran = runs(spot_s=[6 * HOUR, 10 * HOUR], on_demand_s=[4 * HOUR, 0.0])
    assert most_usd_per_hour(ran, 30.0, 3.0) == pytest.approx(3.0)
    assert most_usd_per_hour(runs(on_demand_s=[HOUR, HOUR]), 30.0, 3.0) == 0.0
    assert most_usd_per_hour(runs(spot_s=[1.0, 0.0]), 1.0, 3.0) == pytest.approx(2 * HOUR)


def test_late_is_after_the_deadline_but_for_rounding() -> None:
    assert late_ratio(runs(elapsed_s=[100.0, 100.0 + 1e-8]), 100.0) == 0.0
    assert late_ratio(runs(elapsed_s=[100.0, 100.0 + 1e-5]), 100.0) == 0.5


# --- what a log is held against ---


def test_a_log_is_told_by_the_slack_that_was_left_and_what_ran_before() -> None:
    """On demand below an hour of slack; a machine that was lost counts as none."""
    rules = SlackRules(STEADY, np.array([0.0, 100 * HOUR]), np.full((3, 2, 2), HOUR))
    worst = DeadlineJob(5 * HOUR, 10 * HOUR, 60.0, 600.0)
    log = SpotLog(
        elapsed_s=np.array([0.0, 600.0, 1200.0, 8 * HOUR]),
        work_s=np.array([5.0, 5.0, 9.0, 1.5]) * HOUR,
        starting_s=np.zeros(4),
        is_available=np.array([True, False, True, True]),
        ran=np.array([ON_SPOT, WAITING, ON_DEMAND, ON_SPOT]),
    )
    assert should_have_run(rules, worst, TICK_S, log).tolist() == [ON_SPOT, WAITING, ON_DEMAND, ON_DEMAND]


# --- the programme's parts ---


def test_costs_are_read_between_two_steps_and_no_further_than_the_last() -> None:
    cost = np.array([[0.0, 10.0, 30.0, 60.0]])
    assert Shift.by(0.25, 4).of(cost, 4).tolist() == [[2.5, 15.0, 37.5, 60.0]]
    assert Shift.by(-1.5, 4).of(cost, 4)[0, 2:].tolist() == [5.0, 20.0]
    assert Shift.by(-2.0, 4).of(cost, 4).tolist() == [[0.0, 0.0, 0.0, 10.0]]
    assert Shift.by(1.0, 4).of(cost, 2).tolist() == [[10.0, 30.0]]


def test_a_tick_is_paid_up_to_its_end_or_that_of_the_work() -> None:
    tick: Tick = tick_of(np.array([0.0, 300.0, 900.0]), 400.0, np.zeros(3), 600.0, 300.0)
    assert tick.total_s.tolist() == [400.0, 700.0, 1300.0]
    assert (tick.paid_h * HOUR).tolist() == [400.0, 600.0, 600.0]


def test_work_left_stands_in_quarters_of_a_tick_with_room_for_starts_and_losses() -> None:
    """An hour, twice a start of 300 s and a loss of 150, and a tick; half of a loss is expected."""
    grid = Grid.of(DeadlineJob(HOUR, 4 * HOUR, 300.0, 150.0), slowest_restart_s=400.0, tick_s=TICK_S)
    assert (grid.step_s, grid.work_s[-1]) == (150.0, 34 * 150.0)
    assert np.array_equal(grid.begun.total_s, grid.work_s + 300)
    assert np.array_equal(grid.going.total_s, grid.work_s)
    assert np.array_equal(grid.begun.free_s, grid.work_s + 400 + TICK_S)
    assert np.array_equal(grid.going.free_s, grid.work_s + 150 + 400 + TICK_S)
    assert (grid.lost.share, grid.lost.low[:2].tolist()) == (0.5, [0, 1])
    assert (grid.begun.after.low[:4].tolist(), grid.going.after.low[:6].tolist()) == ([0, 0, 0, 1], [0, 0, 0, 0, 0, 1])


def test_straight_thresholds_go_from_no_time_left_to_all_of_it() -> None:
    rules = straight_rules(DeadlineJob(HOUR, 4 * HOUR, 0.0), TICK_S, np.broadcast_to([0.0, 2 * HOUR], (3, 2, 2)))
    one = np.array([ON_SPOT])
    assert [float(rules.threshold_s(one, one * 0, h * HOUR)[0]) for h in (0, 1, 4)] == [0.0, HOUR / 2, 2 * HOUR]
