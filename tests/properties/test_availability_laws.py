"""Laws of availability: of traces on other ticks, and of traces that are drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.spot_availability import ALL, UNTIL_2022, load_availability_fit
from gpufleet.domain.availability import Availability, SpotZone
from gpufleet.errors import UsageError
from gpufleet.provenance import Grade
from gpufleet.simulate.spot_availability import (
    capacity_correlation,
    drawn_zones,
    generated_availability,
    generated_nodes,
    levels_of,
    lost_per_tick,
    mean_up_s,
    paces_of,
    spare_capacity,
    zone_of_interruptions,
    zones_of_band,
    zones_seen,
)
from gpufleet.units import DAY, HOUR

FIT = load_availability_fit()
ZONES = (SpotZone("r-a", "r", 0.7, 3 * HOUR), SpotZone("r-b", "r", 0.7, 3 * HOUR), SpotZone("s-a", "s", 0.7, 3 * HOUR))


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(
    nodes=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    tick_s=st.sampled_from([32.0, 150.0, 195.0, 600.0, 1000.0]),
    other_s=st.sampled_from([60.0, 195.0, 600.0, 3600.0]),
)
def test_a_tick_has_the_fewest_nodes_of_the_points_in_it(nodes: list[int], tick_s: float, other_s: float) -> None:
    """Brute force: of the points whose time lies in the tick; of none, the last one before."""
    found = Availability(tick_s, ("a",), np.array([nodes])).regridded(other_s)[0]
    assert len(found) == int(len(nodes) * tick_s // other_s)
    for tick, fewest in enumerate(found.tolist()):
        times = [i * tick_s for i in range(len(nodes))]
        inside = [n for n, t in zip(nodes, times, strict=True) if tick * other_s <= t < (tick + 1) * other_s]
        before = [n for n, t in zip(nodes, times, strict=True) if t < tick * other_s]
        assert fewest == (min(inside) if inside else before[-1])


@given(st.lists(st.integers(0, 4), min_size=12, max_size=60), st.integers(1, 4))
def test_longer_ticks_and_more_nodes_are_never_more_available(nodes: list[int], wanted: int) -> None:
    seen = Availability(300.0, ("a",), np.array([nodes]))
    fine, coarse = seen.available(wanted, 300.0)[0], seen.available(wanted, 900.0)[0]
    assert np.array_equal(coarse, fine[: 3 * len(coarse)].reshape(-1, 3).all(axis=1))
    assert np.all(seen.available(wanted + 1, 900.0)[0] <= coarse)


@pytest.mark.parametrize("nodes", [np.zeros((1, 0)), np.zeros(3), np.array([[-1]]), np.zeros((2, 3))])
def test_what_is_no_availability_is_refused_at_birth(nodes: np.ndarray) -> None:
    with pytest.raises(ValueError, match="availability"):
        Availability(600.0, ("a",), nodes.astype(np.int64))


def test_zones_without_sense_are_refused_at_birth() -> None:
    for ratio, up_s in ((1.1, 60.0), (math.nan, 60.0), (0.5, 0.0), (0.5, math.nan)):
        with pytest.raises(ValueError, match="spot zone"):
            SpotZone("a", "r", ratio, up_s)


def test_the_same_seed_draws_the_same_trace() -> None:
    first, again, other = (generated_nodes(dice(seed), FIT, ZONES, 500, most_nodes=4) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ratio=st.floats(0.0, 1.0), up_h=st.floats(0.2, 200.0), num=st.integers(1, 700))
def test_any_zone_can_be_drawn(seed: int, ratio: float, up_h: float, num: int) -> None:
    zone = SpotZone("a", "r", ratio, up_h * HOUR)
    nodes = generated_nodes(dice(seed), FIT, [zone], num, num_traces=2, most_nodes=16)
    assert nodes.shape == (2, 1, num)
    assert nodes.min() >= (16 if ratio == 1 else 0)
    assert nodes.max() <= (0 if ratio == 0 else 16)


def test_more_nodes_are_never_more_available() -> None:
    """The same weather, whatever the most nodes that are asked for."""
    many = generated_nodes(dice(), FIT, ZONES, 3000, most_nodes=16)
    one = generated_nodes(dice(), FIT, ZONES, 3000, most_nodes=1)
    assert np.array_equal(many >= 1, one >= 1)
    shares = [(many >= n).mean() for n in (1, 2, 4, 8, 16)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [ALL, UNTIL_2022])
@pytest.mark.parametrize(("ratio", "up_h"), [(0.15, 0.8), (0.5, 1.2), (0.9, 10.0), (0.9, 4.4)])
def test_zones_are_up_as_often_and_as_long_as_asked(name: str, ratio: float, up_h: float) -> None:
    zone, fit = SpotZone("a", "r", ratio, up_h * HOUR), load_availability_fit(name)
    up = generated_nodes(dice(3), fit, [zone], 1000, num_traces=1500)[:, 0] > 0
    lost = (up[:, 1:] < up[:, :-1]).mean()
    assert up.mean() == pytest.approx(ratio, abs=0.02)
    assert up.mean() / lost * fit.tick_s == pytest.approx(up_h * HOUR, rel=0.08)


@pytest.mark.slow
def test_spare_capacity_is_normal_and_correlated_over_time_as_the_formula_says() -> None:
    zone = ZONES[:1]
    drawn = spare_capacity(dice(5), FIT, zone, 600, num_traces=1500)[:, 0]
    assert drawn.mean() == pytest.approx(0.0, abs=0.05)
    assert drawn.var() == pytest.approx(1.0, abs=0.03)
    for lag in (1, 6, 72, 144, 400):
        said = capacity_correlation(FIT, lag * FIT.tick_s, paces_of(FIT, zone))[0]
        assert (drawn[:, lag:] * drawn[:, :-lag]).mean() == pytest.approx(said, abs=0.05)


@pytest.mark.slow
def test_zones_of_a_region_fail_together_others_less() -> None:
    drawn = spare_capacity(dice(6), FIT, ZONES, 600, num_traces=1200)
    together = np.einsum("tix,tjx->ij", drawn, drawn) / drawn[:, 0].size
    assert together[0, 1] == pytest.approx(FIT.value("region_ratio"), abs=0.05)
    assert together[0, 2] == pytest.approx(FIT.value("everywhere_ratio"), abs=0.05)


def test_losses_follow_sheppard_and_fall_with_the_pace() -> None:
    """Sheppard 1899: a pair of normals has different signs with probability acos(r) / pi."""
    for r in (-0.5, 0.0, 0.5, 0.99):
        assert lost_per_tick(0.0, r) == pytest.approx(math.acos(r) / (2 * math.pi), rel=1e-9)
    assert lost_per_tick(1.0, 0.0) == pytest.approx(0.8413447 * 0.1586553, rel=1e-6)
    correlations = capacity_correlation(FIT, FIT.tick_s, np.array([0.1, 1.0, 10.0, 100.0]))
    assert np.all(np.diff(correlations) > 0)
    assert np.all(np.diff(lost_per_tick(0.5, correlations)) < 0)


def test_the_shares_of_every_fit_make_one_and_its_zones_share_less_than_all() -> None:
    for fit in map(load_availability_fit, (ALL, UNTIL_2022)):
        assert capacity_correlation(fit, 0.0) == pytest.approx(1.0, abs=1e-3)
        assert 0 <= fit.value("everywhere_ratio") <= fit.value("region_ratio") <= 1
        assert fit.value("fast_s") < fit.value("middle_s") < fit.value("slow_s")


def test_a_draw_beyond_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="too much availability to draw"):
        generated_nodes(dice(), FIT, ZONES, 10_000_000)


def test_drawn_zones_stand_in_their_regions_and_differ() -> None:
    zones = drawn_zones(dice(1), FIT, 60, num_regions=2)
    assert [zone.name for zone in zones[:4]] == ["region-1a", "region-2a", "region-1b", "region-2b"]
    assert {zone.region for zone in zones} == {"region-1", "region-2"}
    assert len({zone.name for zone in zones}) == 60
    assert np.ptp([zone.availability_ratio for zone in zones]) > 0.5
    assert generated_availability(dice(), FIT, zones, 100).zones == tuple(zone.name for zone in zones)


def test_a_band_is_the_optimistic_end() -> None:
    """Machines of the advisor's lowest band are lost once in years, and drawn as never up or down by chance alone."""
    interruptions = load_interruptions()
    shares = [zones_of_band("a", "r", interruptions, band)[1] for band in ("<5%", "5-10%", ">20%", None)]
    assert [zone.availability_ratio for zone in shares] == sorted((z.availability_ratio for z in shares), reverse=True)
    assert all(zone.grade is Grade.TRANSFERRED for zone in shares)
    assert zones_of_band("a", "r", interruptions, "<5%")[0].availability_ratio == 1.0
    low, expected, high = zones_of_band("a", "r", interruptions, ">20%")
    assert low.mean_up_s > expected.mean_up_s > high.mean_up_s


