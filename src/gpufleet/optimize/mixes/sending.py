"""Buckets split over units so that sending their answers costs least, and then so that the busiest are least busy."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import MixProblem

CARRIES, NO_DEARER, CRUMB = 1e-7, 1e-6, 1e-6


def cheapest_split(problem: MixProblem, units: FloatArray, then_least: FloatArray | None = None) -> FloatArray | None:
    """The share of each bucket that each way gets, [bucket, way]; None where these units do not carry all buckets.

    Linear programmes one after the other, each at what those before found: the least cost of sending where no unit is
    more than busy, the least sum over `then_least` [bucket, way] where it is given, then the least busy.
    """
    from ortools.math_opt.python import mathopt

    model = mathopt.Model()
    share = shares_of(problem, units, model)
    if share is None:
        return None
    busiest = model.add_variable(lb=0, ub=1 + CARRIES)
    of_way: defaultdict[int, list[Any]] = defaultdict(list)
    for (b, w), s in share.items():
        of_way[w].append(float(problem.load_units[b, w]) * s)
    for w, used in of_way.items():
        model.add_linear_constraint(mathopt.fast_sum(used) - float(units[w]) * busiest <= 0)
    for each in (problem.sending, *([] if then_least is None else [then_least])):
        total = mathopt.fast_sum([float(each[key]) * s for key, s in share.items()])
        model.minimize(total)
        least = mathopt.solve(model, mathopt.SolverType.GLOP)
        if not least.has_primal_feasible_solution():
            return None
        model.add_linear_constraint(total <= least.objective_value() + NO_DEARER)
    model.minimize(busiest)
    values = mathopt.solve(model, mathopt.SolverType.GLOP).variable_values()
    found = np.zeros_like(problem.load_units)
    for key, s in share.items():
        found[key] = values[s] if values[s] > CRUMB else 0.0
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def shares_of(problem: MixProblem, units: FloatArray, model: Any) -> dict[tuple[int, int], Any] | None:
    """A variable for each way of each bucket, all of a bucket together 1; None where a bucket has no units."""
    usable = np.isfinite(problem.load_units) & (units > 0)[None, :]
    if not np.all(usable.any(axis=1)):
        return None
    share = {(int(b), int(w)): model.add_variable(lb=0, ub=1) for b, w in zip(*np.nonzero(usable), strict=True)}
    for bucket in range(problem.num_buckets):
        model.add_linear_constraint(sum(s for (b, _), s in share.items() if b == bucket) == 1)
    return share
