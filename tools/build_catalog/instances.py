"""instances/<cloud>.csv: machine types, and the link between their GPUs."""

from __future__ import annotations

from pathlib import Path

from tools.build_catalog.accelerators import one_way_gb_per_s
from tools.build_catalog.tables import Row, figure, plain_evidence, read, write_csv

from gpufleet.catalog.schema import INSTANCE_COLUMNS
from gpufleet.domain.fabric import THROUGH_HOST

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
PCIE_LANES_BY_GPU = {"L4": 8, "L40S": 8, "T4": 8, "RTX-PRO-6000-Server": 16}
PCIE_LANE_GB_PER_S = {3: 1.0, 4: 2.0, 5: 63 / 16}
CAUTIOUS_LANES = 8
NO_PEER_ACCESS = {"g6.12xlarge", "g6.24xlarge", "g6.48xlarge"}
SAID_OF_PEERS = "; no peer access: llm-d-incubation/llm-d-infra pull/181 of 2025-08-19"
BRIDGED_PAIRS = {"Standard_NC96ads_A100_v4"}


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
    refuses_peers = row["instance_type"] in NO_PEER_ACCESS
    return {
        "link_kind": THROUGH_HOST if refuses_peers else row["link_kind"],
        "link_gb_per_s_per_direction": published or ("" if of_gpu is None else f"{of_gpu:g}"),
        "link_evidence": row["link_evidence"] or "published link of the GPU",
        "link_description": description + (SAID_OF_PEERS if refuses_peers else ""),
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


def further_machines() -> list[Row]:
    """Machines that the gathered facts do not describe: read in the catalogue that prices them."""
    return read(Path(__file__).parent / "machines.csv")


def described_machines(rows: list[Row], specs: list[Row]) -> list[Row]:
    """Machines of the gathered facts, and those read elsewhere."""
    by_name = {spec["name"]: spec for spec in specs}
    networks = {(row["cloud"], row["name"]): row for row in networks_of_gpus()}
    further = further_machines()
    read_later = {(machine["cloud"], machine["name"]) for machine in further}
    gathered = [row for row in rows if (row["cloud"], row["instance_type"]) not in read_later]
    machines = [*(instance_row(row, by_name[row["gpu"]]) for row in gathered), *further]
    return [with_network(machine, networks.get((machine["cloud"], machine["name"]))) for machine in machines]


def networks_of_gpus() -> list[Row]:
    """What the GPUs of a machine have to other machines, where the gathered facts lack it or count the host's too."""
    return read(Path(__file__).parent / "networks.csv")


def with_network(machine: Row, network: Row | None) -> Row:
    if network is None:
        return machine
    evidence = f"{machine['evidence']}; {network['evidence']}"
    return {**machine, "network_gbit_per_s": network["network_gbit_per_s"], "evidence": evidence}


def write_instances(built: list[Row], out: Path) -> None:
    for cloud in sorted({row["cloud"] for row in built}):
        write_csv(out / "instances" / f"{cloud}.csv", INSTANCE_COLUMNS, [r for r in built if r["cloud"] == cloud])
