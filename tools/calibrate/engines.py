"""Fits the step constants of each engine era to measured serving, and learns ranges from what was left out.

`python tools/calibrate engines --measurements measurements` writes `data/calibration/engines.toml` and
`left_out_model.csv`. `--leave-out model|gpu|source` refits without each group in turn and reports the errors on it.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtr, ndtri
from tools.calibrate.constants import (
    CONSTANTS,
    NEUTRAL,
    OF_FIRST_TOKENS,
    OF_STEPS,
    UNITS_OF_CONSTANTS,
    Constant,
    names_of,
)
from tools.calibrate.eras import ERAS, Era, Residual, era_name
from tools.calibrate.lending import LOANS, NEAREST
from tools.calibrate.ranges import FIGURES, TAIL, UNITS, Ranges, figures_of, time_log_ratio
from tools.calibrate.serving_rows import (
    AS_SHIPPED,
    CLOSED_LOOP,
    NO_LOANS,
    QUANTITIES,
    Point,
    PointBatch,
    Substitutes,
    batches,
    read_points,
)

from gpufleet.catalog.calibration import Loan, loan_for
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.table_files import toml_of
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.versions import NAMED_BUILD, version_key
from gpufleet.performance.uncertainty import borrowed_log_ratios
from gpufleet.provenance import Grade

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "gpufleet" / "data" / "calibration"
WAS_LEFT_OUT = ROOT / "measurements" / "left_out"
ERA_TABLES = DATA / "engines.toml"
SOURCE = "measurements-serving"
ALL_ENGINES = "all engines"


@dataclass(frozen=True)
class Grouping:
    """What is left out together: the groups by which rows are predicted, and the rows that a fit may not see then."""

    group: Callable[[Point], str]
    touches: Callable[[Point, str], bool]


def alike(group: Callable[[Point], str]) -> Grouping:
    """Rows are predicted by a fit that saw no row of their group."""
    return Grouping(group, lambda point, name: group(point) == name)


def source_or_model(points: Sequence[Point]) -> Grouping:
    """The source where another one shares its engine era and GPU, else the model."""
    sources: dict[tuple[Era, str], set[str]] = defaultdict(set)
    for p in points:
        sources[era_name(p), p.gpu].add(p.source)
    return Grouping(
        lambda p: p.source if len(sources[era_name(p), p.gpu]) > 1 else p.model_id,
        lambda p, name: name in (p.source, p.model_id),
    )


GROUPINGS: dict[str, Callable[[Sequence[Point]], Grouping]] = {
    "model": lambda points: alike(lambda p: p.model_id),
    "gpu": lambda points: alike(lambda p: p.gpu),
    "source": lambda points: alike(lambda p: p.source),
    "source-or-model": source_or_model,
}
FILES = ("serving_points.csv", "inference_throughput.csv")
ROW_SPREAD, GROUP_SPREAD = 0.11, 0.19  # of ln(predicted / measured) of TPOT: within a group, and between groups
PRIOR_WEIGHT = 1.0
CHILD_WEIGHT = 4.0
LINEAR_FROM = 0.1  # log ratios, in units of the scale of their group, that count by their size and not by its square
EDGE = 1e-6
DECILES = range(1, 10)
ROOM_SEQUENCES = 16
FAR_SHARE = 0.25
FAR_QUANTILE = 0.8


class Stage(NamedTuple):
    """Constants that are fitted together, to these quantities."""

    constants: tuple[str, ...]
    quantities: tuple[str, ...]

    def without(self, held: Sequence[str]) -> Stage:
        """The same with some of its constants left as they are."""
        return self._replace(constants=tuple(name for name in self.constants if name not in held))


STEP = Stage(names_of(OF_STEPS), ("tpot", "rate", "latency"))
FIRST_TOKEN = Stage(names_of(OF_FIRST_TOKENS), ("ttft",))


def constants_of(era: Era) -> list[Constant]:
    """The constants of an era with its priors: those of all engines, and what it alone has a prior for."""
    known = [c for c in CONSTANTS if c.name in NEUTRAL or c.name in era.priors]
    general = [replace(c, spread=c.spread * era.freedom) for c in known]
    own = {name: {"prior": p.value, "spread": p.spread} for name, p in era.priors.items()}
    return [replace(c, **own.get(c.name, {})) for c in general]


def fit(data: Sequence[PointBatch], era: Era, held: Sequence[str] = ()) -> dict[str, float]:
    """Constants that bring predictions nearest to the measurements: first the step, on which the first token rests.

    Those `held` stay at their priors.
    """
    values = {c.name: c.prior for c in constants_of(era)}
    for stage in (STEP, FIRST_TOKEN):
        values |= fit_stage(data, era, stage.without(held), values, PRIOR_WEIGHT)
    return values


def fit_stage(
    data: Sequence[PointBatch], era: Era, stage: Stage, values: dict[str, float], weight: float
) -> dict[str, float]:
    """Robust least squares over one stage's constants, drawn towards the values that they come with."""
    if not data:
        return {}
    free = [c for c in constants_of(era) if c.name in stage.constants]
    spread = np.array([c.spread for c in free])
    prior = np.array([values[c.name] for c in free])

    def constants(scaled: FloatArray) -> dict[str, float]:
        return {c.name: float(v) for c, v in zip(free, prior + scaled * spread, strict=True)}

    def residuals(scaled: FloatArray) -> FloatArray:
        tried = values | constants(scaled)
        return np.concatenate([*weighted(data, tried, stage.quantities), scaled * weight])

    ends = [np.array([getattr(c, end) for c in free]) for end in ("low", "high")]
    bounds = [(ends[0] - prior) / spread - EDGE, (ends[1] - prior) / spread + EDGE]
    found = least_squares(residuals, np.zeros(len(free)), bounds=bounds, loss="soft_l1", f_scale=LINEAR_FROM)
    inside = np.clip(prior + found.x * spread, *ends)
    return {c.name: float(v) for c, v in zip(free, inside, strict=True)}


