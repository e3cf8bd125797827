"""Electricity of a site and what it emits, with its range."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.domain.interruption import Spread
from gpufleet.pricing.energy import (
    per_million_tokens,
    product_of,
    site_g_co2_per_hour,
    site_kwh_per_hour,
    usd_per_kg_saved,
)

ONE = Spread(1.0, 1.0, 1.0)


def test_a_site_draws_more_than_its_gpus_and_a_better_site_less() -> None:
    gpus, machines = Spread(2.0, 2.8, 5.6), Spread(1.25, 1.5, 1.82)
    good, bad = (site_kwh_per_hour(gpus, machines, Spread(ratio, ratio, ratio)) for ratio in (1.1, 1.5))
    assert gpus.expected < good.expected < bad.expected
    assert good.expected == pytest.approx(2.8 * 1.5 * 1.1)
    alone = site_kwh_per_hour(gpus, ONE, ONE)
    assert (alone.low, alone.expected, alone.high) == pytest.approx((2.0, 2.8, 5.6))


def test_ranges_multiply_as_independent_factors_do() -> None:
    generator = np.random.default_rng(7)
    spreads = [Spread(5.0, 10.0, 20.0), Spread(1.0, 1.2, 1.44), Spread(50.0, 100.0, 200.0)]
    z90 = 1.2815515655446004
    drawn = np.prod(
        [s.expected * (s.high / s.expected) ** (generator.standard_normal(400_000) / z90) for s in spreads], axis=0
    )
    found = product_of(*spreads)
    assert [found.low, found.expected, found.high] == pytest.approx(np.percentile(drawn, [10, 50, 90]), rel=0.02)


def test_a_grid_without_carbon_emits_nothing_and_one_that_may_be_clean_has_a_low_end_of_nothing() -> None:
    kwh = Spread(1.0, 2.0, 3.0)
    assert site_g_co2_per_hour(kwh, Spread(0.0, 0.0, 0.0)) == Spread(0.0, 0.0, 0.0)
    assert site_g_co2_per_hour(kwh, Spread(0.0, 10.0, 20.0)).low == 0.0


def test_a_million_tokens_of_a_thousand_a_second_take_a_thousand_seconds() -> None:
    assert per_million_tokens(Spread(360.0, 720.0, 1080.0), 1000.0).expected == pytest.approx(200.0)


def test_a_saved_kilogram_has_a_price_that_may_be_below_zero() -> None:
    assert usd_per_kg_saved(1.0, 500.0) == 2.0
    assert usd_per_kg_saved(-1.0, 500.0) == -2.0
    assert usd_per_kg_saved(1.0, 0.0) is None
