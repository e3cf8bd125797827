"""Multilinear interpolation in stacked grids, for every candidate at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.calibration import Curves, Grids

SMALLEST = 2.0**-20


def log2(quantity: Floats) -> FloatArray:
    """log2 of a count; zero and less count as nothing measurable (2**-20), below every grid.

    >>> float(log2(8.0))
    3.0
    """
    return np.log2(np.maximum(quantity, SMALLEST))


def interpolate(grids: Grids, table: IntArray, coordinates: Sequence[FloatArray]) -> FloatArray:
    """Value of each candidate's table at its coordinates, linear between knots and constant outside the grid."""
    index: IntArray = np.maximum(table, 0)
    fractions = []
    for axis, coordinate in zip(grids.axes, coordinates, strict=True):
        position = np.minimum(np.maximum((coordinate - axis.low) * (1.0 / axis.step), 0.0), axis.count - 1.0)
        cell = np.minimum(position.astype(np.int64), axis.count - 2)
        fractions.append(position - cell)
        index = index * axis.count + cell
    strides = np.cumprod([1, *(axis.count for axis in reversed(grids.axes[1:]))])[::-1]
    return _blend(grids.values.reshape(-1), index, [int(s) for s in strides], fractions)


def _blend(flat: FloatArray, corner: IntArray, strides: list[int], fractions: list[FloatArray]) -> FloatArray:
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
    return np.where(curves.is_supported, seconds, np.inf)
