"""One service on spot played again machine by machine in plain Python, with nothing of the replay."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpufleet.domain.spot_services import FOR_MISSING, NO_FALLBACK, ServicePolicy


@dataclass
class Machine:
    """A machine that was ordered: where (None: on demand), and when it is ready."""

    zone: int | None
    ordered: int
    ready_at: int


@dataclass
class Told:
    """Machine-ticks of both kinds, machines taken away, and ready machines of every tick."""

    spot: int = 0
    on_demand: int = 0
    losses: int = 0
    ready: list[int] = field(default_factory=list)


def played_again(nodes: list[list[int]], tick_s: float, want: int, start_s: float, policy: ServicePolicy) -> Told:
    """What the policy comes to on nodes by zone and tick."""
    told, spot, demand = Told(), list[Machine](), list[Machine]()
    start, calm, surplus_since = math.ceil(start_s / tick_s), [0] * len(nodes), None
    serial = 0
    for tick in range(len(nodes[0])):
        now = [zone[tick] for zone in nodes]
        for z, zone in enumerate(nodes):
            lost_one = zone[tick] == 0 or (tick > 0 and zone[tick] < zone[tick - 1])
            calm[z] = 0 if lost_one else calm[z] + 1
            mine = sorted((m for m in spot if m.zone == z), key=lambda m: m.ordered)
            for machine in mine[zone[tick] :]:
                spot.remove(machine)
                told.losses += 1
        ready_at = tick + start if tick else tick

        def wanted() -> int:
            if policy.floor == want:
                return 0
            if math.isinf(policy.young_s):
                return want - policy.floor + policy.spares
            young = [m for m in spot if m.zone is not None and calm[m.zone] < math.ceil(policy.young_s / tick_s)]
            return want - policy.floor + min(policy.spares, len(young))

        while len(spot) < wanted():
            counts = [sum(m.zone == z for m in spot) for z in range(len(nodes))]
            is_calm = [tick == 0 or each >= math.ceil(policy.calm_s / tick_s) for each in calm]
            free = [z for z in range(len(nodes)) if counts[z] < now[z] and is_calm[z]]
            if not free:
                break
            best = min(free, key=lambda z: (counts[z], -calm[z], z))
            spot.append(Machine(best, serial, ready_at))
            serial += 1
        ready = sum(m.ready_at <= tick for m in spot)
        missing = want - policy.floor - (len(spot) if policy.fallback == FOR_MISSING else ready)
        least = policy.floor + (0 if policy.fallback == NO_FALLBACK else max(missing, 0))
        most = policy.floor + (0 if policy.fallback == NO_FALLBACK else max(want - policy.floor - ready, 0))
        if len(demand) > most:
            surplus_since = tick if surplus_since is None else surplus_since
            if tick - surplus_since >= math.ceil(policy.hold_s / tick_s):
                demand, surplus_since = demand[:most], None
        else:
            surplus_since = None
        while len(demand) < least:
            demand.append(Machine(None, serial, ready_at))
            serial += 1
        if len(spot) > wanted():
            latest = max(m.ready_at for m in spot)
            zone = min(m.zone for m in spot if m.ready_at == latest and m.zone is not None)
            spot.remove(max((m for m in spot if m.zone == zone), key=lambda m: m.ordered))
        told.spot, told.on_demand = told.spot + len(spot), told.on_demand + len(demand)
        told.ready.append(sum(m.ready_at <= tick for m in spot + demand))
    return told
