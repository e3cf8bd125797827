"""accelerators/<vendor>.toml: one table a GPU."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

from tools.build_catalog.tables import Row, Tables, figure, plain_evidence, public_notes, tables_in, write_toml

from gpufleet.catalog.schema import PEAK_COLUMNS

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


def build_accelerators(specs: list[Row], out: Path) -> None:
    """One file a vendor; GPUs that the facts do not describe keep their tables."""
    by_vendor: dict[str, Tables] = {}
    for spec in specs:
        by_vendor.setdefault(spec["vendor"], {})[spec["name"]] = accelerator_table(spec)
    for vendor, tables in by_vendor.items():
        path = out / "accelerators" / f"{vendor}.toml"
        write_toml(path, {**tables_in(path), **tables})


def add_sources(specs: list[Row], today: date, out: Path) -> None:
    """A source for every document that a spec names; those of sources.toml stay as they are."""
    titles = {source_title(spec["source"]) for spec in specs}
    path = out / "sources.toml"
    named = {source_slug(title): {"title": title, "as_of": today} for title in titles}
    write_toml(path, dict(sorted({**named, **tables_in(path)}.items())))
