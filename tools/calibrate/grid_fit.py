"""Fits a grid to scattered points: least absolute deviations with a little smoothness, linear between knots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import spsolve

from gpufleet.domain.calibration import Axis

Floats = NDArray[np.float64]
ROUNDS = 4
SMALLEST_RESIDUAL = 0.02
SMOOTHNESS = 0.2
TOWARDS_MEDIAN = 1e-3


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
    return sparse.vstack([_along(axes, which) for which in range(len(axes))]).tocsr()


def _along(axes: Sequence[Axis], which: int) -> sparse.spmatrix:
    matrix = sparse.identity(1)
    for number, axis in enumerate(axes):
        matrix = sparse.kron(matrix, _differences(axis.count) if number == which else sparse.identity(axis.count))
    return matrix


def _differences(count: int) -> sparse.spmatrix:
    if count == 2:
        return sparse.csr_matrix(np.array([[1.0, -1.0]]))
    return sparse.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(count - 2, count))


def fit_grid(axes: Sequence[Axis], coordinates: Sequence[Floats], target: Floats) -> Floats:
    """Knot values that reproduce `target`; knots far from any point follow their neighbours."""
    design, rough = interpolation_matrix(axes, coordinates), SMOOTHNESS * roughness(axes)
    middle = float(np.median(target))
    penalty = rough.T @ rough + TOWARDS_MEDIAN * sparse.identity(design.shape[1])
    weight = np.ones(len(target))
    knots = np.full(design.shape[1], middle)
    for _ in range(ROUNDS):
        weighted = sparse.diags(weight) @ design
        normal = (design.T @ weighted + penalty).tocsc()
        knots = middle + spsolve(normal, weighted.T @ (target - middle))
        weight = 1 / np.maximum(np.abs(target - design @ knots), SMALLEST_RESIDUAL)
        weight /= weight.mean()
    return np.asarray(knots)


def grid_values(axes: Sequence[Axis], knots: Floats, coordinates: Sequence[Floats]) -> Floats:
    """The grid at these points."""
    return np.asarray(interpolation_matrix(axes, coordinates) @ knots)
