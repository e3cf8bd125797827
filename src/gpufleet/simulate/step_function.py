"""A quantity that keeps its value from one moment to the next, such as the length of a queue."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import AnyArray, FloatArray


def means_between(time_s: FloatArray, values: AnyArray, edges_s: FloatArray) -> FloatArray:
    """The mean over time between neighbouring edges; before the first moment nothing is there.

    >>> means_between(np.array([0.0, 1.0]), np.array([2, 4]), np.array([0.0, 2.0, 4.0]))
    array([3., 4.])
    """
    areas = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(time_s))))
    at = np.searchsorted(time_s, edges_s, side="right") - 1
    since = np.where(at < 0, 0.0, areas[at] + values[at] * (edges_s - time_s[at]))
    return np.asarray(np.diff(since) / np.diff(edges_s))


def values_at(time_s: FloatArray, values: AnyArray, moments_s: FloatArray) -> AnyArray:
    """What it is at these moments; before the first one, what it is there."""
    return np.asarray(values[np.maximum(np.searchsorted(time_s, moments_s, side="right") - 1, 0)])


def highest_between(time_s: FloatArray, values: AnyArray, edges_s: FloatArray) -> AnyArray:
    """The highest value between neighbouring edges, also where it does not change there.

    >>> highest_between(np.array([0.0, 1.0, 3.0]), np.array([2, 9, 4]), np.array([0.0, 2.0, 2.5, 4.0])).tolist()
    [9, 9, 9]
    """
    known = values_at(time_s, values, edges_s[:-1])
    begin, end = np.searchsorted(time_s, edges_s[:-1], side="left"), np.searchsorted(time_s, edges_s[1:], side="left")
    found = np.maximum.reduceat(np.append(values, 0), np.ravel(np.column_stack((begin, end))))[::2]
    return np.where(begin < end, np.maximum(found, known), known)
