"""Policies for a service on spot, on measured availability of several zones.

    python benchmarks/spot_services.py FOLDER [FILE.csv ...]    traces named as those of skypilot-org/spot-traces;
                                                                files of nodes by zone beside them
    python benchmarks/spot_services.py                          generated zones stand in for them, which is said

2, 3 and 4 machines shall be ready, starts take 0, 3 and 10 minutes. Ours is chosen on the first half of each trace, or
on generated markets, and scored on the second half. The bar: no dearer than the cheapest fixed number of spares and
floor that is ready for as much of that half, which is only known afterwards.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpufleet.catalog.spot_availability import UNTIL_2022, load_availability_fit
from gpufleet.domain.arrays import IntArray
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.optimize.spot_services import (
    PlayedPolicies,
    SpotAndOnDemand,
    cheapest_that_attains,
    fixed_policies,
    is_on_frontier,
    play_policies,
    policies_for,
)
from gpufleet.simulate.spot_availability import drawn_zones, generated_nodes
from gpufleet.simulate.spot_services import ZoneNodes
from gpufleet.units import DAY, MINUTE

SPOT_USD, ON_DEMAND_USD, TICK_S = 0.9731, 3.06, MINUTE
MACHINES, STARTS_MIN = (2, 3, 4), (0, 3, 10)
TARGETS = (0.9, 0.95, 0.99, 0.995, 0.999)
TOGETHER = ("*_aws-02-15-2023_*", "*_aws-08-03-2023_*", "*_aws-08-27-2023_*", "*_aws-10-26-2022_*_v100_1*")
BAR = 1.0005
GENERATED_DRAWS, GENERATED_DAYS = 4, 10


@dataclass(frozen=True)
class Cell:
    """One target in one trace: what ours came to, and the cheapest fixed policy that is as ready, in hindsight."""

    trace: str
    machines: int
    start_min: int
    target: float
    policy: str
    attained: float
    cost_ratio: float
    fixed: str
    fixed_cost_ratio: float

    @property
    def ratio(self) -> float:
        """Ours over the best fixed one."""
        return self.cost_ratio / self.fixed_cost_ratio

    @property
    def where(self) -> str:
        """The cell in words."""
        return f"{self.trace:12} {self.machines} machines, start {self.start_min:2d} min, target {self.target:.3f}"


def traces(folder: str | None, files: Sequence[str]) -> dict[str, IntArray]:
    """Nodes by zone and minute of each group of zones that were seen at once."""
    if folder is None:
        return {f"generated {i + 1}": nodes for i, nodes in enumerate(generated(np.random.default_rng(18), 4, 4, 2))}
    groups = {
        pattern.split("_")[1].removeprefix("aws-"): sorted(Path(folder).glob(f"{pattern}.json")) for pattern in TOGETHER
    }
    found = {name: [read_spot_trace(path).regridded(TICK_S)[0] for path in paths] for name, paths in groups.items()}
    whole = {name: np.stack([zone[: min(map(len, zones))] for zone in zones]) for name, zones in found.items() if zones}
    return whole | {Path(file).stem[:12]: read_spot_trace(file).regridded(TICK_S) for file in files}


def generated(rng: np.random.Generator, num: int, zones: int, nodes: int) -> IntArray:
    """Markets that nobody saw, each with zones of its own: [draw, zone, minute]."""
    fit = load_availability_fit(UNTIL_2022)
    ticks = round(GENERATED_DAYS * DAY / fit.tick_s)
    drawn = [generated_nodes(rng, fit, drawn_zones(rng, fit, zones, 2), ticks, 1, nodes)[0] for _ in range(num)]
    return np.repeat(np.stack(drawn), round(fit.tick_s / TICK_S), axis=2)


def figures(played: PlayedPolicies) -> tuple[np.ndarray, np.ndarray]:
    """Attainment, and cost over that of all machines on demand."""
    usd = played.usd_per_hour(SpotAndOnDemand(SPOT_USD, ON_DEMAND_USD))
    return played.attained_ratio(), usd / (ON_DEMAND_USD * played.runs.num_machines)


def words(played: PlayedPolicies, row: int) -> str:
    """A policy in short."""
    p = played.policies[row]
    young = "" if np.isinf(p.young_s) else f" young {p.young_s / 3600:.0f} h"
    hold = "" if p.fallback == "none" else f" hold {p.hold_s / MINUTE:.0f} min"
    calm = f" calm {p.calm_s / 3600:.1f} h" if p.calm_s else ""
    return f"floor {p.floor} spares {p.spares}{young}{calm} fallback {p.fallback}{hold}"


def played(nodes: IntArray, machines: int, start_min: int) -> PlayedPolicies:
    """Every policy on one piece of nodes by zone and minute, the fixed ones first."""
    return play_policies(ZoneNodes.of(nodes[None], TICK_S), machines, start_min * MINUTE, policies_for(machines))


def cells(name: str, learned: PlayedPolicies, scored: PlayedPolicies, start_min: int) -> Iterable[Cell]:
    """Settings chosen on one part, told of the other, at every target."""
    machines = learned.runs.num_machines
    fixed = slice(len(fixed_policies(machines)))
    (attained, cost), (then, then_cost) = figures(learned), figures(scored)
    for target in TARGETS:
        row = cheapest_that_attains(attained, cost, target)
        best = cheapest_that_attains(then[fixed], then_cost[fixed], float(then[row]))
        yield Cell(
            name, machines, start_min, target, words(learned, row), float(then[row]), float(then_cost[row]),
            words(scored, best), float(then_cost[best]),
        )  # fmt: skip


def frontier(name: str, scored: PlayedPolicies, start_min: int) -> None:
    """Both frontiers of the scored part: what is attained, and cost over on demand."""
    attained, cost = figures(scored)
    num = scored.runs.num_machines
    for told, part in {"fixed": slice(len(fixed_policies(num))), "all": slice(None)}.items():
        kept = is_on_frontier(attained[part], cost[part])
        rows = sorted(zip(attained[part][kept], cost[part][kept], strict=True))
        shown = [next((r for r in rows if r[0] >= target), rows[-1]) for target in TARGETS]
        points = " ".join(f"{a:.4f}:{c:.3f}" for a, c in dict.fromkeys(shown))
        print(f"frontier {name}, {num} machines, start {start_min} min, {told}: {points}", flush=True)


def report(title: str, found: Sequence[Cell]) -> None:
    """Misses first, then means."""
    dearer = [c for c in found if c.ratio > BAR]
    late = [c for c in found if c.attained < c.target]
    print(f"\n{title}: {len(found)} cells")
    print(f"dearer than the best fixed policy in hindsight: {len(dearer)}; below the target: {len(late)}")
    for c in sorted(dearer, key=lambda c: -c.ratio):
        print(f"  {c.where}: {c.ratio:.3f}  ours {c.attained:.4f} at {c.cost_ratio:.3f} ({c.policy}), {c.fixed}")
    for c in sorted(late, key=lambda c: c.attained - c.target)[:12]:
        print(f"  below: {c.where}: {c.attained:.4f} ({c.policy})")
    for group in sorted({(c.trace, c.start_min) for c in found}):
        rows = [c for c in found if (c.trace, c.start_min) == group]
        told = " ".join(f"{np.mean([c.ratio for c in rows if c.target == t]):.3f}" for t in TARGETS)
        print(f"{group[0]:12} start {group[1]:2d} min: ours over best fixed, by target {told}")
    print(f"mean {np.mean([c.ratio for c in found]):.4f}, worst {max(c.ratio for c in found):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="traces of skypilot-org/spot-traces")
    parser.add_argument("files", nargs="*", help="more traces, of nodes by zone")
    asked = parser.parse_args()
    by_name, began = traces(asked.folder, asked.files), time.process_time()
    told = "" if asked.folder else "; generated: no folder was named"
    print(f"{len(by_name)} groups of zones{told}; {SPOT_USD} and {ON_DEMAND_USD} USD/h; targets {TARGETS}")
    on_half, on_drawn = played_all(by_name)
    report("chosen on the first half, scored on the second", on_half)
    report("chosen on generated markets, scored on the second half", on_drawn)
    print(f"{time.process_time() - began:.0f} CPU s")


def played_all(by_name: Mapping[str, IntArray]) -> tuple[list[Cell], list[Cell]]:
    """All cells, by what chose."""
    on_half, on_drawn = list[Cell](), list[Cell]()
    for name, nodes in by_name.items():
        half = nodes.shape[1] // 2
        drawn = np.concatenate(
            generated(np.random.default_rng(18), GENERATED_DRAWS, len(nodes), int(nodes.max())), axis=1
        )
        print(f"{name}: {len(nodes)} zones of {int(nodes.max())} nodes, {nodes.shape[1] * TICK_S / DAY:.1f} days")
        for machines, start_min in itertools.product(MACHINES, STARTS_MIN):
            first, second, third = (
                played(part, machines, start_min) for part in (nodes[:, :half], nodes[:, half : 2 * half], drawn)
            )
            frontier(name, second, start_min)
            on_half += cells(name, first, second, start_min)
            on_drawn += cells(name, third, second, start_min)
    return on_half, on_drawn


if __name__ == "__main__":
    main()
