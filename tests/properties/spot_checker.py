"""One job played again in plain Python from what was decided, with nothing of the replay: cost, end, losses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpufleet.domain.arrays import IntArray
from gpufleet.domain.spot import DeadlineJob, SpotMarket
from gpufleet.simulate.spot_jobs import Sight, SpotPolicy


@dataclass
class Recorded:
    """A policy whose decisions are kept: [tick, job]."""

    policy: SpotPolicy
    decisions: list[IntArray] = field(default_factory=list)

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        chosen = self.policy.choose(job, sight)
        self.decisions.append(chosen)
        return chosen


def played_again(job: DeadlineJob, market: SpotMarket, first: int, decisions: list[int]) -> tuple[float, float, int]:
    """Dollars, seconds from start to end and machines lost."""
    todo, booting, unsaved, on, usd, lost, at = job.work_s, 0.0, 0.0, "idle", 0.0, 0, 0
    names = {0: "idle", 1: "spot", 2: "demand"}
    for tick, decision in enumerate(decisions):
        if on == "spot" and not market.is_available[at, first + tick]:
            todo, on, lost = todo + min(unsaved, job.loss_s), "idle", lost + 1
        want = names[int(decision)]
        if want == "spot" and on != "spot":
            at = place_to_start(market, first, tick)
        assert want != "spot" or market.is_available[at, first + tick], "nobody runs on spot where there is none"
        if want not in ("idle", on):
            booting, unsaved = job.restart_s, 0.0
        on = want
        if on == "idle":
            continue
        price = float(market.spot_usd_per_hour[at]) if on == "spot" else market.on_demand_usd_per_hour
        used = 0.0
        boot = min(booting, market.tick_s)
        booting, used = booting - boot, used + boot
        worked = min(todo, market.tick_s - used)
        todo, unsaved, used = todo - worked, unsaved + worked, used + worked
        usd += used / 3600 * price
        if todo <= 1e-6:
            return usd, tick * market.tick_s + used, lost
    return usd, float("inf"), lost


def place_to_start(market: SpotMarket, first: int, tick: int) -> int:
    """The cheapest place that has a machine, of those the one that has had it for longest since the job began."""
    here = [place for place in range(len(market.is_available)) if market.is_available[place, first + tick]]
    cheapest = min(market.spot_usd_per_hour[place] for place in here)

    def lasted(place: int) -> int:
        seen = market.is_available[place, first : first + tick + 1][::-1]
        return len(seen) if seen.all() else int(np.argmin(seen))

    return max((place for place in here if market.spot_usd_per_hour[place] == cheapest), key=lasted)


def least_usd(job: DeadlineJob, market: SpotMarket, tick: int = 0, on: int = -1, todo_s: float | None = None) -> float:
    """The least that a job can cost, every way tried: `on` a place, -1 waiting, or one past the places on demand.

    Starts take whole ticks, and nothing is lost with a machine.
    """
    places, todo_s = len(market.is_available), job.work_s if todo_s is None else todo_s
    if todo_s <= 1e-6:
        return 0.0
    if tick >= job.deadline_s // market.tick_s:
        return float("inf")
    costs = [least_usd(job, market, tick + 1, -1, todo_s)]
    for way in range(places + 1):
        if way < places and not market.is_available[way, tick]:
            continue
        left_s = todo_s + (0.0 if way == on else job.restart_s)
        usd = market.on_demand_usd_per_hour if way == places else float(market.spot_usd_per_hour[way])
        ran_s = min(left_s, market.tick_s)
        costs.append(usd * ran_s / 3600 + least_usd(job, market, tick + 1, way, left_s - ran_s))
    return min(costs)


def market_of(runs: list[int], tick_s: float = 600.0, spot: float = 1.0, on_demand: float = 3.0) -> SpotMarket:
    """One place that has a machine for so many ticks, then none for so many, and so on."""
    has_one = np.concatenate([np.full(n, i % 2 == 0) for i, n in enumerate(runs)])
    return SpotMarket(has_one[None], tick_s, np.array([spot]), on_demand)
