"""The front of cost against latency, as users get it."""

from __future__ import annotations

from gpufleet.answers.decoder_service import SERVICE
from gpufleet.answers.service_plan import Context, deployment
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.front import pareto_front
from gpufleet.results.plan import Front


def front_of(question: WriterQuestion, solution: WriterSolution, figure: str) -> Front:
    """Every deployment of the front, with its figures at the asked rate."""
    context = Context.of(question, solution)
    points = pareto_front(question, solution, figure)
    return Front(figure=figure, points=[deployment(SERVICE, context, point.priced) for point in points])
