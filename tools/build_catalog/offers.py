"""offers/<cloud>/<date>.csv and foreign_offers/: what is asked for a machine, where, and since when."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.build_catalog.instances import instance_source
from tools.build_catalog.tables import Row, read, source_date, write_csv

from gpufleet.catalog.checks import spot_beside_on_demand
from gpufleet.catalog.own_terms import FOREIGN_COLUMNS
from gpufleet.catalog.schema import OFFER_COLUMNS, Place, offer_from
from gpufleet.catalog.usual_prices import price_outliers

MAX_SPOT_SAVING_PERCENT = 90
NOT_SOLD_ON_DEMAND = {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"}


def offer_row(cloud: str, region: str, instance: str, price: float, source: str, as_of: str, **other: str) -> Row:
    defaults = {"price_kind": "on_demand", "upfront_usd": "0", "basis": "list", "interruption": ""}
    return {
        **defaults,
        "cloud": cloud,
        "region": region,
        "instance_type": instance,
        "price_per_instance_usd_per_hour": f"{price:.10g}",
        "source_id": source,
        "as_of": as_of,
        **other,
    }


def karpenter_offers(rows: list[Row], source: str) -> Iterator[Row]:
    for row in rows:
        if row["currency"] == "USD":
            price, as_of = float(row["price_per_hour"]), row["generated_at"][:10]
            yield offer_row(
                row["cloud"], row["region"], row["instance_type"], price, source, as_of, price_kind=row["price_kind"]
            )


def gcp_offers(rows: list[Row]) -> Iterator[Row]:
    for offer in karpenter_offers(rows, "gcp-price-list"):
        if offer["price_kind"] != "on_demand" or offer["instance_type"] not in NOT_SOLD_ON_DEMAND:
            yield offer


def small_cloud_offers(instances: list[Row]) -> Iterator[Row]:
    """Clouds whose prices stand with their instances."""
    for row in instances:
        if row["cloud"] in ("lambda", "nebius", "runpod", "verda") and row["price_usd_hour"]:
            source = instance_source(row["source"])
            dated = re.fullmatch(r"\d{4}-\d\d-\d\d", row["price_as_of"])
            yield offer_row(
                row["cloud"],
                region_of_small_cloud(row),
                row["instance_type"],
                float(row["price_usd_hour"]),
                source,
                row["price_as_of"] if dated else source_date(source),
                basis="observed" if source == "runpod-h100-post" else "list",
            )


def region_of_small_cloud(row: Row) -> str:
    if row["cloud"] != "nebius":
        return row["price_region"]
    return "us-central1" if row["gpu"] == "B200" else "eu-north1"


def spot_estimates(advisor: list[Row], on_demand: list[Row], counts: Counter[str]) -> Iterator[Row]:
    """Spot = on-demand x (1 - saving), where on-demand of that region is known."""
    as_of = source_date("aws-spot-advisor")
    priced = {(row["region"], row["instance_type"]): row for row in on_demand}
    for row in advisor:
        listed = priced.get((row["region"], row["instance_type"]))
        saving = int(row["savings_pct"])
        if listed is None:
            counts["spot advisor rows without an on-demand price of that region"] += 1
        elif not 0 < saving <= MAX_SPOT_SAVING_PERCENT:
            counts[f"spot advisor rows with a saving outside 1..{MAX_SPOT_SAVING_PERCENT} %"] += 1
        else:
            price = float(listed["price_per_instance_usd_per_hour"]) * (100 - saving) / 100
            estimate = {"price_kind": "spot", "basis": "estimated", "interruption": row["interruption_band"]}
            yield offer_row("aws", row["region"], row["instance_type"], price, "aws-spot-advisor", as_of, **estimate)


def describable(offers: Iterable[Row], instances: list[Row], counts: Counter[str]) -> Iterator[Row]:
    """Offers of instance types that are described and still started."""
    known = {(row["cloud"], row["name"]): row for row in instances}
    for offer in offers:
        instance = known.get((offer["cloud"], offer["instance_type"]))
        if instance is None:
            counts[f"{offer['cloud']} prices of types not in the instance table"] += 1
        elif instance["status"] == "retired":
            counts[f"{offer['cloud']} prices of retired types"] += 1
        elif not instance["gpu_count"]:
            counts[f"{offer['cloud']} prices of types with unknown GPU count"] += 1
        else:
            yield offer


def refuse_unusual(rows: list[Row]) -> list[Row]:
    """Drops and prints prices far from the median over regions, and spot prices above on-demand."""
    offers = [offer_from(Place("build", f"row {n}"), row) for n, row in enumerate(rows)]
    position = {id(offer): n for n, offer in enumerate(offers)}
    refused = {
        position[id(offer)]: f"more than 3x off the median {median:g}" for offer, median in price_outliers(offers)
    }
    for spot, on_demand in spot_beside_on_demand(offers):
        if spot.price_per_instance_usd_per_hour > on_demand:
            refused[position[id(spot)]] = f"spot above on-demand {on_demand:g}"
    for n, why in refused.items():
        row = rows[n]
        price = row["price_per_instance_usd_per_hour"]
        print(f"refused: {row['cloud']} {row['region']} {row['instance_type']} {row['price_kind']} {price}: {why}")
    return [row for n, row in enumerate(rows) if n not in refused]


def write_offers(rows: list[Row], out: Path) -> None:
    """offers/<cloud>/<date>.csv: one file per cloud and price date."""
    files: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        files.setdefault((row["cloud"], row["as_of"]), []).append(row)
    for (cloud, as_of), group in files.items():
        ordered = sorted(group, key=lambda r: (r["region"], r["instance_type"], r["price_kind"]))
        write_csv(out / "offers" / cloud / f"{as_of}.csv", OFFER_COLUMNS, ordered)


def build_offers(facts: Path, rows: list[Row], instances: list[Row], out: Path) -> None:
    counts: Counter[str] = Counter()
    catalog = facts / "catalog"
    aws_listed = read(catalog / "aws_on_demand_karpenter.csv")
    counts["aws prices in CNY, from the dollar tables"] = sum(row["currency"] != "USD" for row in aws_listed)
    aws = list(describable(karpenter_offers(aws_listed, "aws-price-list"), instances, counts))
    spot = spot_estimates(read(facts / "spot" / "aws_spot_advisor_linux.csv"), aws, counts)
    azure = karpenter_offers(read(catalog / "azure_on_demand_karpenter.csv"), "azure-price-list")
    gcp = gcp_offers(read(catalog / "gcp_prices_karpenter.csv"))
    others = describable([*azure, *gcp, *small_cloud_offers(rows)], instances, counts)
    write_offers(refuse_unusual([*aws, *spot, *others]), out)
    for what, count in sorted(counts.items()):
        print(f"left out: {count:5d} {what}")


def foreign_row(row: Row) -> Row:
    """A price in yuan, as it is."""
    cells = (row["cloud"], row["region"], row["instance_type"], row["price_kind"], "0", row["price_per_hour"])
    rest = (row["currency"], "list", "aws-price-list-china", row["generated_at"][:10], "")
    return dict(zip(FOREIGN_COLUMNS, (*cells, *rest), strict=True))


def build_foreign_offers(facts: Path, instances: list[Row], out: Path) -> None:
    known = {
        row["name"] for row in instances if row["cloud"] == "aws" and row["status"] == "current" and row["gpu_count"]
    }
    rows = read(facts / "catalog" / "aws_on_demand_karpenter.csv")
    foreign = [foreign_row(row) for row in rows if row["currency"] != "USD" and row["instance_type"] in known]
    write_csv(out / "foreign_offers" / "aws.csv", FOREIGN_COLUMNS, foreign)
