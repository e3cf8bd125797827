"""Policies for a job with a deadline on measured availability of spot machines.

    python benchmarks/spot.py FOLDER    traces named as those of skypilot-org/spot-traces
    python benchmarks/spot.py           generated zones stand in for them, which is said

A job of 48 h on one V100 ($3.06 on demand, $0.9731 on spot) starts every hour, with starts of 0.02 and 0.20 h and
deadlines of 52, 70 and 92 h, then in cells that nobody publishes; all policies have the same safety net. Thresholds,
and how far they go towards uniform progress, come from the traces of 2022 and are scored on those of 2023. The bars:
nothing late, no cell above 1.005 of the cheapest baseline, the mean of six at most 0.97; over several zones at most
0.90 of ours in the zone that is cheapest on average, which is known only afterwards.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from gpufleet.catalog.spot_availability import UNTIL_2022, load_availability_fit
from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import AgedHazards, DeadlineJob, HazardCounts, SlackRules, SpotMarket
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.optimize.spot import (
    AGES_S,
    GREEDY,
    ON_DEMAND,
    OURS,
    UNIFORM,
    UNIFORM_BACK,
    SpotDraws,
    SpotQuestion,
    rules_of,
)
from gpufleet.optimize.spot_optimum import spot_optimum
from gpufleet.optimize.spot_policies import AlwaysOnDemand, BySlack, Greedy, NeverLate, UniformProgress
from gpufleet.simulate.spot_availability import drawn_zones, generated_nodes
from gpufleet.simulate.spot_jobs import Luck, SpotPolicy, every_start, replay_jobs
from gpufleet.simulate.spot_markets import usual_hazards
from gpufleet.units import DAY, HOUR, MINUTE

SPOT_USD, ON_DEMAND_USD, WORK_S, TICK_S = 0.9731, 3.06, 48 * HOUR, 10 * MINUTE
STARTS_H, DEADLINES_H = (0.02, 0.20), (52, 70, 92)
UNPUBLISHED_STARTS_H, UNPUBLISHED_DEADLINES_H = (0.05, 0.10, 0.40), (50, 56, 61, 80)
LOSS_S = 20 * MINUTE
LEARNED, SCORED, TOGETHER = "2022", "2023", ("02-15-2023", "04-22-2023")
BLOCK, RESAMPLED = 48, 500
BASELINES = (ON_DEMAND, GREEDY, UNIFORM, UNIFORM_BACK)
REGIONS = ("us-east-1", "us-east-2", "us-west-2")
STEPS_PER_TICK = {0.02: 25, 0.20: 5}
OPTIMUM_APART_S = 25 * HOUR
SEEN_BEFORE_S, SEEN_AT_LEAST_S = 7 * DAY, DAY
READINGS = (
    "ours / the best zone on average",
    "ours / the best zone of each start",
    "ours / the zone most up in the week before",
    "ours / the cheapest baseline in its best zone",
    "foresight / the best zone on average",
    "all work on spot / the best zone on average",
)


@dataclass(frozen=True)
class Cell:
    """What one start and deadline came to: mean cost by policy, the optimum, who was late."""

    start_h: float
    deadline_h: float
    usd: Mapping[str, float]
    optimum: float | None
    late: int
    ratio: float
    ratio_low: float
    ratio_high: float
    per_cpu_s: float


def market_of(has_one: BoolArray) -> SpotMarket:
    """Zones at the prices of a V100."""
    return SpotMarket(has_one, TICK_S, np.full(len(has_one), SPOT_USD), ON_DEMAND_USD)


def traces(folder: str | None) -> dict[str, BoolArray]:
    """Availability of one machine by trace, on ticks of ten minutes."""
    if folder is None:
        rng, fit = np.random.default_rng(18), load_availability_fit(UNTIL_2022)
        zones = drawn_zones(rng, fit, 6, 3)
        [nodes] = generated_nodes(rng, fit, zones, round(40 * DAY / TICK_S))
        years = [LEARNED, LEARNED, *[TOGETHER[0]] * 4]
        return {f"generated {y} {z.name}": n[None] > 0 for y, z, n in zip(years, zones, nodes, strict=True)}
    files = sorted(Path(folder).glob("*1-node*_v100_1.json"))
    return {file.stem: read_spot_trace(file).available(1, TICK_S) for file in files}


@dataclass(frozen=True, eq=False)
class Learned:
    """What the traces of 2022 say: how places age, and all of them one after the other."""

    hazards: AgedHazards
    traces: Sequence[BoolArray]

    @lru_cache(maxsize=64)  # noqa: B019
    def rules(self, job: DeadlineJob) -> SlackRules:
        """Thresholds that cost least on jobs that begin every hour of these traces."""
        work, restart = (Spread(value, value, value) for value in (job.work_s, job.restart_s))
        question = SpotQuestion(work, restart, job.deadline_s, 0.0, job.loss_s)
        begins = np.cumsum([0, *(each.shape[1] for each in self.traces)])
        starts = [every_start(job, market_of(each)) + at for each, at in zip(self.traces, begins, strict=False)]
        first_tick = np.concatenate(starts)
        market = market_of(np.concatenate(self.traces, axis=1))
        return rules_of(question, SpotDraws(market, first_tick, Luck.none(job, len(first_tick)), self.hazards))


def policies(job: DeadlineJob, learned: Learned) -> dict[str, SpotPolicy]:
    """Ours and the baselines, all with the safety net."""
    plain: dict[str, SpotPolicy] = {
        OURS: BySlack(learned.rules(job)),
        ON_DEMAND: AlwaysOnDemand(),
        GREEDY: Greedy(),
        UNIFORM: UniformProgress(),
        UNIFORM_BACK: UniformProgress(waits_ahead=False),
    }
    return {name: NeverLate(policy, job, TICK_S) for name, policy in plain.items()}


def cell(job: DeadlineJob, learned: Learned, markets: Sequence[SpotMarket], *, with_optimum: bool) -> Cell:
    """All policies on all starts of all markets."""
    began, all_usd, late = time.process_time(), dict[str, Sequence[FloatArray]](), 0
    for name, policy in policies(job, learned).items():
        runs = [replay_jobs(job, market, every_start(job, market), policy) for market in markets]
        all_usd[name] = [each.cost_usd for each in runs]
        late += sum(int((each.elapsed_s > job.deadline_s).sum()) for each in runs)
    usd = {name: np.concatenate(each) for name, each in all_usd.items()}
    rate = sum(map(len, usd.values())) / (time.process_time() - began)
    means = {name: float(each.mean()) for name, each in usd.items()}
    best = min(BASELINES, key=lambda name: means[name])
    low, high = resampled(usd[OURS], usd[best])
    least = means[OURS] * foresight_over(job, markets, all_usd[OURS]) if with_optimum else None
    ratio = means[OURS] / means[best]
    return Cell(job.restart_s / HOUR, job.deadline_s / HOUR, means, least, late, ratio, low, high, rate)


def foresight_over(job: DeadlineJob, markets: Sequence[SpotMarket], usd: Sequence[FloatArray]) -> float:
    """Least cost with all of the future known over what was paid, on some of the starts of each market."""
    steps, least, paid = STEPS_PER_TICK[round(job.restart_s / HOUR, 2)], [], []
    for market, paid_usd in zip(markets, usd, strict=True):
        some = every_start(job, market, OPTIMUM_APART_S)
        least.append(spot_optimum(job, market, some, steps))
        paid.append(paid_usd[np.isin(every_start(job, market), some)])
    return float(np.concatenate(least).mean() / np.concatenate(paid).mean())


def resampled(ours: FloatArray, other: FloatArray) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the ratio of means, over blocks of starts that overlap."""
    rng, blocks = np.random.default_rng(0), max(len(ours) // BLOCK, 1)
    rows = np.array_split(np.arange(len(ours)), blocks)
    picked = [np.concatenate([rows[i] for i in rng.integers(blocks, size=blocks)]) for _ in range(RESAMPLED)]
    ratios = [float(ours[each].mean() / other[each].mean()) for each in picked]
    return float(np.percentile(ratios, 2.5)), float(np.percentile(ratios, 97.5))


def cells(
    loss_s: float,
    learned: Learned,
    markets: Sequence[SpotMarket],
    *,
    starts_h: Sequence[float] = STARTS_H,
    deadlines_h: Sequence[int] = DEADLINES_H,
    with_optimum: bool = False,
) -> list[Cell]:
    """Every start with every deadline, printed as they come."""
    print(f"\nwork lost since the last checkpoint: up to {loss_s / MINUTE:.0f} min")
    print(
        "start  deadline  on-demand  greedy  uniform  -back    ours  optimum   ratio [95%]            late  jobs/CPU s"
    )
    found = []
    for start_h in starts_h:
        for deadline_h in deadlines_h:
            job = DeadlineJob(WORK_S, deadline_h * HOUR, start_h * HOUR, loss_s)
            row = cell(job, learned, markets, with_optimum=with_optimum)
            found.append(row)
            usd = row.usd
            least = "      -" if row.optimum is None else f"{row.optimum:7.2f}"
            print(
                f"{start_h:5.2f} {deadline_h:7d} h {usd[ON_DEMAND]:10.2f} {usd[GREEDY]:7.2f} {usd[UNIFORM]:8.2f} "
                f"{usd[UNIFORM_BACK]:6.2f} {usd[OURS]:7.2f}  {least}   {row.ratio:.3f} [{row.ratio_low:.3f} "
                f"{row.ratio_high:.3f}] {row.late:9d} {row.per_cpu_s:11,.0f}",
                flush=True,
            )
    ratios = [row.ratio for row in found]
    print(f"mean of {len(found)}: {np.mean(ratios):.4f}; worst cell {max(ratios):.4f}")
    return found


def several_zones(learned: Learned, by_name: Mapping[str, BoolArray], *, with_optimum: bool) -> None:
    """Ours over the zones of a region, and of all, against one of them alone: the best afterwards, or seen before."""
    print("\nseveral zones against one: the bar is the first line, its zone is known only afterwards")
    for day in TOGETHER:
        together = {name: each for name, each in by_name.items() if day in name}
        groups = {r: [n for n in together if r in n] for r in REGIONS} | {"all": list(together)}
        for region, names in groups.items():
            if len(names) > 1:
                ticks = min(together[n].shape[1] for n in names)
                has_one = np.concatenate([together[n][:, :ticks] for n in names])
                print_zones(f"{day} {region}", learned, has_one, with_optimum=with_optimum)


def print_zones(title: str, learned: Learned, has_one: BoolArray, *, with_optimum: bool) -> None:
    """All cells of some zones, a line for each reading."""
    up = " ".join(f"{each:.2f}" for each in has_one.mean(axis=1))
    print(f"{title}, {len(has_one)} zones, up {up}, any of them {has_one.any(axis=0).mean():.3f}")
    jobs = [DeadlineJob(WORK_S, d * HOUR, s * HOUR) for s in STARTS_H for d in DEADLINES_H]
    found = [over_one_zone(job, learned, has_one, with_optimum=with_optimum) for job in jobs]
    for reading, ratios in zip(READINGS, zip(*found, strict=True), strict=True):
        if np.isfinite(ratios).all():
            told = " ".join(f"{ratio:.3f}" for ratio in ratios)
            print(f"  {reading:46} {told}  mean {np.mean(ratios):.3f}", flush=True)


def over_one_zone(job: DeadlineJob, learned: Learned, has_one: BoolArray, *, with_optimum: bool) -> tuple[float, ...]:
    """Mean cost over several zones by that of one of them, by each reading; nothing of ours may be late."""
    named, market = policies(job, learned), market_of(has_one)
    starts, zones = every_start(job, market), [market_of(zone[np.newaxis]) for zone in has_one]
    runs = replay_jobs(job, market, starts, named[OURS])
    if (runs.elapsed_s > job.deadline_s).any():
        raise SystemExit("late over several zones")
    usd, alone = runs.cost_usd, np.stack([replay_jobs(job, zone, starts, named[OURS]).cost_usd for zone in zones])
    best, has_seen = float(alone.mean(axis=1).min()), starts * TICK_S >= SEEN_AT_LEAST_S
    picked = alone[most_up_before(has_one, starts), np.arange(len(starts))]
    baseline = min(
        float(replay_jobs(job, zone, starts, named[name]).cost_usd.mean()) for zone in zones for name in BASELINES
    )
    return (
        usd.mean() / best,
        usd.mean() / alone.min(axis=0).mean(),
        usd[has_seen].mean() / picked[has_seen].mean(),
        usd.mean() / baseline,
        foresight_over(job, [market], [usd]) * usd.mean() / best if with_optimum else np.nan,
        (WORK_S + job.restart_s) / HOUR * SPOT_USD / best,
    )


def most_up_before(has_one: BoolArray, starts: IntArray) -> IntArray:
    """The zone of each start that had a machine for longest in the week before it."""
    so_far = np.pad(has_one.cumsum(axis=1), ((0, 0), (1, 0)))
    since = np.maximum(starts - round(SEEN_BEFORE_S / TICK_S), 0)
    return np.asarray((so_far[:, starts] - so_far[:, since]).argmax(axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="traces of skypilot-org/spot-traces")
    parser.add_argument("--optimum", action="store_true", help="also the optimum under foresight (minutes)")
    asked = parser.parse_args()
    by_name = traces(asked.folder)
    print(f"{len(by_name)} traces" + ("" if asked.folder else ", generated: no folder was named"))
    prior = usual_hazards(np.random.default_rng(0), load_availability_fit(UNTIL_2022), AGES_S)
    of_2022 = [each for name, each in by_name.items() if LEARNED in name]
    seen = [HazardCounts.of(each, TICK_S, AGES_S) for each in of_2022]
    learned = Learned(pooled([AgedHazards.of_counts(each, prior) for each in seen]), of_2022)
    hazards = learned.hazards
    print(f"lost {np.round(hazards.lost_ratio, 3)}, found {np.round(hazards.found_ratio, 3)} a tick, by age")
    markets = [market_of(each) for name, each in by_name.items() if SCORED in name]
    cells(0.0, learned, markets, with_optimum=asked.optimum)
    cells(LOSS_S, learned, markets)
    for loss_s in (0.0, LOSS_S):
        cells(loss_s, learned, markets, starts_h=UNPUBLISHED_STARTS_H, deadlines_h=UNPUBLISHED_DEADLINES_H)
    several_zones(learned, by_name, with_optimum=asked.optimum)


def pooled(seen: Sequence[AgedHazards]) -> AgedHazards:
    """The mean of what several traces say."""
    lost, found = (np.mean([getattr(each, name) for each in seen], axis=0) for name in ("lost_ratio", "found_ratio"))
    return AgedHazards(TICK_S, AGES_S, tuple(map(float, lost)), tuple(map(float, found)))


if __name__ == "__main__":
    main()
