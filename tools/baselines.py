"""Simpler models of the same runs: the product's equations with terms of the model taken away.

A baseline changes what the equations receive, never the equations: curves become flat, engine constants neutral.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import fmean, median
from unittest.mock import patch

import numpy as np

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_file
from gpufleet.accuracy.statistics import is_predicted, log_ratio
from gpufleet.api import estimates
from gpufleet.catalog.calibration import OPERATORS
from gpufleet.catalog.engine_eras import load_eras
from gpufleet.domain.calibration import Calibration, Formulas, Grids, OperatorTables, StreamFormula
from gpufleet.domain.engine import EngineProfile
from gpufleet.inputs.measurements import MeasurementFile
from gpufleet.optimize.estimate import EstimateQuestion, solve_estimate
from gpufleet.provenance import Sourced
from gpufleet.results.accuracy import ScoredFigure

COMPUTE_RATIOS = (0.3, 0.4, 0.5, 0.6, 0.7)
BANDWIDTH_RATIOS = (0.4, 0.5, 0.6, 0.7, 0.8)
EVERY_NTH_ROW = 16
QUANTITIES = ("tpot", "ttft", "out_tokens_per_s")
NEUTRAL_FACTORS = ("_scale_ratio", "_mixing_ratio")
RANGE_UNITS = ("ln", "sequences", "GPUs", "tokens")


@dataclass(frozen=True)
class Efficiency:
    """Shares of the arithmetic peak, and of memory and link bandwidth, that every kernel reaches; no launch time."""

    compute_ratio: float
    bandwidth_ratio: float


ROOFLINE = Efficiency(1.0, 1.0)


@dataclass(frozen=True)
class Baseline:
    """A model with less in it. `efficiency` stands for kernel curves; None keeps the curves."""

    name: str
    what: str
    efficiency: Efficiency | None
    keeps_engine: bool = False


def ladder(efficiency: Efficiency) -> list[Baseline]:
    """From the bare roofline to the whole model, one term more at each step."""
    shares = f"{efficiency.compute_ratio:.0%} of the peak, {efficiency.bandwidth_ratio:.0%} of the bandwidth"
    return [
        Baseline("roofline", "every kernel at its roofline, no launch time, no engine", ROOFLINE),
        Baseline("constant efficiency", f"every kernel at {shares}, no engine", efficiency),
        Baseline("kernel curves", "measured kernels, no engine", None),
        Baseline("gpufleet", "measured kernels and the constants of the engine", None, keeps_engine=True),
    ]


@contextmanager
def predicting_with(baseline: Baseline) -> Iterator[None]:
    """Estimates are those of a baseline within this block."""

    def solve(question: EstimateQuestion, calibration: Calibration) -> object:
        return solve_estimate(without_engine(baseline, question), at_efficiency(calibration, baseline.efficiency))

    with patch.object(estimates, "solve_estimate", solve):
        yield


@lru_cache(maxsize=128)
def at_efficiency(calibration: Calibration, efficiency: Efficiency | None) -> Calibration:
    """A calibration whose curves are all flat: seconds = max(flop / (c peak), bytes / (b bandwidth))."""
    if efficiency is None:
        return calibration
    flat = {name: flat_tables(calibration.tables[name], efficiency.compute_ratio) for name in OPERATORS}
    links = calibration.collective_tables
    return replace(
        calibration,
        bandwidth_bytes_per_s=calibration.bandwidth_bytes_per_s * efficiency.bandwidth_ratio,
        tables=ChainMap(flat, calibration.tables),
        collective_tables=replace(links, grids=flat_grids(links.grids, -math.log(efficiency.bandwidth_ratio))),
        formulas=streaming_at(calibration.formulas, efficiency.bandwidth_ratio),
    )


def streaming_at(formulas: Formulas, bandwidth_ratio: float) -> Formulas:
    """Kernels that only stream memory have no launch time and the baseline's share of the bandwidth."""
    source = "the baseline"
    stream = StreamFormula(Sourced(0.0, "s", source), Sourced(bandwidth_ratio, "ratio", source))
    return replace(formulas, streams=stream)


def flat_tables(tables: OperatorTables, compute_ratio: float) -> OperatorTables:
    """The same tables at one share of the peak."""
    return replace(
        tables,
        grids=flat_grids(tables.grids, 0.0),
        peak_flop_per_s=tables.peak_flop_per_s * compute_ratio,
        log_slowdown=np.zeros_like(tables.log_slowdown),
    )


def flat_grids(grids: Grids, log_value: float) -> Grids:
    """Grids of one value and without launch time."""
    return replace(grids, values=np.full_like(grids.values, log_value), fixed_s=0.0)


def without_engine(baseline: Baseline, question: EstimateQuestion) -> EstimateQuestion:
    """The same question to an engine that adds nothing to its kernels."""
    if baseline.keeps_engine:
        return question
    candidates = question.candidates
    engines = tuple(map(neutral, candidates.palette.engines))
    return replace(question, candidates=replace(candidates, palette=replace(candidates.palette, engines=engines)))


def neutral(engine: EngineProfile) -> EngineProfile:
    """An engine whose fitted factors are 1 and whose fitted times, steps and shares are 0; ranges stay."""
    fitted = {name for eras in load_eras().values() for era in eras for name in era.constants}
    constants = {
        name: neutral_constant(name, constant) if name in fitted else constant
        for name, constant in engine.constants.items()
    }
    return replace(engine, constants=constants)


def neutral_constant(name: str, constant: Sourced) -> Sourced:
    """1 for a factor, 0 for what is added; what a range is made of as it is."""
    if constant.unit in RANGE_UNITS:
        return constant
    return replace(constant, value=1.0 if name.endswith(NEUTRAL_FACTORS) else 0.0, low=None, high=None)


def scored_figures(files: Sequence[MeasurementFile], models: Path | None, baseline: Baseline) -> list[ScoredFigure]:
    """Every compared time per token, time to first token and output rate of the files under a baseline."""
    finder = ModelFinder(models)
    with predicting_with(baseline):
        found = [figure for file in files for figure in score_file(file, finder).figures]
    return [figure for figure in found if figure.quantity in QUANTITIES and is_predicted(figure)]


def best_constant_efficiency(files: Sequence[MeasurementFile], models: Path | None) -> Efficiency:
    """The pair of shares that comes nearest to every sixteenth row, of all pairs in steps of a tenth.

    Nearest: the least mean over time per token, time to first token and tokens/s of the median |ln ratio|. Fitted to
    the rows that it is scored on, which is kind to this baseline.
    """
    sample = [replace(file, rows=file.rows[::EVERY_NTH_ROW]) for file in files]
    pairs = [Efficiency(*pair) for pair in product(COMPUTE_RATIOS, BANDWIDTH_RATIOS)]
    return min(pairs, key=lambda pair: distance(scored_figures(sample, models, Baseline("", "", pair))))


def distance(figures: Sequence[ScoredFigure]) -> float:
    """Mean over quantities of the median |ln(predicted / measured)|; inf without a figure."""
    errors: dict[str, list[float]] = {}
    for figure in figures:
        errors.setdefault(figure.quantity, []).append(abs(log_ratio(figure.measured or 1.0, figure.predicted or 1.0)))
    return fmean(map(median, errors.values())) if errors else math.inf
