"""Offers that another one beats in everything: no mix is dearer without them.

Offer v beats offer o where any number of it can be had, it costs no more, takes no more of any limit, is lost no more
often, and has a way for each way of o that carries no less of any bucket.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.mix import MixProblem


def without_beaten(problem: MixProblem) -> MixProblem:
    """The problem without the ways of offers that are beaten, which cost time alone."""
    beaten = beaten_offers(problem)[problem.offer_of_way]
    return replace(problem, load_units=np.where(beaten[None, :], np.inf, problem.load_units))


def beaten_offers(problem: MixProblem) -> BoolArray:
    """Offers that another one beats, [offer]; of equals the first stays. Clouds with shares may need any offer."""
    beaten = np.zeros(problem.num_offers, dtype=np.bool_)
    if problem.shares:
        return beaten
    replaceable = matching_ways(problem)
    for o in range(problem.num_offers):
        ways = np.flatnonzero(problem.offer_of_way == o)
        rivals = np.flatnonzero(takes_no_more(problem, o) & ~beaten)
        matches = (replaceable[np.ix_(ways, problem.offer_of_way == v)].any(axis=1).all() for v in rivals)
        beaten[o] = any(matches)
    return beaten


def takes_no_more(problem: MixProblem, o: int) -> BoolArray:
    """Offers of which a machine costs and takes no more than one of another, and of which any number can be had."""
    usd, left_usd = problem.usd_per_hour, problem.leaving_usd_per_hour
    is_less = np.isinf(problem.most_machines) & (usd <= usd[o]) & (problem.machines_today[o] * left_usd[o] == 0)
    for limit in problem.limits:
        each = limit.per_machine
        is_less &= (each <= each[o]) | np.isinf(limit.most)
        is_less &= (each >= each[o]) | np.isinf(limit.least)
    is_less[o] = False
    return np.asarray(is_less)


def matching_ways(problem: MixProblem) -> BoolArray:
    """Whether a unit of the second way does all that one of the first does, [way, way]."""
    found = np.zeros((problem.num_ways, problem.num_ways), dtype=np.bool_)
    for service in np.unique(problem.service_of_way):
        ways = np.flatnonzero(problem.service_of_way == service)
        loads = problem.load_units[np.ix_(problem.service_of_bucket == service, ways)]
        sent = problem.sending[np.ix_(problem.service_of_bucket == service, ways)]
        as_good = np.all((loads[:, None, :] <= loads[:, :, None]) & (sent[:, None, :] <= sent[:, :, None]), axis=0)
        size, replicas = problem.machines_per_unit[ways], problem.replicas_per_unit[ways]
        as_good &= (size[None, :] <= size[:, None]) & (replicas[None, :] >= replicas[:, None])
        for loss in problem.losses:
            as_good &= loss.lost_ratio[ways][None, :] <= loss.lost_ratio[ways][:, None]
            as_good &= loss.lost_units[ways][None, :] <= loss.lost_units[ways][:, None]
        found[np.ix_(ways, ways)] = as_good
    return found
