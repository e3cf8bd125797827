"""Services on spot machines replayed on what zones had: many policies and draws at once, tick by tick.

In a tick a zone that has fewer nodes than the service holds there takes the newest; then machines are ordered where
there is room, on demand stands in, and what is too much is given back. A machine is ready a start after its order and
is paid from the order on. On demand is always to be had. What runs at the begin is ready at once.
"""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.spot_services import PolicyRows
from gpufleet.records import dataclass
from gpufleet.units import HOUR

NEVER = np.iinfo(np.int32).max
EVERYBODY = slice(None)


@dataclass(frozen=True, eq=False)
class ZoneNodes:
    """Nodes that zones had in every tick: [piece, zone, tick], and for how many ticks a zone has lost none.

    A piece is a draw, or a part of a trace.
    """

    nodes: IntArray
    tick_s: float
    calm: IntArray
    next_change: IntArray

    @classmethod
    def of(cls, nodes: IntArray, tick_s: float) -> ZoneNodes:
        """Nodes, and what follows from them."""
        return cls(nodes.astype(np.int32), tick_s, calm_ticks(nodes), next_changes(nodes))

    @property
    def num_ticks(self) -> int:
        """How long each piece is."""
        return int(self.nodes.shape[2])


def calm_ticks(nodes: IntArray) -> IntArray:
    """Ticks since a zone lost a node or had none, as far as the piece goes back.

    >>> calm_ticks(np.array([[[2, 2, 1, 1, 0, 1]]])).tolist()
    [[[1, 2, 0, 1, 0, 1]]]
    """
    is_loss = nodes == 0
    is_loss[..., 1:] |= nodes[..., 1:] < nodes[..., :-1]
    at = np.arange(nodes.shape[-1], dtype=np.int32)
    return np.asarray(at - np.maximum.accumulate(np.where(is_loss, at, np.int32(-1)), axis=-1))


def next_changes(nodes: IntArray) -> IntArray:
    """The first tick after each in which any zone of any piece has another number of nodes; the end, if none.

    >>> next_changes(np.array([[[2, 2, 1, 1]]])).tolist()
    [2, 2, 4, 4]
    """
    num = nodes.shape[-1]
    changes = np.append(np.flatnonzero((nodes[..., 1:] != nodes[..., :-1]).any(axis=(0, 1))) + 1, num)
    return np.asarray(changes[np.searchsorted(changes, np.arange(num), side="right")])


@dataclass(frozen=True, eq=False)
class ServiceRuns:
    """What came of services, one row each; hours and losses are per hour of service.

    `ready_ratio`: share of time with exactly 0, 1, 2 ... machines ready   [row, machines].
    """

    num_machines: int
    ready_ratio: FloatArray
    spot_machines: FloatArray
    on_demand_machines: FloatArray
    losses_per_hour: FloatArray

    @property
    def attained_ratio(self) -> FloatArray:
        """Share of time with all machines ready."""
        return np.asarray(self.ready_ratio[:, self.num_machines :].sum(axis=1))

    @property
    def served_ratio(self) -> FloatArray:
        """Mean of the machines that are ready, of those that are wanted."""
        ready = np.minimum(np.arange(self.ready_ratio.shape[1]), self.num_machines)
        return np.asarray(self.ready_ratio @ ready / max(self.num_machines, 1))

    def usd_per_hour(self, spot_usd_per_hour: float, on_demand_usd_per_hour: float) -> FloatArray:
        """What the service costs at these prices of a machine   [USD/h]."""
        return np.asarray(self.spot_machines * spot_usd_per_hour + self.on_demand_machines * on_demand_usd_per_hour)


