"""offers/<cloud>/<date>.csv and foreign_offers/: what is asked for a machine, where, and since when."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tools.build_catalog.aws_regions import regional_offers, single_facts, zone_spot_offers
from tools.build_catalog.instances import instance_source
from tools.build_catalog.price_pages import page_offers
from tools.build_catalog.small_clouds import catalogue_offers, list_offers
from tools.build_catalog.tables import Row, offer_row, read, source_date, write_csv, write_told_once

from gpufleet.catalog.checks import spot_beside_on_demand
from gpufleet.catalog.own_terms import FOREIGN_COLUMNS
from gpufleet.catalog.schema import OFFER_COLUMNS, Place, offer_from
from gpufleet.catalog.usual_prices import price_outliers

FLOOR_SAVING_PERCENT = 90
NOT_SOLD_ON_DEMAND = {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"}
REGIONS_OF_PRESETS = {
    **{("nebius", f"gpu-b300-sxm_{size}"): "uk-south1" for size in ("1gpu-24vcpu-346gb", "8gpu-192vcpu-2768gb")},
    **{("nebius", f"gpu-rtx6000_{size}"): "us-central1" for size in ("1gpu-24vcpu-218gb", "8gpu-192vcpu-1744gb")},
    ("nebius", "gpu-b200-sxm_1gpu-20vcpu-224gb"): "us-central1",
    **{("verda", name): "FIN" for name in ("1A100.40S.22V", "1L40S.20V", "1A6000.10V")},
}
PLACE_COLUMNS = ("cloud", "region", "instance_type", "price_kind")


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
        elif not 0 < saving < FLOOR_SAVING_PERCENT:
            counts[f"spot advisor rows with a saving outside 1..{FLOOR_SAVING_PERCENT - 1} %: the rest is a floor"] += 1
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
    """Drops and prints prices far from the median over regions, and spot prices above on-demand, until none is left.

    Only the newest price of a place is held to others: what it replaces may be of before a cut.
    """
    newest = newest_of_a_place(rows)
    offers = [offer_from(Place("build", f"row {n}"), row) for n, row in enumerate(newest)]
    position = {id(offer): n for n, offer in enumerate(offers)}
    refused = {
        position[id(offer)]: f"more than 3x off the median {median:g}" for offer, median in price_outliers(offers)
    }
    for spot, on_demand in spot_beside_on_demand(offers):
        if spot.price_per_instance_usd_per_hour > on_demand:
            refused[position[id(spot)]] = f"spot above on-demand {on_demand:g}"
    for n, why in refused.items():
        row = newest[n]
        price = row["price_per_instance_usd_per_hour"]
        print(f"refused: {row['cloud']} {row['region']} {row['instance_type']} {row['price_kind']} {price}: {why}")
    dropped = {id(newest[n]) for n in refused}
    kept = [row for row in rows if id(row) not in dropped]
    return refuse_unusual(kept) if dropped else kept


def newest_of_a_place(rows: list[Row]) -> list[Row]:
    """The price that holds of each place and kind."""
    by_day = sorted(rows, key=lambda row: row["as_of"])
    return list({tuple(row[column] for column in PLACE_COLUMNS): row for row in by_day}.values())


def write_offers(rows: list[Row], out: Path) -> None:
    """offers/<cloud>/<date>.csv: one file per cloud and price date."""
    files: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        files.setdefault((row["cloud"], row["as_of"]), []).append(row)
    for (cloud, as_of), group in files.items():
        ordered = sorted(group, key=lambda r: (r["region"], r["instance_type"], r["price_kind"]))
        write_told_once(out / "offers" / cloud / f"{as_of}.csv", OFFER_COLUMNS, ordered)


def later_offers(facts: Path, listed: Sequence[tuple[Row, Row]], counts: Counter[str]) -> Iterator[Row]:
    """What the second gathering adds: AWS in all regions, OCI, Nebius, neo-clouds and single facts."""
    yield from regional_offers(facts, counts)
    yield from zone_spot_offers(facts, counts)
    yield from catalogue_offers(facts, counts)
    yield from list_offers(listed, {"verda": "FIN"})
    yield from single_facts()


def regions_of(rows: Iterable[Row]) -> dict[tuple[str, str], list[str]]:
    """Regions in which machines are priced, and those that only their preset tells."""
    found: dict[tuple[str, str], set[str]] = {place: {region} for place, region in REGIONS_OF_PRESETS.items()}
    for row in rows:
        found.setdefault((row["cloud"], row["instance_type"]), set()).add(row["region"])
    return {key: sorted(regions) for key, regions in found.items()}


def with_bands(rows: Iterable[Row], advisor: Iterable[Row]) -> Iterator[Row]:
    """The same with how often AWS takes a spot machine away, where the advisor says it and the price does not."""
    bands = {(row["region"], row["instance_type"]): row["interruption_band"] for row in advisor}
    for row in rows:
        is_spot_of_aws = (row["cloud"], row["price_kind"]) == ("aws", "spot")
        band = bands.get((row["region"], row["instance_type"]), "") if is_spot_of_aws else ""
        yield {**row, "interruption": row["interruption"] or band}


def one_a_day(rows: Iterable[Row]) -> list[Row]:
    """One price a place, kind and day: of several the first, as the list of the cloud itself comes before copies."""
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(row[column] for column in (*PLACE_COLUMNS, "as_of"))
        found.setdefault(key, row)
    return list(found.values())


def build_offers(
    facts: Path,
    rows: list[Row],
    instances: list[Row],
    listed: Sequence[tuple[Row, Row]],
    counts: Counter[str],
    out: Path,
) -> None:
    catalog = facts / "catalog"
    aws_listed = read(catalog / "aws_on_demand_karpenter.csv")
    counts["aws prices in CNY, from the dollar tables"] = sum(row["currency"] != "USD" for row in aws_listed)
    aws = list(describable(karpenter_offers(aws_listed, "aws-price-list"), instances, counts))
    advisor = read(facts / "spot" / "aws_spot_advisor_linux.csv")
    azure = karpenter_offers(read(catalog / "azure_on_demand_karpenter.csv"), "azure-price-list")
    gcp = gcp_offers(read(catalog / "gcp_prices_karpenter.csv"))
    others = list(describable([*azure, *gcp, *small_cloud_offers(rows)], instances, counts))
    later = list(describable(later_offers(facts / "catalog2", listed, counts), instances, counts))
    pages = describable(page_offers(facts / "catalog3", instances, regions_of(others + later)), instances, counts)
    on_demand = [row for row in (*later, *aws) if (row["cloud"], row["price_kind"]) == ("aws", "on_demand")]
    spot = list(spot_estimates(advisor, on_demand, counts))
    offers = with_bands([*aws, *spot, *others, *later, *pages], advisor)
    write_offers(refuse_unusual(one_a_day(offers)), out)
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
