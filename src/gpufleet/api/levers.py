"""Single changes of a question: those that save much, and those that would serve it where nothing does as asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpufleet.answers.decoder_service import SERVICE
from gpufleet.answers.levers import PRECISION, best_first, edge_in_words, lever_in_words, looser_limit, of_deployment
from gpufleet.answers.service_plan import Context, deployment, who_serves
from gpufleet.api.market import USUAL_KINDS, offer_filter
from gpufleet.api.serve_questions import Prepared, serve_question
from gpufleet.catalog.what_if import asked_prices
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.precision import FP8
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.helping import sensible_answer
from gpufleet.optimize.levers import (
    PRICE_KIND,
    REGIONS,
    Bill,
    confidence_lever,
    lengths_lever,
    limit_edges,
    limit_levers,
    market_levers,
    slack_levers,
)
from gpufleet.optimize.levers import Lever as FoundLever
from gpufleet.optimize.looser import LEAST_SAVING_RATIO
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import DEFAULT_CONFIDENCE, DEFAULT_HEADROOM, ServeRequest
from gpufleet.results.levers import Lever
from gpufleet.results.plan import Deployment, Relaxation, ServePlan

USUAL_SLACK = {"headroom_ratio": DEFAULT_HEADROOM, "spare_machines": 0, "zones": 1, "min_replicas": 1}
FIELDS = {"engine": "engine", "clouds": "clouds", "providers": "providers", "GPUs": "gpus"}
CHANGES = {"engine": "any engine", "clouds": "any cloud", "providers": "any provider", "GPUs": "any GPU"}
ALL = "all"
NARROWING = {
    "clouds": "clouds",
    "providers": "providers",
    "regions": "regions",
    "gpus": "GPUs",
    "pricing": "price kinds",
}


def told_levers(prepared: Prepared, contest: Contest, lower: Deployment | None) -> dict[str, Any]:
    """What of a plan says what moves its bill; `lower`: its answer in fp8.

    Where nothing keeps the limits as surely as is usual, a looser question might: what it costs is not known here.
    """
    bill = Bill(prepared.question, prepared.solution, contest)
    found = list(levers_found(prepared, bill)) if prepared.missed_confidence is None else []
    levers = [lever_in_words(bill, lever) for lever in found]
    if lower is not None:
        said = f"{FP8.name} weights", f"--precision {FP8.name}"
        levers.append(of_deployment(PRECISION, *said, lower, bill.usd_per_hour))
    is_sure = prepared.missed_confidence is None
    return {
        "levers": best_first(levers, LEAST_SAVING_RATIO),
        "edges": [edge_in_words(bill, edge) for edge in limit_edges(bill)] if is_sure else [],
        "looser_limits": [looser_limit(x) for x in bill.looser_limits] if is_sure else [],
    }


def levers_found(prepared: Prepared, bill: Bill) -> Iterator[FoundLever]:
    """Changes that need no other replicas than the solution has."""
    request = prepared.request
    yield from limit_levers(bill)
    yield from slack_levers(bill, USUAL_SLACK)
    yield from confidence_lever(bill, DEFAULT_CONFIDENCE)
    yield from lengths_lever(bill)
    if not request.pricing and not request.may_use_spot:
        kinds = [kind for kind in PriceKind if kind not in USUAL_KINDS]
        wanted = replace(offer_filter(request, prepared.tables, None), price_kinds=kinds)
        yield from market_levers(bill, asked_prices(prepared.tables, wanted, request.price_change), PRICE_KIND)
    if request.regions:
        wanted = offer_filter(replace(request, regions=None), prepared.tables, None)
        yield from market_levers(bill, asked_prices(prepared.tables, wanted, request.price_change), REGIONS)


def dear_levers(prepared: Prepared, plan: ServePlan) -> list[Lever]:
    """Changes for which the question is solved again: all engines, clouds, providers or GPUs, lower precision."""
    levers = []
    for what, _, needed, request in variants(prepared):
        if what in FIELDS:
            question = asked_as_surely(request, prepared, plan.confidence)
            solution = solve_serve(question, prepared.calibration)
            if solution.ranked:
                d = deployment(SERVICE, Context.of(question, solution), solution.ranked[0])
                typed = needed if needed.startswith("--") else f"--{FIELDS[what]} {needed}"
                levers.append(of_deployment(FIELDS[what], CHANGES[what], typed, d, plan.answer.usd_per_hour))
    return best_first([*plan.levers, *levers], LEAST_SAVING_RATIO)


def asked_as_surely(request: ServeRequest, prepared: Prepared, confidence: float) -> WriterQuestion:
    """Another request for the same model, whose limits hold with the same confidence."""
    question, _ = serve_question(request, prepared.question.model.arch, prepared.tables)
    return replace(question, demand=replace(question.demand, confidence=confidence))


def other_ways(prepared: Prepared) -> list[Relaxation]:
    """Each of them alone, with the cheapest that serves then."""
    found = []
    for what, asked, needed, request in variants(prepared):
        question = asked_as_surely(request, prepared, prepared.question.demand.confidence)
        answer = sensible_answer(question, solve_serve(question, prepared.calibration))
        if answer is not None:
            found.append(Relaxation(limit=what, asked=asked, needed=needed, candidate=who_serves(answer)))
    return found


def variants(prepared: Prepared) -> Iterator[tuple[str, str, str, ServeRequest]]:
    """What is called how, what was asked of it, what is tried, and the question that tries it."""
    request, palette = prepared.request, prepared.question.model.choices.palette
    if not request.precision and not request.allow_lower_precision:
        own = palette.weight_formats[0].name
        yield "precision", own, "--allow-lower-precision", replace(request, allow_lower_precision=True)
    if request.engine is None:
        yield "engine", palette.engines[0].name, "--engine all", replace(request, engine=ALL)
    for field, what in NARROWING.items():
        said = getattr(request, field)
        if said is not None:
            open_to_all: dict[str, Any] = {field: None}
            yield what, ",".join(said), ALL, replace(request, **open_to_all)
