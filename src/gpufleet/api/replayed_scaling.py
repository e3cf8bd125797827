"""A day of a law of scaling, replayed request by request: whether ticks and closed forms told the truth."""

from __future__ import annotations

import numpy as np

from gpufleet.api.demands import demand_of
from gpufleet.api.scaled_plans import ScaledPlan
from gpufleet.api.simulated_copies import CopyQuestion, copy_in, copy_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.replay import Replay
from gpufleet.optimize.autoscale import Outcome
from gpufleet.optimize.worst_parts import Part, day_of, moments_s, worst_parts
from gpufleet.records import dataclass
from gpufleet.results.autoscale import ReplayedDay
from gpufleet.simulate.cluster import Cluster, Member, replay
from gpufleet.simulate.faults import scaled
from gpufleet.simulate.generated import requests_at
from gpufleet.simulate.metrics import keeps_all
from gpufleet.simulate.scaling import Played

P95 = 0.95


@dataclass(frozen=True, eq=False)
class Counted:
    """Of the requests that count: whether each kept its limits, and its seconds."""

    kept: BoolArray
    ttft_s: FloatArray
    tpot_s: FloatArray


def replayed_day(held: ScaledPlan, found: Outcome, seed: int, tables: Catalog) -> ReplayedDay:
    """The worst day of a law, or as many of its worst parts as memory holds, its requests at random moments."""
    day = int(np.argmin(found.days))
    played = day_of(found.played, day)
    part_s, parts = worst_parts(played)
    rng = np.random.default_rng(seed)
    told = [replayed_part(held, played, part, rng, tables) for part in parts]
    kept, ttft_s, tpot_s = (np.concatenate([getattr(x, name) for x in told]) for name in ("kept", "ttft_s", "tpot_s"))
    counted = [slice(part.counted, part.end) for part in parts]
    came, in_time = (sum(float(ticks[at].sum()) for at in counted) for ticks in (played.arrivals, played.kept))
    return ReplayedDay(
        policy=found.preset,
        day=day + 1,
        num_parts=len(parts),
        part_s=part_s,
        num_requests=len(kept),
        kept_ratio_played=in_time / came,
        kept_ratio=float(kept.mean()),
        ttft_p95_s=float(np.nanquantile(ttft_s, P95)),
        tpot_p95_s=float(np.nanquantile(tpot_s, P95)),
    )


def replayed_part(held: ScaledPlan, played: Played, part: Part, rng: np.random.Generator, tables: Catalog) -> Counted:
    """One part of a day on the replicas of its ticks."""
    workload = demand_of(held.request, held.arch).workload
    ticks = slice(part.first, part.end)
    requests = requests_at(moments_s(played.arrivals[ticks], played.tick_s, rng), workload, rng)
    copy = copy_of(copy_in(held.answer, CopyQuestion(held.arch, ""), held.request), requests, catalog=tables).copy
    ready = played.ready[ticks] * held.copies
    members = tuple(Member(is_ready=i < ready[0]) for i in range(max(int(ready.max()), 1)))
    done = replay(Cluster((copy,), members, changes=tuple(scaled(ready, played.tick_s))), requests, rng)
    return counted_of(done, keeps_all(done, workload.slo.limits), (part.counted - part.first) * played.tick_s)


def counted_of(done: Replay, kept: BoolArray, since_s: float) -> Counted:
    """What came since a moment."""
    first = int(np.searchsorted(done.requests.arrival_s, since_s))
    return Counted(kept[first:], done.ttft_s[first:], done.tpot_s[first:])
