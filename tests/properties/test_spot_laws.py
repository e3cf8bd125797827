"""Jobs with a deadline on spot: never late, paid as an independent play says, and never cheaper than foresight."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.spot_checker import Recorded, least_usd, market_of, played_again

from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import AgedHazards, DeadlineJob, HazardCounts, SlackRules, SpotMarket
from gpufleet.optimize.slack_rules import greedy_rules, on_demand_rules, slack_rules, uniform_rules
from gpufleet.optimize.spot import (
    AGES_S,
    GREEDY,
    OURS,
    UNIFORM,
    UNIFORM_BACK,
    MovingMarket,
    SpotDraws,
    SpotQuestion,
    every_rules,
    hazards_of,
    late_ratio,
    played,
)
from gpufleet.optimize.spot import rules_of as optimised
from gpufleet.optimize.spot_optimum import spot_optimum
from gpufleet.optimize.spot_policies import AlwaysOnDemand, BySlack, Greedy, NeverLate, UniformProgress
from gpufleet.simulate.spot_availability import drawn_zones
from gpufleet.simulate.spot_jobs import Luck, SpotPolicy, replay_jobs
from gpufleet.simulate.spot_markets import drawn_availability
from gpufleet.units import HOUR

TICK_S = 600.0
HAZARDS = AgedHazards(TICK_S, (600.0, 3600.0), (0.25, 0.1, 0.03), (0.4, 0.2, 0.07))
HERE = np.array([0])
runs = st.lists(st.integers(1, 30), min_size=12, max_size=40)
jobs = st.builds(
    DeadlineJob,
    work_s=st.sampled_from([2 * HOUR, 5.3 * HOUR]),
    deadline_s=st.sampled_from([7 * HOUR, 9.5 * HOUR]),
    restart_s=st.sampled_from([0.0, 72.0, 720.0, 1500.0]),
    loss_s=st.sampled_from([0.0, 600.0, 1800.0]),
)


@cache
def rules_of(job: DeadlineJob) -> SlackRules:
    return slack_rules(job, HAZARDS, 1.0, 3.0)


def policies(job: DeadlineJob) -> list[SpotPolicy]:
    rules = BySlack(rules_of(job))
    return [AlwaysOnDemand(), Greedy(), UniformProgress(), UniformProgress(waits_ahead=False), rules]


def long_enough(market: SpotMarket, job: DeadlineJob) -> SpotMarket:
    """The same market, without a machine after what is known of it."""
    missing = max(int(job.deadline_s / TICK_S) + 1 - market.ticks, 0)
    return replace(market, is_available=np.pad(market.is_available, ((0, 0), (0, missing))))


def several_places(job: DeadlineJob, pieces: list[list[int]], last_usd: float) -> SpotMarket:
    """Places as long as the longest of them, all at $1 an hour but for the last."""
    alone = [long_enough(market_of(each), job).is_available for each in pieces]
    ticks = max(each.shape[1] for each in alone)
    has_one = np.concatenate([np.pad(each, ((0, 0), (0, ticks - each.shape[1]))) for each in alone])
    return SpotMarket(has_one, TICK_S, np.array([1.0] * (len(pieces) - 1) + [last_usd]), 3.0)


usd = st.floats(0.0, 1e6)


@given(st.lists(usd, min_size=5, max_size=5), st.floats(0.0, 1.0))
def test_a_stated_range_contains_that_of_its_draws_and_stays_possible(values: list[float], moved_ratio: float) -> None:
    least, low, mean, high, most = sorted(values)
    far_low, far_high = MovingMarket(least, most, moved_ratio).ends(mean, low, high)
    assert least <= far_low <= low <= high <= far_high <= most
    assert MovingMarket(least, most, 0.0).ends(mean, low, high) == pytest.approx((low, high), abs=1e-9 * most)
    assert MovingMarket(mean, mean, moved_ratio).ends(mean, low, high) == (low, high)


@given(jobs, runs)
def test_no_policy_above_the_safety_net_is_ever_late(job: DeadlineJob, pieces: list[int]) -> None:
    market = long_enough(market_of(pieces), job)
    for policy in policies(job):
        ran = replay_jobs(job, market, HERE, NeverLate(policy, job, TICK_S))
        assert float(ran.elapsed_s[0]) <= job.deadline_s + 1e-6


@given(jobs, runs)
def test_an_independent_play_of_the_decisions_pays_and_ends_the_same(job: DeadlineJob, pieces: list[int]) -> None:
    market = long_enough(market_of(pieces), job)
    for policy in policies(job):
        recorded = Recorded(NeverLate(policy, job, TICK_S))
        ran = replay_jobs(job, market, HERE, recorded)
        usd, elapsed_s, lost = played_again(job, market, 0, [int(d[0]) for d in recorded.decisions])
        assert float(ran.cost_usd[0]) == pytest.approx(usd, rel=1e-9)
        assert float(ran.elapsed_s[0]) == pytest.approx(elapsed_s)
        assert int(ran.losses[0]) == lost


@given(jobs, st.lists(runs, min_size=2, max_size=4), st.sampled_from([1.0, 0.8]))
def test_an_independent_play_over_several_places_pays_and_ends_the_same(
    job: DeadlineJob, pieces: list[list[int]], last_usd: float
) -> None:
    market = several_places(job, pieces, last_usd)
    for policy in policies(job):
        recorded = Recorded(NeverLate(policy, job, TICK_S))
        ran = replay_jobs(job, market, HERE, recorded)
        usd, elapsed_s, lost = played_again(job, market, 0, [int(d[0]) for d in recorded.decisions])
        assert float(ran.cost_usd[0]) == pytest.approx(usd, rel=1e-9)
        assert float(ran.elapsed_s[0]) == pytest.approx(elapsed_s)
        assert elapsed_s <= job.deadline_s + 1e-6
        assert int(ran.losses[0]) == lost


@pytest.mark.slow
@given(jobs.map(lambda job: replace(job, restart_s=600.0 * round(job.restart_s / 600), loss_s=0.0)), runs)
def test_foresight_is_never_dearer_than_a_policy(job: DeadlineJob, pieces: list[int]) -> None:
    market = long_enough(market_of(pieces), job)
    least = float(spot_optimum(job, market, HERE)[0])
    for policy in policies(job):
        ran = replay_jobs(job, market, HERE, NeverLate(policy, job, TICK_S))
        assert least <= float(ran.cost_usd[0]) + 1e-6


@given(
    st.integers(1, 4),
    st.integers(0, 2),
    st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=2),
    st.sampled_from([1.0, 0.8, 2.5]),
)
def test_foresight_is_the_least_of_all_ways_tried(
    work: int, start: int, has_one: list[list[bool]], last_usd: float
) -> None:
    job = DeadlineJob(work * TICK_S, 6 * TICK_S, start * TICK_S)
    usd = np.array([1.0] * (len(has_one) - 1) + [last_usd])
    market = SpotMarket(np.array(has_one), TICK_S, usd, 3.0)
    assert float(spot_optimum(job, market, HERE, 2)[0]) == pytest.approx(least_usd(job, market))


@pytest.mark.slow
@given(
    jobs.map(lambda job: replace(job, restart_s=600.0 * round(job.restart_s / 600), loss_s=0.0)),
    st.lists(runs, min_size=2, max_size=4),
)
def test_foresight_over_several_places_is_never_dearer_than_a_policy(job: DeadlineJob, pieces: list[list[int]]) -> None:
    market = several_places(job, pieces, 1.0)
    least = float(spot_optimum(job, market, HERE)[0])
    for policy in policies(job):
        ran = replay_jobs(job, market, HERE, NeverLate(policy, job, TICK_S))
        assert least <= float(ran.cost_usd[0]) + 1e-6


@given(jobs, runs, runs)
def test_foresight_gains_by_time_price_and_places(job: DeadlineJob, pieces: list[int], more: list[int]) -> None:
    longer = replace(job, deadline_s=job.deadline_s + 2 * HOUR)
    market, other = long_enough(market_of(pieces), longer), long_enough(market_of(more), longer)
    ticks = min(market.ticks, other.ticks)
    both = np.concatenate([m.is_available[:, :ticks] for m in (market, other)])
    alone = replace(market, is_available=both[:1])
    least = float(spot_optimum(job, alone, HERE)[0])
    assert float(spot_optimum(longer, alone, HERE)[0]) <= least + 1e-9
    assert float(spot_optimum(job, replace(alone, spot_usd_per_hour=np.array([0.9])), HERE)[0]) <= least + 1e-9
    wider = replace(alone, is_available=both, spot_usd_per_hour=np.array([1.0, 1.0]))
    assert float(spot_optimum(job, wider, HERE)[0]) <= least + 1e-9


def test_a_market_that_always_has_a_machine_costs_the_work_and_one_start() -> None:
    job = DeadlineJob(48 * HOUR, 52 * HOUR, 720.0)
    market = market_of([400])
    ran = replay_jobs(job, market, HERE, NeverLate(BySlack(rules_of(job)), job, TICK_S))
    assert float(ran.cost_usd[0]) == pytest.approx(48.2)
    assert int(ran.starts[0]) == 1


def test_a_market_without_machines_costs_what_on_demand_costs() -> None:
    job = DeadlineJob(48 * HOUR, 52 * HOUR, 720.0)
    market = replace(market_of([400]), is_available=np.zeros((1, 400), dtype=bool))
    ran = replay_jobs(job, market, HERE, NeverLate(BySlack(rules_of(job)), job, TICK_S))
    assert float(ran.cost_usd[0]) == pytest.approx(3 * (48 + 0.2 * int(ran.starts[0])))
    assert int(ran.starts[0]) <= 2


def test_who_loses_a_machine_goes_on_at_another_place() -> None:
    has_one = np.zeros((2, 400), dtype=bool)
    has_one[0, :100], has_one[1, 100:] = True, True
    market = SpotMarket(has_one, TICK_S, np.array([1.0, 1.0]), 3.0)
    job = DeadlineJob(48 * HOUR, 52 * HOUR, 720.0)
    ran = replay_jobs(job, market, HERE, NeverLate(BySlack(rules_of(job)), job, TICK_S))
    assert float(ran.cost_usd[0]) == pytest.approx(48.4)
    assert int(ran.losses[0]) == 1
    assert float(spot_optimum(job, market, HERE)[0]) == pytest.approx(48.4), "foresight too pays for the change"


@pytest.mark.slow
@given(jobs, runs)
def test_simple_policies_as_slack_are_those_that_are_published(job: DeadlineJob, pieces: list[int]) -> None:
    """Uniform Progress that waits until it is ahead counts what is left of a start, which the line does not."""
    market = long_enough(market_of(pieces), job)

    def usd(policy: SpotPolicy) -> float:
        return float(replay_jobs(job, market, HERE, NeverLate(policy, job, TICK_S)).cost_usd[0])

    assert usd(BySlack(greedy_rules(job, TICK_S))) == usd(Greedy())
    assert usd(BySlack(on_demand_rules(job, TICK_S))) == usd(AlwaysOnDemand())
    assert usd(BySlack(uniform_rules(job, TICK_S, waits_ahead=False))) == usd(UniformProgress(waits_ahead=False))
    if job.restart_s <= TICK_S:
        assert usd(BySlack(uniform_rules(job, TICK_S, waits_ahead=True))) == usd(UniformProgress())


def test_thresholds_go_all_the_way_to_a_line() -> None:
    job = DeadlineJob(48 * HOUR, 70 * HOUR, 720.0)
    rules, line = rules_of(job), uniform_rules(job, TICK_S, waits_ahead=True)
    there = rules.towards(line, 1.0)
    assert rules.towards(line, 0.0).slack_s == pytest.approx(rules.slack_s)
    for left_s in (0.0, 5 * HOUR, 69.9 * HOUR):
        running, aged = np.repeat([0, 1, 2], 6), np.tile(np.arange(6), 3)
        expected = line.threshold_s(running, (aged >= 3).astype(np.int64), left_s)
        assert there.threshold_s(running, aged, left_s) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zones", "work_h", "deadline_h", "start_s"),
    [(1, 48, 52, 720.0), (3, 48, 60, 72.0), (6, 48, 60, 72.0), (6, 24, 32, 300.0)],
)
def test_ours_costs_no_more_than_a_simple_policy_on_windows_that_did_not_choose(
    zones: int, work_h: int, deadline_h: int, start_s: float
) -> None:
    """Of zones as different as measured ones; the simple ones are told afterwards, by the windows that judge."""
    fit, ticks = load_availability_fit(), deadline_h * 6 + 1
    times = (Spread(each, each, each) for each in (work_h * HOUR, start_s))
    question = SpotQuestion(*times, deadline_h * HOUR, 60.0, 1080.0)

    def draws(seed: int, num: int) -> SpotDraws:
        drawn = drawn_availability(
            np.random.default_rng(seed), fit, lambda rng: drawn_zones(rng, fit, zones), num, ticks, 1
        )
        market = SpotMarket(drawn, TICK_S, np.full(zones, 0.9731), 3.06)
        hazards = hazards_of(market, 1, HazardCounts(TICK_S, AGES_S, np.full((2, 4), 0.5), np.full((2, 4), 5.0)))
        return SpotDraws(market, np.arange(num) * ticks, Luck.none(question.expected, num), hazards)

    ours, judging = every_rules(question, TICK_S, optimised(question, draws(1, 160))), draws(2, 400)
    usd = {name: float(played(question, judging, rules).cost_usd.mean()) for name, rules in ours.items()}
    assert usd[OURS] <= 1.005 * min(usd[name] for name in (GREEDY, UNIFORM, UNIFORM_BACK))
    assert not any(late_ratio(played(question, judging, rules), question.deadline_s) for rules in ours.values())


def test_less_slack_needs_on_demand_sooner() -> None:
    """With a restart of 12 minutes a job without a machine waits longer the more slack it has."""
    job = DeadlineJob(48 * HOUR, 70 * HOUR, 720.0)
    rules = rules_of(job)
    waiting, without_for_long = np.array([0]), np.array([2])
    thresholds = [float(rules.threshold_s(waiting, without_for_long, left * HOUR)[0]) for left in (6, 24, 48)]
    assert thresholds == sorted(thresholds)
    assert 0 < thresholds[0] < thresholds[-1] < 22 * HOUR


def test_what_is_seen_outweighs_what_was_believed_as_it_grows() -> None:
    """Believed: one tick in ten changes, worth 20 ticks. Seen: none of them."""
    edges = (600.0, 3600.0)
    prior = HazardCounts(TICK_S, edges, np.full((2, 3), 2.0), np.full((2, 3), 20.0))

    def lost_when_old(ticks: int) -> float:
        seen = HazardCounts.of(np.ones((1, ticks), dtype=bool), TICK_S, edges)
        hazards = AgedHazards.of_counts(seen, prior)
        assert hazards.lost_ratio[0] == hazards.found_ratio[2] == 0.1
        return hazards.lost_ratio[2]

    assert lost_when_old(6) == 0.1
    assert lost_when_old(1000) < lost_when_old(100) < 0.05


def test_ages_shorter_than_a_tick_are_as_the_next_older() -> None:
    unseen = HazardCounts(TICK_S * 6, (600.0, 3600.0), np.zeros((2, 3)), np.zeros((2, 3)))
    flicker = HazardCounts.of(np.array([[True, False] * 40]), TICK_S * 12, (600.0, 3600.0))
    assert AgedHazards.of_counts(flicker, unseen).lost_ratio == (1.0, 1.0, 1.0)
