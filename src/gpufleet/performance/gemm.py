"""Dense matrix products: seconds of [m, k] x [k, n] from measured kernels."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import WIDE_BYTES, GemmCurves
from gpufleet.performance.interpolation import curve_s, log2
from gpufleet.performance.roofline import RowRoofline, roofline_s

OUTPUT_BYTES = 2.0


def gemm_flop(m: Floats, n: Floats, k: Floats) -> Floats:
    """Operations of a product: one multiplication and one addition for each of m n k pairs.

    >>> gemm_flop(1, 8192, 8192)
    134217728
    """
    return 2 * m * n * k


def gemm_bytes(
    m: Floats, n: Floats, k: Floats, weight_bytes_per_element: Floats, activation_bytes_per_element: Floats
) -> Floats:
    """Bytes that a product moves once: weights n k, input m k, output m n in 16 bit.

    >>> gemm_bytes(1, 8192, 8192, 2.0, 2.0) / 2**20
    128.03125
    """
    return n * k * weight_bytes_per_element + m * k * activation_bytes_per_element + m * n * OUTPUT_BYTES


def quantised_bytes(curves: GemmCurves, k: Floats) -> FloatArray:
    """Bytes that quantising one row of a product's input reads and writes: [bytes]; 0 where it stays in 16 bits.

    k (2 + bytes of a quantised element)   Source: counted. `gemm_s` does not hold these kernels: engines run them
    before the product, or within what wrote the row.
    """
    narrow = curves.activation_bytes_per_element
    return np.where(narrow < WIDE_BYTES, k * (WIDE_BYTES + narrow), 0.0)


def gemm_coordinates(m: Floats, n: Floats, k: Floats) -> tuple[FloatArray, ...]:
    """Where a shape stands in the grid.

    >>> [float(c) for c in gemm_coordinates(1, 1024, 4096)]
    [0.0, 10.0, 12.0]
    """
    return log2(m), log2(n), log2(k)


def gemm_roofline_s(curves: GemmCurves, m: Floats, n: Floats, k: Floats) -> FloatArray:
    """Least seconds of a product on each candidate's device."""
    size_bytes = gemm_bytes(m, n, k, curves.bytes_per_element, curves.activation_bytes_per_element)
    return roofline_s(gemm_flop(m, n, k), curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def gemm_rows(curves: GemmCurves, n: Floats, k: Floats) -> RowRoofline:
    """The same roofline as what each row of m adds to reading the weights."""
    activation_bytes = curves.activation_bytes_per_element
    return RowRoofline(
        compute_s=gemm_flop(1.0, n, k) / curves.peak_flop_per_s,
        read_s=gemm_bytes(0.0, n, k, curves.bytes_per_element, activation_bytes) / curves.bandwidth_bytes_per_s,
        moved_s=gemm_bytes(1.0, n, k, 0.0, activation_bytes) / curves.bandwidth_bytes_per_s,
    )


def gemm_s(curves: GemmCurves, m: Floats, n: Floats, k: Floats) -> FloatArray:
    """Seconds of a product of m tokens with an [n, k] weight matrix; inf where the precision is not supported.

    t = exp(grid(log2 m, log2 n, log2 k)) (max(2 m n k / peak, bytes / bandwidth) + 2 us)   [s]
    Source: measured GEMM kernels, `data/calibration/kernels.csv`. Valid: m 1-16,384, n and k 32-65,536; clamped
    outside, where the roofline carries the shape.
    """
    return curve_s(curves, gemm_roofline_s(curves, m, n, k), gemm_coordinates(m, n, k))
