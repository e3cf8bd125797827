"""The worst parts of a day under a law of scaling that memory holds, and when the requests of their ticks come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.errors import UsageError
from gpufleet.optimize.autoscale import QUARTER_HOUR_S
from gpufleet.records import dataclass
from gpufleet.simulate.scaling import Played
from gpufleet.units import DAY, HOUR, MINUTE

MOST_REQUESTS = 8_000_000
PARTS_S, LEAD_S = (HOUR, QUARTER_HOUR_S, MINUTE), 5 * MINUTE


@dataclass(frozen=True)
class Part:
    """Ticks of a play that are replayed: from `first`, where nobody waits, to `end`; those from `counted` on count."""

    first: int
    counted: int
    end: int


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
