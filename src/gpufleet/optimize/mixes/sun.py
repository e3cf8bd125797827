"""Machines where users are awake: the cheapest mix of every hour of a day, beside one for every place's peak all day.

A machine that is given up is started again on some other hour of the day: what a start costs is paid for each, so that
fleets move only where that pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.mixes.corrected import Rated, Solver, corrected_mix, rated
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.reach import Reach
from gpufleet.optimize.mixes.sending import cheapest_split
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.records import dataclass
from gpufleet.simulate.day_curves import daily_curve
from gpufleet.units import HOUR

HOURS, DEGREES_PER_HOUR = 24, 15.0
BY_THE_HOUR = frozenset({PriceKind.ON_DEMAND, PriceKind.SPOT})


@dataclass(frozen=True, eq=False)
class Day:
    """The mix of every hour of a day in UTC, and what it costs with the machines that are started   [USD/day].

    `started`: [hour], machines that begin in it.
    """

    hours: tuple[Rated, ...]
    started: FloatArray
    starts_usd: float
    usd: float


def awake_ratio(reach: Reach, peak_ratio: float, peak_hour: float) -> FloatArray:
    """The rate of each place's users over that of their busiest hour, by their local time, [UTC hour, place].

    Local time is UTC + longitude / 15 degrees; a day is a cosine, `peak_ratio` times its mean at `peak_hour`.
    """
    found = []
    for group in reach.users:
        peak_at_s = (peak_hour - group.place.longitude_degrees / DEGREES_PER_HOUR) * HOUR
        found.append(daily_curve(1 / peak_ratio, peak_ratio, peak_at_s, 1, HOUR).rate_per_s)
    return np.stack(found, axis=1)


def static_usd_per_day(found: Rated, ratio: FloatArray) -> float:
    """What a mix for every place's peak costs that runs all day; `ratio`: [hour, bucket]."""
    sent = ratio.sum(axis=0) @ np.sum(found.problem.sending * found.mix.share, axis=1)
    return HOURS * float(found.mix.machines @ found.problem.usd_per_hour) + float(sent)


def followed(
    posed: Posed, static: Rated, ratio: FloatArray, start_usd: FloatArray, solver: Callable[[], Solver]
) -> Day:
    """The day whose every hour has its cheapest mix, each hour beside the one before.

    `ratio`: [hour, bucket], of the rate at the peak. `start_usd`: [offer], what one start costs. `solver`: a new
    one for each hour. Where time runs out
    the static mix is kept, which holds at less than its rate too.
    """
    today, hours = np.zeros(posed.problem.num_offers), []
    for at in range(HOURS):
        hour = posed_at(posed, ratio[at], today, start_usd if at else np.zeros_like(start_usd))
        kept = kept_by_the_hour(hour, static)
        found = corrected_mix(hour, solver(), kept)
        hours.append(found if found is not None else kept_always(hour, static))
        today = hours[-1].mix.machines
    return day_of(hours, start_usd)


def posed_at(posed: Posed, ratio: FloatArray, today: FloatArray, start_usd: FloatArray) -> Posed:
    """The problem of one hour; `ratio`: [bucket]. Machines of the hour before cost a start where they are given up."""
    problem = posed.problem
    services = tuple(service.at_rates(ratio[posed.buckets_of(s)]) for s, service in enumerate(posed.services))
    by_the_hour = np.array([offer.price_kind in BY_THE_HOUR for offer in posed.offers])
    hour = replace(
        problem,
        load_units=problem.load_units * ratio[:, None],
        sending_usd_per_hour=problem.sending * ratio[:, None],
        most_machines=np.where(by_the_hour, problem.most_machines, 0.0),
        machines_today=today,
        leaving_usd_per_hour=start_usd,
    )
    return replace(posed, problem=hour, services=services)


def kept_by_the_hour(hour: Posed, static: Rated) -> Rated | None:
    """The static mix at an hour's rates; None where it is not bought by the hour."""
    found = kept_always(hour, static)
    return found if np.all(static.mix.machines <= hour.problem.most_machines) and found.is_sound else None


def kept_always(hour: Posed, static: Rated) -> Rated:
    """The static mix at an hour's rates."""
    cost = hour.problem.cost_usd_per_hour(static.mix.machines, static.mix.share)
    return rated(hour, hour.problem, replace(static.mix, usd_per_hour=cost, least_usd_per_hour=0.0))


def day_of(hours: Sequence[Rated], start_usd: FloatArray) -> Day:
    """A day of mixes, the first hour after the last."""
    machines = np.array([found.mix.machines for found in hours])
    begun = np.maximum(machines - np.roll(machines, 1, axis=0), 0.0)
    running = sum(
        float(h.mix.machines @ h.problem.usd_per_hour) + float(np.sum(h.problem.sending * h.mix.share)) for h in hours
    )
    starts_usd = float(np.sum(begun @ start_usd))
    return Day(tuple(hours), begun.sum(axis=1), starts_usd, running + starts_usd)


def one_fleet_usd_per_day(posed: Posed, days: Sequence[Day], static: Rated, ratio: FloatArray) -> float:
    """What the cheapest fleet that is found costs which is left alone all day and carries every hour.

    Tried are each hour's, and the static one with as few machines as every hour leaves.
    """
    usd = static_usd_per_day(static, ratio)
    if not is_installed():
        return usd
    nothing = np.zeros(posed.problem.num_offers)
    corrected = replace(posed, problem=replace(posed.problem, load_units=static.problem.load_units))
    hours = [posed_at(corrected, each, nothing, nothing) for each in ratio]
    fleets = {tuple(hour.mix.machines): hour for day in days for hour in day.hours}
    return min(usd, *(all_day_usd(hours, fleet) for fleet in (*fleets.values(), fewest(hours, static))))


def fewest(hours: Sequence[Posed], fleet: Rated) -> Rated:
    """A fleet with as few units as hold in every hour, the dearest taken away first."""
    problem = fleet.problem
    usd = problem.machines_per_unit * problem.usd_per_hour[problem.offer_of_way]
    for w in sorted((int(w) for w in np.flatnonzero(fleet.mix.units)), key=lambda w: -usd[w]):
        while fleet.mix.units[w] >= 1 and math.isfinite(all_day_usd(hours, less := with_unit_less(fleet, w))):
            fleet = less
    return fleet


def with_unit_less(fleet: Rated, way: int) -> Rated:
    """A fleet without one unit of a way."""
    units = fleet.mix.units - (np.arange(fleet.problem.num_ways) == way)
    return replace(fleet, mix=replace(fleet.mix, units=units, machines=fleet.problem.machines_of(units)))


def all_day_usd(hours: Sequence[Posed], fleet: Rated) -> float:
    """What one fleet costs in all hours; infinite where it does not hold in each."""
    usd = 0.0
    for hour in hours:
        share = cheapest_split(hour.problem, fleet.mix.units)
        if share is None:
            return math.inf
        mix = replace(fleet.mix, share=share)
        if not rated(hour, hour.problem, mix).is_sound:
            return math.inf
        usd += hour.problem.cost_usd_per_hour(mix.machines, mix.share)
    return usd


def in_regions_of(posed: Posed, found: Rated) -> Posed:
    """The problem with the regions of a mix alone."""
    where = [(offer.cloud, offer.region) for offer in posed.offers]
    chosen = {key for key, n in zip(where, found.mix.machines, strict=True) if n > 0}
    is_there = np.array([key in chosen for key in where])
    most = np.where(is_there, posed.problem.most_machines, 0.0)
    return replace(posed, problem=replace(posed.problem, most_machines=most))
