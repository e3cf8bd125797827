"""Requests replayed one by one on copies of a model, beside what the closed form says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.serving_estimate import replica_of, serving_estimate
from gpufleet.answers.simulation import Replayed, simulation_of
from gpufleet.api.envelope import in_full
from gpufleet.api.mishaps import changes_of
from gpufleet.api.own_rate import stack_of_copy
from gpufleet.api.planned_replicas import Replicas, planned_replicas, stated_replicas
from gpufleet.api.pools import AskedPools, asked_pools
from gpufleet.api.replayed_requests import Arriving, arriving_requests
from gpufleet.api.simulated_copies import CopyQuestion, FoundCopy
from gpufleet.api.simulated_fleet import (
    SimulatedFleet,
    fleet_of_one_kind,
    fleet_of_pools,
    fleet_of_two_models,
    question_of,
)
from gpufleet.api.spoken import spoken
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.own_stack import is_of_a_rate
from gpufleet.domain.replay import Replay
from gpufleet.domain.requests import Requests
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.slo import parse_slo
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.estimate import EVERY_FIGURE, EstimateQuestion, Load, solve_estimate
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO, Client
from gpufleet.performance.step import StepModel
from gpufleet.questions.simulation import Dealing, SimulationRequest
from gpufleet.questions.words import words_of
from gpufleet.records import dataclass
from gpufleet.results.base import Figure, Input
from gpufleet.results.estimate import ServingEstimate
from gpufleet.results.simulation import Simulation
from gpufleet.simulate.cluster import replay
from gpufleet.simulate.front import beyond_cache, drawn_share, with_cached
from gpufleet.simulate.metrics import Measured, measured
from gpufleet.units import PERCENT

LEAST_RATE = 1e-6  # not a conversion: a load at which nothing waits


@dataclass(frozen=True)
class Watching:
    """Who follows a replay: who is told how far it is, who may end it, and who is handed every request's times."""

    on_progress: Callable[[float], None] | None = None
    should_stop: Callable[[], bool] | None = None
    on_replay: Callable[[Replay], None] | None = None


def simulate_serving(
    request: SimulationRequest | str | PathLike[str] | Architecture,
    gpus: str | tuple[str, int] | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_replay: Callable[[Replay], None] | None = None,
    catalog: Catalog | None = None,
    **said: Any,
) -> Simulation:
    """Replay requests on copies of a model, each on `gpus`; without `gpus`, the model is the file of a plan.

    `SimulationRequest` (questions.simulation) has what may be said: what arrives, who serves, how it is dealt out.
    `on_progress` is told the share of the requests that are done, 0 before the first, `should_stop` is asked now and
    then and ends the replay early (`is_partial`), and `on_replay` is handed every request's times.

    >>> found = simulate_serving("llama-3.1-8b", "H100:1", rate="5/s", input_tokens=500, output_tokens=50, requests=200)
    >>> found.fates["answered"]
    200
    """
    asked = spoken(SimulationRequest, request, said if gpus is None else {"gpus": gpus, **said}).checked()
    tables = load_catalog() if catalog is None else catalog
    return in_full(replayed(asked, tables, Watching(on_progress, should_stop, on_replay)), tables, asked)


def replayed(asked: SimulationRequest, tables: Catalog, watching: Watching) -> Simulation:
    """The answer of a checked question: its replicas, its requests, what happened, and what is said of it."""
    pools = None if asked.prefill is None and asked.decode is None else asked_pools(asked.prefill, asked.decode)
    planned = replicas_asked(asked, pools, tables)
    asked.refuse_traffic(is_planned=planned.workload is not None)
    arriving = arriving_requests(asked, planned.workload, planned.arch, asked.seed)
    planned = at_own_rate(asked, planned, arriving.workload, tables)
    dice = np.random.default_rng(asked.seed)
    is_hit = drawn_share(dice, arriving.requests, asked.cache_hits)
    passed = beyond_cache(arriving.requests, is_hit) if asked.cache_hits else arriving.requests
    fleet = fleet_asked(asked, pools, planned, passed, dice, tables)
    changes = changes_of(asked, fleet, passed, dice, tables)
    cluster = fleet.cluster({**dealt_out(asked), "changes": changes})
    if watching.on_progress is not None:
        watching.on_progress(0.0)
    happened = replay(cluster, fleet.requests, dice, watching.on_progress, watching.should_stop)
    if asked.cache_hits:
        happened = with_cached(happened, arriving.requests, is_hit)
    if watching.on_replay is not None:
        watching.on_replay(happened)
    figures = figures_asked(asked, happened, planned, arriving)
    return simulation_of(happened, figures, told_of(fleet, planned, arriving, asked, tables))


