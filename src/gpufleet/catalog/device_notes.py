"""What is to be known of a device before its machine is started (device_notes.toml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.accelerator import Accelerator


@lru_cache(maxsize=1)
def load_device_notes() -> tuple[Mapping[str, Any], ...]:
    """Its tables: devices by name or by generation, and a note."""
    return tuple(toml_of(SHIPPED / "device_notes.toml").values())


def device_notes(gpu: Accelerator) -> list[str]:
    """Notes on a device.

    >>> from gpufleet.catalog.load import load_catalog
    >>> device_notes(load_catalog().accelerators["T4G"])
    ['T4G machines have ARM CPUs: images and wheels must be built for arm64']
    """
    return [
        row["note"].format(gpu=gpu.name, generation=gpu.generation)
        for row in load_device_notes()
        if gpu.name in row.get("accelerators", ()) or gpu.generation in row.get("generations", ())
    ]
