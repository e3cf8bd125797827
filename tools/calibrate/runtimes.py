"""The host's time per kernel of every runtime of encoders, and what it misses on GPUs left out of the fit.

    python tools/calibrate runtimes [--measurements FILE] [--page FILE]

It also writes the table between the marks in docs/encoders.md. One constant for each runtime, the one with the least
mean |ln(measured / predicted)|; nothing else is fitted. measurements/encoders_published.csv is left for checking.
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
from gpufleet.accuracy.other_models import IMAGES_PER_S, QUANTITIES, RELATIVE_SPEED, SEQUENCES_PER_S, Asked, not_scored
from gpufleet.api.encoders import asked_tower, pass_size, runnable
from gpufleet.api.estimates import calibration_of
from gpufleet.catalog.load import SHIPPED, load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.runtimes import find_runtime
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.encoder import EncoderQuestion, curves_of, passes_of
from gpufleet.units import MICROSECOND

ROOT = Path(__file__).resolve().parents[2]
MICROSECONDS_TRIED = np.geomspace(1.0, 200.0, 161)
FEWEST_ROWS = 10
TWICE = math.log(2)
BEGIN, END = "<!-- left out: begin -->\n", "<!-- left out: end -->"


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
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "encoders.md")


def run(arguments: argparse.Namespace) -> None:
    """Fit every runtime, print what was found, write it into the runtime's file."""
    by_runtime = defaultdict(list)
    for point in points_of(arguments.measurements):
        by_runtime[point.runtime].append(point)
    fits = [Fit.of(name, found) for name, found in by_runtime.items()]
    for fit in fits:
        write(fit)
    page = arguments.page.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table = "\n".join(left_out_lines(sorted(fits, key=lambda fit: -fit.median_error)))
    arguments.page.write_text(f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


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
    is_rate = quantity in (SEQUENCES_PER_S, IMAGES_PER_S)
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
    tried = MICROSECONDS_TRIED * MICROSECOND
    return float(min(tried, key=lambda launch_s: fmean(abs(p.log_ratio(launch_s)) for p in points)))


def left_out_log_ratios(points: Sequence[Point]) -> list[float]:
    """ln(measured / predicted) of every point, with the constant fitted to the other GPUs."""
    found = []
    for gpu in sorted({point.gpu for point in points}):
        launch_s = fitted_launch_s([p for p in points if p.gpu != gpu] or points)
        found += [p.log_ratio(launch_s) for p in points if p.gpu == gpu]
    return found


@dataclass(frozen=True)
class Fit:
    """The constant of one runtime, those of its GPUs alone, and what was missed where a GPU was left out."""

    name: str
    points: Sequence[Point]
    launch_s: float
    single_s: Sequence[float]
    left_out: Sequence[float]

    @classmethod
    def of(cls, name: str, points: Sequence[Point]) -> Fit:
        """Fitted to all points, to each GPU, and without each GPU."""
        gpus = sorted({point.gpu for point in points})
        single = [fitted_launch_s([p for p in points if p.gpu == gpu]) for gpu in gpus]
        return cls(name, points, fitted_launch_s(points), single, left_out_log_ratios(points))

    @property
    def gpus(self) -> Sequence[str]:
        """GPUs that were measured."""
        return sorted({point.gpu for point in self.points})

    @property
    def is_judged(self) -> bool:
        """Whether there are too few rows, or GPUs, to say what a left-out one would show."""
        return len(self.points) < FEWEST_ROWS or len(self.gpus) == 1

    @property
    def median_error(self) -> float:
        """The median of |predicted / measured - 1|."""
        return float(np.median([abs(math.exp(-log_ratio) - 1) for log_ratio in self.left_out]))

    @property
    def log_range(self) -> tuple[float, float]:
        """10th and 90th percentile of ln(measured / predicted); a factor of two where that is a judgement."""
        low, high = (-TWICE, TWICE) if self.is_judged else np.percentile(self.left_out, [10, 90])
        return float(low), float(high)


def left_out_lines(fits: Sequence[Fit]) -> list[str]:
    """The table of the page, the largest errors first."""
    lines = [
        "| engine | rows | GPUs | host, us per kernel (one GPU alone) | median error | measured / predicted, 80 % |",
        "| --- | ---: | --- | ---: | ---: | --- |",
    ]
    for fit in fits:
        low, high = (math.exp(end) for end in fit.log_range)
        alone = f"{min(fit.single_s) / MICROSECOND:.0f}-{max(fit.single_s) / MICROSECOND:.0f}"
        error = "fitted to these rows" if fit.is_judged else f"{fit.median_error:.0%}"
        source = "judgement" if fit.is_judged else "left out"
        lines.append(
            f"| {fit.name} | {len(fit.points)} | {', '.join(fit.gpus)} | {fit.launch_s / MICROSECOND:.0f} ({alone}) "
            f"| {error} | {low:.2f}x to {high:.2f}x ({source}) |"
        )
    return lines


def write(fit: Fit) -> None:
    """The fitted constant and the left-out percentiles into the runtime's file."""
    rows, gpus = len(fit.points), ", ".join(fit.gpus)
    launch = {"value": fit.launch_s, "low": min(fit.single_s), "high": max(fit.single_s), "points": rows}
    why = "least mean |ln(measured / predicted)|; low and high are fits to one GPU each"
    residual = "judgement: too few rows" if fit.is_judged else "ln(measured / predicted) on GPUs left out of the fit"
    path = SHIPPED / "runtimes" / f"{fit.name}.toml"
    text = path.read_text(encoding="utf-8")
    text = with_table(text, "launch_s", launch, f"measurements/other_models.csv: {rows} rows on {gpus}; {why}")
    for key, value in zip(("log_low", "log_high"), fit.log_range, strict=True):
        figures = {"value": round(value, 3), "points": 0 if fit.is_judged else rows}
        text = with_table(text, key, figures, residual)
    path.write_text(text, encoding="utf-8")
    print(f"{fit.name}: {rows} rows, launch {fit.launch_s / MICROSECOND:.1f} us, median {fit.median_error:.0%}")


def with_table(text: str, name: str, figures: dict[str, float], source: str) -> str:
    """The text with these figures and this source in the table `name`."""
    head, begin, rest = text.partition(f"[{name}]\n")
    body, end, tail = rest.partition("\n[")
    for key, value in figures.items():
        body = re.sub(rf"^{key} = .*$", f"{key} = {value:.4g}", body, flags=re.MULTILINE)
    body = re.sub(r"^source = .*$", lambda _: f'source = "{source}"', body, flags=re.MULTILINE)
    return head + begin + body + end + tail
