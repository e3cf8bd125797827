"""Turns measured rows into grids: the fastest kernels of all engines, and each engine's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tools.calibrate import kernel_tables
from tools.calibrate.grid_fit import SlopeLimits, fit_grid, grid_values
from tools.calibrate.kernel_tables import ENGINES
from tools.calibrate.locations import PCIE_BYTES_PER_S, Floats, expert_arithmetic, locate_decode, locate_window
from tools.calibrate.operators import DECODE, OPERATORS, WINDOW, Operator

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import EVERY_ENGINE, NCCL, Axis
from gpufleet.domain.precision import PRECISIONS
from gpufleet.units import MIB, MICROSECOND

ABOVE_CEILING = 1.02
SLOW_PATH_SHARE = 0.3
SLOW_PATH_LAG = np.log(2)
LEAST_LAG = 0.1
LARGE_ROOFLINE_S = 300 * MICROSECOND
HELD_BACK_SHARE = 0.2
SEED = 20
FEWEST_ROWS = 40
FEWEST_SHARED = 0.02
CACHES = 4
CLEARLY = 4
FEWEST_OF_ENGINE = 150
LARGEST_CUSTOM_BYTES = 8 * MIB
USUAL_SHARE = 0.85


@dataclass(frozen=True)
class Sample:
    """Points of one table: ln(measured / (roofline + fixed)) and where they stand."""

    target: Floats
    coordinates: tuple[Floats, ...]
    dropped: int

    def part(self, chosen: NDArray[np.bool_]) -> Sample:
        return Sample(self.target[chosen], tuple(c[chosen] for c in self.coordinates), self.dropped)

    def minus(self, axes: tuple[Axis, ...], knots: Floats) -> Floats:
        """What a grid leaves unexplained."""
        return self.target - grid_values(axes, knots, self.coordinates)


@dataclass(frozen=True)
class Fit:
    """One table, its errors on shapes that it had not seen, and where it comes from."""

    operator: str
    knots: Floats
    points: int
    dropped: int
    residual_median: float
    held_back_median: float
    held_back_mean: float
    held_back_p90: float
    low_ratio: float
    high_ratio: float
    sample: Sample
    accelerator: str = ""
    key: str = ""
    engine: str = EVERY_ENGINE
    arithmetic: str | None = None
    engines: str = ""

    def error_of(self, knots: Floats) -> float:
        """Median error of another grid on these points."""
        axes = {operator.name: operator.axes for operator in (*OPERATORS, WINDOW)}[self.operator]
        return float(np.median(np.abs(np.expm1(-self.sample.minus(axes, knots)))))


def fits_of(operator: Operator, gpu: Path, accelerator: Accelerator, by_engine: bool = True) -> Iterator[Fit]:
    """Per precision that was measured on this GPU the fastest kernels of all engines, then each engine's own."""
    rows = operator.read(gpu)
    if rows.empty:
        return
    for precision, measured in rows.groupby("precision", sort=True):
        if not accelerator.computes(
            PRECISIONS[str(precision)].arithmetic if operator.name != "collectives" else "bf16"
        ):
            continue
        usable = without_slow_engines(operator, measured, accelerator, str(precision))
        if len(usable) >= FEWEST_ROWS:
            whole = fit_one(operator, usable, accelerator, str(precision))
            yield whole
            if by_engine and operator.tables_per_engine and precision not in operator.tuned_formats:
                yield from engine_fits(operator, usable, accelerator, whole)
            if by_engine and operator.name == "experts":
                yield from general_fits(operator, gpu, accelerator, whole)


def engine_fits(operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, whole: Fit) -> Iterator[Fit]:
    """The tables of engines whose kernels differ from the fastest, each as a difference from the table of all."""
    if operator.name == "collectives" and accelerator.name in PCIE_BYTES_PER_S:
        return  # engines were measured on different hosts
    for name, engine in ENGINES.items():
        if operator.name == "collectives":
            yield collective_of_engine(operator, rows, accelerator, whole, name)
        elif is_worth_a_table(operator, rows, name):
            own = rows[rows.engine == name]
            yield replace(fit_one(operator, own, accelerator, whole.key, whole.knots), engine=engine)
    if operator.name == "collectives":
        yield collective_of_engine(operator, rows, accelerator, whole, NCCL)


