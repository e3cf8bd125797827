"""A day of a law of scaling, replayed request by request: whether ticks and closed forms told the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpufleet.api.demands import demand_of
from gpufleet.api.scaled_plans import ScaledPlan
from gpufleet.api.simulated_copies import CopyQuestion, copy_in, copy_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.replay import Replay
from gpufleet.errors import UsageError
from gpufleet.optimize.autoscale import QUARTER_HOUR_S, Outcome
from gpufleet.records import dataclass
from gpufleet.results.autoscale import ReplayedDay
from gpufleet.simulate.cluster import Cluster, Member, replay
from gpufleet.simulate.faults import scaled
from gpufleet.simulate.generated import requests_at
from gpufleet.simulate.metrics import keeps_all
from gpufleet.simulate.scaling import Played
from gpufleet.units import DAY, HOUR, MINUTE

MOST_REQUESTS = 8_000_000
PARTS_S, LEAD_S = (HOUR, QUARTER_HOUR_S, MINUTE), 5 * MINUTE
P95 = 0.95


@dataclass(frozen=True)
class Part:
    """Ticks of a play that are replayed: from `first`, where nobody waits, to `end`; those from `counted` on count."""

    first: int
    counted: int
    end: int


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
    copy = copy_of(copy_in(held.answer, CopyQuestion(held.arch, "")), requests, catalog=tables).copy
    ready = played.ready[ticks] * held.copies
    members = tuple(Member(is_ready=i < ready[0]) for i in range(max(int(ready.max()), 1)))
    done = replay(Cluster((copy,), members, changes=tuple(scaled(ready, played.tick_s))), requests, rng)
    return counted_of(done, keeps_all(done, workload.slo.limits), (part.counted - part.first) * played.tick_s)


def counted_of(done: Replay, kept: BoolArray, since_s: float) -> Counted:
    """What came since a moment."""
    first = int(np.searchsorted(done.requests.arrival_s, since_s))
    return Counted(kept[first:], done.ttft_s[first:], done.tpot_s[first:])


def day_of(played: Played, day: int) -> Played:
    """One whole day of a play; all of it where there is none."""
    ticks = round(DAY / played.tick_s)
    part = slice(day * ticks, (day + 1) * ticks)
    own = {
        name: getattr(played, name)[part] for name in ("arrivals", "paid", "ready", "served", "queue", "kept", "cold")
    }
    return replace(played, **own)


def worst_parts(played: Played, most: int = MOST_REQUESTS) -> tuple[float, Sequence[Part]]:
    """The whole day where memory holds its requests, else its worst hours, quarters or minutes; how long each is.

    The worst are those with the most late requests. A part begins early enough that nobody waits from before.
    """
    whole = Part(0, 0, len(played.arrivals))
    if 1 <= requests_in(played, whole) <= most:
        return len(played.arrivals) * played.tick_s, [whole]
    for part_s in PARTS_S:
        found = worst_of_length(played, max(round(part_s / played.tick_s), 1), most)
        if found:
            return part_s, found
    number = float(played.arrivals.sum())
    raise UsageError("the worst day cannot be replayed", found=f"{number:,.0f} requests",
                     expected=f"1 to {most:,} in its worst minute", hint="--mean-rate scales the curve.")  # fmt: skip


def worst_of_length(played: Played, ticks: int, most: int) -> list[Part]:
    """As many parts of a length as hold no more requests together, those with the most late requests first."""
    parts = [led_part(played, first, first + ticks) for first in range(0, len(played.arrivals) - ticks + 1, ticks)]
    late = played.arrivals - played.kept
    ranked = sorted(parts, key=lambda part: -float(late[part.counted : part.end].sum()))
    room = np.cumsum([requests_in(played, part) for part in ranked]) <= most
    return sorted((part for part, fits in zip(ranked, room, strict=True) if fits), key=lambda part: part.counted)


def led_part(played: Played, counted: int, end: int) -> Part:
    """A part with some minutes before it, or as many more as it takes until nobody waits."""
    first = max(counted - round(LEAD_S / played.tick_s), 0)
    while first and played.queue[first - 1] > 0:
        first -= 1
    return Part(first, counted, end)


def requests_in(played: Played, part: Part) -> float:
    """How many come in a part."""
    return float(played.arrivals[part.first : part.end].sum())


def moments_s(arrivals: FloatArray, tick_s: float, rng: np.random.Generator) -> FloatArray:
    """When the requests of every tick come, evenly at random within it   [s]."""
    number = arrivals.astype(np.int64)
    ticks = np.repeat(np.arange(len(number)), number)
    return np.sort((ticks + rng.uniform(0.0, 1.0, len(ticks))) * tick_s)
