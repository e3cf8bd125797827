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
    """Dollars, seconds from start to end and machines lost, of a market of one place."""
    todo, booting, unsaved, on, usd, lost = job.work_s, 0.0, 0.0, "idle", 0.0, 0
    names = {0: "idle", 1: "spot", 2: "demand"}
    for tick, decision in enumerate(decisions):
        there = bool(market.is_available[0, first + tick])
        if on == "spot" and not there:
            todo, on, lost = todo + min(unsaved, job.loss_s), "idle", lost + 1
        want = names[int(decision)]
        assert want != "spot" or there, "nobody runs on spot where there is none"
        if want not in ("idle", on):
            booting, unsaved = job.restart_s, 0.0
        on = want
        if on == "idle":
            continue
        price = float(market.spot_usd_per_hour[0]) if on == "spot" else market.on_demand_usd_per_hour
        used = 0.0
        boot = min(booting, market.tick_s)
        booting, used = booting - boot, used + boot
        worked = min(todo, market.tick_s - used)
        todo, unsaved, used = todo - worked, unsaved + worked, used + worked
        usd += used / 3600 * price
        if todo <= 1e-6:
            return usd, tick * market.tick_s + used, lost
    return usd, float("inf"), lost


def market_of(runs: list[int], tick_s: float = 600.0, spot: float = 1.0, on_demand: float = 3.0) -> SpotMarket:
    """One place that has a machine for so many ticks, then none for so many, and so on."""
    has_one = np.concatenate([np.full(n, i % 2 == 0) for i, n in enumerate(runs)])
    return SpotMarket(has_one[None], tick_s, np.array([spot]), on_demand)
