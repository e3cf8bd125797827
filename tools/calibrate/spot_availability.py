"""Fits the generator of spot availability to measured traces, and says how far generated ones lie from unseen ones.

`python tools/calibrate spot-availability FOLDER` reads traces named as those of skypilot-org/spot-traces:
KIND_NODES-node_aws-MM-DD-YYYY_ZONE_GPU_COUNT.json. It fits those of the first year and scores those after it:
availability, runs, correlation, cost and lateness of two policies. With `--write` it puts the fit of that year and the
fit of all into `data/spot_availability.toml`, what each trace said into `data/spot_traces.csv`.

How far a stated market moves on is learnt between halves of the same traces (`spot_moves`).

Spare capacity cannot be seen, only whether it is above a level. Its correlation at a lag is the one at which as many
ticks change from up to down as were counted (`lost_per_tick`), whatever the share of time up: zones become comparable.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import NormalDist

import numpy as np
from tools.calibrate.spot_moves import moved_ratio, said_of
from tools.calibrate.spot_policies import CELLS, POLICIES, cost_and_lateness, windows

from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.availability import Availability, AvailabilityFit, SpotZone
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.provenance import Grade, Sourced
from gpufleet.simulate.spot_availability import (
    capacity_correlation,
    drawn_zones,
    generated_nodes,
    levels_of,
    lost_per_tick,
    mean_up_s,
    paces_of,
    spare_capacity,
)
from gpufleet.units import DAY, HOUR, MINUTE, PERCENT

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "gpufleet" / "data"
SHIPPED, TRACES = DATA / "spot_availability.toml", DATA / "spot_traces.csv"
SOURCE = "skypilot-spot-traces"
NAME = re.compile(
    r"(?P<kind>\w+?)_(?P<nodes>\d+)-node_aws-(?P<date>[\d-]+)_(?P<zone>[\w-]+?)_(?P<gpu>\w+?)_(?P<gpus>\d+)$"
)
TICK_S, DAY_FADES_DAYS = 10 * MINUTE, 14.0
LAGS = np.array([1, 2, 3, 4, 6, 9, 12, 18, 24, 36, 54, 72, 90, 108, 126, 144, 162, 180, 216, 252, 288])
SHORT_LAGS, SHORT_WEIGHT, MOST_MISS = slice(1, 9), 2.0, 0.5
USUAL_TIMES_S = np.array([1.0, 6.0, 60.0]) * HOUR
TIMES_PULL, SHARES_PULL, NUM_FREE, ROUNDS, NUDGE, HALVINGS = 0.3, 0.1, 6, 60, 1e-4, 50
QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.99)
SCORED_LAGS = (6, 18, 36, 72, 144)
NUM_GENERATED, NUM_TOGETHER, GENERATED_STEP, HOURLY, SEED = 100, 20, 24, 6, 18
ALL = "all"
NORMAL = NormalDist()


@dataclass(frozen=True)
class Trace:
    """One trace on ticks of the fit: whether all its nodes could be had."""

    name: str
    began: str
    zone: str
    gpu: str
    gpus_per_node: int
    num_nodes: int
    seen: Availability

    @property
    def year(self) -> str:
        return self.began[:4]

    @property
    def region(self) -> str:
        return self.zone[:-1]

    @property
    def up(self) -> BoolArray:
        return self.seen.available(self.num_nodes, TICK_S)[0]

    @property
    def spot_zone(self) -> SpotZone:
        return SpotZone(self.zone, self.region, float(self.up.mean()), mean_up_s(self.up, TICK_S), Grade.MEASURED)

    @property
    def zone_of_jobs(self) -> SpotZone:
        """The zone as jobs see it that start every hour: the middle of a short trace is seen by more of them."""
        stretches = windows(self.up, round(max(deadline_s for _, deadline_s in CELLS) / TICK_S), HOURLY)
        share, lost = stretches.mean(), (stretches[:, 1:] < stretches[:, :-1]).mean()
        return SpotZone(self.zone, self.region, float(share), float(share / lost) * TICK_S, Grade.MEASURED)


def traces_in(folder: Path) -> list[Trace]:
    """All traces of a folder by name."""
    found = []
    for path in sorted(folder.glob("*.json")):
        match = NAME.match(path.stem)
        if match is None:
            raise SystemExit(f"{path.name} is not named as a trace: KIND_N-node_aws-MM-DD-YYYY_ZONE_GPU_COUNT.json")
        month, day, year = match["date"].split("-")
        about = (f"{year}-{month}-{day}", match["zone"], match["gpu"], int(match["gpus"]), int(match["nodes"]))
        found.append(Trace(path.stem, *about, read_spot_trace(path)))
    return found


def correlation_at(level: float, lost: float) -> float:
    """The correlation at which so many ticks change from up to down."""
    low, high = -1.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if lost_per_tick(level, middle) > lost else (low, middle)
    return (low + high) / 2


def seen_correlations(up: BoolArray, lags: Sequence[int] | np.ndarray) -> FloatArray:
    """Correlation of spare capacity at each lag, from how often availability differs."""
    [level] = levels_of([float(up.mean())])
    return np.array([correlation_at(level, float((up[lag:] != up[:-lag]).mean()) / 2) for lag in lags])


def correlation_between(first: BoolArray, second: BoolArray) -> float:
    """Correlation of two zones' spare capacity, from how often both can be had."""
    num = min(len(first), len(second))
    first, second = first[:num], second[:num]
    levels, both = levels_of([first.mean(), second.mean()]), float((first & second).mean())
    low, high = -0.99, 0.99
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if both_above(levels, middle) < both else (low, middle)
    return (low + high) / 2


