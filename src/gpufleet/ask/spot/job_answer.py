"""From runs of a job on spot to what is said of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpufleet.answers.played_on_spot import drawn_figure
from gpufleet.ask.spot.job_shape import SlackPoint, SpotPlay, SpotRule, SpotRules
from gpufleet.domain.spot import NAMES, WAITING, DeadlineJob, SlackRules
from gpufleet.optimize.spot import TITLES, MovingMarket, late_ratio
from gpufleet.simulate.spot_jobs import SpotRuns

HARDLY_EVER = 0.01


def play_of(
    name: str,
    runs: SpotRuns,
    deadline_s: float,
    grade: str,
    alike: SpotRuns | None = None,
    moving: MovingMarket | None = None,
) -> SpotPlay:
    """How a policy did; and on draws alike, which its range of cost reaches to; and how far the market moves."""
    machine_s = runs.spot_s + runs.on_demand_s
    takes_over = np.isfinite(runs.first_on_demand_s)
    finished = runs.elapsed_s[np.isfinite(runs.elapsed_s)]
    return SpotPlay(
        policy=name,
        title=TITLES[name],
        usd=drawn_figure(runs.cost_usd, "USD", grade, None if alike is None else alike.cost_usd, moving),
        elapsed=drawn_figure(finished if len(finished) else np.array([deadline_s]), "s", grade),
        late_ratio=late_ratio(runs, deadline_s),
        losses=drawn_figure(runs.losses.astype(np.float64), "1", grade),
        on_demand_ratio=float(runs.on_demand_s.sum() / machine_s.sum()),
        takes_over_ratio=float(np.mean(takes_over)),
        takes_over_s=float(np.median(runs.first_on_demand_s[takes_over])) if takes_over.any() else None,
    )


def chosen_name(plays: Mapping[str, SpotPlay]) -> str:
    """The cheapest policy that is hardly ever late, or hardly more often than the one that is late least often."""
    most_ratio = min(play.late_ratio for play in plays.values()) + HARDLY_EVER
    return min((name for name in plays if plays[name].late_ratio <= most_ratio), key=lambda n: plays[n].usd.value)


def rules_result(name: str, rules: SlackRules, worst: DeadlineJob, tick_s: float) -> SpotRules:
    """Thresholds as a state machine."""
    ages = rules.hazards.ages
    edges = [0.0, *rules.hazards.edges_s]
    found = [
        SpotRule(
            running=NAMES[running],
            has_machine=has_machine,
            from_s=edges[age],
            until_s=edges[age + 1] if age + 1 < ages else None,
            on_demand_below=points_of(rules, running, age + ages * has_machine),
            otherwise="spot" if has_machine else NAMES[WAITING],
        )
        for running in range(len(NAMES))
        for has_machine in (False, True)
        for age in range(ages)
        if has_machine or NAMES[running] != "spot"
    ]
    return SpotRules(
        policy=name,
        tick_s=tick_s,
        work_s=worst.work_s,
        deadline_s=worst.deadline_s,
        restart_s=worst.restart_s,
        loss_s=worst.loss_s,
        rules=found,
    )


def points_of(rules: SlackRules, running: int, state: int) -> list[SlackPoint]:
    """The thresholds of one state, by the time left."""
    thresholds = rules.slack_s[running, state]
    return [
        SlackPoint(left_s=float(left), slack_s=float(slack))
        for left, slack in zip(rules.left_s, thresholds, strict=True)
    ]
