"""A day of mixes by hand: what runs, what starts, and what one fleet costs that carries every hour."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.mixes import sun
from gpufleet.optimize.mixes.sun import (
    all_day_usd,
    day_of,
    fewest,
    kept_by_the_hour,
    posed_at,
    static_usd_per_day,
    with_unit_less,
)
from gpufleet.optimize.mixes.ways import Posed

DOLLARS = np.array([1.0, 4.0])
START_USD = np.array([0.5, 2.0])
PROBLEM = MixProblem.of_types(np.array([[6.0, 2.0]]), DOLLARS, np.full(2, np.inf))


def hour(*machines: float, sent_usd: float = 0.0) -> Any:
    """A mix of so many machines, whose answers cost so much on their way out."""
    share, sending = np.array([[1.0, 0.0]]), np.array([[sent_usd, 0.0]])
    mix = Mix(np.array(machines), np.array(machines), share, 0.0)
    return SimpleNamespace(problem=SimpleNamespace(usd_per_hour=DOLLARS, sending=sending), mix=mix)


def test_a_day_pays_for_what_runs_and_for_each_start_the_first_hour_after_the_last() -> None:
    day = day_of([hour(2, 1), hour(4, 0, sent_usd=0.25), hour(1, 1)], START_USD)
    assert day.started.tolist() == [1.0, 2.0, 1.0]
    assert day.starts_usd == pytest.approx(3 * 0.5 + 2.0)
    assert day.usd == pytest.approx(6 + 4.25 + 5 + day.starts_usd)
    assert day_of([hour(2, 1)] * 3, START_USD).starts_usd == 0.0


def test_a_fleet_that_runs_all_day_pays_24_hours_and_sends_what_is_asked_in_each() -> None:
    ratio = np.array([[0.5], [1.0], [0.25]])
    assert static_usd_per_day(hour(2, 1, sent_usd=0.25), ratio) == pytest.approx(24 * 6 + 1.75 * 0.25)


def test_one_fleet_has_as_few_units_as_every_hour_holds_the_dearest_taken_away_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six small machines or two large ones carry the hour of most requests."""

    def split(problem: MixProblem, units: np.ndarray, *_: object) -> np.ndarray | None:
        carried = float(np.sum(units / problem.load_units[0]))
        return None if carried < 1 else np.array([units / units.sum()])

    monkeypatch.setattr(sun, "cheapest_split", split)
    monkeypatch.setattr(sun, "rated", lambda *_: SimpleNamespace(is_sound=True))
    quiet = MixProblem.of_types(PROBLEM.load_units / 2, DOLLARS, np.full(2, np.inf))
    hours: Any = [SimpleNamespace(problem=problem) for problem in (PROBLEM, quiet)]
    fleet = sun.Rated(PROBLEM, hour(6, 2).mix, *(np.zeros(2),) * 4, np.zeros((1, 2), dtype=bool))
    assert all_day_usd(hours, fleet) == 2 * (6 + 8)
    assert with_unit_less(fleet, 1).mix.machines.tolist() == [6, 1]
    assert fewest(hours, fleet).mix.units.tolist() == [6, 0]
    short = with_unit_less(fewest(hours, fleet), 0)
    assert all_day_usd(hours, short) == np.inf
    monkeypatch.setattr(sun, "rated", lambda *_: SimpleNamespace(is_sound=False))
    assert all_day_usd(hours, fleet) == np.inf


def test_an_hour_asks_for_its_part_of_the_peak_and_buys_only_what_is_sold_by_the_hour() -> None:
    """Half of the first place's requests and a quarter of the other's; the second type is bought for a year."""
    peak = MixProblem.of_types(np.array([[6.0, 2.0], [4.0, 8.0]]), DOLLARS, np.array([9.0, 7.0]))
    offers: Any = tuple(SimpleNamespace(price_kind=kind) for kind in (PriceKind.SPOT, PriceKind.COMMIT_1Y))
    service: Any = SimpleNamespace(at_rates=lambda ratio: ratio.tolist())
    ratio, today = np.array([0.5, 0.25]), np.array([3.0, 0.0])
    found = posed_at(Posed(peak, (), offers, (), (service,)), ratio, today, START_USD)
    assert found.services == ([0.5, 0.25],)
    assert found.problem.load_units.tolist() == [[3.0, 1.0], [1.0, 2.0]]
    assert found.problem.most_machines.tolist() == [9.0, 0.0]
    assert found.problem.machines_today.tolist() == [3.0, 0.0]
    assert found.problem.leaving_usd_per_hour.tolist() == START_USD.tolist()


def test_a_mix_for_the_peak_is_kept_in_an_hour_that_sells_it_and_whose_objectives_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sun, "rated", lambda posed, problem, mix: SimpleNamespace(mix=mix, is_sound=posed.is_sound))
    static: Any = hour(6, 2)
    for most, is_sound, is_kept in (([6, 2], True, True), ([6, 2], False, False), ([6, 1], True, False)):
        problem = MixProblem.of_types(PROBLEM.load_units, DOLLARS, np.array(most, dtype=float))
        asked: Any = SimpleNamespace(problem=problem, is_sound=is_sound)
        kept = kept_by_the_hour(asked, static)
        assert (kept is not None) == is_kept
        assert kept is None or kept.mix.usd_per_hour == 6 + 2 * 4
