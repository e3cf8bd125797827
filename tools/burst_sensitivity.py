"""How much first tokens of measured bursts move when steps or the KV pool of the replay are a few percent off.

    python -m tools.burst_sensitivity measurements/serving_under_load.csv [--groups]

A row is a burst where its requests come within three latencies. Where a queue just forms, or where the median request
is the first that finds no room, a few percent of a step make a factor of the median first token: no model whose steps
are right within that can be held to such rows. The last line is what one factor for each group's steps, the best of
many, would reach. The requests of traces are read where `request_traces` lies beside the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpufleet.accuracy.benchmark_clients import client_of
from gpufleet.accuracy.loaded_rows import CLOSED, arrivals_of, replica_row
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.replays import copy_under
from gpufleet.accuracy.serving import REFUSALS, Setup
from gpufleet.accuracy.serving_under_load import experiment_of, load_of, why_not_scored
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.request_runs import Experiment, results_of, statistic_of, times_of
from gpufleet.simulate.cluster import Copy
from gpufleet.simulate.step_table import StepTable
from gpufleet.units import MILLISECOND

LATENCIES, FACTOR = 3.0, 1.5
AS_MODELLED = (1.0, 1.0)
A_LITTLE_OFF = ((0.95, 1.0), (1.05, 1.0), (0.9, 1.0), (1.1, 1.0), (1.0, 0.95), (1.0, 1.05))
"""Ratios of seconds of every step, and of blocks of the pool."""
TRIED = tuple((float(ratio), 1.0) for ratio in np.round(np.geomspace(0.6, 1.6, 21), 2))


@dataclass(frozen=True, eq=False)
class Burst:
    """A measured burst: its group, its median first token, what was asked, and the copy that answered."""

    group: str
    measured_s: float
    experiment: Experiment
    copy: Copy


def is_burst(row: MeasurementRow) -> bool:
    """Whether the requests of a row come within three latencies; a client's repeated runs count one by one."""
    arrivals, requests = arrivals_of(row), row.positive("num_requests")
    if arrivals.how == CLOSED or requests is None:
        return False
    window_s = requests / client_of(row).runs / arrivals.rate_requests_per_s
    return window_s < LATENCIES * latency_s(row)


def latency_s(row: MeasurementRow) -> float:
    """Mean latency of a row, else the median, else first token + tokens x time of each   [s]."""
    known = row.positive("e2e_mean_ms") or row.positive("e2e_p50_ms")
    if known is None:
        first, each = (row.positive(f"{time}_p50_ms") or 0.0 for time in ("ttft", "tpot"))
        known = first + each * ((row.positive("output_mean") or 1.0) - 1)
    return known * MILLISECOND


def bursts_of(file: str) -> list[Burst]:
    """The bursts of a file that state a median first token and can be replayed."""
    models, found = ModelFinder(Path(file).parent / "models"), []
    for row in read_measurements(file).rows:
        measured = row.positive("ttft_p50_ms")
        if why_not_scored(row) is not None or measured is None or not is_burst(row):
            continue
        try:
            one = replica_row(row)
            setup = Setup.of(one, models)
            load = load_of(one, setup.engine)
            experiment = experiment_of(one, file, setup, load)
            copy = copy_under(one, setup, experiment, load)
        except REFUSALS:
            continue
        group = f"{row.text('group')}, {row.text('engine_version')}"
        found.append(Burst(group, measured * MILLISECOND, experiment, copy))
    return found


def scaled(copy: Copy, step_ratio: float, pool_ratio: float) -> Copy:
    """The same copy with all its steps longer or shorter, and a larger or smaller pool."""
    seconds = {name: getattr(copy.table, name) for name in StepTable.__dataclass_fields__ if name.endswith("_s")}
    table = replace(copy.table, **{name: each * step_ratio for name, each in seconds.items() if each is not None})
    launches_s, pieces_s = (s * step_ratio for s in (copy.rules.launches_s, copy.rules.piece_launches_s))
    blocks = max(int(copy.rules.num_blocks * pool_ratio), 1)
    rules = replace(copy.rules, launches_s=launches_s, piece_launches_s=pieces_s, num_blocks=blocks)
    return Copy(rules, table)


def first_tokens_s(bursts: Sequence[Burst], ratios: tuple[float, float]) -> FloatArray:
    """Replayed median first tokens   [s]."""
    return np.array([first_token_s(burst.experiment, scaled(burst.copy, *ratios)) for burst in bursts])


def first_token_s(experiment: Experiment, copy: Copy) -> float:
    """The median first token, the mean of all draws   [s]."""
    draws = [times_of(result, experiment.uncounted)["ttft"] for result in results_of(copy, experiment)]
    return float(np.mean([statistic_of(seconds, "p50") for seconds in draws]))


def is_within(values: FloatArray, others: FloatArray) -> BoolArray:
    """Whether values are within the factor of others."""
    return np.asarray(np.abs(np.log(values / others)) <= np.log(FACTOR))


def report(bursts: Sequence[Burst], by_group: bool) -> None:
    """Print the table."""
    measured_s = np.array([burst.measured_s for burst in bursts])
    modelled_s = first_tokens_s(bursts, AS_MODELLED)
    met, moved = is_within(modelled_s, measured_s), np.zeros(len(bursts), dtype=bool)
    print(f"{len(bursts)} bursts, {met.sum()} within a factor {FACTOR:g} in the median first token")
    for ratios in A_LITTLE_OFF:
        values_s = first_tokens_s(bursts, ratios)
        moves = ~is_within(values_s, modelled_s)
        moved |= moves
        hits = is_within(values_s, measured_s).sum()
        print(f"steps x {ratios[0]:<5g} pool x {ratios[1]:<5g} {moves.mean():4.0%} move by more, {hits} within")
    print(f"any of these: {moved.mean():.0%} move by more; {met[moved].sum()} of {moved.sum()} of them are within,")
    print(f"{met[~moved].sum()} of the other {(~moved).sum()}")
    groups = np.array([burst.group for burst in bursts])
    tried = {ratios: is_within(first_tokens_s(bursts, ratios), measured_s) for ratios in TRIED}
    best = {group: best_of(groups == group, {AS_MODELLED: met, **tried}) for group in np.unique(groups)}
    for group, (hits, ratio) in best.items() if by_group else ():
        print(f"{group:60} {met[groups == group].sum():3} of {(groups == group).sum():3}, {hits:3} at x {ratio:g}")
    print(f"with the best factor for the steps of each group: {sum(hits for hits, _ in best.values())} within")


def best_of(of_group: BoolArray, tried: Mapping[tuple[float, float], BoolArray]) -> tuple[int, float]:
    """The most rows of a group that a factor reaches, and the factor nearest to 1 that does."""
    hits = {ratios[0]: int(within[of_group].sum()) for ratios, within in tried.items()}
    ratio = max(hits, key=lambda ratio: (hits[ratio], -abs(np.log(ratio))))
    return hits[ratio], ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How far bursts of measured rows move with a replay's constants.")
    parser.add_argument("file")
    parser.add_argument("--groups", action="store_true", help="Rows that are met, and the best factor, of each group.")
    options = parser.parse_args()
    report(bursts_of(options.file), options.groups)
