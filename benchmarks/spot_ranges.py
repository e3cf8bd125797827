"""How often a job on spot costs what its 10-90 % range said: the second half of every trace against its first.

`python benchmarks/spot_ranges.py FOLDER` reads traces as `gpufleet spot --trace` does. Every hour of a trace's second
half is the start of a job under uniform progress; its question knows the first half alone, in four ways. Printed: the
share of those jobs within the range, its half-width by its mean, what jobs cost by that mean, over traces and jobs.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.domain.interruption import Spread
from gpufleet.domain.spot import SpotMarket, mean_up_s
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.optimize.slack_rules import uniform_rules
from gpufleet.optimize.spot import AGES_S, SpotDraws, SpotQuestion, hazards_of, played
from gpufleet.simulate.spot_availability import drawn_zones
from gpufleet.simulate.spot_jobs import Luck, every_start
from gpufleet.simulate.spot_markets import ZoneDraw, drawn_availability, usual_hazards
from gpufleet.units import HOUR

JOBS_H = ((48, 52, 0.2), (48, 70, 0.02), (24, 36, 0.2))
"""Work, deadline and a start."""
SPOT, ON_DEMAND = 0.9731, 3.06
NUM_DRAWS, LEAST_STARTS, LEAST_DAYS, SEED = 200, 12, 6.7, 0
SEEN = "zones as different as measured ones"
STATED = "availability and mean up of the half before"
JUDGED = "the same of the time that is judged"
TRACED = "the half before as --trace"


class Held(NamedTuple):
    """Of one trace and job: share within the range, half-width by the mean, cost by the mean."""

    within: float
    half_width: float
    cost: float

    @classmethod
    def of(cls, usd: FloatArray, said: FloatArray, *others: FloatArray) -> Held:
        """Ends that reach as far as those of any."""
        ends = [np.percentile(each, (10, 90)) for each in (said, *others)]
        low, high, mean = min(e[0] for e in ends), max(e[1] for e in ends), said.mean()
        within = (usd >= low - 1e-9) & (usd <= high + 1e-9)
        return cls(float(within.mean()), float((high - low) / 2 / mean), float(usd.mean() / mean))


def zone_of(up: BoolArray, tick_s: float) -> SpotZone:
    """As somebody would state what was seen."""
    return SpotZone("zone", "region", float(up.mean()), mean_up_s(up, tick_s))


def usd_of(question: SpotQuestion, up: BoolArray, tick_s: float, starts: np.ndarray | None = None) -> FloatArray:
    """What the job costs from every hour, or from these ticks   [USD]."""
    market = SpotMarket(up, tick_s, np.full(len(up), SPOT), ON_DEMAND)
    first = every_start(question.expected, market) if starts is None else starts
    if len(first) < LEAST_STARTS:
        return np.zeros(0)
    hazards = hazards_of(market, 1, usual_hazards(np.random.default_rng(SEED), load_availability_fit(), AGES_S))
    draws = SpotDraws(market, first, Luck.none(question.expected, len(first)), hazards)
    return played(question, draws, uniform_rules(question.expected, tick_s, waits_ahead=True)).cost_usd


def drawn_usd(question: SpotQuestion, fit: AvailabilityFit, zones: ZoneDraw) -> FloatArray:
    """On draws of zones."""
    ticks = round(question.deadline_s / fit.tick_s) + 2
    up = drawn_availability(np.random.default_rng(SEED), fit, zones, NUM_DRAWS, ticks, 1)
    return usd_of(question, up, fit.tick_s, np.arange(NUM_DRAWS) * ticks)


def held_on(up: BoolArray, fit: AvailabilityFit) -> Iterator[tuple[str, Held]]:
    """Every job and way to ask on one trace."""
    half = up.shape[1] // 2
    before, after = up[:, :half], up[:, half:]
    stated, judged = ([zone_of(part, fit.tick_s)] for part in (before, after))
    for work_h, deadline_h, start_h in JOBS_H:
        work, start = (Spread(h * HOUR, h * HOUR, h * HOUR) for h in (work_h, start_h))
        question = SpotQuestion(work, start, deadline_h * HOUR, 60.0, 0.3 * HOUR)
        usd, own = (usd_of(question, part, fit.tick_s) for part in (after, before))
        if len(usd) and len(own):
            alike = drawn_usd(question, fit, lambda _: stated)
            yield SEEN, Held.of(usd, drawn_usd(question, fit, lambda rng: drawn_zones(rng, fit, 1)))
            yield STATED, Held.of(usd, alike)
            yield JUDGED, Held.of(usd, drawn_usd(question, fit, lambda _: judged))
            yield TRACED, Held.of(usd, own, alike)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="traces as skypilot-org/spot-traces names them")
    fit, found = load_availability_fit(), defaultdict(list)
    for path in sorted(parser.parse_args().folder.glob("*.json")):
        [nodes] = re.findall(r"_(\d+)-node", path.name)
        up = read_spot_trace(path).available(int(nodes), fit.tick_s)
        if up.shape[1] * fit.tick_s >= LEAST_DAYS * 24 * HOUR:
            for way, held in held_on(up, fit):
                found[way].append(held)
    print(f"{'what the question knows':46}  held  half-width  cost / mean   cells")
    for way, rows in found.items():
        within, half_width, cost = np.mean(rows, axis=0)
        print(f"{way:46}  {within:4.0%}  {half_width:9.0%}  {cost:12.3f}  {len(rows):6}")


if __name__ == "__main__":
    main()
