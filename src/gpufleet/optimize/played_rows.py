"""The rows of an answer of which some are on spot: which is the cheapest as drawn markets play them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeAlias, TypeVar

from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.spot_plays import PlannedJob, SpotPlay, SpotPlays
from gpufleet.records import dataclass

TypeKey: TypeAlias = tuple[str, str, str]
ROOM_RATIO = 2.5
"""A deadline so many times as late as a job is planned to end leaves room to wait for spot."""


class Placed(Protocol):
    """A row of an answer, which may have been played."""

    @property
    def offer(self) -> Offer:
        """What sells its machines."""

    @property
    def machines(self) -> int:
        """How many there are."""

    @property
    def play(self) -> SpotPlay | None:
        """What drawn markets made of it."""


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True, eq=False)
class PlayedRows(Generic[P]):
    """Rows of an answer, of which those on spot are played: what each costs, when it is planned to end, its job.

    In the choice a row counts `doubt` times its cost (`doubt_ratio`). `with_play` gives a row its play; `late` are
    plays of rows that were late, the soonest of each kind.
    """

    plays: SpotPlays | None
    confidence: float
    deadline_s: float
    cost: Callable[[P], float]
    doubt: Callable[[P], float]
    planned_s: Callable[[P], float]
    job: Callable[[P], PlannedJob]
    with_play: Callable[[P, SpotPlay], P]
    late: dict[TypeKey, tuple[P, SpotPlay]]

    def usd(self, row: P) -> float:
        """What a row counts in the choice."""
        return self.cost(row) * self.doubt(row)

    def cheaper_in_doubt(self, ranked: Sequence[P], *, by_age: bool = False) -> P | None:
        """Of rows in their order one that is expected to cost less than the first and counts more: it is in doubt.

        Either of those that count more by the age of their price above all, or of the others.
        """
        if not ranked:
            return None
        doubted = (row for row in ranked[1:] if (row.offer.age_ratio**2 > self.doubt(row)) is by_age)
        able = (self.played(row) for row in sorted(doubted, key=self.cost) if self.cost(row) < self.cost(ranked[0]))
        return next((row for row in able if row is not None and self.cost(row) < self.cost(ranked[0])), None)

    def cheaper_if_true(self, ranked: Sequence[P], undated: P | None) -> P | None:
        """What costs less than the first at a price that nobody dates, or that may be another by now."""
        found = [row for row in (undated, self.cheaper_in_doubt(ranked, by_age=True)) if row is not None]
        cheapest = min(found, key=self.cost, default=None)
        is_cheaper = cheapest is not None and ranked and self.cost(cheapest) < self.cost(ranked[0])
        return cheapest if is_cheaper else None

    def cheapest(self, rows: Iterable[P], most: int) -> list[P]:
        """A row of each machine type and price kind, by what it costs as it is played; of those `most` are looked at.

        The first is the cheapest of all ways of all kinds: however many machines, in any region. Of the others only
        what may be among those that are looked at is played, the likeliest way first.
        """
        ways = self.ways(rows)
        self._try_cheapest(ways)
        waiting = [(self.usd(kind[0]), k) for k, kind in enumerate(ways) if kind]
        heapify(waiting)
        done: list[P] = []
        while waiting:
            _, k = heappop(waiting)
            row, *others = ways[k]
            shown = row if len(done) >= most else self.played(row)
            ways[k] = others if shown is None else [shown]
            if shown is not None and (shown is row or not waiting or (self.usd(shown), k) <= waiting[0]):
                done.append(shown)
            elif ways[k]:
                heappush(waiting, (self.usd(ways[k][0]), k))
        return done

    def ways(self, rows: Iterable[P]) -> list[list[P]]:
        """By machine type and price kind, the cheapest first: the cheapest row; all that may be it where it is played.

        Of these come first those whose deadline leaves room to wait for spot. Ties keep a fixed order.
        """
        kinds: dict[TypeKey, list[P]] = {}
        for row in sorted(rows, key=lambda p: (self.usd(p), p.offer.cloud, p.offer.instance, p.offer.region)):
            kinds.setdefault(type_of(row), []).append(row)
        return [self._likely_first(kind) if self._is_played(kind[0]) else kind[:1] for kind in kinds.values()]

    def _likely_first(self, rows: Iterable[P]) -> list[P]:
        """The same number of machines only in regions that no other beats in both prices; the likeliest first."""
        kept: list[P] = []
        least: dict[int, float] = {}
        for row in sorted(rows, key=lambda p: effective_price(p.offer)):
            steady = None if self.plays is None else self.plays.beside(row.offer)
            usd = math.inf if steady is None else effective_price(steady)
            if row.machines not in least or usd < least[row.machines]:
                least[row.machines] = usd
                kept.append(row)

        def likelihood(row: P) -> tuple[bool, float]:
            is_tight = self.planned_s(row) * ROOM_RATIO > self.deadline_s
            return is_tight, self.planned_s(row) if is_tight else self.usd(row)

        return sorted(kept, key=likelihood)

    def _try_cheapest(self, ways: list[list[P]]) -> None:
        """Play all that may be the cheapest of all; where a kind was played, its cheapest alone is left of it."""
        order = [(self.least_usd(row), k, i, row) for k, kind in enumerate(ways) for i, row in enumerate(kind)]
        found: dict[int, P] = {}
        bound = math.inf
        for least_usd, k, _, row in sorted(order, key=lambda each: each[:3]):
            if least_usd >= bound:
                break
            shown = self.played(row)
            if shown is None:
                ways[k] = [each for each in ways[k] if each is not row]
            else:
                found[k] = min(found.get(k, shown), shown, key=self.usd)
                bound = min(bound, self.usd(shown))
        for k, row in found.items():
            ways[k] = [row]

    def _is_played(self, row: P) -> bool:
        return self.plays is not None and row.play is None and row.offer.price_kind is PriceKind.SPOT

    def least_usd(self, row: P) -> float:
        """What a row costs at least, however it is played."""
        steady = self.plays.beside(row.offer) if self.plays is not None and self._is_played(row) else None
        if self.plays is None or steady is None:
            return self.usd(row)
        return self.plays.least_usd(self.job(row), steady) * self.doubt(row)

    def played(self, row: P) -> P | None:
        """A row on spot as drawn markets play it, None where it is late there; any other as it is."""
        if self.plays is None or not self._is_played(row):
            return row
        play = self.plays.play(self.job(row), self.confidence)
        if play is None:
            return row
        if not play.is_late(self.confidence):
            return self.with_play(row, play)
        known = self.late.get(type_of(row))
        if known is None or play.end_s(self.confidence) < known[1].end_s(self.confidence):
            self.late[type_of(row)] = row, play
        return None


def type_of(row: Placed) -> TypeKey:
    """What a row of an answer stands for: a machine type at a price kind, in any region."""
    return row.offer.cloud, row.offer.instance, row.offer.price_kind.value
