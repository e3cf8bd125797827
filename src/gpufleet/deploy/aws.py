"""What AWS asks of whoever rents its machines: places that have an own region, quotas counted in vCPUs, disks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.deploy.serving_copies import ServingCopies
from gpufleet.deploy.target import Copies, Step, by_pool

AWS = "aws"
REGION = re.compile(r"[a-z]+(-[a-z]+)+-[0-9]+")
RENTED = ("on_demand", "spot")
BOUGHT_FOR_THE_ACCOUNT = ("savings_plan", "commit_1y", "commit_3y")
"""Price kinds that lower the bill of machines that start on demand: no file of a machine holds them."""
QUOTAS = {
    ("g", False): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
    ("p", False): ("L-417A185B", "Running On-Demand P instances"),
    ("g", True): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
    ("p", True): ("L-7212CCBC", "All P Spot Instance Requests"),
}
"""Quotas of a region in vCPUs, by family and whether on spot: docs.aws.amazon.com/AWSEC2 (On-Demand and Spot Instance
quotas) names them, `aws service-quotas list-service-quotas --service-code ec2` their codes; read 2026-11-29."""
SYSTEM_GIB = 30
"""Disk of the GPU images of ECS and EKS before anything runs (docs.aws.amazon.com/AmazonECS, AMI storage)."""
DISK_MIB_PER_S = 500
"""Speed of that disk, where 125 is the least: a download ends no sooner than it is written; a judgement."""


def unrentable(copies: Copies) -> str | None:
    """Why files that rent machines of AWS cannot hold copies: the first reason."""
    return next((reason for one in copies for reason in reasons(one)), several_regions(copies))


def reasons(one: ServingCopies) -> Iterator[str]:
    """Why not, for one group."""
    if one.cloud != AWS:
        yield f"{one.cloud} {one.instance}: machines of AWS alone"
    elif not REGION.fullmatch(one.region):
        yield f"{one.region}: no region, but a local zone or a price of all regions"
    elif one.vendor != "nvidia" or one.instance[:1] not in ("g", "p"):
        yield f"{one.instance}: machines with GPUs of NVIDIA alone"
    elif one.gpus_per_machine < 1:
        yield f"{one.instance}: part of a GPU"
    elif one.memory_gib is None:
        yield f"{one.instance}: its memory is not known"
    elif one.price_kind not in (*RENTED, *BOUGHT_FOR_THE_ACCOUNT):
        yield f"machines as {one.price_kind.replace('_', ' ')}: on demand, spot and what an account commits to alone"


def several_regions(copies: Copies) -> str | None:
    """Regions, where there are several."""
    regions = list(dict.fromkeys(one.region for one in copies))
    return None if len(regions) == 1 else f"{' and '.join(regions)}: machines of one region alone"


def is_spot(one: ServingCopies) -> bool:
    """Whether machines may be taken away."""
    return one.price_kind == "spot"


def root_disk_gib(pool: Copies) -> int:
    """Disk of a machine: its system's, and that of all copies on it."""
    return SYSTEM_GIB + sum(one.per_machine * one.disk_gib for one in pool)


def quota_steps(copies: Copies) -> Iterator[Step]:
    """A command for each quota that machines need, and how many vCPUs they take of it."""
    needed: dict[tuple[str, str], list[ServingCopies]] = {}
    for one, *_ in by_pool(copies):
        needed.setdefault(QUOTAS[one.instance[0], is_spot(one)], []).append(one)
    for (code, title), groups in needed.items():
        command = f"aws service-quotas get-service-quota --region {groups[0].region} --service-code ec2"
        purpose = f"vCPUs of '{title}'; needed: {vcpus_of(groups)}"
        yield Step(f"{command} --quota-code {code} --query Quota.Value", purpose)


def vcpus_of(groups: Copies) -> str:
    """vCPUs of all machines, or whose they are where they are not known."""
    known = [one.most_machines * one.vcpus for one in groups if one.vcpus is not None]
    if len(known) == len(groups):
        return str(sum(known))
    return "those of " + " and ".join(f"{one.most_machines} {one.instance}" for one in groups)
