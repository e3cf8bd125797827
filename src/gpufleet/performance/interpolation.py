"""Multilinear interpolation in stacked grids, for every candidate at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.calibration import UNSUPPORTED, Axis, CollectiveCurves, Curves, first_cells, strides_of
from gpufleet.records import dataclass

SMALLEST = 2.0**-20
JUST_BELOW = 2.0**-6  # of a doubling
ROUNDS = 3
STREAMING_RATIO = 1.3
"""Rooflines that a kernel takes which only streams or multiplies: what a borrowed curve says beyond is latency.

With 1.3, products in bf16 are predicted from a device with more bandwidth as well as, or better than, with all of it
stretched: B200 for H100 off by 8 instead of 12 % (fp8: 9 instead of 14), A100 for L40S by 21 instead of 27 %.
"""
LONGEST_LATENCY_S = 30e-6
"""Judgement: an inefficient product of milliseconds is no latency."""
AnyCurves = TypeVar("AnyCurves", bound=Curves | CollectiveCurves)
DeviceCurves = TypeVar("DeviceCurves", bound=Curves)
Roofline: TypeAlias = Callable[[Sequence[FloatArray]], FloatArray]


def log2(quantity: Floats) -> FloatArray:
    """log2 of a count; zero and less count as nothing measurable (2**-20), below every grid.

    >>> float(log2(8.0))
    3.0
    """
    return np.log2(np.maximum(quantity, SMALLEST))


def interpolate(curves: Curves | CollectiveCurves, coordinates: Sequence[FloatArray]) -> FloatArray:
    """Value of each candidate's table at its coordinates, linear between knots and constant outside the grid."""
    grids = curves.grids
    if grids.reads:
        coordinates = [coordinates[i] for i in grids.reads]
    values, climbs = grids.in_a_row, grids.climbs
    corner, fractions = _corner(grids.axes, grids.strides, curves.first_cell, coordinates)

    def between(cell: IntArray, share: FloatArray) -> FloatArray:
        climbed = share * climbs[cell]
        climbed += values[cell]
        return climbed

    return _blend(between, corner, grids.strides, fractions)


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
    values = _rows_between(rows, [grids.axes[i] for i in held], curves.table, [coordinates[i] for i in held])
    table = np.arange(len(values.reshape(-1, *sizes))).reshape(values.shape[:-1])
    smaller = replace(grids, axes=left, values=values.reshape(-1, *sizes), reads=free)
    return replace(curves, grids=smaller, table=np.where(curves.table > UNSUPPORTED, table, UNSUPPORTED))


@dataclass(frozen=True)
class Distinct(Generic[DeviceCurves]):
    """The curves that differ among many candidates, each with its sizes; `place` says which one a candidate has."""

    curves: DeviceCurves
    sizes: tuple[FloatArray, ...]
    place: IntArray

    @classmethod
    def of(cls, curves: DeviceCurves, *sizes: Floats) -> Distinct[DeviceCurves]:
        """Candidates are alike where table, device, format and sizes are."""
        columns = {f.name: getattr(curves, f.name) for f in fields(curves) if f.name != "grids"}
        shape = np.broadcast_shapes(*(np.shape(column) for column in (*columns.values(), *sizes)))
        rows = [np.broadcast_to(column, shape).reshape(-1) for column in (*columns.values(), *sizes)]
        order = np.lexsort(rows)
        is_new = np.zeros(len(order), dtype=np.bool_)
        for row in rows:
            is_new[1:] |= np.diff(row[order]) != 0
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.cumsum(is_new)
        is_new[:1] = True
        firsts = [row[order[is_new]] for row in rows]
        chosen: dict[str, Any] = dict(zip(columns, firsts, strict=False))
        return cls(replace(curves, **chosen), tuple(firsts[len(columns) :]), place.reshape(shape))

    def spread(self, like: DeviceCurves, found: DeviceCurves) -> DeviceCurves:
        """`like`, the curves of all candidates, over the grids found for the distinct ones."""
        at = self.place
        return replace(like, grids=found.grids, table=found.table[at], lost_ratio=found.lost_ratio[at])


