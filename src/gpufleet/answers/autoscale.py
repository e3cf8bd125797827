"""From plays of laws to what is said of them."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.optimize.autoscale import LEARNING, OURS_TO_ZERO, PERFECT, PRESETS, Outcome, Traffic
from gpufleet.records import dataclass
from gpufleet.results.autoscale import PolicyPlay, Recommendation
from gpufleet.simulate.scaling import Service
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH, PERCENT

AHEAD = frozenset({"seasonal-naive", "holt-winters", *LEARNING})
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


def recommendation(best: Outcome, outcomes: Sequence[Outcome], service: Service) -> Recommendation:
    """What to set, in numbers."""
    paid, static = best.played.paid, next((row for row in outcomes if row.preset == "static"), None)
    scales, why = to_zero(best, outcomes)
    ratio = best.settings.get("target_ratio")
    return Recommendation(
        policy=best.preset,
        is_tuned=best.is_tuned,
        settings={name: value if value is None else float(value) for name, value in best.settings.items()},
        min_machines=int(paid.min()),
        max_machines=int(paid.max()),
        target_requests_per_s=service.planned_per_s * (1.0 if ratio is None else ratio),
        prewarm_lead_s=service.cold_start_s if best.preset in AHEAD else None,
        scales_to_zero=scales,
        why_zero=why,
        saved_ratio=0.0 if static is None else 1 - best.replica_hours / static.replica_hours,
    )


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
