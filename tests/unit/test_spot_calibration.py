"""The fit of spot availability: finds again what was drawn, and the policies that judge it cost what they must."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tools.calibrate.spot_availability import (
    correlation_at,
    correlation_between,
    fit_of,
    fitted_shape,
    least_squares,
    runs_s,
    traces_in,
)
from tools.calibrate.spot_moves import Said, moved_ratio, questions
from tools.calibrate.spot_policies import CELLS, ON_DEMAND_USD_PER_HOUR, POLICIES, SPOT_USD_PER_HOUR, cost_and_lateness

from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.domain.availability import SpotZone
from gpufleet.simulate.spot_availability import capacity_correlation, generated_nodes, lost_per_tick, paces_of
from gpufleet.units import HOUR

FIT, TICK_S, WORK_HOURS = load_availability_fit(), 600.0, 48


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("overhead_s", "deadline_s"), CELLS)
def test_a_job_costs_spot_alone_or_on_demand_alone(policy: str, overhead_s: float, deadline_s: float) -> None:
    """Of two traces, one always up and one never; Uniform Progress starts on demand again and again."""
    up = np.stack([np.ones(600, dtype=bool), np.zeros(600, dtype=bool)])
    (spot, on_demand), late = cost_and_lateness(up, TICK_S, policy, overhead_s, deadline_s)
    hours = WORK_HOURS + overhead_s / HOUR
    assert spot == pytest.approx(hours * SPOT_USD_PER_HOUR)
    dearest = {"greedy": 1.0, "uniform progress": 1.25}[policy]
    assert 1 - 1e-9 <= on_demand / (hours * ON_DEMAND_USD_PER_HOUR) <= dearest + 1e-9
    assert late.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_job_is_late_on_the_worst_of_traces(policy: str) -> None:
    """Ticks up and down in turn lose a start each time; ticks up until the net is near tempt to the last."""
    num = 600
    up = np.stack([np.arange(num) % 2 == 0, np.arange(num) % 3 > 0, np.arange(num) < 20, np.arange(num) > 20])
    for overhead_s, deadline_s in CELLS:
        usd, late_s = cost_and_lateness(up, TICK_S, policy, overhead_s, deadline_s)
        assert np.all(late_s == 0)
        assert np.all(usd < WORK_HOURS * ON_DEMAND_USD_PER_HOUR * 1.5)


def test_a_market_moves_by_the_least_that_holds_what_ranges_promise() -> None:
    """Half of the jobs cost what was said, each other one a tenth more of what is possible."""
    question = next(questions())
    still = Said.of(question, np.full(10, 80.0), np.full(10, 80.0))
    dearer = still._replace(usd=80.0 + (still.moving.most - still.moving.least) * np.arange(10) / 10)
    assert moved_ratio([still]) == 0.0
    assert moved_ratio([still, dearer]) == pytest.approx(0.5)
    assert moved_ratio([dearer]) == pytest.approx(0.7)


@pytest.mark.slow
def test_the_fit_finds_again_what_was_drawn(tmp_path: Path) -> None:
    """Traces of six zones, written as SkyPilot writes them: the correlation over a day comes back."""
    shares, ups_h = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8), (1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
    named = zip("abcdef", shares, ups_h, strict=True)
    zones = [SpotZone(f"us-{c}-1a", f"us-{c}-1", share, up_h * HOUR) for c, share, up_h in named]
    nodes = generated_nodes(np.random.default_rng(4), FIT, zones, 20_000)[0]
    for zone, row in zip(zones, nodes, strict=True):
        trace = {"metadata": {"gap_seconds": 600}, "data": row.tolist()}
        path = tmp_path / f"availability_1-node_aws-02-15-2031_{zone.name}_v100_1.json"
        path.write_text(json.dumps(trace), encoding="utf-8")
    traces = traces_in(tmp_path)
    assert (traces[0].year, traces[0].zone, traces[0].region, traces[0].num_nodes) == ("2031", "us-a-1a", "us-a-1", 1)
    found, lags = fit_of(fitted_shape(traces)), np.array([1, 3, 6, 18, 36, 72, 144]) * TICK_S
    said, true = (
        capacity_correlation(fit, lags, paces_of(fit, zones)[:, np.newaxis]).mean(axis=0) for fit in (found, FIT)
    )
    assert said == pytest.approx(true, abs=0.08)


def test_correlations_are_read_off_counts() -> None:
    assert correlation_at(0.4, float(lost_per_tick(0.4, 0.8))) == pytest.approx(0.8, abs=1e-6)
    first, second = np.random.default_rng(2).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 40_000).T
    assert correlation_between(first > 0.5, second > -0.3) == pytest.approx(0.6, abs=0.03)


def test_least_squares_finds_the_bottom() -> None:
    """Rosenbrock's valley, as squares."""
    found = least_squares(lambda x: np.array([1 - x[0], 3 * (x[1] - x[0] ** 2)]), np.array([-1.0, 1.0]))
    assert found == pytest.approx([1.0, 1.0], abs=1e-3)


def test_runs_are_as_long_as_they_last() -> None:
    assert runs_s(np.array([True, True, False, True])).tolist() == [1200.0, 600.0]


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit, match="not named as a trace"):
        traces_in(tmp_path)
