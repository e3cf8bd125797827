"""Policies for a job with a deadline on measured availability of spot machines.

    python benchmarks/spot.py FOLDER    traces named as those of skypilot-org/spot-traces
    python benchmarks/spot.py           generated zones stand in for them, which is said

A job of 48 h on one V100 ($3.06 on demand, $0.9731 on spot) starts every hour, with starts of 0.02 and 0.20 h and
deadlines of 52, 70 and 92 h; all policies have the same safety net. Thresholds come from the traces of 2022 and are
scored on those of 2023. The bars: nothing late, no cell above 1.005 of the cheapest baseline, the mean of six at most
0.97.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpufleet.catalog.spot_availability import UNTIL_2022, load_availability_fit
from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.spot import AgedHazards, DeadlineJob, HazardCounts, SpotMarket
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.optimize.slack_rules import slack_rules
from gpufleet.optimize.spot import AGES_S, GREEDY, ON_DEMAND, OURS, UNIFORM, UNIFORM_BACK
from gpufleet.optimize.spot_optimum import spot_optimum
from gpufleet.optimize.spot_policies import AlwaysOnDemand, BySlack, Greedy, NeverLate, UniformProgress
from gpufleet.simulate.spot_availability import drawn_zones, generated_nodes
from gpufleet.simulate.spot_jobs import SpotPolicy, every_start, replay_jobs
from gpufleet.simulate.spot_markets import usual_hazards
from gpufleet.units import DAY, HOUR, MINUTE

SPOT_USD, ON_DEMAND_USD, WORK_S, TICK_S = 0.9731, 3.06, 48 * HOUR, 10 * MINUTE
STARTS_H, DEADLINES_H = (0.02, 0.20), (52, 70, 92)
LOSS_S = 20 * MINUTE
LEARNED, SCORED, TOGETHER = "2022", "2023", "02-15-2023"
BLOCK, RESAMPLED = 48, 500
BASELINES = (ON_DEMAND, GREEDY, UNIFORM, UNIFORM_BACK)
REGIONS = ("us-east-1", "us-east-2", "us-west-2")


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
        years = [LEARNED, LEARNED, *[TOGETHER] * 4]
        return {f"generated {y} {z.region}": n[None] > 0 for y, z, n in zip(years, zones, nodes, strict=True)}
    files = sorted(Path(folder).glob("*1-node*_v100_1.json"))
    return {file.stem: read_spot_trace(file).available(1, TICK_S) for file in files}


def policies(job: DeadlineJob, hazards: AgedHazards) -> dict[str, SpotPolicy]:
    """Ours and the baselines, all with the safety net."""
    rules = slack_rules(job, hazards, SPOT_USD, ON_DEMAND_USD)
    plain = {
        OURS: BySlack(rules),
        ON_DEMAND: AlwaysOnDemand(),
        GREEDY: Greedy(),
        UNIFORM: UniformProgress(),
        UNIFORM_BACK: UniformProgress(waits_ahead=False),
    }
    return {name: NeverLate(policy, job, TICK_S) for name, policy in plain.items()}


def cell(job: DeadlineJob, hazards: AgedHazards, markets: Sequence[SpotMarket], *, with_optimum: bool) -> Cell:
    """All policies on all starts of all markets."""
    began, usd, late, optimum = time.process_time(), {}, 0, []
    named = policies(job, hazards)
    num = 0
    for name, policy in named.items():
        runs = [replay_jobs(job, market, every_start(job, market), policy) for market in markets]
        usd[name] = np.concatenate([each.cost_usd for each in runs])
        late += sum(int((each.elapsed_s > job.deadline_s).sum()) for each in runs)
        num += len(usd[name])
    rate = num / (time.process_time() - began)
    if with_optimum:
        optimum = [spot_optimum(job, market, every_start(job, market, DAY)) for market in markets]
    means = {name: float(each.mean()) for name, each in usd.items()}
    best = min(BASELINES, key=lambda name: means[name])
    low, high = resampled(usd[OURS], usd[best])
    least = float(np.concatenate(optimum).mean()) if optimum else None
    ratio = means[OURS] / means[best]
    return Cell(job.restart_s / HOUR, job.deadline_s / HOUR, means, least, late, ratio, low, high, rate)


def resampled(ours: FloatArray, other: FloatArray) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the ratio of means, over blocks of starts that overlap."""
    rng, blocks = np.random.default_rng(0), max(len(ours) // BLOCK, 1)
    rows = np.array_split(np.arange(len(ours)), blocks)
    picked = [np.concatenate([rows[i] for i in rng.integers(blocks, size=blocks)]) for _ in range(RESAMPLED)]
    ratios = [float(ours[each].mean() / other[each].mean()) for each in picked]
    return float(np.percentile(ratios, 2.5)), float(np.percentile(ratios, 97.5))


def cells(loss_s: float, hazards: AgedHazards, markets: Sequence[SpotMarket], *, with_optimum: bool) -> list[Cell]:
    """Every start with every deadline, printed as they come."""
    print(f"\nwork lost since the last checkpoint: up to {loss_s / MINUTE:.0f} min")
    print(
        "start  deadline  on-demand  greedy  uniform  -back    ours  optimum   ratio [95%]            late  jobs/CPU s"
    )
    found = []
    for start_h in STARTS_H:
        for deadline_h in DEADLINES_H:
            job = DeadlineJob(WORK_S, deadline_h * HOUR, start_h * HOUR, loss_s)
            row = cell(job, hazards, markets, with_optimum=with_optimum)
            found.append(row)
            usd = row.usd
            least = "      -" if row.optimum is None else f"{row.optimum:7.2f}"
            print(
                f"{start_h:5.2f} {deadline_h:7d} h {usd[ON_DEMAND]:10.2f} {usd[GREEDY]:7.2f} {usd[UNIFORM]:8.2f} "
                f"{usd[UNIFORM_BACK]:6.2f} {usd[OURS]:7.2f}  {least}   {row.ratio:.3f} [{row.ratio_low:.3f} "
                f"{row.ratio_high:.3f}] {row.late:9d} {row.per_cpu_s:11,.0f}",
                flush=True,
            )
    print(f"mean of six: {np.mean([row.ratio for row in found]):.4f}; worst cell {max(r.ratio for r in found):.4f}")
    return found


def several_zones(hazards: AgedHazards, by_name: Mapping[str, BoolArray]) -> None:
    """Ours over the zones of a region against ours in the best of them alone, known in hindsight."""
    together = {name: each for name, each in by_name.items() if TOGETHER in name}
    ticks = min((each.shape[1] for each in together.values()), default=0)
    groups = {r: [n for n in together if r in n] for r in REGIONS} | {"all": list(together)}
    print("\nseveral zones against the best single one (floor: all of the work on spot)")
    for region, names in groups.items():
        if len(names) < 2:
            continue
        has_one = np.concatenate([together[n][:, :ticks] for n in names])
        ratios, floors = zip(
            *(over_best_zone(hazards, has_one, s, d) for s in STARTS_H for d in DEADLINES_H), strict=True
        )
        told = " ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{region:10} {len(names)} zones: {told}  mean {np.mean(ratios):.3f}  floor {np.mean(floors):.3f}")