def fit_family(data: dict[Era, list[PointBatch]], held: Sequence[str] = ()) -> dict[Era, dict[str, float]]:
    """Constants of every era: those of one parent share the step; their first token is drawn towards the common one."""
    families: dict[tuple[str, str | None], list[Era]] = defaultdict(list)
    for era in data:
        families[era.engine, era.parent or era.name].append(era)
    found = {}
    for eras in families.values():
        common = fit([b for era in eras for b in data[era]], eras[0], held)
        for era in eras:
            alone = era.parent is None or not data[era]
            own = {} if alone else fit_stage(data[era], era, FIRST_TOKEN.without(held), common, CHILD_WEIGHT)
            found[era] = common | own
    return found


def weighted(data: Sequence[PointBatch], constants: Mapping[str, float], quantities: Sequence[str]) -> list[FloatArray]:
    """Log ratios in units of the scale of their group."""
    parts = []
    for batch in data:
        serving = batch.predict(constants)
        for quantity in quantities:
            ratios = batch.log_ratios(serving, quantity)
            use = np.isfinite(ratios) & batch.is_possible
            parts.append(ratios[use] / group_scale(batch.group_sizes[use]))
    return parts


def group_scale(size: FloatArray) -> FloatArray:
    """Scale of ln(predicted / measured) of each row of a group of (model, GPU, precision) of this size.

    sqrt(row ** 2 + size * group ** 2): rows of a group share an offset, so that many tell no more of it than a few do.

    >>> (group_scale(np.array([1.0])) / group_scale(np.array([100.0])) * 10).round(2).tolist()
    [1.15]
    """
    return np.asarray(np.sqrt(ROW_SPREAD**2 + size * GROUP_SPREAD**2), dtype=np.float64)


def nearest_loan(gpu: str) -> Loan:
    """The curves that a measured GPU would borrow if nobody had measured it."""
    donor = NEAREST[gpu]
    return Loan(donor, Grade.TRANSFERRED, 1.0, "left out", LOANS[donor, gpu])


def left_out_residuals(
    points: Sequence[Point], grouping: Grouping, lends_kernels: bool = False, instead: Substitutes = AS_SHIPPED
) -> list[Residual]:
    """Refit the engines of each group without it and predict it, with its GPU's kernels or the nearest GPU's."""
    found = []
    for name in sorted({grouping.group(p) for p in points}):
        held = [p for p in points if grouping.group(p) == name]
        families = {era_name(p).family_key for p in held}
        teachers = [p for p in points if not grouping.touches(p, name) and era_name(p).family_key in families]
        constants = fit_family(by_era(teachers, instead=instead), instead.held)
        for era, batched in by_era(held, {name: nearest_loan(name)} if lends_kernels else {}, instead).items():
            found += residuals_of(batched, constants[era], era)
    return found


