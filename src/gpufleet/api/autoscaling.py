"""`autoscale`: laws of scaling on a plan's machine under a curve of rates."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.autoscale import Prices, perfect_outcome, play_result, recommendation
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.envelope import in_full, sources_of
from gpufleet.api.machine_notes import doubts_of_file
from gpufleet.api.plan_files import notes_on_file
from gpufleet.api.scaled_plans import ScaledPlan, one_plan, scaled_plan, start_of_machine
from gpufleet.api.spoken import spoken
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.inputs.rate_curve import at_mean_rate, read_traffic
from gpufleet.optimize.autoscale import (
    MOST_TICKS,
    PRESETS,
    ROOM_RATIO,
    Outcome,
    Preset,
    Traffic,
    autocorrelation,
    played_laws,
    preset_named,
    refuse_service,
    taken,
    undominated,
)
from gpufleet.questions.autoscale import AutoscaleRequest
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.records import dataclass
from gpufleet.results.autoscale import AutoscaleResult, PolicyPlay, ScaledMachine
from gpufleet.results.base import Input
from gpufleet.results.cold_start import ColdStartResult
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ServePlan
from gpufleet.simulate.scaling import TICK_S, Service
from gpufleet.simulate.tick_arrivals import draw_ticks
from gpufleet.units import DAY


def autoscale(
    plan: AutoscaleRequest | ServePlan | FleetPlan | str | PathLike[str],
    rates: RateCurve | str | PathLike[str] | None = None,
    *,
    tick_s: float = TICK_S,
    catalog: Catalog | None = None,
    **said: Any,
) -> AutoscaleResult:
    """Play laws of scaling on a plan's machine: what each costs, who keeps `target` on every day, what to set.

    `AutoscaleRequest` (questions.autoscale) has what may be said. Requests of each tick are drawn from the curve with
    `seed`.
    """
    asked = spoken(AutoscaleRequest, plan, said if rates is None else {"rates": rates, **said})
    refuse_out_of_range(asked)
    tables = load_catalog() if catalog is None else catalog
    held = scaled_plan(one_plan(asked.plan, tables, edited=asked.edited), tables)
    start = start_of_machine(held, tables) if asked.cold_start_s is None else None
    lead_s = start.seconds.value if start is not None else float(asked.cold_start_s or 0.0)
    bounds = Bounds(lead_s, asked.target, asked.min_machines, asked.max_machines, tick_s)
    traffic = traffic_of(held, curve_of(asked), bounds, asked.seed)
    outcomes = played_laws(traffic, presets_of(asked.policies), is_searched=not asked.documented)
    best = taken(outcomes, asked.policies is None)
    result = result_of(asked, held, traffic, outcomes, best, start=start, tables=tables)
    of_plan = {"price_sources": sources_of([held.answer], tables), "grade": held.answer.grade}
    result = result.model_copy(update=of_plan)
    result = in_full(result, tables, asked)
    if not asked.verify:
        return result
    from gpufleet.api.replayed_scaling import replayed_day

    return result.model_copy(update={"replayed": replayed_day(held, best, asked.seed, tables)})


def curve_of(asked: AutoscaleRequest) -> RateCurve:
    """The rates, read where they are a file, and scaled where a mean is said."""
    said = asked.rates
    rates = said if isinstance(said, RateCurve) else read_traffic(os.fspath(said), asked.rates_model)
    return rates if asked.mean_rate is None else at_mean_rate(rates, asked.mean_rate)


def presets_of(names: Sequence[str] | None) -> list[Preset]:
    """The named laws, each once; all of them where none is asked for."""
    if names is not None and not names:
        raise UsageError("no policy is named", expected=f"some of {', '.join(PRESETS)}")
    return [preset_named(name) for name in dict.fromkeys(PRESETS if names is None else names)]


@dataclass(frozen=True)
class Bounds:
    """What a service is held to."""

    cold_start_s: float
    target_ratio: float
    min_machines: int
    max_machines: int | None
    tick_s: float


def traffic_of(held: ScaledPlan, rates: RateCurve, bounds: Bounds, seed: int) -> Traffic:
    """The service and its requests, drawn."""
    if not (math.isfinite(bounds.tick_s) and bounds.tick_s > 0):
        raise UsageError("a tick is a positive time", found=bounds.tick_s)
    if rates.span_s / bounds.tick_s > MOST_TICKS:
        raise UsageError(
            "the curve is too long", found=f"{rates.span_s / DAY:,.0f} days", hint="Take some weeks of it."
        )
    if seed < 0:
        raise UsageError("a seed is not negative", found=seed)
    if not rates.num_expected > 0:
        raise UsageError("the curve holds no requests", expected="at least one rate above zero")
    if rates.span_s < 2 * bounds.tick_s:
        raise UsageError("the curve is shorter than two ticks", found=f"{rates.span_s:g} s")
    service = bounded_service(held, bounds, float(rates.rate_per_s.max()))
    return Traffic(service, rates, draw_ticks(rates, bounds.tick_s, np.random.default_rng(seed)))


def bounded_service(held: ScaledPlan, bounds: Bounds, peak_per_s: float) -> Service:
    """The service, with room above what its peak needs where nobody says the most."""
    least, most = bounds.min_machines, bounds.max_machines
    free = max(least, 2) if most is None else most
    service = Service(held.replica, bounds.cold_start_s, least, free, bounds.tick_s, bounds.target_ratio, held.copies)
    refuse_service(service)
    if most is not None:
        return service
    peak = math.ceil(peak_per_s / service.planned_per_s)
    return replace(service, max_replicas=max(math.ceil(ROOM_RATIO * peak), free))


def result_of(
    asked: AutoscaleRequest,
    held: ScaledPlan,
    traffic: Traffic,
    outcomes: Sequence[Outcome],
    best: Outcome,
    *,
    start: ColdStartResult | None,
    tables: Catalog,
) -> AutoscaleResult:
    """What is said of all plays."""
    prices = Prices(held.answer.price_per_instance_usd_per_hour, held.answer.gpus_per_instance)
    perfect = perfect_outcome(traffic)
    hours = perfect.replica_hours
    plays = [play_result(row, hours, prices) for row in outcomes]
    return AutoscaleResult(
        model=held.plan.model,
        machine=machine_result(held, traffic.service),
        objectives=held.plan.objectives,
        inputs=inputs_of(asked, held, traffic),
        target_ratio=traffic.service.target_ratio,
        tick_s=traffic.service.tick_s,
        seed=asked.seed,
        num_ticks=len(traffic.arrivals),
        num_days=int(traffic.curve.span_s // DAY),
        requests=float(traffic.arrivals.sum()),
        mean_requests_per_s=traffic.curve.mean_rate_per_s,
        peak_requests_per_s=float(traffic.curve.rate_per_s.max()),
        daily_autocorrelation=autocorrelation(traffic.curve),
        least_machines=traffic.service.min_replicas,
        most_machines=traffic.service.max_replicas,
        cold_start_s=traffic.service.cold_start_s,
        cold_start=start,
        is_tuned=any(row.is_tuned for row in outcomes),
        num_tuned_days=traffic.num_tuned_days,
        plays=sorted(plays, key=by_worth),
        perfect=play_result(perfect, hours, prices),
        front=list(dict.fromkeys(row.preset for row in undominated(outcomes))),
        recommendation=recommendation(best, outcomes, traffic, prices),
        notes=[*doubts_of_file(held.answer, tables), *notes_of(held, traffic)],
        plan=held.plan.with_basis() if isinstance(held.plan, ServeAnswer) else held.plan,
    )


def by_worth(play: PolicyPlay) -> tuple[bool, float]:
    """Those that keep the target first, the cheapest first; then those that miss it, the nearest first."""
    return not play.meets_target, play.machine_hours if play.meets_target else -play.kept_ratio_worst_day


def machine_result(held: ScaledPlan, service: Service) -> ScaledMachine:
    """What is scaled."""
    d = held.answer
    return ScaledMachine(
        cloud=d.cloud,
        region=d.region,
        instance=d.instance,
        price_kind=d.price_kind,
        price_per_instance_usd_per_hour=d.price_per_instance_usd_per_hour,
        gpu=d.gpu,
        gpus_per_instance=d.gpus_per_instance,
        copies=held.copies,
        layout=d.layout,
        requests_per_s_planned=service.planned_per_s,
        requests_per_s_sustained=service.replica.sustained_per_s,
        requests_planned=service.planned_batch,
    )


def inputs_of(asked: AutoscaleRequest, held: ScaledPlan, traffic: Traffic) -> list[Input]:
    """What was asked, as it was read."""
    service = traffic.service
    rows = [
        ("plan", held.plan.input_hash, "given"),
        ("curve", f"{len(traffic.curve):,} bins of {traffic.curve.bin_s:g} s", "given"),
        ("cold start", f"{service.cold_start_s:.0f} s", asked.origin("cold_start_s")),
        ("target", f"{service.target_ratio:.4g}", asked.origin("target")),
        ("least machines", f"{service.min_replicas}", asked.origin("min_machines")),
        ("most machines", f"{service.max_replicas}", asked.origin("max_machines")),
    ]
    return [Input(name=name, value=value, origin=origin) for name, value, origin in rows]


def notes_of(held: ScaledPlan, traffic: Traffic) -> list[str]:
    """What the figures rest on."""
    played = "Played on ticks and closed forms; machines are paid from the order on, and while they drain."
    notes = [*notes_on_file(held.plan), played]
    if held.plan.confidence > EXPECTED:
        notes.append(
            f"Ticks are as late as the plan's confidence of {held.plan.confidence:.0%} has it; a replay request by "
            "request (--verify), whose steps are as expected, keeps up to 4 points more."
        )
    loose = [label for label in held.plan.objectives if label.endswith((".mean", ".p50"))]
    if loose:
        notes.append(f"{', '.join(loose)}: each single request is held to the limit here, not their mean or median.")
    days = traffic.curve.span_s / DAY
    if days < 1:
        notes.append("Warning: less than a day: 'every day' is all of it, and no law could learn a day.")
    elif days % 1 * DAY >= traffic.service.tick_s:
        notes.append(
            f"Days are counted from the start of the curve; the last {days % 1:.1f} of one is paid, not judged."
        )
    if traffic.curve.num_filled:
        notes.append(f"{traffic.curve.num_filled} bins of the curve were filled in between their neighbours.")
    return notes
