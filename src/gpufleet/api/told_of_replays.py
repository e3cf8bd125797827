"""What stands beside a replay: its copy in words, its load, and what the closed form says of both."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.answers.serving_estimate import replica_of, serving_estimate
from gpufleet.answers.simulation import Replayed
from gpufleet.api.planned_replicas import Replicas
from gpufleet.api.replayed_requests import Arriving
from gpufleet.api.simulated_copies import FoundCopy
from gpufleet.api.simulated_fleet import SimulatedFleet
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.workload import Workload
from gpufleet.errors import GpufleetError
from gpufleet.optimize.estimate import EVERY_FIGURE, EstimateQuestion, Load, solve_estimate
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO, Client
from gpufleet.performance.step import StepModel
from gpufleet.questions.simulation import InFront, Mishaps, SimulationRequest
from gpufleet.questions.words import words_of
from gpufleet.results.base import Figure, Input
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import PERCENT

LEAST_RATE = 1e-6  # not a conversion: a load at which nothing waits


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
        [*planned.notes, *found.notes, *arriving.notes, *front_notes(request), *spot_notes(request)],
        ratio,
        fleet.price,
        closed_form(found, per_replica, ratio, calibration),
    )


def inputs_of(request: SimulationRequest) -> list[Input]:
    """How requests are dealt out, and every further word that somebody said."""
    rows = words_of(SimulationRequest).values()
    said = [row for row in rows if row.label and row.field in request.said]
    inputs = [Input(name=row.label, value=row.shown(getattr(request, row.field)), origin="given") for row in said]
    routing = Input(name="routing", value=request.route.replace("_", " "), origin=request.origin("route"))
    return [routing, *(row for row in inputs if row.name != routing.name)]


def front_notes(front: InFront) -> list[str]:
    """What a response cache is taken to do."""
    hits = front.cache_hits
    return [f"{hits:.0%} of the requests are answered from the response cache as they come"] if hits else []


def spot_notes(mishaps: Mishaps) -> list[str]:
    """At which price machines count that may be taken away."""
    return [] if mishaps.spot_trace is None else ["machines on spot count at the price on demand here"]


def rate_of_one(workload: Workload | None, replicas: int) -> Workload | None:
    """What one replica gets of a workload."""
    if workload is None:
        return None
    classes = tuple(replace(c, rate_requests_per_s=c.rate_requests_per_s / replicas) for c in workload.classes)
    return replace(workload, classes=classes, rate_requests_per_s=workload.rate_requests_per_s / replicas)


def question_of(found: FoundCopy, workload: Workload, rate: float) -> EstimateQuestion:
    """The closed form's question of one replica."""
    classes = tuple(replace(c, slo=EVERY_FIGURE) for c in workload.classes)
    asked = replace(workload, classes=classes, slo=EVERY_FIGURE)
    return EstimateQuestion(found.arch, found.candidates, asked, Load("open_loop", rate), Client())


def load_ratio(found: FoundCopy, workload: Workload, calibration: Calibration) -> float | None:
    """The rate of a replica over the most that it sustains; None where the closed form has no answer."""
    try:
        least = solve_estimate(question_of(found, workload, LEAST_RATE), calibration).load_ratio
    except GpufleetError:
        return None
    return None if least is None else least * workload.rate_requests_per_s / LEAST_RATE


def closed_form(
    found: FoundCopy, workload: Workload | None, ratio: float | None, calibration: Calibration
) -> dict[str, Figure] | None:
    """Figures of the closed form for requests of one kind, where the load is one that it answers."""
    if workload is None or ratio is None or ratio > HIGHEST_LOAD_RATIO or len(workload.classes) > 1:
        return None
    question = question_of(found, workload, workload.rate_requests_per_s)
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
