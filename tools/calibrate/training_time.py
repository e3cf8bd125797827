"""Fits the constants of training steps on measured runs, with each source left out in turn.

Run as `python -m tools.calibrate.training_time FILE.csv [--models DIR] [--write]`. Every source counts as much as
forty rows at most, and every constant is held to what is plausible of it: `PLAUSIBLE` x its spread. `--write` puts
constants and ranges into `training_time.toml` and what was left out, row by row, into `left_out_training.csv`.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tools.calibrate.between_sources import FEWEST_SOURCES, Sources

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.training_cells import stack_of, why_not_measured
from gpufleet.accuracy.training_rows import StatedRun, run_of
from gpufleet.catalog.calibration import DATA, calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.training import Stack
from gpufleet.domain.training_time import USUAL, TrainingTimeConstants
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_bounds import time_bounds
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime, tokens_per_s_per_gpu
from gpufleet.provenance import Sourced

MOST_ROWS_OF_A_SOURCE = 40
NOISE, HUBER, STEPS = 0.08, 0.10, 14
APART = "2201.11990"
"""MT-NLG's own runs: slower than the same layouts in two other papers of the same group, at 280 to 420 machines."""
# GeForce cards reach nearly all of their peak, which counts fp32 sums at half of what their tensor cores could issue.
PLAUSIBLE: Mapping[str, tuple[float, float]] = {
    "sustained.Volta": (1.0, 0.15),
    "sustained.Ampere": (1.0, 0.12),
    "sustained.Ada": (0.8, 0.15),
    "sustained.Hopper": (1.15, 0.12),
    "sustained.Blackwell": (1.12, 0.12),
    "sustained_fp8.Hopper": (1.0, 0.15),
    "sustained_fp8.Blackwell": (1.0, 0.15),
    "sustained_nvfp4.Blackwell": (1.0, 0.3),
    "attention_flash_2.Ampere": (0.6, 0.15),
    "attention_flash_2.Hopper": (0.37, 0.15),
    "attention_fused.Hopper": (0.65, 0.2),
    "attention_fused.Blackwell": (0.6, 0.25),
    "figures.flash_1_ratio": (0.6, 0.2),
    "figures.attention_ramp_tokens": (600.0, 0.5),
    "figures.head_exponent": (0.5, 0.5),
    "figures.score_bytes": (12.0, 0.3),
    "figures.hidden_bytes": (60.0, 0.3),
    "figures.hidden_bytes_eager": (120.0, 0.3),
    "figures.recurrent_bytes": (130.0, 0.3),
    "figures.biased_bytes": (90.0, 0.3),
    "figures.expert_layer_s": (1.5e-3, 0.5),
    "figures.expert_grouped_ratio": (0.15, 0.5),
    "figures.shard_link_ratio": (0.5, 0.4),
    "figures.tensor_exposed": (0.6, 0.3),
    "figures.tensor_exposed_eager": (1.0, 0.3),
    "figures.expert_exposed": (0.5, 0.4),
    "figures.shard_exposed": (0.3, 0.3),
    "figures.hidden_ratio": (0.5, 0.3),
    "figures.latency_s": (9.9e-6, 0.5),
    "figures.immaturity": (0.06, 0.5),
    "figures.adapter_bytes": (8.0, 0.5),
}
OF_EXPERTS = tuple(
    f"figures.{name}"
    for name in (
        *("expert_exposed", "expert_layer_s"),
        *("expert_grouped_ratio", "recurrent_bytes", "biased_bytes"),
    )
)
OF_AN_ARCHIVE = "-archive"
Floats = NDArray[np.float64]


