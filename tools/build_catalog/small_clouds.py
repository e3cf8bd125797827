"""Prices and machines of smaller clouds: OCI and Nebius from a machine catalogue, others from a list of single GPUs.

A price of the second list is taken only where its machine is whole and known: a listed price (no bid, no estimate, none
that moves by the hour) of one GPU whose form is named, with the vCPUs and memory beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.build_catalog.tables import Row, offer_row, read, source_date

ANY_REGION = "all"
LIST_OF_GPUS = "neocloud-price-list"
LISTED_TIERS = ("on-demand", "secure")
NOT_LISTED = re.compile(
    r"dynamic|min live offer|lowest|fluctuates|estimated|approximate|modified|normalized|separately", re.I
)
GPU_OF_MODEL = {
    ("A100 PCIE", "40"): "A100-PCIe-40GB",
    ("A100 PCIE", "80"): "A100-PCIe-80GB",
    ("A100 SXM", "40"): "A100-SXM4-40GB",
    ("A100 SXM", "80"): "A100-SXM4-80GB",
    ("A100 SXM4", "40"): "A100-SXM4-40GB",
    ("A100 SXM4 80GB", "80"): "A100-SXM4-80GB",
    ("A6000", "48"): "RTX-A6000",
    ("AMD MI300X", "192"): "MI300X",
    ("AMD MI350X", "288"): "MI350X",
    ("B200", "180"): "B200",
    ("B200 SXM6", "180"): "B200",
    ("B300 SXM6", "262"): "B300",
    ("GB300 SXM6", "288"): "GB300",
    ("GH200", "96"): "GH200-96GB",
    ("H100 PCIE", "80"): "H100-PCIe",
    ("H100 SXM", "80"): "H100-SXM",
    ("H100 SXM5", "80"): "H100-SXM",
    ("HGX H100", "80"): "H100-SXM",
    ("HGX H200", "141"): "H200-SXM",
    ("H200", "141"): "H200-SXM",
    ("H200 SXM", "141"): "H200-SXM",
    ("H200 SXM5", "141"): "H200-SXM",
    ("RTX PRO 6000 SE", "96"): "RTX-PRO-6000-Server",
    ("RTX 3090", "24"): "RTX-3090",
    ("RTX 4090", "24"): "RTX-4090",
    ("RTX 5090", "32"): "RTX-5090",
    ("RTX 6000 ADA", "48"): "RTX-6000-Ada",
    ("RTX A4000", "16"): "RTX-A4000",
    ("RTX A5000", "24"): "RTX-A5000",
    ("RTX A6000", "48"): "RTX-A6000",
    **{(name, memory): name for name, memory in (("A10", "24"), ("A16", "16"), ("A30", "24"), ("A40", "48"))},
    **{(name, memory): name for name, memory in (("L4", "24"), ("L40", "48"), ("L40S", "48"))},
}


def catalogue_offers(facts: Path, counts: Counter[str]) -> Iterator[Row]:
    """OCI (one price in all regions) and Nebius: undated copies."""
    for row in read(facts / "oci_nebius_skypilot.csv"):
        source, cloud = f"{row['provider']}-price-list", row["provider"]
        kind = "spot" if row["price_kind"] == "preemptible" else row["price_kind"]
        regions = [ANY_REGION] if row["region"].startswith(ANY_REGION) else row["region"].split(";")
        for region in regions:
            price, name = float(row["usd_per_hour"]), row["instance_type"]
            yield offer_row(cloud, region, name, price, source, source_date(source), price_kind=kind)


def plain_model(row: Row) -> str:
    return row["gpu_model"].upper().removeprefix("NVIDIA ")


def gpu_of_row(row: Row) -> str | None:
    """The GPU that a row names with its form; None where it may be one of several."""
    return GPU_OF_MODEL.get((plain_model(row), row["vram_gb"]))


def fault_of_row(row: Row) -> str:
    """What a layout needs to know and a row does not say; empty where it is whole."""
    if row["is_spot"] == "1" or row["tier"] not in LISTED_TIERS or NOT_LISTED.search(row["notes"]):
        return "no listed price: a bid, an estimate, or one that moves by the hour"
    if gpu_of_row(row) is None:
        return "the form of the GPU is not named, or no GPU of the tables"
    return "" if row["vcpu"] and row["ram_gb"] else "the host beside the GPU is not known"


def known_machine(row: Row, machines: Sequence[Row]) -> Row | None:
    """The machine of one such GPU that the tables hold of the cloud, with the same host where the row names one."""
    same = [
        m
        for m in machines
        if (m["cloud"], m["accelerator"], m["gpu_count"]) == (row["provider"], gpu_of_row(row), "1")
        and (not row["vcpu"] or not m["vcpus"] or float(m["vcpus"]) == float(row["vcpu"]))
    ]
    return same[0] if len(same) == 1 else None


def new_machine(row: Row) -> Row:
    """A machine of one GPU, as its row says it."""
    secure = "_SECURE" if row["tier"] == "secure" else ""
    return {
        "cloud": row["provider"],
        "name": f"1x_{gpu_of_row(row)}{secure}",
        "accelerator": gpu_of_row(row) or "",
        "gpu_count": "1",
        "vcpus": row["vcpu"],
        "memory_gib": row["ram_gb"],
        "link_kind": "none",
        "link_gb_per_s_per_direction": "",
        "link_description": "none (1 GPU)",
        "link_evidence": "",
        "network_gbit_per_s": "",
        "local_ssd_gb": "",
        "status": "current",
        "source_id": LIST_OF_GPUS,
        "evidence": "confirmed: third party",
    }


def listed_machines(facts: Path, machines: Sequence[Row], counts: Counter[str]) -> list[tuple[Row, Row]]:
    """Rows of the list whose machine is whole and known, each with its machine: of the tables, else as the row says."""
    found: dict[tuple[str, str], tuple[Row, Row]] = {}
    for row in read(facts / "neocloud_prices_2026-05-24.csv"):
        machine = known_machine(row, machines) if gpu_of_row(row) else None
        fault = fault_of_row({**row, **({} if machine is None else {"vcpu": "known", "ram_gb": "known"})})
        if fault:
            counts[f"neo-cloud prices: {fault}"] += 1
            continue
        machine = machine or new_machine(row)
        found.setdefault((machine["cloud"], machine["name"]), (row, machine))
    return sold_by_two(list(found.values()), machines, counts)


def sold_by_two(listed: list[tuple[Row, Row]], machines: Sequence[Row], counts: Counter[str]) -> list[tuple[Row, Row]]:
    """Those of GPUs that a second cloud sells: else there is nothing to hold the price of one look to."""
    clouds: dict[str, set[str]] = {}
    for machine in (*(m for m in machines if m["status"] == "current"), *(machine for _, machine in listed)):
        clouds.setdefault(machine["accelerator"], set()).add(machine["cloud"])
    kept = [pair for pair in listed if len(clouds[pair[1]["accelerator"]]) > 1]
    counts["neo-cloud prices: no other cloud sells that GPU, so that nothing holds the price"] += len(listed) - len(
        kept
    )
    return kept


def list_offers(listed: Sequence[tuple[Row, Row]], regions: Mapping[str, str]) -> Iterator[Row]:
    """On-demand prices of single GPUs, in the region where the cloud's machines are priced already, else in any."""
    for row, machine in listed:
        cloud, price = machine["cloud"], float(row["usd_per_gpu_hour"])
        region = regions.get(cloud, ANY_REGION)
        yield offer_row(cloud, region, machine["name"], price, LIST_OF_GPUS, row["collected_at"], basis="observed")