def at_own_rate(asked: SimulationRequest, planned: Replicas, workload: Workload | None, tables: Catalog) -> Replicas:
    """The replicas at the pace that a rate of one copy implies, as expected, within the limits of the replay."""
    if asked.replica_rate is None:
        return planned
    if asked.prefill or asked.decode or asked.small_model:
        raise UsageError("--replica-rate is of replicas that are all alike", found="pools or a small model beside it")
    said = planned.copy.calibration
    if said is not None and not is_of_a_rate(said):
        raise UsageError("how fast copies are is said twice", expected="--replica-rate or --calibration")
    if workload is None:
        raise UsageError("--replica-rate needs requests that come at a rate", expected="--rate, or a trace with times")
    copy, limits = replace(planned.copy, calibration=None), objectives_of(asked, planned) or Slo()
    demand = Demand(replace(workload, slo=limits))
    own = stack_of_copy(asked.replica_rate, copy, planned.arch, demand, tables)
    if own is None:
        raise UsageError("--replica-rate is of another copy than is replayed", found=asked.replica_rate)
    return replace(planned, copy=replace(copy, calibration=own))


def objectives_of(asked: SimulationRequest, planned: Replicas) -> Slo | None:
    """The limits of a replay, typed or of its plan."""
    return parse_slo(asked.slo) if isinstance(asked.slo, str) else asked.slo or planned.slo


def figures_asked(asked: SimulationRequest, happened: Replay, planned: Replicas, arriving: Arriving) -> Measured:
    """What is measured of a replay, and against which limits; a burst and a cold start are measured from the start."""
    is_whole = arriving.is_whole or asked.cold_start_s is not None
    return measured(happened, objectives_of(asked, planned), whole=is_whole, warm_up_s=asked.warm_up_s)


def replicas_asked(asked: SimulationRequest, pools: AskedPools | None, tables: Catalog) -> Replicas:
    """The replicas as they are stated, as a plan has them, or as copies of two pools."""
    if pools is not None:
        if asked.gpus is not None or asked.replicas is not None:
            raise UsageError("pools have GPUs and copies of their own", expected="--prefill and --decode alone")
        return stated_replicas(question_of(pools.decode, asked), None, tables)
    if asked.gpus is None:
        return planned_replicas(asked, asked.replicas, tables, edited=asked.edited)
    return stated_replicas(asked, asked.replicas, tables)


def fleet_asked(
    asked: SimulationRequest,
    pools: AskedPools | None,
    planned: Replicas,
    requests: Requests,
    dice: np.random.Generator,
    tables: Catalog,
) -> SimulatedFleet:
    """The copies of a replay."""
    if pools is not None and asked.small_model is not None:
        raise UsageError("a small model stands beside replicas that do both", found="two pools and a small model")
    if pools is not None:
        return fleet_of_pools(pools, asked, planned, requests, tables)
    if asked.small_model is None or asked.small_share is None:
        return fleet_of_one_kind(planned, requests, tables)
    small = stated_replicas(CopyQuestion(asked.small_model, asked.small_gpus), asked.small_replicas, tables)
    is_small = drawn_share(dice, requests, asked.small_share)
    return fleet_of_two_models(planned, small, asked.small_share, is_small, requests, tables)


def dealt_out(dealing: Dealing) -> dict[str, Any]:
    """How requests are dealt out, in the words of a cluster; clients that are refused come again at once."""
    return {
        "routing": dealing.route,
        "timeout_s": np.inf if dealing.timeout_s is None else dealing.timeout_s,
        "most_waiting": dealing.max_waiting,
        "retries": dealing.retries,
        "keeps_prefixes": dealing.prefix_cache,
    }


