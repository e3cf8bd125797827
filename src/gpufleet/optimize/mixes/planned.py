"""Where the search for a mix of several services starts: the plan that 'plan serve' makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpufleet.domain.mix import Mix
from gpufleet.domain.offer import Offer
from gpufleet.optimize.mixes.corrected import Rated, rated
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.optimize.together import Group, Together

Held = tuple[int, Offer, int]
"""Replicas of a service on machines of an offer, each of so many GPUs."""


def as_planned(posed: Posed, plan: Together) -> Rated | None:
    """Services on machines of their own and on shared ones, as they were planned; None where the mix may not do so.

    Each service is sent whole to one way. Where something may be lost, a way is a whole machine: no plan is taken over.
    """
    problem = posed.problem
    at = {
        (way.service, posed.offers[way.offer], int(posed.services[way.service].every.num_devices[way.row])): w
        for w, way in enumerate(posed.ways)
        if way.request_class is None
    }
    held = [one for group in plan.groups for one in held_by(group)]
    if np.any(problem.replicas_per_unit != 1) or not held or any(key not in at for key, _ in held):
        return None
    units, share = np.zeros(problem.num_ways), np.zeros_like(problem.load_units)
    for key, replicas in held:
        units[at[key]] = float(replicas)
        share[posed.buckets_of(key[0]), at[key]] = 1.0
    machines = problem.machines_of(units)
    if not problem.allows(machines):
        return None
    found = rated(posed, problem, Mix(machines, units, share, problem.cost_usd_per_hour(machines, share)))
    return found if found.is_sound else None


def held_by(group: Group) -> Iterator[tuple[Held, int]]:
    """How many replicas of each model stand on the machines of a group."""
    if group.shared is not None:
        yield from (((t.model, group.shared.offer, t.gpus_per_replica), t.replicas) for t in group.shared.tenants)
    elif group.own is not None and group.own.steady is None:
        placed = group.own.placement
        yield from (((model, group.own.offer, placed.gpus_per_replica), placed.replicas) for model in group.models)


def planned_offers(plan: Together) -> frozenset[Offer]:
    """The offers of a plan, which the search must not forget."""
    return frozenset(offer for group in plan.groups for (_, offer, _), _ in held_by(group))


def cheapest_of(*mixes: Rated | None) -> Rated | None:
    """The cheapest of some mixes, the first of equals; None where there are none."""
    return min((x for x in mixes if x is not None), key=lambda x: x.mix.usd_per_hour, default=None)
