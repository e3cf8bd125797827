"""How often a job on spot costs what its 10-90 % range said: the second half of every trace against its first.

`python benchmarks/spot_ranges.py FOLDER` reads traces as `gpufleet spot --trace` does. Every hour of a trace's second
half is the start of a job under uniform progress; its question knows the first half alone, in four ways. Printed: the
share of those jobs within the range, its half-width by its mean, what jobs cost by that mean, over traces and jobs.
How far a stated market moves on is learnt without the traces of the same days and region.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.calibrate.spot_availability import TICK_S, Trace, traces_in
from tools.calibrate.spot_moves import Said, drawn_usd, halves_of, moved_ratio, questions, said_of, stated_usd, usd_of

from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.availability import AvailabilityFit
from gpufleet.simulate.spot_availability import drawn_zones
from gpufleet.units import DAY

LEAST_DAYS = 6.7
SEEN = "zones as different as measured ones"
STATED = "availability and mean up of the half before"
STILL = "the same, as if a market stood still"
JUDGED = "the same of the time that is judged"
TRACED = "the half before as --trace"


class Held(NamedTuple):
    """Of one trace and job: share within the range, half-width by the mean, cost by the mean."""

    within: float
    half_width: float
    cost: float

    @classmethod
    def of(cls, said: Said, moved: float = 0.0) -> Held:
        """Where the market moves so far."""
        low, high = said.ends(moved)
        return cls(said.held(moved), (high - low) / 2 / said.mean, float(said.usd.mean() / said.mean))


def group_of(trace: Trace) -> tuple[str, str]:
    """Traces of the same days and region lack machines together."""
    return trace.began, trace.region


def held_on(up: BoolArray, fit: AvailabilityFit, moved: float) -> Iterator[tuple[str, Held]]:
    """Every job and way to ask on one trace."""
    before, after = halves_of(up)
    for question in questions():
        usd, own = (usd_of(question, fit, part) for part in (after, before))
        if len(usd) and len(own):
            seen = drawn_usd(question, fit, lambda rng: drawn_zones(rng, fit, 1))
            alike = stated_usd(question, fit, before)
            yield SEEN, Held.of(Said.of(question, usd, seen))
            yield STATED, Held.of(Said.of(question, usd, alike), moved)
            yield STILL, Held.of(Said.of(question, usd, alike))
            yield JUDGED, Held.of(Said.of(question, usd, stated_usd(question, fit, after)))
            yield TRACED, Held.of(Said.of(question, usd, own, alike), moved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="traces as skypilot-org/spot-traces names them")
    fit = load_availability_fit()
    found: dict[str, list[Held]] = defaultdict(list)
    said: dict[tuple[str, str], list[Said]] = defaultdict(list)
    traces = [t for t in traces_in(parser.parse_args().folder) if len(t.up) * TICK_S >= LEAST_DAYS * DAY]
    for trace in traces:
        said[group_of(trace)] += said_of(trace.up[np.newaxis], fit)
    for trace in traces:
        others = [each for group, of in said.items() if group != group_of(trace) for each in of]
        for way, held in held_on(trace.up[np.newaxis], fit, moved_ratio(others)):
            found[way].append(held)
    print(f"{'what the question knows':46}  held  half-width  cost / mean   cells")
    for way, rows in found.items():
        within, half_width, cost = np.mean(rows, axis=0)
        print(f"{way:46}  {within:4.0%}  {half_width:9.0%}  {cost:12.3f}  {len(rows):6}")


if __name__ == "__main__":
    main()
