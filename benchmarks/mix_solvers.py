"""The same questions written down for the solvers of OR-Tools, apart from ours, and programmes of the literature.

`whole_programme` splits buckets freely (SCIP, HiGHS). `sliced_programme` cuts every bucket into slices: so many of a
bucket at each type (as AIBrix' aggregated form), or one binary for each slice and type (Mélange, arXiv 2404.14527,
which solves it with CBC).
"""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.math_opt.python import mathopt
from ortools.sat.python import cp_model

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import MixProblem

SCIP, HIGHS, CP_SAT = "SCIP", "HiGHS", "CP-SAT"
SLICES, PARTS = 32, 1_000_000
"""CP-SAT knows whole numbers alone: loads are told in millionths of a machine, rounded up."""


@dataclass(frozen=True)
class Answer:
    """What a solver found, infinite where nothing, and what it proves for buckets that are split freely."""

    solver: str
    usd_per_hour: float
    bound_usd_per_hour: float
    took_s: float


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """HiGHS writes to standard output whatever it is told."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def whole_programme(problem: MixProblem, solver: str, limit_s: float) -> Answer:
    """Machines whole, buckets split freely."""
    model = mathopt.Model()
    at, machines = reachable(problem), counted(problem, model)
    share = {key: model.add_variable(lb=0, ub=1) for key in at}
    keep(model, problem, machines, share, {key: float(problem.load_units[key]) for key in at}, 1)
    return solved(model, problem, machines, solver, limit_s)


def sliced_programme(problem: MixProblem, slices: int, limit_s: float, *, is_binary: bool) -> Answer:
    """Buckets cut into slices that go whole, each to one type."""
    model = mathopt.Model()
    at, machines = reachable(problem), counted(problem, model)
    if is_binary:
        one = {(b, w): [model.add_binary_variable() for _ in range(slices)] for b, w in at}
        for b in range(problem.num_buckets):
            for piece in range(slices):
                model.add_linear_constraint(mathopt.fast_sum([one[k][piece] for k in at if k[0] == b]) == 1)
        share: dict[tuple[int, int], Any] = {key: mathopt.fast_sum(pieces) for key, pieces in one.items()}
    else:
        share = {key: model.add_integer_variable(lb=0, ub=slices) for key in at}
    keep(model, problem, machines, share, {key: float(problem.load_units[key]) / slices for key in at}, slices)
    found = solved(model, problem, machines, SCIP, limit_s)
    return Answer("one binary a slice" if is_binary else "whole slices", found.usd_per_hour, 0.0, found.took_s)


def reachable(problem: MixProblem) -> list[tuple[int, int]]:
    """Every bucket with every type that carries it."""
    return [(int(b), int(w)) for b, w in zip(*np.nonzero(np.isfinite(problem.load_units)), strict=True)]


def counted(problem: MixProblem, model: Any) -> list[Any]:
    """Machines of every type within their quotas."""
    return [model.add_integer_variable(lb=0, ub=float(most)) for most in problem.most_machines]


def keep(
    model: Any,
    problem: MixProblem,
    machines: list[Any],
    share: dict[tuple[int, int], Any],
    load: dict[tuple[int, int], float],
    whole: int,
) -> None:
    """Every bucket carried whole, by machines that are there."""
    of_bucket: list[list[Any]] = [[] for _ in range(problem.num_buckets)]
    of_type: list[list[Any]] = [[] for _ in machines]
    for (b, w), part in share.items():
        of_bucket[b].append(part)
        of_type[w].append(load[b, w] * part)
    for parts in of_bucket:
        model.add_linear_constraint(mathopt.fast_sum(parts) == whole)
    for used, count in zip(of_type, machines, strict=True):
        model.add_linear_constraint(mathopt.fast_sum(used) <= count)


def solved(model: Any, problem: MixProblem, machines: list[Any], solver: str, limit_s: float) -> Answer:
    """The cheapest that a solver finds."""
    usd = [float(price) * count for price, count in zip(problem.usd_per_hour, machines, strict=True)]
    model.minimize(mathopt.fast_sum(usd))
    kind = {SCIP: mathopt.SolverType.GSCIP, HIGHS: mathopt.SolverType.HIGHS}[solver]
    limits = mathopt.SolveParameters(time_limit=datetime.timedelta(seconds=limit_s), relative_gap_tolerance=1e-6)
    began = time.monotonic()
    with silenced():
        answer = mathopt.solve(model, kind, params=limits)
    took = time.monotonic() - began
    if not answer.has_primal_feasible_solution():
        return Answer(solver, float("inf"), 0.0, took)
    values = answer.variable_values()
    found: FloatArray = np.round([values[count] for count in machines])
    bound = float(answer.termination.objective_bounds.dual_bound)
    return Answer(solver, float(found @ problem.usd_per_hour), bound, took)


def by_cp_sat(problem: MixProblem, limit_s: float, workers: int = 2) -> Answer:
    """Slices of each bucket at each type, whole; what it proves holds for slices alone and is not told."""
    model = cp_model.CpModel()
    loads = {key: int(np.ceil(problem.load_units[key] / SLICES * PARTS)) for key in reachable(problem)}
    total = np.sum(np.where(np.isfinite(problem.load_units), problem.load_units, 0.0), axis=0)
    most = np.minimum(problem.most_machines, np.ceil(total) + 1).astype(int)
    machines = [model.new_int_var(0, int(m), "") for m in most]
    share = {key: model.new_int_var(0, SLICES, "") for key in loads}
    for b in range(problem.num_buckets):
        model.add(sum(part for key, part in share.items() if key[0] == b) == SLICES)
    for w, count in enumerate(machines):
        model.add(sum(loads[key] * part for key, part in share.items() if key[1] == w) <= PARTS * count)
    milli = np.round(problem.usd_per_hour * 1e6).astype(int)
    model.minimize(sum(int(usd) * count for usd, count in zip(milli, machines, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = limit_s, workers
    began = time.monotonic()
    status = solver.solve(model)
    took = time.monotonic() - began
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(CP_SAT, float("inf"), 0.0, took)
    found = np.array([solver.value(count) for count in machines], dtype=np.float64)
    return Answer(CP_SAT, float(found @ problem.usd_per_hour), 0.0, took)
