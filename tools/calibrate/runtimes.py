"""The host's time per kernel of every runtime of encoders, and what it misses on GPUs left out of the fit.

    python tools/calibrate runtimes [--measurements FILE]

One constant for each runtime, the one with the least mean |ln(measured / predicted)|; nothing else is fitted.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.other_models import QUANTITIES, RELATIVE_SPEED, SEQUENCES_PER_S, Asked, not_scored
from gpufleet.api.encoders import asked_tower, pass_size, runnable
from gpufleet.api.estimates import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.runtimes import SHIPPED, find_runtime
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.encoder import EncoderQuestion, curves_of, passes_of

ROOT = Path(__file__).resolve().parents[2]
MICROSECONDS_TRIED = np.geomspace(1.0, 200.0, 161)
FEWEST_ROWS = 10
TWICE = math.log(2)


@dataclass(frozen=True)
class Point:
    """One measured time: kernels and launches of each pass that it is made of, `times` of them."""

    runtime: str
    gpu: str
    measured_s: float
    times: float
    kernels_s: tuple[float, ...]
    launches: tuple[float, ...]

    def predicted_s(self, launch_s: float) -> float:
        """What the model says with so many seconds per launch."""
        passes = zip(self.kernels_s, self.launches, strict=True)
        return self.times * sum(max(kernels, count * launch_s) for kernels, count in passes)

    def log_ratio(self, launch_s: float) -> float:
        """ln(measured / predicted)."""
        return math.log(self.measured_s / self.predicted_s(launch_s))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--measurements", type=Path, default=ROOT / "measurements" / "other_models.csv")


def run(arguments: argparse.Namespace) -> None:
    """Fit every runtime, print what was found, write it into the runtime's file."""
    points = points_of(arguments.measurements)
    by_runtime = defaultdict(list)
    for point in points:
        by_runtime[point.runtime].append(point)
    for name, found in sorted(by_runtime.items()):
        write(name, found)


def points_of(path: Path) -> list[Point]:
    """The rows that measure a time."""
    models = ModelFinder()
    found = [point_of(row, models) for row in read_measurements(path).rows]
    return [point for point in found if point is not None]


def point_of(row: MeasurementRow, models: ModelFinder) -> Point | None:
    """One row as a point; None where it measures no time or is not scored."""
    quantity = QUANTITIES.get((row.text("metric"), row.text("unit")))
    if quantity in (None, RELATIVE_SPEED) or not_scored(row, models):
        return None
    try:
        asked = Asked.of(row)
        question = question_of(asked, models)
    except GpufleetError:
        return None
    curves = curves_of(calibration_of(load_catalog()), question.gpu, question.weights)
    passes = passes_of(question, curves, np.array([asked.batch]))
    value = row.positive("value") or math.nan
    is_rate = quantity is SEQUENCES_PER_S
    launch_s = question.runtime.launch_s.value
    return Point(
        runtime=question.runtime.name,
        gpu=asked.gpu,
        measured_s=asked.batch / value if is_rate else value,
        times=1.0 if is_rate else max(question.num_windows / asked.batch, 1.0),
        kernels_s=tuple(float(each.kernels_s[0]) for each in passes),
        launches=tuple(float(each.host_s[0]) / launch_s for each in passes),
    )


def question_of(asked: Asked, models: ModelFinder) -> EncoderQuestion:
    """The question that the api makes of a row."""
    model, runtime = models.encoder_of(asked.model), find_runtime(asked.engine)
    gpu = resolve_gpu(load_catalog(), asked.gpu).accelerator
    tower = asked_tower(model, asked.input_tokens)
    beams = asked.beams if model.decoder is not None else 1
    size = pass_size(model, tower, asked.input_tokens, None, asked.audio_s, beams)
    weights = runnable(model, runtime, gpu, asked.precision)
    return EncoderQuestion(model, tower, gpu, runtime, weights, size, asked.batch, audio_s=asked.audio_s)


def fitted_launch_s(points: Sequence[Point]) -> float:
    """The launch time with the least mean |ln(measured / predicted)|."""
    tried = MICROSECONDS_TRIED * 1e-6
    return float(min(tried, key=lambda launch_s: fmean(abs(p.log_ratio(launch_s)) for p in points)))


def left_out_log_ratios(points: Sequence[Point]) -> list[float]:
    """ln(measured / predicted) of every point, with the constant fitted to the other GPUs."""
    found = []
    for gpu in sorted({point.gpu for point in points}):
        launch_s = fitted_launch_s([p for p in points if p.gpu != gpu] or points)
        found += [p.log_ratio(launch_s) for p in points if p.gpu == gpu]
    return found


def write(name: str, points: Sequence[Point]) -> None:
    """The fitted constant and the left-out percentiles into the runtime's file."""
    launch_s = fitted_launch_s(points)
    single = [fitted_launch_s([p for p in points if p.gpu == gpu]) for gpu in sorted({p.gpu for p in points})]
    logs = left_out_log_ratios(points)
    enough = len(points) >= FEWEST_ROWS
    low, high = np.percentile(logs, [10, 90]) if enough else (-TWICE, TWICE)
    gpus = ", ".join(sorted({p.gpu for p in points}))
    launch = {"value": launch_s, "low": min(single), "high": max(single), "points": len(points)}
    why = "least mean |ln(measured / predicted)|; low and high are fits to one GPU each"
    residual = "ln(measured / predicted) on GPUs left out of the fit" if enough else "judgement: too few rows"
    path = SHIPPED / f"{name}.toml"
    text = path.read_text(encoding="utf-8")
    text = with_table(text, "launch_s", launch, f"measurements/other_models.csv: {len(points)} rows on {gpus}; {why}")
    for key, value in (("log_low", float(low)), ("log_high", float(high))):
        text = with_table(text, key, {"value": round(value, 3), "points": len(points) * enough}, residual)
    path.write_text(text, encoding="utf-8")
    off = [abs(1 / math.exp(r) - 1) for r in logs]
    print(f"{name}: {len(points)} rows, launch {launch_s * 1e6:.1f} us, left-out median error {np.median(off):.0%}")


def with_table(text: str, name: str, figures: dict[str, float], source: str) -> str:
    """The text with these figures and this source in the table `name`."""
    head, begin, rest = text.partition(f"[{name}]\n")
    body, end, tail = rest.partition("\n[")
    for key, value in figures.items():
        body = re.sub(rf"^{key} = .*$", f"{key} = {value:.4g}", body, flags=re.MULTILINE)
    body = re.sub(r"^source = .*$", lambda _: f'source = "{source}"', body, flags=re.MULTILINE)
    return head + begin + body + end + tail
