"""Our scaling law against presets tuned in hindsight and a perfect forecast, series by series.

    python benchmarks/autoscale.py                                       three generated fortnights
    python benchmarks/autoscale.py rates.csv:m-large taxi.csv elb.csv    tables of rates, one model of several after ':'
    python benchmarks/autoscale.py --take week.csv generated:bursts:12   what the verb takes alone, beside all laws

Each curve is scaled to a mean that needs `--machines` machines of the plan of llama-3.1-8b, requests are drawn from
it, and every law is played with `--target` of the requests in time on every whole day. Presets are searched in
hindsight over their own settings, on this very series; ours learns as it goes and is not searched. Nothing knows which
series it is. `to take` is what the verb recommends: the cheapest law that a controller runs, as documented or tuned on
the first 60 % of the days, that keeps the target on every day. The bars: ours costs no more than the cheapest preset
that keeps the target, and at most 1.25 times the perfect forecast where days are alike (autocorrelation at a day of 0.3
or more). With `--take`: it keeps the target on the days that nothing was searched on, and costs at most 1.2 times the
cheapest of all laws that keep it, played alike; ten of twelve series are meant to.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import gpufleet
from gpufleet.api.autoscaling import Bounds, traffic_of
from gpufleet.api.scaled_plans import ScaledPlan, one_plan, scaled_plan
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.inputs.rate_curve import read_rate_curve
from gpufleet.optimize.autoscale import (
    FORECASTS,
    LEARNING,
    OURS,
    PRESETS,
    Outcome,
    Traffic,
    autocorrelation,
    outcome,
    played_laws,
    recommended,
    taken,
    tuned,
)
from gpufleet.units import DAY, HOUR, MINUTE

ALIKE, MOST_OVER_PERFECT, BIN_S = 0.3, 1.25, 5 * MINUTE
MOST_OVER_ALL, MEANT_RATIO = 1.2, 10 / 12
GENERATED = "generated"
DAYS = 14


@dataclass(frozen=True)
class Line:
    """What is printed of a series."""

    name: str
    alike: float | None
    perfect_hours: float
    ours: Outcome
    best: Outcome | None
    best_forecast: Outcome | None
    to_take: Outcome
    seconds: float

    @property
    def over_perfect(self) -> float:
        """Ours over the perfect forecast."""
        return self.ours.replica_hours / self.perfect_hours

    @property
    def over_best(self) -> float:
        """Ours over the cheapest preset that keeps the target; nothing where none does."""
        return 0.0 if self.best is None else self.ours.replica_hours / self.best.replica_hours

    @property
    def keeps(self) -> bool:
        """Whether ours meets both bars and the target."""
        near = self.alike is None or self.alike < ALIKE or self.over_perfect <= MOST_OVER_PERFECT
        return self.ours.meets_target and self.over_best <= 1 and near


def generated(seed: int, kind: str) -> RateCurve:
    """A fortnight from a Monday on: days that rise and fall, quieter weekends, noise that lasts; bursts, or flat."""
    generator = np.random.default_rng(seed)
    times = np.arange(round(DAYS * DAY / BIN_S)) * BIN_S
    swing = 0.0 if kind == "flat" else 0.8
    shape = 1 + swing * np.cos(2 * np.pi * (times - 14 * HOUR) / DAY)
    shape *= np.where((times // DAY) % 7 >= 5, 0.6, 1.0)
    noise = np.zeros(len(times))
    for step in range(1, len(times)):
        noise[step] = 0.95 * noise[step - 1] + 0.03 * generator.normal()
    rates = shape * np.exp(noise)
    for _ in range(20 if kind == "bursts" else 0):
        at = generator.integers(len(times) - 12)
        rates[at : at + generator.integers(2, 12)] *= generator.uniform(1.5, 3.0)
    return RateCurve(0.0, rates, BIN_S)


def series_of(paths: Sequence[str], longest_days: float) -> Iterator[tuple[str, RateCurve]]:
    """The named tables, else what is generated."""
    for path in paths:
        if path.startswith(f"{GENERATED}:"):
            _, shape, number = path.split(":")
            yield f"{GENERATED} {shape} {number}", generated(int(number), shape)
            continue
        file, _, model = path.partition(":")
        curve = read_rate_curve(file, model or None)
        bins = int(longest_days * DAY / curve.bin_s)
        cv = None if curve.cv is None else curve.cv[:bins]
        name = model or file.rsplit("/", 1)[-1].removesuffix(".csv")
        yield name, RateCurve(curve.start_s, curve.rate_per_s[:bins], curve.bin_s, cv)
    if not paths:
        for seed, kind in enumerate(("steady", "bursts", "flat"), 1):
            yield f"generated {kind}", generated(seed, kind)


def line_of(name: str, traffic: Traffic) -> Line:
    """All laws on a series."""
    began = time.process_time()
    ours = outcome(traffic, PRESETS[OURS])
    searched = {n: tuned(traffic, p) for n, p in PRESETS.items() if n not in LEARNING}
    kept = {n: row for n, row in searched.items() if row.meets_target}
    presets = [row for n, row in kept.items() if n not in FORECASTS]
    forecasts = [row for n, row in kept.items() if n in FORECASTS]
    return Line(
        name,
        autocorrelation(traffic.curve),
        traffic.perfect.replica_s / HOUR,
        ours,
        min(presets, key=lambda row: row.replica_hours, default=None),
        min(forecasts, key=lambda row: row.replica_hours, default=None),
        taken(played_laws(traffic, list(PRESETS.values()), is_searched=True), is_free=True),
        time.process_time() - began,
    )


def printed(line: Line) -> str:
    """A row."""
    alike = "-" if line.alike is None else f"{line.alike:.2f}"
    best, forecast = line.best, line.best_forecast
    cheapest = "none keeps it" if best is None else f"{best.preset} {best.replica_hours / line.perfect_hours:.3f}"
    other = "-" if forecast is None else f"{forecast.preset} {forecast.replica_hours / line.perfect_hours:.3f}"
    taken = f"{line.to_take.preset} {line.to_take.replica_hours / line.perfect_hours:.3f}"
    return (
        f"{line.name[:24]:24} {alike:>5} {line.over_perfect:8.3f} {line.ours.worst_day:7.2%} {line.ours.mean:7.2%} "
        f"{cheapest:>20} {line.over_best:6.3f} {other:>20} "
        f"{taken:>20} {line.to_take.worst_day:7.2%} {'kept' if line.keeps else 'MISSED':>7} {line.seconds:5.0f}"
    )


@dataclass(frozen=True)
class Take:
    """What the verb takes of a series, and the cheapest of all laws that keep the target."""

    name: str
    row: Outcome
    cheapest: Outcome
    perfect_hours: float
    seconds: float

    @property
    def ratio(self) -> float:
        """What is taken over the cheapest."""
        return self.row.replica_hours / self.cheapest.replica_hours

    @property
    def keeps(self) -> bool:
        """Whether it keeps the target on days that nothing was searched on, at a cost near the cheapest."""
        unseen = self.row.worst_unseen_day
        seen = self.row.meets_target if unseen is None else unseen >= self.row.target_ratio
        return seen and self.ratio <= MOST_OVER_ALL

    def __str__(self) -> str:
        row, cheapest = self.row, self.cheapest
        unseen = "-" if row.worst_unseen_day is None else f"{row.worst_unseen_day:.2%}"
        taken_name = f"{row.preset} {row.replica_hours / self.perfect_hours:.3f}"
        other = f"{cheapest.preset} {cheapest.replica_hours / self.perfect_hours:.3f}"
        return (
            f"{self.name[:24]:24} {taken_name:>24} {row.worst_day:7.2%} {unseen:>7} {other:>24} {self.ratio:6.3f} "
            f"{'kept' if self.keeps else 'MISSED':>7} {self.seconds:5.0f}"
        )


def take_of(name: str, traffic: Traffic) -> Take:
    """All laws as the verb plays them."""
    began = time.process_time()
    rows = played_laws(traffic, list(PRESETS.values()), is_searched=True)
    perfect_hours, seconds = traffic.perfect.replica_s / HOUR, time.process_time() - began
    return Take(name, taken(rows, is_free=True), recommended(rows), perfect_hours, seconds)


def print_takes(series: Iterator[tuple[str, Traffic]]) -> int:
    """A row for each series as it comes, then how many kept both, the misses by name."""
    print(f"{'series':24} {'to take':>24} {'day':>7} {'unseen':>7} {'cheapest of all':>24} {'ratio':>6} {'bars':>7} "
          f"{'CPU s':>5}")  # fmt: skip
    takes = []
    for name, traffic in series:
        takes.append(take_of(name, traffic))
        print(takes[-1], flush=True)
    missed = [take.name for take in takes if not take.keeps]
    print(f"missed: {', '.join(missed) or 'none'}; kept on {len(takes) - len(missed)} of {len(takes)}")
    return 0 if len(takes) - len(missed) >= MEANT_RATIO * len(takes) else 1


def traffic_on(held: ScaledPlan, curve: RateCurve, asked: argparse.Namespace) -> Traffic:
    """The series at the mean rate that was asked for, drawn as its own variation says where asked."""
    bounds = Bounds(asked.cold_start, asked.target, 0, None, 15.0)
    own = curve if asked.own_cv else replace(curve, cv=None)
    per_machine = traffic_of(held, own, bounds, asked.seed).service.planned_per_s
    scaled = own.scaled(asked.machines * per_machine / own.mean_rate_per_s)
    return traffic_of(held, scaled, bounds, asked.seed)


def main() -> int:
    """One row for each series."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="RATES.csv[:MODEL]")
    parser.add_argument("--machines", type=float, default=12.0, help="what the mean rate needs")
    parser.add_argument("--cold-start", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--days", type=float, default=28.0, help="the first days of each series")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--own-cv", action="store_true", help="draw counts with the column cv, where there is one")
    parser.add_argument("--take", action="store_true", help="what the verb takes, beside all laws played alike")
    asked = parser.parse_args()
    request = gpufleet.ServeRequest(
        model="llama-3.1-8b", rate=40.0, input_tokens=1000.0, output_tokens=200.0, slo="ttft.p95<1s,tpot.p95<50ms"
    )
    tables = load_catalog()
    held = scaled_plan(one_plan(gpufleet.plan_serve(request), tables), tables)
    if asked.take:
        every = series_of(asked.paths, asked.days)
        return print_takes((name, traffic_on(held, curve, asked)) for name, curve in every)
    print(f"{'series':24} {'alike':>5} {'x best':>8} {'day':>7} {'mean':>7} {'cheapest preset':>20} {'ratio':>6} "
          f"{'best forecast':>20} {'to take':>20} {'day':>7} {'bars':>7} {'CPU s':>5}")  # fmt: skip
    kept = []
    for name, curve in series_of(asked.paths, asked.days):
        line = line_of(name, traffic_on(held, curve, asked))
        kept.append(line.keeps)
        print(printed(line), flush=True)
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
