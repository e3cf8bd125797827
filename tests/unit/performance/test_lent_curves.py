"""Kernel curves lent to weaker devices: latency stays, what streams takes as much longer as memory is slower."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.calibration import GemmCurves
from gpufleet.performance.gemm import gemm_coordinates, gemm_roofline_s, gemm_s
from gpufleet.performance.interpolation import narrowed, rising

ACCELERATORS = tuple(load_catalog().accelerators.values())
NAMES = [a.name for a in ACCELERATORS]
WIDTHS = [(4096.0, 4096.0), (28672.0, 4096.0)]


def curves(gpu: str, precision: str) -> GemmCurves:
    return load_calibration(ACCELERATORS).gemm(np.array([NAMES.index(gpu)]), [precision], np.zeros(1, dtype=np.int64))


def test_a_device_keeps_its_own_curves_and_a_stronger_one_the_ratio() -> None:
    assert [float(curves(gpu, "bf16").lost_ratio[0]) for gpu in ("H100-SXM", "L40S", "GB200")] == [0, 0, 0]
    assert curves("H100-SXM", "int4").lost_ratio[0] == 0
    assert 0.3 < curves("A10G", "int4").lost_ratio[0] < 0.71


@pytest.mark.parametrize(("n", "k"), WIDTHS)
def test_latency_of_a_stronger_device_is_not_stretched_by_a_slower_memory(n: float, k: float) -> None:
    lender, borrower = curves("A100-SXM4-80GB", "int4"), curves("A10G", "int4")
    plain = replace(borrower, lost_ratio=np.zeros(1))
    for m in (1.0, 16.0):
        lent_s, kept_s = gemm_s(borrower, m, n, k)[0], gemm_s(plain, m, n, k)[0]
        own_s, least_s = gemm_s(lender, m, n, k)[0], gemm_roofline_s(borrower, m, n, k)[0]
        assert max(own_s, least_s) <= lent_s <= kept_s


def test_a_mistral_in_int4_on_a10g_takes_what_was_measured() -> None:
    """10.8 ms a token with vLLM 0.3.2 and Marlin (nm-vllm, early 2024), 1.4 ms of them not products in int4."""
    products = [(6144.0, 4096.0), (4096.0, 4096.0), (28672.0, 4096.0), (4096.0, 14336.0)]
    lent_s, kept_s = (
        32 * sum(float(gemm_s(each, 1.0, n, k)[0]) for n, k in products)
        for each in (curves("A10G", "int4"), replace(curves("A10G", "int4"), lost_ratio=np.zeros(1)))
    )
    assert lent_s < 0.85 * kept_s
    assert lent_s == pytest.approx(9.4e-3, rel=0.35)


def test_narrowed_curves_are_as_slow_as_whole_ones() -> None:
    borrower = curves("A10G", "int4")
    n, k = np.array([4096.0]), np.array([4096.0])
    narrow = narrowed(borrower, gemm_coordinates(1.0, n, k), ("log2 n", "log2 k"))
    risen = rising(narrow, lambda at: gemm_roofline_s(narrow, at[0], n, k))
    assert not risen.lost_ratio.any()
    for m in (1.0, 32.0, 1024.0):
        assert gemm_s(risen, m, n, k)[0] == pytest.approx(gemm_s(borrower, m, n, k)[0], rel=0.05)
