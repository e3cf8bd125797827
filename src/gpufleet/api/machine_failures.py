"""How often a machine fails."""

from __future__ import annotations

from gpufleet.answers.figures import spread_figure
from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.failures import Failures
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import MOST_GPUS
from gpufleet.performance.restarts import machine_mtbf_hours
from gpufleet.provenance import Grade
from gpufleet.results.cold_start import MachineFailures


def machine_failures(gpu: str, gpus_per_machine: int = 8, *, catalog: Catalog | None = None) -> MachineFailures:
    """Mean hours between failures of a machine with so many of these GPUs, as failures were counted under training.

    >>> round(machine_failures("H100", 8).mtbf_hours.value)
    6335
    """
    if not 1 <= gpus_per_machine <= MOST_GPUS:
        raise UsageError("a machine has GPUs", found=gpus_per_machine, expected=f"from 1 to {MOST_GPUS}")
    accelerator = resolve_gpu(load_catalog() if catalog is None else catalog, gpu).accelerator
    counted: Failures = load_failures()
    between = machine_mtbf_hours(counted.per_gpu_hour(accelerator.generation), gpus_per_machine)
    is_counted = counted.is_counted(accelerator.generation)
    grade = (Grade.MEASURED if is_counted else Grade.TRANSFERRED).label
    return MachineFailures(
        gpu=accelerator.name,
        generation=accelerator.generation,
        gpus_per_machine=gpus_per_machine,
        mtbf_hours=spread_figure(between, "h", grade),
        is_counted=is_counted,
        source_id=counted.source_of(accelerator.generation),
    )
