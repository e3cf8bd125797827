"""What a request waits for until the KV pool, or the engine's most sequences, has room for it.

Sequences that run share the device: where n run, X(n) requests end per second. The number in a replica without an end
of room is a birth-death chain, p(n + 1) / p(n) = rate / X(n + 1), whatever the lengths of answers are (processor
sharing is insensitive to them). Where c have room, more than c wait, and X(c) end per second.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.spread import normal_share
from gpufleet.records import dataclass

LEAST_SPARE_RATIO, LEAST_SLOPE, LEAST_RATE = 0.02, 0.05, 1e-300
"""Spare room down to which waits are told apart; least growth of ln X with ln n."""


@dataclass(frozen=True, eq=False)
class RoomWait:
    """Mean wait for room over all requests   [s] and the share of them that waits   [1]; both [candidate, batch]."""

    wait_s: FloatArray
    waiting_ratio: FloatArray


def room_wait(
    batch: FloatArray, requests_per_s: FloatArray, room: FloatArray, held_variation: Floats, answer_variation: Floats
) -> RoomWait:
    """The wait of requests that keep `batch` [batch] running at `requests_per_s` [candidate, batch].

    `room` for so many sequences of mean size [candidate], whose sizes vary by `held_variation` (squared, c_h^2), their
    answers by `answer_variation`. Tokens held are a compound Poisson sum, as if in lumps of l = 1 + c_h^2 sequences;
    the next waits where less than itself is left: c = room - (l - 1).

    full = q / (below + q), q = p_c / (1 - rho), rho = X(B) / X(room)
    W = full l / (X(room) (1 - rho)) (1 + c_o^2) / 2   [s]   as after M/M/c, M/D/c halves it
    Who waits does so in such lumps: full / l of all. For sequences alike, M/M/c (Erlang's second formula).
    """
    rate = np.maximum(np.maximum.accumulate(requests_per_s, axis=1), LEAST_RATE)
    lump = 1 + np.asarray(held_variation, dtype=np.float64)
    most = np.maximum(room - (lump - 1), room / 2)
    full_rate = at_room(batch, rate, room)[:, None]
    spare = np.maximum(1 - rate / full_rate, LEAST_SPARE_RATIO)
    chance, below = chances(batch, np.log(rate), most, lump)
    full = chance / (below * spare + chance)
    wait_s = full * lump / (full_rate * spare) * (1 + np.asarray(answer_variation)) / 2
    return RoomWait(wait_s, full / lump)


def chances(batch: FloatArray, logs: FloatArray, most: FloatArray, lump: Floats) -> tuple[FloatArray, FloatArray]:
    """The chance that exactly `most` [candidate] would run without an end of room, and that fewer would.

    p_c = exp(-D) / sqrt(1 + 2 pi v), D = int_B^c ln(X(n) / X(B)) dn / l, v = B / l / (dlnX / dlnB)
    below = Phi((c - B) / l / sqrt(v));   `logs`: ln X [candidate, batch]
    """
    until, beyond = until_each(batch, logs), most[:, None] - batch
    distance = (at_room(batch, until, most)[:, None] - until - beyond * logs) / lump
    slope = np.maximum(np.gradient(logs, axis=1) / np.gradient(np.log(batch)), LEAST_SLOPE)
    variance = batch / lump / slope
    chance = np.exp(-np.maximum(distance, 0.0)) / np.sqrt(1 + 2 * np.pi * variance)
    return chance, normal_share(np.maximum(beyond, 0.0) / lump / np.sqrt(variance))


def until_each(batch: FloatArray, values: FloatArray) -> FloatArray:
    """The integral of values [candidate, batch] from no batch to each, straight between columns."""
    before = np.concatenate([values[:, :1], values[:, :-1]], axis=1)
    return np.asarray(np.cumsum(np.diff(batch, prepend=0.0) * (values + before) / 2, axis=1))


def at_room(batch: FloatArray, values: FloatArray, room: FloatArray) -> FloatArray:
    """Values [candidate, batch] of each candidate at its own room [candidate], straight between columns."""
    position = np.interp(room, batch, np.arange(len(batch)))
    below = np.minimum(position.astype(np.int64), max(len(batch) - 2, 0))
    row, share = np.arange(len(room)), position - below
    above = np.minimum(below + 1, len(batch) - 1)
    return np.asarray(values[row, below] * (1 - share) + values[row, above] * share)
