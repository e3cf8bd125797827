"""How far a prediction may be off: log-normal factors learnt from what the fit had not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpufleet.domain.architecture import Architecture, LatentAttention
from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.calibration import AttentionCurves, Curves
from gpufleet.domain.layout import Layout
from gpufleet.domain.mixers import CompressedAttention
from gpufleet.domain.precision import WeightFormat
from gpufleet.memory.weights import weights_read_bytes_per_device
from gpufleet.performance.recurrence import FORMULA_LOG_HIGH, FORMULA_LOG_LOW, is_timed_by_formula
from gpufleet.performance.step import StepModel
from gpufleet.provenance import Grade

LOADS = ("few", "many", "dp")
MANY_SEQUENCES = 40.0
MOST_MEASURED_SEQUENCES = 512.0
MOST_MEASURED_DEVICES = 8.0
LOG_PER_DOUBLING = 0.1


@dataclass(frozen=True)
class Bounds:
    """Factors that turn an expected value into its 10th and 90th percentile, per candidate."""

    low_ratio: FloatArray
    high_ratio: FloatArray

    def around(self, expected: Floats) -> tuple[FloatArray, FloatArray]:
        """The 10th and 90th percentile of a quantity of this kind."""
        return np.asarray(expected * self.low_ratio), np.asarray(expected * self.high_ratio)

    def stopping_at(self, expected: Floats, least: float) -> Bounds:
        """The same bounds, the low end of `expected` no lower than what physics allows (or than expected itself)."""
        stop = np.minimum(least / np.asarray(expected, dtype=np.float64), 1.0)
        return replace(self, low_ratio=np.maximum(self.low_ratio, stop))


def fastest_token_s(arch: Architecture, weights: WeightFormat, layout: Layout, bandwidth_bytes_per_s: float) -> float:
    """Seconds that no decode step beats: the weights that one token needs, read once at full bandwidth.

    pp x bytes / bandwidth   [s]   The low end of a range stops here.
    """
    read_bytes = weights_read_bytes_per_device(arch, weights, layout, 1.0 / layout.attention_dp)
    return layout.pp * read_bytes / bandwidth_bytes_per_s


def time_bounds(model: StepModel, batch: FloatArray) -> dict[str, Bounds]:
    """Bounds of `tpot` and `ttft` at `batch` sequences: left-out residuals, widened where kernels were not measured.

    ln factor = +- sqrt(engine^2 + kernels^2 + distance^2), around the expected value   [1]
    engine: p10 and p90 of ln(measured / predicted) on models left out of the fit, for TTFT by load; kernels: the same
    of curves lent by another accelerator, 0 where they were measured on this one; distance: `beyond_measured_log`.
    """
    lent_low, lent_high = _borrowed_log_ratios(model)
    c = model.candidates
    beyond = beyond_measured_log(batch / c.attention_dp, c.num_devices)
    bounds = {}
    for quantity in ("tpot", "ttft"):
        low, high = _engine_log_ratios(model, quantity, batch)
        bounds[quantity] = Bounds(
            low_ratio=np.exp(-np.sqrt(np.minimum(low, 0.0) ** 2 + lent_low**2 + beyond**2)),
            high_ratio=np.exp(np.sqrt(np.maximum(high, 0.0) ** 2 + lent_high**2 + beyond**2)),
        )
    return bounds


def load_of(batch: Floats, attention_dp: IntArray) -> IntArray:
    """Which of LOADS a batch is: few sequences, many, or spread over groups of attention-DP.

    >>> [LOADS[i] for i in load_of(np.array([8, 256, 256]), np.array([1, 1, 8]))]
    ['few', 'many', 'dp']
    """
    return np.where(attention_dp > 1, 2, np.asarray(batch) >= MANY_SEQUENCES).astype(np.int64)


def beyond_measured_log(batch: Floats, num_devices: Floats | IntArray) -> FloatArray:
    """ln by which a range grows beyond what was measured: 0.1 for each doubling over 512 sequences, and over 8 GPUs.

    A judgement: nothing says how errors grow there.

    >>> round(float(beyond_measured_log(2048.0, 16)), 3)
    0.3
    """
    doublings = np.maximum(np.log2(np.maximum(batch, 1.0) / MOST_MEASURED_SEQUENCES), 0.0)
    return np.asarray(LOG_PER_DOUBLING * (doublings + np.maximum(np.log2(num_devices / MOST_MEASURED_DEVICES), 0.0)))


def _engine_log_ratios(model: StepModel, quantity: str, batch: FloatArray) -> tuple[FloatArray, FloatArray]:
    c = model.candidates
    if quantity != "ttft":
        return c.engine_constant(f"{quantity}_log_low"), c.engine_constant(f"{quantity}_log_high")
    load = load_of(batch, c.attention_dp)
    low, high = (
        np.choose(load, [c.engine_constant(f"ttft_{name}_log_{end}") for name in LOADS]) for end in ("low", "high")
    )
    return low, high


def _borrowed_log_ratios(model: StepModel) -> tuple[FloatArray, FloatArray]:
    """The widest ln ratios of the curves that carry a decode step; 0 where all were measured on the device."""
    low, high = np.zeros(len(model.candidates)), np.zeros(len(model.candidates))
    for curves in weighty_curves(model):
        borrowed = curves.grade > Grade.MEASURED
        low = np.maximum(low, np.where(borrowed, -np.log(curves.low_ratio), 0.0))
        high = np.maximum(high, np.where(borrowed, np.log(curves.high_ratio), 0.0))
    if model.arch.is_assumed or is_timed_by_formula(model.arch):
        low, high = np.maximum(low, -FORMULA_LOG_LOW), np.maximum(high, FORMULA_LOG_HIGH)
    return low, high


def grades(model: StepModel) -> IntArray:
    """The worst grade among the curves that carry a step, and the engine's own."""
    worst = np.array([Grade[engine.grade.upper().replace(" ", "_")] for engine in model.candidates.palette.engines])
    grade: IntArray = worst[model.candidates.engine].astype(np.int64)
    for curves in weighty_curves(model):
        grade = np.maximum(grade, curves.grade)
    if is_timed_by_formula(model.arch):
        grade = np.maximum(grade, int(Grade.ROOFLINE))
    elif model.arch.is_assumed:
        grade = np.maximum(grade, int(Grade.TRANSFERRED))
    tp_grade = np.where(model.candidates.num_devices > 1, model.hardware.collectives.grade, 0)
    return np.maximum(grade, tp_grade)


def weighty_curves(model: StepModel) -> list[Curves]:
    """Curves of the operators that a step of this architecture spends its time in."""
    hw, arch = model.hardware, model.arch
    products: list[Curves] = [hw.attention_gemm, hw.experts if arch.is_moe else hw.mlp_gemm]
    return [*products, _attention(hw.attention, hw.latent_attention.decode, arch)]


def _attention(plain: AttentionCurves, latent: Curves, arch: Architecture) -> Curves:
    is_latent = any(isinstance(block.mixer, (LatentAttention, CompressedAttention)) for block in arch.blocks)
    return latent if is_latent else plain.decode
