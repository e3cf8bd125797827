"""Buckets split over units so that the busiest are least busy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.sending import cheapest_split
from gpufleet.optimize.mixes.survival import Survival, survivals

STEP = 1e-4


def mix_of(
    problem: MixProblem,
    machines: FloatArray,
    units: FloatArray,
    *,
    least_usd_per_hour: float = 0.0,
    is_greedy: bool = False,
) -> Mix:
    """These machines and units as a mix, split evenly; nothing is proved of its cost where no least is told."""
    none = np.zeros_like(problem.load_units)
    mix = balanced(problem, Mix(machines, units, none, 0.0, 0.0, is_greedy))
    usd = problem.cost_usd_per_hour(machines, mix.share)
    return replace(mix, usd_per_hour=usd, least_usd_per_hour=min(least_usd_per_hour, usd))


def balanced(problem: MixProblem, mix: Mix) -> Mix:
    """The same machines, with buckets split so that sending them costs least, and then all are about as busy."""
    if problem.sending_usd_per_hour is not None and is_installed():
        cheapest = cheapest_split(problem, mix.units)
        if cheapest is not None:
            return replace(mix, share=with_all_busy(problem, mix.units, cheapest))
    share = np.zeros_like(problem.load_units)
    for service, test in enumerate(survivals(on_units(problem, mix.units))):
        buckets = np.flatnonzero(problem.service_of_bucket == service)
        share[np.ix_(buckets, test.ways)] = even_split(test, mix.units[test.ways])
    return replace(mix, share=with_all_busy(problem, mix.units, share))


def on_units(problem: MixProblem, units: FloatArray) -> MixProblem:
    """The problem of ways that have units alone: nothing else carries anything."""
    return replace(problem, load_units=np.where(units > 0, problem.load_units, np.inf))


def with_all_busy(problem: MixProblem, units: FloatArray, share: FloatArray) -> FloatArray:
    """The split with something for units that were sent nothing, where sending it there costs no more, [bucket, way].

    Of the bucket that keeps most units busy they take so much that they are as busy as units that were full of it.
    """
    found = np.array(share)
    for w in np.flatnonzero((units > 0) & (share.sum(axis=0) == 0)):
        used = np.sum(np.where(found > 0, problem.load_units, 0.0) * found, axis=1)
        sent = np.sum(problem.sending * found, axis=1)
        may = np.flatnonzero(np.isfinite(problem.load_units[:, w]) & (problem.sending[:, w] <= sent))
        if len(may):
            bucket = may[np.argmax(used[may])]
            taken = units[w] / (units[w] + problem.load_units[bucket, w])
            found[bucket] *= 1 - taken
            found[bucket, w] += taken
    return found


def even_split(test: Survival, units: FloatArray) -> FloatArray:
    """How units that carry a service's buckets share them, the busiest about as little busy as can be, [bucket, way].

    How busy they have to be is told by each worth that is found, until a split exists.
    """
    busy = test.least_busy(units)
    while busy < 1 and test.missed(units * busy) is not None:
        busy = max(test.least_busy(units), busy + STEP)
    return test.share(units * min(busy, 1.0))
