"""Learns how far statistics of replayed runs lie from measured ones, by the range of their steps.

`python tools/calibrate run-ranges MEASUREMENTS.csv [--models DIR] [--write]` replays every usable row of engines under
load, and finds for each kind of run (from clients, a burst, steady), time and part (centre, tail) how much lies beside
the range of steps and of the queues behind them, in squares, below and above, until a tenth of the figures is beyond
either end, every publisher counting alike. Fewer than three publishers take what all kinds of run have together. What
that holds of a publisher that it was not learnt on is printed, and the whole range, that of steps too, is stretched
towards 80 % of it; with `--write` the ranges go into `data/calibration/run_ranges.toml`.
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
from gpufleet.accuracy.seen_rows import publisher_of
from gpufleet.accuracy.serving import REFUSALS, Load, Setup, ask
from gpufleet.accuracy.serving_under_load import (
    PROTOCOL,
    QUANTITIES,
    READINGS,
    experiment_of,
    load_of,
    why_not_scored,
)
from gpufleet.catalog.run_ranges import CLOSED_FORM, ENDS, TAILS, RunRange, load_run_ranges, range_of
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.request_runs import MEAN, kind_of_run, mean_over_draws
from gpufleet.units import MILLISECOND, PERCENT

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "src" / "gpufleet" / "data" / "calibration" / "run_ranges.toml"
STEADY = "steady"
KINDS = ("burst", "clients", STEADY)
PARTS_OF_TIMES = [f"{time}_{part}" for time in ("ttft", "tpot", "latency") for part in ("centre", "tail")]
HEAD = """\
# How many times the range of their steps runs have (api/request_runs.py), and what lies beside it in squares, below and
# above, in logarithms; by tools/calibrate/run_ranges.py.

