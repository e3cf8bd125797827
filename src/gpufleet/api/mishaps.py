"""Cold starts, failures and preemptions of the replicas of a replay, stated, from the tables or by a trace."""

from __future__ import annotations

import numpy as np

from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.machine_failures import machine_failures
from gpufleet.api.simulated_fleet import SimulatedFleet
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.requests import Requests
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import parse_gpus
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.questions.simulation import Mishaps
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