def general_fits(operator: Operator, gpu: Path, accelerator: Accelerator, whole: Fit) -> Iterator[Fit]:
    """The tables of experts where an engine takes no kernels made for the GPU, on GPUs that have such kernels."""
    if gpu.name not in kernel_tables.SUPERSEDED_ON:
        return
    rows = kernel_tables.general_expert_rows(gpu)
    for name, engine in ENGINES.items():
        own = rows[(rows.engine == name) & (rows.precision == whole.key)]
        if len(own) >= FEWEST_OF_ENGINE:
            yield replace(fit_one(operator, own, accelerator, whole.key, whole.knots), engine=f"{engine} general")


def collective_of_engine(
    operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, whole: Fit, name: str
) -> Fit:
    """An engine's all-reduce is its own kernel, NCCL's for large tensors; the other collectives are NCCL's."""
    engine = ENGINES.get(name, name)
    if whole.key != "all_reduce":
        return replace(whole, engine=engine)
    is_large = rows.size_bytes > LARGEST_CUSTOM_BYTES
    own = rows[(rows.engine == name) | ((rows.engine == NCCL) & is_large)]
    return replace(fit_one(operator, own, accelerator, whole.key, whole.knots), engine=engine)


def is_worth_a_table(operator: Operator, rows: pd.DataFrame, name: str) -> bool:
    """Whether an engine, one of several, measured enough, differs, and is not on a slow path that nobody serves."""
    best = rows.groupby(list(operator.shape)).latency_s.min()
    own = rows[rows.engine == name].groupby(list(operator.shape)).latency_s.min()
    lag = np.log(own / best).dropna()
    if rows.engine.nunique() < 2 or len(own) < FEWEST_OF_ENGINE:
        return False
    is_served = operator.slow_engines_are_served or lag.median() < SLOW_PATH_LAG
    return bool(lag.quantile(0.97) > LEAST_LAG and is_served)


def without_slow_engines(
    operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, precision: str
) -> pd.DataFrame:
    """Rows of engines whose large shapes reach a sane share of the roofline: neither a slow path nor impossible."""
    if not operator.drops_slow_engines:
        return rows
    share = operator.locate(rows, accelerator, precision).roofline_s / rows.latency_s
    large = share[share * rows.latency_s > LARGE_ROOFLINE_S]
    shares = large.groupby(rows.engine)
    slow, impossible = shares.median() < SLOW_PATH_SHARE, shares.quantile(0.95) > ABOVE_CEILING
    rejected = slow | (impossible & (~impossible).any())
    return rows[~rows.engine.isin(rejected[rejected].index)]


def sample_of(operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, precision: str) -> Sample:
    """Best kernel per shape as it runs from memory, without rows above the physical ceiling."""
    best = best_per_shape(operator, rows)
    place = operator.locate(best, accelerator, precision)
    latency_s = best.latency_s.to_numpy()
    if operator.streams_memory:
        latency_s = cold_latency_s(operator, best, accelerator, precision)
    real = place.roofline_s <= ABOVE_CEILING * latency_s
    target = np.log(latency_s / (place.roofline_s + operator.fixed_s))
    return Sample(target, place.coordinates, int((~real).sum())).part(real)


def cold_latency_s(operator: Operator, best: pd.DataFrame, accelerator: Accelerator, precision: str) -> Floats:
    """Latencies without the help of the L2 cache, which repeated runs enjoy and layers of a model do not.

    A shape that moves less than four caches takes no less than its bytes at the share of bandwidth that shapes of
    more than four caches reach.
    """
    latency_s = best.latency_s.to_numpy()
    endless = replace(accelerator, peak_flop_per_s=dict.fromkeys(accelerator.peak_flop_per_s, np.inf))
    memory_s = operator.locate(best, endless, precision).roofline_s
    instant = replace(accelerator, bandwidth_bytes_per_s=np.inf)
    bound = memory_s > CLEARLY * operator.locate(best, instant, precision).roofline_s
    large = memory_s * accelerator.bandwidth_bytes_per_s > CACHES * (accelerator.l2_bytes or 0.0)
    shares = (memory_s / latency_s)[bound & large]
    share = min(float(np.median(shares)), 1.0) if len(shares) >= FEWEST_ROWS else USUAL_SHARE
    return np.where(large, latency_s, np.maximum(latency_s, memory_s / share))


def fit_one(
    operator: Operator, rows: pd.DataFrame, accelerator: Accelerator, precision: str, around: Floats | None = None
) -> Fit:
    """The grid of all shapes of these rows."""
    sample = sample_of(operator, rows, accelerator, precision)
    fit = fit_sample(operator, sample, operator.slope_limits(accelerator, precision), around)
    return replace(
        fit,
        accelerator=accelerator.name,
        key=precision,
        arithmetic=own_arithmetic(operator, accelerator, precision),
        engines=versions_of(rows),
    )


