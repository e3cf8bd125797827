"""Simpler models of the same runs: the product's equations with terms of the model taken away.

A baseline changes what the equations receive, never the equations: curves become flat, engine constants neutral. Of
training the baselines are what people do on paper: one MFU for all runs, or for all of a GPU and its recomputation.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import fmean, median
from unittest.mock import patch

import numpy as np

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_file, score_row
from gpufleet.accuracy.statistics import is_predicted, log_ratio
from gpufleet.accuracy.training_rows import run_of
from gpufleet.accuracy.training_throughput import estimate_of, score_training_throughput
from gpufleet.api import estimates
from gpufleet.catalog.calibration import OPERATORS
from gpufleet.catalog.engine_eras import load_eras
from gpufleet.domain.calibration import Calibration, Formulas, Grids, OperatorTables, StreamFormula
from gpufleet.domain.engine import EngineProfile
from gpufleet.inputs.measurements import MeasurementFile, MeasurementRow
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
    return replace(formulas, streams=stream, scale_search=stream, split_sums=stream)


def flat_tables(tables: OperatorTables, compute_ratio: float) -> OperatorTables:
    """The same tables at one share of the peak."""
    return replace(
        tables,
        grids=flat_grids(tables.grids, 0.0),
        peak_flop_per_s=tables.peak_flop_per_s * compute_ratio,
        log_slowdown=np.zeros_like(tables.log_slowdown),
        lost_ratio=np.zeros_like(tables.lost_ratio),
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


@dataclass(frozen=True)
class TrainingRow:
    """A measured training run: where it is from, what its baselines know, and the MFU of one token/s on its GPU."""

    figure: ScoredFigure
    gpu: str
    recompute: str
    mfu_per_token_per_s: float

    @property
    def source(self) -> str:
        """Where it was published."""
        return self.figure.source

    @property
    def mfu(self) -> float:
        """Share of the dense 16-bit peak that the model's own operations took."""
        return (self.figure.measured or 0.0) * self.mfu_per_token_per_s

    def at(self, mfu: float) -> ScoredFigure:
        """The run as predicted at this MFU."""
        return self.figure.model_copy(update={"predicted": mfu / self.mfu_per_token_per_s, "low": None, "high": None})


@dataclass(frozen=True)
class MfuBaseline:
    """A model that says one MFU for all runs of a kind: the median of the measured ones."""

    name: str
    what: str
    kind_of: Callable[[TrainingRow], tuple[str, ...]]

    def figures(self, rows: Sequence[TrainingRow], *, unseen: bool) -> list[ScoredFigure]:
        """Predictions of all rows; `unseen`: from other sources alone. A kind that nobody else ran has that of all."""
        return [row.at(self.mfu_for(row, rows, unseen=unseen)) for row in rows]

    def mfu_for(self, row: TrainingRow, rows: Sequence[TrainingRow], *, unseen: bool) -> float:
        """The median MFU of the rows that stand for this one."""
        known = [each for each in rows if not unseen or each.source != row.source] or list(rows)
        alike = [each.mfu for each in known if self.kind_of(each) == self.kind_of(row)]
        return median(alike or [each.mfu for each in known])


MFU_BASELINES = (
    MfuBaseline("constant MFU", "the median MFU of all runs", lambda row: ()),
    MfuBaseline(
        "MFU of GPU and recompute",
        "the median MFU of runs on the same GPU with the same recomputation",
        lambda row: (row.gpu, row.recompute),
    ),
)


def training_rows(files: Sequence[MeasurementFile], models: Path | None) -> list[TrainingRow]:
    """Every compared run of files of training throughput."""
    finder = ModelFinder(models)
    found = (training_row(row, file, finder) for file in files for row in file.rows)
    return [row for row in found if row is not None]


def training_row(row: MeasurementRow, file: MeasurementFile, finder: ModelFinder) -> TrainingRow | None:
    """A run with its MFU; None for one that is not compared."""
    (figure, *_) = score_row(score_training_throughput, row, file.path, finder).figures or [None]
    if figure is None or not is_predicted(figure):
        return None
    found = estimate_of(run_of(row, finder))
    share = found.speed.mfu_ratio / found.speed.tokens_per_s_per_gpu.value
    return TrainingRow(figure, found.gpu, found.layout.recompute, share)