def both_above(levels: FloatArray, correlation: float) -> float:
    """P(both above their levels) of a pair of normals: independent, and the integral of their density over r."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    r = correlation * (1 + nodes) / 2
    h, k = levels
    density = np.exp(-(h * h - 2 * r * h * k + k * k) / (2 * (1 - r * r))) / (2 * np.pi * np.sqrt(1 - r * r))
    return NORMAL.cdf(-h) * NORMAL.cdf(-k) + float((density * weights).sum()) * correlation / 2


def shape_of(free: FloatArray) -> dict[str, float]:
    """Shares and times of free numbers: logarithms, shares relative to the fast one."""
    shares = np.exp(np.concatenate([[0.0], free[:3]]))
    names = ("fast_ratio", "middle_ratio", "slow_ratio", "day_ratio")
    times = dict(zip(("fast_s", "middle_s", "slow_s"), (np.exp(free[3:]) * HOUR).tolist(), strict=True))
    return dict(zip(names, (shares / shares.sum()).tolist(), strict=True)) | times


def fit_of(values: dict[str, float]) -> AvailabilityFit:
    """A fit of plain values."""
    fixed = {"tick_s": TICK_S, "day_fades_s": DAY_FADES_DAYS * DAY}
    return AvailabilityFit({name: Sourced(value, "1", SOURCE) for name, value in (fixed | values).items()})


def fitted_shape(traces: Sequence[Trace]) -> dict[str, float]:
    """Shares and times whose correlation is nearest to what zones showed, each at the pace of its mean time up.

    Least squares over zones and lags, misses cut off, by Levenberg's damped steps; times are held near an hour, six
    and sixty, and shares near each other, by what a few lags weigh.
    """
    zones, seen = [t.spot_zone for t in traces], np.array([seen_correlations(t.up, LAGS) for t in traces])
    weights = np.ones(len(LAGS))
    weights[SHORT_LAGS] = SHORT_WEIGHT

    def misses(free: FloatArray) -> FloatArray:
        fit = fit_of(shape_of(free))
        said = capacity_correlation(fit, LAGS * TICK_S, paces_of(fit, zones)[:, np.newaxis])
        far = np.clip((said - seen) * weights, -MOST_MISS, MOST_MISS).ravel()
        return np.concatenate([far, TIMES_PULL * (free[3:] - np.log(USUAL_TIMES_S / HOUR)), SHARES_PULL * free[:3]])

    return shape_of(least_squares(misses, np.concatenate([np.zeros(3), np.log(USUAL_TIMES_S / HOUR)])))


def least_squares(misses: Callable[[FloatArray], FloatArray], free: FloatArray) -> FloatArray:
    """The numbers at which the squares of misses are least, near where it begins."""
    damping, missed = 1.0, misses(free)
    for _ in range(ROUNDS):
        slopes = np.array([(misses(free + NUDGE * unit) - missed) / NUDGE for unit in np.eye(len(free))]).T
        step = -np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(free)), slopes.T @ missed)
        tried = misses(free + step)
        if tried @ tried < missed @ missed:
            free, missed, damping = free + step, tried, damping / 3
        else:
            damping *= 4
    return free


def shared_ratios(fit: AvailabilityFit, traces: Sequence[Trace]) -> dict[str, tuple[float, int]]:
    """Correlation between zones of a region, and of different regions: same days, same machine; with pairs counted."""
    pairs = [
        pair
        for pair in combinations(traces, 2)
        if len({(t.began, t.gpu, t.gpus_per_node) for t in pair}) == 1 and pair[0].zone != pair[1].zone
    ]
    within = [shared_of(fit, *pair) for pair in pairs if pair[0].region == pair[1].region]
    across = [shared_of(fit, *pair) for pair in pairs if pair[0].region != pair[1].region]
    everywhere = max(float(np.mean(across)), 0.0) if across else 0.0
    return {
        "region_ratio": (max(float(np.mean(within)), everywhere), len(within)),
        "everywhere_ratio": (everywhere, len(across)),
    }


def shared_of(fit: AvailabilityFit, first: Trace, second: Trace) -> float:
    """What two zones share, where zones of different pace could share no more than their spectra have in common."""
    lags = np.minimum(np.arange(4096), 4096 - np.arange(4096)) * TICK_S
    paces = paces_of(fit, [first.spot_zone, second.spot_zone])
    spectra = np.maximum(np.fft.fft(capacity_correlation(fit, lags, paces[:, np.newaxis])).real, 0.0)
    return correlation_between(first.up, second.up) / float(np.sqrt(spectra.prod(axis=0)).mean())


def doubling_steps(traces: Sequence[Trace]) -> list[float]:
    """Spare capacity that twice the nodes want more, of each trace with several nodes."""
    several = [t for t in traces if t.num_nodes > 1]
    ends = [levels_of([t.seen.available(n, TICK_S).mean() for n in (1, t.num_nodes)]) for t in several]
    return [float(np.diff(end)[0]) / math.log2(t.num_nodes) for t, end in zip(several, ends, strict=True)]


def fitted(traces: Sequence[Trace], steps: Sequence[float]) -> dict[str, Sourced]:
    """All figures of the generator: shape, what zones share, how they differ."""
    single = [t for t in traces if t.num_nodes == 1]
    years = " and ".join(sorted({t.year for t in single}))
    said = f"{SOURCE}: fit to traces of one node of {years}, ticks of 10 min (tools/calibrate/spot_availability.py)"
    shape = fitted_shape(single)
    fit, zones, num = fit_of(shape), [t.spot_zone for t in single], len(single)
    figures = {
        name: Sourced(value, "s" if name.endswith("_s") else "1", said, points=num) for name, value in shape.items()
    }
    for name, (value, pairs) in shared_ratios(fit, single).items():
        figures[name] = Sourced(value, "1", said.replace("fit to traces", "mean of pairs of traces"), points=pairs)
    levels, paces = levels_of([z.availability_ratio for z in zones]), np.log(paces_of(fit, zones))
    spread = {
        "level_mean": levels.mean(),
        "level_sd": levels.std(ddof=1),
        "log_pace_mean": paces.mean(),
        "log_pace_sd": paces.std(ddof=1),
        "level_pace_correlation": np.corrcoef(levels, paces)[0, 1],
    }
    figures |= {name: Sourced(float(value), "1", said, points=num) for name, value in spread.items()}
    judged = "judgement: a daily cycle was seen to hold over the weeks of a trace"
    return {
        "tick_s": Sourced(TICK_S, "s", "the ticks on which policies are scored, Can't Be Late (NSDI 24)", points=0),
        **figures,
        "day_fades_s": Sourced(DAY_FADES_DAYS * DAY, "s", judged, points=0),
        "doubling_step": Sourced(
            float(np.mean(steps)), "1", f"{SOURCE}: traces of 4 and 16 nodes, 2023", min(steps), max(steps), len(steps)
        ),
    }


def moved(figures: dict[str, Sourced], traces: Sequence[Trace]) -> dict[str, Sourced]:
    """How far a stated market moves on, as drawn by these figures."""
    fit = AvailabilityFit(figures)
    said = [each for t in traces for each in said_of(t.up[np.newaxis], fit)]
    years = " and ".join(sorted({t.year for t in traces}))
    source = f"{SOURCE}: ranges of each half of a trace of {years} hold 80 % of jobs on the other (spot_moves)"
    return {"moved_ratio": Sourced(moved_ratio(said), "1", source, points=len(said))}


def runs_s(up: BoolArray) -> FloatArray:
    """Lengths of the runs of true ticks."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], up.astype(np.int64), [0]])))
    return (edges[1::2] - edges[::2]) * TICK_S