def told_of(
    fleet: SimulatedFleet,
    planned: Replicas,
    arriving: Arriving,
    request: SimulationRequest,
    tables: Catalog,
) -> Replayed:
    """What is said of a replay beside its figures; the closed form knows replicas of one kind without mishaps."""
    calibration, found = calibration_of(tables), fleet.found
    is_plain = len(fleet.copies) == 1 and not request.cache_hits and not request.has_mishaps
    per_replica = rate_of_one(arriving.workload, len(fleet.members)) if is_plain else None
    ratio = None if per_replica is None else load_ratio(found, per_replica, calibration)
    return Replayed(
        replica_of(StepModel.build(found.arch, found.candidates, calibration)),
        fleet.num_alike,
        f"{arriving.load}, {fleet.beside}" if fleet.beside else arriving.load,
        [*found.inputs, *fleet.inputs, *inputs_of(request)],
        [*planned.notes, *found.notes, *arriving.notes, *notes_of(request)],
        ratio,
        fleet.price,
        closed_form(found, per_replica, ratio, calibration),
    )


def notes_of(request: SimulationRequest) -> list[str]:
    """What a response cache is taken to do, and at which price machines count that may be taken away."""
    hits = request.cache_hits
    cached = [f"{hits:.0%} of the requests are answered from the response cache as they come"] if hits else []
    on_spot = "machines on spot count at the price on demand here"
    return cached if request.spot_trace is None else [*cached, on_spot]


def inputs_of(request: SimulationRequest) -> list[Input]:
    """How requests are dealt out, and every further word that somebody said."""
    rows = words_of(SimulationRequest).values()
    said = [row for row in rows if row.label and row.field in request.said]
    inputs = [Input(name=row.label, value=row.shown(getattr(request, row.field)), origin="given") for row in said]
    routing = Input(name="routing", value=request.route.replace("_", " "), origin=request.origin("route"))
    return [routing, *(row for row in inputs if row.name != routing.name)]


def rate_of_one(workload: Workload | None, replicas: int) -> Workload | None:
    """What one replica gets of a workload."""
    if workload is None:
        return None
    classes = tuple(replace(c, rate_requests_per_s=c.rate_requests_per_s / replicas) for c in workload.classes)
    return replace(workload, classes=classes, rate_requests_per_s=workload.rate_requests_per_s / replicas)


def estimate_question(found: FoundCopy, workload: Workload, rate: float) -> EstimateQuestion:
    """The closed form's question of one replica."""
    classes = tuple(replace(c, slo=EVERY_FIGURE) for c in workload.classes)
    asked = replace(workload, classes=classes, slo=EVERY_FIGURE)
    return EstimateQuestion(found.arch, found.candidates, asked, Load("open_loop", rate), Client())


def load_ratio(found: FoundCopy, workload: Workload, calibration: Calibration) -> float | None:
    """The rate of a replica over the most that it sustains; None where the closed form has no answer."""
    try:
        least = solve_estimate(estimate_question(found, workload, LEAST_RATE), calibration).load_ratio
    except GpufleetError:
        return None
    return None if least is None else least * workload.rate_requests_per_s / LEAST_RATE


def closed_form(
    found: FoundCopy, workload: Workload | None, ratio: float | None, calibration: Calibration
) -> dict[str, Figure] | None:
    """Figures of the closed form for requests of one kind, where the load is one that it answers."""
    if workload is None or ratio is None or ratio > HIGHEST_LOAD_RATIO or len(workload.classes) > 1:
        return None
    question = estimate_question(found, workload, workload.rate_requests_per_s)
    try:
        return figures_of(serving_estimate(question, solve_estimate(question, calibration), [], []))
    except GpufleetError:
        return None


def figures_of(estimate: ServingEstimate) -> dict[str, Figure]:
    """The means and percentiles of an estimate by their names."""
    means = {"ttft.mean": estimate.ttft_s, "tpot.mean": estimate.tpot_s, "latency.mean": estimate.latency_s}
    for at in estimate.percentiles:
        name = f"p{at.quantile * PERCENT:g}"
        means |= {f"ttft.{name}": at.ttft_s, f"tpot.{name}": at.tpot_s, f"latency.{name}": at.latency_s}
    return means
