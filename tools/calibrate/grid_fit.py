"""Fits a grid to scattered points: least absolute deviations with a little smoothness, linear between knots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import cg

from gpufleet.domain.calibration import Axis

Floats = NDArray[np.float64]
ROUNDS = 4
ROUNDS_WITH_LIMITS = 6
SMALLEST_RESIDUAL = 0.02
SMOOTHNESS = 0.2
TOWARDS_MEDIAN = 1e-3
STIFFNESS = 1e3
SOLVED = 1e-5
MOST_ITERATIONS = 1000


@dataclass(frozen=True)
class SlopeLimits:
    """How much a grid may change from knot to knot along one axis; arrays one shorter than the grid there."""

    axis: int
    low: Floats
    high: Floats


def interpolation_matrix(axes: Sequence[Axis], coordinates: Sequence[Floats]) -> sparse.csr_matrix:
    """Weights of every knot in every point: points x knots, rows sum to 1."""
    points = len(coordinates[0])
    index = np.zeros((1, points), dtype=np.int64)
    weight = np.ones((1, points))
    for axis, coordinate in zip(axes, coordinates, strict=True):
        position = np.clip((coordinate - axis.low) / axis.step, 0, axis.count - 1)
        cell = np.minimum(position.astype(np.int64), axis.count - 2)
        share = position - cell
        index = np.concatenate([index * axis.count + cell, index * axis.count + cell + 1])
        weight = np.concatenate([weight * (1 - share), weight * share])
    rows = np.tile(np.arange(points), len(index))
    knots = int(np.prod([axis.count for axis in axes]))
    return sparse.csr_matrix((weight.ravel(), (rows, index.ravel())), shape=(points, knots))


def roughness(axes: Sequence[Axis]) -> sparse.csr_matrix:
    """Second differences along every axis (first differences where an axis has two knots)."""
    return sparse.vstack([_along(axes, which, order=2) for which in range(len(axes))]).tocsr()


def _along(axes: Sequence[Axis], which: int, order: int) -> sparse.spmatrix:
    matrix = sparse.identity(1)
    for number, axis in enumerate(axes):
        here = _differences(axis.count, order) if number == which else sparse.identity(axis.count)
        matrix = sparse.kron(matrix, here)
    return matrix


def _differences(count: int, order: int) -> sparse.spmatrix:
    if order == 1 or count == 2:
        return sparse.diags([-1.0, 1.0], [0, 1], shape=(count - 1, count))
    return sparse.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(count - 2, count))


def fit_grid(
    axes: Sequence[Axis],
    coordinates: Sequence[Floats],
    target: Floats,
    limits: Sequence[SlopeLimits] = (),
    around: Floats | None = None,
) -> Floats:
    """Knot values that reproduce `target` within slope limits; knots far from any point follow their neighbours.

    `around` is a grid that knows the shape: then only the smooth difference from it is fitted.
    """
    known = np.zeros(int(np.prod([axis.count for axis in axes]))) if around is None else around
    design, rough = interpolation_matrix(axes, coordinates), SMOOTHNESS * roughness(axes)
    target = target - design @ known
    middle = float(np.median(target))
    steps, low, high = _stacked(axes, limits)
    penalty = rough.T @ rough + TOWARDS_MEDIAN * sparse.identity(design.shape[1])
    weight, offset, total = np.ones(len(target)), np.full(design.shape[1], middle), None
    for _ in range(ROUNDS_WITH_LIMITS if limits else ROUNDS):
        weighted = sparse.diags(weight) @ design
        normal, pull = design.T @ weighted + penalty, weighted.T @ (target - middle)
        if total is not None and limits:
            push, goal = _push(steps, low, high, total)
            normal, pull = normal + push.T @ push, pull + push.T @ (goal - push @ (known + middle))
        offset = middle + _solved(normal.tocsr(), pull, offset - middle)
        weight = 1 / np.maximum(np.abs(target - design @ offset), SMALLEST_RESIDUAL)
        weight, total = weight / weight.mean(), known + offset
    return np.asarray(total)


def _solved(normal: sparse.csr_matrix, pull: Floats, start: Floats) -> Floats:
    """Conjugate gradients from the last round's answer: a direct solver fills in four dimensions."""
    scale = sparse.diags(1 / normal.diagonal())
    answer, _ = cg(normal, pull, x0=start, M=scale, rtol=SOLVED, maxiter=MOST_ITERATIONS)
    return np.asarray(answer)


def _stacked(axes: Sequence[Axis], limits: Sequence[SlopeLimits]) -> tuple[sparse.csr_matrix, Floats, Floats]:
    if not limits:
        return sparse.csr_matrix((0, 0)), np.zeros(0), np.zeros(0)
    steps = sparse.vstack([_along(axes, limit.axis, order=1) for limit in limits]).tocsr()
    return steps, np.concatenate([x.low.ravel() for x in limits]), np.concatenate([x.high.ravel() for x in limits])


def _push(steps: sparse.csr_matrix, low: Floats, high: Floats, total: Floats) -> tuple[sparse.csr_matrix, Floats]:
    """Stiff springs that pull the differences which break a limit back to it."""
    change = steps @ total
    broken = (change < low) | (change > high)
    goal = np.clip(change, low, high)[broken]
    return STIFFNESS**0.5 * steps[broken], STIFFNESS**0.5 * goal


def grid_values(axes: Sequence[Axis], knots: Floats, coordinates: Sequence[Floats]) -> Floats:
    """The grid at these points."""
    return np.asarray(interpolation_matrix(axes, coordinates) @ knots)
