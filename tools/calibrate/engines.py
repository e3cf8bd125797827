"""Fits the step constants of each engine era to measured serving, and learns ranges from what was left out.

`python tools/calibrate engines --measurements measurements` writes `data/calibration/engines.toml` and
`left_out.toml`. `--leave-out model|gpu|source` refits without each group in turn and reports the errors on it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from gpufleet.catalog.engine_eras import version_key
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.engine import EngineProfile
from tools.calibrate.serving_rows import Point, PointBatch, batches, read_points, with_constants

DATA = Path(__file__).resolve().parents[2] / "src" / "gpufleet" / "data" / "calibration"
FILES = ("serving_points.csv", "inference_throughput.csv")
QUANTITIES = ("tpot", "ttft", "rate", "latency")
WEIGHTS = {"tpot": 1.0, "ttft": 0.35, "rate": 1.0, "latency": 1.0}
LOSS_SCALE = 0.15


@dataclass(frozen=True)
class Constant:
    """A step constant: unit, prior, how far a fit may pull it from there, and hard bounds."""

    name: str
    unit: str
    prior: float
    spread: float
    low: float
    high: float


CONSTANTS = (
    Constant("decode_scale_ratio", "ratio", 1.05, 0.15, 0.7, 2.0),
    Constant("step_overhead_s", "s", 0.5e-3, 1.5e-3, 0.0, 20e-3),
    Constant("layer_overhead_s", "s", 10e-6, 40e-6, -60e-6, 1e-3),
    Constant("prefill_mixing_ratio", "ratio", 1.05, 0.15, 0.3, 2.0),
    Constant("prefill_scale_ratio", "ratio", 1.15, 0.25, 0.5, 3.0),
    Constant("request_overhead_s", "s", 10e-3, 20e-3, 0.0, 0.3),
    Constant("token_overhead_s", "s", 5e-6, 5e-6, 0.0, 5e-5),
    Constant("first_flush_ratio", "ratio", 0.7, 0.3, 0.0, 1.2),
)


@dataclass(frozen=True)
class Era:
    """Versions of an engine below `until` that share constants."""

    engine: str
    name: str
    until: str | None
    grade: str = "measured"

    def holds(self, point: Point) -> bool:
        """Whether a point ran in this era or an older one."""
        if point.engine != self.engine:
            return False
        return self.until is None or (point.version is not None and version_key(point.version) < version_key(self.until))


ERAS = (
    Era("vllm", "V0, before 0.8", "0.8"),
    Era("vllm", "V1, 0.8 and later", None),
    Era("sglang", "0.5", None),
    Era("tensorrt-llm", "static batches, before 0.10", "0.10"),
    Era("tensorrt-llm", "C++ runtime, before 1.0", "1.0"),
    Era("tensorrt-llm", "PyTorch runtime, 1.0 and later", None),
    Era("gpt-fast", "2023-2024", None),
    Era("fastertransformer", "5", None),
    Era("transformers", "4", None),
    Era("llama.cpp", "2023-2024", None),
)


def era_name(point: Point) -> Era:
    """The era of a point: the oldest whose bound its version stays below."""
    return next(era for era in ERAS if era.holds(point))


def fit(data: Sequence[PointBatch], start: dict[str, float] | None = None) -> dict[str, float]:
    """Constants that bring predictions nearest to the measurements: robust least squares with a weak prior."""
    engine = data[0].model.candidates.palette.engines[0] if data else None
    prior = np.array([c.prior for c in CONSTANTS])
    spread = np.array([c.spread for c in CONSTANTS])
    if engine is None:
        return {c.name: c.prior for c in CONSTANTS}

    def residuals(scaled: FloatArray) -> FloatArray:
        values = dict(zip((c.name for c in CONSTANTS), prior + scaled * spread, strict=True))
        return np.concatenate([*weighted(data, with_constants(engine, values)), scaled * 0.3])

    low = (np.array([c.low for c in CONSTANTS]) - prior) / spread
    high = (np.array([c.high for c in CONSTANTS]) - prior) / spread
    found = least_squares(residuals, np.zeros(len(CONSTANTS)), bounds=(low, high), loss="soft_l1", f_scale=0.5)
    return {c.name: float(v) for c, v in zip(CONSTANTS, prior + found.x * spread, strict=True)}


def weighted(data: Sequence[PointBatch], engine: EngineProfile) -> list[FloatArray]:
    """Log ratios in units of their scale, each group of (model, GPU, precision) counting by the root of its size."""
    parts = []
    for batch in data:
        sizes = group_sizes(batch.points)
        for quantity in QUANTITIES:
            ratios = batch.log_ratios(engine, quantity)
            use = np.isfinite(ratios)
            parts.append(WEIGHTS[quantity] * ratios[use] / LOSS_SCALE / sizes[use] ** 0.25)
    return parts


def group_sizes(points: Sequence[Point]) -> FloatArray:
    """How many points share each point's group."""
    keys = [(p.model_id, p.gpu, p.precision) for p in points]
    return np.array([keys.count(key) for key in keys], dtype=np.float64)


