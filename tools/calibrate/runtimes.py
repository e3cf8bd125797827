"""The host's time per kernel and per second of audio of every runtime, and what is missed on GPUs left out of the fit.

    python tools/calibrate runtimes [--measurements FILE ...] [--page FILE]

It also writes the table between the marks in docs/encoders.md. Constants are those with the least mean
|ln(measured / predicted)| over every published row of a runtime; nothing else is fitted.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.other_models import IMAGES_PER_S, QUANTITIES, RELATIVE_SPEED, SEQUENCES_PER_S, Asked, not_scored
from gpufleet.catalog.calibration import calibration_of, load_habits
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.runtimes import find_runtime, load_runtimes
from gpufleet.catalog.table_files import SHIPPED
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.runtime import FEWEST_ROWS
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.encoder import EncoderQuestion, curves_of, passes_of
from gpufleet.optimize.encoder_inputs import asked_tower, pass_size, runnable
from gpufleet.performance.forward import worst_grade
from gpufleet.units import MICROSECOND, MILLISECOND

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ("other_models.csv", "encoders_published.csv")
LAUNCHES_TRIED_S = np.geomspace(1.0, 200.0, 161) * MICROSECOND
READINGS_TRIED_S = np.geomspace(0.5, 40.0, 61) * MILLISECOND
FEWEST_READINGS = 5
KINDS = {False: "passes", True: "answers"}
OF_SINGLE_GPUS = "low and high are fits to one GPU each"
OF_OTHERS = "no row of this runtime waits for the host: geometric mean and span of the runtimes with rows that do"
BEGIN, END = "<!-- left out: begin -->\n", "<!-- left out: end -->"


@dataclass(frozen=True)
class Constants:
    """What is fitted: the host's seconds per kernel launch, and for each second of audio that it reads."""

    launch_s: float
    host_s_per_audio_s: float


@dataclass(frozen=True)
class Point:
    """One measured time: kernels and launches of each pass that it is made of, `times` of them, and audio to read."""

    runtime: str
    gpu: str
    is_lent: bool
    writes_answer: bool
    measured_s: float
    times: float
    kernels_s: tuple[float, ...]
    launches: tuple[float, ...]
    audio_s: float

    def predicted_s(self, constants: Constants) -> float:
        """What the model says with these constants."""
        passes = zip(self.kernels_s, self.launches, strict=True)
        running_s = sum(max(kernels, count * constants.launch_s) for kernels, count in passes)
        return self.times * running_s + self.audio_s * constants.host_s_per_audio_s

    def log_ratio(self, constants: Constants) -> float:
        """ln(measured / predicted)."""
        return math.log(self.measured_s / self.predicted_s(constants))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    published = [ROOT / "measurements" / name for name in PUBLISHED]
    parser.add_argument("--measurements", type=Path, nargs="+", default=published)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "encoders.md")


def run(arguments: argparse.Namespace) -> None:
    """Fit every runtime, print what was found, write it into the runtime's file."""
    by_runtime = defaultdict(list)
    for point in (point for path in arguments.measurements for point in points_of(path)):
        by_runtime[point.runtime].append(point)
    usual = Usual.of(by_runtime.values())
    fits = [Fit.of(name, by_runtime[name], usual) for name in load_runtimes()]
    unfitted = unfitted_log_ratios(by_runtime.values(), usual)
    ranges = {(fit.name, kind): range_of(fit, fits, unfitted[kind], kind) for fit in fits for kind in KINDS}
    for fit in fits:
        write(fit, {kind: ranges[fit.name, kind] for kind in KINDS})
    page = arguments.page.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table = "\n".join(left_out_lines(fits, ranges))
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
    times = 1.0 if is_rate else max(question.num_windows / asked.batch, 1.0)
    return Point(
        runtime=question.runtime.name,
        gpu=asked.gpu,
        is_lent=worst_grade(curves) > 0,
        writes_answer=question.model.decoder is not None,
        measured_s=asked.batch / value if is_rate else value,
        times=times,
        kernels_s=tuple(float(each.kernels_s[0]) for each in passes),
        launches=tuple(float(each.host_s[0]) / launch_s for each in passes),
        audio_s=times * asked.batch * (question.new_audio_s or 0.0) if asked.audio_s else 0.0,
    )


