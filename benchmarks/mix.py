"""Mixes of machine types: how far from the best known, at once and after five seconds, and what others cost.

    python benchmarks/mix.py                      thirty random instances against `mix_best_known.csv`, misses first
    python benchmarks/mix.py --spare 1            the same, one machine lost: against what is proved
    python benchmarks/mix.py --literature         also Mélange's and AIBrix' programmes on the same instances
    python benchmarks/mix.py --many               100 services x 10 types within ten seconds
    python benchmarks/mix.py --trace FILE.csv     lengths of a trace (ContextTokens, GeneratedTokens): mix or one type
    python benchmarks/mix.py --best-known 600     asks three solvers, so many seconds each, and stores

Best known: SCIP and HiGHS with buckets that are split freely, CP-SAT with 32 slices of each, until one proves its
optimum to a millionth. Bars: 0.3 % after five seconds on two cores, 5 % at once; 100 services in ten seconds.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.greedy import greedy_mix
from gpufleet.optimize.mixes.search import solve_mix
from mix_instances import GPUS, MODELS, SCALED, USED_BYTES, USED_FLOP, Instance, all_instances, rates_of, services
from mix_solvers import HIGHS, SCIP, Answer, by_cp_sat, sliced_programme, whole_programme

BEST_KNOWN = Path(__file__).with_name("mix_best_known.csv")
COLUMNS = ("instance", "usd_per_hour", "bound_usd_per_hour", "solver", "seconds")
PROVED, ROUNDING = 1 + 2e-6, 1e-5
LIMIT_S, MANY_LIMIT_S, OF_BEST, AT_ONCE = 5.0, 10.0, 0.003, 0.05
SLICES = 8
RATES = (20.0, 100.0)
LARGEST_COUNT, MOST_USD = 8, 400.0


@dataclass(frozen=True)
class Ours:
    """An instance answered at once and after the limit."""

    name: str
    at_once: Mix | None
    at_once_s: float
    solved: Mix | None
    solved_s: float

    def over(self, mix: Mix | None, known_usd: float) -> float:
        """What a mix costs more than what is known, as a ratio."""
        return math.inf if mix is None else rounded_ratio(mix.usd_per_hour / known_usd - 1)


def rounded_ratio(ratio: float) -> float:
    """A ratio without what is left of a solver's tolerance."""
    return ratio if abs(ratio) > ROUNDING else 0.0


def answered(instance: Instance, limit_s: float) -> Ours:
    """Our answers; what is at once is found again for the second."""
    began = time.monotonic()
    at_once = greedy_mix(instance.problem)
    middle = time.monotonic()
    best = solve_mix(instance.problem, Effort.of_seconds(limit_s, lambda: time.monotonic() - middle))
    return Ours(instance.name, at_once, middle - began, best, time.monotonic() - middle)


def best_known() -> dict[str, tuple[float, float]]:
    """The stored cost and bound of every instance."""
    with BEST_KNOWN.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {row["instance"]: (float(row["usd_per_hour"]), float(row["bound_usd_per_hour"])) for row in rows}


def by_three_solvers(problem: MixProblem, limit_s: float) -> Answer:
    """The best of three, with the best bound; the next is asked while nothing is proved."""
    found: list[Answer] = []
    asked: tuple[Callable[[], Answer], ...] = (
        lambda: whole_programme(problem, SCIP, limit_s),
        lambda: whole_programme(problem, HIGHS, limit_s),
        lambda: by_cp_sat(problem, limit_s),
    )
    for ask in asked:
        found.append(ask())
        best = min(found, key=lambda answer: answer.usd_per_hour)
        bound = max(answer.bound_usd_per_hour for answer in found)
        if best.usd_per_hour <= bound * PROVED:
            break
    return Answer(best.solver, best.usd_per_hour, bound, sum(answer.took_s for answer in found))


def store_best_known(limit_s: float) -> Iterator[str]:
    """The file beside this one, written anew."""
    with BEST_KNOWN.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(COLUMNS)
        for instance in all_instances():
            best = by_three_solvers(instance.problem, limit_s)
            cost, bound = f"{best.usd_per_hour:.6f}", f"{best.bound_usd_per_hour:.6f}"
            rows.writerow([instance.name, cost, bound, best.solver, f"{best.took_s:.1f}"])
            stream.flush()
            yield f"{instance.name}: {cost}, nobody below {bound}; {best.solver}, {best.took_s:.1f} s"


def table(spare_machines: int, limit_s: float) -> Iterator[str]:
    """A line for each instance, those that miss a bar first, and one for all."""
    known = {} if spare_machines else best_known()
    rows: list[tuple[bool, float, str]] = []
    for instance in all_instances():
        asked = replace(instance, problem=replace(instance.problem, spare_machines=spare_machines))
        ours = answered(asked, limit_s)
        least = ours.solved.least_usd_per_hour if ours.solved else math.inf
        usd = known[instance.name][0] if known else least
        far, near = ours.over(ours.at_once, usd), ours.over(ours.solved, usd)
        missed = " MISSED" if far > AT_ONCE or near > OF_BEST else ""
        gap = ours.solved.gap_ratio if ours.solved else math.inf
        rows.append(
            (
                not missed,
                -max(far / AT_ONCE, near / OF_BEST),
                f"{instance.name}:{missed} at once {far:.2%} in {ours.at_once_s:.2f} s, solved {near:.3%} "
                f"in {ours.solved_s:.1f} s, own gap {gap:.3%}; ${usd:,.2f}/h",
            )
        )
    yield f"over {'what is proved' if spare_machines else 'the best known'}, {spare_machines} machines lost:"
    yield from (text for *_, text in sorted(rows))
    yield f"{sum(not fine for fine, *_ in rows)} of {len(rows)} miss a bar; machine load {os.getloadavg()[0]:.1f}"


