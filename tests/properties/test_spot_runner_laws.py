"""A runner that is written from the printed policy alone is never late, whatever the market does between its looks."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.spot_runner import Interval, merged, run

from gpufleet.ask.spot.job_answer import rules_result
from gpufleet.domain.spot import AgedHazards, DeadlineJob
from gpufleet.optimize.slack_rules import slack_rules
from gpufleet.units import HOUR

TICK_S = 600.0
HAZARDS = AgedHazards(TICK_S, (600.0, 3600.0), (0.25, 0.1, 0.03), (0.4, 0.2, 0.07))
jobs = st.builds(
    DeadlineJob,
    work_s=st.sampled_from([2 * HOUR, 5.3 * HOUR]),
    deadline_s=st.sampled_from([5.75 * HOUR, 6 * HOUR, 6.5 * HOUR, 9.5 * HOUR]),
    restart_s=st.sampled_from([0.0, 72.0, 720.0, 1500.0]),
    loss_s=st.sampled_from([0.0, 600.0, 1131.0, 1800.0]),
)
looks = st.sampled_from(["up", "none", 0.01, 34.0, 300.0, 599.9, 600.0])
"""What the market does from one look to the next: up, none, or a machine that goes so many seconds after the look."""


@cache
def printed(job: DeadlineJob) -> str:
    return rules_result("slack", slack_rules(job, HAZARDS, 1.0, 3.0), job, TICK_S).model_dump_json()


def against(pattern: list[str | float], deadline_s: float) -> list[Interval]:
    """Machines that come and go by the pattern, again and again."""
    found = []
    for look in range(int(deadline_s / TICK_S) + 1):
        what, begin = pattern[look % len(pattern)], look * TICK_S
        if what != "none":
            found.append((begin, begin + TICK_S if isinstance(what, str) else begin + what))
    return merged(found)


@given(jobs, st.lists(looks, min_size=1, max_size=30), st.booleans(), st.sampled_from([0.3, 1.0]))
def test_a_runner_of_the_printed_rules_is_never_late(
    job: DeadlineJob, pattern: list[str | float], sees_losses: bool, start_ratio: float
) -> None:
    up = against(pattern, job.deadline_s)
    runner = run(printed(job), up, job.work_s, start_ratio * job.restart_s, sees_losses)
    assert runner.finishes_s() <= job.deadline_s + 1e-6


@given(jobs, st.lists(st.floats(1.0, 6 * HOUR), min_size=2, max_size=60), st.booleans())
def test_a_runner_is_never_late_where_machines_go_at_any_instant(
    job: DeadlineJob, lasts_s: list[float], sees_losses: bool
) -> None:
    ends = np.cumsum(lasts_s).tolist()
    up = merged(list(zip([0.0, *ends[1::2]], ends[::2], strict=False)))
    assert run(printed(job), up, job.work_s, job.restart_s, sees_losses).finishes_s() <= job.deadline_s + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("start_s", [72.0, 720.0])
def test_a_runner_between_points_34_seconds_apart_is_never_late(start_s: float) -> None:
    """48 h within 52 h on machines that were seen every 34 s, 120 windows: it looks every ten minutes."""
    rng = np.random.default_rng(7)
    job = DeadlineJob(48 * HOUR, 52 * HOUR, start_s, 1131.0)
    policy = printed(job)
    ends = np.cumsum(np.maximum(rng.lognormal(6.7, 1.8, 1200), 1.0).round() * 34.0)
    up = list(zip([0.0, *ends[1:-1:2].tolist()], ends[::2].tolist(), strict=False))
    late, lost = 0, 0
    for begun in np.arange(120) * HOUR + 17.0:
        window = [(a - begun, b - begun) for a, b in up if b > begun and a < begun + job.deadline_s]
        runner = run(policy, window, job.work_s, job.restart_s)
        late += runner.finishes_s() > job.deadline_s
        lost += runner.losses
    assert lost > 120, "machines do go in between"
    assert late == 0


def test_the_net_cannot_be_had_for_less() -> None:
    """Spot whenever it may be taken, on a machine that goes just after a look: the worst ends within the last tick."""
    job = DeadlineJob(2 * HOUR, 6 * HOUR, 720.0, 1200.0)
    policy = json.loads(printed(job))
    for rule in policy["rules"]:
        rule["on_demand_below"] = [{"left_s": left_s, "slack_s": 0.0} for left_s in (0.0, job.deadline_s)]
    greedy = json.dumps(policy)
    begins = [20 * TICK_S + k * 60.0 for k in range(10)]
    ends = [
        run(greedy, [(begin, last * TICK_S + 1)], job.work_s, job.restart_s).finishes_s()
        for begin in begins
        for last in range(21, 36)
    ]
    assert job.deadline_s - TICK_S < max(ends) <= job.deadline_s