def run_quantiles_h(ups: Sequence[BoolArray]) -> FloatArray:
    return np.quantile(np.concatenate([runs_s(up) for up in ups]), QUANTILES) / HOUR


def tick_correlations(ups: Sequence[BoolArray]) -> FloatArray:
    """Autocorrelation of availability itself, of all traces together about their own means."""
    centred = [up - up.mean() for up in ups]
    whole = sum(float((c * c).mean()) for c in centred)
    return np.array([sum(float((c[lag:] * c[:-lag]).mean()) for c in centred) / whole for lag in SCORED_LAGS])


def jobs_on(ups: Sequence[BoolArray], step: int) -> list[FloatArray]:
    """USD and seconds late of jobs that start every `step` ticks of each trace, by cell and policy   [2, job]."""
    rows = []
    for overhead_s, deadline_s in CELLS:
        stretches = np.concatenate([windows(up, round(deadline_s / TICK_S), step) for up in ups])
        rows += [cost_and_lateness(stretches, TICK_S, policy, overhead_s, deadline_s) for policy in POLICIES]
    return rows


def means_of(jobs: Sequence[FloatArray]) -> FloatArray:
    """Mean USD and share of jobs late   [cell x policy, 2]."""
    return np.array([(usd.mean(), (late_s > 0).mean()) for usd, late_s in jobs])


