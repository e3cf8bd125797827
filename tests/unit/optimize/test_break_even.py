"""From which rate on machines cost no more than an API, against costs at many rates."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.api.setups import narrowed, parse_setup, whole_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.break_even import break_even_rates
from gpufleet.optimize.crossover import CostCurve
from gpufleet.optimize.service import solve_serve
from gpufleet.pricing.token_price import TokenPrice
from gpufleet.questions.fields import ServeRequest

CHAT = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<100ms")


@pytest.mark.parametrize(
    ("gpus", "usd_per_million"),
    [("L4", 0.2), ("L4", 0.3), ("L4", 0.5), ("L40S", 0.0688), ("L40S", 0.07), ("L40S", 0.2), ("H100", 0.05)],
)
def test_the_first_rate_breaks_even_and_from_the_settled_one_on_every_rate_does(
    gpus: str, usd_per_million: float
) -> None:
    """4,000 rates below the first, between both and a hundred times beyond; the cost changes in steps."""
    tables, price = load_catalog(), TokenPrice(usd_per_million, usd_per_million)
    question, _ = narrowed(CHAT, whole_question(CHAT, tables), tables, parse_setup(gpus, tables))
    solution = solve_serve(question, calibration_of(tables))
    curve, found = CostCurve.of(question, solution), break_even_rates(question, solution, price)
    first, settled = found.first_requests_per_s, found.settled_requests_per_s
    rates = np.geomspace(0.01, 1000.0 if first is None else first * 99, 4000)
    is_dear = counted_usd(curve, rates) > rates * price.usd_per_hour(1.0, 1000, 200) * (1 + 1e-6)
    if first is None:
        assert is_dear.all()
        return
    assert is_dear[rates < first].all()
    assert not is_dear[rates >= first * (1 + 1e-6)][0]
    if settled is None:
        assert is_dear[rates > first * 90].any()
        return
    assert not is_dear[rates >= settled].any()
    just_below = np.array([settled * (1 - 1e-9)])
    is_dear_there = counted_usd(curve, just_below) > just_below * price.usd_per_hour(1.0, 1000, 200)
    assert settled == first or is_dear_there.all()


def counted_usd(curve: CostCurve, rates: FloatArray) -> FloatArray:
    """What the machines that are chosen count by the age of their price."""
    every = np.arange(len(curve.contest.offers))
    counts = curve.contest.counts(curve.found, curve.demand, rates)
    chosen = curve.contest.costs(curve.found, curve.demand, rates)
    usd = np.where(np.isfinite(chosen), curve.contest.likely_usd_of(every, counts, curve.demand), np.inf)
    return np.asarray(usd[chosen.argmin(axis=0), np.arange(len(rates))])
