"""What answers and copies of weights cost on their way out."""

from __future__ import annotations

import math
from datetime import date

import pytest

from gpufleet.domain.egress import EgressPrice, EgressTier
from gpufleet.pricing.egress import (
    answers_gb_per_month,
    answers_usd_per_month,
    copy_usd,
    egress_usd_per_month,
    is_at_most,
)
from gpufleet.provenance import Sourced

STREAMED = Sourced(250.0, "bytes/token", "judgement", 180.0, 400.0, 0)


def price(*tiers: tuple[float, float, float]) -> EgressPrice:
    return EgressPrice("aws", "us-east-1", "", tuple(EgressTier(*tier) for tier in tiers), "s", date(2026, 6, 1))


FALLING = price((0, 100, 0.0), (100, 10_240, 0.09), (10_240, math.inf, 0.05))


@pytest.mark.parametrize(("gb", "usd"), [(0, 0), (100, 0), (101, 0.09), (10_240, 912.6), (20_240, 1412.6)])
def test_each_gigabyte_costs_the_price_of_its_tier(gb: float, usd: float) -> None:
    assert egress_usd_per_month(gb, FALLING) == pytest.approx(usd)


def test_more_never_costs_less() -> None:
    costs = [egress_usd_per_month(gb, FALLING) or 0.0 for gb in range(0, 30_000, 250)]
    assert costs == sorted(costs)


def test_beyond_the_published_tiers_the_last_price_is_the_most() -> None:
    known = price((0, 10_240, 0.15))
    assert egress_usd_per_month(20_480.0, known) == pytest.approx(20_480 * 0.15)
    assert is_at_most(20_480.0, known)
    assert not is_at_most(10_240.0, known)


def test_beyond_a_free_allowance_nothing_is_known() -> None:
    allowance = price((0, 10_240, 0.0))
    assert egress_usd_per_month(10_240.0, allowance) == 0
    assert egress_usd_per_month(10_241.0, allowance) is None
    assert answers_usd_per_month(100.0, 500.0, STREAMED, allowance) is None


def test_streamed_answers_cost_by_their_range_of_bytes() -> None:
    spread = answers_usd_per_month(100.0, 500.0, STREAMED, price((0, math.inf, 0.1)))
    assert spread is not None
    assert spread.expected == pytest.approx(answers_gb_per_month(100.0, 500.0, 250.0) * 0.1)
    assert spread.high / spread.low == pytest.approx(400 / 180)


def test_a_copy_of_seventy_billion_weights_to_another_region() -> None:
    assert copy_usd(141e9, price((0, math.inf, 0.02))) == pytest.approx(2.82)
    assert copy_usd(141e9, None) is None


@pytest.mark.parametrize(
    "tiers", [((100, 200, 0.1),), ((0, 100, 0.1), (50, 200, 0.1)), ((0, 0, 0.1),), ((0, 100, -0.1),)]
)
def test_tiers_with_a_gap_an_overlap_or_a_negative_price_are_refused(tiers: tuple[tuple[float, float, float]]) -> None:
    with pytest.raises(ValueError, match="tiers of egress follow each other from 0 GB"):
        price(*tiers)
