"""Prices of AWS beyond us-east-1: on demand and one-year reserved in all regions, spot by zone, capacity blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.build_catalog.tables import Row, offer_row, read, source_date

REGIONAL, RESERVED = "aws-regional-price-list", "ri_1y_standard_no_upfront"
WAVELENGTH = "wavelength_zone"
FLOOR, NOTHING_SEEN = "at_10pct_floor", "offered_no_spot_price"
PARTS_OF_A_ZONE_ID = 2


def regional_offers(facts: Path, counts: Counter[str]) -> Iterator[Row]:
    """On demand and one year without upfront; a wavelength zone lies inside a carrier's network and is left out."""
    for row in read(facts / "aws_on_demand_regions.csv"):
        if row["place_kind"] == WAVELENGTH:
            counts["aws prices of wavelength zones"] += 1
        else:
            yield aws_offer(row, float(row["price_per_hour"]), REGIONAL, row["as_of"])
    for row in read(facts / "aws_reserved_1y.csv"):
        assert row["price_kind"] == RESERVED, row["price_kind"]
        yield aws_offer(row, float(row["price_per_hour"]), REGIONAL, row["as_of"], price_kind="commit_1y")


def aws_offer(row: Row, price: float, source: str, as_of: str, **other: str) -> Row:
    return offer_row("aws", row["region"], row["instance_type"], price, source, as_of, **other)


def zone_spot_offers(facts: Path, counts: Counter[str]) -> Iterator[Row]:
    """The cheapest zone of each region, as AWS lists spot prices; a floor of 10 % of on-demand is no market price."""
    cheapest: dict[tuple[str, str], float] = {}
    for row in read(facts / "aws_spot_zones_p.csv"):
        fault = fault_of_zone(row)
        if fault:
            counts[fault] += 1
        else:
            key, price = (row["region"], row["instance_type"]), float(row["spot_usd_per_hour"])
            cheapest[key] = min(price, cheapest.get(key, price))
    source = "skypilot-aws-zones"
    for (region, name), price in cheapest.items():
        other = {"price_kind": "spot", "basis": "observed"}
        yield offer_row("aws", region, name, price, source, source_date(source), **other)


def fault_of_zone(row: Row) -> str:
    """Why the spot price of a zone is none of its region; empty where it is."""
    if row["note"] == NOTHING_SEEN:
        return "aws spot zones without a price"
    if row["note"] == FLOOR:
        return "aws spot zones at the floor of 10 % of on-demand"
    is_local = len(row["zone_id"].split("-")) > PARTS_OF_A_ZONE_ID
    return "aws spot zones of local zones" if is_local else ""


def single_facts() -> list[Row]:
    """Prices that stand in tables without a licence or on pages: single facts, each with its source."""
    return read(Path(__file__).parent / "single_prices.csv")
