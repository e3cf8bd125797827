"""Machines that are alike in several regions, in one of them where that costs no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.mixes.corrected import ENOUGH, Rated, rated, region_of
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.rates import Bucket, Service
from gpufleet.optimize.mixes.reach import RegionKey
from gpufleet.optimize.mixes.sending import cheapest_split
from gpufleet.optimize.mixes.ways import Posed


def gathered(posed: Posed, found: Rated) -> Rated:
    """The mix in fewer regions, as far as machines of their types move; where one may be lost, as it is."""
    if not is_installed() or found.problem.losses:
        return found
    for region in sorted(regions_of(posed, found), key=lambda region: (machines_in(posed, found, region), region)):
        found = without_region(posed, found, region) or found
    return found


def regions_of(posed: Posed, found: Rated) -> set[RegionKey]:
    """Regions that have machines."""
    return {(posed.offers[int(o)].cloud, posed.offers[int(o)].region) for o in np.flatnonzero(found.mix.machines)}


def offers_in(posed: Posed, found: Rated, regions: Collection[RegionKey]) -> list[int]:
    """Offers in some regions of which machines are bought."""
    bought = (int(o) for o in np.flatnonzero(found.mix.machines))
    return [o for o in bought if (posed.offers[o].cloud, posed.offers[o].region) in regions]


def machines_in(posed: Posed, found: Rated, region: RegionKey) -> float:
    """Machines of a region."""
    return float(sum(found.mix.machines[o] for o in offers_in(posed, found, {region})))


def without_region(posed: Posed, found: Rated, region: RegionKey) -> Rated | None:
    """The mix with all machines of a region in others that it has already; None where they cannot all move."""
    others, mix = regions_of(posed, found) - {region}, found
    there = [o for o, offer in enumerate(posed.offers) if (offer.cloud, offer.region) in others]
    for source in offers_in(posed, found, {region}):
        moves = (moved(posed, mix, source, o) for o in there if are_alike(posed, source, o))
        one = next((move for move in moves if move is not None), None)
        if one is None:
            return None
        mix = one
    return mix


def are_alike(posed: Posed, first: int, second: int) -> bool:
    """Whether two offers differ in their region alone."""
    a, b = posed.offers[first], posed.offers[second]
    return (a.cloud, a.instance, a.price_kind) == (b.cloud, b.instance, b.price_kind)


def moved(posed: Posed, found: Rated, source: int, target: int) -> Rated | None:
    """The mix with all machines of one offer in the region of another; None where it is dearer or does not hold."""
    problem, units, machines = found.problem, found.mix.units.copy(), found.mix.machines.copy()
    at = {(way.service, way.row): w for w, way in enumerate(posed.ways) if way.offer == target}
    for w, way in enumerate(posed.ways):
        if way.offer == source and units[w] > 0:
            if (way.service, way.row) not in at:
                return None
            units[at[way.service, way.row]] += units[w]
            units[w] = 0.0
    machines[target], machines[source] = machines[target] + machines[source], 0.0
    share = cheapest_split(problem, units)
    if share is None or not problem.allows(machines):
        return None
    mix = replace(found.mix, machines=machines, units=units, share=share)
    mix = replace(mix, usd_per_hour=problem.cost_usd_per_hour(machines, mix.share))
    if mix.usd_per_hour > found.mix.usd_per_hour + ENOUGH:
        return None
    one = rated(posed, problem, mix)
    return one if one.is_sound else None


def on_cleaner_grids(posed: Posed, found: Rated, g_per_kwh: Mapping[RegionKey, float]) -> Rated:
    """The mix with machines where the grid emits less, as far as they move there at no cost and to no region more."""
    if not is_installed() or found.problem.losses:
        return found
    grid = np.array([g_per_kwh.get((offer.cloud, offer.region), np.inf) for offer in posed.offers])
    for source in np.flatnonzero(found.mix.machines):
        targets = [int(o) for o in np.argsort(grid) if grid[o] < grid[source] and are_alike(posed, int(source), int(o))]
        most = len(regions_of(posed, found))
        moves = (moved(posed, found, int(source), o) for o in targets)
        found = next((x for x in moves if x is not None and len(regions_of(posed, x)) <= most), found)
    return found


def nearest(posed: Posed, found: Rated) -> Rated:
    """The same machines with users sent to the nearest that have room, where all objectives hold so too."""
    if not is_installed() or posed.services[0].reach is None:
        return found
    share = cheapest_split(found.problem, found.mix.units, round_trips_s(posed))
    if share is None:
        return found
    mix = replace(found.mix, share=share)
    near = rated(posed, found.problem, mix)
    return near if near.is_sound else found


def round_trips_s(posed: Posed) -> FloatArray:
    """The median round trip of a bucket's users to each way, by how many they are   [s], [bucket, way]; 0: unknown."""
    found = np.zeros_like(posed.problem.load_units)
    for s, service in enumerate(posed.services):
        for b, bucket in zip(posed.buckets_of(s), service.buckets, strict=True):
            found[b] = [
                median_s(service, bucket, region_of(posed, way)) * bucket.rate_requests_per_s for way in posed.ways
            ]
    return found


def median_s(service: Service, bucket: Bucket, region: RegionKey) -> float:
    """The median round trip of a bucket's users to a region; 0 where it is not known."""
    trip = None if service.reach is None else service.reach.between(bucket.users or 0, region)
    return 0.0 if trip is None else trip.median_s
