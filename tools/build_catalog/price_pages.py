"""Prices that one project read on the price pages of 33 clouds in a day, and what those sell that the tables lacked.

A price of one GPU becomes one of a machine only where the machine is known whole: its GPU with its form, how many, and
its host. Whatever else the pages say stands in unranked_prices.csv with what it lacks. Their spot prices of AWS are
taken nowhere: the feed behind them stands still since 2024.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.build_catalog.accelerators import one_way_gb_per_s
from tools.build_catalog.instances import assumed_pcie
from tools.build_catalog.tables import Row, offer_row, read, write_csv

from gpufleet.catalog.price_history import HISTORY_COLUMNS
from gpufleet.catalog.unranked_prices import UNRANKED_COLUMNS
from gpufleet.domain.fabric import PCIE

ANY_REGION, VERDA_REGION = "all", "FIN"
SOURCE, SECOND_SOURCE = "gpu-rental-prices", "gpu-price-dashboard"
DAY, SECOND_DAY = "2026-10-10", "2026-08-22"
PRICES, MACHINES = "neocloud_prices_2026-10-10.csv", "instances_new.csv"
BY_THE_GPU = ("nebius", "verda", "runpod")
"""Clouds whose page prices one GPU, and whose machines were multiples of it in every list before."""
SIZED_BY_VCPU_TOO = (("nebius", "L40S"),)
FORMS = {
    "a100-pcie-40": "A100-PCIe-40GB",
    "a100-pcie-80": "A100-PCIe-80GB",
    "a100-sxm-40": "A100-SXM4-40GB",
    "a100-sxm-80": "A100-SXM4-80GB",
    "h100-sxm": "H100-SXM",
    "h100-nvl": "H100-NVL",
    "h100-pcie": "H100-PCIe",
    "h200": "H200-SXM",
    "gh200": "GH200-96GB",
    "rtx-6000-ada": "RTX-6000-Ada",
    "rtx-pro-6000": "RTX-PRO-6000-Server",
    "rtx-pro-6000-server": "RTX-PRO-6000-Server",
    "rtx-pro-6000-wk": "RTX-PRO-6000-Workstation",
    "rtx-pro-6000-maxq": "RTX-PRO-6000-Max-Q",
    "rtx-pro-4500": "RTX-PRO-4500-Server",
    "quadro-rtx-6000": "Quadro-RTX-6000",
    "v100": "V100-SXM2-16GB",
    **{word: word.upper() for word in ("b200", "b300", "gb200", "gb300", "a10", "a40", "l4", "l40", "l40s", "t4")},
    **{f"mi{number}x": f"MI{number}X" for number in (300, 325, 350, 355)},
    **{f"rtx-{name}": f"RTX-{name.upper()}" for name in ("3090", "4090", "5090", "a4000", "a5000", "a6000")},
}
FORMS_OF_A_CLOUD = {
    ("hyperstack", "h100"): "H100-PCIe",
    ("hyperstack", "a100"): "A100-PCIe-80GB",
    ("vultr", "a100"): "A100-PCIe-80GB",
    ("coreweave", "a100"): "A100-SXM4-80GB",
    **{(cloud, "h100"): "H100-SXM" for cloud in ("coreweave", "digitalocean", "nebius")},
}
SECOND_NAMES = {
    ("RTX 6000 Pro (Blackwell)", "96"): "RTX-PRO-6000-Server",
    ("GB200 (Grace-Blackwell)", "186"): "GB200",
    ("GB300 (Grace-Blackwell)", "288"): "GB300",
    ("A100 40GB", "40"): "A100-SXM4-40GB",
    ("A100 80GB", "80"): "A100-SXM4-80GB",
    **{(f"H100{form}", "80"): "H100-SXM" for form in ("", " SXM")},
    ("H200 SXM", "141"): "H200-SXM",
    ("V100", "16"): "V100-SXM2-16GB",
    ("RTX 6000 Ada", "48"): "RTX-6000-Ada",
    ("RTX A6000", "48"): "RTX-A6000",
    **{(name, memory): name for name, memory in (("A10", "24"), ("B200", "180"), ("L40S", "48"), ("MI300X", "192"))},
    **{("B300", memory): "B300" for memory in ("268", "288")},
    ("MI355X", "288"): "MI355X",
}
SECOND_CLOUDS = {"Oracle OCI": "oci", "Nebius": "nebius", "Verda (DataCrunch)": "verda"}
MARKETPLACES = ("spheron", "primeintellect", "together", "tensordock")
LISTED_KINDS = {"on-demand": "on_demand", "secure": "on_demand"}
PARTS_ALONE = ("gcp", "daytona")
LACKS_OF_KIND = {
    "serverless": "a price of seconds that run, not of a machine",
    "reserved": "a term that is negotiated or not named",
    "spot": "the machine that is sold so is not named",
}
NOT_FOR_SALE = re.compile(r"out of stock|help article|GPU only|marketplace|virtual GPU|FROZEN|from EUR|lowest of")


def gpu_of_page(row: Row) -> str | None:
    """The GPU that a row names with its form; None where it may be one of several."""
    word = row["gpu_as_written"]
    return FORMS_OF_A_CLOUD.get((row["provider"], word)) or FORMS.get(word)


def new_machines(facts: Path, machines: Sequence[Row], specs: Mapping[str, Row], counts: Counter[str]) -> list[Row]:
    """Machines of the pages whose host is known and that the tables lack."""
    held = {(m["cloud"], m["accelerator"], m["gpu_count"], m["vcpus"]) for m in machines}
    names = {(m["cloud"], m["name"]) for m in machines}
    found = []
    for row in read(facts / MACHINES):
        key = row["cloud"], row["gpu"], row["gpu_count"], row["vcpus"]
        if not (row["vcpus"] and row["memory_gib"]):
            counts["price pages: machines whose host is not known"] += 1
        elif key not in held and (row["cloud"], row["instance_type"]) not in names:
            found.append(machine_row(row, machines, specs[row["gpu"]]))
    return found


def with_hosts(machines: Sequence[Row], facts: Path) -> list[Row]:
    """The same with vCPUs and memory that the pages name and the tables lack."""
    said = {(row["cloud"], row["instance_type"]): row for row in read(facts / MACHINES) if row["vcpus"]}
    return [with_host(m, said.get((m["cloud"], m["name"]))) for m in machines]


def with_host(machine: Row, row: Row | None) -> Row:
    if row is None or machine["vcpus"]:
        return machine
    evidence = f"{machine['evidence']}; vCPUs and memory: {SOURCE}"
    return {**machine, "vcpus": row["vcpus"], "memory_gib": row["memory_gib"], "evidence": evidence}


def machine_row(row: Row, machines: Sequence[Row], spec: Row) -> Row:
    """A machine as its page says it, with the link that the same GPUs have elsewhere."""
    is_recalled = "name recalled" in row["evidence"]
    return {
        "cloud": row["cloud"],
        "name": row["instance_type"],
        "accelerator": row["gpu"],
        "gpu_count": row["gpu_count"],
        "vcpus": row["vcpus"],
        "memory_gib": row["memory_gib"],
        **link_as_elsewhere(row["gpu"], float(row["gpu_count"]), machines, spec),
        "network_gbit_per_s": row["network_gbps"],
        "local_ssd_gb": row["local_ssd_gb"],
        "status": "current",
        "source_id": SOURCE,
        "evidence": "confirmed: third party" + ("; name of the type unconfirmed" if is_recalled else ""),
    }


def link_as_elsewhere(gpu: str, count: float, machines: Sequence[Row], spec: Row) -> Row:
    """The published link of GPUs that come with one, as other clouds' machines have it, else PCIe of assumed width."""
    if count <= 1:
        none = {"link_kind": "none", "link_gb_per_s_per_direction": "", "link_evidence": ""}
        return {**none, "link_description": "none (1 GPU)"}
    like = [m for m in machines if m["accelerator"] == gpu and not m["link_kind"].startswith((PCIE, "none"))]
    if like:
        kept = ("link_kind", "link_gb_per_s_per_direction", "link_description")
        return {**{name: like[0][name] for name in kept}, "link_evidence": "published link of the GPU"}
    if spec["vendor"] == "amd":
        described = {"link_kind": "xgmi", "link_description": f"Infinity Fabric {spec['nvlink_gb_s']} GB/s"}
        rate = f"{one_way_gb_per_s(spec):g}"
        return {**described, "link_gb_per_s_per_direction": rate, "link_evidence": "published link of the GPU"}
    link = assumed_pcie({"gpu": gpu}, int(spec["pcie_gen"]))
    return {**link, "link_description": f"PCIe Gen{spec['pcie_gen']}"}