"""
BEYOND, WIDEST_LOG, STEP, FEWEST_PUBLISHERS = 0.1, 2.3, 0.001, 3
STEADY_STATE_REQUESTS = 500
"""A queue near its rate builds up for as long, and five requests lie beyond the 99th percentile."""
NOMINAL, STRETCHES, AS_GOOD = 0.78, tuple(1 + tenths / 10 for tenths in range(11)), 0.02
"""Few publishers hold in steps. Where no stretch holds enough, the least one that holds as good as the most."""
HALVINGS = 40


@dataclass(frozen=True)
class Seen:
    """A figure of a run: who published it, ln of measured over predicted, and the ends of the range of steps as ln."""

    publisher: str
    log_ratio: float
    low_log: float
    high_log: float

    def is_beyond(self, learnt: RunRange, *, above: bool) -> bool:
        """Whether it lies beyond an end of the range that is learnt of it and its steps."""
        steps_log, off_log = (self.high_log, self.log_ratio) if above else (-self.low_log, -self.log_ratio)
        return off_log > learnt.width_log(max(steps_log, 0.0), is_above=above)


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
    for key, family in ((f"{kind}.{part}", part) for kind in (*KINDS, CLOSED_FORM) for part in PARTS_OF_TIMES):
        figures = found[key]
        wider = [each for kind in (*KINDS, CLOSED_FORM) for each in found[f"{kind}.{family}"]]
        is_few = len(publishers_of(figures)) < FEWEST_PUBLISHERS
        teachers = wider if is_few else figures
        stretch = least_stretch(teachers)
        learnt, held = stretched(narrowest(teachers), stretch), held_left_out(teachers, stretch)
        told = (
            f"{len(publishers_of(figures))} publishers{', taken from all kinds of run' if is_few else ''}; "
            f"stretched {stretch:.1f} times, {held * PERCENT:.0f} % held of publishers left out"
        )
        ends = ", ".join(f"{getattr(learnt, end):.3f}" for end in ENDS)
        print(f"{key:24s} {len(figures):4d} figures, {told}: {ends}")
        tables.append(table_of(key, learnt, len(figures), told))
    if arguments.write:
        SHIPPED.write_text(HEAD + "\n".join(tables), encoding="utf-8")


def table_of(key: str, learnt: RunRange, points: int, told: str) -> str:
    """What was learnt, as a table of TOML; logarithms, and shares of them."""
    ends = "\n".join(f"{end} = {getattr(learnt, end):.3g}" for end in ENDS)
    return (
        f'[{key}]\n{ends}\nunit = "ln"\npoints = {points}\n'
        f'source = "serving-under-load: {told} (tools/calibrate/run_ranges.py)"\n'
    )


def seen_figures(path: Path, models: ModelFinder) -> Iterator[tuple[str, Seen]]:
    """Every stated figure of every usable row, by kind of run, time and part; of a steady one in closed form too."""
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
        kind = kind_of_run(experiment, mean_over_draws(found.draws, "latency", MEAN))
        if kind == STEADY:
            yield from closed_figures(written, row, setup, load)
        for quantity in stated(written, tuple(QUANTITIES)):
            time, statistic = QUANTITIES[quantity]
            figure, measured = found.figure(time, statistic), written.positive(quantity.column)
            if figure is None or figure.low is None or figure.high is None or measured is None:
                continue
            part = "tail" if statistic in TAILS else "centre"
            logs = [log_of(end / figure.value) for end in (measured * MILLISECOND, figure.low, figure.high)]
            yield (
                f"{kind}.{time}_{part}",
                Seen(publisher_of(written.text("source")), *logs),
            )


def closed_figures(
    written: MeasurementRow, row: MeasurementRow, setup: Setup, load: Load
) -> Iterator[tuple[str, Seen]]:
    """The same of the closed form, without what ships beside the range of its steps; none where it refuses the load.

    It speaks of the steady state: runs of few requests end before theirs, and would teach that it lies far above them.
    """
    if "rate" not in load or (written.positive("num_requests") or math.inf) < STEADY_STATE_REQUESTS:
        return
    try:
        said = ask(row, setup, load)
    except REFUSALS:
        return
    for quantity in stated(written, tuple(QUANTITIES)):
        (time, statistic), found = QUANTITIES[quantity], READINGS[quantity](said)
        measured = written.positive(quantity.column)
        if isinstance(found, str) or found.low is None or found.high is None or measured is None:
            continue
        shipped = range_of(load_run_ranges()[CLOSED_FORM], time, statistic)
        low, high = (log_of(end / found.value) for end in (found.low, found.high))
        steps = -shipped.steps_log(-low, is_above=False), shipped.steps_log(high, is_above=True)
        part = "tail" if statistic in TAILS else "centre"
        seen = Seen(publisher_of(written.text("source")), log_of(measured * MILLISECOND / found.value), *steps)
        yield f"{CLOSED_FORM}.{time}_{part}", seen


def log_of(ratio: float) -> float:
    """A logarithm of at most that of the widest range."""
    return math.log(min(max(ratio, math.exp(-WIDEST_LOG)), math.exp(WIDEST_LOG)))


def publishers_of(figures: Sequence[Seen]) -> set[str]:
    """Who published them."""
    return {each.publisher for each in figures}


def narrowest(figures: Sequence[Seen]) -> RunRange:
    """The least beside the range of steps with which a tenth of the figures, publishers alike, is beyond either end.

    No less than the range of steps is kept, however much it holds here: a few publishers under load do not tell that
    ranges learnt from all serving points are too wide.
    """
    if not figures:
        return RunRange()
    low, high = (
        least(lambda log, above=above: share(figures, lambda e: e.is_beyond(RunRange(log, log), above=above)) <= BEYOND)
        for above in (False, True)
    )
    return RunRange(low, high)


def least(is_enough: Callable[[float], bool]) -> float:
    """The least logarithm from which on it is enough; the widest where none is."""
    low, high = 0.0, WIDEST_LOG
    if is_enough(low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return math.ceil(high / STEP) * STEP


def stretched(learnt: RunRange, times: float) -> RunRange:
    """A range so many times as wide."""
    beside = (min(log * times, WIDEST_LOG) for log in (learnt.low_log, learnt.high_log))
    return RunRange(*beside, learnt.low_ratio * times, learnt.high_ratio * times)


def share(figures: Sequence[Seen], counts: Callable[[Seen], bool]) -> float:
    """The mean over publishers of the share that counts."""
    by_publisher: dict[str, list[bool]] = defaultdict(list)
    for each in figures:
        by_publisher[each.publisher].append(counts(each))
    return sum(sum(of) / len(of) for of in by_publisher.values()) / len(by_publisher)


def held_left_out(figures: Sequence[Seen], stretch: float) -> float:
    """The mean over publishers of what the range of the others holds of theirs; not a number where there is one."""
    publishers = publishers_of(figures)
    if len(publishers) < 2:
        return math.nan
    held = []
    for publisher in publishers:
        learnt = stretched(narrowest([e for e in figures if e.publisher != publisher]), stretch)
        own = [e for e in figures if e.publisher == publisher]
        held.append(share(own, lambda e, r=learnt: not (e.is_beyond(r, above=True) or e.is_beyond(r, above=False))))
    return sum(held) / len(held)


def least_stretch(figures: Sequence[Seen]) -> float:
    """How far what the others teach is stretched until it holds 80 % of a publisher that was left out.

    Where nothing does, only as far as that makes it hold more.
    """
    if len(publishers_of(figures)) < 2:
        return STRETCHES[0]
    held = [held_left_out(figures, times) for times in STRETCHES]
    enough = min(NOMINAL, max(held) - AS_GOOD)
    return next(times for times, share_held in zip(STRETCHES, held, strict=True) if share_held >= enough)
