"""From plays of laws to what is said of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpufleet.optimize.autoscale import LEARNING, OURS_TO_ZERO, PERFECT, PRESETS, Outcome, Traffic
from gpufleet.records import dataclass
from gpufleet.results.autoscale import MachinesFrom, PolicyPlay, Recommendation, Saving, ScalingWindow
from gpufleet.simulate.scaling import Played
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH, PERCENT

AHEAD = frozenset({"seasonal-naive", "holt-winters", "cron-windows", "keda-cron-rate", *LEARNING})
KNOWS = "the fewest machines of every tick, known before"


@dataclass(frozen=True)
class Prices:
    """What a machine costs, and how many GPUs it has."""

    usd_per_hour: float
    gpus: float


def play_result(outcome: Outcome, perfect_hours: float, prices: Prices) -> PolicyPlay:
    """How a law did."""
    played, hours = outcome.played, outcome.replica_hours
    preset = PRESETS.get(outcome.preset)
    span_hours = len(played.arrivals) * played.tick_s / HOUR
    return PolicyPlay.made_of(
        outcome,
        played,
        policy=outcome.preset,
        title=preset.title if preset else KNOWS,
        source=preset.source if preset else "",
        controller=preset.controller if preset else "",
        settings={name: value if value is None else float(value) for name, value in outcome.settings.items()},
        machine_hours=hours,
        gpu_hours=hours * prices.gpus,
        usd=hours * prices.usd_per_hour,
        usd_per_month=hours * prices.usd_per_hour / span_hours * HOURS_PER_MONTH,
        over_perfect_ratio=hours / perfect_hours if perfect_hours else float("inf"),
        kept_ratio=outcome.mean,
        kept_ratio_by_day=outcome.days.tolist(),
        kept_ratio_worst_day=outcome.worst_day,
        kept_ratio_worst_unseen_day=outcome.worst_unseen_day,
        kept_ratio_worst_quarter_hour=outcome.worst_quarter,
        cold_requests=outcome.cold,
        unserved_requests=float(played.queue[-1]),
        mean_machines=hours / span_hours,
        least_machines=int(played.paid.min()),
        most_machines=int(played.paid.max()),
    )


def perfect_outcome(traffic: Traffic) -> Outcome:
    """What somebody does who knows the future, as a law among the others."""
    return Outcome(PERFECT, {}, traffic.perfect, traffic.service.target_ratio)


def recommendation(best: Outcome, outcomes: Sequence[Outcome], traffic: Traffic, prices: Prices) -> Recommendation:
    """What to set, in numbers."""
    service, preset = traffic.service, PRESETS[best.preset]
    week = traffic.week(best.settings) if preset.has_windows else None
    paid, static = best.played.paid, next((row for row in outcomes if row.preset == "static"), None)
    scales, why = to_zero(best, outcomes)
    ratio = best.settings.get("target_ratio")
    return Recommendation(
        policy=best.preset,
        controller=preset.controller,
        is_tuned=best.is_tuned,
        is_careful=best.is_careful,
        settings={name: value if value is None else float(value) for name, value in best.settings.items()},
        min_machines=int(paid.min()),
        max_machines=int(paid.max()),
        target_requests_per_s=service.planned_per_s * (1.0 if ratio is None else ratio),
        prewarm_lead_s=service.cold_start_s if best.preset in AHEAD else None,
        scales_to_zero=scales,
        why_zero=why,
        saved_ratio=saved_beside(static, best),
        windows=[]
        if week is None
        else [
            ScalingWindow(days=[day + 1 for day in w.days], start_s=w.start_s, end_s=w.end_s, machines=w.machines)
            for w in week.windows()
        ],
        least_in_windows=0 if week is None else week.least,
        is_dated=traffic.learnt.is_dated,
        machines=list(machines_over_time(best.played)),
        could_save=saving(best, outcomes, prices),
    )


def saved_beside(static: Outcome | None, best: Outcome) -> float:
    """The share of a fixed number's machine hours that a law saves; nothing where that number is none."""
    return 0.0 if static is None or not static.replica_hours else 1 - best.replica_hours / static.replica_hours


def machines_over_time(played: Played) -> Iterator[MachinesFrom]:
    """Machines from the beginning, and from each tick on at which their number changes."""
    both = np.stack([played.paid, played.ready])
    changes = np.flatnonzero(np.any(np.diff(both, axis=1), axis=0)) + 1
    for tick in [0, *changes.tolist()]:
        time_s = played.start_s + tick * played.tick_s
        yield MachinesFrom(t_s=time_s, machines=int(played.paid[tick]), ready=int(played.ready[tick]))


def saving(best: Outcome, outcomes: Sequence[Outcome], prices: Prices) -> Saving | None:
    """The cheapest law that keeps the target too, where it is cheaper than what is recommended."""
    other = min((row for row in outcomes if row.meets_target), key=lambda row: row.replica_hours, default=best)
    if not best.meets_target or other.replica_hours >= best.replica_hours:
        return None
    controller, usd = PRESETS[other.preset].controller, other.replica_hours * prices.usd_per_hour
    saved_ratio = 1 - other.replica_hours / best.replica_hours
    return Saving(policy=other.preset, controller=controller, usd=usd, saved_ratio=saved_ratio)


def to_zero(best: Outcome, outcomes: Sequence[Outcome]) -> tuple[bool, str]:
    """Whether to go to none, and why: by the same law with and without, where both were played."""
    if not best.played.paid.min():
        return True, f"{best.cold:,.0f} requests a run meet a cold start, and the target holds all the same"
    other = next((row for row in outcomes if row.preset == OURS_TO_ZERO), None)
    if other is None:
        return False, "no law that goes to none was asked for"
    empty = float((other.played.paid == 0).sum()) * other.played.tick_s
    if not empty:
        return False, "no hour is empty"
    saved = PERCENT * (1 - other.replica_hours / best.replica_hours)
    days = len(other.played.paid) * other.played.tick_s / DAY
    return False, (
        f"{empty / HOUR / days:.1f} h a day without machines would save {saved:.1f} % and "
        f"{other.cold:,.0f} requests would meet a cold start"
    )