@dataclass
class Measured:
    """One row that states a run, and what it reached."""

    row: MeasurementRow
    run: StatedRun
    source: str
    tokens_per_s: float

    @cached_property
    def kernels(self) -> tuple[KernelModel, TrainingTime]:
        calibration = calibration_of(load_catalog())
        model = KernelModel(self.run.arch, self.run.recipe, [self.run.machine], calibration)
        time = TrainingTime(model, self.run.layouts, load_training_time(), self.run.software_year)
        _ = time.shards, time.kernels
        return model, time

    def log_error(self, constants: TrainingTimeConstants) -> float:
        """ln(predicted / measured)."""
        _, first = self.kernels
        time = replace(first, constants=constants)
        time.__dict__.update(shards=first.shards, kernels=first.kernels)
        predicted = float(tokens_per_s_per_gpu(time, step_terms(time).total)[0])
        return math.log(predicted / self.tokens_per_s)


def read_rows(path: str, models: str | None) -> list[Measured]:
    """The rows that can be predicted."""
    finder = ModelFinder(Path(models) if models else None)
    found = []
    for row in read_measurements(path).rows:
        measured = row.positive("tokens_per_s_per_gpu")
        if why_not_measured(row):
            continue
        try:
            run = run_of(row, finder)
        except GpufleetError as refusal:
            print(f"  line {row.line}: {str(refusal)[:110]}")
            continue
        if measured is not None:
            found.append(Measured(row, run, source_of(row), measured))
    return found


def source_of(row: MeasurementRow) -> str:
    """Where a row is from: a page and its archive are one source."""
    return row.text("source").replace(OF_AN_ARCHIVE, "")


def with_values(constants: TrainingTimeConstants, values: Mapping[str, float]) -> TrainingTimeConstants:
    """Constants with other values by dotted name."""
    tables: dict[str, dict[str, Sourced]] = {}
    for name, value in values.items():
        table, key = name.split(".")
        tables.setdefault(table, dict(getattr(constants, table)))[key] = replace(
            getattr(constants, table)[key], value=value
        )
    return replace(constants, **tables)


def settled(values: Mapping[str, float]) -> dict[str, float]:
    """What follows from the fitted values: generations without runs."""
    v = dict(values)
    of = lambda table, *names: float(np.exp(np.mean([np.log(v[f"{table}.{n}"]) for n in names])))  # noqa: E731
    for name in ("fused.Ampere", "fused.Ada", "flash_2.Ada", "fused.Blackwell card", "flash_2.Blackwell card"):
        v[f"attention_{name}"] = v["attention_flash_2.Ampere"]
    v["attention_flash_2.Blackwell"] = float(np.sqrt(v["attention_fused.Blackwell"] * v["attention_flash_2.Hopper"]))
    v["sustained.usual"] = of("sustained", "Ampere", "Hopper", "Blackwell")
    v["sustained_fp8.usual"] = of("sustained_fp8", "Hopper", "Blackwell")
    v["sustained_nvfp4.usual"] = v["sustained_nvfp4.Blackwell"]
    for table in ("sustained", "sustained_fp8", "sustained_nvfp4", "attention_fused", "attention_flash_2"):
        v[f"{table}.Blackwell Ultra"] = v[f"{table}.Blackwell"]
    v["attention_fused.usual"] = of("attention_fused", "Ampere", "Hopper", "Blackwell")
    v["attention_flash_2.usual"] = of("attention_flash_2", "Ampere", "Hopper")
    return v


def fitted(rows: Sequence[Measured], start: Mapping[str, float] | None = None) -> dict[str, float]:
    """Constants of all models from the dense ones, then those of experts from the rest; `start` is where to begin."""
    dense = [each for each in rows if not each.run.arch.is_moe]
    values = fitted_of(dense, [name for name in PLAUSIBLE if name not in OF_EXPERTS], {}, start)
    return fitted_of([each for each in rows if each.run.arch.is_moe], OF_EXPERTS, values, start)