def rising(curves: DeviceCurves, roofline_s: Roofline) -> DeviceCurves:
    """Narrowed curves of a row of candidates whose seconds never fall along any axis, as near as can be to these.

    ln t = grid + ln(roofline + fixed): the second part rises ever more steeply over the logarithm of each quantity, so
    what counts in a cell is its slope at the lower knots. `roofline_s` takes quantities, one array for each axis.
    Tables are fitted to the device that was measured, with springs; another has its ridge at another place.
    Where a knot lies too low against one before it, both give way by half.
    """
    curves = _at_home(curves, roofline_s)
    grids = curves.grids
    least = [_least_climb(curves, roofline_s, i) for i in range(len(grids.axes))]
    values = np.moveaxis(grids.values, 0, -1)
    turned = [-np.flip(climb, axis=i) for i, climb in enumerate(least)]
    every = tuple(range(len(least)))
    flipped = [np.flip(climb, axis=tuple(set(every) - {i})) for i, climb in enumerate(turned)]
    lowered = -np.flip(_raised(-np.flip(values, axis=every), flipped), axis=every)
    middle = (_raised(values, least) + lowered) / 2
    return replace(curves, grids=replace(grids, values=np.ascontiguousarray(np.moveaxis(middle, -1, 0))))


def weakened(curves: Curves, log_ratio: FloatArray, roofline_s: FloatArray) -> FloatArray:
    """What a borrowed curve gives way by where the device lacks bandwidth or peak of the one that was measured.

    ln(1 - lost min(max(x - s, 0) roofline, l / (1 - lost)) / t), t = x (roofline + fixed), x = exp(grid)   [ln]
    s: STREAMING_RATIO, l: LONGEST_LATENCY_S. Time beyond s rooflines is latency, as far as latency reaches, which a
    slower memory does not stretch.
    """
    ratio, lost = np.exp(log_ratio), curves.lost_ratio
    latency_s = np.minimum(np.maximum(ratio - STREAMING_RATIO, 0.0) * roofline_s, LONGEST_LATENCY_S / (1 - lost))
    return np.asarray(np.log1p(-lost * latency_s / (ratio * (roofline_s + curves.grids.fixed_s))))


def _raised(values: FloatArray, least: Sequence[FloatArray]) -> FloatArray:
    """Values raised, and no more than it takes, until they climb from knot to knot as much as `least` does."""
    for _ in range(ROUNDS if len(least) > 1 else 1):
        for i, climb in enumerate(least):
            values = np.maximum.accumulate(values - climb, axis=i) + climb
    return values


def _at_home(curves: DeviceCurves, roofline_s: Roofline) -> DeviceCurves:
    """Borrowed curves as they are on the device that borrows them."""
    if not curves.is_weaker_anywhere:
        return curves
    grids = curves.grids
    knots = [axis.low + axis.step * np.arange(axis.count, dtype=np.float64) for axis in grids.axes]
    quantities = [met[..., None] for met in np.meshgrid(*(np.exp2(knot) for knot in knots), indexing="ij")]
    values = np.moveaxis(grids.values, 0, -1)
    lower = values + weakened(curves, values, roofline_s(quantities))
    home = replace(grids, values=np.ascontiguousarray(np.moveaxis(lower, -1, 0)))
    return replace(curves, grids=home, lost_ratio=np.zeros_like(curves.lost_ratio))


def _least_climb(curves: Curves, roofline_s: Roofline, along: int) -> FloatArray:
    """What the grid must have climbed up to each knot of an axis, mostly less than nothing, if seconds do not fall.

    Between two knots of another axis the grid is straight and the roofline's slope is not: it lies below by at most
    an eighth of their distance squared.
    """
    axes = curves.grids.axes
    knots = [axis.low + axis.step * np.arange(axis.count, dtype=np.float64) for axis in axes]
    below = [knot - JUST_BELOW * (i == along) for i, knot in enumerate(knots)]
    slope = (_log_s(curves, roofline_s, knots) - _log_s(curves, roofline_s, below)) / (JUST_BELOW * np.log(2))
    sag = sum((axis.step * np.log(2)) ** 2 / 8 for i, axis in enumerate(axes) if i != along)
    rise = (slope - sag * slope * np.maximum(1 - slope, 0.0)) * axes[along].step * np.log(2)
    climbed = np.roll(-np.cumsum(rise, axis=along), 1, axis=along)
    climbed[(slice(None),) * along + (0,)] = 0.0
    return np.asarray(climbed)


