"""From runs beside their predictions to the factors of their stack."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeAlias

from gpufleet.accuracy.own_stack.shape import FarRun, StackCalibration, StackFactor
from gpufleet.accuracy.own_stack.training import TRAINING, trained_stack
from gpufleet.accuracy.score import NOTHING, score_files
from gpufleet.api.envelope import in_full
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_stacks import load_spreads
from gpufleet.domain.own_stack import STEP, TIMES, Factor, Fitted, OwnRun, OwnStack, fitted, load_of
from gpufleet.errors import DataMissing, UsageError
from gpufleet.inputs.own_stack import as_toml
from gpufleet.provenance import Grade
from gpufleet.results.accuracy import AccuracyReport, ScoredRun

NamedRun: TypeAlias = tuple[str, OwnRun]
MIDDLES = ("mean", "p50")
NORMAL_10_90 = 1.2815515655446004
"""Standard deviations from the middle of a normal to its 10th and 90th percentile."""


def calibrate_stack(
    files: str | Path | Sequence[str | Path], *, said: Mapping[str, str] = NOTHING, columns: Mapping[str, str] = NOTHING
) -> StackCalibration:
    """What results of a benchmark say of their engine on their GPU, shrunk by how far such stacks differ.

    `said` is what results do not say themselves, as columns of a measured row; `columns` names those of one's own CSV.
    First tokens wait for steps: what is left of them is taken once steps run at their own pace.
    """
    named = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]

    def scored(own: OwnStack | None) -> AccuracyReport:
        return score_files(named, said=said, columns=columns, own=own)

    first = scored(None)
    if all(file.kind == TRAINING for file in first.files):
        stack, rows = trained_stack([file.file for file in first.files])
        return told_of(stack, {STEP: (rows, stack.times[STEP])}, [], named, said)
    runs = list(runs_in(first))
    doubts, stack, by_time = dict.fromkeys(doubt for run in runs for doubt in run.doubts), stack_of(runs), {}
    for time in TIMES:
        rows = list(residuals_of(runs, time))
        if rows:
            found = fitted([own for _, own in rows], load_spreads()[time])
            stack, by_time[time] = replace(stack, times={**stack.times, time: found}), (rows, found)
            runs = list(runs_in(scored(stack)))
    if not by_time:
        raise DataMissing("no run states TTFT or TPOT beside a prediction", hint="'gpufleet accuracy' says why.")
    return told_of(stack, by_time, list(doubts), named, said)


def told_of(
    stack: OwnStack,
    by_time: Mapping[str, tuple[Sequence[NamedRun], Fitted]],
    doubts: list[str],
    files: Sequence[str],
    said: Mapping[str, str],
) -> StackCalibration:
    """The answer of a stack, with what its runs say of each time."""
    answer = StackCalibration(
        engine=stack.engine,
        engine_version=stack.version,
        gpu=stack.gpu,
        runs=stack.num_runs,
        factors=[factor for time, (rows, found) in by_time.items() for factor in factors_of(time, rows, found)],
        far=[far for time, (rows, found) in by_time.items() for far in far_of(time, rows, found)],
        toml=as_toml(stack),
        grade=Grade.MEASURED.label,
        notes=doubts,
    )
    return in_full(answer, load_catalog(), {"files": [*files], **said})


def stack_of(runs: Sequence[ScoredRun]) -> OwnStack:
    """The stack of all runs, of which nothing is known yet."""
    known = [run for run in runs if run.gpu]
    stacks = sorted({(run.engine, run.gpu) for run in known})
    if not stacks:
        raise DataMissing("no run can be compared: nothing to calibrate with", hint="'gpufleet accuracy' says why.")
    if len(stacks) > 1:
        found = " and ".join(f"{engine} on {gpu}" for engine, gpu in stacks)
        raise UsageError("runs of several stacks", found=found, expected="one engine on one GPU at a time")
    versions = sorted({run.engine_version for run in known if run.engine_version})
    return OwnStack(*stacks[0], versions[-1] if versions else "", len(known), {})


def runs_in(report: AccuracyReport) -> Iterator[ScoredRun]:
    """All runs of a report; a file of measurements has none."""
    for file in report.files:
        if not file.runs:
            raise UsageError(f"{file.file} is no result of a benchmark", expected="runs of your own engine")
        yield from file.runs


def residuals_of(runs: Sequence[ScoredRun], time: str) -> Iterator[NamedRun]:
    """The middle of a time of each run that states it, with what it is off by."""
    for run in runs:
        by_name = {figure.quantity: figure for figure in run.figures}
        figure = next((f for s in MIDDLES if (f := by_name.get(f"{time}_{s}")) is not None), None)
        if figure is not None and figure.measured and figure.predicted:
            log = math.log(figure.measured / figure.predicted)
            yield run.name, OwnRun(run.model, run.layout, run.lengths, log, load_of(run.clients))


def factors_of(time: str, rows: Sequence[NamedRun], found: Fitted) -> Iterator[StackFactor]:
    """Factors of layouts, of models in other layouts, then of all other models."""
    own = [run for _, run in rows]
    for (model, layout), factor in found.layouts.items():
        of = [run for run in own if (run.model, run.layout) == (model, layout)]
        yield told(time, of, factor, found.range_ratio(model, layout), model, layout)
    for model, factor in found.models.items():
        yield told(time, [run for run in own if run.model == model], factor, found.range_ratio(model, ""), model)
    yield told(time, own, found.shared, found.range_ratio("", ""))


def told(
    time: str, runs: Sequence[OwnRun], factor: Factor, range_ratio: float, model: str = "", layout: str = ""
) -> StackFactor:
    """A factor with what its runs say."""
    return StackFactor(
        time=time,
        model=model,
        layout=layout,
        runs=len(runs),
        measured_ratio=math.exp(median(run.log_ratio for run in runs)),
        ratio=factor.ratio,
        low_ratio=math.exp(factor.log - NORMAL_10_90 * factor.spread),
        high_ratio=math.exp(factor.log + NORMAL_10_90 * factor.spread),
        range_ratio=range_ratio,
        slope=factor.slope,
    )


def far_of(time: str, rows: Sequence[NamedRun], found: Fitted) -> Iterator[FarRun]:
    """Runs that disagree with the others."""
    for at in found.far:
        name, own = rows[at]
        yield FarRun(name=name, time=time, measured_ratio=math.exp(own.log_ratio))