@pytest.mark.parametrize("per_hour", [0.0000347, 0.000107, 0.0005, 0.00439, 0.447])
def test_a_rate_of_interruptions_is_the_rate_of_the_draws(per_hour: float) -> None:
    """What the pace is solved for: losses per tick of time up, from rates of a month to rates of hours."""
    zone = zone_of_interruptions("a", "r", per_hour, wait_s=1.25 * HOUR)
    correlation = capacity_correlation(FIT, FIT.tick_s, paces_of(FIT, [zone]))
    lost = lost_per_tick(levels_of([zone.availability_ratio]), correlation)[0] / zone.availability_ratio
    assert lost * HOUR / FIT.tick_s == pytest.approx(per_hour, rel=1e-3)


def test_a_zone_that_was_drawn_is_seen_as_it_was_asked_for() -> None:
    asked = SpotZone("a", "r", 0.6, 2 * HOUR)
    [seen] = zones_seen(generated_availability(dice(2), FIT, [asked], int(200 * DAY / FIT.tick_s)), ["r"], FIT.tick_s)
    assert seen.grade is Grade.MEASURED
    assert seen.availability_ratio == pytest.approx(0.6, abs=0.08)
    assert seen.mean_up_s == pytest.approx(2 * HOUR, rel=0.15)
    assert mean_up_s(np.ones(5, dtype=bool), 600.0) == math.inf
