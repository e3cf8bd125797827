"""Cold starts, failures and preemptions of the replicas of a replay, stated, from the tables or by a trace."""

from __future__ import annotations

import numpy as np

from gpufleet.answers.figures import spread_figure
from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.simulated_fleet import SimulatedFleet
from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.failures import Failures
from gpufleet.domain.requests import Requests
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import MOST_GPUS, parse_gpus
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.performance.restarts import machine_mtbf_hours
from gpufleet.provenance import Grade
from gpufleet.questions.simulation import Mishaps
from gpufleet.results.cold_start import MachineFailures
from gpufleet.simulate.cluster import Change
from gpufleet.simulate.faults import SpotStart, cold_starts, failures, preemptions
from gpufleet.units import HOUR


def changes_of(
    mishaps: Mishaps, fleet: SimulatedFleet, requests: Requests, dice: np.random.Generator, tables: Catalog
) -> tuple[Change, ...]:
    """What befalls the replicas from the first request to the last."""
    if not len(requests) or not mishaps.has_mishaps:
        return ()
    count, start_s = len(fleet.members), float(requests.arrival_s[0])
    if mishaps.spot_trace is not None:
        return tuple(preemptions_asked(mishaps, fleet, requests, tables))
    changes: list[Change] = []
    if mishaps.cold_start_s is not None:
        changes += cold_starts(count, start_s, start_seconds(mishaps, fleet, tables))
    if mishaps.mtbf_s is not None:
        between_s = mtbf_s(mishaps, fleet, tables)
        restart_s = start_seconds(mishaps, fleet, tables)
        changes += failures(dice, count, start_s, float(requests.arrival_s[-1]), between_s, restart_s)
    return tuple(sorted(changes, key=lambda change: change.time_s))


def preemptions_asked(mishaps: Mishaps, fleet: SimulatedFleet, requests: Requests, tables: Catalog) -> list[Change]:
    """What a trace of spot machines takes away, and when it gives it back."""
    kept, count = mishaps.on_demand or 0, len(fleet.members)
    if kept > count:
        raise UsageError("more replicas on demand than there are", found=kept, expected=f"at most {count}")
    how = SpotStart(start_seconds(mishaps, fleet, tables), mishaps.notice_s or 0.0, mishaps.cold_start_s is not None)
    start_s, end_s = float(requests.arrival_s[0]), float(requests.arrival_s[-1])
    seen = read_spot_trace(str(mishaps.spot_trace))
    if not kept and not seen.nodes.any():
        raise UsageError(
            f"the trace {str(mishaps.spot_trace)!r} leaves no machines",
            found="0 nodes in every zone all the time",
            expected="a trace with machines, or --on-demand 1 and more",
        )
    return preemptions(seen, range(kept, count), start_s, end_s, how)


def start_seconds(mishaps: Mishaps, fleet: SimulatedFleet, tables: Catalog) -> float:
    """How long a replica takes to start: as stated, else what its stages add up to."""
    if isinstance(mishaps.cold_start_s, (int, float)):
        return float(mishaps.cold_start_s)
    return float(cold_start_of(fleet.found.arch, fleet.found.gpus, catalog=tables).seconds.value)


def mtbf_s(mishaps: Mishaps, fleet: SimulatedFleet, tables: Catalog) -> float:
    """Mean time between the failures of a replica: as stated, else what was counted of machines with so many GPUs."""
    if isinstance(mishaps.mtbf_s, (int, float)):
        return float(mishaps.mtbf_s)
    gpus = parse_gpus(fleet.found.gpus)
    return machine_failures(gpus.name, gpus.number, catalog=tables).mtbf_hours.value * HOUR


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
