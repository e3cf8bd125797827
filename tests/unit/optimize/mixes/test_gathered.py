"""Machines of one type stand in few regions, on clean grids, and users go to the nearest, where that costs no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api.mixes import understood_mix
from gpufleet.api.regions import placed
from gpufleet.catalog.load import load_catalog
from gpufleet.optimize.mixes import gathered as mixes_gathered
from gpufleet.optimize.mixes.cheapest import found_mix
from gpufleet.optimize.mixes.corrected import Rated, rated
from gpufleet.optimize.mixes.gathered import are_alike, gathered, nearest, on_cleaner_grids, round_trips_s
from gpufleet.optimize.mixes.question import posed_of
from gpufleet.optimize.mixes.sending import cheapest_split
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.regions import RegionRequest

CHAT = ServeRequest(
    "llama-3.1-8b", 40.0, 1000, 200, slo="ttft.p95<800ms", clouds=["aws"], gpus=["RTX-PRO-6000-Server"],
    regions=["us-east-1", "us-east-2"],
)  # fmt: skip


@pytest.fixture(scope="module")
def posed() -> Posed:
    tables, request = load_catalog(), RegionRequest(users=["eu=50%", "us=50%"])
    return posed_of(placed(understood_mix(request, [CHAT], None, tables), request, tables))


@pytest.fixture(scope="module")
def spread(posed: Posed) -> Rated:
    """The cheapest machines, split by hand over both regions."""
    tables, request = load_catalog(), RegionRequest(users=["eu=50%", "us=50%"])
    found = found_mix(placed(understood_mix(request, [CHAT], None, tables), request, tables), posed)
    assert found is not None
    alike = [o for o in range(len(posed.offers)) if are_alike(posed, int(np.argmax(found.mix.machines)), o)]
    ways = [next(w for w, way in enumerate(posed.ways) if way.offer == o) for o in alike]
    machines, units, total = np.zeros_like(found.mix.machines), np.zeros_like(found.mix.units), found.mix.machines.sum()
    for at, part in zip(range(2), (total // 2, total - total // 2), strict=True):
        machines[alike[at]] = part
        units[ways[at]] = part
    share = cheapest_split(found.problem, units)
    assert share is not None
    one = rated(posed, found.problem, replace(found.mix, machines=machines, units=units, share=share))
    assert one.is_sound
    return one


def test_machines_that_are_alike_gather_in_one_region_at_the_same_cost(posed: Posed, spread: Rated) -> None:
    one = gathered(posed, spread)
    assert np.count_nonzero(spread.mix.machines) == 2
    assert np.count_nonzero(one.mix.machines) == 1
    assert one.mix.machines.sum() == spread.mix.machines.sum()
    assert one.mix.usd_per_hour == pytest.approx(spread.mix.usd_per_hour)
    assert one.is_sound


def test_they_move_to_the_cleaner_grid_and_stay_where_none_is_known(posed: Posed, spread: Rated) -> None:
    one = gathered(posed, spread)
    clean = on_cleaner_grids(posed, one, {("aws", "us-east-1"): 400.0, ("aws", "us-east-2"): 100.0})
    assert {posed.offers[int(o)].region for o in np.flatnonzero(clean.mix.machines)} == {"us-east-2"}
    assert on_cleaner_grids(posed, one, {}) is one


def test_users_go_to_the_nearest_and_farther_only_where_that_is_full(posed: Posed, spread: Rated) -> None:
    near, trips = nearest(posed, spread), round_trips_s(posed)
    assert near.is_sound
    assert np.sum(trips * near.mix.share) <= np.sum(trips * spread.mix.share) + 1e-6
    assert near.mix.machines.tolist() == spread.mix.machines.tolist()


def test_where_a_region_may_be_lost_nothing_gathers(posed: Posed, spread: Rated) -> None:
    lost = replace(spread, problem=replace(spread.problem, losses=(object(),)))  # type: ignore[arg-type]
    assert gathered(posed, lost) is lost


def test_without_a_solver_or_without_users_in_places_everything_stays(
    posed: Posed, spread: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    placeless = replace(posed, services=tuple(replace(service, reach=None) for service in posed.services))
    assert nearest(placeless, spread) is spread
    assert not round_trips_s(placeless).any()
    monkeypatch.setattr(mixes_gathered, "is_installed", lambda: False)
    known = {("aws", "us-east-1"): 400.0, ("aws", "us-east-2"): 100.0}
    assert gathered(posed, spread) is on_cleaner_grids(posed, spread, known) is nearest(posed, spread) is spread


def test_a_split_that_does_not_hold_is_not_taken(posed: Posed, spread: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    unsound = replace(spread, missing_units=spread.mix.units + 1.0)
    monkeypatch.setattr(mixes_gathered, "rated", lambda *_: unsound)
    assert nearest(posed, spread) is gathered(posed, spread) is spread
    monkeypatch.setattr(mixes_gathered, "cheapest_split", lambda *_: None)
    assert nearest(posed, spread) is gathered(posed, spread) is spread
