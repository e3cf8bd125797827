"""Ends that a job on spot may aim at, which of them it takes, and what its markets are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.domain.spot import AgedHazards, HazardCounts
from gpufleet.optimize import drawn_markets
from gpufleet.optimize.drawn_markets import DRAWS, DrawnMarkets, GangWork, by_draw, joined, one_tick_of
from gpufleet.optimize.spot import AGES_S, SpotQuestion, usual_interval_s
from gpufleet.optimize.spot_plays import PlannedJob, SpotPlay, SpotPlays
from gpufleet.units import DAY, HOUR

TICK_S = 600.0
NEVER_LATE_S = 1e9


class Fit:
    """A fit that says how long its ticks are: what it draws is told apart."""

    tick_s = TICK_S


def sold(kind: PriceKind, usd: float, region: str = "here", instance: str = "8xH100", cloud: str = "a-cloud") -> Offer:
    return Offer(cloud, region, instance, kind, usd, PriceBasis.LIST, "a source", date(2025, 1, 1))


SPOT = sold(PriceKind.SPOT, 10.0)
JOB = PlannedJob(SPOT, 2, Spread(10 * HOUR, 10 * HOUR, 10 * HOUR), startup_s=0.0)


def plays(*steady: Offer, deadline_s: float = NEVER_LATE_S, zones: int = 1, start: Spread | None = None) -> SpotPlays:
    fit: Any = Fit()
    ratio = start or Spread(1.0, 1.0, 1.0)
    markets = DrawnMarkets(fit, ratio, lambda _: [], zones, lambda: np.random.default_rng(0))
    return SpotPlays(markets, deadline_s, lambda: steady)


def question_of(asked: SpotPlays, job: PlannedJob, deadline_s: float) -> SpotQuestion:
    """The work of a job on the markets of plays."""
    work = GangWork(job.machines, job.work_s, job.startup_s, job.write_s, job.checkpoint_every_s)
    return asked.markets.question(work, deadline_s)


def with_nodes(monkeypatch: pytest.MonkeyPatch, nodes: np.ndarray) -> list[int]:
    """Zones that have the same machines in every draw, [zone, tick], and again after that; the lengths asked for."""
    lengths: list[int] = []

    def drawn(*told: Any) -> np.ndarray:
        lengths.append(told[4])
        again = np.tile(nodes, (1, -(-told[4] // nodes.shape[1])))[:, : told[4]]
        return np.broadcast_to(again, (told[3], *again.shape))

    monkeypatch.setattr(drawn_markets, "drawn_nodes", drawn)
    return lengths


def came_to(usd: float, late_ratio: float = 0.0) -> SpotPlay:
    return SpotPlay(np.array([usd]), np.ones(1), np.ones(1), 0.0, 0.0, late_ratio, 1)


def aims_h(job: PlannedJob = JOB, **how: Any) -> list[float]:
    return [aim_s / HOUR for aim_s in plays(**how).aims_s(job)]


def test_aims_lie_a_fifth_apart_up_to_four_times_the_work_then_twice_as_far_up_to_a_week_after_it() -> None:
    fifths = [10 * 1.2**k for k in range(9)]
    assert fifths[-2] < 40 < fifths[-1]
    assert aims_h()[::-1] == pytest.approx([*fifths, 2 * fifths[-1], 4 * fifths[-1], 8 * fifths[-1]])
    assert 4 * fifths[-1] < 178 < 8 * fifths[-1], "ten hours and a week, the first beyond it being the last"


def test_of_a_long_job_four_times_the_work_is_more_than_a_week_after_it() -> None:
    long = replace(JOB, work_s=Spread(0.0, 500 * HOUR, 1000 * HOUR))
    last_h = aims_h(long)[0]
    assert last_h / 2 < 4 * 1000 <= last_h


def test_the_first_aim_leaves_time_for_the_work_and_a_start_with_its_checkpoint() -> None:
    job = replace(JOB, startup_s=HOUR, write_s=HOUR / 2)
    assert aims_h(job, start=Spread(1.0, 2.0, 9.0))[-1] == pytest.approx(10 + 2 * 1.5)


@pytest.mark.parametrize(("deadline_h", "aims"), [(12.0, [12.0, 10.0]), (11.9, [10.0]), (10.0, [10.0]), (5.0, [10.0])])
def test_aims_beyond_the_deadline_are_left_out_and_the_soonest_where_none_is_left(
    deadline_h: float, aims: list[float]
) -> None:
    assert aims_h(deadline_s=deadline_h * HOUR) == pytest.approx(aims)


@pytest.mark.parametrize(
    ("usd", "late", "taken", "tried"),
    [
        ([3.0, 2.0, 2.2], [0, 0, 0], 1, 3),
        ([2.0, 2.2, 1.0], [0, 0, 0], 2, 3),
        ([2.0, 2.4, 1.0], [0, 0, 0], 0, 2),
        ([2.0, 2.3, 1.0], [0, 0, 0], 2, 3),
        ([2.0, 2.2, 2.0], [0.26, 0, 0], 2, 3),
        ([2.0, 2.2, 3.0], [0.25, 0, 0], 0, 3),
    ],
    ids=["the cheapest", "a little dearer in between", "much dearer", "so much", "none late", "as late as may be"],
)
def test_a_job_takes_the_cheapest_aim_that_is_in_time_and_stops_at_one_that_is_much_dearer(
    monkeypatch: pytest.MonkeyPatch, usd: Sequence[float], late: Sequence[float], taken: int, tried: int
) -> None:
    found = [came_to(*each) for each in zip(usd, late, strict=True)]
    monkeypatch.setattr(SpotPlays, "aims_s", lambda *_: [0, 1, 2])
    aims: list[int] = []
    monkeypatch.setattr(SpotPlays, "aimed", lambda _, job, steady, aim: aims.append(aim) or found[aim])
    assert plays(sold(PriceKind.ON_DEMAND, 20.0)).play(JOB, 0.75) is found[taken]
    assert aims == list(range(tried))


@pytest.mark.parametrize(("confidence", "end_s"), [(0.5, 2.0), (0.51, 3.0), (0.75, 3.0), (1.0, 4.0)])
def test_so_large_a_share_of_draws_has_ended(confidence: float, end_s: float) -> None:
    ends = replace(came_to(1.0), elapsed_s=np.array([4.0, 1.0, 3.0, 2.0]))
    assert ends.end_s(confidence) == end_s


def test_what_stands_in_is_of_the_same_region_or_else_the_cheapest_of_its_kind() -> None:
    on_demand = PriceKind.ON_DEMAND
    own, cheap = sold(on_demand, 30.0), sold(on_demand, 20.0, "there")
    others = [
        sold(on_demand, 25.0, "elsewhere"), sold(on_demand, 1.0, instance="1xH100"),
        sold(on_demand, 1.0, cloud="b-cloud"), sold(PriceKind.COMMIT_1Y, 1.0),
    ]  # fmt: skip
    assert plays(own, cheap, *others).beside(SPOT) is own
    assert plays(cheap, *others).beside(SPOT) is cheap
    assert plays(*others[1:]).beside(SPOT) is None
    assert plays(*others[1:]).play(JOB, 0.95) is None


def test_a_dated_price_stands_before_a_lower_one_of_unknown_day() -> None:
    dated = sold(PriceKind.ON_DEMAND, 30.0)
    undated = replace(dated, price_per_instance_usd_per_hour=20.0, first_seen=date(2024, 1, 1))
    assert plays(dated, undated).beside(SPOT) is dated
    assert plays(undated).beside(SPOT) is undated


def test_jobs_of_about_one_length_see_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths, asked = with_nodes(monkeypatch, np.ones((1, 1))), plays()
    seen = [asked.markets.nodes(ticks).shape[2] for ticks in (1, 1024, 1025, 4096, 4097)]
    assert seen == [1024, 1024, 4096, 4096, 16384]
    assert lengths == [1024, 4096, 16384]


def test_the_least_is_all_the_work_and_a_start_at_the_lower_price() -> None:
    """Ten hours and half an hour of start on two machines at $10; with a checkpoint's time left aside."""
    job, dear, cheap = replace(JOB, startup_s=0.25 * HOUR), *(sold(PriceKind.ON_DEMAND, usd) for usd in (20.0, 4.0))
    twice = plays(start=Spread(2.0, 2.0, 2.0))
    assert twice.least_usd(job, dear) == pytest.approx(10.5 * 2 * 10)
    assert twice.least_usd(job, cheap) == pytest.approx(10.5 * 2 * 4)