@dataclass(frozen=True)
class Residual:
    """ln(measured / predicted) of one quantity of one point that the fit had not seen."""

    era: Era
    quantity: str
    point: Point
    log_ratio: float


def left_out_residuals(data: Sequence[PointBatch], era: Era, key: Callable[[Point], str]) -> list[Residual]:
    """Refit without each group in turn and predict it."""
    found = []
    for group in sorted({key(p) for b in data for p in b.points}):
        kept = batches([p for b in data for p in b.points if key(p) != group])
        held = batches([p for b in data for p in b.points if key(p) == group])
        constants = fit(kept)
        found += residuals_of(held, constants, era)
    return found


def residuals_of(data: Sequence[PointBatch], constants: dict[str, float], era: Era) -> list[Residual]:
    """Residuals of every measured quantity under these constants."""
    found = []
    for batch in data:
        engine = with_constants(batch.model.candidates.palette.engines[0], constants)
        for quantity in QUANTITIES:
            for point, ratio in zip(batch.points, batch.log_ratios(engine, quantity), strict=True):
                if np.isfinite(ratio):
                    found.append(Residual(era, quantity, point, float(ratio)))
    return found


def error_percent(residuals: Iterable[Residual]) -> FloatArray:
    """|predicted / measured - 1| in percent."""
    return np.abs(np.exp([-r.log_ratio for r in residuals]) - 1) * 100


def by_era(points: Sequence[Point]) -> dict[Era, list[PointBatch]]:
    """Batches of each era."""
    grouped: dict[Era, list[Point]] = defaultdict(list)
    for p in points:
        grouped[era_name(p)].append(p)
    return {era: batches(group) for era, group in grouped.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measurements", type=Path, required=True)
    parser.add_argument("--leave-out", choices=["model", "gpu", "source"], default="model")


def run(arguments: argparse.Namespace) -> None:
    points = read_points([arguments.measurements / name for name in FILES])
    keys = {"model": lambda p: p.model_id, "gpu": lambda p: p.gpu, "source": lambda p: p.source}
    for era, data in by_era(points).items():
        constants = fit(data)
        print(era.engine, era.name, {k: float(f"{v:.3g}") for k, v in constants.items()})
        inside, outside = residuals_of(data, constants, era), left_out_residuals(data, era, keys[arguments.leave_out])
        for quantity in QUANTITIES:
            seen = [r for r in inside if r.quantity == quantity]
            unseen = [r for r in outside if r.quantity == quantity]
            if seen:
                a, b = error_percent(seen), error_percent(unseen)
                logs = np.quantile([r.log_ratio for r in unseen], [0.1, 0.5, 0.9])
                print(f"   {quantity:8} n={len(seen):4} in {np.median(a):5.1f}/{a.mean():5.1f}  out {np.median(b):5.1f}/{b.mean():5.1f}  p10/50/90 {logs.round(2)}")
