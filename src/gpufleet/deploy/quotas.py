"""What a cloud lets an account rent, asked by its own command, and how much of it machines need."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.deploy.aws import AWS, QUOTAS, quota_steps
from gpufleet.deploy.target import Copies, Step, by_pool

EVERYWHERE = "all"


def quotas(copies: Copies) -> Iterator[Step]:
    """A command for each quota, where a cloud has one and the region is known."""
    pools = [pool[0] for pool in by_pool(copies) if pool[0].region != EVERYWHERE]
    yield from quota_steps([one for one in pools if one.cloud == AWS and one.instance[0] in {f for f, _ in QUOTAS}])
    for one in pools:
        if one.cloud == "gcp":
            shown = "--flatten=quotas --format='table(quotas.metric,quotas.limit,quotas.usage)'"
            needed = f"{one.most_machines * one.gpus_per_machine:g} {one.gpu}"
            yield Step(f"gcloud compute regions describe {one.region} {shown}", f"quota of GPUs; needed: {needed}")
        if one.cloud == "azure":
            needed = "vCPUs of their family" if one.vcpus is None else f"{one.most_machines * one.vcpus} vCPUs"
            machines = f"{one.most_machines} {one.instance}"
            yield Step(f"az vm list-usage --location {one.region} -o table", f"quota of {machines}; needed: {needed}")
