"""Fits round trips to the distance between regions, and says how far they miss those of a cloud that was left out.

`python tools/calibrate network-latency [--ibm FILE]` reads `data/network_latency/` and, for the fit alone, a table
from,to,rtt_ms between cities. With `--write` it puts the fit into `data/calibration/network_latency.toml`; judgements
of that file stay. The fit has the least mean |ln(measured / reckoned)|; ranges are 10th and 90th percentile of
measured / reckoned, for pairs near a measured one with the pair's own cloud left out.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from gpufleet.catalog.network_latency import MeasuredPair, load_network_model, measured_pairs, measured_round_trips
from gpufleet.catalog.table_files import toml_of
from gpufleet.catalog.user_places import folded, spoken_places
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.network_latency import NetworkModel
from gpufleet.performance.network_latency import detour_s, distance_between_km, distance_s, nearest_pair
from gpufleet.provenance import Sourced
from gpufleet.units import MILLISECOND

SHIPPED = Path(__file__).resolve().parents[2] / "src" / "gpufleet" / "data" / "calibration" / "network_latency.toml"
INTERCEPTS_MS, SLOPES_MS_PER_KM = np.arange(0.5, 15.0, 0.25), np.arange(0.0100, 0.0250, 0.0001)
LEAST_KM, ENDS, IBM = 100.0, (10, 90), "ibm"
OTHER_NAMES = {"washington dc": "washington"}
BINS_KM = (0, 100, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Pairs:
    """Measured pairs: whose, how far apart, how long."""

    clouds: FloatArray
    pairs: Sequence[MeasuredPair]

    @property
    def km(self) -> FloatArray:
        return np.array([distance_between_km(pair.place, pair.other) for pair in self.pairs])

    @property
    def median_s(self) -> FloatArray:
        return np.array([pair.median_s for pair in self.pairs])

    def where(self, chosen: FloatArray) -> Pairs:
        return Pairs(self.clouds[chosen], [self.pairs[row] for row in np.flatnonzero(chosen)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ibm", type=Path, help="round trips between cities: from,to,rtt_ms")
    parser.add_argument("--write", action="store_true", help="write the fit into the shipped calibration")


def all_pairs(between_cities: Path | None) -> Pairs:
    pairs = [*measured_pairs(), *(city_pairs(between_cities) if between_cities else ())]
    return Pairs(np.array([cloud_of(pair) for pair in pairs]), pairs)


def cloud_of(pair: MeasuredPair) -> str:
    return pair.place.cloud if pair.place.cloud == pair.other.cloud else "across"


def city_pairs(path: Path) -> list[MeasuredPair]:
    """Pairs of cities, both directions averaged."""
    seen: dict[tuple[str, str], list[float]] = {}
    for row in csv.DictReader(path.open(encoding="utf-8")):
        first, second = sorted((folded(row["from"]), folded(row["to"])))
        seen.setdefault((first, second), []).append(float(row["rtt_ms"]))
    places = spoken_places()
    named = [(OTHER_NAMES.get(a, a), OTHER_NAMES.get(b, b), times) for (a, b), times in seen.items()]
    return [
        MeasuredPair(
            replace(places[a], cloud=IBM, region=a),
            replace(places[b], cloud=IBM, region=b),
            float(np.mean(times)) * MILLISECOND,
            IBM,
        )
        for a, b, times in named
    ]


def fitted(pairs: Pairs, model: NetworkModel) -> NetworkModel:
    """Intercept and slope with the least mean error of logarithms."""
    far = pairs.km >= LEAST_KM
    km, measured = pairs.km[far], pairs.median_s[far]
    reckoned = INTERCEPTS_MS[:, None, None] + SLOPES_MS_PER_KM[:, None] * km
    misses = np.abs(np.log(measured / MILLISECOND / reckoned)).mean(axis=-1)
    row, column = np.unravel_index(np.argmin(misses), misses.shape)
    intercept_s, per_km_s = INTERCEPTS_MS[row] * MILLISECOND, SLOPES_MS_PER_KM[column] * MILLISECOND
    return replace(
        model,
        intercept_s=replace(model.intercept_s, value=float(intercept_s), points=int(far.sum())),
        per_km_s=replace(model.per_km_s, value=float(per_km_s), points=int(far.sum())),
    )


def ratios_by_distance(pairs: Pairs, model: NetworkModel) -> FloatArray:
    far = pairs.km >= LEAST_KM
    return pairs.median_s[far] / np.asarray(distance_s(pairs.km[far], model))


def ratios_by_neighbour(pairs: Pairs, others: Pairs, model: NetworkModel) -> FloatArray:
    """Measured over reckoned from the nearest pair of others [pair], and how far that lies off in km."""
    measured = measured_round_trips(others.pairs)
    far_km, found = others.km, []
    for pair, km in zip(pairs.pairs, pairs.km, strict=True):
        near, off_km = nearest_pair(pair.place, pair.other, measured)
        reckoned_s = float(detour_s(float(km), float(far_km[near]), float(measured.median_s[near]), model))
        found.append((pair.median_s / reckoned_s, off_km))
    return np.array(found).T


def missed(ratios: FloatArray) -> str:
    low, middle, high = np.percentile(ratios, [ENDS[0], 50, ENDS[1]])
    miss = np.median(np.abs(1 / ratios - 1))
    return f"{len(ratios):5d} pairs, median error {miss:6.1%}, measured / reckoned {low:.2f} {middle:.2f} {high:.2f}"


def left_out(pairs: Pairs, model: NetworkModel) -> FloatArray:
    """What each cloud's pairs are over what the others' say, printed; by the nearest pair, with how far it lies."""
    found = []
    for cloud in sorted(set(pairs.clouds)):
        own, others = pairs.where(pairs.clouds == cloud), pairs.where(pairs.clouds != cloud)
        by_others = fitted(others, model)
        by_neighbour = ratios_by_neighbour(own, others, by_others)
        print(f"{cloud:6} left out, from the distance    {missed(ratios_by_distance(own, by_others))}")
        print(f"{cloud:6} left out, from the nearest pair {missed(by_neighbour[0])}")
        found.append(by_neighbour)
    return np.concatenate(found, axis=1)


def ranged(row: Sourced, ratios: FloatArray) -> Sourced:
    low, high = np.percentile(ratios, ENDS)
    return replace(row, low=float(min(low, 1.0)), high=float(max(high, 1.0)), points=len(ratios))


def table_text(model: NetworkModel) -> str:
    """All rows, judgements too, as they stand in the file."""
    head = f"# {toml_heading()}\n"
    return head + "".join(row_text(name, getattr(model, name)) for name in model.__dataclass_fields__)


def toml_heading() -> str:
    return SHIPPED.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def row_text(name: str, row: Sourced) -> str:
    ends = "".join(f"{end} = {getattr(row, end):.4g}\n" for end in ("low", "high") if getattr(row, end) is not None)
    value = f'value = {row.value:.4g}\nunit = "{row.unit}"'
    return f'\n[{name}]\n{value}\n{ends}points = {row.points}\nsource = "{row.source}"\n'


def run(arguments: argparse.Namespace) -> None:
    pairs = all_pairs(arguments.ibm)
    assert set(toml_of(SHIPPED)) == set(NetworkModel.__dataclass_fields__)
    model = fitted(pairs, load_network_model())
    off_ratio, off_km = left_out(pairs, model)
    for low, high in pairwise(BINS_KM):
        within = (off_km >= low) & (off_km < high)
        print(f"nearest pair {low} to {high} km off: {missed(off_ratio[within])}")
    print(f"all, in sample, from the distance    {missed(ratios_by_distance(pairs, model))}")
    near = off_km <= model.near_km.value
    far = ~near & (off_km <= model.far_km.value)
    model = replace(
        model,
        distance_ratio=ranged(model.distance_ratio, ratios_by_distance(pairs, model)),
        near_ratio=ranged(model.near_ratio, off_ratio[near]),
        far_ratio=ranged(model.far_ratio, off_ratio[far]),
    )
    print(table_text(model))
    if arguments.write:
        SHIPPED.write_text(table_text(model), encoding="utf-8")
