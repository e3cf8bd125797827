"""Spot at the price of an old list: never the headline of a job while on demand is within what it may have risen."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from gpufleet import plan_batch, plan_finetune
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.price_history import price_histories
from gpufleet.catalog.spot_age import DAYS_PER_MONTH, load_spot_age, with_spot_ages
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceKind

CATALOG = load_catalog(today=date(2026, 11, 28))
KINDS = (PriceKind.SPOT, PriceKind.ON_DEMAND)
WORK: dict[str, Any] = {
    "requests": "300k",
    "input_tokens": 500,
    "output_tokens": 100,
    "deadline": "24h",
    "gpus": ["L40S"],
}


def one_machine(age_days: int, spot_ratio: float = 0.6) -> Catalog:
    """One machine type with both prices; spot of so many days ago."""
    place = ("aws", "us-east-1", "g6e.xlarge")
    [listed] = [o for o in CATALOG.offers if (*place, PriceKind.ON_DEMAND) == key_of(o)]
    spot = replace(
        listed.at_price_ratio(spot_ratio), price_kind=PriceKind.SPOT, as_of=date(2026, 11, 28) - timedelta(age_days)
    )
    offers = with_spot_ages({key_of(o): o for o in (listed, spot)}, date(2026, 11, 28))
    return replace(CATALOG, offers=tuple(offers.values()))


def key_of(o: Offer) -> tuple[str, str, str, PriceKind]:
    return (o.cloud, o.region, o.instance, o.price_kind)


def test_spot_of_today_wins_and_of_an_old_list_is_told_below_the_headline() -> None:
    asked = {**WORK, "pricing": ["spot", "on_demand"]}
    fresh = plan_batch("llama-3.1-8b", catalog=one_machine(0), **asked)
    assert (fresh.answer.price_kind, fresh.undated_alternative) == ("spot", None)
    old = plan_batch("llama-3.1-8b", catalog=one_machine(500), **asked)
    assert old.answer.price_kind == "on_demand"
    assert old.undated_alternative is not None
    assert (old.undated_alternative.price_kind, old.undated_alternative.price_as_of) == (
        "spot",
        date(2026, 11, 28) - timedelta(500),
    )
    assert old.undated_alternative.usd.value < old.answer.usd.value


def test_a_run_of_training_is_headed_alike_and_spot_far_below_on_demand_still_wins() -> None:
    run: dict[str, Any] = {"method": "lora", "tokens": "20M", "sequence_tokens": 2048, "gpus": ["L40S"]}
    run |= {"pricing": ["spot", "on_demand"]}
    assert plan_finetune("llama-3.1-8b", catalog=one_machine(500), **run).answer.price_kind == "on_demand"
    assert plan_finetune("llama-3.1-8b", catalog=one_machine(60, 0.3), **run).answer.price_kind == "spot"


def test_where_only_spot_is_sold_an_old_price_answers() -> None:
    assert plan_batch("llama-3.1-8b", catalog=one_machine(500), **WORK, pricing=["spot"]).answer.price_kind == "spot"


def test_what_spot_may_be_grows_with_its_age_up_to_on_demand_and_lists_of_today_are_what_they_say() -> None:
    age = load_spot_age()
    assert [age.high_ratio(days) for days in (0, -3)] == [1.0, 1.0]
    assert age.high_ratio(30) == pytest.approx(age.rise_per_month.value)
    assert age.high_ratio(10_000) == age.most.value
    for offer in CATALOG.offers:
        if offer.age_ratio > 1:
            assert offer.price_kind in KINDS
            assert offer.is_dated
    on_demand = {key_of(o)[:3]: o for o in CATALOG.offers if o.price_kind is PriceKind.ON_DEMAND}
    capped = [
        o for o in CATALOG.offers if o.price_kind is PriceKind.SPOT and o.age_ratio > 1 and key_of(o)[:3] in on_demand
    ]
    assert capped
    for offer in capped:
        most = on_demand[key_of(offer)[:3]].price_per_instance_usd_per_hour
        assert offer.price_per_instance_usd_per_hour * offer.age_ratio <= most * (1 + 1e-12)


def test_the_rise_a_month_is_what_all_but_two_of_the_spot_prices_that_were_followed_kept() -> None:
    rises = [
        h.ratio ** (DAYS_PER_MONTH / (h.last_day - h.first_day).days)
        for h in price_histories()
        if h.price_kind_as_written == "spot"
    ]
    rise = load_spot_age().rise_per_month
    assert len(rises) == rise.points
    assert sum(r > rise.value for r in rises) == 2
