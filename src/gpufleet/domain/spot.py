"""A job with a deadline on machines that come and go, and the rules by which it changes between them."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.records import dataclass

WAITING, ON_SPOT, ON_DEMAND = range(3)
NAMES = ("waiting", "spot", "on demand")
NO_TIME_S = 1e-6


@dataclass(frozen=True)
class DeadlineJob:
    """Work on one machine (or one gang of them) until a deadline.

    `work_s` is the time that the work takes without a stop, checkpoints included. Every start takes `restart_s` before
    work goes on, and a machine that is taken away loses what was done since the last checkpoint: at most `loss_s`.
    """

    work_s: float
    deadline_s: float
    restart_s: float
    loss_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.work_s > 0 and self.deadline_s > 0 and self.restart_s >= 0 and self.loss_s >= 0):
            raise ValueError(f"not a job: {self!r}")

    @property
    def can_be_done(self) -> bool:
        """Whether a machine that nobody takes away, started at once, is done in time."""
        return self.work_s + self.restart_s <= self.deadline_s


@dataclass(frozen=True, eq=False)
class SpotMarket:
    """Places where a spot machine can or cannot be had, tick by tick, and prices.

    `is_available`: [place, tick], true where a machine could be had and kept for the whole tick.
    """

    is_available: BoolArray
    tick_s: float
    spot_usd_per_hour: FloatArray
    on_demand_usd_per_hour: float

    @property
    def ticks(self) -> int:
        """How long availability is known."""
        return int(self.is_available.shape[1])

    @cached_property
    def age(self) -> IntArray:
        """Ticks for which each place has been as it is, this one included: [place, tick]."""
        return ages_of(self.is_available)


def ages_of(is_available: BoolArray) -> IntArray:
    """Ticks for which each place has been as it is, this one included: [place, tick].

    >>> ages_of(np.array([[True, True, False, True]])).tolist()
    [[1, 2, 1, 1]]
    """
    changed = np.ones(is_available.shape, dtype=bool)
    changed[:, 1:] = is_available[:, 1:] != is_available[:, :-1]
    at = np.arange(is_available.shape[1])
    return np.asarray(at - np.maximum.accumulate(np.where(changed, at, 0), axis=1) + 1)


def on_longer_ticks(is_available: BoolArray, every: int) -> BoolArray:
    """Whether places have machines all through ticks so many times as long; a rest at the end is left out.

    >>> on_longer_ticks(np.array([[True, True, False, True, True]]), 2).tolist()
    [[True, False]]
    """
    kept = is_available.shape[1] // every * every
    return np.asarray(is_available[:, :kept].reshape(len(is_available), -1, every).all(axis=2), dtype=bool)


def mean_up_s(is_available: BoolArray, tick_s: float) -> float:
    """The time up for each time that it ends, over the last axis, which is time; infinite where it never does   [s].

    >>> mean_up_s(np.array([[True, True, False, True, False]]), 600.0)
    900.0
    """
    ends = int((is_available[..., :-1] & ~is_available[..., 1:]).sum())
    return float(is_available.sum()) * tick_s / ends if ends else math.inf


@dataclass(frozen=True, eq=False)
class HazardCounts:
    """Ticks that places were seen at each age, and how many of them were followed by a change.

    `changes` and `ticks`: [without or with a machine, age]. `edges_s` end the ages, the last of which is open.
    """

    tick_s: float
    edges_s: tuple[float, ...]
    changes: FloatArray
    ticks: FloatArray

    @classmethod
    def of(cls, is_available: BoolArray, tick_s: float, edges_s: tuple[float, ...]) -> HazardCounts:
        """Counted over places [place, tick]. Nobody saw the first run of a place begin: it counts once it is old."""
        age = ages_of(is_available)
        of_age = np.searchsorted(np.asarray(edges_s), age[:, :-1] * tick_s - NO_TIME_S)
        began = (age < np.arange(1, is_available.shape[1] + 1))[:, :-1] | (of_age == len(edges_s))
        changes = is_available[:, 1:] != is_available[:, :-1]
        ages = len(edges_s) + 1
        state = of_age + ages * is_available[:, :-1]
        changed, seen = (
            np.bincount(state[each], minlength=2 * ages).astype(np.float64).reshape(2, ages)
            for each in (began & changes, began)
        )
        return cls(tick_s, edges_s, changed, seen)


@dataclass(frozen=True, eq=False)
class AgedHazards:
    """How likely a place changes within the next tick, by how long it has been as it is.

    `edges_s` end the ages, the last of which is open; `lost_ratio` of places that have a machine and `found_ratio` of
    those that have none have one value per age. Young runs end soon and old ones last: up times are heavy-tailed.
    """

    tick_s: float
    edges_s: tuple[float, ...]
    lost_ratio: tuple[float, ...]
    found_ratio: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.lost_ratio) == len(self.found_ratio) == len(self.edges_s) + 1:
            raise ValueError("one ratio per age")

    @classmethod
    def of_counts(cls, seen: HazardCounts, prior: HazardCounts) -> AgedHazards:
        """The mean of what is believed after ticks were seen, of a prior worth so many ticks with so many changes.

        (changes + prior changes) / (ticks + prior ticks)   [1], the mean of a beta distribution; an age that neither
        has, on ticks longer than it, is as the next older, and one that no run got to as the next younger. A state in
        which nobody saw a zone is never left.
        """
        changes, ticks = seen.changes + prior.changes, seen.ticks + prior.ticks
        ages = range(changes.shape[1])
        for age, beside in (*zip(ages[-2::-1], ages[:0:-1], strict=True), *zip(ages[1:], ages[:-1], strict=True)):
            is_unknown = ticks[:, age] <= 0
            for counts in (changes, ticks):
                counts[is_unknown, age] = counts[is_unknown, beside]
        found, lost = changes / np.where(ticks > 0, ticks, 1.0)
        return cls(seen.tick_s, seen.edges_s, tuple(map(float, lost)), tuple(map(float, found)))

    @property
    def ages(self) -> int:
        """How many ages are told apart."""
        return len(self.edges_s) + 1

    def age_of(self, ran_s: FloatArray) -> IntArray:
        """Which of the ages a run has that has lasted so long, the present tick included."""
        return np.searchsorted(np.asarray(self.edges_s), ran_s - NO_TIME_S)

    @property
    def transitions(self) -> FloatArray:
        """Chance to go from one state to another within a tick: states without a machine by age, then those with one.

        A run leaves an age of n ticks after n ticks on average.
        """
        n = self.ages
        chance = np.zeros((2 * n, 2 * n))
        widths = np.diff([0.0, *self.edges_s]) / self.tick_s
        for first, other, ratios in ((0, n, self.found_ratio), (n, 0, self.lost_ratio)):
            for age, ratio in enumerate(ratios):
                older = 0.0 if age == n - 1 else (1 - ratio) / max(widths[age], 1.0)
                chance[first + age, other] = ratio
                chance[first + age, min(first + age + 1, first + n - 1)] += older
                chance[first + age, first + age] += 1 - ratio - older
        return chance


@dataclass(frozen=True, eq=False)
class SlackRules:
    """When a job goes to a machine on demand: where its slack is below a threshold that depends on the time left.

    Slack is the time left less the work left and what is left of a start. `slack_s`: [what it runs on now (waiting,
    spot, on demand), state (places without a machine by age, then those with one), time left], between the points of
    `left_s` in a straight line. With more slack it takes spot where there is one, and waits where there is none.
    """

    hazards: AgedHazards
    left_s: FloatArray
    slack_s: FloatArray

    def towards(self, line: SlackRules, ratio: float) -> SlackRules:
        """Thresholds on the way to rules that have one age and two times left: so far of it, 1 being there."""
        first, last = line.left_s
        share = (self.left_s - first) / (last - first)
        there = line.slack_s[..., :1] * (1 - share) + line.slack_s[..., 1:] * share
        slack_s = self.slack_s * (1 - ratio) + np.repeat(there, self.hazards.ages, axis=1) * ratio
        return SlackRules(self.hazards, self.left_s, slack_s)

    def threshold_s(self, running: IntArray, state: IntArray, left_s: float) -> FloatArray:
        """The slack below which on demand is taken   [s]."""
        right = min(max(int(self.left_s.searchsorted(left_s)), 1), len(self.left_s) - 1)
        before, after = self.left_s[right - 1], self.left_s[right]
        share = min(max(float((left_s - before) / (after - before)), 0.0), 1.0)
        table = self.slack_s[:, :, right - 1] * (1 - share) + self.slack_s[:, :, right] * share
        return np.asarray(table[running, state])


@dataclass(frozen=True, eq=False)
class SpotLog:
    """What a job saw and did, one entry a tick: whether a place had machines, what ran, the work and the start left."""

    elapsed_s: FloatArray
    is_available: BoolArray
    ran: IntArray
    work_s: FloatArray
    starting_s: FloatArray
