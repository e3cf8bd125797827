"""The front of cost against latency, as users get it."""

from __future__ import annotations

from gpufleet.answers.serve_plan import Context, deployment
from gpufleet.optimize.front import pareto_front
from gpufleet.optimize.service import ServeQuestion, ServeSolution
from gpufleet.results.plan import Front


def front_of(question: ServeQuestion, solution: ServeSolution, figure: str) -> Front:
    """Every deployment of the front, with its figures at the asked rate."""
    context = Context.of(question, solution)
    points = pareto_front(question, solution, figure)
    return Front(figure=figure, points=[deployment(context, point.priced) for point in points])
