"""availability/<cloud>[-<part>].csv, a file for each source: where a type is sold and in which zones, priced or not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tools.build_catalog.tables import Row, read, source_date, write_told_once

from gpufleet.catalog.schema import SHIPPED_AVAILABILITY_COLUMNS

Zones = dict[tuple[str, str], list[str]]
GCP_ATTACHABLE = {"nvidia-tesla-t4": "T4", "nvidia-tesla-v100": "V100", "nvidia-tesla-p100": "P100"}


def zones_of(triples: Iterable[tuple[str, str, str]]) -> Zones:
    """Names of zones per (region, instance type), from distinct (region, zone, instance type)."""
    zones: Zones = {}
    for region, zone, instance in sorted(set(triples)):
        zones.setdefault((region, instance), []).append(zone.removeprefix(region).removeprefix("-"))
    return zones


def availability_rows(cloud: str, zones: Zones, source: str, sold_as: dict[str, str]) -> list[Row]:
    as_of = source_date(source)
    rows = [
        (cloud, region, name, str(len(names)), source, as_of, " ".join(names), sold_as.get(name, ""))
        for (region, name), names in sorted(zones.items())
    ]
    return [dict(zip(SHIPPED_AVAILABILITY_COLUMNS, row, strict=True)) for row in rows]


def aws_sold_as(catalog: Path) -> dict[str, str]:
    """Price kinds that EC2 names for a type: on-demand, spot, capacity block."""
    types = json.loads((catalog / "aws_instance_types_moto.json").read_text(encoding="utf-8"))
    kinds = {
        name: sorted(word.replace("-", "_") for word in row["SupportedUsageClasses"]) for name, row in types.items()
    }
    return {name: " ".join(words) for name, words in kinds.items()}


def aws_availability(catalog: Path, known: set[tuple[str, str]]) -> list[Row]:
    """What EC2 lists for its regions."""
    offerings = read(catalog / "aws_offerings_moto.csv")
    zones = zones_of((r["region"], r["availability_zone"], r["instance_type"]) for r in offerings)
    rows = availability_rows("aws", zones, "aws-instance-offerings", aws_sold_as(catalog))
    return [row for row in rows if ("aws", row["instance_type"]) in known]


def aws_china_availability(catalog: Path, known: set[tuple[str, str]]) -> list[Row]:
    """What AWS prices in CNY and EC2's lists do not show."""
    listed = {(row["region"], row["instance_type"]) for row in aws_availability(catalog, known)}
    china = [r for r in read(catalog / "aws_on_demand_karpenter.csv") if r["currency"] == "CNY"]
    rows = [
        ("aws", r["region"], r["instance_type"], "", "aws-price-list-china", r["generated_at"][:10], "", "")
        for r in china
        if (r["region"], r["instance_type"]) not in listed and ("aws", r["instance_type"]) in known
    ]
    return [dict(zip(SHIPPED_AVAILABILITY_COLUMNS, row, strict=True)) for row in rows]


def gcp_availability(catalog: Path, known: set[tuple[str, str]]) -> list[Row]:
    machines = read(catalog / "gcp_machine_types_zones.csv", ";")
    attachable = read(catalog / "gcp_accelerator_zones.csv", ";")
    pairs = [(row["ZONE"].rsplit("-", 1)[0], row["ZONE"], row["NAME"]) for row in machines]
    pairs += [
        (row["ZONE"].rsplit("-", 1)[0], row["ZONE"], f"n1-standard-{size}+{GCP_ATTACHABLE[row['NAME']]}")
        for row in attachable
        if row["NAME"] in GCP_ATTACHABLE
        for size in (4, 8, 16)
    ]
    rows = availability_rows("gcp", zones_of(pairs), "gcp-machine-types", {})
    return [row for row in rows if ("gcp", row["instance_type"]) in known]


PARTS = {"aws": aws_availability, "aws-china": aws_china_availability, "gcp": gcp_availability}


def build_availability(facts: Path, instances: list[Row], out: Path) -> None:
    known = {(row["cloud"], row["name"]) for row in instances if row["status"] == "current"}
    for name, rows_of in PARTS.items():
        rows = rows_of(facts / "catalog", known)
        write_told_once(out / "availability" / f"{name}.csv", SHIPPED_AVAILABILITY_COLUMNS, rows)