def _log_s(curves: Curves, roofline_s: Roofline, knots: Sequence[FloatArray]) -> FloatArray:
    """ln(roofline + fixed) where knots of all axes meet, for each candidate: [knot, ..., candidate]."""
    quantities = [met[..., None] for met in np.meshgrid(*(np.exp2(knot) for knot in knots), indexing="ij")]
    return np.asarray(np.log(roofline_s(quantities) + curves.grids.fixed_s))


def _rows_between(
    rows: FloatArray, axes: Sequence[Axis], table: IntArray, coordinates: Sequence[FloatArray]
) -> FloatArray:
    """The row of each candidate between rows that lie along these axes."""
    strides = strides_of(axes)
    corner, fractions = _corner(axes, strides, first_cells(table, axes), coordinates)
    if not axes:
        return rows[corner]

    def between(cell: IntArray, share: FloatArray) -> FloatArray:
        near = rows[cell]
        return near + share * (rows[cell + 1] - near)

    return _blend(between, corner, strides, [fraction[..., None] for fraction in fractions])


def _corner(
    axes: Sequence[Axis], strides: Sequence[int], first_cell: IntArray, coordinates: Sequence[FloatArray]
) -> tuple[IntArray, list[FloatArray]]:
    """The lowest corner of the cell of each candidate, and how far it lies towards the next knot of each axis."""
    corner, fractions = first_cell, []
    for axis, stride, coordinate in zip(axes, strides, coordinates, strict=True):
        cell, fraction = _place(axis, coordinate)
        corner = corner + (cell if stride == 1 else cell * stride)
        fractions.append(fraction)
    return corner, fractions


def _place(axis: Axis, coordinate: FloatArray) -> tuple[IntArray, FloatArray]:
    """The cell of a coordinate, and how far it lies towards the next knot (0..1)."""
    steps = coordinate - axis.low if axis.low else coordinate
    position = np.asarray(np.maximum(steps if axis.step == 1.0 else steps * (1.0 / axis.step), 0.0))
    np.minimum(position, axis.count - 1.0, out=position)
    cell = position.astype(np.int64)
    np.minimum(cell, axis.count - 2, out=cell)
    position -= cell
    return cell, position


def _blend(
    between: Callable[[IntArray, FloatArray], FloatArray],
    corner: IntArray,
    strides: Sequence[int],
    fractions: Sequence[FloatArray],
) -> FloatArray:
    """Halve the cell along one axis after the other; `between` neighbours along the last."""
    if len(strides) == 1:
        return between(corner, fractions[0])
    near = _blend(between, corner, strides[1:], fractions[1:])
    far = _blend(between, corner + strides[0], strides[1:], fractions[1:])
    far -= near
    far *= fractions[0]
    near += far
    return near


def curve_s(curves: Curves, roofline_s: FloatArray, coordinates: Sequence[FloatArray]) -> FloatArray:
    """Seconds of a measured curve: exp(grid) (roofline + fixed), never faster than the roofline; inf if unsupported."""
    log_ratio = interpolate(curves, coordinates)
    if curves.is_weaker_anywhere:
        log_ratio = log_ratio + weakened(curves, log_ratio, roofline_s)
    if curves.is_slower_anywhere:
        log_ratio = log_ratio + curves.log_slowdown
    seconds = np.maximum(np.exp(log_ratio) * (roofline_s + curves.grids.fixed_s), roofline_s)
    return seconds if curves.is_supported_everywhere else np.where(curves.is_supported, seconds, np.inf)
