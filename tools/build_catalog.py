"""Builds the tables of `src/gpufleet/data` from a directory of gathered facts.

    python tools/build_catalog.py FACTS_DIR [--out src/gpufleet/data]

FACTS_DIR holds catalog/{gpu_specs,instances,*_karpenter,aws_offerings_moto,gcp_*_zones}.csv and
spot/aws_spot_advisor_linux.csv. What is refused is counted on standard output; a fault in the result exits 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from gpufleet.catalog.checks import check_catalog, spot_beside_on_demand
from gpufleet.catalog.load import load_catalog, toml_of
from gpufleet.catalog.own_terms import FOREIGN_COLUMNS
from gpufleet.catalog.schema import (
    DISCOUNT_COLUMNS,
    INSTANCE_COLUMNS,
    OFFER_COLUMNS,
    PEAK_COLUMNS,
    RESTRICTED_COLUMNS,
    SHIPPED_AVAILABILITY_COLUMNS,
    Place,
    offer_from,
)
from gpufleet.catalog.usual_prices import price_outliers, warnings_across_clouds

Row = dict[str, str]
DATA = Path(__file__).parent.parent / "src" / "gpufleet" / "data"
COMPILED = "2026-11-21"
DAYS = ("as_of", "first_seen")
UNDATED_COPY = "2026-01-01"
MAX_SPOT_SAVING_PERCENT = 90

PRICE_SOURCES: dict[str, dict[str, str]] = {
    "aws-instance-types": {
        "title": "EC2 instance type descriptions in getmoto/moto 34d6cad",
        "as_of": "2026-08-02",
        "url": "https://github.com/getmoto/moto",
        "licence": "Apache-2.0",
    },
    "aws-instance-offerings": {
        "title": "EC2 instance type offerings by zone in getmoto/moto c6bd43f",
        "as_of": "2026-08-01",
        "url": "https://github.com/getmoto/moto",
        "licence": "Apache-2.0",
    },
    "aws-measured-links": {
        "title": "PCIe widths and clocks measured on EC2, vantage-sh/ec2instances.info 4ef36cd",
        "as_of": "2026-01-31",
        "url": "https://github.com/vantage-sh/ec2instances.info",
        "licence": "MIT",
    },
    "aws-price-list": {
        "title": "EC2 on-demand price list in aws/karpenter-provider-aws 1d92708",
        "as_of": "2026-07-20",
        "url": "https://github.com/aws/karpenter-provider-aws",
        "licence": "Apache-2.0",
    },
    "aws-price-list-china": {
        "title": "EC2 on-demand price list of the regions in China, in aws/karpenter-provider-aws 1d92708",
        "as_of": "2024-11-06",
        "url": "https://github.com/aws/karpenter-provider-aws",
        "licence": "Apache-2.0",
    },
    "gpu-requirements-assessment": {
        "title": "GPU Requirements Assessment, Cost Optimization Strategies (a rule of thumb)",
        "as_of": COMPILED,
    },
    "aws-spot-advisor": {
        "title": "Spot Instance Advisor savings in alexei-led/spotinfo 05e9331, on on-demand of 2026-07-20",
        "as_of": "2025-06-28",
        "url": "https://github.com/alexei-led/spotinfo",
        "licence": "Apache-2.0",
    },
    "aws-neuron-docs": {
        "title": "AWS Neuron documentation: device memory and links",
        "as_of": COMPILED,
        "url": "https://awsdocs-neuron.readthedocs-hosted.com",
    },
    "aws-p6e-announcement": {
        "title": "AWS announcement of P6e-GB200 UltraServers, figures of 72 GPUs divided by 18 machines",
        "as_of": COMPILED,
    },
    "azure-price-list": {
        "title": "Azure on-demand price list in Azure/karpenter-provider-azure 352646f",
        "as_of": "2026-06-18",
        "url": "https://github.com/Azure/karpenter-provider-azure",
        "licence": "Apache-2.0",
    },
    "azure-size-lists": {
        "title": "Microsoft lists of N-series sizes",
        "as_of": COMPILED,
        "url": "https://learn.microsoft.com/azure/virtual-machines/sizes/overview",
    },
    "gcp-price-list": {
        "title": "Compute Engine price list in cloudpilot-ai/karpenter-provider-gcp 417f047",
        "as_of": "2026-08-03",
        "url": "https://github.com/cloudpilot-ai/karpenter-provider-gcp",
        "licence": "Apache-2.0",
    },
    "gcp-machine-types": {
        "title": "Compute Engine machine types, GPUs by zone, Cyclenerd/google-cloud-pricing-cost-calculator dac3128",
        "as_of": "2026-07-01",
        "url": "https://github.com/Cyclenerd/google-cloud-pricing-cost-calculator",
        "licence": "Apache-2.0",
    },
    "runpod-h100-post": {
        "title": "RunPod H100 price as quoted by spheron.network",
        "as_of": "2026-05-22",
        "url": "https://www.spheron.network",
    },
}
for _cloud, _commit in {"lambda": "0f40703", "nebius": "0082b04", "runpod": "01acdfd", "verda": "000c1d0"}.items():
    PRICE_SOURCES[f"{_cloud}-price-list"] = {
        "title": f"{_cloud} prices in skypilot-org/skypilot-catalog v8 at {_commit}; an undated copy",
        "as_of": UNDATED_COPY,
        "first_seen": COMPILED,
        "url": "https://github.com/skypilot-org/skypilot-catalog",
    }

TYPICAL_DISCOUNTS = (
    ("aws", "spot", "0.5", "0.9", "AWS Spot: 50-90% discount"),
    ("gcp", "spot", "0.6", "0.8", "GCP Preemptible: 60-80% discount"),
    ("azure", "spot", "0.6", "0.9", "Azure Spot: 60-90% discount"),
    ("all", "commit_1y", "0.4", "0.6", "Reserved Instances, 1-3 years: 40-60%"),
    ("all", "commit_3y", "0.4", "0.6", "Reserved Instances, 1-3 years: 40-60%"),
)

INSTANCE_SOURCE_PREFIXES = {
    "getmoto/moto c6bd43f": "aws-instance-types",
    "getmoto/moto instance types": "aws-instance-types",
    "aws/karpenter-provider-aws": "aws-price-list",
    "AWS P6e-GB200": "aws-p6e-announcement",
    "Cyclenerd/": "gcp-machine-types",
    "Azure/": "azure-size-lists",
    "skypilot-org/skypilot-catalog v8 verda": "verda-price-list",
    "skypilot-org/skypilot-catalog v8 lambda": "lambda-price-list",
    "skypilot-org/skypilot-catalog v8 nebius": "nebius-price-list",
    "skypilot-org/skypilot-catalog v8 runpod": "runpod-price-list",
    "spheron.network": "runpod-h100-post",
}

GPU_ALIASES = {
    "H100": "H100-SXM",
    "H100-80GB": "H100-SXM",
    "H100-SXM5": "H100-SXM",
    "H100-SXM5-80GB": "H100-SXM",
    "NVIDIA H100 80GB HBM3": "H100-SXM",
    "NVIDIA H100 PCIe": "H100-PCIe",
    "NVIDIA H100 NVL": "H100-NVL",
    "H200": "H200-SXM",
    "H200-141GB": "H200-SXM",
    "NVIDIA H200": "H200-SXM",
    "GH200": "GH200-96GB",
    "A100": "A100-SXM4-80GB",
    "A100-80GB": "A100-SXM4-80GB",
    "A100-SXM": "A100-SXM4-80GB",
    "A100-SXM-80GB": "A100-SXM4-80GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "A100-40GB": "A100-SXM4-40GB",
    "A100-SXM-40GB": "A100-SXM4-40GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "A100-PCIe": "A100-PCIe-80GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
    "V100": "V100-SXM2-16GB",
    "V100-16GB": "V100-SXM2-16GB",
    "V100-32GB": "V100-SXM2-32GB",
    "V100-SXM2": "V100-SXM2-16GB",
    "V100-PCIe": "V100-PCIe-16GB",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "P100": "P100-PCIe",
    "Tesla T4": "T4",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA A10G": "A10G",
    "4090": "RTX-4090",
    "RTX4090": "RTX-4090",
    "3090": "RTX-3090",
    "5090": "RTX-5090",
    "A4000": "RTX-A4000",
    "A5000": "RTX-A5000",
    "A6000": "RTX-A6000",
    "RTX-PRO-6000": "RTX-PRO-6000-Server",
    "RTX-PRO-6000-Blackwell-Server-Edition": "RTX-PRO-6000-Server",
    "RTX-PRO-4500": "RTX-PRO-4500-Server",
    "Gaudi-2": "Gaudi2",
    "Gaudi-3": "Gaudi3",
    "trn1": "Trainium1",
    "trn2": "Trainium2",
    "inf1": "Inferentia",
    "inf2": "Inferentia2",
    "v5e": "TPU-v5e",
    "v5p": "TPU-v5p",
    "v6e": "TPU-v6e",
    "Trillium": "TPU-v6e",
}

US_GOVERNMENT, CHINA, JIO = "US government customers", "accounts of AWS China", "customers of Jio"
RESTRICTED_REGIONS = {
    ("aws", "us-gov-east-1"): US_GOVERNMENT,
    ("aws", "us-gov-west-1"): US_GOVERNMENT,
    ("aws", "cn-north-1"): CHINA,
    ("aws", "cn-northwest-1"): CHINA,
    ("azure", "jioindiacentral"): JIO,
    ("azure", "jioindiawest"): JIO,
}

LINK_ONE_WAY_ALREADY = {"Gaudi2"}
BRIDGE_SOLD_APART = (
    "A30",
    "A40",
    "A100-PCIe-40GB",
    "A100-PCIe-80GB",
    "H100-PCIe",
    "RTX-3090",
    "RTX-A5000",
    "RTX-A6000",
)
LINKED_GPUS = dict.fromkeys(BRIDGE_SOLD_APART, 1) | {
    "H100-NVL": 2,
    "H200-NVL": 4,
    "GB200": 72,
    "GB300": 72,
    "MI250X": 2,
}
PCIE_LANES_BY_GPU = {"L4": 8, "L40S": 8, "T4": 8, "RTX-PRO-6000-Server": 16}
PCIE_LANE_GB_PER_S = {3: 1.0, 4: 2.0, 5: 63 / 16}
CAUTIOUS_LANES = 8
BRIDGED_PAIRS = {"Standard_NC96ads_A100_v4"}
NOT_SOLD_ON_DEMAND = {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"}
GCP_ATTACHABLE = {"nvidia-tesla-t4": "T4", "nvidia-tesla-v100": "V100", "nvidia-tesla-p100": "P100"}


def read(path: Path, delimiter: str = ",") -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def write_csv(path: Path, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_toml(path: Path, tables: dict[str, dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = [toml_block(name, table) for name, table in tables.items()]
    path.write_text("\n".join(blocks), encoding="utf-8")


def toml_block(name: str, table: dict[str, Any]) -> str:
    lines = [f"{key} = {toml_value(value)}\n" for key, value in table.items() if value not in (None, "")]
    return f"[{name if re.fullmatch('[A-Za-z0-9_-]+', name) else json.dumps(name)}]\n" + "".join(lines)


def toml_value(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)


def figure(cell: str) -> float | None:
    return float(cell) if cell else None


def plain_evidence(words: str) -> str:
    """What was read somewhere is confirmed; what was not is unconfirmed."""
    words = re.sub(r"\brecalled\b", "unconfirmed", words)
    return re.sub(r"\bseen\b", "confirmed", words)


def public_notes(words: str) -> str:
    """Notes without sentences about material that readers do not have."""
    sentences = re.split(r"(?<=\.)\s+", words)
    return " ".join(s for s in sentences if not re.search(r"seeds?\b|truth|lightning", s, re.IGNORECASE))


# --- accelerators -----------------------------------------------------------------------------------------------


def source_slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")


def source_title(detail: str) -> str:
    """The document behind a spec row, without how it was reached."""
    head = "vendor figures, unconfirmed" if detail.startswith("recalled") else detail
    return re.split(r"[;,(]| via ", head)[0].strip()


def one_way_gb_per_s(spec: Row) -> float | None:
    """Datasheets add both directions of a link; our tables hold one."""
    both = figure(spec["nvlink_gb_s"])
    return both if both is None or spec["name"] in LINK_ONE_WAY_ALREADY else both / 2


def link_basis(spec: Row) -> str | None:
    if not figure(spec["nvlink_gb_s"]):
        return None
    return "one direction as published" if spec["name"] in LINK_ONE_WAY_ALREADY else "published sum of both halved"


def linked_gpus(spec: Row) -> int | None:
    """GPUs that a link surely joins, where not eight: 1 for cards whose bridge is sold apart, 72 for a rack."""
    return LINKED_GPUS.get(spec["name"]) if figure(spec["nvlink_gb_s"]) else None


def accelerator_table(spec: Row) -> dict[str, Any]:
    detail = plain_evidence(spec["source"])
    published = dict(zip(PEAK_COLUMNS.values(), peaks_of(spec), strict=True))
    return {
        "vendor": spec["vendor"],
        "generation": spec["architecture"],
        "memory_mib_reported": figure(spec["memory_mib_reported"]),
        "memory_evidence": plain_evidence(spec["memory_evidence"]),
        "marketed_memory_gb": figure(spec["memory_gb"]),
        "memory_type": spec["memory_type"],
        "bandwidth_gb_per_s": figure(spec["memory_bandwidth_gb_s"]),
        **published,
        "link_gb_per_s_per_direction": one_way_gb_per_s(spec),
        "link_basis": link_basis(spec),
        "linked_gpus": linked_gpus(spec),
        "pcie_generation": figure(spec["pcie_gen"]),
        "board_power_watts": figure(spec["tdp_w"]),
        "sm_count": figure(spec["sm_count"]),
        "l2_mib": figure(spec["l2_mb"]),
        "release_year": figure(spec["release_year"]),
        "source_id": source_slug(source_title(spec["source"])),
        "source_detail": detail,
        "cross_check": spec["cross_check"],
        "evidence": evidence_of(spec),
        "notes": public_notes(spec["notes"]),
    }


def peaks_of(spec: Row) -> list[float | None]:
    columns = ("fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "fp8_tflops", "int8_tops", "fp4_tflops")
    if spec["name"] == "RTX-PRO-4500-Server":
        return workstation_blackwell_peaks(float(spec["fp32_tflops"]))
    return [figure(spec[column]) for column in columns]


def workstation_blackwell_peaks(fp32_tflops: float) -> list[float | None]:
    """Dense rates per SM and clock are those of RTX PRO 6000: tf32 2x, fp16 4x, fp8 8x, fp4 16x fp32."""
    return [fp32_tflops * ratio for ratio in (1, 2, 4, 4, 8, 8, 16)]


def evidence_of(spec: Row) -> str:
    if spec["name"] == "RTX-PRO-4500-Server":
        return "workstation card; tensor rates derived: fp32 times the ratios of RTX PRO 6000 (2, 4, 8, 16)"
    return plain_evidence(spec["evidence"])


def build_accelerators(specs: list[Row], out: Path) -> dict[str, dict[str, Any]]:
    by_vendor: dict[str, dict[str, dict[str, Any]]] = {}
    for spec in specs:
        by_vendor.setdefault(spec["vendor"], {})[spec["name"]] = accelerator_table(spec)
    for vendor, tables in by_vendor.items():
        write_toml(out / "accelerators" / f"{vendor}.toml", tables)
    titles = {source_title(spec["source"]) for spec in specs}
    return {source_slug(title): {"title": title, "as_of": COMPILED} for title in titles}


# --- instances --------------------------------------------------------------------------------------------------


def instance_source(detail: str) -> str:
    return next(source for prefix, source in INSTANCE_SOURCE_PREFIXES.items() if detail.startswith(prefix))


def is_retired(row: Row) -> bool:
    return "ABSENT" in row["evidence"] or "retired" in row["evidence"]


def assumed_pcie(row: Row, generation: int | None) -> dict[str, str]:
    """A PCIe link whose width is not published: the width seen elsewhere for that GPU, else eight lanes."""
    known = row["gpu"] in PCIE_LANES_BY_GPU
    lanes = PCIE_LANES_BY_GPU.get(row["gpu"], CAUTIOUS_LANES)
    why = f"as measured for {row['gpu']} on AWS" if known else "the cautious case"
    if generation is None:
        return {"link_kind": "pcie", "link_gb_per_s_per_direction": "", "link_evidence": "unknown"}
    return {
        "link_kind": "pcie",
        "link_gb_per_s_per_direction": f"{lanes * PCIE_LANE_GB_PER_S[generation]:g}",
        "link_evidence": f"assumed: width not published, x{lanes} taken, {why}",
    }


def link_of(row: Row, spec: Row) -> dict[str, str]:
    """Kind, rate and evidence of the links between the GPUs of an instance."""
    description = row["intra_node_link"] or "not published"
    count = figure(row["gpu_count"]) or 0
    if count <= 1:
        return {
            "link_kind": "none",
            "link_gb_per_s_per_direction": "",
            "link_evidence": "",
            "link_description": description,
        }
    published = row["link_gb_s_per_direction"]
    if row["instance_type"] in BRIDGED_PAIRS or (row["link_kind"] in ("pcie", "none") and not published):
        generation = row["host_pcie_gen"] or spec["pcie_gen"]
        return {**assumed_pcie(row, int(generation) if generation else None), "link_description": description}
    of_gpu = one_way_gb_per_s(spec)
    return {
        "link_kind": row["link_kind"],
        "link_gb_per_s_per_direction": published or ("" if of_gpu is None else f"{of_gpu:g}"),
        "link_evidence": row["link_evidence"] or "published link of the GPU",
        "link_description": description,
    }


def instance_row(row: Row, spec: Row) -> Row:
    link = link_of(row, spec)
    return {
        "cloud": row["cloud"],
        "name": row["instance_type"],
        "accelerator": row["gpu"],
        "gpu_count": row["gpu_count"],
        "vcpus": row["vcpus"],
        "memory_gib": row["memory_gib"],
        **link,
        "network_gbit_per_s": row["network_gbps"],
        "local_ssd_gb": row["local_ssd_gb"],
        "status": "retired" if is_retired(row) else "current",
        "source_id": instance_source(row["source"]),
        "evidence": plain_evidence(row["evidence"]),
    }


def build_instances(rows: list[Row], specs: list[Row], out: Path) -> list[Row]:
    by_name = {spec["name"]: spec for spec in specs}
    built = [instance_row(row, by_name[row["gpu"]]) for row in rows]
    for cloud in sorted({row["cloud"] for row in built}):
        write_csv(out / "instances" / f"{cloud}.csv", INSTANCE_COLUMNS, [r for r in built if r["cloud"] == cloud])
    return built


# --- offers -----------------------------------------------------------------------------------------------------


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
                row["price_as_of"] if dated else UNDATED_COPY,
                basis="observed" if source == "runpod-h100-post" else "list",
            )


def region_of_small_cloud(row: Row) -> str:
    if row["cloud"] != "nebius":
        return row["price_region"]
    return "us-central1" if row["gpu"] == "B200" else "eu-north1"


def spot_estimates(advisor: list[Row], on_demand: list[Row], counts: Counter[str]) -> Iterator[Row]:
    """Spot = on-demand x (1 - saving), where on-demand of that region is known."""
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
            yield offer_row(
                "aws", row["region"], row["instance_type"], price, "aws-spot-advisor", "2025-06-28", **estimate
            )


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


# --- availability and the small tables ----------------------------------------------------------------------------


Zones = dict[tuple[str, str], list[str]]


def zones_of(triples: Iterable[tuple[str, str, str]]) -> Zones:
    """Names of zones per (region, instance type), from distinct (region, zone, instance type)."""
    zones: Zones = {}
    for region, zone, instance in sorted(set(triples)):
        zones.setdefault((region, instance), []).append(zone.removeprefix(region).removeprefix("-"))
    return zones


def availability_rows(cloud: str, zones: Zones, source: str, sold_as: dict[str, str]) -> list[Row]:
    as_of = PRICE_SOURCES[source]["as_of"]
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


def aws_availability(catalog: Path, known: set[tuple[str, str]]) -> list[Row]:
    offerings = read(catalog / "aws_offerings_moto.csv")
    zones = zones_of((r["region"], r["availability_zone"], r["instance_type"]) for r in offerings)
    rows = availability_rows("aws", zones, "aws-instance-offerings", aws_sold_as(catalog))
    listed = {(row["region"], row["instance_type"]) for row in rows}
    china = [r for r in read(catalog / "aws_on_demand_karpenter.csv") if r["currency"] == "CNY"]
    rows += [
        dict(
            zip(
                SHIPPED_AVAILABILITY_COLUMNS,
                ("aws", r["region"], r["instance_type"], "", "aws-price-list-china", r["generated_at"][:10], "", ""),
                strict=True,
            )
        )
        for r in china
        if (r["region"], r["instance_type"]) not in listed
    ]
    return [row for row in rows if ("aws", row["instance_type"]) in known]


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


def build_availability(facts: Path, instances: list[Row], out: Path) -> None:
    known = {(row["cloud"], row["name"]) for row in instances if row["status"] == "current"}
    for cloud, rows_of in (("aws", aws_availability), ("gcp", gcp_availability)):
        rows = rows_of(facts / "catalog", known)
        write_csv(out / "availability" / f"{cloud}.csv", SHIPPED_AVAILABILITY_COLUMNS, rows)


def build_small_tables(out: Path) -> None:
    aliases = [f"{json.dumps(alias)} = {json.dumps(name)}\n" for alias, name in sorted(GPU_ALIASES.items())]
    (out / "gpu_aliases.toml").write_text("".join(aliases), encoding="utf-8")
    discounts = [(*rule[:4], "gpu-requirements-assessment", rule[4]) for rule in TYPICAL_DISCOUNTS]
    write_csv(
        out / "typical_discounts.csv",
        DISCOUNT_COLUMNS,
        [dict(zip(DISCOUNT_COLUMNS, rule, strict=True)) for rule in discounts],
    )
    restricted = [(cloud, region, access) for (cloud, region), access in sorted(RESTRICTED_REGIONS.items())]
    write_csv(
        out / "restricted_regions.csv",
        RESTRICTED_COLUMNS,
        [dict(zip(RESTRICTED_COLUMNS, r, strict=True)) for r in restricted],
    )


def days_of(table: dict[str, Any]) -> dict[str, date]:
    return {key: date.fromisoformat(table[key]) for key in DAYS if key in table}


def merge_sources(ours: dict[str, dict[str, Any]], out: Path) -> None:
    """Our sources replace their namesakes; those that other tables brought stay."""
    path = out / "sources.toml"
    present = toml_of(path) if path.exists() else {}
    dated = {name: table | days_of(table) for name, table in ours.items()}
    write_toml(path, dict(sorted({**present, **dated}.items())))


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("--today", type=date.fromisoformat, default=date.today())
    arguments = parser.parse_args()
    specs = read(arguments.facts / "catalog" / "gpu_specs.csv")
    rows = read(arguments.facts / "catalog" / "instances.csv")
    spec_sources = build_accelerators(specs, DATA)
    instances = build_instances(rows, specs, DATA)
    build_offers(arguments.facts, rows, instances, DATA)
    build_availability(arguments.facts, instances, DATA)
    build_foreign_offers(arguments.facts, instances, DATA)
    build_small_tables(DATA)
    merge_sources({**spec_sources, **PRICE_SOURCES}, DATA)
    return report_faults(arguments.today)


if __name__ == "__main__":
    sys.exit(main())
