"""Random questions of `benchmarks/mix.py`: machine types that specialise, by a roofline with room for KV cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.mix import MixProblem

SIZES = (((2, 2), 4), ((4, 4), 6), ((6, 6), 8), ((8, 8), 12), ((10, 10), 16), ((12, 12), 20))
"""Input lengths x output lengths, machine types."""
SEEDS = range(5)
GPUS = {
    "T4": (0.30, 65, 16, 0.53),
    "L4": (0.30, 121, 24, 0.80),
    "A10G": (0.60, 70, 24, 1.20),
    "RTX4090": (1.01, 165, 24, 0.70),
    "V100": (0.90, 125, 32, 2.50),
    "L40S": (0.86, 362, 48, 1.90),
    "A100-40": (1.56, 312, 40, 2.70),
    "A100-80": (2.04, 312, 80, 3.40),
    "H100": (3.35, 989, 80, 6.00),
    "H200": (4.80, 989, 141, 7.50),
    "MI300X": (5.30, 1307, 192, 6.50),
    "B200": (8.00, 2250, 180, 9.50),
}
"""TB/s, dense TFLOP/s, GB and about what an hour costs: a stage, not a catalogue."""
COUNTS = (1, 2, 4, 8)
MODELS = ((8e9, 131e3), (32e9, 262e3), (70e9, 328e3))
"""Parameters, bytes of KV cache per token; two bytes per weight."""
SHORTEST, LONGEST_INPUT, LONGEST_OUTPUT = 32, 16_384, 2_048
TTFT_S, TPOT_S, MOST_SEQUENCES = 5.0, 0.1, 256
USED_FLOP, USED_BYTES, SCALED, STEP_S = 0.5, 0.75, 0.93, 0.006
OF_WORTH, SCATTER = 0.7, 0.08
"""Prices follow what a type is worth over all lengths rather than the list, so that no type is the best for all."""
FLEETS = (5.0, 120.0)
"""Machines of the cheapest way for every bucket, in fractions."""
OF_NEED = (0.02, 0.5)
"""A quota is such a part of what its type would take alone."""


@dataclass(frozen=True)
class Instance:
    """A question by its name."""

    name: str
    problem: MixProblem


def lengths(longest: int, parts: int) -> FloatArray:
    """Lengths that stand for so many buckets, evenly on a log scale."""
    edges = np.geomspace(SHORTEST, longest, parts + 1)
    return np.asarray(np.sqrt(edges[1:] * edges[:-1]))


def rates_of(
    weights: float, kv: float, machines: FloatArray, input_tokens: FloatArray, output_tokens: FloatArray
) -> FloatArray:
    """Requests per second that one machine sustains within both objectives, [bucket, type]; 0 where it cannot.

    `machines`: rows of bytes per second, FLOP per second, bytes and price.
    """
    bandwidth, peak, memory = (machines[None, :, at] for at in range(3))
    isl, osl = input_tokens[:, None], output_tokens[:, None]
    kv_of_request = kv * (isl + osl / 2)
    room = np.floor((0.9 * memory - 2 * weights) / kv_of_request)
    in_time = np.floor(((TPOT_S - STEP_S) * bandwidth - 2 * weights) / kv_of_request)
    sequences = np.clip(np.minimum(room, in_time), 0, MOST_SEQUENCES)
    prefill_s = 2 * weights * isl / peak
    step_s = STEP_S + (2 * weights + sequences * kv_of_request) / bandwidth
    holds = (sequences >= 1) & (prefill_s <= TTFT_S)
    return np.where(holds, sequences / (sequences * prefill_s + osl * step_s), 0.0)


def drawn_types(rng: np.random.Generator, count: int) -> FloatArray:
    """Machines of one to eight GPUs, no two alike: rows of bytes per second, FLOP per second, bytes and list price."""
    kinds = [(gpu, n) for gpu in GPUS.values() for n in COUNTS]
    rows = []
    for at in rng.choice(len(kinds), count, replace=False):
        (bandwidth, peak, memory, usd), n = kinds[at]
        speed = n * SCALED ** math.log2(n)
        rows.append((bandwidth * 1e12 * USED_BYTES * speed, peak * 1e12 * USED_FLOP * speed, memory * 1e9 * n, n * usd))
    return np.array(rows)


def drawn_prices(rng: np.random.Generator, sustained: FloatArray, list_usd: FloatArray) -> FloatArray:
    """Prices of a market that knows what types are worth: about the same per request over the lengths they can do."""
    best = np.max(sustained, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.log(np.where(sustained > 0, sustained / best, np.nan))
    worth = np.exp(np.nanmean(part, axis=0)) * np.mean(sustained > 0, axis=0) ** 0.5
    market = worth * np.exp(np.mean(np.log(list_usd)) - np.mean(np.log(worth)))
    scatter = np.exp(rng.normal(0, SCATTER, len(worth)))
    return np.asarray(market**OF_WORTH * list_usd ** (1 - OF_WORTH) * scatter)


def drawn_rates(rng: np.random.Generator, inputs: int, outputs: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean input and output length of every bucket, and its share of the requests."""
    isl, osl = np.meshgrid(lengths(LONGEST_INPUT, inputs), lengths(LONGEST_OUTPUT, outputs), indexing="ij")
    far = (np.log(isl / rng.uniform(200, 2000)) ** 2 + np.log(osl / rng.uniform(80, 400)) ** 2) / 4
    share = np.exp(-far) * rng.lognormal(0, 0.5, isl.shape)
    return isl.ravel(), osl.ravel(), (share / share.sum()).ravel()