def over_best_zone(hazards: AgedHazards, has_one: BoolArray, start_h: float, deadline_h: float) -> tuple[float, float]:
    """Mean cost over that of the best zone, and what it would be at least."""
    job = DeadlineJob(WORK_S, deadline_h * HOUR, start_h * HOUR)
    policy = policies(job, hazards)[OURS]

    def usd(market: SpotMarket) -> float:
        starts: IntArray = every_start(job, market)
        return float(replay_jobs(job, market, starts, policy).cost_usd.mean())

    best = min(usd(market_of(zone[None])) for zone in has_one)
    return usd(market_of(has_one)) / best, (WORK_S + job.restart_s) / HOUR * SPOT_USD / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="traces of skypilot-org/spot-traces")
    parser.add_argument("--optimum", action="store_true", help="also the optimum under foresight (minutes)")
    asked = parser.parse_args()
    by_name = traces(asked.folder)
    print(f"{len(by_name)} traces" + ("" if asked.folder else ", generated: no folder was named"))
    prior = usual_hazards(np.random.default_rng(0), load_availability_fit(UNTIL_2022), AGES_S)
    seen = [HazardCounts.of(each, TICK_S, AGES_S) for name, each in by_name.items() if LEARNED in name]
    learned = [AgedHazards.of_counts(each, prior) for each in seen]
    hazards = pooled(learned)
    print(f"lost {np.round(hazards.lost_ratio, 3)}, found {np.round(hazards.found_ratio, 3)} a tick, by age")
    markets = [market_of(each) for name, each in by_name.items() if SCORED in name]
    cells(0.0, hazards, markets, with_optimum=asked.optimum)
    cells(LOSS_S, hazards, markets, with_optimum=False)
    several_zones(hazards, by_name)


def pooled(seen: Sequence[AgedHazards]) -> AgedHazards:
    """The mean of what several traces say."""
    lost, found = (np.mean([getattr(each, name) for each in seen], axis=0) for name in ("lost_ratio", "found_ratio"))
    return AgedHazards(TICK_S, AGES_S, tuple(map(float, lost)), tuple(map(float, found)))


if __name__ == "__main__":
    main()