class Services:
    """Services under way, one row each, rows along the last axis.

    A machine is the tick at which it is ready: spot by [slot, zone, row], on demand by [slot, row], the oldest first.
    `held` of them are ordered or ready, by zone and row.
    """

    def __init__(self, zones: ZoneNodes, num_machines: int, start_s: float, rows: PolicyRows, piece: IntArray) -> None:
        self.zones, self.num_machines, self.rows, self.piece = zones, num_machines, rows, piece
        self.start_ticks = math.ceil(start_s / zones.tick_s)
        self.hold_ticks, self.young_ticks, self.calm_ticks = (
            np.ceil(each / zones.tick_s) for each in (rows.hold_s, rows.young_s, rows.calm_s)
        )
        self.has_all_spares = np.isinf(self.young_ticks)
        self.who, self.on_spot = np.arange(len(piece)), num_machines - rows.floor
        self.most_on_spot = int(np.max(self.on_spot + rows.spares))
        self.slots = max(min(self.most_on_spot, int(zones.nodes.max())), 1)
        self.spot_from = np.full((self.slots, zones.nodes.shape[1], len(piece)), NEVER, dtype=np.int32)
        self.on_demand_from = np.full((max(num_machines, 1), len(piece)), NEVER, dtype=np.int32)
        self.held = np.zeros(self.spot_from.shape[1:], dtype=np.int64)
        self.on_demand = np.zeros(len(piece), dtype=np.int64)
        self.surplus_since = np.full(len(piece), NEVER, dtype=np.int64)
        self.losses, self.spot_ready = np.zeros((2, len(piece)), dtype=np.int64)
        self.is_changed = False

    def ready(self, tick: int) -> IntArray:
        """Machines of both kinds that are ready, once what happens in the tick has happened."""
        return np.asarray(self.spot_ready + (self.on_demand_from <= tick).sum(axis=0))

    def ready_on_spot(self, tick: int) -> IntArray:
        """Machines on spot that are ready."""
        return np.asarray((self.spot_from <= tick).sum(axis=(0, 1)))

    def step(self, tick: int) -> None:
        """What happens at the begin of a tick."""
        self.is_changed = False
        nodes, calm = (each[:, :, tick].T.take(self.piece, axis=1) for each in (self.zones.nodes, self.zones.calm))
        self._lose(nodes)
        is_calm = (calm >= self.calm_ticks) | (tick == 0)
        ready_at = tick + (self.start_ticks if tick else 0)
        self._order_on_spot(np.where(is_calm, np.minimum(nodes, self.slots), 0), calm, ready_at)
        self._stand_in(tick, ready_at)
        self._give_back_on_spot(tick, calm)

    def _lose(self, nodes: IntArray) -> None:
        who = np.flatnonzero((self.held > nodes).any(axis=0))
        if not len(who):
            return
        held, left = self.held[:, who], nodes[:, who]
        is_lost = np.arange(self.slots)[:, None, None] >= left
        self.spot_from[:, :, who] = np.where(is_lost, np.int32(NEVER), self.spot_from[:, :, who])
        self.losses[who] += np.maximum(held - left, 0).sum(axis=0)
        self.held[:, who] = np.minimum(held, left)
        self.is_changed = True

    def lacks_on_spot(self, calm: IntArray, who: IntArray | slice = EVERYBODY) -> IntArray:
        """How many more machines services want on spot, spares included, than they hold; below 0: how many fewer."""
        held, on_spot, most = self.held[:, who], self.on_spot[who], self.rows.spares[who]
        in_young = (held * (calm[:, who] < self.young_ticks[who])).sum(axis=0)
        spares = np.where(self.has_all_spares[who], most, np.minimum(most, in_young))
        return np.asarray(np.where(on_spot > 0, on_spot + spares, 0) - held.sum(axis=0))

    def _order_on_spot(self, room: IntArray, calm: IntArray, ready_at: int) -> None:
        """One machine after the other, in the zone that has the fewest of ours; of those in the calmest.

        Who lacks none, or has no zone with room, goes without until the next tick.
        """
        who = np.flatnonzero((self.lacks_on_spot(calm) > 0) & (self.held < room).any(axis=0))
        for _ in range(self.most_on_spot):
            if not len(who):
                break
            held = self.held[:, who]
            zone = np.where(held < room[:, who], held * np.float64(NEVER) - calm[:, who], np.inf).argmin(axis=0)
            self.spot_from[self.held[zone, who], zone, who] = ready_at
            self.held[zone, who] += 1
            self.is_changed = True
            who = who[(self.lacks_on_spot(calm, who) > 0) & (self.held[:, who] < room[:, who]).any(axis=0)]

    def _stand_in(self, tick: int, ready_at: int) -> None:
        """On demand: at once as many as spot lacks; given back once spot has been ready for long enough."""
        self.spot_ready = self.ready_on_spot(tick)
        rows, ready, has = self.rows, self.spot_ready, self.on_demand
        least, most = (
            rows.floor + np.where(rows.falls_back, np.maximum(self.on_spot - covered, 0), 0)
            for covered in (np.where(rows.counts_starting, self.held.sum(axis=0), ready), ready)
        )
        self.surplus_since = np.where(has > most, np.minimum(self.surplus_since, tick), NEVER)
        gives_back = (has > most) & (tick - self.surplus_since >= self.hold_ticks)
        then = np.where(gives_back, most, np.maximum(has, least))
        who = np.flatnonzero(then != has)
        if not len(who):
            return
        slot, had, kept = np.arange(len(self.on_demand_from))[:, None], has[who], then[who]
        ordered = np.where((slot >= had) & (slot < kept), np.int32(ready_at), self.on_demand_from[:, who])
        self.on_demand_from[:, who] = np.where(slot < kept, ordered, np.int32(NEVER))
        self.surplus_since = np.where(gives_back, NEVER, self.surplus_since)
        self.on_demand, self.is_changed = then, True

    def _give_back_on_spot(self, tick: int, calm: IntArray) -> None:
        """One machine beyond what is wanted, the newest."""
        who = np.flatnonzero(self.lacks_on_spot(calm) < 0)
        if not len(who):
            return
        held = self.spot_from[:, :, who]
        zone = np.where(held < NEVER, held, -1).max(axis=0).argmax(axis=0)
        self.held[zone, who] -= 1
        self.spot_from[self.held[zone, who], zone, who] = NEVER
        self.spot_ready = self.ready_on_spot(tick)
        self.is_changed = True

    def next_tick(self, tick: int) -> int:
        """The next tick in which anything may happen: after a change, the very next."""
        following = tick + 1
        if self.is_changed or self.zones.next_change[tick] == following:
            return following
        calm = self.zones.calm[:, :, tick].T.take(self.piece, axis=1)
        ages = (ticks - calm for ticks in (self.young_ticks, self.calm_ticks))
        waits = [
            self.spot_from[(self.spot_from > tick) & (self.spot_from < NEVER)],
            self.on_demand_from[(self.on_demand_from > tick) & (self.on_demand_from < NEVER)],
            (self.surplus_since + self.hold_ticks)[self.surplus_since < NEVER],
            *(tick + left[np.isfinite(left) & (left > 0)] for left in ages),
        ]
        found = min((float(each.min()) for each in waits if each.size), default=np.inf)
        return max(int(min(found, self.zones.next_change[tick])), following)


def play_services(
    zones: ZoneNodes, num_machines: int, start_s: float, rows: PolicyRows, piece: IntArray
) -> ServiceRuns:
    """Services of `num_machines`, a row for each policy on a piece, from its first tick to its last."""
    services = Services(zones, num_machines, start_s, rows, piece)
    most = num_machines + int(np.max(rows.spares)) + num_machines
    ready = np.zeros((len(piece), most + 1))
    on_spot, on_demand = np.zeros(len(piece)), np.zeros(len(piece))
    tick = 0
    while tick < zones.num_ticks:
        services.step(tick)
        until = min(services.next_tick(tick), zones.num_ticks)
        ready[services.who, services.ready(tick)] += until - tick
        on_spot += services.held.sum(axis=0) * (until - tick)
        on_demand += services.on_demand * (until - tick)
        tick = until
    num = zones.num_ticks
    per_hour = HOUR / (num * zones.tick_s)
    return ServiceRuns(
        num_machines, ready / num, on_spot / num, on_demand / num, np.asarray(services.losses * per_hour)
    )