def fitted_of(
    rows: Sequence[Measured],
    names: Sequence[str],
    known: Mapping[str, float],
    start: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Constants of least robust error, each held to what is plausible (Levenberg-Marquardt in logarithms)."""
    base = load_training_time()
    usual = {name: value for name, (value, _) in PLAUSIBLE.items()} | known
    centre = np.log([PLAUSIBLE[n][0] for n in names])
    hold = np.array([NOISE / PLAUSIBLE[n][1] for n in names])
    counts = defaultdict(int)
    for each in rows:
        counts[each.source] += 1
    weights = np.array([math.sqrt(min(MOST_ROWS_OF_A_SOURCE / counts[each.source], 1.0)) for each in rows])

    def residuals(x: Floats) -> Floats:
        constants = with_values(base, settled({**usual, **dict(zip(names, np.exp(x), strict=True))}))
        errors = np.array([each.log_error(constants) for each in rows])
        size = np.abs(errors)
        robust = np.sign(errors) * np.where(size > HUBER, np.sqrt(np.maximum(2 * HUBER * size - HUBER**2, 0)), size)
        return np.concatenate([robust * weights, (x - centre) * hold])

    begun = centre if start is None else np.log([start[name] for name in names])
    return {**known, **dict(zip(names, np.exp(least_squares(residuals, begun)), strict=True))}


def least_squares(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """The least sum of squares, with steps of at most 0.4 in any logarithm."""
    x, now, damping = start.copy(), residuals(start), 1e-2
    for _ in range(STEPS):
        slopes = np.array([(residuals(x + 1e-4 * unit) - now) / 1e-4 for unit in np.eye(len(x))]).T
        gain = 0.0
        while damping < 1e6:
            step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(x)), -slopes.T @ now)
            there = residuals(x + np.clip(step, -0.4, 0.4))
            if there @ there < now @ now:
                gain = 1 - (there @ there) / (now @ now)
                x, now, damping = x + np.clip(step, -0.4, 0.4), there, damping / 3
                break
            damping *= 5
        if gain < 1e-4:
            break
    return x


def errors_of(rows: Iterable[Measured], values: Mapping[str, float]) -> Floats:
    """ln(predicted / measured) of rows under fitted values."""
    constants = with_values(load_training_time(), settled(values))
    return np.array([each.log_error(constants) for each in rows])


def mape(errors: Floats) -> float:
    """Mean absolute error in per cent."""
    return float(np.mean(np.abs(np.expm1(errors))) * 100)


def short(source: str) -> str:
    """A source in a few words."""
    return re.sub(r"https?://", "", source)[:58]


def report(name: str, errors: Floats) -> None:
    """One line of a table."""
    print(
        f"  {name:60s} {len(errors):4d} rows  {mape(errors):5.1f} %  median {np.median(np.expm1(errors)) * 100:+5.1f} %"
    )


def main() -> None:
    """Fits, leaves out, prints, and writes where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--models")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    said = parser.parse_args()
    every = read_rows(said.file, said.models)
    rows = [each for each in every if APART not in each.source]
    values = fitted(rows)
    for name, value in values.items():
        print(f"  {name:36s} {value:10.4g}   plausible {PLAUSIBLE[name][0]:g} x/ {math.exp(PLAUSIBLE[name][1]):.2f}")
    print("in sample")
    by_source(every, values)
    unseen = [*left_out_sources(every, values), *left_out_models(rows, values)]
    left_out_gpus(rows, values)
    across_stacks(rows, values)
    of_kind = {kind: [one for one in unseen if one.counts and one.kind == kind] for kind in ("dense", "experts")}
    ranges = {kind: new_source_range(missed, beside_log_of(kind, of_kind)) for kind, missed in of_kind.items()}
    print_ranges(of_kind, ranges)
    for each in sorted(every, key=lambda e: -abs(float(errors_of([e], values)[0])))[: said.worst]:
        error = float(np.expm1(errors_of([each], values)[0]))
        r = each.row
        print(
            f"  {error:+.2f} {short(each.source)[:24]} {r.text('model')} {r.text('seq_len')} {r.text('gpu_id')} "
            f"x{r.text('num_gpus')} mb {r.text('micro_batch')} {r.text('recompute')} {r.text('task')} "
            f"{r.text('release')}"
        )
    if said.write:
        seen = {kind: sum((e.run.arch.is_moe) == (kind == "experts") for e in rows) for kind in of_kind}
        write(settled(values), seen, ranges, {kind: len(missed) for kind, missed in of_kind.items()})
        write_left_out(unseen, ranges)


def by_source(rows: Sequence[Measured], values: Mapping[str, float]) -> None:
    """Errors of each source, dense models and experts apart."""
    for source in sorted({each.source for each in rows}):
        for kind, routed in (("dense", False), ("experts", True)):
            chosen = [e for e in rows if e.source == source and e.run.arch.is_moe == routed]
            if chosen:
                report(f"{short(source)} {kind}", errors_of(chosen, values))


@dataclass(frozen=True)
class Unseen:
    """A row that the constants never saw: what was left out with it, and ln(predicted / measured) speed.

    `group`: the source or model that counts as much as any other in ranges.
    """

    each: Measured
    left_out: str
    error: float

    @property
    def kind(self) -> str:
        """Dense models, experts, or the source that no fit sees."""
        return "apart" if APART in self.each.source else "experts" if self.each.run.arch.is_moe else "dense"

    @property
    def group(self) -> str:
        """What was left out with it, by name."""
        return self.each.source if self.left_out == "source" else self.each.row.text("model")

    @property
    def counts(self) -> bool:
        """Whether ranges rest on it: dense models by source, experts (of one source alone) by model."""
        return (self.kind, self.left_out) in (("dense", "source"), ("experts", "model"))


Range = tuple[float, float]


def sources_of(missed: Sequence[Unseen]) -> Sources:
    """Errors of what was left out by source, or model: ln(measured / predicted) of times."""
    return Sources.of([one.error for one in missed], [one.group for one in missed])


def new_source_range(missed: Sequence[Unseen], beside_log: float) -> Range:
    """10th and 90th percentile of measured over predicted time to expect of a source that is new."""
    low, high = sources_of(missed).range_of_a_new_one(beside_log)
    return min(math.exp(low), 0.98), max(math.exp(high), 1.02)


def beside_log_of(kind: str, of_kind: Mapping[str, Sequence[Unseen]]) -> float:
    """What sources are apart beside groups that are models of a few of them: that of dense models."""
    few = len({one.each.source for one in of_kind[kind]}) < FEWEST_SOURCES
    return sources_of(of_kind["dense"]).between_log if few else 0.0


def ranges_of_others(missed: Sequence[Unseen], beside_log: float) -> dict[str, Range]:
    """For each group the range that the other groups alone give."""
    groups = sorted({one.group for one in missed})
    return {group: new_source_range([o for o in missed if o.group != group], beside_log) for group in groups}


def held_elsewhere(missed: Sequence[Unseen], beside_log: float) -> float:
    """Share of a group's rows inside the range that the other groups alone give, the mean over groups."""
    others, held = ranges_of_others(missed, beside_log), defaultdict(list)
    for one in missed:
        low, high = bounds_of(one.each, others[one.group])
        held[one.group].append(low <= math.exp(one.error) <= high)
    return float(np.mean([np.mean(inside) for inside in held.values()]))


def left_out_sources(every: Sequence[Measured], start: Mapping[str, float]) -> list[Unseen]:
    """Errors of each source under constants that never saw it."""
    print("its own source left out")
    found: list[Unseen] = []
    for source in sorted({each.source for each in every}):
        rows = [e for e in every if APART not in e.source]
        unseen = without([e for e in every if e.source == source], rows, "source", start)
        for kind in ("dense", "experts", "apart"):
            errors = np.array([one.error for one in unseen if one.kind == kind])
            if len(errors):
                report(f"{short(source)} {kind}", errors)
        found += unseen
    dense = [one for one in found if one.counts]
    means = [mape(np.array([o.error for o in dense if o.group == g])) for g in sorted({o.group for o in dense})]
    print(f"  mean of sources, dense: {np.mean(means):.1f} %")
    return found


def left_out_models(rows: Sequence[Measured], start: Mapping[str, float]) -> list[Unseen]:
    """Errors of each model under constants that never saw it: of the source with most rows, and of experts."""
    print("its own model left out")
    source = max({e.source for e in rows}, key=lambda s: sum(e.source == s for e in rows))
    largest = [e for e in rows if e.source == source]
    routed = [e for e in rows if e.run.arch.is_moe]
    found: list[Unseen] = []
    for group in (largest, routed):
        for model in sorted({e.row.text("model") for e in group}):
            found += without([e for e in group if e.row.text("model") == model], rows, "model", start)
    wide = [o for o in found if o.kind == "dense" and o.each.row.text("precision").startswith("bf16")]
    report("experts, a model left out", np.array([o.error for o in found if o.kind == "experts"]))
    report(f"{short(source)} bf16", np.array([o.error for o in wide]))
    report(
        "of these 16k tokens and more",
        np.array([o.error for o in wide if float(o.each.row.text("seq_len")) >= LONG_TOKENS]),
    )
    return found


LONG_TOKENS = 16_000


def left_out_gpus(rows: Sequence[Measured], start: Mapping[str, float]) -> None:
    """Errors of experts on each GPU under constants that never saw experts on it."""
    print("experts, their own GPU left out")
    routed = [e for e in rows if e.run.arch.is_moe]
    for gpu in sorted({e.row.text("gpu_id") for e in routed}):
        held = [e for e in routed if e.row.text("gpu_id") == gpu]
        report(gpu, np.array([o.error for o in without(held, rows, "gpu", start)]))


def across_stacks(rows: Sequence[Measured], start: Mapping[str, float]) -> None:
    """Errors of dense runs of each of two stacks under constants of the other one alone."""
    dense = [e for e in rows if not e.run.arch.is_moe]
    of = {stack: [e for e in dense if stack_of(e.row) is stack] for stack in (Stack.TE, Stack.PYTORCH_SDPA)}
    names = [name for name in PLAUSIBLE if name not in OF_EXPERTS]
    known = {name: start[name] for name in OF_EXPERTS}
    for seen, told in itertools.permutations(of, 2):
        values = fitted_of(of[seen], names, known, start)
        report(f"{told.value} by {seen.value} alone", errors_of(of[told], values))


def without(
    held: Sequence[Measured], rows: Sequence[Measured], left_out: str, start: Mapping[str, float]
) -> list[Unseen]:
    """Rows with their errors under constants that never saw them; what all rows gave is where each fit begins.

    A fit of dense models is the same whatever experts are left out.
    """
    lines = {id(e) for e in held}
    rest = [e for e in rows if id(e) not in lines]
    if all(e.run.arch.is_moe for e in held):
        dense = {name: value for name, value in start.items() if name not in OF_EXPERTS}
        values = fitted_of([e for e in rest if e.run.arch.is_moe], OF_EXPERTS, dense, start)
    else:
        values = fitted(rest, start)
    return [Unseen(e, left_out, float(x)) for e, x in zip(held, errors_of(held, values), strict=True)]


def print_ranges(of_kind: Mapping[str, Sequence[Unseen]], ranges: Mapping[str, Range]) -> None:
    """The ranges, how wide they are, and what ranges of the other groups hold."""
    for kind, (low, high) in ranges.items():
        missed = of_kind[kind]
        width = np.median([math.sqrt(e / s) - 1 for s, e in (bounds_of(one.each, ranges[kind]) for one in missed)])
        print(f"  80 % range of time, {kind}: x {low:.3f} to x {high:.3f}, width {width:.0%}")
        held = held_elsewhere(missed, beside_log_of(kind, of_kind))
        print(f"    by ranges of the other groups {held:.0%} held")


RANGE_SOURCE = (
    "10th and 90th percentile of measured over predicted time to expect of a new source, from those left out in turn "
    "(dense: sources; experts: models, and beside them what sources of dense models are apart): "
    "tools/calibrate/between_sources.py"
)
LEFT_OUT_NAME = "left_out_training.csv"
WAS_LEFT_OUT = Path(__file__).resolve().parents[2] / "measurements" / "left_out"
COLUMNS = ("row", "source", "model", "kind", "left_out", "measured", "predicted", "low", "high")


def write_left_out(unseen: Sequence[Unseen], ranges: Mapping[str, Range]) -> None:
    """Every row that was left out into left_out_training.csv, with a range that had not seen it either."""
    with (WAS_LEFT_OUT / LEFT_OUT_NAME).open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(COLUMNS)
        for one, (low, high) in ranged(unseen, ranges):
            rate = one.each.tokens_per_s * math.exp(one.error)
            numbers = [f"{number:.6g}" for number in (one.each.tokens_per_s, rate, rate / high, rate / low)]
            text = one.each.row.text
            table.writerow([one.each.row.line, text("source"), text("model"), one.kind, one.left_out, *numbers])


def ranged(unseen: Sequence[Unseen], ranges: Mapping[str, Range]) -> list[tuple[Unseen, Range]]:
    """What was left out, in the order of the table, each with the ends of measured over predicted time."""
    of_kind = {kind: [one for one in unseen if one.counts and one.kind == kind] for kind in ranges}
    others = {kind: ranges_of_others(missed, beside_log_of(kind, of_kind)) for kind, missed in of_kind.items()}
    found = []
    for one in sorted(unseen, key=lambda o: (o.kind, o.left_out, o.each.source, o.each.row.line)):
        shipped = ranges["experts" if one.kind == "experts" else "dense"]
        ends = others[one.kind][one.group] if one.counts else shipped
        found.append((one, bounds_of(one.each, ends)))
    return found


def bounds_of(each: Measured, ends: Range) -> Range:
    """The ends of measured over predicted time of a row whose kind has this range; lent kernels widen it."""
    _, time = each.kernels
    kind = "experts" if each.run.arch.is_moe else "dense"
    spread = replace(time.constants.spreads[kind], low=ends[0], high=ends[1])
    constants = replace(time.constants, spreads={**time.constants.spreads, kind: spread})
    bounds = time_bounds(replace(time, constants=constants))
    return float(bounds.low_ratio[0]), float(bounds.high_ratio[0])


def write(
    values: Mapping[str, float],
    seen: Mapping[str, int],
    ranges: Mapping[str, Range],
    points: Mapping[str, int],
) -> None:
    """Fitted values and ranges into training_time.toml, in place."""
    path = DATA / "training_time.toml"
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        table, _, key = name.partition(".")
        head = re.escape(f'[{table}."{key}"]\n' if " " in key else f"[{name}]\n")
        text = re.sub(rf"({head}value = )\S+", rf"\g<1>{value:.4g}", text)
        if name not in PLAUSIBLE and key != USUAL:
            continue
        num_rows = seen["experts" if name in OF_EXPERTS else "dense"]
        source = f"fit to {num_rows} rows of measurements/training_throughput.csv (tools/calibrate/training_time.py)"
        text = re.sub(rf'({head}(?:(?!\n\[).)*?\nsource = )"[^"]*"', rf'\g<1>"{source}"', text, flags=re.S)
        text = re.sub(rf"({head}(?:(?!\n\[).)*?\npoints = )\d+", rf"\g<1>{num_rows}", text, flags=re.S)
    for kind, (low, high) in ranges.items():
        head = re.escape(f"[spreads.{kind}]\n")
        text = re.sub(rf"({head}(?:(?!\n\[).)*?\nlow = )\S+", rf"\g<1>{low:.4g}", text, flags=re.S)
        text = re.sub(rf"({head}(?:(?!\n\[).)*?\nhigh = )\S+", rf"\g<1>{high:.4g}", text, flags=re.S)
        text = re.sub(rf"({head}(?:(?!\n\[).)*?\npoints = )\d+", rf"\g<1>{points[kind]}", text, flags=re.S)
        text = re.sub(rf'({head}(?:(?!\n\[).)*?\nsource = )"[^"]*"', rf'\g<1>"{RANGE_SOURCE}"', text, flags=re.S)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