def literature(limit_s: float) -> Iterator[str]:
    """What programmes of the literature cost over the best known, after as long as ours."""
    known = best_known()
    ratios: dict[str, list[float]] = {}
    for instance in all_instances():
        told = []
        for is_binary in (True, False):
            found = sliced_programme(instance.problem, SLICES, limit_s, is_binary=is_binary)
            over = rounded_ratio(found.usd_per_hour / known[instance.name][0] - 1)
            ratios.setdefault(found.solver, []).append(over)
            told.append(f"{found.solver} {over:.2%} in {found.took_s:.1f} s")
        yield f"{instance.name}: {', '.join(told)}"
    for name, of_all in ratios.items():
        there = [x for x in of_all if math.isfinite(x)]
        yield (
            f"{name}, {SLICES} slices: median {statistics.median(there):.2%}, worst {max(there):.2%} over the best "
            f"known; nothing found on {len(of_all) - len(there)} of {len(of_all)}"
        )


def many(limit_s: float) -> Iterator[str]:
    """Many services at a time."""
    for is_shared in (False, True):
        asked = services(100, 10, is_shared=is_shared)
        ours = answered(asked, limit_s)
        for what, mix, took in (("at once", ours.at_once, ours.at_once_s), ("solved", ours.solved, ours.solved_s)):
            told = "nothing" if mix is None else f"${mix.usd_per_hour:,.2f}/h, gap {mix.gap_ratio:.2%}"
            yield f"{asked.name}, {what}: {told} in {took:.1f} s"


@dataclass(frozen=True)
class Histogram:
    """Requests in buckets: mean tokens of the prompts and of the answers, and the share of all requests, [bucket]."""

    input_tokens: FloatArray
    output_tokens: FloatArray
    share: FloatArray


def histogram(lengths: FloatArray) -> Histogram:
    """Buckets that each double in both lengths; `lengths`: [request, 2], tokens of the prompt and of the answer."""
    edges = np.floor(np.log2(np.maximum(lengths, 1.0))).astype(np.int64)
    _, of, count = np.unique(edges, axis=0, return_inverse=True, return_counts=True)
    tokens = np.array([np.bincount(of.ravel(), weights=column) / count for column in lengths.T])
    return Histogram(tokens[0], tokens[1], count / len(lengths))


def lengths_of(path: str) -> FloatArray:
    """Tokens of the prompt and of the answer of every request of a trace."""
    with open(path, encoding="utf-8", newline="") as stream:
        rows = [(float(row["ContextTokens"]), float(row["GeneratedTokens"])) for row in csv.DictReader(stream)]
    return np.array([row for row in rows if min(row) > 0])


def staged_types() -> FloatArray:
    """Every GPU of the stage in machines of one to eight: rows as `drawn_types`, at list prices."""
    rows = []
    for bandwidth, peak, memory, usd in GPUS.values():
        for n in (1, 2, 4, LARGEST_COUNT):
            speed = n * SCALED ** math.log2(n)
            rows.append(
                (bandwidth * 1e12 * USED_BYTES * speed, peak * 1e12 * USED_FLOP * speed, memory * 1e9 * n, n * usd)
            )
    return np.array(rows)


def savings(path: str, limit_s: float) -> Iterator[str]:
    """What a mix saves against the best single type on the lengths of a trace."""
    found, types = histogram(lengths_of(path)), staged_types()
    yield f"{Path(path).name}: {len(found.share)} buckets"
    for weights, kv in MODELS:
        sustained = rates_of(weights, kv, types, found.input_tokens, found.output_tokens)
        carried = sustained.any(axis=1)
        for rate in RATES:
            with np.errstate(divide="ignore"):
                load = rate * found.share[carried, None] / sustained[carried]
            alone = np.min(np.ceil(np.sum(load, axis=0)) * types[:, 3])
            problem = MixProblem.of_types(load, types[:, 3], np.full(len(types), np.inf))
            mix = answered(Instance(path, problem), limit_s).solved
            told = "none" if mix is None else f"${mix.usd_per_hour:,.2f}/h, {1 - mix.usd_per_hour / alone:.1%} less"
            yield f"{weights / 1e9:g}B at {rate:g}/s: one type ${alone:,.2f}/h, mix {told}"


def rows_of(asked: argparse.Namespace) -> Iterator[str]:
    """What is asked, line by line."""
    if asked.best_known:
        yield from store_best_known(asked.best_known)
    elif asked.trace:
        for path in asked.trace:
            yield from savings(path, asked.limit)
    elif asked.literature:
        yield from literature(asked.limit)
    elif asked.many:
        yield from many(MANY_LIMIT_S)
    else:
        yield from table(asked.spare, asked.limit)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--best-known", type=float, metavar="SECONDS")
    parser.add_argument("--spare", type=int, default=0)
    parser.add_argument("--limit", type=float, default=LIMIT_S)
    parser.add_argument("--literature", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--trace", nargs="+")
    for row in rows_of(parser.parse_args(arguments)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