def lent_residuals(points: Sequence[Point]) -> list[Residual]:
    """Each GPU predicted by a fit that saw neither its runs nor its kernels: what the nearest GPU's curves miss."""
    known = [p for p in points if p.gpu in NEAREST]
    return left_out_residuals(known, GROUPINGS["gpu"](known), lends_kernels=True)


def residuals_of(data: Sequence[PointBatch], constants: dict[str, float], era: Era) -> list[Residual]:
    """Residuals of every measured quantity under these constants."""
    found = []
    for batch in data:
        possible, sequences = batch.is_possible, batch.sequences_per_group
        lent = list(zip(*(ends.tolist() for ends in borrowed_log_ratios(batch.model)), strict=True))
        roomy, is_moe = batch.largest_batch >= ROOM_SEQUENCES, batch.model.arch.is_moe
        serving = batch.predict(constants)
        for quantity in QUANTITIES:
            ratios = batch.log_ratios(serving, quantity)
            for i, point in enumerate(batch.points):
                if np.isfinite(ratios[i]):
                    ratio, use = float(ratios[i]), bool(possible[i])
                    found.append(
                        Residual(era, quantity, point, ratio, use, float(sequences[i]), bool(roomy[i]), lent[i], is_moe)
                    )
    return found


def error_percent(residuals: Iterable[Residual]) -> FloatArray:
    """|predicted / measured - 1| in percent."""
    return np.abs(np.exp([-r.log_ratio for r in residuals]) - 1) * 100


def _throughput(residual: Residual) -> bool:
    engines = ("tensorrt-llm", "vllm", "gpt-fast")
    return residual.quantity == "rate" and residual.era.engine in engines


def _is_measured(residual: Residual) -> bool:
    return loan_for(load_catalog().accelerators[residual.point.gpu]).grade is Grade.MEASURED


HEADLINES: dict[str, Callable[[Residual], bool]] = {
    "serving TPOT": lambda r: r.quantity == "tpot" and r.point.scenario == CLOSED_LOOP,
    "serving TPOT, without what no device could run": lambda r: HEADLINES["serving TPOT"](r) and r.is_possible,
    "serving TTFT": lambda r: r.quantity == "ttft" and r.point.scenario == CLOSED_LOOP,
    "throughput, measured GPUs, room for 16": lambda r: _throughput(r) and _is_measured(r) and r.has_room,
    "throughput, measured GPUs, starved": lambda r: _throughput(r) and _is_measured(r) and not r.has_room,
    "throughput, one sequence": lambda r: _throughput(r) and _is_measured(r) and r.point.concurrency == 1,
    "throughput, transferred GPUs": lambda r: _throughput(r) and not _is_measured(r),
}


def by_era(
    points: Sequence[Point], loans: Mapping[str, Loan] = NO_LOANS, instead: Substitutes = AS_SHIPPED
) -> dict[Era, list[PointBatch]]:
    """Batches of each era; single measurements of an engine with several eras must say their version."""
    grouped: dict[Era, list[Point]] = defaultdict(list)
    several = {era.engine for era in ERAS if era.until is not None}
    for p in points:
        if p.version is not None or p.engine not in several or p.scenario == CLOSED_LOOP:
            grouped[era_name(p)].append(p)
    return {era: batches(grouped[era], loans, instead) for era in ERAS}


def log_per_doubling(points: Sequence[Point]) -> float:
    """How far predictions move, by doubling, beyond what a fit had seen: 80th percentile of |ln|.

    Sequences, GPUs, input and output lengths in turn: the constants are fitted to what lies under a quarter of the
    most of an era, and to everything.
    """
    data = by_era(points)
    known = fit_family(data)
    everything = {era: residuals_of(batched, known[era], era) for era, batched in data.items() if batched}
    moved: list[float] = []
    for figure in FIGURES:
        edges = {era: FAR_SHARE * max(figures_of(r)[figure] for r in rs) for era, rs in everything.items()}
        near = {id(r.point) for era, rs in everything.items() for r in rs if figures_of(r)[figure] <= edges[era]}
        seen = by_era([p for p in points if id(p) in near])
        blind = fit_family(seen)
        for era in (era for era, batched in seen.items() if batched):
            moved += _moves(everything[era], residuals_of(data[era], blind[era], era), figure, edges[era])
    return float(np.quantile(moved, FAR_QUANTILE))


