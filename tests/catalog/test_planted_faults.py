"""Each rule of the catalog finds the fault that is planted for it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest

from gpufleet.catalog.checks import check_catalog
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.usual_prices import price_outliers, unusual_across_clouds, warnings_across_clouds
from gpufleet.domain.offer import Offer, PriceKind

TODAY = date(2026, 11, 28)
CATALOG = load_catalog()


def with_changed_offer(match: Callable[[Offer], bool], **changes: object) -> Catalog:
    index = next(n for n, offer in enumerate(CATALOG.offers) if match(offer))
    changed = replace(CATALOG.offers[index], **changes)  # type: ignore[arg-type]
    return replace(CATALOG, offers=(*CATALOG.offers[:index], changed, *CATALOG.offers[index + 1 :]))


def broken_rules(catalog: Catalog) -> set[str]:
    return {finding.rule for finding in check_catalog(catalog, TODAY)}


def is_h100_of_azure(offer: Offer) -> bool:
    return offer.instance == "Standard_ND96isr_H100_v5"


@pytest.mark.parametrize("factor", [4, 0.25])
def test_a_price_far_from_the_other_regions_is_found(factor: float) -> None:
    catalog = with_changed_offer(is_h100_of_azure, price_per_instance_usd_per_hour=98.32 * factor)
    assert broken_rules(catalog) == {"usual price"}


def test_the_outlier_is_named_with_the_usual_price() -> None:
    catalog = with_changed_offer(is_h100_of_azure, price_per_instance_usd_per_hour=983.2)
    [(offer, median)] = price_outliers(catalog.offers)
    assert offer.price_per_instance_usd_per_hour == 983.2
    assert 90 < median < 140


def test_spot_above_on_demand_is_found() -> None:
    def is_spot_p4(offer: Offer) -> bool:
        return (offer.region, offer.instance, offer.price_kind) == ("us-east-1", "p4d.24xlarge", PriceKind.SPOT)

    assert broken_rules(with_changed_offer(is_spot_p4, price_per_instance_usd_per_hour=21.96)) == {
        "spot below on-demand"
    }


def test_a_price_of_tomorrow_is_found() -> None:
    assert broken_rules(with_changed_offer(is_h100_of_azure, as_of=TODAY + timedelta(days=1))) == {"not in the future"}


def test_a_price_without_a_source_is_found() -> None:
    assert broken_rules(with_changed_offer(is_h100_of_azure, source="hearsay")) == {"source exists"}


def test_a_price_of_an_unknown_machine_is_found() -> None:
    assert "instance exists" in broken_rules(with_changed_offer(is_h100_of_azure, instance="Standard_ND97"))


def test_a_price_given_twice_is_found() -> None:
    doubled = replace(CATALOG, offers=(*CATALOG.offers, CATALOG.offers[0]))
    assert broken_rules(doubled) == {"no duplicates"}


def test_a_price_of_a_retired_machine_is_found() -> None:
    def is_p4d(offer: Offer) -> bool:
        return offer.instance == "p4d.24xlarge" and offer.price_kind is PriceKind.ON_DEMAND

    assert "sold today" in broken_rules(with_changed_offer(is_p4d, instance="p3.16xlarge"))


def test_a_machine_with_a_gpu_that_no_table_holds_is_found() -> None:
    key = ("aws", "p5.48xlarge")
    strange = {**CATALOG.instances, key: replace(CATALOG.instances[key], accelerator="H100-XXL")}
    assert broken_rules(replace(CATALOG, instances=strange)) == {"GPU exists"}


def test_an_alias_that_means_nothing_is_found() -> None:
    assert broken_rules(replace(CATALOG, gpu_aliases={"best": "H1000"})) == {"alias means a GPU"}


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_a_price_that_is_no_positive_number_cannot_be_made(price: float) -> None:
    with pytest.raises(ValueError, match="positive number"):
        replace(CATALOG.offers[0], price_per_instance_usd_per_hour=price)


@pytest.mark.parametrize("upfront", [-1.0, float("nan"), float("inf")])
def test_an_upfront_payment_is_a_number_from_zero_on(upfront: float) -> None:
    with pytest.raises(ValueError, match="upfront"):
        replace(CATALOG.offers[0], upfront_usd=upfront, price_kind=PriceKind.COMMIT_1Y)


def test_an_upfront_payment_without_a_term_would_vanish_and_is_refused() -> None:
    with pytest.raises(ValueError, match="commit_1y or commit_3y"):
        replace(CATALOG.offers[0], upfront_usd=1000.0, price_kind=PriceKind.ON_DEMAND)


def test_of_two_regions_the_wrong_one_does_not_hide_behind_the_middle_of_both() -> None:
    sound = replace(CATALOG.offers[0], price_per_instance_usd_per_hour=10.0)
    slipped = replace(sound, region="elsewhere", price_per_instance_usd_per_hour=100.0)
    assert {offer.region for offer, _ in price_outliers([sound, slipped])} == {sound.region, "elsewhere"}


def test_a_price_far_from_other_clouds_is_a_warning_and_no_fault() -> None:
    azure = [u for u in unusual_across_clouds(CATALOG) if u.offer.instance == "Standard_ND96isr_H100_v5"]
    assert azure
    assert all(u.price_per_gpu_usd_per_hour > 3 * u.usual_usd_per_hour for u in azure)
    assert check_catalog(CATALOG, TODAY) == []


def test_a_cloud_whose_every_price_lost_a_digit_is_caught_by_the_other_clouds() -> None:
    def tenth(offer: Offer) -> Offer:
        price = offer.price_per_instance_usd_per_hour
        return replace(offer, price_per_instance_usd_per_hour=price / 10) if offer.cloud == "gcp" else offer

    shrunk = replace(CATALOG, offers=tuple(map(tenth, CATALOG.offers)))
    assert check_catalog(shrunk, TODAY) == []
    assert any(warning.startswith("gcp a3-highgpu-8g on_demand: 0.") for warning in warnings_across_clouds(shrunk))
