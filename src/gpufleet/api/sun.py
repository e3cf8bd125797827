"""Machines where users are awake, beside machines for every place's peak all day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.answers.regions import hours_of_day
from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.mixes import Asked, effort_of
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.sites import load_site_figures
from gpufleet.domain.arrays import FloatArray
from gpufleet.errors import GpufleetError
from gpufleet.optimize.mixes.corrected import Rated, Solver
from gpufleet.optimize.mixes.dominated import without_beaten
from gpufleet.optimize.mixes.effort import USUAL_ITERATIONS, Effort
from gpufleet.optimize.mixes.reach import Reach
from gpufleet.optimize.mixes.search import cheaper_mix
from gpufleet.optimize.mixes.sun import HOURS, awake_ratio, followed, one_fleet_usd_per_day, static_usd_per_day
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.results.regions import FollowedSun
from gpufleet.units import HOUR, MINUTE

UNKNOWN_START_S = 10 * MINUTE
OF_HOURS = 2 * HOURS
"""A day is asked twice, in all regions and in those of the static answer; each hour gets as much of the effort."""


def followed_sun(asked: Asked, posed: Posed, found: Rated, reach: Reach, tables: Catalog) -> FollowedSun:
    """What a day costs by the hour where users are awake, in all regions and in those of the static answer alone."""
    site = load_site_figures()
    peak, hour = site.users_peak_over_mean.value, site.users_peak_hour.value
    users = [bucket.users or 0 for service in posed.services for bucket in service.buckets]
    ratio = awake_ratio(reach, peak, hour)[:, users]
    start_usd = starts_usd(posed, tables)
    anywhere = followed(posed, found, ratio, start_usd, lambda: solver(asked))
    there = in_regions_of(posed, found)
    moves = np.any([hour.mix.machines > there.problem.most_machines for hour in anywhere.hours])
    in_place = followed(there, found, ratio, start_usd, lambda: solver(asked)) if moves else anywhere
    best = min(anywhere, in_place, key=lambda day: day.usd)
    return FollowedSun(
        usd_per_day_static=static_usd_per_day(found, ratio),
        usd_per_day=best.usd,
        usd_per_day_in_place=in_place.usd,
        usd_per_day_one_fleet=one_fleet_usd_per_day(posed, [anywhere, in_place], found, ratio),
        starts=float(best.started.sum()),
        starts_usd_per_day=best.starts_usd,
        hours=hours_of_day(posed, best),
        peak_over_mean=peak,
        peak_hour=hour,
    )


def solver(asked: Asked) -> Solver:
    """A solver of an hour's problems, with its part of the effort of the whole."""
    limit_s = asked.request.time_limit_s
    most = Effort.of_iterations(USUAL_ITERATIONS / OF_HOURS) if limit_s is None else effort_of(limit_s / OF_HOURS)
    return lambda problem, _: cheaper_mix(without_beaten(problem), most)


def in_regions_of(posed: Posed, found: Rated) -> Posed:
    """The problem with the regions of a mix alone."""
    where = [(offer.cloud, offer.region) for offer in posed.offers]
    chosen = {key for key, n in zip(where, found.mix.machines, strict=True) if n > 0}
    is_there = np.array([key in chosen for key in where])
    most = np.where(is_there, posed.problem.most_machines, 0.0)
    return replace(posed, problem=replace(posed.problem, most_machines=most))


def starts_usd(posed: Posed, tables: Catalog) -> FloatArray:
    """What a machine of each offer costs from its start until its copies answer   [USD], [offer]."""
    seconds = np.zeros(posed.problem.num_offers)
    known: dict[tuple[int, str, int], float] = {}
    for way in posed.ways:
        instance, devices = posed.instances[way.offer], int(posed.services[way.service].every.num_devices[way.row])
        key = (way.service, instance.accelerator, devices)
        if key not in known:
            known[key] = start_s(posed, *key, tables)
        seconds[way.offer] = max(seconds[way.offer], known[key])
    return np.asarray(seconds / HOUR * posed.problem.usd_per_hour)


def start_s(posed: Posed, service: int, gpu: str, devices: int, tables: Catalog) -> float:
    """Seconds until a copy answers on a new machine; a judgement where nothing is known of it."""
    model = posed.services[service].question.model
    try:
        return cold_start_of(model.arch, f"{gpu}:{devices}", catalog=tables).seconds.value
    except GpufleetError:
        return UNKNOWN_START_S
