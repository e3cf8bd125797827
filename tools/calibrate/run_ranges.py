"""Learns how far statistics of replayed runs lie from measured ones, beside the range of their steps.

`python tools/calibrate run-ranges MEASUREMENTS.csv [--models DIR] [--write]` replays every usable row of engines under
load, and finds for each kind of run (from clients, a burst, steady), time and part (centre, tail) the narrowest range
that holds 80 % of the figures, every group counting alike: the range of steps and of the queues behind them with a log
spread beside it, in squares; or, where that range alone holds more and there are groups enough to tell, a share of its
logarithm. What it holds of a group that it was not learnt on is printed; with `--write` the ranges go into
`data/calibration/run_ranges.toml`.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.accuracy.figures import stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.replays import replayed
from gpufleet.accuracy.serving import REFUSALS, Setup
from gpufleet.accuracy.serving_under_load import (
    PROTOCOL,
    QUANTITIES,
    experiment_of,
    load_of,
    why_not_scored,
)
from gpufleet.api.request_runs import MEAN, TAILS, kind_of_run, mean_over_draws
from gpufleet.catalog.run_ranges import RunRange
from gpufleet.inputs.measurements import read_measurements
from gpufleet.units import MILLISECOND, PERCENT

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "src" / "gpufleet" / "data" / "calibration" / "run_ranges.toml"
KINDS, TIMES, PARTS = ("burst", "clients", "steady"), ("ttft", "tpot", "latency"), ("centre", "tail")
HEAD = """\
# What runs make of the range of their steps (api/request_runs.py); by tools/calibrate/run_ranges.py.
# `kept`: share of its logarithm; `value`: log spread beside it, in squares.

"""
NOMINAL, WIDEST, STEP, FEWEST_TO_NARROW = 0.8, 3.0, 0.001, 5
HALVINGS = 40


@dataclass(frozen=True)
class Seen:
    """A figure of a run: its group, what was measured over what is predicted, and the ends of the range of steps."""

    group: str
    ratio: float
    low: float
    high: float

    def is_held(self, learnt: RunRange) -> bool:
        """Whether the range that this makes of that of steps holds it."""
        return learnt.end(self.low) <= self.ratio <= learnt.end(self.high)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is read, and whether the table is written."""
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--write", action="store_true")


def run(arguments: argparse.Namespace) -> None:
    """Learn, print, write."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for key, figure in seen_figures(arguments.measurements, ModelFinder(arguments.models)):
        found[key].append(figure)
    tables = []
    for key in (f"{kind}.{time}_{part}" for kind in KINDS for time in TIMES for part in PARTS):
        figures = found[key]
        learnt, held = narrowest(figures), held_left_out(figures)
        num_groups = len({each.group for each in figures})
        said = f"kept {learnt.kept:.3f}, beside {learnt.log_spread:.3f}, left out {held:.0%}"
        print(f"{key:24s} {len(figures):4d} figures, {num_groups:2d} groups: {said}")
        told = (
            "one group" if math.isnan(held) else f"{num_groups} groups, {held * PERCENT:.0f} % held of groups left out"
        )
        tables.append(table_of(key, learnt, len(figures), told))
    if arguments.write:
        SHIPPED.write_text(HEAD + "\n".join(tables), encoding="utf-8")


def table_of(key: str, learnt: RunRange, points: int, told: str) -> str:
    """What was learnt, as a table of TOML."""
    return (
        f'[{key}]\nkept = {learnt.kept:.3g}\nvalue = {learnt.log_spread:.3g}\nunit = "log"\npoints = {points}\n'
        f'source = "serving-under-load: {told} (tools/calibrate/run_ranges.py)"\n'
    )


def seen_figures(path: Path, models: ModelFinder) -> Iterator[tuple[str, Seen]]:
    """Every stated figure of every usable row, by kind of run, time and part."""
    for written in read_measurements(path).rows:
        if why_not_scored(written):
            continue
        try:
            row = PROTOCOL.replica_of(written)
            setup = Setup.of(row, models)
            load = load_of(row, setup.engine)
            experiment = experiment_of(row, str(path), setup, load)
            found = replace(replayed(row, setup, experiment, load), ranges={})
        except REFUSALS:
            continue
        latency_s = mean_over_draws(found.draws, "latency", MEAN)
        for quantity in stated(written, tuple(QUANTITIES)):
            time, statistic = QUANTITIES[quantity]
            figure, measured = found.figure(time, statistic), written.positive(quantity.column)
            if figure is None or figure.low is None or figure.high is None or measured is None:
                continue
            part = "tail" if statistic in TAILS else "centre"
            ends = (measured * MILLISECOND, figure.low, figure.high)
            yield (
                f"{kind_of_run(experiment, latency_s)}.{time}_{part}",
                Seen(written.text("group"), *(end / figure.value for end in ends)),
            )


def narrowest(figures: Sequence[Seen]) -> RunRange:
    """The narrowest range with which groups hold the nominal share on average; that of steps where few can tell."""
    if not figures:
        return RunRange()
    if share_held(figures, RunRange()) < NOMINAL:
        return RunRange(log_spread=least(WIDEST, lambda spread: share_held(figures, RunRange(log_spread=spread))))
    if len({each.group for each in figures}) < FEWEST_TO_NARROW:
        return RunRange()
    return RunRange(kept=least(1.0, lambda kept: share_held(figures, RunRange(kept=kept))))


def least(most: float, share_at: Callable[[float], float]) -> float:
    """The least value, up to the most, from which on the nominal share is held."""
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if share_at(middle) >= NOMINAL else (middle, high)
    return math.ceil(high / STEP) * STEP


def share_held(figures: Sequence[Seen], learnt: RunRange) -> float:
    """The mean over groups of the share that is held."""
    by_group: dict[str, list[bool]] = defaultdict(list)
    for each in figures:
        by_group[each.group].append(each.is_held(learnt))
    return sum(sum(held) / len(held) for held in by_group.values()) / len(by_group)


def held_left_out(figures: Sequence[Seen]) -> float:
    """The mean over groups of what the range of the others holds of it; not a number where there is one group."""
    groups = {each.group for each in figures}
    shares = []
    for group in groups if len(groups) > 1 else ():
        learnt = narrowest([each for each in figures if each.group != group])
        shares.append(share_held([each for each in figures if each.group == group], learnt))
    return sum(shares) / len(shares) if shares else math.nan