def rank_of(measured: FloatArray, jobs: Sequence[FloatArray], num_traces: int) -> float:
    """Share of generated traces of the same length that cost less over all cells than the measured one."""
    each = np.mean([usd.reshape(num_traces, -1).mean(axis=1) for usd, _ in jobs], axis=0)
    return float((each < measured[:, 0].mean()).mean())


def as_it_was(fit: AvailabilityFit, t: Trace, rng: np.random.Generator) -> list[BoolArray]:
    """Drawn traces of a zone with the availability and mean time up of a whole trace."""
    return [each > 0 for each in generated_nodes(rng, fit, [t.spot_zone], len(t.up), NUM_GENERATED)[:, 0]]


def as_jobs_see_it(fit: AvailabilityFit, t: Trace, rng: np.random.Generator) -> list[BoolArray]:
    """Drawn traces of a zone as jobs see it that start every hour."""
    return [each > 0 for each in generated_nodes(rng, fit, [t.zone_of_jobs], len(t.up), NUM_GENERATED)[:, 0]]


def held_to_its_share(fit: AvailabilityFit, t: Trace, rng: np.random.Generator) -> list[BoolArray]:
    """Drawn traces each of which is up as often as the measured one, which is but one of its zone's."""
    capacity = spare_capacity(rng, fit, [t.spot_zone], len(t.up), NUM_GENERATED)[:, 0]
    return [each > np.quantile(each, 1 - t.up.mean()) for each in capacity]


Draw = Callable[[AvailabilityFit, Trace, np.random.Generator], list[BoolArray]]