def drawn_quotas(rng: np.random.Generator, load: FloatArray) -> FloatArray:
    """Machines that can be had: half of the types have a quota, a part of what they would take alone."""
    alone = np.sum(np.where(np.isfinite(load), load, 0.0), axis=0)
    limited: BoolArray = rng.permutation(load.shape[1]) < load.shape[1] // 2
    low, high = np.log(OF_NEED)
    quota = np.floor(alone * np.exp(rng.uniform(low, high, load.shape[1])))
    return np.where(limited, quota, np.inf)


def instance(size: int, seed: int) -> Instance:
    """The question of a size and a seed; drawn again until types without a quota can carry every bucket."""
    (inputs, outputs), types = SIZES[size]
    rng = np.random.default_rng([2404, 14527, size, seed])
    while True:
        machines, (weights, kv) = drawn_types(rng, types), MODELS[rng.integers(len(MODELS))]
        isl, osl, share = drawn_rates(rng, inputs, outputs)
        sustained = rates_of(weights, kv, machines, isl, osl)
        if not np.all(sustained.any(axis=0)) or not np.all(sustained.any(axis=1)):
            continue
        price = drawn_prices(rng, sustained, machines[:, 3])
        with np.errstate(divide="ignore"):
            load = share[:, None] / sustained
        at_best = load[np.arange(len(load)), np.argmin(load * price, axis=1)]
        load *= math.exp(rng.uniform(*np.log(FLEETS))) / float(np.sum(at_best))
        most = drawn_quotas(rng, load)
        if np.all(np.isfinite(load[:, np.isinf(most)]).any(axis=1)):
            return Instance(f"{len(isl)}x{types}-{seed}", MixProblem.of_types(load, price, most))


def all_instances() -> list[Instance]:
    """All thirty, small ones first."""
    return [instance(size, seed) for size in range(len(SIZES)) for seed in SEEDS]


def services(count: int, types: int, *, is_shared: bool, seed: int = 0) -> Instance:
    """Many services of four buckets each over the same types, half of which have a quota.

    `is_shared`: a machine holds four replicas, also of several services; else a unit is a machine.
    """
    rng = np.random.default_rng([2404, 14527, count, types, seed])
    machines = drawn_types(rng, types)
    load = np.full((4 * count, types * count), np.inf)
    every = np.zeros((4 * count, types))
    for service in range(count):
        while True:
            isl, osl, share = drawn_rates(rng, 2, 2)
            sustained = rates_of(*MODELS[rng.integers(2)], machines, isl, osl)
            if np.all(sustained.any(axis=1)):
                break
        with np.errstate(divide="ignore"):
            own = share[:, None] / sustained
        own *= math.exp(rng.uniform(*np.log((0.2, 8.0)))) / float(np.sum(np.min(own, axis=1)))
        rows = slice(4 * service, 4 * service + 4)
        load[rows, types * service : types * (service + 1)] = every[rows] = own * (4 if is_shared else 1)
    each, of_service = 4.0 if is_shared else 1.0, np.repeat(np.arange(count), types)
    alone = np.sum(np.where(np.isfinite(every), every, 0.0), axis=0) / each
    best = np.bincount(np.argmin(every * machines[:, 3], axis=1), minlength=types) / (4 * count)
    limited = rng.permutation(types) < types // 2
    most = np.where(limited, np.floor(alone * np.maximum(best, 0.05) * rng.uniform(0.3, 1.2, types)), np.inf)
    none, one = np.zeros(types), np.ones(types * count)
    problem = MixProblem(
        load_units=load,
        service_of_bucket=np.repeat(np.arange(count), 4),
        offer_of_way=np.tile(np.arange(types), count),
        service_of_way=of_service,
        replicas_per_unit=one,
        machines_per_unit=one / each,
        usd_per_hour=machines[:, 3],
        most_machines=most,
        machines_today=none,
        leaving_usd_per_hour=none,
        least_replicas=np.ones(count),
    )
    return Instance(f"{count} services x {types} types{' on shared machines' if is_shared else ''}", problem)
