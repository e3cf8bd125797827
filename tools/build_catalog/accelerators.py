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
RELATIVES = {
    **dict.fromkeys(("RTX-PRO-6000-Workstation", "RTX-PRO-6000-Max-Q", "RTX-PRO-5000"), "RTX-PRO-6000-Server"),
    **dict.fromkeys(("RTX-PRO-5000-72GB", "RTX-PRO-4000", "RTX-PRO-2000"), "RTX-PRO-6000-Server"),
    **dict.fromkeys(("RTX-5080", "RTX-5070-Ti"), "RTX-5090"),
    **dict.fromkeys(("RTX-4080", "RTX-4080-SUPER", "RTX-4070-Ti-SUPER"), "RTX-4090"),
    **dict.fromkeys(("RTX-5000-Ada", "RTX-4500-Ada", "RTX-4000-Ada", "RTX-2000-Ada", "RTX-5880-Ada"), "RTX-6000-Ada"),
    **dict.fromkeys(("RTX-3090-Ti", "RTX-3080"), "RTX-3090"),
    **dict.fromkeys(("Quadro-RTX-6000", "Quadro-RTX-8000"), "T4"),
    **dict.fromkeys(("MI100", "MI210", "MI250"), "MI250X"),
    "RTX-A4500": "RTX-A5000",
}
OF_THE_RELATIVE = ("compute_capability", "peer_to_peer", "peer_to_peer_source")
BRIDGES_OF_RELATIVES = ("RTX-A4500", "RTX-3090-Ti", "Quadro-RTX-6000", "Quadro-RTX-8000", "MI100", "MI210")
LINKED_GPUS = dict.fromkeys((*BRIDGE_SOLD_APART, *BRIDGES_OF_RELATIVES), 1) | {
    "H100-NVL": 2,
    "H200-NVL": 4,
    "GB200": 72,
    "GB300": 72,
    "MI250X": 2,
    "MI250": 2,
}
DERIVED_RATES, DECIMAL_MIB_PER_GB = "tensor rates derived", 1e9 / 2**20
PEAK_CELLS = ("fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "fp8_tflops", "int8_tops", "fp4_tflops")
SOLD_NOWHERE, FRACTIONS_ALONE = ("announced", "no cloud"), ("Radeon-PRO-V710",)
WRITTEN_BY_HAND = ("H20", "L20", "H800-SXM", "A800-SXM4-80GB")
OF_THE_GATHERING = re.compile(r"an hour|label|recalled|not in the list|price seen|moto|product")


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
    if spec["name"] == "RTX-PRO-4500-Server":
        return workstation_blackwell_peaks(float(spec["fp32_tflops"]))
    return [figure(spec[column]) for column in PEAK_CELLS]


def workstation_blackwell_peaks(fp32_tflops: float) -> list[float | None]:
    """Dense rates per SM and clock are those of RTX PRO 6000: tf32 2x, fp16 4x, fp8 8x, fp4 16x fp32."""
    return [fp32_tflops * ratio for ratio in (1, 2, 4, 4, 8, 8, 16)]


def evidence_of(spec: Row) -> str:
    if spec["name"] == "RTX-PRO-4500-Server":
        return "workstation card; tensor rates derived: fp32 times the ratios of RTX PRO 6000 (2, 4, 8, 16)"
    return plain_evidence(spec["evidence"])


def later_specs(rows: list[Row], known: list[Row]) -> list[Row]:
    """Cards of a second gathering that the first lacks; what none sells yet, or whose rates nobody gives, stays out."""
    by_name = {spec["name"]: spec for spec in known}
    new = [row for row in rows if row["name"] not in by_name and is_described(row)]
    return [like_its_relative(row, by_name.get(RELATIVES.get(row["name"], ""))) for row in new]


def is_described(row: Row) -> bool:
    """Whether a card can be rented or bought whole, and what it computes is known."""
    is_sold = not any(row["evidence"].startswith(word) or word in row["notes"] for word in SOLD_NOWHERE)
    return is_sold and row["name"] not in (*FRACTIONS_ALONE, *WRITTEN_BY_HAND)


def like_its_relative(row: Row, relative: Row | None) -> Row:
    """A card with what its relative says: the share of memory that drivers report, and rates over fp32 not read."""
    said = [clause for clause in row["notes"].split("; ") if not OF_THE_GATHERING.search(clause)]
    return {**row, **memory_like(row, relative), **rates_of_relative(row, relative), "notes": "; ".join(said)}


def memory_like(row: Row, relative: Row | None) -> Row:
    """Memory as a driver would report it, where nobody has read it."""
    marketed = float(row["memory_gb"])
    if relative is None:
        mib = marketed * 1024 if "memory in GiB" in row["notes"] else marketed * DECIMAL_MIB_PER_GB
        return {"memory_mib_reported": f"{mib:.0f}", "memory_evidence": "derived from the marketed figure"}
    share = float(relative["memory_mib_reported"]) / float(relative["memory_gb"])
    return {
        "memory_mib_reported": f"{marketed * share:.0f}",
        "memory_evidence": f"derived: the share that drivers report of {relative['name']}",
    }


def rates_of_relative(row: Row, relative: Row | None) -> Row:
    """Rates that were derived in the gathering, by the ratios to fp32 of the card whose rates are published."""
    if relative is None or DERIVED_RATES not in row["evidence"]:
        return {}
    ratio = float(row["fp32_tflops"]) / float(relative["fp32_tflops"])
    rates = {cell: f"{float(relative[cell]) * ratio:.4g}" if relative[cell] else "" for cell in PEAK_CELLS[1:]}
    evidence = f"partial: {DERIVED_RATES}: those of {relative['name']} by the ratio of fp32"
    return {**rates, "evidence": evidence}


def build_accelerators(specs: list[Row], out: Path) -> None:
    """One file a vendor; a table keeps what was written into it by hand, and GPUs without facts keep their tables."""
    by_vendor: dict[str, Tables] = {}
    for spec in specs:
        if spec["name"] not in WRITTEN_BY_HAND:
            by_vendor.setdefault(spec["vendor"], {})[spec["name"]] = accelerator_table(spec)
    for vendor, tables in by_vendor.items():
        path = out / "accelerators" / f"{vendor}.toml"
        held = tables_in(path)
        write_toml(path, {**held, **{name: held_or_related(name, table, held) for name, table in tables.items()}})


def held_or_related(name: str, table: dict[str, Any], held: Tables) -> dict[str, Any]:
    """A table over what stands there; a new card has the drivers of its relative."""
    related = held.get(RELATIVES.get(name, ""), {})
    built = {key: value for key, value in table.items() if value not in (None, "")}
    if name in held:
        return {**held[name], **built}
    return {**built, **{key: related[key] for key in OF_THE_RELATIVE if key in related}}


def add_sources(specs: list[Row], today: date, out: Path) -> None:
    """A source for every document that a spec names; those of sources.toml stay as they are."""
    titles = {source_title(spec["source"]) for spec in specs if spec["name"] not in WRITTEN_BY_HAND}
    path = out / "sources.toml"
    named = {source_slug(title): {"title": title, "as_of": today} for title in titles}
    write_toml(path, dict(sorted({**named, **tables_in(path)}.items())))