def score(fit: AvailabilityFit, traces: Sequence[Trace], title: str, draw: Draw = as_it_was) -> None:
    """Measured beside generated: each zone with its own availability and mean time up, the rest from the fit."""
    rng, rows = np.random.default_rng(SEED), []
    print(f"\n{title}: {len(traces)} traces; measured/generated: share of time, quantiles of runs in hours, lags")
    for t in traces:
        drawn = draw(fit, t, rng)
        jobs = jobs_on(drawn, GENERATED_STEP)
        measured, generated = means_of(jobs_on([t.up], HOURLY)), means_of(jobs)
        rows.append((measured, generated, rank_of(measured, jobs, len(drawn))))
        up = beside(run_quantiles_h([t.up]), run_quantiles_h(drawn), 1)
        down = beside(run_quantiles_h([~t.up]), run_quantiles_h([~d for d in drawn]), 1)
        lags = beside(tick_correlations([t.up]), tick_correlations(drawn), 2)
        share = f"{t.up.mean():.2f}/{np.mean(drawn):.2f}"
        cost = f"cost {ratio(generated[:, 0].mean(), measured[:, 0].mean())}, rank {rows[-1][2]:.2f}"
        print(f"{t.name[-40:]:40} {share} up {up} down {down} lags {lags} {cost}")
    print_cells(rows)


def beside(measured: FloatArray, generated: FloatArray, digits: int) -> str:
    """Pairs of figures."""
    return " ".join(f"{m:.{digits}f}/{g:.{digits}f}" for m, g in zip(measured, generated, strict=True))


def print_cells(rows: Sequence[tuple[FloatArray, FloatArray, float]]) -> None:
    """Mean cost and lateness of every cell and policy over traces, and how far single ones lie."""
    measured, generated = (np.mean([row[i] for row in rows], axis=0) for i in (0, 1))
    cells = [(*cell, policy) for cell in CELLS for policy in POLICIES]
    for (overhead_s, deadline_s, policy), m, g in zip(cells, measured, generated, strict=True):
        cell = f"{overhead_s / HOUR:.2f} h {deadline_s / HOUR:.0f} h {policy:17}"
        cost = f"measured ${m[0]:.2f}, generated ${g[0]:.2f} ({ratio(g[0], m[0])})"
        print(f"{cell} {cost}; late {m[1]:.1%}, {g[1]:.1%}")
    each = [np.abs(g[:, 0] / m[:, 0] - 1).mean() for m, g, _ in rows]
    inside = np.mean([0.1 <= rank <= 0.9 for _, _, rank in rows])
    print(f"all cells {ratio(generated[:, 0].mean(), measured[:, 0].mean())}; one zone's cell, mean absolute", end=" ")
    print(f"{np.mean(each):.1%}, worst zone {np.max(each):.1%}; {inside:.0%} of ranks from 0.1 to 0.9")


def ratio(generated: float, measured: float) -> str:
    return f"{(generated / measured - 1) * PERCENT:+.1f} %"


def score_together(fit: AvailabilityFit, traces: Sequence[Trace], title: str) -> None:
    """Zones that were watched on the same days, region by region: how often any can be had, and all."""
    print(f"\n{title}: share of time with any zone up, with all up, measured/generated")
    for began, region in sorted({(t.began, t.region) for t in traces}):
        zones = [t for t in traces if (t.began, t.region) == (began, region)]
        if len({t.zone for t in zones}) == len(zones) > 1:
            measured = np.array([t.up for t in zones])
            drawn = generated_nodes(
                np.random.default_rng(SEED), fit, [t.spot_zone for t in zones], measured.shape[1], NUM_TOGETHER
            )
            of_any, of_all = ((measured.any(axis=0), drawn.any(axis=1)), (measured.all(axis=0), drawn.all(axis=1)))
            shares = " ".join(f"{m.mean():.3f}/{g.mean():.3f}" for m, g in (of_any, of_all))
            print(f"{began} {region} {len(zones)} zones: {shares}")


