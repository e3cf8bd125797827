"""A day of a law of scaling, replayed request by request: whether ticks and closed forms told the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.api.demands import demand_of
from gpufleet.api.planned_replicas import copy_in
from gpufleet.api.scaled_plans import ScaledPlan
from gpufleet.api.simulated_copies import CopyQuestion, copy_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.replay import Replay
from gpufleet.errors import UsageError
from gpufleet.optimize.autoscale import Outcome
from gpufleet.results.autoscale import ReplayedDay
from gpufleet.simulate.cluster import Cluster, Member, replay
from gpufleet.simulate.faults import scaled
from gpufleet.simulate.generated import requests_at
from gpufleet.simulate.metrics import keeps_all
from gpufleet.simulate.scaling import Played
from gpufleet.units import DAY

MOST_REQUESTS = 8_000_000
P95 = 0.95


def replayed_day(held: ScaledPlan, found: Outcome, seed: int, tables: Catalog) -> ReplayedDay:
    """The worst day of a law, its requests at random moments of their ticks."""
    day = int(np.argmin(found.days))
    played = day_of(found.played, day)
    refuse_too_many(played)
    rng, workload = np.random.default_rng(seed), demand_of(held.request, held.arch).workload
    requests = requests_at(moments_s(played, rng), workload, rng)
    copy = copy_of(copy_in(held.answer, CopyQuestion(held.arch, "")), requests, catalog=tables).copy
    ready = played.ready * held.copies
    members = tuple(Member(is_ready=i < ready[0]) for i in range(max(int(ready.max()), 1)))
    changes = tuple(scaled(ready, played.tick_s))
    done = replay(Cluster((copy,), members, changes=changes), requests, rng)
    return ReplayedDay(
        policy=found.preset,
        day=day + 1,
        num_requests=len(requests),
        kept_ratio_played=float(played.kept.sum() / played.arrivals.sum()),
        kept_ratio=float(keeps_all(done, workload.slo.limits).mean()),
        **slowest_of(done),
    )


def day_of(played: Played, day: int) -> Played:
    """One whole day of a play; all of it where there is none."""
    ticks = round(DAY / played.tick_s)
    part = slice(day * ticks, (day + 1) * ticks)
    own = {
        name: getattr(played, name)[part] for name in ("arrivals", "paid", "ready", "served", "queue", "kept", "cold")
    }
    return replace(played, **own)


def refuse_too_many(played: Played) -> None:
    """Refuse a day of more requests than memory holds, and one of none."""
    number = float(played.arrivals.sum())
    if not 1 <= number <= MOST_REQUESTS:
        hint = "--mean-rate scales the curve."
        raise UsageError("the worst day cannot be replayed", found=f"{number:,.0f} requests",
                         expected=f"1 to {MOST_REQUESTS:,}", hint=hint)  # fmt: skip


def moments_s(played: Played, rng: np.random.Generator) -> FloatArray:
    """When the requests of every tick come, evenly at random within it   [s]."""
    number = played.arrivals.astype(np.int64)
    ticks = np.repeat(np.arange(len(number)), number)
    return np.sort((ticks + rng.uniform(0.0, 1.0, len(ticks))) * played.tick_s)


def slowest_of(done: Replay) -> dict[str, float]:
    """The 95th percentiles of what was answered."""
    return {
        "ttft_p95_s": float(np.nanquantile(done.ttft_s, P95)),
        "tpot_p95_s": float(np.nanquantile(done.tpot_s, P95)),
    }
