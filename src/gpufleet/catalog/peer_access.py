"""Whether GPUs of a machine reach each other over PCIe without the host, as somebody says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet.catalog.load import Catalog


def with_peer_access(tables: Catalog, gpus: Iterable[str], access: bool | None) -> Catalog:
    """The tables with what is said of the access of GPUs to their peers; as they are where nothing is."""
    if access is None:
        return tables
    said = {gpu: replace(tables.accelerators[gpu], peer_to_peer=access) for gpu in gpus}
    machines = {
        key: replace(machine, fabric=machine.fabric.with_peers)
        for key, machine in tables.instances.items()
        if access and machine.accelerator in said
    }
    return replace(
        tables,
        accelerators={**tables.accelerators, **said},
        instances={**tables.instances, **machines},
    )
