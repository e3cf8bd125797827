"""A log of a job on spot, checked against its policy."""

from __future__ import annotations

from os import PathLike

import numpy as np

from gpufleet.domain.spot import NAMES, ON_DEMAND, ON_SPOT, DeadlineJob, SpotLog
from gpufleet.inputs.spot_log import read_spot_log
from gpufleet.inputs.spot_rules import read_spot_rules
from gpufleet.optimize.spot_audit import should_have_run
from gpufleet.results.spot import SpotAudit, SpotDeviation


def audit_spot(rules: str | PathLike[str], log: str | PathLike[str]) -> SpotAudit:
    """Where a log (CSV: elapsed_s, available, ran, work_left_s) differs from the policy of a file."""
    held, done = read_spot_rules(str(rules)), read_spot_log(str(log))
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
