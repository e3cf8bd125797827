"""What limits, shares and machine types of a mix are worth: further questions, each with a part of the effort left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.domain.mix import MachineLimit, Mix, MixProblem
from gpufleet.optimize.mixes.cheapest import WORTH_NOTHING, sound_mix
from gpufleet.optimize.mixes.corrected import Rated, on_one_type
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.question import MixQuestion
from gpufleet.optimize.mixes.terms import CARBON
from gpufleet.optimize.mixes.ways import Posed

QUESTION_SHARE = 0.3
"""Of the effort that is left then, for each question of what limits, shares and offers are worth."""
LESS_CARBON = 0.9
"""Of what is emitted: what a kilogram less costs is asked of so much."""
KNOWN_WELL = 0.05
"""The gap up to which what a further question costs is told."""


class Binding(NamedTuple):
    """A limit that costs something: what all costs an hour where it allows `more` of its own unit."""

    name: str
    most: float
    more: float
    usd_per_hour_with_more: float


def usd_without(asked: MixQuestion, posed: Posed, found: Rated, offer: int) -> float | None:
    """What the cheapest mix without an offer costs; None where that is not known well, or no mix does without it."""
    if asked.effort.is_over:
        return None
    most = posed.problem.most_machines.copy()
    most[offer] = 0.0
    without = replace(posed, problem=replace(posed.problem, most_machines=most))
    mix = asked_beside(asked, without, on_one_type(without))
    if mix is None or mix.gap_ratio > KNOWN_WELL:
        return None
    return max(mix.usd_per_hour, found.mix.usd_per_hour)


def asked_beside(asked: MixQuestion, posed: Posed, first: Rated | None) -> Mix | None:
    """The cheapest mix of a further question, found with a part of the effort that is left."""
    if asked.effort.is_over or not is_installed():
        return None
    found = sound_mix(posed, asked.effort.part(QUESTION_SHARE), first)
    return None if found is None else found.mix


def usd_free(asked: MixQuestion, posed: Posed, found: Rated) -> float | None:
    """What it would cost if clouds had no shares, no more than with them; None where that is not known well."""
    if not posed.problem.shares:
        return None
    free = replace(posed, problem=replace(posed.problem, shares=()))
    alone = on_one_type(free)
    is_cheaper = alone is not None and alone.mix.usd_per_hour < found.mix.usd_per_hour
    mix = asked_beside(asked, free, alone if is_cheaper else found)
    return None if mix is None or mix.gap_ratio > KNOWN_WELL else mix.usd_per_hour


def binding_limits(asked: MixQuestion, posed: Posed, found: Rated) -> Iterator[Binding]:
    """Quotas without which it would cost less, with what one machine more is worth."""
    problem = posed.problem
    for limit in problem.limits:
        used = float(limit.per_machine @ found.mix.machines)
        each = float(np.min(limit.per_machine[limit.per_machine > 0], initial=math.inf))
        if limit.most > 0 and math.isfinite(each) and used + each > limit.most:
            yield from worth_of_limit(asked, posed, found, limit, each)
    for o in np.flatnonzero(np.isfinite(problem.most_machines) & (found.mix.machines >= problem.most_machines)):
        most = problem.most_machines.copy()
        most[o] += 1
        offer = posed.offers[o]
        name = f"{offer.cloud} {offer.instance} {offer.region}"
        limit = MachineLimit(name, np.zeros(problem.num_offers), float(problem.most_machines[o]))
        yield from worth(asked, posed, found, replace(problem, most_machines=most), limit, 1.0)


def worth_of_limit(
    asked: MixQuestion, posed: Posed, found: Rated, limit: MachineLimit, each: float
) -> Iterator[Binding]:
    """A limit, where one machine more of it saves; else where as many more save as the cheapest mix would take."""
    problem = posed.problem

    def allowing(most: float) -> MixProblem:
        more = replace(limit, most=most)
        return replace(problem, limits=tuple(more if x is limit else x for x in problem.limits))

    one = list(worth(asked, posed, found, allowing(limit.most + each), limit, each))
    yield from one
    free = None if one else asked_beside(asked, replace(posed, problem=allowing(math.inf)), found)
    if free is not None and free.usd_per_hour < found.mix.usd_per_hour - WORTH_NOTHING:
        more = float(limit.per_machine @ free.machines) - limit.most
        yield Binding(limit.name, limit.most, more, free.usd_per_hour)


def worth(
    asked: MixQuestion, posed: Posed, found: Rated, problem: MixProblem, limit: MachineLimit, more: float
) -> Iterator[Binding]:
    """A limit, where more of it saves."""
    mix = asked_beside(asked, replace(posed, problem=problem), found)
    if mix is not None and mix.usd_per_hour < found.mix.usd_per_hour - WORTH_NOTHING:
        yield Binding(limit.name, limit.most, more, mix.usd_per_hour)


def usd_per_kg(
    asked: MixQuestion, posed: Posed, found: Rated, kg: Mapping[tuple[str, str, str], float]
) -> float | None:
    """What a kilogram less costs: of the cheapest mix that emits a tenth less; None where it cannot be told.

    `kg`: what a machine emits an hour, by cloud, region and type.
    """
    each = [kg.get((o.cloud, o.region, o.instance)) for o in posed.offers]
    bought = [(k, n) for k, n in zip(each, found.mix.machines, strict=True) if n > 0]
    if any(k is None for k, _ in bought):
        return None
    now = sum((k or 0.0) * n for k, n in bought)
    per_machine = np.array([math.inf if k is None else k for k in each])
    known = np.isfinite(per_machine)
    limits = (
        *(limit for limit in posed.problem.limits if limit.name != CARBON),
        MachineLimit(CARBON, np.where(known, per_machine, 0.0), now * LESS_CARBON),
    )
    problem = replace(posed.problem, limits=limits, most_machines=np.where(known, posed.problem.most_machines, 0.0))
    lean = asked_beside(asked, replace(posed, problem=problem), None)
    if lean is None:
        return None
    saved = now - float(limits[-1].per_machine @ lean.machines)
    return float((lean.usd_per_hour - found.mix.usd_per_hour) / saved)
