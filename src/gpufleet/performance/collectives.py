"""Collectives among the GPUs of one machine, over NVLink or PCIe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats, Ints
from gpufleet.domain.calibration import UNSUPPORTED, CollectiveCurves, HostExchangeFormula
from gpufleet.performance.interpolation import interpolate, log2

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = range(4)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def exchanged_bytes(size_bytes: Floats, num_ranks: Floats) -> Floats:
    """Bytes that each rank sends when every part but its own must move: (n - 1) / n of the whole.

    >>> exchanged_bytes(1024.0, 4)
    768.0
    """
    return size_bytes * (num_ranks - 1) / num_ranks


def all_reduce_s(curves: CollectiveCurves, size_bytes: Floats, num_ranks: Floats) -> FloatArray:
    """Seconds to sum a tensor of `size_bytes` over `num_ranks` GPUs; 0 for one.

    t = exp(grid(log2 bytes, log2 n)) (2 (n - 1) / n bytes / link + 4 us)   [s]
    `link` is per GPU and direction. Source: measured NCCL and custom all-reduce kernels (best of them),
    `data/calibration/kernels.csv`. Valid: 256 B - 1 GiB, 2-8 ranks; more ranks keep the efficiency of 8.
    """
    return collective_s(curves, ALL_REDUCE, size_bytes, num_ranks)


def all_gather_s(curves: CollectiveCurves, size_bytes: Floats, num_ranks: Floats) -> FloatArray:
    """Seconds until every rank holds the `size_bytes` that all ranks hold together; 0 for one rank.

    t = exp(grid) ((n - 1) / n bytes / link + 4 us)   [s]   Source and range: see `all_reduce_s`.
    """
    return collective_s(curves, ALL_GATHER, size_bytes, num_ranks)


def reduce_scatter_s(curves: CollectiveCurves, size_bytes: Floats, num_ranks: Floats) -> FloatArray:
    """Seconds to sum a tensor of `size_bytes` and leave each rank its share; 0 for one rank.

    t = exp(grid) ((n - 1) / n bytes / link + 4 us)   [s]   Source and range: see `all_reduce_s`.
    """
    return collective_s(curves, REDUCE_SCATTER, size_bytes, num_ranks)


def all_to_all_s(curves: CollectiveCurves, size_bytes: Floats, num_ranks: Floats) -> FloatArray:
    """Seconds in which each rank spreads its `size_bytes` evenly over all ranks; 0 for one rank.

    t = exp(grid) ((n - 1) / n bytes / link + 4 us)   [s]   Source and range: see `all_reduce_s`.
    """
    return collective_s(curves, ALL_TO_ALL, size_bytes, num_ranks)


def collective_coordinates(size_bytes: Floats, num_ranks: Floats) -> tuple[FloatArray, ...]:
    """Where a collective stands in the grid.

    >>> [float(c) for c in collective_coordinates(65536, 8)]
    [16.0, 3.0]
    """
    return log2(size_bytes), log2(num_ranks)


def link_bytes(kind: Ints, size_bytes: Floats, num_ranks: Floats) -> Floats:
    """Bytes that each rank sends: (n - 1) / n of the tensor, twice that in a ring all-reduce.

    >>> float(link_bytes(ALL_REDUCE, 1024.0, 4)), float(link_bytes(ALL_GATHER, 1024.0, 4))
    (1536.0, 768.0)
    """
    return exchanged_bytes(size_bytes, num_ranks) * np.where(np.equal(kind, ALL_REDUCE), 2.0, 1.0)


def collective_s(curves: CollectiveCurves, kind: Ints, size_bytes: Floats, num_ranks: Floats) -> FloatArray:
    """Seconds of collectives of these kinds (positions in `COLLECTIVES`); see the function of each."""
    of_link, s_per_byte = of_kind(curves, kind), seconds_per_byte(curves, kind, num_ranks)
    return exchange_s(of_link, size_bytes, num_ranks, s_per_byte, log2(num_ranks))


def of_kind(curves: CollectiveCurves, kind: Ints) -> CollectiveCurves:
    """The curves of one kind out of the four of each link."""
    table = np.where(curves.table > UNSUPPORTED, curves.table * len(COLLECTIVES) + kind, UNSUPPORTED)
    return replace(curves, table=table)


def seconds_per_byte(curves: CollectiveCurves, kind: Ints, num_ranks: Floats) -> FloatArray:
    """Least seconds of the link for each byte of a tensor; infinite where the link is unknown or was not measured.

    (n - 1) / n / link, twice that in a ring all-reduce   [s/byte]
    """
    is_known = curves.is_supported & (curves.link_bytes_per_s > 0)
    link = np.where(is_known, curves.link_bytes_per_s, 1.0)
    return np.where(is_known, link_bytes(kind, 1.0, num_ranks) / link, np.inf)


def exchange_s(
    curves: CollectiveCurves,
    size_bytes: Floats,
    num_ranks: Floats,
    link_s_per_byte: FloatArray,
    log_ranks: FloatArray,
) -> FloatArray:
    """Seconds of collectives over the curves of their kind; `log_ranks`: where so many ranks stand in the grid."""
    log_ratio = interpolate(curves, (log2(size_bytes), log_ranks))
    seconds = np.exp(log_ratio) * (size_bytes * link_s_per_byte + curves.grids.fixed_s)
    if curves.through_host.any():
        by_host_s = host_exchange_s(curves.host, size_bytes * link_s_per_byte)
        seconds = np.where(curves.through_host, np.maximum(seconds, by_host_s), seconds)
    return np.where(np.asarray(num_ranks) > 1, seconds, 0.0)


def host_exchange_s(formula: HostExchangeFormula, link_s: FloatArray) -> FloatArray:
    """Seconds of an exchange that passes the memory of the host; `link_s`: what its bytes take of the whole link.

    fixed + min(2 x, x + whole), x = link_s / link_ratio   [s]
    Small tensors carry a flag beside every 8 bytes, large ones wait for more before they start (NCCL: LL and Simple).
    Where drivers or hosts refuse peer-to-peer access NCCL copies through shared memory, and engines' own all-reduce
    kernels do not run: vllm/distributed/device_communicators/custom_all_reduce.py.
    """
    moved_s = np.asarray(link_s) / formula.link_ratio.value
    return np.asarray(formula.fixed_s.value + np.minimum(2.0 * moved_s, moved_s + formula.whole_s.value))