def question_of(asked: Asked, models: ModelFinder) -> EncoderQuestion:
    """The question that the api makes of a row."""
    model, gpu = models.encoder_of(asked.model), resolve_gpu(load_catalog(), asked.gpu).accelerator
    runtime = find_runtime(asked.engine).running(model.family, gpu)
    tower = asked_tower(model, asked.input_tokens)
    beams = asked.beams if model.decoder is not None else 1
    size = pass_size(
        model, tower, asked.input_tokens, None, asked.audio_s, beams, load_habits().spoken_tokens_per_s.value
    )
    weights = runnable(model, runtime, gpu, asked.precision)
    return EncoderQuestion(model, tower, gpu, runtime, weights, size, asked.batch, audio_s=asked.audio_s)


def usual_reading_s(by_runtime: Iterable[Sequence[Point]]) -> float:
    """The host's time for a second of audio, geometric mean of the runtimes with rows enough to tell it apart."""
    found = [fitted(points, 0.0).host_s_per_audio_s for points in by_runtime if tells_reading(points)]
    return math.exp(fmean(map(math.log, found))) if found else 0.0


@dataclass(frozen=True)
class Usual:
    """What is taken where no row tells a constant: geometric means of the runtimes whose rows do."""

    constants: Constants
    launches_s: Sequence[float]

    @classmethod
    def of(cls, by_runtime: Iterable[Sequence[Point]]) -> Usual:
        """Of the runtimes with rows that wait for the host."""
        measured = list(by_runtime)
        reading_s = usual_reading_s(measured)
        launches_s = [fitted(points, reading_s).launch_s for points in measured]
        told = [launch_s for launch_s in launches_s if waits_for_host(launch_s)]
        return cls(Constants(math.exp(fmean(map(math.log, told))), reading_s), told)


def waits_for_host(launch_s: float) -> bool:
    """Whether a fitted time says anything: the least that is tried is found where no row waits for the host."""
    return launch_s > LAUNCHES_TRIED_S[0]


def unfitted_log_ratios(by_runtime: Iterable[Sequence[Point]], usual: Usual) -> dict[bool, list[float]]:
    """ln(measured / predicted) of all points by kind as if nothing of their runtime had been measured."""
    found: dict[bool, list[float]] = {kind: [] for kind in KINDS}
    for point in (point for points in by_runtime for point in points):
        found[point.writes_answer].append(point.log_ratio(usual.constants))
    return found


def tells_reading(points: Sequence[Point]) -> bool:
    """Whether so many recordings were timed that reading can be told from launching."""
    return sum(point.audio_s > 0 for point in points) >= FEWEST_READINGS


def fitted(points: Sequence[Point], usual_s: float) -> Constants:
    """The constants with the least mean |ln(measured / predicted)|; the usual time of reading where rows are few."""
    reads = any(point.audio_s > 0 for point in points)
    readings_s = READINGS_TRIED_S if tells_reading(points) else np.array([usual_s if reads else 0.0])
    found = [(mean_miss(points, launch_s, readings_s), launch_s) for launch_s in LAUNCHES_TRIED_S]
    misses, launch_s = min(found, key=lambda each: each[0].min())
    return Constants(float(launch_s), float(readings_s[int(misses.argmin())]))


def mean_miss(points: Sequence[Point], launch_s: float, readings_s: FloatArray) -> FloatArray:
    """Mean |ln(measured / predicted)| for one launch time and each time of reading."""
    running_s = np.array([point.predicted_s(Constants(launch_s, 0.0)) for point in points])
    audio_s, measured_s = (np.array([getattr(p, name) for p in points]) for name in ("audio_s", "measured_s"))
    predicted_s = running_s + audio_s * readings_s.reshape(-1, 1)
    missed: FloatArray = np.abs(np.log(measured_s / predicted_s)).mean(axis=1)
    return missed