def score_zones(fit: AvailabilityFit, traces: Sequence[Trace], title: str) -> None:
    """Zones drawn from nothing beside measured ones: spread of availability and mean time up, cost over all."""
    zones = drawn_zones(np.random.default_rng(SEED), fit, 200)
    print(f"\n{title}: drawn zones beside {len(traces)} measured, 10th, 50th, 90th percentile")
    for what, of in (("availability", lambda z: z.availability_ratio), ("mean up h", lambda z: z.mean_up_s / HOUR)):
        m, g = (np.quantile([of(z) for z in zs], (0.1, 0.5, 0.9)) for zs in ([t.spot_zone for t in traces], zones))
        print(f"{what}: measured {np.round(m, 2)}, drawn {np.round(g, 2)}")
    rng = np.random.default_rng(SEED)
    drawn = [generated_nodes(rng, fit, [zone], 1024)[0, 0] > 0 for zone in zones]
    measured = np.mean([means_of(jobs_on([t.up], HOURLY)) for t in traces], axis=0)
    generated = means_of(jobs_on(drawn, GENERATED_STEP))
    print(f"cost of all cells {ratio(generated[:, 0].mean(), measured[:, 0].mean())}")


def table_text(fits: dict[str, dict[str, Sourced]]) -> str:
    """The file of fits."""
    lines = [
        "# When spot machines can be had (simulate/spot_availability.py); by tools/calibrate/spot_availability.py."
    ]
    for name, figures in fits.items():
        for figure, each in figures.items():
            lines += ["", f"[{name}.{figure}]", f"value = {each.value:.5g}", f'unit = "{each.unit}"']
            lines += [f"{end} = {getattr(each, end):.4g}" for end in ("low", "high") if getattr(each, end) is not None]
            lines += [f"points = {each.points}", f'source = "{each.source}"']
    return "\n".join(lines) + "\n"


def write_traces(traces: Sequence[Trace]) -> None:
    """What every trace said, a row each."""
    with TRACES.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        names = ("zone", "region", "gpu", "gpus_per_node", "num_nodes", "began", "days", "availability_ratio")
        rows.writerow([*names, "mean_up_hours", "median_up_hours", "source_id"])
        for t in sorted(traces, key=lambda t: (t.began, t.num_nodes, t.gpu, t.gpus_per_node, t.zone)):
            zone, median_h = t.spot_zone, float(np.median(runs_s(t.up))) / HOUR
            about = (t.zone, t.region, t.gpu, t.gpus_per_node, t.num_nodes, t.began, f"{len(t.up) * TICK_S / DAY:.1f}")
            figures = (f"{zone.availability_ratio:.4f}", f"{zone.mean_up_s / HOUR:.3f}", f"{median_h:.3f}")
            rows.writerow([*about, *figures, SOURCE])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="traces as skypilot-org/spot-traces names them")
    parser.add_argument("--write", action="store_true", help="write the fits and what each trace said")


def run(arguments: argparse.Namespace) -> None:
    traces = traces_in(arguments.folder)
    single, steps = [t for t in traces if t.num_nodes == 1], doubling_steps(traces)
    years = sorted({t.year for t in single})
    first, later = ([t for t in traces if (t.year == years[0]) is is_first] for is_first in (True, False))
    fits = {
        name: figures | moved(figures, of)
        for name, of, figures in (
            (f"until-{years[0]}", first, fitted(first, steps)),
            (ALL, traces, fitted(traces, steps)),
        )
    }
    learnt, whole = (AvailabilityFit(figures) for figures in fits.values())
    unseen = [t for t in later if t.num_nodes == 1]
    score(learnt, unseen, f"fitted to {years[0]}, scored on traces after it")
    score(learnt, unseen, f"fitted to {years[0]}, after it, shares of time as hourly jobs see them", as_jobs_see_it)
    score(learnt, unseen, f"fitted to {years[0]}, after it, every draw held to its trace's share", held_to_its_share)
    score_together(learnt, unseen, f"fitted to {years[0]}, after it")
    score_zones(learnt, unseen, f"fitted to {years[0]}, after it")
    score(learnt, [t for t in later if t.num_nodes > 1], f"fitted to one node of {years[0]}, several nodes after it")
    score(learnt, first, f"fitted to {years[0]}, in sample")
    score(whole, single, "fitted to all, in sample")
    score_zones(whole, single, "fitted to all, in sample")
    print("\nsteps of capacity for twice the nodes:", np.round(steps, 3))
    print(table_text(fits))
    if arguments.write:
        SHIPPED.write_text(table_text(fits), encoding="utf-8")
        write_traces(traces)