def test_starts_are_spread_as_planned_ones_are() -> None:
    assert plays(start=Spread(0.5, 2.0, 8.0)).markets.restart_s(60.0) == Spread(30.0, 120.0, 480.0)


def test_a_checkpoint_is_written_as_often_as_said_or_as_the_time_up_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines stay nine ticks of ten; Young and Daly's interval is below that and below all of the work."""
    with_nodes(monkeypatch, np.array([[2] * 9 + [1]]))
    job = replace(JOB, startup_s=100.0, write_s=50.0)
    said = question_of(plays(), replace(job, checkpoint_every_s=1234.0), DAY)
    assert (said.checkpoint_interval_s, said.checkpoint_write_s, said.deadline_s) == (1234.0, 50.0, DAY)
    assert said.restart_s == Spread(150.0, 150.0, 150.0)
    assert said.work_s == job.work_s
    usual = question_of(plays(), job, DAY).checkpoint_interval_s
    assert usual == pytest.approx(usual_interval_s(50.0, 9 * TICK_S, 10 * HOUR), rel=0.01)
    with_nodes(monkeypatch, np.array([[1] * 9 + [0]]))
    at_most_a_day = usual_interval_s(50.0, DAY, 10 * HOUR)
    assert question_of(plays(), job, DAY).checkpoint_interval_s == at_most_a_day, "there are never two: nothing ends"


