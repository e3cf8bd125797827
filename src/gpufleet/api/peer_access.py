"""Whether GPUs of a machine reach each other over PCIe without the host: as the card has it, or as somebody says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpufleet.catalog.load import Catalog
from gpufleet.domain.candidates import Candidates
from gpufleet.errors import GpufleetError
from gpufleet.report.numbers import duration
from gpufleet.results.base import Input
from gpufleet.results.estimate import ServingEstimate


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


def has_peer_access(candidates: Candidates) -> bool:
    """Whether the GPUs of the first candidate reach each other without the host."""
    gpu = candidates.palette.accelerators[int(candidates.accelerator[0])]
    return gpu.peer_to_peer and not candidates.through_host[0]


def is_asked_over_pcie(candidates: Candidates) -> bool:
    """Whether a copy of the first candidate exchanges anything over PCIe."""
    return bool(candidates.link_is_pcie[0]) and int(candidates.devices_per_stage[0]) > 1


def peer_rows(candidates: Candidates, said: bool | None) -> list[Input]:
    """Whether its GPUs reach each other without the host, where they exchange anything over PCIe."""
    if not is_asked_over_pcie(candidates):
        return []
    origin = "default" if said is None else "given"
    return [Input(name="peer_to_peer", value="on" if has_peer_access(candidates) else "off", origin=origin)]


def peer_note(candidates: Candidates, said: bool | None, otherwise: Callable[[bool], ServingEstimate]) -> list[str]:
    """The time per token with the other access, where nobody said which there is; `otherwise` estimates with one."""
    if said is not None or not is_asked_over_pcie(candidates):
        return []
    has_access = has_peer_access(candidates)
    try:
        other = f"TPOT is {duration(otherwise(not has_access).tpot_s.value)}"
    except GpufleetError:
        other = "this load is not held"
    if has_access:
        return [
            "The GPUs are taken to reach each other over PCIe without the host, which many virtual machines do not "
            f"allow: without it {other} (--peer-to-peer off)"
        ]
    return [
        "The drivers or hosts of these GPUs make them exchange through the memory of the host: where they reach each "
        f"other without it {other} (--peer-to-peer on)"
    ]