def versions_of(rows: pd.DataFrame) -> str:
    """Engines and versions that were measured."""
    return ", ".join(sorted(set(rows.engine + " " + rows.version)))


def fit_sample(operator: Operator, sample: Sample, limits: Sequence[SlopeLimits], around: Floats | None = None) -> Fit:
    """A grid of all points, with the errors of a grid that saw 80 % of them on the other 20 %."""
    held_back = np.random.default_rng(SEED).random(len(sample.target)) < HELD_BACK_SHARE
    seen = sample.part(~held_back)
    unseen = sample.part(held_back).minus(
        operator.axes, fit_grid(operator.axes, seen.coordinates, seen.target, limits, around)
    )
    knots = fit_grid(operator.axes, sample.coordinates, sample.target, limits, around)
    error = np.abs(np.expm1(-unseen))
    return Fit(
        operator=operator.name,
        knots=knots,
        points=len(sample.target),
        dropped=sample.dropped,
        residual_median=float(np.median(np.abs(np.expm1(-sample.minus(operator.axes, knots))))),
        held_back_median=float(np.median(error)),
        held_back_mean=float(error.mean()),
        held_back_p90=float(np.quantile(error, 0.9)),
        low_ratio=float(np.exp(np.quantile(unseen, 0.1))),
        high_ratio=float(np.exp(np.quantile(unseen, 0.9))),
        sample=sample,
    )


def own_arithmetic(operator: Operator, accelerator: Accelerator, precision: str) -> str | None:
    """The arithmetic of a table where it is not that of the precision it is used for."""
    if operator.name == "latent_absorb":
        return "bf16"
    return expert_arithmetic(accelerator, precision) if operator.name == "experts" else None


def best_per_shape(operator: Operator, rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest kernel of each shape; where not every engine measured it, less the usual lag of those that did."""
    shape = list(operator.shape)
    by_engine = rows.groupby([*shape, "engine"]).latency_s.min().unstack("engine")
    by_engine = by_engine.loc[:, by_engine.notna().mean() > FEWEST_SHARED]
    best = by_engine.min(axis=1)
    complete = by_engine.notna().all(axis=1)
    if not operator.engines_cover_alike and by_engine.shape[1] > 1 and complete.mean() > FEWEST_SHARED:
        lag = np.log(by_engine[complete].div(best[complete], axis=0)).median()
        by_engine = by_engine.loc[:, lag < SLOW_PATH_LAG]
        least_lag = by_engine.notna().mul(lag[lag < SLOW_PATH_LAG]).where(by_engine.notna()).min(axis=1)
        best = by_engine.min(axis=1) * np.exp(-least_lag.where(~complete, 0.0))
    return best.dropna().rename("latency_s").reset_index()


def window_fits(decode: Sequence[Fit], gpu: Path, accelerator: Accelerator) -> Iterator[Fit]:
    """What a sliding window costs beyond attention over as many tokens: engines skip what lies before it, at a price.

    Measured over the seconds that the decode curve gives for the window's tokens.
    """
    rows = kernel_tables.windowed_rows(gpu)
    names = {engine: name for name, engine in ENGINES.items()}
    for fit in decode:
        own = rows[rows.precision == fit.key]
        own = own if fit.engine == EVERY_ENGINE else own[own.engine == names[fit.engine]]
        if len(own) >= FEWEST_ROWS:
            sample = window_sample(own, fit, accelerator)
            limits = WINDOW.slope_limits(accelerator, fit.key)
            same = {"accelerator": fit.accelerator, "key": fit.key, "engine": fit.engine}
            yield replace(fit_sample(WINDOW, sample, limits), engines=versions_of(own), **same)


def window_sample(rows: pd.DataFrame, decode: Fit, accelerator: Accelerator) -> Sample:
    """ln(measured / decode curve) of the fastest kernel of each shape."""
    best = rows.groupby(list(WINDOW.shape), as_index=False).latency_s.min()
    seen = locate_decode(best.assign(isl=best.window_size, step=0), accelerator, decode.key)
    curve = np.exp(grid_values(DECODE.axes, decode.knots, seen.coordinates)) * (seen.roofline_s + DECODE.fixed_s)
    whole_s = np.maximum(curve, seen.roofline_s)
    return Sample(
        np.log(best.latency_s.to_numpy() / whole_s), locate_window(best, accelerator, decode.key).coordinates, 0
    )
