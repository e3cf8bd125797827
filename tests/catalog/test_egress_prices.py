"""Prices of bytes that leave a region, as they are found for it."""

from __future__ import annotations

import math

import pytest

from gpufleet.catalog.egress import ANOTHER_REGION, ANYWHERE, INTERNET, egress_price, egress_rows
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.egress import EgressPrice
from gpufleet.pricing.egress import egress_usd_per_month

SHIPPED = load_catalog()


def first_tier(cloud: str, region: str, to: tuple[str, str] | None = None) -> float | None:
    price = egress_price(SHIPPED, cloud, region, to)
    return None if price is None else price.tiers[0].usd_per_gb


def test_every_row_names_a_source_and_places_that_exist() -> None:
    areas = {area for country in SHIPPED.countries.values() for area in country.areas}
    for row in egress_rows():
        assert row.source in SHIPPED.sources
        regions = {region for cloud, region in SHIPPED.located_regions if cloud == row.cloud}
        assert {*row.sent_from} <= regions | areas | {ANYWHERE}, row
        assert row.sent_to in regions | areas | {INTERNET, ANOTHER_REGION}, row


def test_the_tiers_of_every_region_follow_each_other() -> None:
    targets = [None, ("aws", "us-east-1"), ("azure", "westeurope"), ("gcp", "australia-southeast1")]
    found = [egress_price(SHIPPED, *key, to) for key in SHIPPED.located_regions for to in targets]
    prices = [price for price in found if price is not None]
    assert len(prices) > 300
    for price in prices:
        paid = [tier.usd_per_gb for tier in price.tiers if tier.usd_per_gb > 0]
        assert paid == sorted(paid, reverse=True), price


@pytest.mark.parametrize(
    ("cloud", "region", "to", "usd_per_gb"),
    [
        ("aws", "us-east-1", ("aws", "us-east-2"), 0.01),
        ("aws", "us-east-1", ("aws", "eu-west-1"), 0.02),
        ("aws", "sa-east-1", None, 0.15),
        ("azure", "westeurope", ("azure", "northeurope"), 0.02),
        ("azure", "westeurope", ("azure", "eastus"), 0.05),
        ("gcp", "us-central1", ("gcp", "us-west1"), 0.01),
        ("gcp", "europe-west4", ("gcp", "us-west1"), 0.08),
        ("gcp", "europe-west4", ("gcp", "australia-southeast1"), 0.15),
        ("gcp", "australia-southeast1", ("gcp", "australia-southeast2"), 0.08),
        ("nebius", "eu-north1", None, 0.0),
    ],
)
def test_the_closest_row_holds(cloud: str, region: str, to: tuple[str, str] | None, usd_per_gb: float) -> None:
    assert first_tier(cloud, region, to) == usd_per_gb


def test_another_cloud_lies_across_the_internet() -> None:
    assert first_tier("azure", "westeurope", ("aws", "eu-west-1")) == first_tier("azure", "westeurope") == 0.0875


def test_a_price_that_nobody_published_is_unknown_and_never_free() -> None:
    assert egress_price(SHIPPED, "verda", "FIN-01") is None
    assert egress_price(SHIPPED, "nowhere", "at-all") is None
    assert egress_usd_per_month(1000.0, None) is None


def test_ten_terabytes_from_virginia_cost_what_the_articles_say() -> None:
    price = egress_price(SHIPPED, "aws", "us-east-1")
    assert isinstance(price, EgressPrice)
    assert egress_usd_per_month(10_240.0, price) == pytest.approx((10_240 - 100) * 0.09)
    assert price.known_to_gb == math.inf
