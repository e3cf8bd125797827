"""A mix with fewer rows of copies, where it costs no more and all objectives still hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix
from gpufleet.optimize.mixes.corrected import ENOUGH, Rated, rated, split_anew
from gpufleet.optimize.mixes.ways import Posed


def with_fewer_rows(posed: Posed, found: Rated) -> Rated:
    """The same machines with as few ways in use as is easily found: the least sent is tried first.

    Machines that are paid for anyway have room for copies that nobody needs: each would be one more to route to.
    """
    for w in np.argsort(used_replicas(found), kind="stable"):
        if found.mix.units[w] > 0:
            found = without_way(posed, found, int(w)) or found
    return found


def used_replicas(found: Rated) -> FloatArray:
    """Replicas that requests keep busy, [way]."""
    return np.asarray(found.needed_units * found.problem.replicas_per_unit)


def without_way(posed: Posed, found: Rated, w: int) -> Rated | None:
    """The mix without one way, its machines as they are; None where the rest does not hold."""
    problem, units = found.problem, found.mix.units.copy()
    units[w] = 0.0
    held = np.bincount(problem.service_of_way, problem.replicas_per_unit * units, len(problem.least_replicas))
    share = split_anew(problem, units) if np.all(held >= problem.least_replicas) else None
    if share is None:
        return None
    mix = replace(on_fewest_machines(found, units), share=share)
    mix = replace(mix, usd_per_hour=problem.cost_usd_per_hour(mix.machines, mix.share))
    if mix.usd_per_hour > found.mix.usd_per_hour + ENOUGH:
        return None
    simpler = rated(posed, problem, mix)
    return simpler if simpler.is_sound else None


def on_fewest_machines(found: Rated, units: FloatArray) -> Mix:
    """The mix with fewer units, and with the machines that hold them where that is allowed and costs no more."""
    machines = found.problem.machines_of(units)
    cost = found.problem.cost_usd_per_hour(machines)
    if cost <= found.mix.usd_per_hour and found.problem.allows(machines):
        return replace(found.mix, units=units, machines=machines, usd_per_hour=cost)
    return replace(found.mix, units=units)