def _moves(seen: Sequence[Residual], blind: Sequence[Residual], figure: str, edge: float) -> list[float]:
    """ln between two predictions of what lies beyond an edge, by doubling."""
    doublings = [np.log2(figures_of(r)[figure] / edge) for r in seen]
    return [
        abs(one.log_ratio - other.log_ratio) / far
        for one, other, far in zip(seen, blind, doublings, strict=True)
        if far > 0
    ]


@dataclass(frozen=True)
class Scored:
    """A residual and whether the measurement lies within the range that its era gives."""

    residual: Residual
    held: bool
    half_width_ratio: float
    quantile: float


def scored(
    outside: Sequence[Residual],
    teachers: Sequence[Residual],
    lent: Sequence[Residual],
    grouping: Grouping,
    beyond_log: float,
) -> list[Scored]:
    """Residuals of each group against the range that the other groups of `teachers` and of `lent` give."""
    found = []
    for group in sorted({grouping.group(r.point) for r in outside}):
        others = [[r for r in each if not grouping.touches(r.point, group)] for each in (teachers, lent)]
        ranges = Ranges.learnt(*others, beyond_log)
        for r in (r for r in outside if grouping.group(r.point) == group):
            low, high = ranges.ends(r)
            at = time_log_ratio(r)
            width = float(np.expm1((high - low) / 2))
            found.append(Scored(r, low <= at <= high, width, quantile_at(at, low, high)))
    return found


def quantile_at(log_ratio: float, low: float, high: float) -> float:
    """Which quantile of its prediction a measurement is, a normal of logarithms on either side of what is expected.

    >>> [round(quantile_at(at, -0.1, 0.3), 2) for at in (-0.1, 0.0, 0.3)]
    [0.1, 0.5, 0.9]
    """
    return float(ndtr(-ndtri(TAIL) * log_ratio / (high if log_ratio > 0 else -low)))


def left_out_rows(everything: Sequence[Scored]) -> list[dict[str, object]]:
    """Errors and range coverage of each source and quantity, and of all together, on what the fit had not seen."""
    groups: dict[tuple[str, str, str, str], list[Scored]] = defaultdict(list)
    for s in everything:
        r = s.residual
        groups[r.era.engine, r.era.name, r.point.source, r.quantity].append(s)
        groups[ALL_ENGINES, "", "all sources", r.quantity].append(s)
    return [_left_out_row(key, group) for key, group in sorted(groups.items())]


def _left_out_row(key: tuple[str, str, str, str], group: list[Scored]) -> dict[str, object]:
    errors = error_percent(s.residual for s in group)
    return {
        **dict(zip(("engine", "era", "source", "quantity"), key, strict=True)),
        "rows": len(group),
        "median_error_percent": round(float(np.median(errors)), 1),
        "mean_error_percent": round(float(errors.mean()), 1),
        "bias_percent": round(float(np.expm1(np.median([-s.residual.log_ratio for s in group])) * 100), 1),
        "in_range_percent": round(float(np.mean([s.held for s in group]) * 100), 1),
        "half_width_percent": round(float(np.median([s.half_width_ratio for s in group]) * 100), 1),
        **{
            f"below_{d}0_percent": round(float(np.mean([s.quantile < d / 10 for s in group]) * 100), 1) for d in DECILES
        },
    }


def era_toml(era: Era, constants: dict[str, float], data: Sequence[PointBatch]) -> str:
    """One era as a TOML table; the ranges of its constants are the priors' spread, their points the rows fitted."""
    units = UNITS_OF_CONSTANTS | UNITS
    points = sum(len(b.points) for b in data)
    models = sorted({p.model_id for b in data for p in b.points})
    lines = ["[[era]]", f'engine = "{era.engine}"', f'name = "{era.name}"']
    lines += [f'until = "{era.until}"'] if era.until else []
    lines += [
        f'grade = "{era.grade}"',
        f'source = "{SOURCE}"',
        *measured_line(data),
        f"points = {points}",
        f"models = {models}".replace("'", '"'),
    ]
    lines += ["[era.constants]"]
    lines += [
        f'{name} = {{ value = {value:.6g}, unit = "{units.get(name, "ln")}" }}' for name, value in constants.items()
    ]
    return "\n".join(lines)


