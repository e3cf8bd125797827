"""Two policies on ticks of availability, to tell whether generated traces cost what measured ones do.

Greedy takes spot whenever it is there; Uniform Progress keeps up with a straight line (Can't Be Late, NSDI 24). Both
have the safety net of `optimize.spot_policies`. Prices are of one V100: p3.2xlarge in us-west-2, on demand and spot.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray
from gpufleet.domain.spot import DeadlineJob, SpotMarket
from gpufleet.optimize.spot_policies import Greedy, NeverLate, UniformProgress
from gpufleet.simulate.spot_jobs import SpotPolicy, replay_jobs
from gpufleet.units import HOUR

SPOT_USD_PER_HOUR, ON_DEMAND_USD_PER_HOUR = 0.9731, 3.06
WORK_S = 48 * HOUR
CELLS = [(overhead * HOUR, deadline * HOUR) for overhead in (0.02, 0.20) for deadline in (52, 70, 92)]
POLICIES: dict[str, SpotPolicy] = {"greedy": Greedy(), "uniform progress": UniformProgress()}


def cost_and_lateness(up: BoolArray, tick_s: float, policy: str, overhead_s: float, deadline_s: float) -> AnyArray:
    """USD and seconds after the deadline of a job on each trace   [2, trace]; no spot after a trace's end."""
    job = DeadlineJob(WORK_S, deadline_s, overhead_s)
    num_ticks = round(deadline_s / tick_s) + 1
    stretches = np.pad(up, ((0, 0), (0, max(num_ticks - up.shape[1], 0))))
    market = SpotMarket(stretches.reshape(1, -1), tick_s, np.array([SPOT_USD_PER_HOUR]), ON_DEMAND_USD_PER_HOUR)
    first_tick = np.arange(len(stretches)) * stretches.shape[1]
    runs = replay_jobs(job, market, first_tick, NeverLate(POLICIES[policy], job, tick_s))
    return np.stack([runs.cost_usd, np.maximum(runs.elapsed_s - deadline_s, 0.0)])


def windows(up: BoolArray, num_ticks: int, step: int) -> BoolArray:
    """All stretches of so many ticks that begin every `step` of them   [stretch, tick]."""
    return np.lib.stride_tricks.sliding_window_view(up, num_ticks)[::step]
