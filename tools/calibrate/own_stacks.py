"""How far stacks, models, layouts, sweeps and runs differ from predictions, on rows that no fit had seen.

`python -m tools.calibrate own-stacks` refits every engine without each source, or without each model where only one
source measured its GPU, takes ln(measured / predicted) of closed loops with room for 16, beside steps of training whose
source was left out, and writes the standard deviations of its parts to `data/calibration/own_stacks.toml`: maximum
likelihood of a normal with that covariance, sweeps as much wider as makes own runs worth most to a stack. It prints
what own runs are worth then: the error of each exact stack before and after 2, 5 or 20 of its rows are given, and that
of the other models on its GPU; and how often ranges hold of stacks that are drawn from the prior.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from tools.calibrate.engines import FILES, GROUPINGS, ROOT, SOURCE, left_out_residuals
from tools.calibrate.eras import Residual
from tools.calibrate.serving_rows import CLOSED_LOOP, read_points

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.own_stack import STEP, TIMES, OwnRun, Spreads, alike, fitted, layout_name, load_of, model_name

TABLE = ROOT / "src" / "gpufleet" / "data" / "calibration" / "own_stacks.toml"
START = Spreads(0.05, 0.05, 0.05, 0.05, 0.1)
FARTHEST, FEWEST_ROWS, STEPS, DRAWS, SEED, FIRST_LINE = 1.2, 25, 600, 200, 1, 2
LEAST_SHARED = 0.02
"""Ten stacks cannot tell that models share nothing."""
GIVEN = (2, 5, 20)
WIDER = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
"""How much wider than likeliest sweeps may be taken."""
LOADS = {"tpot": (0.0, 0.01, 0.02, 0.03, 0.04)}
"""How far the error of a model may grow with its load; first tokens are queues, which have no such slope."""
NUM_PARTS = 5
BIASED, UPPER, RESAMPLED, NUM_DRAWN = 2.0, 0.95, 4000, 1000
NORMAL_90 = 1.2815515655446004
HEADER = """# How far stacks, models, layouts, sweeps and runs differ: standard deviations of ln(measured / predicted)
# of closed loops, and of steps of training, whose source, or else whose model, no fit had seen. Maximum likelihood, and
# sweeps as much wider, and slopes with the load as wide, as makes own runs worth most to a stack; written by
# `python -m tools.calibrate own-stacks`.
"""


class Row(NamedTuple):
    """A row of a stack: its run, and what makes it of one exact stack with others."""

    run: OwnRun
    exact: Hashable


Stacks = Mapping[tuple[str, str], list[Row]]


def stacks_of(residuals: Sequence[Residual], time: str) -> Stacks:
    """Rows of a time by engine and GPU."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for r in residuals:
        p = r.point
        if r.quantity == time and p.scenario == CLOSED_LOOP and r.is_possible and r.has_room:
            layout = layout_name(p.layout.tp, p.layout.pp, p.layout.attention_dp)
            model = model_name(p.model_id, str(p.precision))
            run = OwnRun(model, f"{layout} {p.version}", str(p.lengths), r.log_ratio, load_of(r.sequences))
            found[r.era.engine, p.gpu].append(Row(run, (r.era.engine, p.version, p.gpu, model)))
    return found


def likeliest(stacks: Stacks) -> Spreads:
    """Spreads under which the rows are likeliest, those far out taken for less."""

    shared = [shared_parts([row.run for row in rows]) for rows in stacks.values()]

    def unlikely(logs: FloatArray) -> float:
        return sum(minus_log_likelihood(y, parts, np.exp(2 * logs)) for y, parts in shared)

    found = minimize(unlikely, np.log(astuple(START)[:NUM_PARTS]), method="Nelder-Mead", options={"maxiter": STEPS})
    best = Spreads(*(float(x) for x in np.exp(found.x)))
    return replace(best, stacks=max(best.stacks, LEAST_SHARED))


def shared_parts(runs: Sequence[OwnRun]) -> tuple[FloatArray, FloatArray]:
    """Residuals of a stack, and where two rows share a stack, a model, a layout, a sweep, a run [part, row, row]."""
    names: list[list[Hashable]] = [
        [0] * len(runs),
        [run.model for run in runs],
        [(run.model, run.layout) for run in runs],
        [(run.model, run.layout, run.sweep) for run in runs],
        list(range(len(runs))),
    ]
    return np.clip([run.log_ratio for run in runs], -FARTHEST, FARTHEST), np.array([alike(each) for each in names])


