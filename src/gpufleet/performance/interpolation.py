"""Multilinear interpolation in stacked grids, for every candidate at once."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.calibration import UNSUPPORTED, Axis, CollectiveCurves, Curves, Grids

SMALLEST = 2.0**-20
AnyCurves = TypeVar("AnyCurves", bound=Curves | CollectiveCurves)


def log2(quantity: Floats) -> FloatArray:
    """log2 of a count; zero and less count as nothing measurable (2**-20), below every grid.

    >>> float(log2(8.0))
    3.0
    """
    return np.log2(np.maximum(quantity, SMALLEST))


def interpolate(grids: Grids, table: IntArray, coordinates: Sequence[FloatArray]) -> FloatArray:
    """Value of each candidate's table at its coordinates, linear between knots and constant outside the grid."""
    if grids.reads:
        coordinates = [coordinates[i] for i in grids.reads]
    return _interpolate(grids.values.reshape(-1), grids.axes, table, coordinates)


def narrowed(curves: AnyCurves, coordinates: Sequence[FloatArray], names: Collection[str]) -> AnyCurves:
    """Curves of candidates that stay at their coordinates along the axes `names`: a smaller table for each of them.

    Interpolation along one axis after the other gives the same value in any order of the axes.
    """
    grids = curves.grids
    held = [i for i, axis in enumerate(grids.axes) if axis.name in names]
    free = tuple(i for i in range(len(grids.axes)) if i not in held)
    left = tuple(grids.axes[i] for i in free)
    sizes = [axis.count for axis in left]
    rows = np.moveaxis(grids.values, [1 + i for i in held], range(1, 1 + len(held))).reshape(-1, math.prod(sizes))
    values = _interpolate(rows, [grids.axes[i] for i in held], curves.table, [coordinates[i] for i in held])
    table = np.arange(len(values.reshape(-1, *sizes))).reshape(values.shape[:-1])
    smaller = replace(grids, axes=left, values=values.reshape(-1, *sizes), reads=free)
    return replace(curves, grids=smaller, table=np.where(curves.table > UNSUPPORTED, table, UNSUPPORTED))


def _interpolate(
    rows: FloatArray, axes: Sequence[Axis], table: IntArray, coordinates: Sequence[FloatArray]
) -> FloatArray:
    """Rows of numbers, or numbers, that lie along the axes of every table."""
    corner, fractions = np.maximum(table, 0), []
    for axis, coordinate in zip(axes, coordinates, strict=True):
        cell, fraction = _place(axis, coordinate)
        corner = corner * axis.count + cell
        fractions.append(fraction if rows.ndim == 1 else fraction[..., None])
    strides = [math.prod(axis.count for axis in axes[i + 1 :]) for i in range(len(axes))]
    return _blend(rows, corner, strides, fractions)


def _place(axis: Axis, coordinate: FloatArray) -> tuple[IntArray, FloatArray]:
    """The cell of a coordinate, and how far it lies towards the next knot (0..1)."""
    position = np.minimum(np.maximum((coordinate - axis.low) * (1.0 / axis.step), 0.0), axis.count - 1.0)
    cell = np.minimum(position.astype(np.int64), axis.count - 2)
    return cell, position - cell


def _blend(flat: FloatArray, corner: IntArray, strides: Sequence[int], fractions: Sequence[FloatArray]) -> FloatArray:
    """Halve the cell along one axis after the other."""
    if not strides:
        return flat[corner]
    near = _blend(flat, corner, strides[1:], fractions[1:])
    far = _blend(flat, corner + strides[0], strides[1:], fractions[1:])
    return near + fractions[0] * (far - near)


def curve_s(curves: Curves, roofline_s: FloatArray, coordinates: Sequence[FloatArray]) -> FloatArray:
    """Seconds of a measured curve: exp(grid) (roofline + fixed), never faster than the roofline; inf if unsupported."""
    log_ratio = interpolate(curves.grids, curves.table, coordinates) + curves.log_slowdown
    seconds = np.maximum(np.exp(log_ratio) * (roofline_s + curves.grids.fixed_s), roofline_s)
    return seconds if curves.is_supported_everywhere else np.where(curves.is_supported, seconds, np.inf)