def left_out_log_ratios(points: Sequence[Point], usual_s: float) -> dict[bool, list[float]]:
    """ln(measured / predicted) of points by kind, with constants fitted to the other GPUs; none for a lone GPU."""
    found: dict[bool, list[float]] = {kind: [] for kind in KINDS}
    for gpu in gpus_of(points):
        others = [p for p in points if p.gpu != gpu]
        if others:
            constants = fitted(others, usual_s)
            for point in (p for p in points if p.gpu == gpu):
                found[point.writes_answer].append(point.log_ratio(constants))
    return found


def gpus_of(points: Iterable[Point]) -> list[str]:
    """GPUs that were measured."""
    return sorted({point.gpu for point in points})


@dataclass(frozen=True)
class Fit:
    """The constants of one runtime, those of its GPUs alone, and what was missed where a GPU was left out."""

    name: str
    points: Sequence[Point]
    constants: Constants
    single_s: Sequence[float]
    left_out: Mapping[bool, Sequence[float]]

    @classmethod
    def of(cls, name: str, points: Sequence[Point], usual: Usual) -> Fit:
        """Fitted to all points, to each GPU, and without each GPU; the usual time of launching where no row tells."""
        usual_s = usual.constants.host_s_per_audio_s
        constants = fitted(points, usual_s) if points else usual.constants
        left_out = left_out_log_ratios(points, usual_s)
        if not points or not waits_for_host(constants.launch_s):
            return cls(name, points, replace(usual.constants, host_s_per_audio_s=0.0), usual.launches_s, left_out)
        single = [fitted([p for p in points if p.gpu == gpu], usual_s).launch_s for gpu in gpus_of(points)]
        told = [launch_s for launch_s in single if waits_for_host(launch_s)]
        return cls(name, points, constants, told or [constants.launch_s], left_out)

    @property
    def tells_launch(self) -> bool:
        """Whether its own rows say how long a launch takes."""
        return bool(self.points) and waits_for_host(fitted(self.points, 0.0).launch_s)

    def rows_of(self, kind: bool) -> list[Point]:
        """Points of models that write an answer, or of those that do not."""
        return [point for point in self.points if point.writes_answer is kind]


@dataclass(frozen=True)
class Range:
    """10th and 90th percentile of ln(measured / predicted), of how many rows, and why those."""

    low: float
    high: float
    points: int
    source: str


def range_of(fit: Fit, fits: Sequence[Fit], unfitted: Sequence[float], kind: bool) -> Range:
    """Of the runtime's own rows where enough are of GPUs with kernels of their own; else the wider of its and of all.

    Rows of GPUs that borrow kernels say what the loan misses as well, always to one side. Where no row tells how it
    launches, the wider of that and of what all runtimes miss with the usual time of launching.
    """
    own, everyone = fit.left_out[kind], [ratio for each in fits for ratio in each.left_out[kind]]
    num_owned = sum(not point.is_lent for point in fit.rows_of(kind))
    why = "ln(measured / predicted) on GPUs left out of the fit"
    if num_owned >= FEWEST_ROWS:
        return Range(*ends(own), len(own), why)
    wide = [ends(everyone), ends(own or [0.0])]
    why = f"{why}, of all runtimes: it has {num_owned} rows of GPUs with measured kernels"
    if not (fit.tells_launch and fit.rows_of(kind)):
        wide = [*wide, ends(unfitted)]
        why = f"{why}; no narrower than with the usual time of launching, as no row tells its own"
    return Range(min(low for low, _ in wide), max(high for _, high in wide), len(everyone), why)


def ends(log_ratios: Sequence[float]) -> tuple[float, float]:
    """10th and 90th percentile, with nothing missed between them."""
    low, high = np.percentile(log_ratios, [10, 90])
    return min(float(low), 0.0), max(float(high), 0.0)


