"""Where a job runs, by hand: what ways cost, which keep all limits, what stands against them and what would help."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from gpufleet.domain.interruption import NEVER, Interruptions, Spread
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.optimize.job_regions import (
    LATE,
    BatchRun,
    JobAt,
    JobLimit,
    JobTerms,
    JobWay,
    Promise,
    RegionSite,
    TrainingRun,
    against,
    as_played,
    drawn_spread,
    is_late,
    job_at,
    judged,
    least_changes,
    least_usd,
    planned_job,
)
from gpufleet.optimize.spot_plays import SpotPlay
from gpufleet.units import HOUR

WORK = Spread(8 * HOUR, 10 * HOUR, 15 * HOUR)
SITE = RegionSite(Spread(100.0, 200.0, 300.0), Spread(1.0, 2.0, 3.0), Spread(1.0, 1.5, 2.0), 7.0, True)
PROMISE = Promise(20 * HOUR, 0.2, 0.5)
RATES = Interruptions({"5-10%": Spread(0.0, 0.1, 0.2)}, Spread(0.1, 0.5, 1.0), Spread(0.0, HOUR, 2 * HOUR), "", "")


class Plays:
    """What drawn markets make of a job: told before."""

    def __init__(self, play: SpotPlay | None, least: float = 0.0, steady: object = object()) -> None:
        self.told, self.least, self.steady, self.asked = play, least, steady, 0

    def play(self, *_: object) -> SpotPlay | None:
        self.asked += 1
        return self.told

    def beside(self, *_: object) -> object:
        return self.steady

    def least_usd(self, *_: object) -> float:
        return self.least


def offered(kind: PriceKind = PriceKind.ON_DEMAND, usd: float = 3.0, band: str | None = None) -> Offer:
    return Offer("a", "here", "8xL4", kind, usd, PriceBasis.LIST, "", date(2025, 1, 1), interruption=band)


def way(**how: Any) -> JobWay:
    machine: Any = None
    told: dict[str, Any] = {
        "instance": machine, "machines": 2, "work_s": WORK, "run": BatchRun(600.0, 1200.0), "startup_s": 600.0,
        "write_s": 30.0, "checkpoint_every_s": None, "kwh_per_hour": 0.5, "may_be_on_spot": True, "grade": "measured",
    }  # fmt: skip
    return JobWay(**{**told, **how})


def terms(plays: Any = None, **how: Any) -> JobTerms:
    return JobTerms(100 * HOUR, replace(PROMISE, **how), RATES, plays)


def played(usd: list[float], late_ratio: float = 0.0) -> SpotPlay:
    hours = np.arange(1.0, 1 + len(usd)) * HOUR
    return SpotPlay(np.array(usd), hours, hours, 0.0, 0.0, late_ratio, 1)


def at(usd: float, **how: Any) -> JobAt:
    """A job of so many dollars for machines, and seven for what moves."""
    told: dict[str, Any] = {"used_s": WORK, "done_s": WORK, "machines_usd": Spread(0.0, usd, usd), "planned_s": HOUR}
    return JobAt(**{"way": way(), "offer": offered(), "site": SITE, **told, **how})


def limit(name: str, most: float, taken: Any) -> JobLimit:
    return JobLimit(f"over_{name}", name, most, taken)


# --- how long, and what it costs ---


def test_work_is_planned_as_long_as_headroom_or_confidence_says() -> None:
    assert PROMISE.slow_s(WORK) == pytest.approx(12 * HOUR)
    assert replace(PROMISE, confidence=0.9).slow_s(WORK) == pytest.approx(15 * HOUR)


def test_a_batch_repeats_half_a_wave_and_a_start_at_each_stop_and_waits_unpaid() -> None:
    """Ten hours, one stop in two: five times 600 s of start, 600 s of half a wave, an hour of waiting."""
    done, used = BatchRun(600.0, 1200.0).times_s(WORK, RATES.per_hour_unknown, RATES.wait_s)
    assert used.expected == pytest.approx(600 + 10 * HOUR + 5 * 1200)
    assert done.expected == pytest.approx(used.expected + 5 * HOUR)
    assert (used.low, used.high) == pytest.approx((600 + 8 * HOUR + 0.8 * 1200, 600 + 15 * HOUR + 15 * 1200))
    assert (done.low, done.high) == pytest.approx((used.low, used.high + 15 * 2 * HOUR))
    planned = BatchRun(600.0, 1200.0).planned_s(WORK, RATES.per_hour_unknown, RATES.wait_s, PROMISE)
    assert planned == pytest.approx(600 + 12 * HOUR + 6 * (1200 + HOUR))


def test_training_that_nothing_stops_takes_its_work_and_the_start() -> None:
    run = TrainingRun(600.0, 30.0, Spread(60.0, 60.0, 60.0), 16.0, 2, NEVER)
    done, used = run.times_s(WORK, NEVER, NEVER)
    for found in (done, used):
        assert (found.low, found.expected, found.high) == pytest.approx(
            (600 + 8 * HOUR, 600 + 10 * HOUR, 600 + 15 * HOUR), rel=0.01
        )
    assert run.planned_s(WORK, NEVER, NEVER, PROMISE) == pytest.approx(600 + 12 * HOUR, rel=0.01)
    often = replace(run, failures_per_gpu_hour=Spread(0.0, 0.01, 0.02))
    assert often.times_s(WORK, NEVER, NEVER)[0].expected > done.expected
    assert often.planned_s(WORK, NEVER, NEVER, replace(PROMISE, confidence=0.9)) > 600 + 15 * HOUR


def test_machines_on_demand_are_paid_while_they_run_and_those_on_spot_for_what_is_repeated() -> None:
    steady = job_at(way(), offered(), SITE, terms())
    assert steady.machines_usd.expected == pytest.approx(2 * 3 * (10 + 1 / 6))
    assert steady.planned_s == pytest.approx(600 + 12 * HOUR)
    spot = job_at(way(), offered(PriceKind.SPOT, 1.0, "5-10%"), SITE, terms())
    assert spot.machines_usd.expected == pytest.approx(2 * (10 + 1 / 6 + 1 / 3))
    assert spot.usd == pytest.approx(spot.machines_usd.expected + 7)
    term = job_at(way(), offered(PriceKind.COMMIT_1Y, 1.0), SITE, terms())
    assert term.machines_usd.low == term.machines_usd.high == pytest.approx(2 * 100)


def test_power_and_carbon_follow_the_hours_of_machines_and_are_unknown_where_a_part_is() -> None:
    """Ten hours x 0.5 kWh, with what is beside GPUs twice as much, at a site of 1.5."""
    known = at(1.0, used_s=Spread(10 * HOUR, 10 * HOUR, 10 * HOUR))
    assert known.kwh is not None
    assert known.g_co2e is not None
    assert known.kwh.expected == pytest.approx(10 * 0.5 * 2 * 1.5)
    assert known.g_co2e.expected == pytest.approx(15 * 200.0)
    assert at(1.0, way=way(kwh_per_hour=None)).g_co2e is at(1.0, way=way(kwh_per_hour=None)).kwh is None
    assert at(1.0, site=replace(SITE, grid_g_per_kwh=None)).g_co2e is None


# --- what drawn markets make of it ---


def test_a_play_replaces_what_is_expected() -> None:
    play = played([10.0, 20.0, 60.0])
    one = at(1.0, play=play)
    assert one.usd == pytest.approx(30 + 7)
    assert one.machine_s == drawn_spread(play) == Spread(1.2 * HOUR, 2 * HOUR, 2.8 * HOUR)
    lonely = SpotPlay(np.array([1.0] * 20), np.array([0.0] * 19 + [100.0]), np.zeros(20), 0.0, 0.0, 0.0, 1)
    assert drawn_spread(lonely) == Spread(0.0, 5.0, 5.0)


def test_only_what_is_on_spot_is_played_and_only_once() -> None:
    plays = Plays(played([10.0]), least=4.0)
    spot, told = at(50.0, offer=offered(PriceKind.SPOT)), terms(plays)
    once = as_played(spot, told)
    assert once.play is plays.told
    for same in (at(50.0), once):
        assert as_played(same, told) is same
    assert plays.asked == 1
    assert as_played(spot, terms()) is spot
    assert as_played(spot, terms(Plays(None))) is spot
    assert [least_usd(one, told) for one in (spot, at(50.0), once)] == [4 + 7, 50 + 7, 10 + 7]
    assert least_usd(spot, terms()) == least_usd(spot, terms(Plays(None, steady=None))) == 57
    assert planned_job(spot).machines == 2


# --- which way is taken ---


def test_late_is_planned_after_the_deadline_without_an_end_or_in_too_many_draws() -> None:
    assert not is_late(at(1.0, planned_s=20 * HOUR), terms())
    assert is_late(at(1.0, planned_s=20 * HOUR + 1), terms())
    assert is_late(at(math.inf), terms())
    assert is_late(at(1.0, play=played([1.0], late_ratio=0.6)), terms())
    assert not is_late(at(1.0, play=played([1.0], late_ratio=0.4)), terms())


def test_the_cheapest_that_keeps_all_limits_is_taken_and_of_equals_the_first() -> None:
    power = limit("power", 5.0, lambda job: job.way.kwh_per_hour)
    cheap, hungry, unknown = at(9.0), at(1.0, way=way(kwh_per_hour=6.0)), at(2.0, way=way(kwh_per_hour=None))
    same = at(9.0)
    assert judged([hungry, unknown, at(12.0), cheap, same], [power], terms()).best is cheap
    assert judged([same, cheap], [power], terms()).best is same
    assert judged([hungry, unknown], [power], terms()) == (None, "over_power")
    assert judged([at(9.0, planned_s=99 * HOUR), hungry], [power], terms()) == (None, LATE)


def test_what_may_be_cheaper_is_played_and_nothing_beyond_that() -> None:
    plays = Plays(played([30.0]), least=5.0)
    told, spot = terms(plays), at(50.0, offer=offered(PriceKind.SPOT))
    steady = at(20.0)
    assert judged([spot, steady], [], told).best is steady
    assert plays.asked == 1
    assert judged([spot, at(4.0)], [], told).best is not None
    assert plays.asked == 1, "on demand costs less than any play"
    late = Plays(played([3.0], late_ratio=0.9), least=1.0)
    assert judged([spot, steady], [], terms(late)).best is steady
    assert judged([spot], [], terms(late)) == (None, LATE)
    dear = limit("usd", 11.0, lambda job: job.usd)
    assert judged([spot], [dear], terms(Plays(played([30.0]), least=1.0))).best is None


def test_against_a_region_stands_the_limit_of_the_way_that_breaks_the_fewest() -> None:
    usd = limit("usd", 10.0, lambda job: job.usd)
    power = limit("power", 5.0, lambda job: job.way.kwh_per_hour)
    assert against([at(99.0, way=way(kwh_per_hour=9.0)), at(1.0, way=way(kwh_per_hour=9.0))], [usd, power]) == (
        "over_power"
    )
    assert against([at(99.0, way=way(kwh_per_hour=9.0))], [usd, power]) == "over_usd"


def test_a_limit_alone_gives_way_to_the_least_that_any_way_takes_of_it() -> None:
    usd = limit("usd", 10.0, lambda job: job.usd)
    power = limit("power", 0.4, lambda job: job.way.kwh_per_hour)
    lean = way(kwh_per_hour=0.3)
    found = {("a", "x"): [at(5.0), at(40.0, way=lean)], ("a", "y"): [at(30.0, way=lean), at(2.0)]}
    assert least_changes(found, [usd, power], terms()) == pytest.approx({"usd": 37.0, "power": 0.5})
    assert least_changes({("a", "x"): [at(40.0)]}, [usd, power], terms()) == {}, "neither alone helps"
    unknown = {("a", "x"): [at(1.0, way=way(kwh_per_hour=None))]}
    assert least_changes(unknown, [power], terms()) == {}
