"""The choice among laws: cheapest that keeps the target on every day, searched in hindsight where asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.simulate.scaled_services import small_service

from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.optimize.autoscale import (
    LEARNING,
    PRESETS,
    Outcome,
    Preset,
    Traffic,
    autocorrelation,
    kept_by,
    outcome,
    played_on,
    preset_named,
    recommended,
    refuse_service,
    taken,
    tuned,
    tuned_plays,
    undominated,
)
from gpufleet.simulate.scaling import Service
from gpufleet.simulate.tick_arrivals import draw_ticks, rate_of_ticks
from gpufleet.units import DAY, HOUR


def waves(num_days: int = 3) -> RateCurve:
    """Days that rise and fall between 4 and 36 requests/s."""
    hours = np.arange(24 * num_days)
    return RateCurve(0.0, 20.0 + 16.0 * np.cos(2 * np.pi * (hours - 14) / 24), HOUR)


def traffic_of(curve: RateCurve, service: Service | None = None, seed: int = 1) -> Traffic:
    held = small_service(120.0, tick_s=60.0, max_replicas=12) if service is None else service
    return Traffic(held, curve, draw_ticks(curve, held.tick_s, np.random.default_rng(seed)))


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return traffic_of(waves())


@pytest.mark.slow
def test_every_law_is_played_and_the_cheapest_that_keeps_the_target_is_recommended(traffic: Traffic) -> None:
    outcomes = [outcome(traffic, preset) for preset in PRESETS.values()]
    best = recommended(outcomes)
    assert best.meets_target
    assert all(row.replica_hours >= best.replica_hours for row in outcomes if row.meets_target)
    front = undominated(outcomes)
    assert best.worst_day <= max(row.worst_day for row in front)
    assert [row.replica_hours for row in front] == sorted(row.replica_hours for row in front)
    assert [row.worst_day for row in front] == sorted(row.worst_day for row in front)


def test_a_law_that_no_controller_runs_is_taken_where_it_is_named_or_none_else_keeps_it(
    traffic: Traffic,
) -> None:
    names = ("holt-winters", "static", "skyserve")
    outcomes = [outcome(traffic, PRESETS[name]) for name in names]
    assert all(row.meets_target for row in outcomes)
    assert outcomes[0].replica_hours < outcomes[1].replica_hours
    assert taken(outcomes, is_free=True).preset == "static"
    assert taken(outcomes, is_free=False) is recommended(outcomes)
    missing = [outcomes[0], outcome(traffic, PRESETS["static"], {"replicas": 1.0})]
    assert taken(missing, is_free=True).preset == "holt-winters"


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_preset_says_who_runs_it(preset: Preset) -> None:
    runs = {"hpa": "HorizontalPodAutoscaler", "static": "Deployment", "wva": "llm-d WVA", "skyserve": "SkyServe"}
    runs["utilisation"] = "AWS Auto Scaling"
    by_itself = ("queue-depth", "seasonal-naive", "holt-winters", *LEARNING)
    assert preset.controller == runs.get(preset.name, "" if preset.name in by_itself else "KEDA")
    assert preset.is_written is (preset.controller in ("KEDA", "HorizontalPodAutoscaler", "Deployment"))


def test_careful_settings_leave_half_of_the_misses_unused_on_the_days_that_were_searched() -> None:
    week = traffic_of(waves(5))
    tight, careful = tuned_plays(week, PRESETS["hpa-rate"], 3)
    assert (tight.is_careful, careful.is_careful) == (False, True)
    assert tight.days[:3].min() >= 0.95
    assert careful.days[:3].min() >= 0.975
    assert careful.replica_hours >= tight.replica_hours
    tried = [outcome(week.first(3), PRESETS["hpa-rate"], s) for s in PRESETS["hpa-rate"].tried(week)]
    assert careful.settings == recommended([row for row in tried if row.worst_day >= 0.975]).settings


def test_windows_are_learnt_from_the_days_that_settings_are_searched_on_alone() -> None:
    """What comes later changes neither settings nor windows; they are judged on it."""
    calm = traffic_of(waves(5))
    later = calm.arrivals.copy()
    later[round(3 * DAY / calm.service.tick_s) :] *= 3
    changed = replace(calm, arrivals=later)
    before, after = (tuned(t, PRESETS["cron-windows"], 3) for t in (calm, changed))
    assert before.settings == after.settings
    assert np.array_equal(calm.week(before.settings).machines, changed.week(after.settings).machines)
    assert before.meets_target
    assert not after.meets_target


def test_where_none_keeps_it_the_one_that_misses_least_is_named(traffic: Traffic) -> None:
    tight = replace(traffic, service=replace(traffic.service, max_replicas=2))
    outcomes = [outcome(tight, PRESETS[name]) for name in ("static", "hpa", "schedule")]
    assert not any(row.meets_target for row in outcomes)
    assert recommended(outcomes).worst_day == max(row.worst_day for row in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skyserve", "static", "hpa"])
def test_tuning_finds_no_dearer_settings_than_those_of_the_document(traffic: Traffic, name: str) -> None:
    plain, searched = outcome(traffic, PRESETS[name]), tuned(traffic, PRESETS[name])
    assert searched.num_tried > 1
    assert searched.meets_target
    if plain.meets_target:
        assert searched.replica_hours <= plain.replica_hours


def test_tuning_that_screens_by_the_first_day_finds_what_playing_everything_finds(traffic: Traffic) -> None:
    preset = PRESETS["static"]
    every = [outcome(traffic, preset, settings) for settings in preset.tried(traffic)]
    cheapest = min((row for row in every if row.meets_target), key=lambda row: row.replica_hours)
    assert tuned(traffic, preset).settings == cheapest.settings


@pytest.mark.parametrize("name", ["schedule", "queue-depth"])
@pytest.mark.parametrize("target", [0.5, 0.95])
def test_settings_that_are_given_up_midway_would_not_have_won(traffic: Traffic, name: str, target: float) -> None:
    """What any play needs from an hour on is no more than what it pays where it keeps the target; ties go the same."""
    held, preset = replace(traffic, service=replace(traffic.service, target_ratio=target)), PRESETS[name]
    whole = [outcome(held, preset, settings) for settings in preset.tried(held)]
    for row in (row for row in whole if row.meets_target):
        paid = np.append(row.played.paid[::-1].cumsum()[::-1], 0)[:: held.needed.every]
        assert np.all(held.needed.least_rest <= paid)
    kept, best = played_on(held, preset, whole), recommended(whole)
    assert len(kept) < len(whole) or not best.meets_target
    assert recommended(kept).settings == best.settings


@pytest.mark.slow
def test_our_law_is_not_tuned(traffic: Traffic) -> None:
    for name in LEARNING:
        assert tuned(traffic, PRESETS[name]).num_tried == 1


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_preset_says_where_it_is_from_and_tries_its_document_first(preset: Preset, traffic: Traffic) -> None:
    assert preset.source
    tried = preset.tried(traffic)
    assert tried[0] == preset.first_settings(traffic)
    assert len(tried) == len({str(row) for row in tried})
    assert set(preset.grid) <= set(preset.settings)


def test_a_law_that_never_starts_again_still_counts_every_request(traffic: Traffic) -> None:
    row = outcome(traffic, PRESETS["schedule"], {"day": 0.0, "night": 0.0})
    assert row.played.served.sum() + row.played.queue[-1] == pytest.approx(traffic.arrivals.sum())
    assert row.worst_day < 0.1


def test_days_are_whole_days_from_the_start_and_all_of_it_where_there_is_none(traffic: Traffic) -> None:
    whole = outcome(traffic, PRESETS["static"])
    assert len(whole.days) == 3
    short = traffic_of(RateCurve(0.0, np.full(5, 9.0), HOUR))
    row = outcome(short, PRESETS["static"])
    assert len(row.days) == 1
    assert row.days[0] == pytest.approx(row.mean)
    assert len(kept_by(row.played, 900.0)) == 20


def test_the_same_seed_draws_the_same_requests_and_another_does_not() -> None:
    runs = [traffic_of(waves(1), seed=seed).arrivals for seed in (3, 3, 4)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_counts_vary_as_the_curve_says(cv: float) -> None:
    curve = RateCurve(0.0, np.full(600, 20.0), 600.0, np.full(600, cv))
    counts = draw_ticks(curve, 15.0, np.random.default_rng(1))
    assert counts.mean() == pytest.approx(300.0, rel=0.02)
    assert counts.var() == pytest.approx(cv**2 * 300.0, rel=0.1)
    assert np.all(counts >= 0)


def test_ticks_of_another_length_than_the_bins_keep_the_requests() -> None:
    curve = RateCurve(0.0, np.array([1.0, 3.0, 2.0]), 40.0)
    rates = rate_of_ticks(curve, 15.0)
    assert rates * 15.0 == pytest.approx([15, 15, 10 + 15, 45, 45, 15 + 20, 30, 30])


def test_days_that_repeat_are_alike_and_noise_is_not() -> None:
    repeated = autocorrelation(waves(20))
    noise = autocorrelation(RateCurve(0.0, np.random.default_rng(1).uniform(1, 2, 480), HOUR))
    assert repeated is not None
    assert noise is not None
    assert repeated > 0.9
    assert abs(noise) < 0.2
    assert autocorrelation(RateCurve(0.0, np.ones(10), HOUR)) is None
    assert autocorrelation(RateCurve(0.0, np.ones(100), HOUR)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"min_replicas": 5, "max_replicas": 3},
        {"min_replicas": -1},
        {"max_replicas": 0},
        {"target_ratio": 1.0},
        {"target_ratio": 0.0},
        {"target_ratio": float("nan")},
        {"cold_start_s": -1.0},
        {"cold_start_s": float("inf")},
    ],
)
def test_a_service_that_nobody_can_run_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        refuse_service(replace(small_service(), **changes))  # type: ignore[arg-type]


def test_a_target_above_what_an_idle_replica_keeps_has_no_answer() -> None:
    replica = small_service().replica
    (limits,) = replica.classes
    (promise,) = limits.promises
    worse = replace(limits, promises=(replace(promise, within=promise.within * 0.9),))
    with pytest.raises(Infeasible):
        refuse_service(replace(small_service(), replica=replace(replica, classes=(worse,))))


def test_a_law_is_found_by_its_name_alone() -> None:
    assert preset_named(" HPA ").name == "hpa"
    with pytest.raises(UnknownName, match="hpa"):
        preset_named("hpa2")


def test_a_longer_cold_start_never_helps_the_static_fleet_that_has_to_grow_first() -> None:
    curve = RateCurve(0.0, np.concatenate([np.full(1, 4.0), np.full(23, 30.0)]), HOUR)
    kept = [
        outcome(traffic_of(curve, small_service(cold, tick_s=60.0, max_replicas=12)), PRESETS["static"]).mean
        for cold in (0.0, 120.0, 1800.0, 7200.0)
    ]
    assert kept == sorted(kept, reverse=True)


def test_an_outcome_of_no_requests_at_all_misses_none() -> None:
    quiet = traffic_of(RateCurve(0.0, np.zeros(48) + 1e-9, HOUR))
    row = outcome(quiet, PRESETS["static"], {"replicas": 1.0})
    assert isinstance(row, Outcome)
    assert row.mean == row.worst_day == row.worst_quarter == 1.0
    assert quiet.curve.span_s == 2 * DAY
