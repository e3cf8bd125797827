"""A mix at once, with NumPy alone: cheapest split, whole machines, then machines given up for others that cost less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import ROUNDING, Mix, MixProblem
from gpufleet.optimize.mixes.balance import mix_of
from gpufleet.optimize.mixes.local_search import Search
from gpufleet.optimize.mixes.relaxation import Relaxed, relaxation
from gpufleet.optimize.mixes.survival import Survival, survivals

ROUNDS, MOST_TOGETHER = 2, 24


def greedy_mix(problem: MixProblem) -> Mix | None:
    """A cheap mix that keeps everything, at once; None where none was found."""
    relaxed = relaxation(problem)
    return None if relaxed is None else rounded(problem, relaxed, survivals(problem))


def rounded(problem: MixProblem, relaxed: Relaxed, tests: list[Survival]) -> Mix | None:
    """Whole units from those of a relaxation, service after service, twice where there are several."""
    units: FloatArray | None = relaxed.units
    for turn in range(ROUNDS if len(tests) > 1 else 1):
        units = None if units is None else searched(problem, units, tests, is_whole=turn > 0)
    if units is None:
        return None
    if len(tests) > 1 and problem.num_ways <= MOST_TOGETHER:
        units = together(problem, units)
    if not keeps_all(problem, units):
        return None
    return mix_of(problem, problem.machines_of(units), units, least_usd_per_hour=relaxed.usd_per_hour, is_greedy=True)


def searched(problem: MixProblem, units: FloatArray, tests: list[Survival], *, is_whole: bool) -> FloatArray | None:
    """The units after a search for each service beside the others, [way]; None where one has no start."""
    found = np.array(units)
    for service, test in enumerate(tests):
        own = Search(problem, [service], test, found).improved(found[test.ways], is_whole=is_whole)
        if own is None:
            return None
        found[test.ways] = own
    return found


def together(problem: MixProblem, units: FloatArray) -> FloatArray:
    """The units after a search for all services at a time, for machines that pay only if several use them."""
    services = range(len(problem.least_replicas))
    test = Survival(problem, services)
    found = np.array(units)
    own = Search(problem, services, test, found).improved(found[test.ways], is_whole=True)
    found[test.ways] = found[test.ways] if own is None else own
    return found


def mended(problem: MixProblem, units: FloatArray, tests: list[Survival]) -> FloatArray:
    """The units with more, whatever limits say, where they do not survive everything."""
    free = replace(problem, most_machines=np.full(problem.num_offers, np.inf))
    found = np.array(units)
    for service, test in enumerate(tests):
        own = Search(free, [service], test, found).mended(found[test.ways], None, np.inf)
        found[test.ways] = found[test.ways] if own is None else own
    return found


def keeps_all(problem: MixProblem, units: FloatArray) -> bool:
    """Whether units keep limits, shares and least replicas."""
    held = np.bincount(problem.service_of_way, problem.replicas_per_unit * units, len(problem.least_replicas))
    return problem.allows(problem.machines_of(units)) and bool(np.all(held >= problem.least_replicas - ROUNDING))
