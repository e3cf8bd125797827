"""Buckets split over ways at least cost within common rows: a dual simplex whose basis is as small as the rows.

min  sum_bw cost_w load_bw s_bw     sum_w s_bw = 1     sum_w rows_rw sum_b load_bw s_bw <= room_r

Every bucket begins at its cheapest way; what goes over a row is then moved where it costs least more. Every bucket has
one *key* share that is told by its others, so that only as many columns as there are rows are solved for (generalised
upper bounding; Dantzig and Van Slyke, 1967). Where nothing fits, prices of the rows prove it.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray

ZERO, TIE = 1e-9, 1e-12
TIE_BREAK, GOLDEN = 1e-7, 0.618033988749895
STEPS_PER_ROW, LEAST_STEPS, FRESH_STEPS = 200, 2000, 64


class Split:
    """Buckets over ways, where they go now.

    `load`: [bucket, way], infinite where a bucket cannot go. `cost`: [way], not negative. `rows`: [row, way].
    `extra`: what is solved for, [row]: a share, or -1 - r for the room that row r has left.
    """

    def __init__(self, load: FloatArray, cost: FloatArray, rows: FloatArray) -> None:
        self.load, self.cost, self.rows = load, cost, rows
        self.at_bucket, self.at_way = np.nonzero(np.isfinite(load))
        self.amount = load[self.at_bucket, self.at_way]
        apart = 1 + TIE_BREAK * np.modf(np.arange(1, len(self.amount) + 1) * GOLDEN)[0]
        self.share_cost = cost[self.at_way] * self.amount * apart
        self.column = rows[:, self.at_way] * self.amount
        self.key = first_of_each(self.at_bucket, self.share_cost)
        self.extra: IntArray = -1 - np.arange(len(rows))
        self.price, self.cost_counts, self.is_proved = np.zeros(len(rows)), 0.0, False

    def fits(self, room: FloatArray, most_cost: float = np.inf) -> bool:
        """Whether all buckets go within so much room at such a cost at most, which they then do.

        Where they do not and `is_proved`, with `price` of the rows and `cost_counts` of 0 or 1:
        sum_b min_w (cost_counts cost + price rows)_w load_bw > cost_counts most_cost + price room.
        """
        self.is_proved, self.cost_counts = False, 0.0
        for step in range(STEPS_PER_ROW * len(room) + LEAST_STEPS):
            if step % FRESH_STEPS == 0:
                self._solve(room)
            self._make_keys()
            leaving = self._below_zero()
            if leaving is None and step % FRESH_STEPS:
                self._solve(room)
                leaving = self._below_zero()
            if leaving is None:
                return True
            if self._costs_more(most_cost) or not self._pivoted(leaving):
                return False
        self.price = self.prices()
        return False

    def prices(self) -> FloatArray:
        """What one more of every row's room saves, [row]."""
        return np.asarray(np.maximum(self.reduced[len(self.amount) :], 0.0))

    def share(self, room: FloatArray) -> FloatArray:
        """Where the buckets go, [bucket, way]; rows sum to 1."""
        self._solve(room)
        found, at = np.zeros_like(self.load), np.flatnonzero(self.extra >= 0)
        shares = self.extra[at]
        found[self.at_bucket[shares], self.at_way[shares]] = np.maximum(self.values[at], 0.0)
        found[self.at_bucket[self.key], self.at_way[self.key]] = np.maximum(self.keys, 0.0)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def _solve(self, room: FloatArray) -> None:
        """Everything anew: the inverse, values of what is solved for and of keys, reduced costs, what it all costs."""
        at = np.flatnonzero(self.extra >= 0)
        shares, slack = self.extra[at], np.flatnonzero(self.extra < 0)
        matrix, extra_cost = np.zeros((len(self.extra), len(self.extra))), np.zeros(len(self.extra))
        keys = self.key[self.at_bucket[shares]]
        matrix[:, at] = self.column[:, shares] - self.column[:, keys]
        matrix[-1 - self.extra[slack], slack] = 1.0
        extra_cost[at] = self.share_cost[shares] - self.share_cost[keys]
        self.inverse = np.linalg.inv(matrix)
        self.values = self.inverse @ (room - self.column[:, self.key].sum(axis=1))
        self.extra_bucket = np.where(self.extra >= 0, self.at_bucket[np.maximum(self.extra, 0)], -1)
        taken = np.bincount(self.at_bucket[shares], weights=self.values[at], minlength=len(self.key))
        self.keys = 1.0 - taken
        dual = extra_cost @ self.inverse
        cost = self.share_cost - (dual @ self.rows)[self.at_way] * self.amount
        self.reduced = np.concatenate([cost - cost[self.key][self.at_bucket], -dual])
        self.total = float(cost[self.key].sum() + dual @ room)

    def _make_keys(self) -> None:
        """Keys below zero change places with the largest other share of their bucket."""
        for bucket in np.flatnonzero(self.keys < -ZERO):
            own = np.flatnonzero(self.extra_bucket == bucket)
            at = own[np.argmax(self.values[own])]
            self.inverse[at] = -self.inverse[own].sum(axis=0)
            self.values[at], self.keys[bucket] = self.keys[bucket], self.values[at]
            self.key[bucket], self.extra[at] = self.extra[at], self.key[bucket]

    def _below_zero(self) -> int | None:
        """What is solved for and furthest below zero; None where nothing is."""
        if not len(self.values):
            return None
        least = int(np.argmin(self.values))
        is_below = self.values[least] < -ZERO * max(1.0, float(np.max(np.abs(self.values))))
        return least if is_below else None

    def _costs_more(self, most_cost: float) -> bool:
        """Whether the prices of the rows so far prove that no split costs so little."""
        if np.isinf(most_cost) or self.total <= most_cost * (1 + 100 * TIE_BREAK):
            return False
        self.price, self.is_proved, self.cost_counts = self.prices(), True, 1.0
        return True

    def _pivoted(self, leaving: int) -> bool:
        """Whether the column that costs least more came in for one below zero; where none can, prices prove it."""
        row = self.inverse[leaving].copy()
        taken = (row @ self.rows)[self.at_way] * self.amount
        change = np.concatenate([taken - taken[self.key][self.at_bucket], row])
        basic = np.where(self.extra >= 0, self.extra, len(self.amount) - 1 - self.extra)
        change[basic] = change[self.key] = 0.0
        may = np.flatnonzero(change < -ZERO)
        if not len(may):
            self.price, self.is_proved = np.maximum(row, 0.0), True
            return False
        ratio = np.maximum(self.reduced[may], 0.0) / -change[may]
        least = float(np.min(ratio))
        nearest = may[ratio <= least + TIE]
        entering = int(nearest[np.argmin(change[nearest])])
        self.reduced += least * change
        self.reduced[basic[leaving]] = least
        self.total -= least * float(self.values[leaving])
        self._exchange(leaving, entering)
        return True

    def _exchange(self, leaving: int, entering: int) -> None:
        """The inverse and the values with another column."""
        num_shares = len(self.amount)
        if entering < num_shares:
            bucket = int(self.at_bucket[entering])
            moved = self.inverse @ (self.column[:, entering] - self.column[:, self.key[bucket]])
        else:
            bucket, moved = -1, self.inverse[:, entering - num_shares].copy()
        step = self.values[leaving] / moved[leaving]
        shares = np.flatnonzero(self.extra >= 0)
        np.add.at(self.keys, self.extra_bucket[shares], moved[shares] * step)
        if bucket >= 0:
            self.keys[bucket] -= step
        self.values -= moved * step
        self.values[leaving] = step
        row = self.inverse[leaving] / moved[leaving]
        self.inverse -= np.outer(moved, row)
        self.inverse[leaving] = row
        self.extra[leaving] = entering if entering < num_shares else -1 - (entering - num_shares)
        self.extra_bucket[leaving] = bucket


def first_of_each(group: IntArray, value: FloatArray) -> IntArray:
    """The place of the least value of every group, [group]."""
    order = np.lexsort((value, group))
    return np.asarray(order[np.unique(group[order], return_index=True)[1]])
