"""A mix as if units could be cut: where buckets then go, and what no mix costs less than.

Any prices of quotas and limits prove   cost >= sum_b min_w (cost + price rows)_w load_bw - price room.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import MachineLimit, MixProblem, Share
from gpufleet.optimize.mixes.split import Split
from gpufleet.optimize.mixes.survival import carrying_worth, usd_per_unit
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Units of every way, [way], and what no mix costs less than."""

    units: FloatArray
    usd_per_hour: float


def relaxation(problem: MixProblem) -> Relaxed | None:
    """Buckets at their cheapest ways within quotas and limits; None where that is impossible, so that no mix is."""
    if not np.all(np.isfinite(problem.load_units).any(axis=1)):
        return None
    cost, (rows, room) = usd_per_unit(problem), upper_rows(problem)
    split = Split(problem.load_units, cost, rows)
    fits = split.fits(room)
    if split.is_proved:
        return None
    price = split.prices() if fits else np.zeros(len(rows))
    least = carrying_worth(problem.load_units, cost + price @ rows) - float(price @ room)
    units = with_ratios_kept(problem, rows, room)
    if units is None:
        units = problem.used_units(split.share(room)) if fits else cheapest_units(problem)
    return Relaxed(units, max(least, 0.0))


def cheapest_units(problem: MixProblem) -> FloatArray:
    """Units that every bucket keeps busy at its cheapest way, whatever can be had, [way]."""
    none = np.zeros(0)
    split = Split(problem.load_units, usd_per_unit(problem), none.reshape(0, problem.num_ways))
    return problem.used_units(split.share(none))


def with_ratios_kept(problem: MixProblem, rows: FloatArray, room: FloatArray) -> FloatArray | None:
    """Units where shares of clouds and limits from below hold too, as if units could be cut; None where they cannot."""
    ratios = ratio_rows(problem)
    if not ratios:
        return None
    every = np.vstack([rows, of_ways(problem, np.array([row for row, _ in ratios]))])
    ends = np.append(room, [end for _, end in ratios])
    split = Split(problem.load_units, usd_per_unit(problem), every)
    return problem.used_units(split.share(ends)) if split.fits(ends) else None


def is_upper(limit: MachineLimit) -> bool:
    """Whether a limit holds for machines that are needed if it holds for all that are bought."""
    return bool(np.isfinite(limit.most) and np.all(limit.per_machine >= 0))


def upper_rows(problem: MixProblem) -> tuple[FloatArray, FloatArray]:
    """Machines that can be had and limits from above, of units: [row, way], and their room, [row]."""
    alone, finite = np.eye(problem.num_offers), np.flatnonzero(np.isfinite(problem.most_machines))
    limits = [x for x in problem.limits if is_upper(x)]
    of_offer = np.array([*alone[finite], *(x.per_machine for x in limits)]).reshape(-1, problem.num_offers)
    return of_ways(problem, of_offer), np.array([*problem.most_machines[finite], *(x.most for x in limits)])


def of_ways(problem: MixProblem, of_offer: FloatArray) -> FloatArray:
    """Rows over machines as rows over units, [row, way]."""
    return np.asarray(of_offer[:, problem.offer_of_way] * problem.machines_per_unit)


def ratio_rows(problem: MixProblem) -> list[tuple[FloatArray, float]]:
    """Shares of clouds and all other limits: what each machine adds, [offer], and its end."""
    found = [(row, 0.0) for share in problem.shares for row in share_rows(share)]
    found += [(x.per_machine, x.most) for x in problem.limits if np.isfinite(x.most) and not is_upper(x)]
    return found + [(-x.per_machine, -x.least) for x in problem.limits if np.isfinite(x.least)]


def share_rows(share: Share) -> tuple[FloatArray, FloatArray]:
    """What each machine adds to what a share has too much and too little, [offer]."""
    tolerance = (share.tolerance_ratio or 0.0) * share.weight
    deviation = share.weight * (share.is_member - share.share_ratio)
    return deviation - tolerance, -deviation - tolerance
