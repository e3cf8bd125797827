"""What a question left out of the search and would serve it: lower precision, other engines, more to rent from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpufleet.answers.service_plan import who_serves
from gpufleet.api.prepared import Prepared
from gpufleet.api.requests import ServeRequest
from gpufleet.api.serve_questions import serve_question
from gpufleet.optimize.helping import sensible_answer
from gpufleet.optimize.service import solve_serve
from gpufleet.results.plan import Relaxation

ALL = "all"
NARROWING = {
    "clouds": "clouds",
    "providers": "providers",
    "regions": "regions",
    "gpus": "GPUs",
    "pricing": "price kinds",
}


def other_ways(prepared: Prepared) -> list[Relaxation]:
    """Each of them alone, with the cheapest that serves then."""
    found = []
    for what, asked, needed, request in variants(prepared):
        question, _ = serve_question(request, prepared.question.model.arch, prepared.tables)
        demand = replace(question.demand, confidence=prepared.question.demand.confidence)
        question = replace(question, demand=demand)
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
