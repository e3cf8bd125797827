"""A day of machines where users are awake, as users get it."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from gpufleet.optimize.mixes.corrected import Rated
from gpufleet.optimize.mixes.sun import HOURS, Day
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.results.regions import HoursOfDay


def hours_of_day(posed: Posed, day: Day) -> list[HoursOfDay]:
    """Hours that have the same machines one after the other; the cost is their mean."""
    found, at = [], 0
    for _, group in groupby(day.hours, key=lambda hour: tuple(hour.mix.machines)):
        alike = list(group)
        usd = float(np.mean([running_usd(hour) for hour in alike]))
        end = (at + len(alike) - 1) % HOURS + 1
        found.append(HoursOfDay(from_hour=at, to_hour=end, machines=machines_in(posed, alike[0]), usd_per_hour=usd))
        at += len(alike)
    return found


def running_usd(hour: Rated) -> float:
    """What machines and sending cost in an hour, without starts."""
    sent = float(np.sum(hour.problem.sending * hour.mix.share))
    return float(hour.mix.machines @ hour.problem.usd_per_hour) + sent


def machines_in(posed: Posed, hour: Rated) -> dict[str, str]:
    """The machines of every region."""
    held: dict[str, list[str]] = {}
    for o in np.flatnonzero(hour.mix.machines):
        offer = posed.offers[int(o)]
        held.setdefault(f"{offer.cloud} {offer.region}", []).append(f"{hour.mix.machines[o]:.0f}x {offer.instance}")
    return {region: " + ".join(machines) for region, machines in held.items()}
