"""A log of a job on spot, checked against its policy."""

from __future__ import annotations

from os import PathLike

import numpy as np

from gpufleet.ask.spot.job_shape import SpotAudit, SpotDeviation
from gpufleet.ask.spot.log import read_spot_log
from gpufleet.ask.spot.rules_file import read_spot_rules
from gpufleet.domain.spot import NAMES, ON_DEMAND, ON_SPOT, DeadlineJob, SpotLog
from gpufleet.errors import UsageError
from gpufleet.optimize.spot_audit import should_have_run


def audit_spot(rules: str | PathLike[str], log: str | PathLike[str]) -> SpotAudit:
    """Where a log (CSV: elapsed_s, available, ran, work_left_s) differs from the policy of a file."""
    held, done = read_spot_rules(str(rules)), read_spot_log(str(log))
    refuse_gaps(done, held.tick_s)
    refuse_past_deadline(done, held.worst.deadline_s)
    should = should_have_run(held.rules, held.worst, held.tick_s, done)
    differs = np.flatnonzero(should != done.ran)
    on_spot, left = done.ran == ON_SPOT, done.work_s > 0
    worked = int(((done.ran != 0) & left).sum())
    return SpotAudit(
        num_ticks=len(done.ran),
        deviations=[deviation(done, should, int(i), held.worst) for i in differs],
        net_broken=int(((should == ON_DEMAND) & (done.ran != ON_DEMAND)).sum()),
        ended_s=None if left[-1] else float(done.elapsed_s[int(np.argmin(left))]),
        deadline_s=held.worst.deadline_s,
        losses=int((on_spot[:-1] & ~done.is_available[1:] & left[1:]).sum()),
        on_demand_ratio=float((done.ran == ON_DEMAND).sum()) / worked if worked else 0.0,
    )


def refuse_gaps(log: SpotLog, tick_s: float) -> None:
    """Refuse a log that leaves ticks out: how long a market had been as it was is not known after one."""
    apart = np.diff(log.elapsed_s)
    uneven = np.flatnonzero(np.abs(apart - tick_s) > tick_s / 2)
    if len(uneven):
        line = int(uneven[0]) + 3
        raise UsageError(
            f"the log leaves ticks out before line {line}",
            found=f"{float(apart[uneven[0]]):g} s after the line before",
            expected=f"one line every {tick_s:g} s, the tick of the policy",
        )


def refuse_past_deadline(log: SpotLog, deadline_s: float) -> None:
    """Refuse ticks of which a policy says nothing: those that begin at the deadline or later, with work left."""
    late = np.flatnonzero((log.elapsed_s >= deadline_s) & (log.work_s > 0))
    if len(late):
        raise UsageError(
            f"the log works on after the deadline of the policy, from line {int(late[0]) + 2} on",
            found=f"{float(log.elapsed_s[late[0]]):g} s",
            expected=f"ticks that begin before {deadline_s:g} s; the job is late",
        )


def deviation(
    log: SpotLog, should: np.ndarray[tuple[int], np.dtype[np.int64]], i: int, job: DeadlineJob
) -> SpotDeviation:
    """One tick that differs."""
    return SpotDeviation(
        elapsed_s=float(log.elapsed_s[i]),
        has_machine=bool(log.is_available[i]),
        ran=NAMES[log.ran[i]],
        should=NAMES[should[i]],
        slack_s=float(job.deadline_s - log.elapsed_s[i] - log.work_s[i] - log.starting_s[i]),
    )