def measured_line(data: Sequence[PointBatch]) -> list[str]:
    """The oldest and the newest release among the rows of an era; nothing where none states one."""
    versions = {point.version for batch in data for point in batch.points if point.version is not None}
    releases = sorted((v for v in versions if version_key(v) != NAMED_BUILD), key=lambda v: (version_key(v), v))
    return [f'measured = ["{releases[0]}", "{releases[-1]}"]'] if releases else []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this command."""
    parser.add_argument("--measurements", type=Path, default=ROOT / "measurements")
    parser.add_argument("--leave-out", choices=sorted(GROUPINGS), default="model")
    parser.add_argument("--lend-kernels", action="store_true", help="a GPU left out borrows kernel curves too")
    parser.add_argument("--report-only", action="store_true", help="write no constants, only the left-out table")
    parser.add_argument("--only", nargs="+", metavar="ENGINE", help="write tables and rows of these engines alone")


def run(arguments: argparse.Namespace) -> None:
    """Fit every era, learn its ranges from what was left out, write constants and the left-out table."""
    points = read_points([arguments.measurements / name for name in FILES])
    grouping = GROUPINGS[arguments.leave_out](points)
    if arguments.lend_kernels:
        points = [p for p in points if p.gpu in NEAREST]
    outside = left_out_residuals(points, grouping, arguments.lend_kernels)
    beyond_log = log_per_doubling(points)
    teachers = left_out_residuals(points, grouping) if arguments.lend_kernels else outside
    lent = outside if arguments.lend_kernels else lent_residuals(points)
    everything = scored(outside, teachers, lent, grouping, beyond_log)
    rows = left_out_rows(everything)
    print_summary(rows)
    print_headlines(everything)
    name = arguments.leave_out.replace("-", "_") + "_and_kernels" * arguments.lend_kernels
    path = WAS_LEFT_OUT / f"left_out_{name}.csv"
    write_rows(path, [*rows_of_others(path, arguments.only), *rows_of(rows, arguments.only)])
    if not arguments.report_only:
        data, ranges = by_era(points), Ranges.learnt(outside, lent, beyond_log)
        found = {e: c | ranges.constants(e.family_key, e.key, e.span_key) for e, c in fit_family(data).items()}
        tables = {e.key: era_toml(e, constants, data[e]) for e, constants in found.items()}
        tables |= {key: table for key, table in shipped_tables().items() if not is_written(key[0], arguments.only)}
        ERA_TABLES.write_text("\n\n".join(tables.values()) + "\n", encoding="utf-8")


def is_written(engine: str, only: Sequence[str] | None) -> bool:
    """Whether what is fitted of an engine replaces what ships."""
    return only is None or engine in only


def shipped_tables() -> dict[tuple[str, str], str]:
    """The tables of all eras as they ship, letter for letter."""
    tables = ERA_TABLES.read_text(encoding="utf-8").strip().split("\n\n")
    eras = toml_of(ERA_TABLES)["era"]
    return {(era["engine"], era["name"]): table for era, table in zip(eras, tables, strict=True)}


def rows_of_others(path: Path, only: Sequence[str] | None) -> list[dict[str, object]]:
    """Rows of a left-out table that stay as they are; those of all engines together are always new."""
    if only is None:
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return [dict(row) for row in csv.DictReader(stream) if row["engine"] not in (ALL_ENGINES, *only)]


def rows_of(rows: Sequence[dict[str, object]], only: Sequence[str] | None) -> list[dict[str, object]]:
    """Rows that replace what ships, and those of all engines."""
    return [row for row in rows if row["engine"] == ALL_ENGINES or is_written(str(row["engine"]), only)]


def print_summary(rows: Sequence[dict[str, object]]) -> None:
    """Every group, the largest median error first."""
    for row in sorted(rows, key=lambda r: -float(str(r["median_error_percent"]))):
        print("  ".join(str(value) for value in row.values()))


def print_headlines(everything: Sequence[Scored]) -> None:
    """The figures that the project is judged by, on what was left out."""
    for name, belongs in HEADLINES.items():
        group = [s for s in everything if belongs(s.residual)]
        if not group:
            continue
        errors, held = error_percent(s.residual for s in group), np.mean([s.held for s in group])
        width = np.median([s.half_width_ratio for s in group])
        print(
            f"{name}: {len(group)} rows, median {np.median(errors):.1f} %, mean {errors.mean():.1f} %, "
            f"held {held:.0%}, half-width {width:.0%}"
        )


def write_rows(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """A CSV file with one line per group, in the order of their names."""
    rows = sorted(rows, key=lambda row: [str(row[name]) for name in ("engine", "era", "source", "quantity")])
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