def test_a_market_has_machines_until_the_deadline_and_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zone 0 has two machines in every third tick, zone 1 has one at all times: of no use for two."""
    with_nodes(monkeypatch, np.array([[2, 0, 0], [1, 1, 1]]))
    asked = plays(zones=2)
    question = question_of(asked, JOB, 6.5 * TICK_S)
    draws = asked.markets.draws(question, 2, 7.0, 11.0)
    assert draws.first_tick.tolist() == [14 * draw for draw in range(DRAWS)]
    available = draws.market.is_available.reshape(2, DRAWS, 14)
    assert np.all(available == np.array([[1, 0, 0, 1, 0, 0, 1] + [0] * 7, [0] * 14], dtype=bool)[:, None, :])
    assert draws.market.spot_usd_per_hour.tolist() == [7.0, 7.0]
    assert (draws.market.on_demand_usd_per_hour, draws.market.tick_s) == (11.0, TICK_S)
    two = np.tile(np.array([[1, 0, 0, 1, 0, 0, 1], [0] * 7], dtype=bool), DRAWS)
    one = two | np.array([[False], [True]])
    expected = AgedHazards.of_counts(HazardCounts.of(two, TICK_S, AGES_S), one_tick_of(one, TICK_S))
    assert draws.hazards.lost_ratio == expected.lost_ratio
    assert draws.hazards.found_ratio == expected.found_ratio


@pytest.mark.parametrize(("deadline_ticks", "every", "ticks"), [(100, 1, 100), (250, 3, 84), (2000, 20, 100)])
def test_ticks_grow_with_the_deadline_so_that_a_hundred_lie_before_it(
    monkeypatch: pytest.MonkeyPatch, deadline_ticks: int, every: int, ticks: int
) -> None:
    with_nodes(monkeypatch, np.array([[1], [0]]))
    asked = plays(zones=2)
    draws = asked.markets.draws(question_of(asked, JOB, deadline_ticks * TICK_S), 1, 7.0, 11.0)
    assert draws.market.tick_s == every * TICK_S
    assert draws.first_tick[1] == 2 * ticks


def test_a_job_pays_spot_where_it_is_and_on_demand_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines, ten hours: at $10 each where there are always two, and at $20 where there never are."""
    steady = sold(PriceKind.ON_DEMAND, 20.0)
    for nodes, usd, on_demand_ratio in ((2, 200.0, 0.0), (1, 400.0, 1.0)):
        with_nodes(monkeypatch, np.array([[nodes], [0]]))
        found = plays(steady, deadline_s=DAY, zones=2).aimed(JOB, steady, DAY)
        assert found.mean_usd == pytest.approx(usd)
        assert found.on_demand_ratio == on_demand_ratio
        assert (found.losses, found.late_ratio, found.num_zones) == (0.0, 0.0, 2)
        assert found.machine_s == pytest.approx(10 * HOUR)
        assert plays(steady, deadline_s=9 * HOUR, zones=2).aimed(JOB, steady, DAY).late_ratio == 1.0


def test_draws_along_time_come_apart_again() -> None:
    nodes = np.random.default_rng(1).random((3, 2, 4)) < 0.5
    assert np.array_equal(by_draw(joined(nodes, 1), 3), nodes)


@pytest.mark.parametrize("ticks", [4, 12, 100])
def test_what_one_machine_says_of_several_is_worth_a_tick_at_most(ticks: int) -> None:
    """However often a change was seen, and where it was seen but once: what counts is its share of the ticks."""
    is_available = np.tile([True, False, False, True], (2, ticks // 4))
    counts, full = one_tick_of(is_available, TICK_S), HazardCounts.of(is_available, TICK_S, AGES_S)
    seen = full.ticks > 0
    assert np.all(counts.ticks == seen)
    assert counts.changes[seen] == pytest.approx(full.changes[seen] / full.ticks[seen])
    assert not counts.changes[~seen].any()
    assert (counts.tick_s, counts.edges_s) == (TICK_S, AGES_S)


@pytest.mark.parametrize("is_up", [True, False])
def test_zones_that_never_change_are_never_lost_nor_found(is_up: bool) -> None:
    """Nobody saw them in the other state: 0 of 0 ticks."""
    always = np.full((1, 400), is_up)
    hazards = AgedHazards.of_counts(HazardCounts.of(always, TICK_S, AGES_S), one_tick_of(always, TICK_S))
    assert (set(hazards.lost_ratio), set(hazards.found_ratio)) == ({0.0}, {0.0})
