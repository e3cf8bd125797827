"""Fractions of a GPU as devices of their own, so that they can be planned like any other.

A slice of 1/8 gets an eighth of the memory, the bandwidth, the arithmetic and the cache of its GPU: what is guaranteed
to it when its neighbours are busy. Nobody measured one, so its kernels count as borrowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from gpufleet.catalog.tables import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance

MOST_PARTS = 64
SLICE_NOTE = (
    "a slice of a GPU is planned at its share of memory, bandwidth and arithmetic, what it has when its neighbours "
    "are busy; nobody measured one"
)


@lru_cache(maxsize=4)
def with_slices(catalog: Catalog) -> Catalog:
    """The catalog with each fractional machine as one whole slice."""
    fractional = {key: i for key, i in catalog.instances.items() if i.gpu_count < 1}
    slices = {i.name: i for i in (slice_of(catalog.accelerators[i.accelerator], i) for i in fractional.values())}
    whole = {key: whole_slice(instance) for key, instance in fractional.items()}
    return replace(
        catalog,
        accelerators={**catalog.accelerators, **slices},
        instances={**catalog.instances, **whole},
    )


def slice_name(accelerator: str, share: float) -> str:
    """What a slice is called.

    >>> slice_name("L4", 0.125)
    'L4 (1/8)'
    """
    return f"{accelerator} ({Fraction(share).limit_denominator(MOST_PARTS)})"


def slice_of(gpu: Accelerator, instance: Instance) -> Accelerator:
    """The share of a GPU that a machine holds."""
    share = instance.gpu_count
    return replace(
        gpu,
        name=slice_name(gpu.name, share),
        memory_bytes=gpu.memory_bytes * share,
        marketed_memory_gb=gpu.marketed_memory_gb * share,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s * share,
        peak_flop_per_s={kind: peak * share for kind, peak in gpu.peak_flop_per_s.items()},
        board_power_watts=None if gpu.board_power_watts is None else gpu.board_power_watts * share,
        sm_count=None if gpu.sm_count is None else max(1, round(gpu.sm_count * share)),
        l2_bytes=None if gpu.l2_bytes is None else gpu.l2_bytes * share,
        linked_gpus=1,
        slice_of=gpu.name,
        slice_ratio=share,
    )


def whole_slice(instance: Instance) -> Instance:
    """A fractional machine as a machine of one slice."""
    return replace(instance, accelerator=slice_name(instance.accelerator, instance.gpu_count), gpu_count=1.0)


def slices_of(catalog: Catalog, gpus: Iterable[str]) -> set[str]:
    """The names of GPUs and of their slices."""
    named = set(gpus)
    return named | {gpu.name for gpu in catalog.accelerators.values() if gpu.slice_of in named}