def minus_log_likelihood(y: FloatArray, parts: FloatArray, variances: FloatArray) -> float:
    """-ln of the likelihood of a stack's rows, but for a constant."""
    root = np.linalg.cholesky(np.tensordot(variances, parts, axes=1))
    white = np.linalg.solve(root, y)
    return float(np.log(np.diag(root)).sum() + white @ white / 2)


def training_stacks(measurements: Path) -> Stacks:
    """Steps of training whose source was left out of the fit, by source and GPU."""
    with (measurements / "training_throughput.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    with (measurements / "left_out" / "left_out_training.csv").open(encoding="utf-8") as file:
        for left in csv.DictReader(file):
            row, source = rows[int(left["row"]) - FIRST_LINE], left["source"].replace("-archive", "")
            if left["left_out"] == "source":
                log = math.log(float(left["predicted"]) / float(left["measured"]))
                layout = layout_name(int(row["tp"] or 1), int(row["pp"] or 1), 1)
                run = OwnRun(f"{row['model']} in {row['precision']}", layout, row["seq_len"], log)
                found[source, row["gpu_id"]].append(Row(run, (source, row["gpu_id"])))
    return found


def worthiest(stacks: Stacks, likeliest: Spreads, loads: Sequence[float]) -> Spreads:
    """Sweeps as much wider, and slopes as wide, as takes most off the error of a stack, in parts of its own error.

    A normal part is too sure of a stack whose sweeps differ more than those of others; a mean of plain errors is that
    of the few stacks that are far off. It says which width wins without each engine and GPU, too.
    """
    ways = list(itertools.product(WIDER, loads))
    tried = [replace(likeliest, sweeps=likeliest.sweeps * wider, loads=slope) for wider, slope in ways]
    worths = [[dict(worth_of(stacks, spreads, n)) for n in GIVEN] for spreads in tried]
    names = list(worths[0][0])
    parts = np.array([[[of_n[name].part for name in names] for of_n in each] for each in worths]).mean(axis=1)
    wins = {
        name: int(parts[:, [at_same(other) != at_same(name) for other in names]].mean(axis=1).argmin())
        for name in names
    }
    best = int(parts.mean(axis=1).argmin())
    print(f"  sweeps x{ways[best][0]:g}, slopes {ways[best][1]:g}; without any one engine and GPU: ", end="")
    print(sorted({ways[at] for at in wins.values()}))
    return tried[best]


def at_same(name: tuple[str, ...]) -> tuple[str, str]:
    """The engine and GPU of an exact stack; the source of one of training."""
    return name[0], name[2 % len(name)]


class Worth(NamedTuple):
    """Mean |ln error| of the rest of a stack before rows are given, and what they do to it and to other models."""

    before: float
    same: float
    other: float | None

    @property
    def part(self) -> float:
        """The change in parts of the error."""
        return self.same / self.before


def worth_of(stacks: Stacks, spreads: Spreads, num_given: int) -> Iterator[tuple[tuple[str, ...], Worth]]:
    """What so many rows of one sweep are worth to each exact stack, drawn again and again."""
    rng = np.random.default_rng(SEED)
    for rows in stacks.values():
        exact: dict[Hashable, list[Row]] = defaultdict(list)
        for row in rows:
            exact[row.exact].append(row)
        for name, own in exact.items():
            if len(own) >= FEWEST_ROWS:
                drawn = [worth_once(own, rows, spreads, num_given, rng) for _ in range(DRAWS)]
                others = [d.other for d in drawn if d.other is not None]
                before, same = (float(np.mean([getattr(d, at) for d in drawn])) for at in ("before", "same"))
                yield name, Worth(before, same, float(np.mean(others)) if others else None)


def worth_once(
    own: Sequence[Row], rows: Sequence[Row], spreads: Spreads, num_given: int, rng: np.random.Generator
) -> Worth:
    """The same of one draw; twenty rows are of all sweeps, fewer of one."""
    sweeps: dict[Hashable, list[int]] = defaultdict(list)
    for number, row in enumerate(own):
        sweeps["all" if num_given == max(GIVEN) else (row.run.layout, row.run.sweep)].append(number)
    wide = [each for each in sweeps.values() if len(each) >= num_given] or [list(range(len(own)))]
    chosen = wide[rng.integers(len(wide))]
    given = set(rng.choice(chosen, min(num_given, len(own) - 5), replace=False).tolist())
    found = fitted([own[number].run for number in given], spreads)
    rest = [row.run for number, row in enumerate(own) if number not in given]
    others = [row.run for row in rows if row.run.model != own[0].run.model]
    moved = [
        [abs(r.log_ratio - found.factor_of(r.model, r.layout).log_at(r.load)) - abs(r.log_ratio) for r in runs]
        for runs in (rest, others)
    ]
    before = float(np.mean([abs(r.log_ratio) for r in rest]))
    return Worth(before, float(np.mean(moved[0])), float(np.mean(moved[1])) if others else None)


def told(stacks: Stacks, spreads: Spreads, num_given: int) -> Iterator[str]:
    """What so many rows are worth, in lines: points are hundredths of |ln error|."""
    worths = dict(worth_of(stacks, spreads, num_given))
    same, before = (np.array([getattr(worth, at) for worth in worths.values()]) for at in ("same", "before"))
    drawn = np.random.default_rng(SEED).integers(len(same), size=(RESAMPLED, len(same)))
    upper, worst = np.quantile(same[drawn].mean(axis=1), UPPER), max(worths, key=lambda name: worths[name].same)
    other = [worth.other for worth in worths.values() if worth.other is not None]
    yield (
        f"  {num_given} rows, {len(same)} stacks: {same.mean():+.2%} (upper {UPPER:.0%}: {upper:+.2%}; of the error "
        f"{same.mean() / before.mean():+.0%}), worst {same.max():+.2%} ({' '.join(map(str, worst))})"
    )
    others = f"; other models {np.mean(other):+.2%}, worst {max(other):+.2%}" if other else ""
    yield f"    median over stacks {np.median(before):.1%} -> {np.median(before + same):.1%}{others}"
    logs: dict[Hashable, list[float]] = defaultdict(list)
    for row in (row for rows in stacks.values() for row in rows):
        logs[row.exact].append(row.run.log_ratio)
    for name, worth in worths.items():
        if abs(np.mean(logs[name])) > BIASED * np.std(logs[name]):
            yield f"    biased: {' '.join(map(str, name))}, {worth.before:.1%} of error, {worth.part:+.0%}"


def held_of_drawn(spreads: Spreads) -> float:
    """How often ranges hold a new sweep of the same layout, of stacks drawn from the prior, four runs of one given."""
    rng, wide, held = np.random.default_rng(SEED), NORMAL_90 * math.sqrt(spreads.all_squared), []
    for _ in range(NUM_DRAWN):
        shared = sum(rng.normal(0, sd) for sd in (spreads.stacks, spreads.models, spreads.layouts))
        given, new = rng.normal(shared, spreads.sweeps, 2)
        found = fitted([OwnRun("a", "TP1", "s", float(log)) for log in rng.normal(given, spreads.runs, 4)], spreads)
        off = abs(rng.normal(new, spreads.runs) - found.factor_of("a", "TP1").log)
        held.append(off <= wide * found.range_ratio("a", "TP1"))
    return float(np.mean(held))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this command."""
    parser.add_argument("--measurements", type=Path, default=ROOT / "measurements")


def run(arguments: argparse.Namespace) -> None:
    """Fit, write, and say what own runs are worth."""
    points = read_points([arguments.measurements / name for name in FILES])
    residuals = left_out_residuals(points, GROUPINGS["source-or-model"](points))
    by_time = {time: stacks_of(residuals, time) for time in TIMES} | {STEP: training_stacks(arguments.measurements)}
    TABLE.write_text("\n".join(table_of(by_time)) + "\n", encoding="utf-8")


def table_of(by_time: Mapping[str, Stacks]) -> Iterator[str]:
    """The table, line by line; what it is worth is printed on the way."""
    yield HEADER + f'source = "{SOURCE}"'
    for time, stacks in by_time.items():
        print(time)
        spreads = worthiest(stacks, likeliest(stacks), LOADS.get(time, (0.0,)))
        print(f"  {held_of_drawn(spreads):.1%} of {NUM_DRAWN:,} drawn stacks in their 80% ranges")
        print(*(line for num_given in GIVEN for line in told(stacks, spreads, num_given)), sep="\n")
        yield from ("", f"[{time}]", *(f"{name} = {value:.4f}" for name, value in vars(spreads).items()))