def left_out_lines(fits: Sequence[Fit], ranges: Mapping[tuple[str, bool], Range]) -> list[str]:
    """The table of the page: each runtime and kind that was measured, the largest errors first."""
    measured = [(fit, kind) for fit in fits for kind in KINDS if fit.rows_of(kind)]
    ordered = sorted(measured, key=lambda each: -(median_error(each[0].left_out[each[1]]) or math.inf))
    return [
        "| engine | what | rows | GPUs | host, us per kernel (one GPU alone) | host, ms for 1 s of audio "
        "| median error | measured / predicted, 80 % |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | --- |",
        *(left_out_line(fit, kind, ranges[fit.name, kind]) for fit, kind in ordered),
    ]


def left_out_line(fit: Fit, kind: bool, found: Range) -> str:
    """One runtime and kind."""
    rows, error = fit.rows_of(kind), median_error(fit.left_out[kind])
    alone = f"{min(fit.single_s) / MICROSECOND:.0f}-{max(fit.single_s) / MICROSECOND:.0f}"
    reading_s = fit.constants.host_s_per_audio_s if any(row.audio_s for row in rows) else None
    said = "of its own" if "all runtimes" not in found.source else "of all engines"
    cells = (
        fit.name,
        KINDS[kind],
        f"{len(rows)}",
        ", ".join(gpus_of(rows)),
        f"{fit.constants.launch_s / MICROSECOND:.0f} ({alone})",
        "" if reading_s is None else f"{reading_s / MILLISECOND:.1f}",
        "one GPU" if error is None else f"{error:.0%}",
        f"{math.exp(found.low):.2f}x to {math.exp(found.high):.2f}x ({said})",
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def median_error(log_ratios: Sequence[float]) -> float | None:
    """The median of |predicted / measured - 1|; None without rows."""
    return float(np.median([abs(math.exp(-ratio) - 1) for ratio in log_ratios])) if log_ratios else None


def write(fit: Fit, ranges: Mapping[bool, Range]) -> None:
    """Constants, rows and left-out percentiles into the runtime's file."""
    rows, gpus = len(fit.points), ", ".join(gpus_of(fit.points))
    where = f"measurements/{' and '.join(PUBLISHED)}: {rows} rows on {gpus}; least mean |ln(measured / predicted)|"
    told = rows if fit.tells_launch else 0
    launch = {"value": fit.constants.launch_s, "low": min(fit.single_s), "high": max(fit.single_s), "points": told}
    path = SHIPPED / "runtimes" / f"{fit.name}.toml"
    text = path.read_text(encoding="utf-8")
    text = with_table(text, "launch_s", launch, f"{where}; {OF_SINGLE_GPUS}" if told else OF_OTHERS)
    if fit.constants.host_s_per_audio_s:
        tells = tells_reading(fit.points)
        reading = {"value": fit.constants.host_s_per_audio_s, "points": rows if tells else 0}
        few = "too few rows to tell it from launching: the mean of runtimes with more"
        text = with_table(text, "speech.host_s_per_audio_s", reading, where if tells else few)
    for kind, found in ranges.items():
        text = with_range(text, f"{KINDS[kind]}_range", fit.rows_of(kind), found)
    path.write_text(text, encoding="utf-8")
    print(f"{fit.name}: {rows} rows, {fit.constants}")


def with_range(text: str, name: str, rows: Sequence[Point], found: Range) -> str:
    """The text with a range, and the rows and GPUs that the constants rest on."""
    figures = {"low": found.low, "high": found.high, "rows": len(rows), "points": found.points}
    text = with_table(text, name, figures, found.source)
    head, begin, rest = text.partition(f"[{name}]\n")
    return (
        head + begin + re.sub(r"^gpus = .*$", f"gpus = {json.dumps(gpus_of(rows))}", rest, count=1, flags=re.MULTILINE)
    )


def with_table(text: str, name: str, figures: dict[str, float], source: str) -> str:
    """The text with these figures and this source in the table `name`."""
    head, begin, rest = text.partition(f"[{name}]\n")
    body, end, tail = rest.partition("\n[")
    for key, value in figures.items():
        body = re.sub(rf"^{key} = .*$", f"{key} = {value:.4g}", body, flags=re.MULTILINE)
    body = re.sub(r"^source = .*$", lambda _: f'source = "{source}"', body, flags=re.MULTILINE)
    return head + begin + body + end + tail
