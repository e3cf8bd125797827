"""The pace at which a copy carries the rate that its user measured of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.own_stack import TIMES, Factor, Fitted, OwnStack, Spreads, layout_name, model_name
from gpufleet.domain.pool_request import PoolRequest
from gpufleet.errors import UsageError
from gpufleet.optimize.copies.decoder import Replicas, WriterSolution
from gpufleet.optimize.own_pace import with_own_pace
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass

EXPECTED = "N/TIME beside --gpu NAME, or GPU:N@N/TIME, such as '1.9/s' or 'H100:2 TP2@1.9/s'"
RANKS = ("tp", "pp", "ep", "attention_dp")
FARTHEST_LOG = math.log(20.0)
"""No copy takes twenty times as long as predicted, or a twentieth."""
NEAR_LOG, HELD_LOG = 1e-6, 0.005


@dataclass(frozen=True)
class CopyRate:
    """What one copy carried, and as far as it was said which copy."""

    requests_per_s: float
    copy: PoolRequest | None

    def is_of(self, gpu: str, c: Candidates) -> IntArray:
        """Rows that may be that copy, on a GPU."""
        names = np.array([c.palette.accelerators[at].name for at in c.accelerator])
        kept = names == gpu
        if self.copy is not None:
            stated = {"num_devices": self.copy.number} | {name: getattr(self.copy, name) for name in RANKS}
            kept &= np.all([getattr(c, name) == value for name, value in stated.items() if value is not None], axis=0)
        return np.flatnonzero(kept)


def refuse_unclear(rate: CopyRate, gpu: str, copies: Replicas, rows: IntArray) -> None:
    """Refuse a rate of no copy that can be, or of one of several sizes, formats or engines."""
    c = copies.candidates
    if not len(rows):
        found = gpu if rate.copy is None else f"{gpu}:{rate.copy.number}"
        raise UsageError("no copy of the plan is the one of --replica-rate", found=found, expected=EXPECTED)
    kinds = {
        "sizes": sorted({f"{gpu}:{n}" for n in c.num_devices[rows]}),
        "formats (--precision)": sorted({model_name(copies.model.arch.name, copies.weights(int(row))) for row in rows}),
        "engines (--engine)": sorted({copies.engine(int(row)) for row in rows}),
    }
    unclear = next((what for what, names in kinds.items() if len(names) > 1), None)
    if unclear is not None:
        raise UsageError(
            f"--replica-rate may be of copies of several {unclear}", found=", ".join(kinds[unclear]), expected=EXPECTED
        )


def stack_of_plan(
    rate: CopyRate, gpu: str, solution: WriterSolution, spreads: Mapping[str, Spreads], calibration: Calibration
) -> OwnStack:
    """The pace that a rate implies of the copies of a plan that it may be of: the one that is planned carries it."""
    copies = solution.copies
    rows = rate.is_of(gpu, copies.candidates)
    refuse_unclear(rate, gpu, copies, rows)
    fastest = rows[np.argmax(solution.found.sustained_requests_per_s[rows])]
    planned = [p.placement.row for p in solution.ranked if p.placement.row in rows]
    return stack_at_rate(copies, [*planned, int(fastest)][0], rows, rate.requests_per_s, spreads, calibration)


def stack_at_rate(
    copies: Replicas,
    row: int,
    alike: Iterable[int],
    requests_per_s: float,
    spreads: Mapping[str, Spreads],
    calibration: Calibration,
) -> OwnStack:
    """The engine on its GPU at the pace at which one copy carries just this rate within all limits.

    Steps and first tokens of that model take so many times as long in the layouts of rows that are `alike`; nothing
    else moves. What is left of ranges is how far sweeps and runs of a stack differ. A copy carries what a plan of it is
    sized by.
    """
    c, arch = copies.candidates, copies.model.arch
    engine, one = c.palette.engines[int(c.engine[row])], c.take(np.array([row]))
    model = model_name(arch.name, copies.weights(row))
    layouts = {layout_name(int(c.tp[at]), int(c.pp[at]), int(c.attention_dp[at])) for at in alike}
    alone = replace(
        copies, demand=replace(copies.demand, played=()), largest_batch=copies.largest_batch[[row]], num_layouts=1
    )

    def paced(log: float) -> OwnStack:
        factors = {(model, layout): Factor(log, 0.0) for layout in sorted(layouts)}
        of_time = ((time, spreads[time]) for time in TIMES)
        times = {time: Fitted(Factor(0.0, s.stacks), {}, factors, (), s) for time, s in of_time}
        gpu = copies.gpu(row).name
        return OwnStack(engine.name, gpu, engine.version or "", 1, times, f"{requests_per_s:,.4g}/s", of_rate=True)

    def log_of_rate(log: float) -> float:
        engines = tuple(replace(e, own=paced(log)) if e is engine else e for e in c.palette.engines)
        candidates = with_own_pace(replace(one, palette=replace(c.palette, engines=engines)), arch.name)
        step = StepModel.build(arch, candidates, calibration)
        rate = float(replace(alone, candidates=candidates, model=step).capacity().requests_per_s[0])
        return math.log(rate) if rate > 0 else -math.inf

    return paced(log_pace(log_of_rate, requests_per_s))


def log_pace(log_of_rate: Callable[[float], float], requests_per_s: float) -> float:
    """ln of how many times as long all takes where just this rate is carried; the slower, the less is.

    >>> round(log_pace(lambda log: 2.0 - log, math.exp(1.5)), 5)
    0.5
    """
    wanted = math.log(requests_per_s)
    fast, slow = -FARTHEST_LOG, FARTHEST_LOG
    over, under = log_of_rate(fast) - wanted, -math.inf
    if over < 0:
        raise UsageError(
            "no copy carries that",
            found=f"{requests_per_s:,.4g}/s",
            expected=f"at most {math.exp(over + wanted):.3g}/s",
        )
    tried = 0.0
    while slow - fast > NEAR_LOG:
        beyond = log_of_rate(tried) - wanted
        if 0 <= beyond < NEAR_LOG:
            return tried
        if beyond >= 0:
            fast, over, under = tried, beyond, under / 2
        else:
            slow, over, under = tried, over / 2, beyond
        share = over / (over - under) if math.isfinite(under) else 0.5
        tried = fast + (slow - fast) * share
    if over > HELD_LOG:
        raise UsageError(
            "a copy that carries no more keeps no limit, by what is predicted of it",
            found=f"{requests_per_s:,.4g}/s",
            expected=f"at least {math.exp(over + wanted):.3g}/s: what it carries within its limits where it is busy",
            hint="--calibration takes runs that say TTFT and TPOT.",
        )
    return fast
