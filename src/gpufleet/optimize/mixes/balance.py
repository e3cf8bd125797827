"""Whether units carry all buckets: split so that the busiest are least busy, and what a unit is worth then.

Where they do not, dual prices pi say what every mix has to be worth:   sum_w pi_w u_w >= sum_b min_w pi_w load_bw.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.sending import cheapest_split
from gpufleet.records import dataclass

CARRIES = 1e-7


@dataclass(frozen=True, eq=False)
class Worth:
    """What units that carry all buckets are worth at least, whatever they are: a price for one of each way, [way]."""

    price: FloatArray
    needed: float

    def is_missed(self, units: FloatArray) -> bool:
        """Whether so many units are worth less."""
        return float(self.price @ units) < self.needed * (1 - CARRIES)


@dataclass(frozen=True, eq=False)
class Balance:
    """Buckets split so that the busiest units are least busy: how busy, the shares, and what a unit is then worth.

    `busiest`: infinite where a bucket has no way. `share`: [bucket, way]. `price`: [way], also of ways without units:
    there the least at which no bucket would go that way.
    """

    busiest: float
    share: FloatArray
    price: FloatArray


def balance(problem: MixProblem, units: FloatArray) -> Balance:
    """The split of all buckets over these units that keeps the busiest least busy."""
    from ortools.math_opt.python import mathopt

    usable = np.isfinite(problem.load_units) & (units > 0)[None, :]
    if not np.all(usable.any(axis=1)):
        return nowhere(problem, usable)
    model, share = mathopt.Model(), {}
    of_way: defaultdict[int, list[Any]] = defaultdict(list)
    of_bucket: defaultdict[int, list[Any]] = defaultdict(list)
    busiest = model.add_variable(lb=0)
    for b, w in zip(*np.nonzero(usable), strict=True):
        share[b, w] = s = model.add_variable(lb=0, ub=1)
        of_bucket[b].append(s)
        of_way[w].append(float(problem.load_units[b, w]) * s)
    for row in of_bucket.values():
        model.add_linear_constraint(mathopt.fast_sum(row) == 1)
    room = {
        w: model.add_linear_constraint(mathopt.fast_sum(used) - float(units[w]) * busiest <= 0)
        for w, used in of_way.items()
    }
    model.minimize(busiest)
    answer = mathopt.solve(model, mathopt.SolverType.GLOP)
    values, duals, found = answer.variable_values(), answer.dual_values(), np.zeros_like(problem.load_units)
    for key, s in share.items():
        found[key] = max(values[s], 0.0)
    price = np.zeros(problem.num_ways)
    price[list(room)] = [max(-duals[row], 0.0) for row in room.values()]
    found /= found.sum(axis=1, keepdims=True)
    return Balance(float(values[busiest]), found, with_price_of_others(problem, price, units > 0))


def with_price_of_others(problem: MixProblem, price: FloatArray, has_units: BoolArray) -> FloatArray:
    """Prices of ways without units: the least at which no bucket would go there."""
    loads = np.where(np.isfinite(problem.load_units), problem.load_units, np.inf)
    with np.errstate(invalid="ignore"):
        worth = np.min(np.where(has_units[None, :] & np.isfinite(loads), price[None, :] * loads, np.inf), axis=1)
    return np.where(has_units, price, np.max(np.where(np.isfinite(loads), worth[:, None] / loads, 0.0), axis=0))


def nowhere(problem: MixProblem, usable: BoolArray) -> Balance:
    """A bucket has no units at all: one of them is priced so that units are asked for units that carry it."""
    lost = int(np.flatnonzero(~usable.any(axis=1))[0])
    loads = problem.load_units[lost]
    price = np.where(np.isfinite(loads), 1 / np.where(np.isfinite(loads), loads, 1.0), 0.0)
    return Balance(math.inf, np.zeros_like(problem.load_units), price)


def carrying_worth(problem: MixProblem, price: FloatArray) -> float:
    """What carrying all buckets is worth at these prices of units: each at its cheapest way."""
    with np.errstate(invalid="ignore"):
        worth = np.where(np.isfinite(problem.load_units), price[None, :] * problem.load_units, np.inf)
    return float(np.sum(np.min(worth, axis=1)))


def balanced(problem: MixProblem, mix: Mix) -> Mix:
    """The same machines, with buckets split so that sending them costs least, and then all are about as busy."""
    if problem.sending_usd_per_hour is not None:
        share = cheapest_split(problem, mix.units)
        return mix if share is None else replace(mix, share=share)
    found = balance(problem, mix.units)
    return mix if found.busiest > 1 + CARRIES else replace(mix, share=found.share)
