"""Prices grow older: what one likely pays by now, and who wins then."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.calibrate.price_drift import Move, every_move
from tools.calibrate.price_drift import drifts as drifts_of

from gpufleet.api import plan_batch, plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.price_drift import (
    EVERY_CLASS,
    LONGEST_DAYS,
    MOVING,
    PriceDrift,
    aged,
    drift_of_provider,
    likely_usd_ratio,
    moved_between,
    price_drifts,
)
from gpufleet.catalog.provider_classes import easily_had_gpus, providers
from gpufleet.catalog.spot_age import load_spot_age
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import Placement

TODAY = date(2026, 10, 10)
QUESTION = {"rate": "5/s", "input_tokens": 1000, "output_tokens": 200, "slo": "tpot.p95<60ms"}
drifts = st.builds(
    PriceDrift, st.just("x"), st.just("spot"), st.floats(0.5, 2), st.floats(0, 1), st.just(9), st.just("s")
)


def offer(cloud: str, instance: str, usd: float, days: int = 0, **said: object) -> Offer:
    day = TODAY - timedelta(days=days)
    return replace(
        Offer(cloud, "anywhere", instance, PriceKind.ON_DEMAND, usd, PriceBasis.LIST, "gpu-rental-prices", day), **said
    )


def selling(*offers: Offer) -> Catalog:
    return replace(load_catalog(), offers=list(offers))


@given(drifts, st.integers(0, 1000), st.integers(0, 1000))
def test_a_price_of_more_days_is_likely_no_less_by_now(drift: PriceDrift, some: int, more: int) -> None:
    first, second = sorted((some, more))
    assert 1 <= likely_usd_ratio(drift, first) <= likely_usd_ratio(drift, second)
    assert likely_usd_ratio(drift, LONGEST_DAYS) == likely_usd_ratio(drift, LONGEST_DAYS + second)
    low, high = moved_between(drift, second)
    assert low <= high


def test_what_is_of_today_ones_own_undated_or_binding_is_what_it_says() -> None:
    small = offer("verda", "1H100.80S.32V", 2.0, days=100)
    assert aged(small, price_drifts(), TODAY).age_ratio > 1.05
    for each in (
        offer("verda", "1H100.80S.32V", 2.0),
        replace(small, is_own=True),
        replace(small, first_seen=TODAY),
        replace(small, price_kind=PriceKind.COMMIT_1Y),
        replace(small, cloud="aws"),
    ):
        assert aged(each, price_drifts(), TODAY) == each


def test_a_provider_that_nobody_watched_moves_as_its_class_does_or_as_all_do() -> None:
    found = price_drifts()
    assert drift_of_provider(found, "genesis-cloud", PriceKind.ON_DEMAND) == found["small", "on_demand"]
    assert drift_of_provider(found, "somebody-new", PriceKind.ON_DEMAND) == found["unknown", "on_demand"]
    assert found["unknown", "on_demand"].mean_ratio == found[EVERY_CLASS, "on_demand"].mean_ratio


def test_drifts_are_of_classes_and_of_watched_providers_and_of_kinds_that_move() -> None:
    assert {kind for _, kind in price_drifts()} == {kind.value for kind in MOVING}
    assert set(providers()) & {who for who, _ in price_drifts()} >= {"aws", "azure", "gcp", "verda", "runpod"}
    assert set(easily_had_gpus()) <= {who for who, _ in price_drifts()}


@pytest.mark.parametrize(("age_ratio", "winner"), [(1.05, "verda"), (1.15, "aws")])
def test_an_old_price_wins_only_where_what_it_likely_is_by_now_wins(age_ratio: float, winner: str) -> None:
    """9 % below a fresh price: more than a rise of 5 %, less than one of 15 %."""
    tables = selling(offer("aws", "p5.4xlarge", 3.0), offer("verda", "1H100.80S.32V", 2.75, 100, age_ratio=age_ratio))
    for plan in (
        plan_serve("llama-3.1-8b", tables, **QUESTION),
        plan_batch("llama-3.1-8b", tables, requests="100k", input_tokens=1000, output_tokens=200, deadline="24h"),
    ):
        assert plan.answer.cloud == winner
        told = getattr(plan, "undated_alternative", None) or getattr(plan, "unmeasured_alternative", None)
        assert (told is not None and told.cloud == "verda") == (winner == "aws")


def test_a_question_that_only_old_prices_answer_is_answered_and_says_what_is_likely() -> None:
    tables = replace(selling(offer("verda", "1H100.80S.32V", 2.75, 100, age_ratio=1.2)), now=TODAY)
    plan = plan_serve("llama-3.1-8b", tables, **QUESTION)
    assert plan.answer.usd_per_hour == pytest.approx(2.75 * plan.answer.instance_count)
    assert plan.answer.price_age_ratio == 1.2
    assert any(f"${plan.answer.usd_per_hour * 1.2:,.2f}/h by now" in note for note in plan.notes)


def test_the_shipped_table_is_what_moves_teach() -> None:
    learnt = drifts_of(every_move())
    assert {(d.who, d.price_kind): (round(d.mean_ratio, 4), round(d.spread, 4)) for d in learnt} == {
        key: (d.mean_ratio, d.spread) for key, d in price_drifts().items()
    }


def test_moves_that_one_provider_alone_makes_do_not_move_its_class() -> None:
    still = [Move(name, "on_demand", date(2026, 5, 1), date(2026, 9, 1), 0.0) for name in ("vultr", "ovh", "scaleway")]
    risen = Move("digitalocean", "on_demand", date(2026, 5, 1), date(2026, 9, 1), 0.5)
    found = {d.who: d.mean_ratio for d in drifts_of([*still, risen])}
    assert found["established"] == 1 < found["digitalocean"] < math.exp(0.5)


def test_machines_on_demand_beside_spot_of_an_old_list_count_by_their_own_age() -> None:
    """Three of four on spot at 1.00, by now 2.00, one on demand at 3.00 of today: 6.00 by list, 9.00 by now."""
    steady = offer("aws", "p5.4xlarge", 3.0)
    spot = replace(steady, price_kind=PriceKind.SPOT, price_per_instance_usd_per_hour=1.0, age_ratio=2.0)
    machine = load_catalog().instances["aws", "p5.4xlarge"]
    placed = PricedPlacement(Placement(machine, 0, 4, 4, 1), spot, steady, most_spot_ratio=0.75)
    assert (placed.usd_per_hour, placed.likely_usd_per_hour) == (6.0, 9.0)


def test_no_year_is_too_late_for_the_age_of_a_price() -> None:
    assert load_spot_age().high_ratio(3_000_000) == load_spot_age().most.value
    assert load_spot_age().high_ratio(0) == 1.0