def page_offers(facts: Path, machines: Sequence[Row], regions: Mapping[tuple[str, str], Sequence[str]]) -> list[Row]:
    """What the pages ask for machines of the tables, in the regions where those are priced already, else in any."""
    rows = [row for row in read(facts / PRICES) if is_listed(row)]
    found = [offer for row in rows for offer in offers_of_row(row, machines, regions)]
    return [*found, *spot_of_azure(facts), *second_offers(facts, machines, regions)]


def is_listed(row: Row) -> bool:
    """Whether a row is a price at which its cloud sells what it names."""
    is_market = row["provider"] in (*MARKETPLACES, *PARTS_ALONE) or NOT_FOR_SALE.search(row["note"])
    return row["price_kind_as_written"] in LISTED_KINDS and not is_market


def offers_of_row(row: Row, machines: Sequence[Row], regions: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[Row]:
    """Prices of the machines that a row speaks of; one that is named stands in the region that the row names."""
    price, kind = float(row["usd_per_gpu_hour"]), LISTED_KINDS[row["price_kind_as_written"]]
    if row["provider"] in ("aws", "azure"):
        whole = price * float(row["min_gpus"])
        basis = {"price_kind": kind, "basis": "list"}
        yield offer_row(row["provider"], row["region"], row["instance_as_written"], whole, SOURCE, DAY, **basis)
        return
    for machine in machines_of_row(row, machines):
        whole = price * float(machine["gpu_count"])
        for region in regions.get((row["provider"], machine["name"]), [ANY_REGION]):
            yield offer_row(
                row["provider"], region, machine["name"], whole, SOURCE, DAY, price_kind=kind, basis="observed"
            )


def machines_of_row(row: Row, machines: Sequence[Row]) -> list[Row]:
    """Machines of the cloud that hold the GPUs of a row, with its host where it names one."""
    cloud, gpu = row["provider"], gpu_of_page(row)
    if gpu is None or (cloud, gpu) in SIZED_BY_VCPU_TOO:
        return []
    of_gpu = [m for m in machines if (m["cloud"], m["accelerator"]) == (cloud, gpu) and m["status"] == "current"]
    same = [m for m in of_gpu if m["vcpus"]]
    if cloud in BY_THE_GPU:
        return [m for m in same if m["gpu_count"]]
    vcpus = re.search(r"(\d+) vCPU", row["note"])
    sized = [m for m in same if float(m["gpu_count"] or 0) == float(row["min_gpus"] or 1)]
    return [m for m in sized if vcpus is None or not m["vcpus"] or m["vcpus"] == vcpus[1]]


def spot_of_azure(facts: Path) -> Iterator[Row]:
    """Spot prices of Azure: the sizes of eastus that were asked for that day."""
    for row in read(facts / "azure_spot_2026-10-10.csv"):
        if row["price_kind"] == "spot" and row["as_of"] == DAY:
            price = float(row["price_per_instance_usd_per_hour"])
            kind = {"price_kind": "spot", "basis": "list"}
            yield offer_row("azure", row["region"], row["instance_type"], price, SOURCE, DAY, **kind)


def second_offers(
    facts: Path, machines: Sequence[Row], regions: Mapping[tuple[str, str], Sequence[str]]
) -> Iterator[Row]:
    """OCI, Nebius and Verda as another project read them in August: the day of a list without one, and spot."""
    for row in read(facts / "multi_cloud_2026-08-22.csv"):
        cloud, gpu = SECOND_CLOUDS.get(row["provider"]), SECOND_NAMES.get((row["gpu_as_written"], row["vram_gb"]))
        kind = {"on-demand": "on_demand"}.get(row["price_kind_as_written"], row["price_kind_as_written"])
        if cloud is None or gpu is None or (cloud, gpu) in SIZED_BY_VCPU_TOO:
            continue
        for machine in machines:
            if (machine["cloud"], machine["accelerator"]) == (cloud, gpu) and machine["gpu_count"]:
                whole = float(row["usd_per_gpu_hour"]) * float(machine["gpu_count"])
                for region in regions.get((cloud, machine["name"]), [ANY_REGION]):
                    as_of = {"price_kind": kind, "basis": "observed"}
                    yield offer_row(cloud, region, machine["name"], whole, SECOND_SOURCE, row["as_of"], **as_of)


def write_unranked(facts: Path, machines: Sequence[Row], out: Path) -> None:
    """Prices of the pages that no machine of the tables has: per GPU, as written, with what each lacks."""
    read_there = [row for row in read(facts / PRICES) if "FROZEN" not in row["note"]]
    lacking = [(row, what_it_lacks(row, machines)) for row in read_there]
    write_csv(
        out / "unranked_prices.csv", UNRANKED_COLUMNS, [unranked_row(row, lacks) for row, lacks in lacking if lacks]
    )


def unranked_row(row: Row, lacks: str) -> Row:
    return {
        "provider": row["provider"],
        "gpu_as_written": row["gpu_as_written"],
        "min_gpus": row["min_gpus"],
        "price_kind_as_written": row["price_kind_as_written"],
        "price_per_gpu_usd_per_hour": row["usd_per_gpu_hour"],
        "lacks": lacks,
        "note": row["note"],
        "source_id": SOURCE,
        "as_of": row["as_of"],
    }


def what_it_lacks(row: Row, machines: Sequence[Row]) -> str:
    """Why a price is none of a machine that anybody can order; empty where a machine of the tables has it."""
    kind = row["price_kind_as_written"]
    if row["provider"] in MARKETPLACES or "marketplace" in row["note"] or kind == "community":
        return "a bid, or the lowest offer of other people's machines"
    if row["provider"] in PARTS_ALONE or "GPU only" in row["note"]:
        return "vCPUs and memory are billed apart"
    if not is_listed(row):
        return LACKS_OF_KIND.get(kind, row["note"])
    is_named = row["provider"] in ("aws", "azure")
    return "" if is_named or machines_of_row(row, machines) else "the host beside the GPU, or its form, is not known"


def write_history(facts: Path, out: Path) -> None:
    """How prices moved: first look, last look and the changes between, per GPU, kind and provider."""
    rows = [history_row(row) for row in read(facts / "neocloud_price_moves_2026-07_2026-10.csv") if may_move(row)]
    write_csv(out / "price_history.csv", HISTORY_COLUMNS, rows)


def may_move(row: Row) -> bool:
    """Whether a row follows one price over time; spot of AWS stands still in its feed."""
    return (row["provider"], row["price_kind_as_written"]) != ("aws", "spot")


def history_row(row: Row) -> Row:
    is_joined = bool(row["usd_per_gpu_hour_2026-10-10"])
    last = row["usd_per_gpu_hour_2026-10-10"] if is_joined else row["last_daily_usd_per_gpu_hour"]
    return {
        "provider": row["provider"],
        "gpu_as_written": row["gpu_as_written"],
        "price_kind_as_written": row["price_kind_as_written"],
        "min_gpus": row["min_gpus"],
        "first_day": row["first_date"],
        "first_price_per_gpu_usd_per_hour": row["first_usd_per_gpu_hour"],
        "last_day": DAY if is_joined else row["last_daily_date"],
        "last_price_per_gpu_usd_per_hour": last,
        "changes_seen": row["changes_seen_in_daily_looks"],
        "source_id": SOURCE,
    }
