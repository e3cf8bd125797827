"""Fits what software adds to the memory of a training step to measured peaks.

`python tools/calibrate training-memory measurements/training_memory.csv` prints every row as measured and predicted,
in sample and with its source left out, and with `--write` puts the fitted constants into
`data/calibration/training_memory.toml`. A fit is held to the counted values (`PRIORS`) by one spread each: constants
that no row speaks of stay as counted.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from tools.calibrate.between_sources import Sources

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.training_cells import why_not_measured
from gpufleet.accuracy.training_rows import Conditions, conditions_of, device_bytes_of, reported_peak
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.memory.training_states import ModelStates, model_states
from gpufleet.units import GB, GIB, PERCENT

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "src" / "gpufleet" / "data" / "calibration" / "training_memory.toml"
PUBLISHED = [ROOT / "measurements" / "training_memory.csv"]
UNITS = {"GB": GB, "GiB": GIB}
ERROR_OF_A_ROW = 0.05
ROUNDS, NUDGE = 8, 1e-3
RESERVED = "reserved"


@dataclass(frozen=True)
class Prior:
    """What a constant is by counting tensors, and how far software may lie from that."""

    value: float
    spread: float
    least: float = 0.0


PRIORS = {
    "eager_other_bytes": Prior(4.0, 3.0),
    "gated_trained_bytes": Prior(8.0, 1.0, 4.0),
    "gated_frozen_bytes": Prior(4.0, 1.0, 2.0),
    "gated_frozen_eager_bytes": Prior(6.0, 1.0, 2.0),
    "adapter_input_bytes": Prior(3.0, 1.0),
    "logit_eager_bytes": Prior(14.0, 2.0, 4.0),
    "logit_fused_bytes": Prior(10.0, 2.0, 4.0),
    "logit_chunked_bytes": Prior(2.5, 1.0),
    "logit_chunked_eager_bytes": Prior(4.0, 2.0),
    "selective_kept_share": Prior(0.67, 0.15, 0.2),
    "workspace_bytes": Prior(1.0e8, 1.0e8),
}


@dataclass(frozen=True)
class Measured:
    """A row that states what it ran, and how that is read."""

    row: MeasurementRow
    arch: Architecture
    way: Conditions
    device_bytes: float | None

    @property
    def source(self) -> str:
        return self.row.text("source")

    @property
    def key(self) -> tuple[str, int]:
        return self.source, self.row.line

    @property
    def is_out_of_memory(self) -> bool:
        return self.row.text("status") == "OOM"

    @property
    def peak_bytes(self) -> float:
        return (self.row.positive("peak_mem_gb") or 0.0) * UNITS[self.row.text("unit")]

    def reported_bytes(self, constants: TrainingMemoryConstants) -> float:
        return float(np.asarray(reported_peak(self.row, self.predicted(constants)).expected)[0])

    @cached_property
    def states(self) -> ModelStates:
        """What no constant of `PRIORS` touches: counted once for all that are tried."""
        return model_states(self.arch, self.way.recipe, self.way.layout, load_training_memory_constants())

    def predicted(self, constants: TrainingMemoryConstants) -> TrainingMemory:
        device_bytes = self.device_bytes or np.inf
        way = self.way
        return training_memory(self.arch, way.recipe, way.layout, device_bytes, constants, states=self.states)


def measured_rows(path: Path, constants: TrainingMemoryConstants) -> Iterator[Measured]:
    """Rows of runs that state method, sequence and micro-batch, and whose model is known."""
    catalog, finder = load_catalog(), ModelFinder()
    for row in read_measurements(path).rows:
        if row.text("status") not in ("ok", "OOM") or row.fault or why_not_measured(row):
            continue
        try:
            arch, device = finder.of(row), device_bytes_of(row, catalog)
            yield Measured(row, arch, conditions_of(row, arch, device, constants), device)
        except GpufleetError:
            continue


def log_ratio(each: Measured, constants: TrainingMemoryConstants) -> float:
    """Logarithm of predicted over measured."""
    return float(np.log(each.reported_bytes(constants) / each.peak_bytes))


def with_values(constants: TrainingMemoryConstants, values: Sequence[float]) -> TrainingMemoryConstants:
    """The constants with those of `PRIORS` set."""
    named = zip(PRIORS, values, strict=True)
    return replace(constants, **{name: replace(getattr(constants, name), value=float(v)) for name, v in named})


def fitted(rows: Sequence[Measured], constants: TrainingMemoryConstants) -> TrainingMemoryConstants:
    """The constants that these rows and the priors agree on best; rows off by much weigh little."""
    priors = list(PRIORS.values())
    start = np.array([prior.value for prior in priors])
    spreads = np.array([prior.spread for prior in priors])

    def residuals(steps: FloatArray) -> FloatArray:
        tried = with_values(constants, start + steps * spreads)
        return np.array([*(log_ratio(each, tried) / ERROR_OF_A_ROW for each in rows), *steps])

    lowest = np.array([(prior.least - prior.value) / prior.spread for prior in priors])
    steps = np.zeros(len(priors))
    for _ in range(ROUNDS):
        steps = np.maximum(gauss_newton_step(residuals, steps), lowest)
    return with_values(constants, start + steps * spreads)


def gauss_newton_step(residuals: Callable[[FloatArray], FloatArray], at: FloatArray) -> FloatArray:
    """The next point of a least-squares fit; residuals beyond one weigh less (soft L1)."""
    here = residuals(at)
    slopes = np.stack([(residuals(at + NUDGE * unit) - here) / NUDGE for unit in np.eye(len(at))], axis=1)
    weights = (1.0 + here**2) ** -0.25
    step, *_ = np.linalg.lstsq(slopes * weights[:, None], -here * weights, rcond=None)
    return at + step


def left_out(rows: Sequence[Measured], constants: TrainingMemoryConstants) -> dict[str, TrainingMemoryConstants]:
    """For each source the constants that it had no part in."""
    return {
        source: fitted([each for each in rows if each.source != source], constants)
        for source in sorted({each.source for each in rows})
    }


def mean_error(ratios: Sequence[float]) -> float:
    """Mean absolute error of predictions whose logarithms of predicted over measured are these."""
    return float(np.mean(np.abs(np.expm1(ratios))))


def band(unseen: Mapping[tuple[str, int], float]) -> tuple[float, float]:
    """Low and high ratio of measured to predicted to expect of a new source, from rows left out by source and line.

    Rows of allocated memory: what an allocator keeps beside it has a range of its own (`fragmentation_ratio`).
    """
    low, high = Sources.of([-ratio for ratio in unseen.values()], [source for source, _ in unseen]).range_of_a_new_one()
    return float(np.exp(low)), float(np.exp(high))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("measurements", type=Path, nargs="*", default=PUBLISHED)
    parser.add_argument("--write", action="store_true", help="write the fitted constants")


def run(arguments: argparse.Namespace) -> None:
    shipped = load_training_memory_constants()
    every = [each for path in arguments.measurements for each in measured_rows(path, shipped)]
    rows = [each for each in every if not each.is_out_of_memory]
    constants = fitted(rows, shipped)
    unseen = left_out(rows, constants)
    ratios = {each.key: log_ratio(each, constants) for each in rows}
    ratios_unseen = {each.key: log_ratio(each, unseen[each.source]) for each in rows}
    print_rows(every, constants, ratios, ratios_unseen)
    low, high = band({each.key: ratios_unseen[each.key] for each in rows if each.row.text("memory_kind") != RESERVED})
    for source in sorted(unseen):
        seen, new = ([of[key] for key in of if key[0] == source] for of in (ratios, ratios_unseen))
        print(f"{source}: {len(seen)} rows, in sample {mean_error(seen):.1%}, left out {mean_error(new):.1%}")
    print(f"{len(rows)} rows, mean absolute error in sample {mean_error(list(ratios.values())):.1%}")
    print(f"{len(rows)} rows, mean absolute error left out {mean_error(list(ratios_unseen.values())):.1%}")
    print(f"ratio of measured to predicted, left out: {low:.3f} to {high:.3f}")
    for name in PRIORS:
        print(f"{name:28} {getattr(constants, name).value:12.4g} (counted {PRIORS[name].value:g})")
    if arguments.write:
        SHIPPED.write_text(rewritten(SHIPPED.read_text(encoding="utf-8"), constants, (low, high), len(rows)), "utf-8")


def print_rows(
    every: Sequence[Measured],
    constants: TrainingMemoryConstants,
    ratios: dict[tuple[str, int], float],
    ratios_unseen: dict[tuple[str, int], float],
) -> None:
    """Every row: measured, predicted, error in sample and left out, verdict."""
    print(f"{'line':>4} {'measured':>9} {'predicted':>9} {'error':>7} {'left out':>8} verdict")
    for each in every:
        memory, line = each.predicted(constants), each.key
        unit = UNITS[each.row.text("unit")]
        predicted = each.reported_bytes(constants) / unit
        verdict = str(memory.verdicts[0]) if each.device_bytes else "GPU unknown"
        what = f"{each.row.text('model')} {each.row.text('method')} {each.row.text('precision')}"
        found = "OOM" if each.is_out_of_memory else f"{each.peak_bytes / unit:.2f}"
        errors = ["" if line not in of else f"{np.expm1(of[line]) * PERCENT:+.1f} %" for of in (ratios, ratios_unseen)]
        print(f"{each.row.line:>4} {found:>9} {predicted:>9.2f} {errors[0]:>7} {errors[1]:>8} {verdict:12} {what}")


def rewritten(text: str, constants: TrainingMemoryConstants, ratio: tuple[float, float], points: int) -> str:
    """The file with fitted values and the range of the peak put in."""
    for name, prior in PRIORS.items():
        value = getattr(constants, name).value
        table = _table(name, text)
        low, high = (edge(value, prior.value + sign * prior.spread) for sign, edge in ((-1, min), (1, max)))
        new = {"value": value, "low": max(low, prior.least), "high": high, "points": points}
        text = text.replace(table, _with(table, new))
    table = _table("peak_ratio", text)
    return text.replace(table, _with(table, {"low": ratio[0], "high": ratio[1], "points": points}))


def _table(name: str, text: str) -> str:
    found = re.search(rf"^\[{name}\]\n(?:.+\n)+", text, re.MULTILINE)
    if found is None:
        raise KeyError(name)
    return found.group()


def _with(table: str, values: dict[str, float]) -> str:
    for key, value in values.items():
        written = str(value) if isinstance(value, int) else repr(float(f"{value:.4g}"))
        table = re.sub(rf"^{key} = .*$", f"{key} = {written}", table, flags=re.MULTILINE)
    return table
