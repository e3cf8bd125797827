"""Builds the tables of `src/gpufleet/data` from a directory of gathered facts.

    python -m tools.build_catalog FACTS_DIR

FACTS_DIR holds catalog/{gpu_specs,instances,*_karpenter,aws_offerings_moto,gcp_*_zones}.csv,
catalog2/{aws_on_demand_regions,aws_reserved_1y,aws_spot_zones_p,oci_nebius_skypilot,neocloud_prices_2026-05-24}.csv,
catalog3/{gpu_specs_new,instances_new,neocloud_prices_2026-10-10,neocloud_price_moves_2026-07_2026-10}.csv,
catalog3/{multi_cloud_2026-08-22,azure_spot_2026-10-10}.csv and spot/aws_spot_advisor_linux.csv; machines.csv,
networks.csv and single_prices.csv beside this file hold single facts.
What is refused is counted on standard output; a fault in the result exits 1. Tables that no gathered fact speaks of
(aliases, discounts, restricted regions, sources) are edited where they are.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import date
from pathlib import Path

from tools.build_catalog.accelerators import add_sources, build_accelerators, later_specs
from tools.build_catalog.availability import build_availability
from tools.build_catalog.instances import described_machines, write_instances
from tools.build_catalog.offers import build_foreign_offers, build_offers
from tools.build_catalog.price_pages import new_machines, with_hosts, write_history, write_unranked
from tools.build_catalog.small_clouds import listed_machines
from tools.build_catalog.tables import DATA, read

from gpufleet.catalog.checks import check_catalog
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.usual_prices import warnings_across_clouds


def build(facts: Path, today: date, out: Path) -> None:
    """Every table that the facts speak of."""
    first, pages = read(facts / "catalog" / "gpu_specs.csv"), facts / "catalog3"
    specs = [*first, *later_specs(read(pages / "gpu_specs_new.csv"), first)]
    rows = read(facts / "catalog" / "instances.csv")
    build_accelerators(specs, out)
    add_sources(specs, today, out)
    counts: Counter[str] = Counter()
    described = described_machines(rows, specs)
    listed = listed_machines(facts / "catalog2", described, counts)
    new = [machine for _, machine in listed if machine not in described]
    known = with_hosts([*described, *new], pages)
    instances = [*known, *new_machines(pages, known, {spec["name"]: spec for spec in specs}, counts)]
    write_instances(instances, out)
    write_unranked(pages, instances, out)
    write_history(pages, out)
    build_offers(facts, rows, instances, listed, counts, out)
    build_availability(facts, instances, out)
    build_foreign_offers(facts, instances, out)


def report_faults(today: date) -> int:
    catalog = load_catalog()
    print(
        f"{len(catalog.accelerators)} accelerators, {len(catalog.instances)} instances "
        f"(+ {len(catalog.incomplete_instances)} incomplete), {len(catalog.offers)} offers, "
        f"{len(catalog.availability)} availability rows, {len(catalog.sources)} sources"
    )
    findings = check_catalog(catalog, today)
    for finding in findings:
        print(f"fault: {finding.rule}: {finding.row}: {finding.fault}")
    for warning in warnings_across_clouds(catalog):
        print(f"unusual: {warning}")
    return 1 if findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools.build_catalog", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("facts", type=Path)
    parser.add_argument("--today", type=date.fromisoformat, default=date.today())
    arguments = parser.parse_args()
    build(arguments.facts, arguments.today, DATA)
    return report_faults(arguments.today)


if __name__ == "__main__":
    sys.exit(main())
