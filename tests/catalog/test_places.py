"""Where types are sold, price known or not, and what rules of thumb are worth."""

from __future__ import annotations

import json
import statistics
from datetime import date
from typing import Any

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.places import list_discounts, list_places
from gpufleet.catalog.query import OfferFilter, resolve_instance
from gpufleet.cli import main
from gpufleet.domain.offer import PriceKind
from gpufleet.results.catalog import PlaceRow

CATALOG = load_catalog()


def places(**wanted: Any) -> list[PlaceRow]:
    return list_places(CATALOG, OfferFilter(**wanted)).rows


def test_every_place_of_a_price_list_and_of_a_list_of_what_is_sold_is_there_once() -> None:
    rows = places(include_restricted=True)
    keys = [(row.cloud, row.region, row.instance) for row in rows]
    assert len(keys) == len(set(keys))
    priced = {(o.cloud, o.region, o.instance) for o in CATALOG.offers}
    listed = {(a.cloud, a.region, a.instance) for a in CATALOG.availability}
    assert set(keys) == priced | listed
    assert sum(not row.usd_per_hour for row in rows) == len(listed - priced)


def test_zones_are_named() -> None:
    [row] = places(clouds=["gcp"], instances=["a2-ultragpu-1g"], regions=["us-central1"])
    assert row.zones == ["a", "c"]
    assert row.num_zones == 2


def test_a_capacity_block_is_said_to_be_sold_at_an_unknown_price() -> None:
    [row] = places(clouds=["aws"], instances=["p5.48xlarge"], regions=["us-east-1"])
    assert set(row.usd_per_hour) == {"on_demand", "spot"}
    assert row.sold_unpriced == ["capacity_block"]


def test_yuan_are_said_as_yuan_and_are_no_price_in_dollars() -> None:
    rows = places(clouds=["aws"], regions=["cn-north-1"], instances=["g4dn.xlarge"])
    assert [(row.foreign_price, row.usd_per_hour, row.is_open) for row in rows] == [("5.22 CNY", {}, False)]


def test_yuan_keep_their_own_source_and_day() -> None:
    assert {offer.currency for offer in CATALOG.foreign_offers} == {"CNY"}
    assert {offer.as_of for offer in CATALOG.foreign_offers} == {date(2024, 11, 6)}
    assert all(resolve_instance(CATALOG, f"aws:{offer.instance}") for offer in CATALOG.foreign_offers)


def test_rules_of_thumb_stand_beside_what_the_price_lists_say_and_are_graded_as_rules() -> None:
    rows = {(row.cloud, row.price_kind): row for row in list_discounts(CATALOG).rows}
    gcp = rows["gcp", "spot"]
    on_demand = {
        (o.region, o.instance): o.price_per_instance_usd_per_hour
        for o in CATALOG.offers
        if (o.cloud, o.price_kind) == ("gcp", PriceKind.ON_DEMAND)
    }
    saved = [
        1 - o.price_per_instance_usd_per_hour / on_demand[o.region, o.instance]
        for o in CATALOG.offers
        if (o.cloud, o.price_kind) == ("gcp", PriceKind.SPOT) and (o.region, o.instance) in on_demand
    ]
    assert gcp.held_median_ratio == pytest.approx(statistics.median(saved))
    assert gcp.held_median_ratio < gcp.saving_low_ratio == 0.6
    assert rows["all", "commit_1y"].num_held > 700
    assert rows["all", "commit_1y"].held_median_ratio == pytest.approx(0.37, abs=0.02)
    assert {row.grade for row in rows.values()} == {"seed rule"}


def test_no_rule_of_thumb_became_a_price() -> None:
    assert "gpu-requirements-assessment" not in {o.source for o in CATALOG.offers}


@pytest.mark.parametrize("words", [["regions", "--gpu", "H200"], ["regions"], ["discounts"]])
def test_pages_keep_to_eighty_columns(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(["catalog", *words]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_regions_are_json_too_with_the_sources_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "regions", "--region", "us-east-1", "--cloud", "aws", "--limit", "3", "-o", "json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert (len(listing["rows"]), listing["num_places"] > 3) == (3, True)
    assert {s["id"] for s in listing["sources"]} == {source for row in listing["rows"] for source in row["sources"]}
