"""Small random problems of mixes, with every word that a mix knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.mix import Loss, MachineLimit, MixProblem, Share


def random_mix(seed: int, *, most_offers: int = 4) -> MixProblem:
    """One or two services of one to four buckets over a few offers, of which some words bind."""
    rng = np.random.default_rng([19, seed])
    services, offers = int(rng.integers(1, 3)), int(rng.integers(2, most_offers + 1))
    buckets = [int(rng.integers(1, 5)) for _ in range(services)]
    ways = services * offers
    service_of_bucket, service_of_way = np.repeat(np.arange(services), buckets), np.repeat(np.arange(services), offers)
    load = rng.lognormal(-0.3, 0.9, (sum(buckets), ways))
    load[rng.random(load.shape) < 0.15] = np.inf
    load[~np.isfinite(load).any(axis=1)] = 1.0
    load[service_of_bucket[:, None] != service_of_way[None, :]] = np.inf
    load[~np.isfinite(load).any(axis=1)[:, None] & (service_of_bucket[:, None] == service_of_way[None, :])] = 1.0
    plain = MixProblem(
        load_units=load,
        service_of_bucket=service_of_bucket,
        offer_of_way=np.tile(np.arange(offers), services),
        service_of_way=service_of_way,
        replicas_per_unit=np.ones(ways),
        machines_per_unit=np.ones(ways),
        usd_per_hour=rng.uniform(1, 6, offers).round(2),
        most_machines=np.full(offers, np.inf),
        machines_today=np.zeros(offers),
        leaving_usd_per_hour=np.zeros(offers),
        least_replicas=np.zeros(services),
    )
    return with_words(plain, rng)


def with_words(problem: MixProblem, rng: np.random.Generator) -> MixProblem:
    """The problem with a few words, each there or not."""
    offers, ways, services = problem.num_offers, problem.num_ways, len(problem.least_replicas)
    region = rng.integers(0, 2, offers)
    is_there = rng.random(9) < 0.35
    if is_there[0]:
        quota = np.where(rng.random(offers) < 0.5, rng.integers(1, 5, offers), np.inf)
        problem = replace(problem, most_machines=quota)
    if is_there[1]:
        at_most = MachineLimit("a region", (region == 0) * rng.integers(1, 9), float(rng.integers(4, 20)))
        problem = replace(problem, limits=(*problem.limits, at_most))
    if is_there[2]:
        problem = replace(problem, limits=(*problem.limits, MachineLimit("budget", problem.usd_per_hour, 40.0)))
    if is_there[3]:
        share = Share("a cloud", region == 0, problem.usd_per_hour, float(rng.choice([0.3, 0.5, 0.8])))
        problem = replace(problem, shares=(replace(share, tolerance_ratio=0.3 if rng.random() < 0.5 else None),))
    if is_there[4]:
        today = rng.integers(0, 3, offers).astype(float)
        problem = replace(problem, machines_today=today, leaving_usd_per_hour=rng.uniform(0, 2, offers))
    if is_there[5]:
        problem = replace(problem, least_replicas=rng.integers(1, 5, services).astype(float))
    if is_there[6]:
        gone = (region[problem.offer_of_way] == 0).astype(float)
        two = [Loss("region 0", gone, np.zeros(ways)), Loss("region 1", 1 - gone, np.zeros(ways))]
        problem = replace(problem, losses=(*problem.losses, *two))
    if is_there[7]:
        third = Loss("a zone", np.full(ways, 1 / 3), np.zeros(ways))
        problem = replace(problem, losses=(*problem.losses, third), spare_machines=int(rng.integers(0, 2)))
    if is_there[8]:
        problem = replace(problem, spare_machines=int(rng.integers(1, 3)))
    if not (problem.losses or problem.spare_machines) and rng.random() < 0.5:
        problem = replace(problem, machines_per_unit=rng.choice([0.25, 0.5, 1.0], ways))
    return problem
