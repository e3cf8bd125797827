"""Availability of spot machines on AWS, skypilot-org/spot-traces 221da1a (Can't Be Late, NSDI 24), and what is drawn.

Figures of the traces are ours, on ticks of 10 minutes that count as available only if every point in them is. Draws are
by the fit to traces of 2022; what is compared is of 2023, which that fit never saw. Misses are named.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from tools.calibrate.spot_availability import jobs_on, means_of, runs_s, tick_correlations
from tools.calibrate.spot_policies import CELLS, POLICIES

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.spot_availability import ALL, UNTIL_2022, load_availability_fit, load_measured_zones
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.availability import MeasuredZone
from gpufleet.simulate.spot_availability import drawn_zones, generated_nodes
from gpufleet.units import HOUR

MEASURED = load_measured_zones()
FEBRUARY = [m for m in MEASURED if m.began == "2023-02-15"]
UNSEEN = load_availability_fit(UNTIL_2022)
NUM_TICKS, NUM_TRACES = 3000, 24
COSTS = {
    (0.02, 52, "greedy"): (100.34, 0.06),
    (0.02, 52, "uniform progress"): (86.44, 0.05),
    (0.02, 70, "greedy"): (79.00, 0.05),
    (0.02, 70, "uniform progress"): (73.79, 0.07),
    (0.02, 92, "greedy"): (66.75, 0.10),
    (0.02, 92, "uniform progress"): (67.58, 0.10),
    (0.20, 52, "greedy"): (112.13, 0.06),
    (0.20, 52, "uniform progress"): (103.10, 0.06),
    (0.20, 70, "greedy"): (86.47, 0.05),
    (0.20, 70, "uniform progress"): (81.59, 0.06),
    (0.20, 92, "greedy"): (73.31, 0.10),
    (0.20, 92, "uniform progress"): (74.10, 0.10),
}
"""USD of a 48 h job, mean over hourly starts and the nine zones of February 2023, and how far draws may lie."""


@cache
def drawn(measured: MeasuredZone) -> list[BoolArray]:
    seed = sum(map(ord, measured.zone.name))
    nodes = generated_nodes(np.random.default_rng(seed), UNSEEN, [measured.zone], NUM_TICKS, NUM_TRACES)
    return [trace > 0 for trace in nodes[:, 0]]


def test_traces_are_of_zones_that_differ_and_have_heavy_tails() -> None:
    """One V100 was to be had 14 to 90 % of the time; an exponential's mean is 1.44 times its median, theirs 2 to 8."""
    assert len(MEASURED) == 27
    shares = [m.zone.availability_ratio for m in FEBRUARY]
    assert (min(shares), max(shares)) == (pytest.approx(0.14, abs=0.005), pytest.approx(0.895, abs=0.005))
    ratios = [m.zone.mean_up_s / m.median_up_s for m in FEBRUARY]
    assert min(ratios) > 2 > 1 / math.log(2)
    assert all(m.source_id in load_catalog().sources for m in MEASURED)


@pytest.mark.parametrize("measured", FEBRUARY, ids=lambda m: m.zone.name)
def test_median_runs_of_unseen_zones_are_drawn_in_order(measured: MeasuredZone) -> None:
    """A miss: zones up most of the time flicker less than drawn ones, whose median runs are half as long and less."""
    median_s = np.median(np.concatenate([runs_s(up) for up in drawn(measured)]))
    least = 0.7 if measured.zone.availability_ratio < 0.6 else 0.28
    assert least < median_s / measured.median_up_s < 1.15


def test_unseen_zones_stay_up_as_drawn_ones_do() -> None:
    """Autocorrelation of availability over the nine, after 1, 3, 6, 12 and 24 hours; a miss: 12 h, where drawn days
    differ too little."""
    found = np.mean([tick_correlations(drawn(m)) for m in FEBRUARY], axis=0)
    assert found == pytest.approx([0.57, 0.37, 0.27, 0.11, 0.26], abs=0.16)
    assert np.delete(found, 3) == pytest.approx([0.57, 0.37, 0.27, 0.26], abs=0.12)


@pytest.mark.slow
def test_jobs_cost_on_draws_what_they_cost_on_unseen_traces() -> None:
    """And are never late on either: the policies have a safety net."""
    found = np.mean([means_of(jobs_on(drawn(m), 48)) for m in FEBRUARY], axis=0)
    cells = [(overhead_s / HOUR, deadline_s / HOUR, policy) for overhead_s, deadline_s in CELLS for policy in POLICIES]
    ratios = {cell: usd / COSTS[cell][0] for cell, (usd, _) in zip(cells, found, strict=True)}
    far = {cell: ratio for cell, ratio in ratios.items() if abs(ratio - 1) > COSTS[cell][1]}
    assert far == {}
    assert abs(np.mean(list(ratios.values())) - 1) < 0.03
    assert np.all(found[:, 1] == 0)


@pytest.mark.parametrize(
    ("region", "any_up", "all_up"),
    [("us-east-1", 0.677, 0.102), ("us-east-2", 0.794, 0.614), ("us-west-2", 0.954, 0.783)],
)
def test_zones_of_a_region_are_lost_together_as_unseen_ones_were(region: str, any_up: float, all_up: float) -> None:
    """Share of February 2023 with any zone of a region up, and with all; the fit had four pairs of one region.

    A miss, not held here: in the week of April 2023 any zone of two was up 56 and 79 % of the time, drawn 71 and 89.
    """
    zones = [m.zone for m in FEBRUARY if m.zone.region == region]
    up = generated_nodes(np.random.default_rng(1), UNSEEN, zones, NUM_TICKS, 150) > 0
    assert up.any(axis=1).mean() == pytest.approx(any_up, abs=0.06)
    assert up.all(axis=1).mean() == pytest.approx(all_up, abs=0.05)


def test_drawn_zones_differ_as_measured_ones_do() -> None:
    """All single-node traces beside zones drawn from nothing: middle and ends of availability and mean time up."""
    zones = drawn_zones(np.random.default_rng(18), load_availability_fit(ALL), 4000)
    shares = np.quantile([zone.availability_ratio for zone in zones], (0.1, 0.5, 0.9))
    hours = np.quantile([zone.mean_up_s / HOUR for zone in zones], (0.1, 0.5, 0.9))
    single = [m.zone for m in MEASURED if m.num_nodes == 1]
    assert shares == pytest.approx(np.quantile([z.availability_ratio for z in single], (0.1, 0.5, 0.9)), abs=0.1)
    assert hours == pytest.approx(np.quantile([z.mean_up_s / HOUR for z in single], (0.1, 0.5, 0.9)), rel=0.3)


def test_sixteen_nodes_are_had_a_little_less_than_one() -> None:
    """The traces of 16 nodes: all of them 40 to 43 % of the time, one at least 42 to 61 %."""
    sixteen = [m for m in MEASURED if m.num_nodes == 16]
    assert [round(m.zone.availability_ratio, 2) for m in sixteen] == [0.43, 0.40, 0.40]
    zone = sixteen[0].zone
    nodes = generated_nodes(np.random.default_rng(1), load_availability_fit(ALL), [zone], 3000, 40, most_nodes=16)
    assert (nodes >= 1).mean() - (nodes >= 16).mean() == pytest.approx(np.mean([0.18, 0.03, 0.02]), abs=0.05)
