"""How far stacks, models, layouts, sweeps and runs differ from predictions, on rows that no fit had seen.

`python -m tools.calibrate own-stacks` refits every engine without each source, or without each model where only one
source measured its GPU, takes ln(measured / predicted) of closed loops with room for 16, and writes the standard
deviations of its parts to `data/calibration/own_stacks.toml`: maximum likelihood of a normal with that covariance,
sweeps wider where that costs nearly nothing. It prints what own runs are worth then: the error of each exact stack with
25 rows or more before and after 2, 5 or 20 of its rows are given, and that of the other models on its GPU.
"""

from __future__ import annotations

import argparse
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
from gpufleet.domain.own_stack import TIMES, OwnRun, Spreads, alike, fitted, layout_name, model_name

TABLE = ROOT / "src" / "gpufleet" / "data" / "calibration" / "own_stacks.toml"
START = Spreads(0.05, 0.05, 0.05, 0.05, 0.1)
FARTHEST, FEWEST_ROWS, STEPS, DRAWS, SEED = 1.2, 25, 600, 200, 1
LEAST_SHARED = 0.02
"""Ten stacks cannot tell that models share nothing."""
GIVEN = (2, 5, 20)
WIDER, KEPT = (1.0, 1.5, 2.0, 3.0), 0.95
"""How much wider than likeliest sweeps may be taken, and what share of the worth of two runs that has to leave."""
HEADER = """# How far stacks, models, layouts, sweeps and runs differ: standard deviations of ln(measured / predicted)
# of closed loops whose source, or else whose model, no fit had seen. Maximum likelihood, and sweeps wider where that
# costs nearly nothing; written by `python -m tools.calibrate own-stacks`.
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
            run = OwnRun(model, f"{layout} {p.version}", str(p.lengths), r.log_ratio)
            found[r.era.engine, p.gpu].append(Row(run, (r.era.engine, p.version, p.gpu, model)))
    return found


def likeliest(stacks: Stacks) -> Spreads:
    """Spreads under which the rows are likeliest, those far out taken for less."""

    shared = [shared_parts([row.run for row in rows]) for rows in stacks.values()]

    def unlikely(logs: FloatArray) -> float:
        return sum(minus_log_likelihood(y, parts, np.exp(2 * logs)) for y, parts in shared)

    found = minimize(unlikely, np.log(astuple(START)), method="Nelder-Mead", options={"maxiter": STEPS})
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


def with_cautious_sweeps(stacks: Stacks, likeliest: Spreads) -> Spreads:
    """Sweeps taken as much wider as leaves nearly all that two runs are worth: the worst stacks lose least then.

    A normal part is too sure of a stack whose sweeps differ more than those of others.
    """
    tried = [replace(likeliest, sweeps=likeliest.sweeps * wider) for wider in WIDER]
    taken_off = [-mean_of_same(stacks, spreads, min(GIVEN)) for spreads in tried]
    return [spreads for spreads, off in zip(tried, taken_off, strict=True) if off >= KEPT * max(taken_off)][-1]


def mean_of_same(stacks: Stacks, spreads: Spreads, num_given: int) -> float:
    """What given rows do to the mean error of the rest of their stack, over stacks."""
    return float(np.mean([worth.same for _, worth in worth_of(stacks, spreads, num_given)]))


class Worth(NamedTuple):
    """What given rows did to the mean |ln error|: of the rest of the stack, and of other models on its GPU."""

    same: float
    other: float | None


def worth_of(stacks: Stacks, spreads: Spreads, num_given: int) -> Iterator[tuple[Hashable, Worth]]:
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
                yield name, Worth(float(np.mean([d.same for d in drawn])), float(np.mean(others)) if others else None)


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
        [abs(r.log_ratio - found.factor_of(r.model, r.layout).log) - abs(r.log_ratio) for r in runs]
        for runs in (rest, others)
    ]
    return Worth(float(np.mean(moved[0])), float(np.mean(moved[1])) if others else None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this command."""
    parser.add_argument("--measurements", type=Path, default=ROOT / "measurements")


def run(arguments: argparse.Namespace) -> None:
    """Fit, write, and say what own runs are worth."""
    points = read_points([arguments.measurements / name for name in FILES])
    residuals = left_out_residuals(points, GROUPINGS["source-or-model"](points))
    lines = [HEADER + f'source = "{SOURCE}"']
    for time in TIMES:
        stacks = stacks_of(residuals, time)
        spreads = with_cautious_sweeps(stacks, likeliest(stacks))
        lines += ["", f"[{time}]", *(f"{name} = {value:.4f}" for name, value in vars(spreads).items())]
        for num_given in GIVEN:
            worths = dict(worth_of(stacks, spreads, num_given))
            same, other = ([w[at] for w in worths.values() if w[at] is not None] for at in (0, 1))
            print(
                f"{time}, {num_given} rows given, {len(worths)} stacks: rest of the stack {np.mean(same):+.4f} "
                f"(worst {max(same):+.4f}), other models {np.mean(other):+.4f} (worst {max(other):+.4f})"
            )
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
