"""From runs of a job on spot to what is said of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.spot import NAMES, WAITING, DeadlineJob, SlackRules
from gpufleet.optimize.spot import TITLES, MovingMarket, late_ratio
from gpufleet.optimize.spot_plays import SpotPlay as DrawnPlay
from gpufleet.provenance import Grade
from gpufleet.results.base import Figure
from gpufleet.results.job import PlayedOnSpot
from gpufleet.results.spot import SlackPoint, SpotPlay, SpotRule, SpotRules
from gpufleet.simulate.spot_jobs import SpotRuns

TENTH, NINETIETH = 10, 90
HARDLY_EVER = 0.01


def drawn_figure(
    values: FloatArray,
    unit: str,
    grade: str,
    alike: FloatArray | None = None,
    moving: MovingMarket | None = None,
) -> Figure:
    """The mean of draws, from their 10th to their 90th percentile; a skewed mean may lie beyond one of them.

    Windows of one trace are more like each other than those to come: ends reach as far as those of draws `alike` do.
    A stated market is not that of tomorrow: they reach as far as it may move.
    """
    mean = float(np.mean(values))
    told = [values] if alike is None else [values, alike]
    low = min(mean, *(float(np.percentile(each, TENTH)) for each in told))
    high = max(mean, *(float(np.percentile(each, NINETIETH)) for each in told))
    if moving is not None:
        low, high = moving.ends(mean, low, high)
    return Figure(value=mean, unit=unit, low=low, high=high, grade=grade)


def played_figure(values: FloatArray, seldom: Figure) -> Figure:
    """What drawn markets come to; the low end is at the rate of the advisor alone, `seldom`, where that is lower."""
    drawn = drawn_figure(values, seldom.unit, seldom.grade)
    low = min(end for end in (drawn.low, seldom.low, seldom.value) if end is not None)
    grade = Grade.TRANSFERRED.label if seldom.grade == Grade.MEASURED.label else seldom.grade
    return drawn.model_copy(update={"low": low, "grade": grade})


def played_on_spot(play: DrawnPlay, usd_if_seldom_taken: float) -> PlayedOnSpot:
    """What is said of a play."""
    return PlayedOnSpot(
        usd_if_seldom_taken=usd_if_seldom_taken,
        losses=play.losses,
        on_demand_ratio=play.on_demand_ratio,
        late_ratio=play.late_ratio,
        zones=play.num_zones,
        draws=len(play.usd),
    )


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
